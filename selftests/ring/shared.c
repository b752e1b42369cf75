// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues: many queue pairs, one ring of buffers. */
#include <sys/eventfd.h>

#include "superp_ring.h"

#define AREA (4 << 20)
#define ALL (SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE)
#define QPS 4
#define ENTRIES 16
#define ROOM (AREA / ENTRIES)
#define WAIT_MS 20000

/* A sends from queue pairs, B receives with as many from one queue. */
FIXTURE(shared)
{
	int cid;
	struct context a, b;
	struct cq send_cq, recv_cq;
	struct qp from[QPS], to[QPS];
	struct srq srq;
	uint8_t *memory_a, *memory_b;
	struct superp_mr_reg mr_a, mr_b;
};

FIXTURE_VARIANT(shared)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(shared, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(shared, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(shared, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(shared)
{
	int i, encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, context_open(&self->a, &node_a));
	ASSERT_EQ(0, context_open(&self->b, &node_b));
	ASSERT_EQ(0, cq_create(&self->a, &self->send_cq, 256));
	ASSERT_EQ(0, cq_create(&self->b, &self->recv_cq, 64));
	ASSERT_EQ(0, srq_create(&self->b, &self->srq, ENTRIES, 2));
	for (i = 0; i < QPS; i++) {
		ASSERT_EQ(0, qp_create(&self->a, &self->from[i], &self->send_cq, 64, NULL, 0));
		ASSERT_EQ(0, qp_create_shared(&self->b, &self->to[i], &self->recv_cq, 1,
					      &self->recv_cq, &self->srq));
		ASSERT_EQ(0, qp_connect(&self->a, &self->from[i], &node_b, encap,
					self->to[i].qpn));
		ASSERT_EQ(0, qp_connect(&self->b, &self->to[i], &node_a, encap, 0));
	}
	self->memory_a = mr_memory(self->a.fd, AREA, ALL, &self->mr_a);
	self->memory_b = mr_memory(self->b.fd, AREA, ALL, &self->mr_b);
	ASSERT_NE(NULL, self->memory_a);
	ASSERT_NE(NULL, self->memory_b);
}

FIXTURE_TEARDOWN(shared)
{
	context_close(&self->a);
	context_close(&self->b);
	conn_down(self->cid);
}

/* Gives the shared queue part @part of B's memory, with @length bytes of it. */
static bool buffer_put(FIXTURE_DATA(shared) *self, uint32_t part, uint32_t length)
{
	struct superp_rqe entry = {
		.addr = self->mr_b.addr + part * ROOM,
		.key = self->mr_b.key,
		.length = length,
		.token = part,
	};

	return srq_put(&self->srq, &entry);
}

/* Queue pair @i of A sends @length bytes from @at. */
static int message_post(FIXTURE_DATA(shared) *self, uint32_t i, size_t at, uint32_t length)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->mr_a, at, NULL, 0, length);

	entry.token = i;
	return post(&self->a, &self->from[i], &entry);
}

static int srq_tell(FIXTURE_DATA(shared) *self, uint32_t srq, int fd)
{
	struct superp_srq_eventfd choice = { .srq = srq, .fd = fd };

	return ioctl(self->b.fd, SUPERP_IOC_SRQ_EVENTFD, &choice) ? errno : 0;
}

/* One message, which B receives; true: the limit is told of. */
static bool low_after_message(FIXTURE_DATA(shared) *self, int fd)
{
	struct superp_cqe completion;
	uint64_t count;

	if (message_post(self, 0, 0, 100) || !cq_wait(&self->recv_cq, &completion, WAIT_MS) ||
	    !cq_wait(&self->send_cq, &completion, WAIT_MS))
		return false;
	/* The message is acknowledged after it is told. */
	return read(fd, &count, sizeof(count)) == sizeof(count) && count == 1;
}

