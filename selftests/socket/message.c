// SPDX-License-Identifier: GPL-2.0
/* Messages: every size, in order, none lost, whatever the buffers. */
#include <pthread.h>
#include <sys/epoll.h>
#include <linux/sockios.h>

#include "superp_test.h"

FIXTURE(pair)
{
	int cid;
	int a, b;
	void *out, *in;
};

FIXTURE_VARIANT(pair)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(pair, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(pair, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(pair, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(pair, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(pair)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->out = memory(SUPERP_MAX_MESSAGE + 1);
	self->in = memory(SUPERP_MAX_MESSAGE + 1);
	ASSERT_NE(NULL, self->out);
	ASSERT_NE(NULL, self->in);
}

FIXTURE_TEARDOWN(pair)
{
	link_clean();
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

/* Sizes around everything that has a border. */
static const uint32_t sizes[] = {
	0, 1, 2, 15, 16, 17, 31, 32, 33, 191, 192, 193, 4095, 4096, 4097,
	8900, 8901, 8915, 8916, 8917, 8931, 8932, 8933, 8951, 8952, 8953, 8954,
	8967, 8968, 8969, 8979, 8980, 8981, 8991, 8992, 8993, 8999, 9000, 9001,
	17904, 17905, 65535, 65536, 65537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
	SUPERP_MAX_MESSAGE - 1, SUPERP_MAX_MESSAGE,
};

TEST_F_TIMEOUT(pair, sizes__arrive_whole, slowly(120))
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t size = sizes[i];

		pattern_fill(self->out, size, i);
		ASSERT_EQ((ssize_t)size, send(self->a, self->out, size, 0)) {
			TH_LOG("send of %u: %s", size, strerror(errno));
		}
		ASSERT_EQ((ssize_t)size, recv(self->b, self->in, SUPERP_MAX_MESSAGE + 1, 0)) {
			TH_LOG("recv of %u: %s", size, strerror(errno));
		}
		ASSERT_EQ(-1, pattern_check(self->in, size, i)) {
			TH_LOG("message of %u bytes differs at %zd", size,
			       pattern_check(self->in, size, i));
		}
	}
	EXPECT_EQ(0, superp_error(self->a));
	EXPECT_EQ(0, superp_error(self->b));
}

TEST_F(pair, several_in_one_call__arrive_in_order)
{
	enum { COUNT = 20, SIZE = 1000 };
	struct mmsghdr out[COUNT] = {}, in[COUNT] = {};
	struct iovec from[COUNT], to[COUNT];
	unsigned int i, got = 0;

	for (i = 0; i < COUNT; i++) {
		from[i] = (struct iovec) { (char *)self->out + i * SIZE, SIZE - i };
		to[i] = (struct iovec) { (char *)self->in + i * SIZE, SIZE };
		out[i].msg_hdr = (struct msghdr) { .msg_iov = &from[i], .msg_iovlen = 1 };
		in[i].msg_hdr = (struct msghdr) { .msg_iov = &to[i], .msg_iovlen = 1 };
		pattern_fill(from[i].iov_base, from[i].iov_len, i);
	}
	ASSERT_EQ(COUNT, sendmmsg(self->a, out, COUNT, 0));
	while (got < COUNT) {
		int more = recvmmsg(self->b, in + got, COUNT - got, MSG_WAITFORONE, NULL);

		ASSERT_LT(0, more);
		got += more;
	}
	for (i = 0; i < COUNT; i++) {
		EXPECT_EQ(SIZE - i, in[i].msg_len);
		EXPECT_EQ(-1, pattern_check(to[i].iov_base, SIZE - i, i));
	}
}

TEST_F(pair, sizes__too_large)
{
	EXPECT_EQ(-1, send(self->a, self->out, SUPERP_MAX_MESSAGE + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
}

/* B answers nothing any more: what arrives was sent without waiting for an answer. */
TEST_F(pair, next_ones__do_not_wait_for_an_answer)
{
	/* Their order would be lost. */
	unsigned int count = variant->options.unordered ? 1 : 3;
	unsigned int i;

	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_EQ(1, recv(self->b, self->in, 10, 0));
	ASSERT_EQ(0, run("tc -n %s qdisc replace dev eth0 root netem loss 100%%", node_b.name));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(10000, send(self->a, self->out, 10000, 0));
	for (i = 0; i < count; i++) {
		ASSERT_TRUE(superp_poll(self->b, POLLIN, 5000) & POLLIN) {
			TH_LOG("message %u", i);
		}
		ASSERT_EQ(10000, recv(self->b, self->in, 20000, 0));
	}
}

TEST_F_TIMEOUT(pair, both_ways__at_once, slowly(60))
{
	int i;

	for (i = 0; i < 200; i++) {
		uint32_t size = 100 + i * 331;

		pattern_fill(self->out, size, i);
		ASSERT_EQ((ssize_t)size, send(self->a, self->out, size, 0));
		ASSERT_EQ((ssize_t)size, send(self->b, self->out, size, 0));
		ASSERT_EQ((ssize_t)size, recv(self->a, self->in, SUPERP_MAX_MESSAGE, 0));
		ASSERT_EQ(-1, pattern_check(self->in, size, i));
		ASSERT_EQ((ssize_t)size, recv(self->b, self->in, SUPERP_MAX_MESSAGE, 0));
		ASSERT_EQ(-1, pattern_check(self->in, size, i));
	}
}

/* A message that does not match its number and size stops the test. */
struct stream {
	int		fd;
	unsigned int	count;
	unsigned int	errors;
	uint32_t	largest;
	unsigned int	pause;		/* microseconds after each */
};

static uint32_t stream_size(const struct stream *stream, unsigned int i)
{
	return i % 7 ? (i * 7919) % stream->largest : i % 3;
}

static void *stream_send(void *data)
{
	struct stream *stream = data;
	uint8_t *buffer = malloc(stream->largest + 1);
	unsigned int i;

	for (i = 0; i < stream->count; i++) {
		uint32_t size = stream_size(stream, i);

		pattern_fill(buffer, size, i);
		if (send(stream->fd, buffer, size, MSG_NOSIGNAL) != (ssize_t)size) {
			fprintf(stderr, "send %u: %s\n", i, strerror(errno));
			stream->errors++;
			break;
		}
		if (stream->pause)
			usleep(stream->pause);
	}
	free(buffer);
	return NULL;
}

static void *stream_receive(void *data)
{
	struct stream *stream = data;
	uint8_t *buffer = malloc(stream->largest + 1);
	unsigned int i;

	for (i = 0; i < stream->count; i++) {
		uint32_t size = stream_size(stream, i);
		ssize_t got = recv(stream->fd, buffer, stream->largest + 1, 0);

		if (got != (ssize_t)size || pattern_check(buffer, size, i) >= 0) {
			fprintf(stderr, "message %u: %zd of %u bytes, %s\n", i, got,
				size, got < 0 ? strerror(errno) : "differs");
			stream->errors++;
			break;
		}
		if (stream->pause)
			usleep(stream->pause);
	}
	free(buffer);
	return NULL;
}

TEST_F_TIMEOUT(pair, receive_buffer_full__nothing_lost_and_in_order, slowly(120))
{
	struct stream out = { .fd = self->a, .count = 1000, .largest = 20000 };
	struct stream in = {
		.fd = self->b, .count = 1000, .largest = 20000, .pause = 200,
	};
	pthread_t sender;

	/* Room for a few messages only. */
	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 30000));
	ASSERT_EQ(0, pthread_create(&sender, NULL, stream_send, &out));
	stream_receive(&in);
	pthread_join(sender, NULL);
	EXPECT_EQ(0, out.errors);
	EXPECT_EQ(0, in.errors);
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F_TIMEOUT(pair, bad_link__nothing_lost_and_in_order, slowly(60))
{
	struct stream out = { .fd = self->a, .count = 300, .largest = 9000 };
	struct stream in = { .fd = self->b, .count = 300, .largest = 9000 };
	pthread_t sender;

	ASSERT_EQ(0, link_netem("delay 1ms 1ms loss 3% duplicate 3%"));
	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 30000));
	ASSERT_EQ(0, pthread_create(&sender, NULL, stream_send, &out));
	stream_receive(&in);
	pthread_join(sender, NULL);
	EXPECT_EQ(0, out.errors);
	EXPECT_EQ(0, in.errors);
}

TEST_F_TIMEOUT(pair, nobody_receives__sender_waits_and_nothing_is_lost, slowly(60))
{
	static char message[3000];
	unsigned int sent = 0, i;
	ssize_t got;

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 30000));
	ASSERT_EQ(0, superp_set(self->a, SO_SNDBUF, 30000));
	for (;;) {
		pattern_fill(message, sizeof(message), sent);
		got = send(self->a, message, sizeof(message), MSG_DONTWAIT);
		if (got < 0) {
			ASSERT_EQ(EAGAIN, errno);
			/* Until it stays so. */
			if (!(superp_poll(self->a, POLLOUT, 300) & POLLOUT))
				break;
			continue;
		}
		ASSERT_EQ((ssize_t)sizeof(message), got);
		sent++;
		ASSERT_GT(1000, sent);
	}
	ASSERT_LE(10, sent);
	EXPECT_LE(3000 * 5, ({ int n = 0; ioctl(self->a, SIOCOUTQ, &n); n; }));

	/* SO_SNDTIMEO. */
	struct timeval time = { .tv_usec = 50000 };

	ASSERT_EQ(0, setsockopt(self->a, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)));
	EXPECT_EQ(-1, send(self->a, message, sizeof(message), 0));
	EXPECT_EQ(EAGAIN, errno);

	for (i = 0; i < sent; i++) {
		ASSERT_EQ((ssize_t)sizeof(message), recv(self->b, message, sizeof(message), 0));
		ASSERT_EQ(-1, pattern_check(message, sizeof(message), i));
	}
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 100));
	EXPECT_EQ(POLLOUT, superp_poll(self->a, POLLOUT, 1000));
	/* Acknowledged messages no longer count. */
	for (i = 0; i < 100 && ({ int n = 0; ioctl(self->a, SIOCOUTQ, &n); n; }); i++)
		usleep(10000);
	EXPECT_GT(100, i);
}

