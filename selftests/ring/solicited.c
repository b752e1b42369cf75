// SPDX-License-Identifier: GPL-2.0
/* Waiting for completions that the peer wants to be noticed, and for no others. */
#include "superp_ring.h"

#define AREA (1 << 20)
#define ENTRIES 16
#define WAIT_MS 20000

FIXTURE(solicited)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_VARIANT(solicited)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(solicited, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(solicited, udp4_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP4, .unordered = true },
};

FIXTURE_SETUP(solicited)
{
	const int encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, ENTRIES, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, encap, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, encap, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(solicited)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

static bool receive(struct ring_side *side, uint32_t length)
{
	struct superp_rqe entry = { .addr = side->mr.addr, .key = side->mr.key, .length = length };

	return rq_put(&side->qp, &entry);
}

static void arm_solicited(struct cq *cq)
{
	uint32_t none = 0;

	__atomic_compare_exchange_n(cq->ring.flags, &none, SUPERP_CQ_ARMED_SOLICITED, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The completion is there before the event. */
static bool woken(struct context *context, const struct cq *cq)
{
	return superp_poll(context->fd, POLLIN, WAIT_MS) & POLLIN && cq_event(context, cq);
}

/* The major code of what B receives, and that A's side of it has the same; -1: nothing comes. */
static int outcome(FIXTURE_DATA(solicited) *self, struct superp_sqe *entry)
{
	struct superp_cqe sent, received;

	if (post(&self->a.context, &self->a.qp, entry) ||
	    !cq_wait(&self->b.recv_cq, &received, WAIT_MS) ||
	    !cq_wait(&self->a.send_cq, &sent, WAIT_MS) || sent.major != received.major)
		return -1;
	return received.major;
}

TEST_F_TIMEOUT(solicited, others_pass, slowly(60))
{
	/* In one packet, in one transaction, in several. */
	static const uint32_t sizes[] = { 0, 100, 20000, 1 << 19 };
	struct cq *cq = &self->b.recv_cq;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes) * 2; i++) {
		entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, sizes[i / 2]);
		if (i % 2) {
			entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, sizes[i / 2]);
			entry.flags |= SUPERP_SQE_IMM;
		}
		arm_solicited(cq);
		ASSERT_EQ(true, receive(&self->b, AREA));
		ASSERT_EQ(0, outcome(self, &entry));
		EXPECT_EQ(SUPERP_CQ_ARMED_SOLICITED, *cq->ring.flags);
		EXPECT_EQ(false, cq_event(&self->b.context, cq));

		entry.flags |= SUPERP_SQE_SOLICITED;
		ASSERT_EQ(true, receive(&self->b, AREA));
		ASSERT_EQ(0, outcome(self, &entry));
		EXPECT_EQ(true, woken(&self->b.context, cq)) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(0, *cq->ring.flags);
	}
}

/* It is refused, and repeated by its sender. */
TEST_F(solicited, message_that_waits_for_a_buffer__wakes_when_it_comes)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 100);
	struct superp_cqe completion;
	struct cq *cq = &self->b.recv_cq;

	entry.flags |= SUPERP_SQE_SOLICITED;
	arm_solicited(cq);
	ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
	ASSERT_EQ(false, cq_wait(&self->a.send_cq, &completion, 20));
	EXPECT_EQ(false, cq_event(&self->b.context, cq));
	ASSERT_EQ(true, receive(&self->b, 100));
	ASSERT_EQ(true, cq_wait(cq, &completion, WAIT_MS));
	EXPECT_EQ(true, woken(&self->b.context, cq));
}

TEST_F(solicited, armed_for_all__stays_so)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 100);
	struct cq *cq = &self->b.recv_cq;

	cq_arm(cq);
	arm_solicited(cq);
	ASSERT_EQ(true, receive(&self->b, 100));
	ASSERT_EQ(0, outcome(self, &entry));
	EXPECT_EQ(true, woken(&self->b.context, cq));
}

/* Neither side asked for it: the message does not fit. */
TEST_F(solicited, failure__wakes_both_ends)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 100);

	arm_solicited(&self->a.send_cq);
	arm_solicited(&self->b.recv_cq);
	ASSERT_EQ(true, receive(&self->b, 99));
	ASSERT_EQ(SUPERP_ERR_NO_BUFFER, outcome(self, &entry));
	EXPECT_EQ(true, woken(&self->a.context, &self->a.send_cq));
	EXPECT_EQ(true, woken(&self->b.context, &self->b.recv_cq));
}

TEST_F(solicited, what_no_receiver_hears_of__is_malformed)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 100);
	struct superp_cqe completion;

	entry.flags |= SUPERP_SQE_SOLICITED;
	ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_MALFORMED, completion.major);
	EXPECT_EQ(0, completion.minor);
}

SUPERP_TEST_MAIN