TEST_F(shared, limit__is_told_once_when_fewer_entries_are_left)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	uint32_t i, limit = 5;

	ASSERT_LE(0, fd);
	for (i = 0; i < 8; i++)
		ASSERT_EQ(true, buffer_put(self, i, ROOM));
	/* Without an eventfd the word is the program's. */
	__atomic_store_n(self->srq.ring.flags, ENTRIES, __ATOMIC_SEQ_CST);
	EXPECT_EQ(false, low_after_message(self, fd));
	EXPECT_EQ(ENTRIES, *self->srq.ring.flags);
	__atomic_store_n(self->srq.ring.flags, 0, __ATOMIC_SEQ_CST);

	ASSERT_EQ(0, srq_tell(self, self->srq.id, fd));
	EXPECT_EQ(false, low_after_message(self, fd));
	__atomic_store_n(self->srq.ring.flags, limit, __ATOMIC_SEQ_CST);
	/* Six were left. */
	EXPECT_EQ(false, low_after_message(self, fd));
	EXPECT_EQ(limit, *self->srq.ring.flags);
	EXPECT_EQ(true, low_after_message(self, fd));
	EXPECT_EQ(0, *self->srq.ring.flags);
	EXPECT_EQ(false, low_after_message(self, fd));
	__atomic_store_n(self->srq.ring.flags, limit, __ATOMIC_SEQ_CST);
	EXPECT_EQ(true, low_after_message(self, fd));
	close(fd);
}

TEST_F(shared, eventfd_that_cannot_be__is_refused)
{
	int fd = eventfd(0, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(ENOENT, srq_tell(self, self->srq.id + 1, fd));
	EXPECT_EQ(EBADF, srq_tell(self, self->srq.id, -1));
	EXPECT_EQ(EINVAL, srq_tell(self, self->srq.id, self->b.fd));
	EXPECT_EQ(0, srq_tell(self, self->srq.id, fd));
	EXPECT_EQ(EBUSY, srq_tell(self, self->srq.id, fd));
	close(fd);
}

TEST_F(shared, each_message__takes_the_oldest_entry)
{
	static const uint32_t sizes[] = { 0, 1, 64, 4097, 9000, 65536, ROOM };
	struct superp_cqe completion;
	uint32_t i;

	for (i = 0; i < ENTRIES; i++)
		ASSERT_EQ(true, buffer_put(self, i, ROOM));
	for (i = 0; i < 3 * ENTRIES; i++) {
		uint32_t size = sizes[i % ARRAY_SIZE(sizes)], part = i % ENTRIES;

		pattern_fill(self->memory_a, size, i);
		ASSERT_EQ(0, message_post(self, i % QPS, 0, size));
		ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(SUPERP_OP_RECV, completion.opcode);
		EXPECT_EQ(self->to[i % QPS].id, completion.qp);
		EXPECT_EQ(size, completion.length);
		ASSERT_EQ(part, completion.token);
		ASSERT_EQ(-1, pattern_check(self->memory_b + part * ROOM, size, i));
		ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(true, buffer_put(self, part, ROOM));
	}
}

TEST_F_TIMEOUT(shared, long_messages__are_whole_before_they_take_one, slowly(60))
{
	const uint32_t size = 1 << 20;
	struct superp_segment halves[] = {
		{ self->mr_b.addr + size, size / 2, self->mr_b.key },
		{ self->mr_b.addr, size / 2, self->mr_b.key },
	};
	struct superp_rqe entry = { .length = size, .segments = 2, .token = 99 };
	struct superp_cqe completion;
	uint32_t i;

	/* While a long one comes, short ones of others pass. */
	segments_put(&self->srq.ring, halves, 2);
	ASSERT_EQ(true, srq_put(&self->srq, &entry));
	pattern_fill(self->memory_a, size, 5);
	ASSERT_EQ(0, message_post(self, 0, 0, size));
	ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
	EXPECT_EQ(99, completion.token);
	EXPECT_EQ(size, completion.length);
	EXPECT_EQ(0, memcmp(self->memory_b + size, self->memory_a, size / 2));
	EXPECT_EQ(0, memcmp(self->memory_b, self->memory_a + size / 2, size / 2));
	ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
	/* One after another, and all at once. */
	for (i = 0; i < QPS; i++)
		ASSERT_EQ(0, message_post(self, i, i * ROOM, size));
	for (i = 0; i < QPS; i++) {
		entry = (struct superp_rqe) {
			.addr = self->mr_b.addr, .key = self->mr_b.key, .length = size,
		};
		ASSERT_EQ(true, srq_put(&self->srq, &entry));
		ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		for (uint32_t n = 0; n < QPS; n++) {
			if (self->to[n].id == completion.qp)
				EXPECT_EQ(0, memcmp(self->memory_b, self->memory_a + n * ROOM,
						    size));
		}
	}
}

TEST_F(shared, without_entries__messages_wait)
{
	struct superp_cqe completion;
	uint32_t i;

	for (i = 0; i < QPS; i++) {
		memset(self->memory_a + 64 * i, 'a' + i, 64);
		ASSERT_EQ(0, message_post(self, i, 64 * i, 64));
	}
	usleep(100000);
	ASSERT_EQ(false, cq_take(&self->recv_cq, &completion));
	for (i = 0; i < QPS; i++)
		ASSERT_EQ(true, buffer_put(self, i, 64));
	for (i = 0; i < QPS; i++) {
		ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		for (uint32_t n = 0; n < QPS; n++) {
			if (self->to[n].id == completion.qp)
				EXPECT_EQ('a' + n, self->memory_b[completion.token * ROOM + 63]);
		}
	}
}

TEST_F(shared, failure_of_one__leaves_the_entries_to_the_others)
{
	struct superp_cqe completion;
	uint32_t i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(true, buffer_put(self, i, 100));
	memset(self->memory_b, 0x11, AREA);
	ASSERT_EQ(0, message_post(self, 0, 0, 101));
	ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, completion.major);
	EXPECT_EQ(1, completion.minor);
	EXPECT_EQ(0, completion.token);
	EXPECT_EQ(self->to[0].id, completion.qp);
	EXPECT_EQ(0x11, self->memory_b[0]);
	ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, completion.major);
	EXPECT_EQ(true, qp_failed(&self->to[0]));
	EXPECT_EQ(false, qp_failed(&self->to[1]));
	ASSERT_EQ(false, cq_take(&self->recv_cq, &completion));
	/* One ends, another one receives. */
	ASSERT_EQ(0, ring_destroy(&self->b, SUPERP_IOC_RQP_DESTROY, self->to[1].id));
	for (i = 2; i < QPS; i++) {
		ASSERT_EQ(0, message_post(self, i, 0, 100));
		ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(i - 1, completion.token);
	}
}

