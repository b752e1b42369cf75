// SPDX-License-Identifier: GPL-2.0
/* Messages to queue pairs that have ended: who leaves first must not spoil it for the other. */
#include "superp_conn.h"
#include "superp_ring.h"

#define AREA 65536
#define WAIT_MS 20000
#define FAILED(token) ((int64_t)SUPERP_ERR_NO_QP << 32 | (token))
/* That many queue pairs may be refusing messages of a connection at a time. */
#define REFUSING 256
/* So long messages to a queue pair that has ended wait; a little less, as clocks are read in between. */
#define DEPARTED_MS 1950

FIXTURE(departed)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_VARIANT(departed)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(departed, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(departed, udp4_strict)
{
	.options = { .encap = SUPERP_ENCAP_UDP4, .strict = true },
};

FIXTURE_SETUP(departed)
{
	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, 2 * REFUSING, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, 4, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, variant->options.encap, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, variant->options.encap, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(departed)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

static int send_message(struct ring_side *side, struct qp *qp, uint64_t token)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &side->mr, 0, NULL, 0, 64);

	entry.token = token;
	return post(&side->context, qp, &entry);
}

/* Waits for a completion: its token, with the major code in the upper half; -1: there is none. */
static int64_t next(struct cq *cq, int ms)
{
	struct superp_cqe completion;

	if (!cq_wait(cq, &completion, ms)) {
		if (ms == WAIT_MS)
			nodes_say();
		return -1;
	}
	return (int64_t)completion.major << 32 | completion.token;
}

TEST_F(departed, message_to_it__waits_until_the_sender_has_had_time_to_leave)
{
	struct ring_side *a = &self->a, *b = &self->b;
	long begin = now_ms();

	ASSERT_EQ(0, ring_destroy(&b->context, SUPERP_IOC_RQP_DESTROY, b->qp.id));
	ASSERT_EQ(0, send_message(a, &a->qp, 1));
	EXPECT_EQ(FAILED(1), next(&a->send_cq, WAIT_MS));
	EXPECT_LE(DEPARTED_MS, now_ms() - begin);
}

TEST_F(departed, message_that_found_no_buffer__waits_on_when_its_context_ends)
{
	struct ring_side *a = &self->a, *b = &self->b;
	long begin;

	ASSERT_EQ(0, send_message(a, &a->qp, 1));
	ASSERT_EQ(-1, next(&a->send_cq, 50));
	begin = now_ms();
	/* Maps keep a context. */
	munmap(b->qp.map, b->qp.size);
	munmap(b->send_cq.map, b->send_cq.size);
	munmap(b->recv_cq.map, b->recv_cq.size);
	context_close(&b->context);
	EXPECT_EQ(FAILED(1), next(&a->send_cq, WAIT_MS));
	EXPECT_LE(DEPARTED_MS, now_ms() - begin);
}

TEST_F(departed, message_to_a_number_that_none_had__fails_at_once)
{
	struct ring_side *a = &self->a;
	long begin = now_ms();
	struct qp qp;

	ASSERT_EQ(0, qp_create(&a->context, &qp, &a->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&a->context, &qp, &node_b, variant->options.encap, 99));
	ASSERT_EQ(0, send_message(a, &qp, 1));
	EXPECT_EQ(FAILED(1), next(&a->send_cq, WAIT_MS));
	EXPECT_GT(DEPARTED_MS, now_ms() - begin);
}

TEST_F(departed, message_to_one_that_took_none__fails_at_once)
{
	struct ring_side *a = &self->a, *b = &self->b;
	long begin = now_ms();
	struct qp here, there;

	ASSERT_EQ(0, qp_create(&b->context, &there, &b->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_create(&a->context, &here, &a->send_cq, 2, NULL, 0));
	ASSERT_EQ(0, qp_connect(&a->context, &here, &node_b, variant->options.encap, there.qpn));
	ASSERT_EQ(0, ring_destroy(&b->context, SUPERP_IOC_RQP_DESTROY, there.id));
	ASSERT_EQ(0, send_message(a, &here, 1));
	EXPECT_EQ(FAILED(1), next(&a->send_cq, WAIT_MS));
	EXPECT_GT(DEPARTED_MS, now_ms() - begin);
}

/* REFUSING queue pairs of @b without a receive entry, each with a message of one of @a. */
static int many_refuse(struct ring_side *a, struct ring_side *b, int encap, struct qp *here,
		       struct qp *there)
{
	int i;

	for (i = 0; i < REFUSING; i++) {
		if (qp_create(&b->context, &there[i], &b->send_cq, 1, &b->recv_cq, 1) ||
		    qp_create(&a->context, &here[i], &a->send_cq, 1, NULL, 0) ||
		    qp_connect(&a->context, &here[i], &node_b, encap, there[i].qpn) ||
		    send_message(a, &here[i], i))
			return -1;
	}
	return 0;
}

TEST_F(departed, ones_that_refused__make_room_for_others)
{
	struct ring_side *a = &self->a, *b = &self->b;
	int encap = variant->options.encap, i;
	struct superp_rqe entry = { .addr = b->mr.addr, .key = b->mr.key, .length = 64, .token = 9 };
	struct qp here[REFUSING], there[REFUSING];

	ASSERT_EQ(0, many_refuse(a, b, encap, here, there));
	ASSERT_EQ(-1, next(&a->send_cq, 100));
	for (i = 0; i < REFUSING; i++)
		ASSERT_EQ(0, ring_destroy(&b->context, SUPERP_IOC_RQP_DESTROY, there[i].id));
	for (i = 0; i < REFUSING; i++)
		ASSERT_EQ(SUPERP_ERR_NO_QP, next(&a->send_cq, WAIT_MS) >> 32);
	ASSERT_EQ(0, send_message(a, &a->qp, 1000));
	ASSERT_EQ(-1, next(&a->send_cq, 50));
	ASSERT_EQ(true, rq_put(&b->qp, &entry));
	EXPECT_EQ(1000, next(&a->send_cq, WAIT_MS));
	EXPECT_EQ(9, next(&b->recv_cq, WAIT_MS));
}

/* The messages that are repeated to them leave time for everything else, however many they are. */
TEST_F(departed, many_that_refuse__are_asked_now_and_then)
{
	struct ring_side *a = &self->a, *b = &self->b;
	struct qp here[REFUSING], there[REFUSING];
	int encap = variant->options.encap;
	long long before;

	ASSERT_EQ(0, many_refuse(a, b, encap, here, there));
	ASSERT_EQ(-1, next(&a->send_cq, 100));
	before = conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_NO_BUFFER);
	ASSERT_LE(REFUSING, before);
	ASSERT_EQ(-1, next(&a->send_cq, 2000));
	/* Each every 20 ms would be 100 times in this time. */
	EXPECT_GT(16 * REFUSING, conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_NO_BUFFER) - before);
}

SUPERP_TEST_MAIN