TEST_F_TIMEOUT(pair, epoll_edge__tells_of_room_once_more, slowly(60))
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	static char message[3000];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int sent = 0;

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 8000));
	ASSERT_EQ(0, superp_set(self->a, SO_SNDBUF, 8000));
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->a, &event));
	do {
		while (send(self->a, message, sizeof(message), MSG_DONTWAIT) > 0)
			sent++;
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_GT(1000, sent);
	} while (epoll_wait(epoll, &event, 1, 300) == 1);
	while (sent-- > 0)
		ASSERT_EQ((ssize_t)sizeof(message), recv(self->b, message, sizeof(message), 0));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 2000));
	EXPECT_EQ(EPOLLOUT, event.events);
}

TEST_F(pair, receive__truncates_peeks_and_tells_the_size)
{
	struct iovec iov = { .iov_base = self->in, .iov_len = 10 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int size = -1;

	pattern_fill(self->out, 5000, 1);
	ASSERT_EQ(5000, send(self->a, self->out, 5000, 0));
	ASSERT_EQ(7, send(self->a, "1234567", 7, 0));
	ASSERT_TRUE(superp_poll(self->b, POLLIN, 5000) & POLLIN);
	ASSERT_EQ(0, ioctl(self->b, FIONREAD, &size));
	EXPECT_EQ(5000, size);
	EXPECT_EQ(5000, recv(self->b, NULL, 0, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(5000, recv(self->b, self->in, 6000, MSG_PEEK));
	EXPECT_EQ(-1, pattern_check(self->in, 5000, 1));

	ASSERT_EQ(10, recvmsg(self->b, &msg, 0));
	EXPECT_EQ(MSG_TRUNC | MSG_EOR, msg.msg_flags & (MSG_TRUNC | MSG_EOR));
	/* The rest is gone: the next one is next. */
	ASSERT_EQ(7, recvmsg(self->b, &msg, 0));
	EXPECT_EQ(MSG_EOR, msg.msg_flags & (MSG_TRUNC | MSG_EOR));
	EXPECT_EQ(0, memcmp(self->in, "1234567", 7));
	ASSERT_EQ(0, ioctl(self->b, FIONREAD, &size));
	EXPECT_EQ(0, size);
	EXPECT_EQ(-1, recv(self->b, self->in, 10, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(pair, receive__empty_message_is_not_the_end)
{
	struct msghdr msg = {};

	ASSERT_EQ(0, send(self->a, NULL, 0, 0));
	EXPECT_EQ(0, recvmsg(self->b, &msg, 0));
	EXPECT_TRUE(msg.msg_flags & MSG_EOR);
	ASSERT_EQ(0, shutdown(self->b, SHUT_RD));
	EXPECT_EQ(0, recvmsg(self->b, &msg, 0));
	EXPECT_FALSE(msg.msg_flags & MSG_EOR);
}

TEST_F(pair, receive__tells_where_from)
{
	int encap = variant->options.encap;
	struct sockaddr_superp want = superp_name(&node_a, encap, 0);
	struct sockaddr_superp from;
	socklen_t len = sizeof(from);
	char byte;

	memset(&from, 0xff, sizeof(from));
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_EQ(1, recvfrom(self->b, &byte, 1, 0, (struct sockaddr *)&from, &len));
	EXPECT_EQ(sizeof(from), len);
	want.ssp_cid = self->cid + 1;
	EXPECT_EQ(0, memcmp(&want, &from, sizeof(from)));
}

static void ignore(int signal)
{
}

TEST_F(pair, receive__timeout_and_signal)
{
	struct timeval time = { .tv_usec = 50000 };
	struct sigaction action = { .sa_handler = ignore };
	char byte;

	ASSERT_EQ(0, setsockopt(self->b, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	EXPECT_EQ(-1, recv(self->b, &byte, 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	time.tv_sec = 20;
	ASSERT_EQ(0, setsockopt(self->b, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	ualarm(50000, 0);
	EXPECT_EQ(-1, recv(self->b, &byte, 1, 0));
	EXPECT_EQ(EINTR, errno);
}

/* The peer falls silent. Another socket finds out, by the timer of the connection that both use. */
TEST_F_TIMEOUT(pair, connection_breaks__who_only_receives_is_told, slowly(60))
{
	struct timeval time = { .tv_sec = slowly(20) };
	int sender;
	char byte;

	ASSERT_EQ(0, setsockopt(self->a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	sender = superp_open(&node_a, 0, &node_b, variant->options.encap, QPN_B);
	ASSERT_LE(0, sender);
	ASSERT_EQ(1, send(self->b, "x", 1, 0));
	ASSERT_EQ(1, recv(self->a, &byte, 1, 0));
	ASSERT_EQ(0, link_netem("loss 100%"));
	ASSERT_EQ(1, send(sender, "x", 1, 0));
	EXPECT_EQ(-1, recv(self->a, &byte, 1, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	close(sender);
}

TEST_F(pair, send__to_a_given_destination)
{
	int encap = variant->options.encap;
	struct sockaddr_superp to = superp_name(&node_b, encap, QPN_B);
	int fd = superp_socket(&node_a);
	char bytes[8];

	ASSERT_LE(0, fd);
	ASSERT_EQ(5, sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	ASSERT_EQ(5, recv(self->b, bytes, sizeof(bytes), 0));
	EXPECT_EQ(0, memcmp("hello", bytes, 5));
	to.ssp_qpn = 0;
	EXPECT_EQ(-1, sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	EXPECT_EQ(EDESTADDRREQ, errno);
	close(fd);
}

TEST_F(pair, send__to_nobody)
{
	int encap = variant->options.encap;
	struct superp_completion completion = {};
	int fd = superp_open(&node_a, 0, &node_b, encap, 4444);

	ASSERT_LE(0, fd);
	ASSERT_EQ(5, send(fd, "hello", 5, 0));
	ASSERT_TRUE(superp_poll(fd, 0, 5000) & POLLERR);
	/* Once as the pending error, and on the error queue. */
	EXPECT_EQ(ECONNREFUSED, superp_error(fd));
	EXPECT_EQ(0, superp_error(fd));
	ASSERT_EQ(0, completion_take(fd, &completion));
	EXPECT_EQ(0, completion.op);
	EXPECT_EQ(5, completion.length);
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	EXPECT_EQ(ECONNREFUSED, completion.error);
	EXPECT_EQ(POLLOUT, superp_poll(fd, POLLOUT, 0));
	close(fd);
	/* Others over the connection do not suffer. */
	ASSERT_EQ(5, send(self->a, "hello", 5, 0));
	ASSERT_EQ(5, recv(self->b, self->in, 5, 0));
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F(pair, shutdown__of_sending)
{
	char byte;

	ASSERT_EQ(2, send(self->a, "ab", 2, 0));
	ASSERT_EQ(0, shutdown(self->a, SHUT_WR));
	EXPECT_EQ(-1, send(self->a, "c", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	/* What was sent before arrives; the other direction stays. */
	EXPECT_EQ(2, recv(self->b, self->in, 10, 0));
	ASSERT_EQ(1, send(self->b, "d", 1, 0));
	EXPECT_EQ(1, recv(self->a, &byte, 1, 0));
	EXPECT_EQ(-1, shutdown(self->a, 3));
	EXPECT_EQ(EINVAL, errno);
}

static volatile sig_atomic_t pipes;

static void count_pipe(int signal)
{
	pipes++;
}

TEST_F(pair, shutdown__of_sending_raises_sigpipe)
{
	struct sigaction action = { .sa_handler = count_pipe };

	ASSERT_EQ(0, sigaction(SIGPIPE, &action, NULL));
	ASSERT_EQ(0, shutdown(self->a, SHUT_WR));
	EXPECT_EQ(-1, send(self->a, "c", 1, MSG_NOSIGNAL));
	EXPECT_EQ(0, pipes);
	EXPECT_EQ(-1, send(self->a, "c", 1, 0));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, pipes);
}

TEST_F(pair, shutdown__of_receiving)
{
	ASSERT_EQ(1, send(self->a, "a", 1, 0));
	ASSERT_TRUE(superp_poll(self->b, POLLIN, 5000) & POLLIN);
	ASSERT_EQ(0, shutdown(self->b, SHUT_RD));
	/* What was there is there, then comes the end. */
	EXPECT_EQ(1, recv(self->b, self->in, 10, 0));
	EXPECT_EQ(0, recv(self->b, self->in, 10, 0));
	EXPECT_EQ(POLLIN | POLLRDHUP, superp_poll(self->b, POLLIN | POLLRDHUP, 0));
	ASSERT_EQ(1, send(self->a, "b", 1, 0));
	ASSERT_TRUE(superp_poll(self->a, 0, 5000) & POLLERR);
	EXPECT_EQ(ECONNREFUSED, superp_error(self->a));
	ASSERT_EQ(0, shutdown(self->b, SHUT_WR));
	EXPECT_TRUE(superp_poll(self->b, 0, 0) & POLLHUP);
}

static void *shutdown_later(void *data)
{
	usleep(100000);
	shutdown(*(int *)data, SHUT_RDWR);
	return NULL;
}

TEST_F(pair, shutdown__wakes_who_waits)
{
	pthread_t thread;
	char byte;

	ASSERT_EQ(0, pthread_create(&thread, NULL, shutdown_later, &self->b));
	EXPECT_EQ(0, recv(self->b, &byte, 1, 0));
	pthread_join(thread, NULL);
}

#define MANY 64

TEST_F_TIMEOUT(pair, many_sockets__share_the_connection, slowly(120))
{
	int encap = variant->options.encap;
	int a[MANY], b[MANY], i, round;

	for (i = 0; i < MANY; i++) {
		a[i] = superp_open(&node_a, 10000 + i, &node_b, encap, 20000 + i);
		b[i] = superp_open(&node_b, 20000 + i, &node_a, encap, 10000 + i);
		ASSERT_LE(0, a[i]);
		ASSERT_LE(0, b[i]);
	}
	for (round = 0; round < 5; round++) {
		for (i = 0; i < MANY; i++) {
			uint32_t size = (i * 97 + round * 1000) % 12000;

			pattern_fill(self->out, size, i + round);
			ASSERT_EQ((ssize_t)size, send(a[i], self->out, size, 0));
		}
		for (i = MANY - 1; i >= 0; i--) {
			uint32_t size = (i * 97 + round * 1000) % 12000;

			ASSERT_EQ((ssize_t)size, recv(b[i], self->in, 12000, 0));
			ASSERT_EQ(-1, pattern_check(self->in, size, i + round)) {
				TH_LOG("socket %d round %d", i, round);
			}
		}
	}
	EXPECT_EQ(MANY + 1, node_count(&node_a, SUPERP_A_NODE_QPS));
	for (i = 0; i < MANY; i++) {
		close(a[i]);
		close(b[i]);
	}
	EXPECT_EQ(1, node_count(&node_a, SUPERP_A_NODE_QPS));
}

/* One that does not receive must not hold up the others. */
TEST_F_TIMEOUT(pair, slow_receiver__does_not_block_others, slowly(60))
{
	int encap = variant->options.encap;
	struct stream out = { .count = 300, .largest = 9000 };
	struct stream in = { .count = 300, .largest = 9000 };
	pthread_t sender;

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 4000));
	while (send(self->a, self->out, 3000, MSG_DONTWAIT) > 0)
		;
	ASSERT_EQ(EAGAIN, errno);
	out.fd = superp_open(&node_a, 0, &node_b, encap, 3333);
	in.fd = superp_open(&node_b, 3333, &node_a, encap, 0);
	ASSERT_LE(0, out.fd);
	ASSERT_LE(0, in.fd);
	ASSERT_EQ(0, pthread_create(&sender, NULL, stream_send, &out));
	stream_receive(&in);
	pthread_join(sender, NULL);
	EXPECT_EQ(0, out.errors);
	EXPECT_EQ(0, in.errors);
}

TEST_F(pair, connected__hears_only_its_peer)
{
	int other = variant->options.encap == SUPERP_ENCAP_UDP6 ?
		    SUPERP_ENCAP_UDP4 : SUPERP_ENCAP_UDP6;
	struct conn_options options = { .encap = other };
	int cid = self->cid + 2, fd;

	ASSERT_EQ(0, conn_up(cid, &options));
	fd = superp_open(&node_a, 0, &node_b, other, QPN_B);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, send(fd, "x", 1, 0));
	ASSERT_TRUE(superp_poll(fd, 0, 5000) & POLLERR);
	EXPECT_EQ(ECONNREFUSED, superp_error(fd));
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 0));
	close(fd);
	conn_down(cid);
}

FIXTURE(strict)
{
	int cid;
	int a, b;
};

FIXTURE_SETUP(strict)
{
	struct conn_options options = {
		.encap = SUPERP_ENCAP_SUNH,
		.strict = true,
	};

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	self->a = superp_open(&node_a, QPN_A, &node_b, options.encap, QPN_B);
	self->b = superp_open(&node_b, QPN_B, &node_a, options.encap, QPN_A);
	ASSERT_LE(0, self->a);
	ASSERT_LE(0, self->b);
}

FIXTURE_TEARDOWN(strict)
{
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

TEST_F_TIMEOUT(strict, sizes__from_16_bytes_to_one_transaction, slowly(60))
{
	struct superp_qp_info info = {};
	uint8_t *out, *in;
	uint32_t list[] = {
		16, 17, 31, 32, 33, 4096, 8951, 8952, 8953, 8963, 8964, 8965,
		65536, 0,
	};
	unsigned int i;

	ASSERT_EQ(0, ioctl(self->a, SUPERP_IOC_QP_INFO, &info));
	EXPECT_EQ(16, info.min_message);
	EXPECT_LT(65536, info.max_message);
	EXPECT_GT(SUPERP_MAX_MESSAGE, info.max_message);
	EXPECT_EQ(SUPERP_QP_F_ORDERED, info.flags);
	list[ARRAY_SIZE(list) - 1] = info.max_message;
	out = memory(info.max_message + 1);
	in = memory(info.max_message + 1);

	EXPECT_EQ(-1, send(self->a, out, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->a, out, 15, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->a, out, info.max_message + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		pattern_fill(out, list[i], i);
		ASSERT_EQ((ssize_t)list[i], send(self->a, out, list[i], 0));
		ASSERT_EQ((ssize_t)list[i], recv(self->b, in, info.max_message, 0));
		ASSERT_EQ(-1, pattern_check(in, list[i], i)) {
			TH_LOG("message of %u bytes", list[i]);
		}
	}
}

TEST_F_TIMEOUT(strict, receive_buffer_full__nothing_lost, slowly(60))
{
	unsigned int i, sent = 0;
	static char message[3000];

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 8000));
	ASSERT_EQ(0, superp_set(self->a, SO_SNDBUF, 30000));
	do {
		pattern_fill(message, sizeof(message), sent);
		while (send(self->a, message, sizeof(message), MSG_DONTWAIT) > 0)
			pattern_fill(message, sizeof(message), ++sent);
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_GT(1000, sent);
	} while (superp_poll(self->a, POLLOUT, 300) & POLLOUT);
	for (i = 0; i < sent; i++) {
		ASSERT_EQ((ssize_t)sizeof(message), recv(self->b, message, sizeof(message), 0));
		ASSERT_EQ(-1, pattern_check(message, sizeof(message), i));
	}
	EXPECT_EQ(0, superp_error(self->a));
}

SUPERP_TEST_MAIN
