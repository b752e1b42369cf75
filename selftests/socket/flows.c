// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that wait for very many queue pairs of a peer: when their connection ends, others do not
 * notice.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "superp_test.h"

#define FLOWS 48000
#define SOCKETS 4000
/* Messages of a system call. */
#define AT_ONCE 64

FIXTURE(flows)
{
	struct conn_options options;
	int cid;		/* of a connection whose peer is not there */
	int fds[SOCKETS];
	int count;		/* sockets */
};

FIXTURE_SETUP(flows)
{
	self->options.encap = SUPERP_ENCAP_SUNH;
	self->cid = conn_id();
	self->count = 0;
	ASSERT_EQ(0, conn_half(&node_a, &node_b, self->cid, self->cid + 1, &self->options));
}

FIXTURE_TEARDOWN(flows)
{
	while (self->count)
		close(self->fds[--self->count]);
	conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/*
 * @count empty messages, each to a queue pair of its own, from @qpn on, by as many sockets as that
 * takes. 0, or -1.
 */
static int spread(struct _test_data_flows *self, uint32_t qpn, unsigned int count)
{
	struct sockaddr_superp to[AT_ONCE];
	struct mmsghdr messages[AT_ONCE];
	int fd = -1;

	while (count) {
		unsigned int i;
		int sent = 0;

		for (i = 0; i < AT_ONCE; i++) {
			to[i] = superp_name(&node_b, self->options.encap, qpn + i);
			to[i].ssp_cid = self->cid;
			messages[i] = (struct mmsghdr) {
				.msg_hdr = { .msg_name = &to[i], .msg_namelen = sizeof(to[i]) },
			};
		}
		if (fd >= 0)
			sent = sendmmsg(fd, messages, count < i ? count : i, MSG_DONTWAIT);
		if (sent > 0) {
			qpn += sent;
			count -= sent;
			continue;
		}
		if (fd >= 0 && errno != EAGAIN) {
			perror("sendmmsg");
			return -1;
		}
		fd = superp_socket(&node_a);
		if (fd < 0 || self->count == SOCKETS) {
			perror("socket");
			return -1;
		}
		self->fds[self->count++] = fd;
	}
	return 0;
}

struct other {
	int		fd;
	atomic_bool	over;
	uint64_t	longest;	/* ns */
	unsigned int	rounds;
	int		status;
};

/* On the one processor that the test is kept to. */
static int stay(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/* A socket of @node, for round trips to @peer over this connection and no other. */
static int open_over(const struct node *node, uint32_t qpn, const struct node *peer, int encap,
		     uint32_t peer_qpn, int cid)
{
	struct sockaddr_superp to = superp_name(peer, encap, peer_qpn);
	int fd = superp_socket(node);

	to.ssp_cid = cid;
	if (fd < 0 || superp_bind(fd, qpn) || connect(fd, (void *)&to, sizeof(to))) {
		perror("open");
		return -1;
	}
	return fd;
}

/* Round trips over another connection, by the processor that has to end the requests. */
static void *goes_on(void *argument)
{
	struct superp_rma nothing = { .op = SUPERP_RMA_WRITE };
	struct other *other = argument;
	struct superp_completion completion;

	while (!atomic_load(&other->over)) {
		uint64_t begin = now_ns(), took;

		other->status = rma_run(other->fd, &nothing, &completion);
		if (other->status)
			break;
		took = now_ns() - begin;
		if (took > other->longest)
			other->longest = took;
		other->rounds++;
	}
	return NULL;
}

TEST_F_TIMEOUT(flows, their_connection_goes__others_go_on, slowly(60))
{
	struct other other = {};
	pthread_t thread;
	uint64_t begin;
	int b, i;

	ASSERT_EQ(0, spread(self, 1000, FLOWS));
	ASSERT_EQ(0, stay());
	ASSERT_EQ(0, conn_up(self->cid + 2, &self->options));
	other.fd = open_over(&node_a, QPN_A, &node_b, self->options.encap, QPN_B, self->cid + 2);
	b = open_over(&node_b, QPN_B, &node_a, self->options.encap, QPN_A, self->cid + 3);
	ASSERT_LE(0, other.fd);
	ASSERT_LE(0, b);
	ASSERT_EQ(0, pthread_create(&thread, NULL, goes_on, &other));
	usleep(100000);
	begin = now_ns();
	ASSERT_EQ(0, conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid));
	TH_LOG("gone after %llu ms", (unsigned long long)(now_ns() - begin) / 1000000);
	usleep(100000);
	atomic_store(&other.over, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u round trips, the longest %llu us", other.rounds,
	       (unsigned long long)other.longest / 1000);
	EXPECT_EQ(0, other.status);
	EXPECT_LT(10, other.rounds);
	/* Under the lock, all at once, they took three seconds. */
	EXPECT_GT(slowly(1000) * 1000000ull, other.longest);
	/* Each socket is told. */
	for (i = 0; i < self->count; i++)
		EXPECT_EQ(ECONNRESET, superp_error(self->fds[i]));
	close(other.fd);
	close(b);
	conn_down(self->cid + 2);
}

SUPERP_TEST_MAIN