TEST_F(shared, malformed_entries__fail_who_gets_them)
{
	const struct superp_rqe good = {
		.addr = self->mr_b.addr, .key = self->mr_b.key, .length = 64, .token = 7,
	};
	struct {
		struct superp_rqe entry;
		int major, minor;
	} cases[QPS] = {
		{ good, SUPERP_ERR_MALFORMED, 0 },
		{ good, SUPERP_ERR_ACCESS, 1 },
		{ good, SUPERP_ERR_ACCESS, 2 },
		{ good, SUPERP_ERR_MALFORMED, 0 },
	};
	struct superp_segment pieces[] = {
		{ self->mr_b.addr, 8, self->mr_b.key }, { self->mr_b.addr, 8, self->mr_b.key },
	};
	struct superp_cqe completion;
	uint32_t i;

	cases[0].entry.rsvd = 1;
	cases[1].entry.key ^= 1;
	cases[2].entry.addr = self->mr_b.addr + AREA - 63;
	/* The ring has two for each entry. */
	cases[3].entry = (struct superp_rqe) { .length = 64, .segments = 3, .token = 7 };
	for (i = 0; i < QPS; i++) {
		segments_put(&self->srq.ring, pieces, 2);
		ASSERT_EQ(true, srq_put(&self->srq, &cases[i].entry));
		ASSERT_EQ(0, message_post(self, i, 0, 64));
		ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
		EXPECT_EQ(7, completion.token);
		EXPECT_EQ(cases[i].major, completion.major) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(cases[i].minor, completion.minor) {
			TH_LOG("case %u", i);
		}
		ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
		EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
		EXPECT_EQ(true, qp_failed(&self->to[i]));
	}
}

TEST_F(shared, wild_index__ends_who_receives)
{
	struct superp_cqe completion;

	__atomic_store_n(self->srq.ring.producer, ENTRIES + 1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, message_post(self, 0, 0, 64));
	ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	EXPECT_EQ(true, qp_failed(&self->to[0]));
	EXPECT_EQ(false, qp_failed(&self->to[1]));
	/* What is right again, is. */
	__atomic_store_n(self->srq.ring.producer, 0, __ATOMIC_RELEASE);
	ASSERT_EQ(true, buffer_put(self, 0, 64));
	ASSERT_EQ(0, message_post(self, 1, 0, 64));
	ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
}

