// SPDX-License-Identifier: GPL-2.0
/* Doorbells that say that more follows: the kernel looks by itself. */
#include "superp_ring.h"

#define AREA 4096
#define ENTRIES 32
#define WAIT_MS 20000

FIXTURE(later)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_SETUP(later)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, ENTRIES, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, SUPERP_ENCAP_SUNH, 0));
}

FIXTURE_TEARDOWN(later)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

static int doorbell_more(struct context *context, const struct qp *qp)
{
	bell_set(context, qp);
	return send(context->fd, NULL, 0, MSG_MORE);
}

static uint32_t flags_of(const struct qp *qp)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(qp->sq.flags, __ATOMIC_RELAXED);
}

static bool flags_within(const struct qp *qp, uint32_t flags, int ms)
{
	while (flags_of(qp) != flags) {
		if (!ms--)
			return false;
		usleep(1000);
	}
	return true;
}

static struct superp_sqe write_of(FIXTURE_DATA(later) *self, uint64_t token)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);

	entry.token = token;
	return entry;
}

/* Whether an entry was put in while the kernel was to look by itself, on a machine that may be slow. */
static bool put_later(FIXTURE_DATA(later) *self)
{
	struct superp_sqe entry = write_of(self, 7);
	struct superp_cqe completion;
	int i;

	for (i = 0; i < 1000; i++) {
		if (doorbell_more(&self->a.context, &self->a.qp) || !sq_put(&self->a.qp, &entry))
			return false;
		if (flags_of(&self->a.qp) == SUPERP_RING_LATER)
			return true;
		if (doorbell(&self->a.context, &self->a.qp) ||
		    !cq_wait(&self->a.send_cq, &completion, WAIT_MS))
			return false;
	}
	return false;
}

TEST_F(later, takes_in_what_nobody_rings_for)
{
	struct superp_cqe completion;

	memset(self->a.memory, 0x5a, 64);
	ASSERT_TRUE(put_later(self));
	ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
	EXPECT_EQ(7, completion.token);
	EXPECT_EQ(0, memcmp(self->a.memory, self->b.memory, 64));
	EXPECT_EQ(SUPERP_RING_NEED_WAKEUP, flags_of(&self->a.qp));
}

TEST_F(later, a_doorbell_takes_it_in_and_ends_that)
{
	struct superp_cqe completion;

	ASSERT_TRUE(put_later(self));
	ASSERT_EQ(0, doorbell(&self->a.context, &self->a.qp));
	EXPECT_EQ(SUPERP_RING_NEED_WAKEUP, flags_of(&self->a.qp));
	EXPECT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
}

TEST_F(later, ends_when_nothing_follows)
{
	ASSERT_EQ(0, doorbell_more(&self->a.context, &self->a.qp));
	EXPECT_TRUE(flags_within(&self->a.qp, SUPERP_RING_NEED_WAKEUP, WAIT_MS));
}

/* The program comes at all times, also when the kernel looks for the last time. */
TEST_F(later, loses_no_entry)
{
	uint64_t put = 0, taken = 0, later = 0;
	struct superp_cqe completion;

	srand(1);
	for (put = 0; put < 2000; put++) {
		struct superp_sqe entry = write_of(self, put);
		uint32_t flags;

		ASSERT_TRUE(sq_put(&self->a.qp, &entry));
		flags = flags_of(&self->a.qp);
		if (flags & SUPERP_RING_NEED_WAKEUP) {
			ASSERT_EQ(0, doorbell_more(&self->a.context, &self->a.qp));
		} else {
			later++;
		}
		if (put % 8)
			continue;
		/* Around the time for which the kernel looks. */
		usleep(rand() % 1000);
		for (; taken <= put; taken++) {
			ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS)) {
				TH_LOG("entry %llu of %llu was left", (unsigned long long)taken,
				       (unsigned long long)put);
			}
			ASSERT_EQ(0, completion.major);
			ASSERT_EQ(taken, completion.token);
		}
	}
	EXPECT_GT(later, 0);
}

/* More than the completion queue holds. */
TEST_F(later, goes_on_with_a_doorbell_when_there_is_room)
{
	struct superp_cqe completion;
	struct cq small;
	struct qp qp;
	uint64_t i;

	ASSERT_EQ(0, cq_create(&self->a.context, &small, 4));
	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &small, ENTRIES, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, SUPERP_ENCAP_SUNH, 0));
	ASSERT_EQ(0, doorbell_more(&self->a.context, &qp));
	for (i = 0; i < 8; i++) {
		struct superp_sqe entry = write_of(self, i);

		ASSERT_TRUE(sq_put(&qp, &entry));
	}
	/* By itself, or not any more. */
	if (flags_of(&qp) & SUPERP_RING_NEED_WAKEUP) {
		ASSERT_EQ(-1, doorbell(&self->a.context, &qp));
		ASSERT_EQ(ENOBUFS, errno);
	}
	ASSERT_TRUE(flags_within(&qp, SUPERP_RING_NEED_WAKEUP, WAIT_MS));
	for (i = 0; i < 8; i++) {
		if (i == 4)
			ASSERT_EQ(0, send(self->a.context.fd, NULL, 0, 0));
		ASSERT_TRUE(cq_wait(&small, &completion, WAIT_MS));
		ASSERT_EQ(i, completion.token);
	}
}

TEST_F(later, what_waits_is_flushed_in_the_error_state)
{
	struct superp_cqe completion;

	ASSERT_TRUE(put_later(self));
	ASSERT_EQ(0, qp_modify(&self->a.context, self->a.qp.id, SUPERP_QPS_ERR));
	/* Either was first. */
	ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_TRUE(!completion.major || completion.major == SUPERP_ERR_ABORTED);
	EXPECT_TRUE(qp_failed(&self->a.qp));
	/* It does not look by itself any more. */
	ASSERT_EQ(0, doorbell_more(&self->a.context, &self->a.qp));
	EXPECT_EQ(SUPERP_RING_NEED_WAKEUP | SUPERP_RING_ERROR, flags_of(&self->a.qp));
}

TEST_F(later, queue_pairs_end_while_it_looks)
{
	int i;

	for (i = 0; i < 300; i++) {
		struct superp_sqe entry = write_of(self, i);
		struct superp_cqe completion;
		struct qp qp;

		ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, ENTRIES, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, SUPERP_ENCAP_SUNH, 0));
		ASSERT_EQ(0, doorbell_more(&self->a.context, &qp));
		ASSERT_TRUE(sq_put(&qp, &entry));
		usleep(i * 4);
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
		munmap(qp.map, qp.size);
		while (cq_take(&self->a.send_cq, &completion))
			;
	}
}

TEST_F(later, contexts_end_while_it_looks)
{
	int i;

	for (i = 0; i < 100; i++) {
		struct superp_sqe entry = write_of(self, i);
		struct ring_side side;

		ASSERT_EQ(0, ring_side_up(&side, &node_a, ENTRIES, AREA));
		ASSERT_EQ(0, qp_connect(&side.context, &side.qp, &node_b, SUPERP_ENCAP_SUNH, 0));
		ASSERT_EQ(0, doorbell_more(&side.context, &side.qp));
		entry.local_key = side.mr.key;
		entry.local_addr = side.mr.addr;
		ASSERT_TRUE(sq_put(&side.qp, &entry));
		usleep(i * 10);
		munmap(side.qp.map, side.qp.size);
		munmap(side.send_cq.map, side.send_cq.size);
		munmap(side.recv_cq.map, side.recv_cq.size);
		munmap(side.memory, AREA);
		context_close(&side.context);
	}
}

SUPERP_TEST_MAIN