TEST_F_TIMEOUT(shared, longer_than_the_kernel_keeps__is_refused, slowly(60))
{
	const uint32_t size = SUPERP_MAX_MESSAGE + 1;
	struct superp_cqe completion;
	struct superp_mr_reg mr;
	struct superp_sqe entry;

	ASSERT_NE(NULL, mr_memory(self->a.fd, size, ALL, &mr));
	ASSERT_EQ(true, buffer_put(self, 0, ROOM));
	entry = sqe_of(SUPERP_OP_SEND, &mr, 0, NULL, 0, size);
	ASSERT_EQ(0, post(&self->a, &self->from[0], &entry));
	ASSERT_EQ(true, cq_wait(&self->send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_RESOURCES, completion.major);
	ASSERT_EQ(false, cq_take(&self->recv_cq, &completion));
	ASSERT_EQ(0, message_post(self, 1, 0, ROOM));
	ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
}

/* All queue pairs at once, with fewer buffers than messages. */
TEST_F_TIMEOUT(shared, many__each_once_and_in_the_order_of_its_sender, slowly(60))
{
	const uint32_t each = 300, length = 300;
	uint32_t posted[QPS] = { }, received[QPS] = { }, done = 0, i, n;
	struct superp_cqe completion;

	ASSERT_EQ(0, link_netem("delay 200us 100us loss 2% duplicate 2%"));
	/* Message @n of queue pair @i begins with both numbers. */
	for (i = 0; i < QPS; i++) {
		for (n = 0; n < each; n++) {
			uint32_t *words = (void *)(self->memory_a + (i * each + n) * length);

			words[0] = i;
			words[1] = n;
		}
	}
	for (i = 0; i < ENTRIES; i++)
		ASSERT_EQ(true, buffer_put(self, i, length));
	while (done < QPS * each) {
		for (i = 0; i < QPS; i++) {
			if (posted[i] < each && ring_used(&self->from[i].sq) < 32) {
				ASSERT_EQ(0, message_post(self, i, (i * each + posted[i]) * length,
							  length));
				posted[i]++;
			}
		}
		while (cq_take(&self->send_cq, &completion))
			ASSERT_EQ(0, completion.major);
		if (!cq_take(&self->recv_cq, &completion))
			continue;
		ASSERT_EQ(0, completion.major);
		uint32_t *words = (void *)(self->memory_b + completion.token * ROOM);

		i = words[0];
		ASSERT_GT(QPS, i);
		ASSERT_EQ(self->to[i].id, completion.qp);
		ASSERT_EQ(received[i], words[1]);
		received[i]++;
		done++;
		ASSERT_EQ(true, buffer_put(self, completion.token, length));
	}
	link_clean();
}

TEST(commands__refuse_what_is_wrong)
{
	struct superp_srq_create create = { .entries = 3 };
	struct superp_rqp_create qp = { .sq_entries = 1, .flags = SUPERP_RQP_SRQ };
	struct context context;
	struct srq srq;
	struct cq cq;

	ASSERT_EQ(0, context_open(&context, &node_a));
	ASSERT_EQ(0, cq_create(&context, &cq, 1));
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_SRQ_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.entries = 0;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_SRQ_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.entries = 2 * SUPERP_MAX_SRQ_ENTRIES;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_SRQ_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.entries = 1;
	create.segments = SUPERP_MAX_SEGMENTS + 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_SRQ_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.segments = 0;
	create.rsvd = 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_SRQ_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(ENOENT, errno);
	/* The largest there is. */
	ASSERT_EQ(0, srq_create(&context, &srq, SUPERP_MAX_SRQ_ENTRIES, SUPERP_MAX_SEGMENTS));
	qp.srq = srq.id;
	qp.rq_entries = 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.rq_entries = 0;
	qp.rq_segments = 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.rq_segments = 0;
	qp.flags = 2 | SUPERP_RQP_SRQ;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.flags = 0;
	qp.srq = 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.flags = SUPERP_RQP_SRQ;
	qp.srq = srq.id;
	ASSERT_EQ(0, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(0, qp.rq.entries);
	EXPECT_EQ(-1, ring_destroy(&context, SUPERP_IOC_SRQ_DESTROY, srq.id));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_EQ(0, ring_destroy(&context, SUPERP_IOC_RQP_DESTROY, qp.qp));
	ASSERT_EQ(0, ring_destroy(&context, SUPERP_IOC_SRQ_DESTROY, srq.id));
	EXPECT_EQ(-1, ring_destroy(&context, SUPERP_IOC_SRQ_DESTROY, srq.id));
	EXPECT_EQ(ENOENT, errno);
	context_close(&context);
}

SUPERP_TEST_MAIN
