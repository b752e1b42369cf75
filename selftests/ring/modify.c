// SPDX-License-Identifier: GPL-2.0
/* Queue pairs that the program puts into the error state: what completes, how, and how often. */
#include <pthread.h>

#include "superp_ring.h"

#define AREA (4 << 20)
#define HALF (AREA / 2)
#define ENTRIES 32
#define WAIT_MS 20000

FIXTURE(modify)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_VARIANT(modify)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(modify, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(modify, udp4_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP4, .unordered = true },
};

static int connect_both(struct ring_side *a, struct ring_side *b, int encap)
{
	return qp_connect(&a->context, &a->qp, &node_b, encap, b->qp.qpn) ?:
		qp_connect(&b->context, &b->qp, &node_a, encap, a->qp.qpn);
}

FIXTURE_SETUP(modify)
{
	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, ENTRIES, AREA));
	ASSERT_EQ(0, connect_both(&self->a, &self->b, variant->options.encap));
}

FIXTURE_TEARDOWN(modify)
{
	link_clean();
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

static int fail(struct ring_side *side)
{
	return qp_modify(&side->context, side->qp.id, SUPERP_QPS_ERR);
}

static bool receive(struct ring_side *side, struct qp *qp, size_t at, uint32_t length, uint64_t token)
{
	struct superp_rqe entry = {
		.addr = side->mr.addr + at,
		.key = side->mr.key,
		.length = length,
		.token = token,
	};

	return rq_put(qp, &entry);
}

static struct superp_sqe message(struct ring_side *side, uint32_t length, uint64_t token)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &side->mr, 0, NULL, 0, length);

	entry.token = token;
	return entry;
}

static int send_message(struct ring_side *side, uint32_t length, uint64_t token)
{
	struct superp_sqe entry = message(side, length, token);

	return post(&side->context, &side->qp, &entry);
}

/* Waits for a completion: its token, with the major code in the upper half; -1: there is none. */
static int64_t next(struct cq *cq)
{
	struct superp_cqe completion;

	if (!cq_wait(cq, &completion, WAIT_MS))
		return -1;
	return (int64_t)completion.major << 32 | completion.token;
}

#define FLUSHED(token) ((int64_t)SUPERP_ERR_ABORTED << 32 | (token))
#define REFUSED(token) ((int64_t)SUPERP_ERR_NO_BUFFER << 32 | (token))

/* Waits until byte @at of a memory that was empty is there. */
static bool arrives(const uint8_t *memory, size_t at)
{
	const volatile uint8_t *there = memory + at;
	int ms;

	for (ms = 0; !*there && ms < WAIT_MS; ms++)
		usleep(1000);
	return *there;
}

TEST_F(modify, what_was_posted__is_flushed_once)
{
	struct ring_side *a = &self->a;
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(true, receive(a, &a->qp, 0, 64, 100 + i));
		entry = message(a, 64, i);
		/* Signaled or not: it is an error. */
		entry.flags = i & 1 ? SUPERP_SQE_SIGNALED : 0;
		ASSERT_EQ(true, sq_put(&a->qp, &entry));
	}
	ASSERT_EQ(0, fail(a));
	EXPECT_EQ(true, qp_failed(&a->qp));
	for (i = 0; i < 4; i++) {
		/* All was there when the call returned. */
		ASSERT_EQ(true, cq_take(&a->send_cq, &completion));
		EXPECT_EQ(i, completion.token);
		EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
		EXPECT_EQ(ECONNRESET, completion.error);
		EXPECT_EQ(SUPERP_OP_SEND, completion.opcode);
		ASSERT_EQ(true, cq_take(&a->recv_cq, &completion));
		EXPECT_EQ(100 + i, completion.token);
		EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
		EXPECT_EQ(0, completion.length);
	}
	EXPECT_EQ(4, *a->qp.sq.consumer);
	EXPECT_EQ(4, *a->qp.rq.consumer);
	/* Again, and again: nothing more. */
	ASSERT_EQ(0, fail(a));
	ASSERT_EQ(0, doorbell(&a->context, &a->qp));
	EXPECT_EQ(false, cq_take(&a->send_cq, &completion));
	EXPECT_EQ(false, cq_take(&a->recv_cq, &completion));
}

TEST_F(modify, what_is_posted_later__is_flushed_too)
{
	struct ring_side *a = &self->a;
	struct superp_cqe completion;
	unsigned int i;

	ASSERT_EQ(0, fail(a));
	for (i = 0; i < 2 * ENTRIES; i++) {
		struct superp_sqe entry = message(a, 64, i);

		ASSERT_EQ(true, receive(a, &a->qp, 0, 64, 100 + i));
		ASSERT_EQ(true, sq_put(&a->qp, &entry));
		ASSERT_EQ(0, doorbell(&a->context, &a->qp));
		EXPECT_EQ(FLUSHED(i), next(&a->send_cq));
		EXPECT_EQ(FLUSHED(100 + i), next(&a->recv_cq));
	}
	EXPECT_EQ(false, cq_take(&a->send_cq, &completion));
	EXPECT_EQ(false, cq_take(&a->recv_cq, &completion));
}

TEST_F(modify, read_under_way__ends_as_it_does)
{
	struct ring_side *a = &self->a, *b = &self->b;
	struct superp_sqe entry = sqe_of(SUPERP_OP_READ, &a->mr, 0, &b->mr, 0, AREA);
	struct superp_cqe completion;

	pattern_fill(b->memory, AREA, 7);
	b->memory[0] = 1;
	memset(a->memory, 0, AREA);
	/* Eight seconds for all of it, until the link is clean again. */
	ASSERT_EQ(0, link_netem("rate 4mbit"));
	entry.token = 1;
	ASSERT_EQ(0, post(&a->context, &a->qp, &entry));
	ASSERT_EQ(true, arrives(a->memory, 0));
	entry.token = 2;
	ASSERT_EQ(true, sq_put(&a->qp, &entry));
	ASSERT_EQ(0, fail(a));
	/* It is not at its end, and what was not begun waits for its turn. */
	EXPECT_EQ(false, cq_take(&a->send_cq, &completion));
	link_clean();
	EXPECT_EQ(1, next(&a->send_cq));
	EXPECT_EQ(0, memcmp(a->memory, b->memory, AREA));
	EXPECT_EQ(FLUSHED(2), next(&a->send_cq));
	memset(a->memory, 0xa5, AREA);
	usleep(50000);
	EXPECT_EQ(0xa5, a->memory[0]);
	EXPECT_EQ(0, memcmp(a->memory, a->memory + 1, AREA - 1));
}

TEST_F(modify, messages_without_a_buffer__do_not_wait_for_one)
{
	struct ring_side *a = &self->a, *b = &self->b;
	struct superp_cqe completion;
	unsigned int i;

	for (i = 0; i < ENTRIES; i++)
		ASSERT_EQ(0, send_message(a, 64, i));
	usleep(50000);
	EXPECT_EQ(false, cq_take(&a->send_cq, &completion));
	ASSERT_EQ(0, fail(a));
	EXPECT_EQ(REFUSED(0), next(&a->send_cq));
	/* Those behind it had not begun, unless they were faster than the refusal. */
	for (i = 1; i < ENTRIES; i++) {
		int64_t end = next(&a->send_cq);

		ASSERT_TRUE(end == FLUSHED(i) || end == REFUSED(i)) {
			TH_LOG("message %u: %lx", i, (long)end);
		}
	}
	/* None of them comes after all. */
	ASSERT_EQ(true, receive(b, &b->qp, 0, 64, 1));
	usleep(50000);
	EXPECT_EQ(false, cq_take(&b->recv_cq, &completion));
	EXPECT_EQ(false, qp_failed(&b->qp));
}

TEST_F(modify, messages_to_it__are_refused)
{
	struct ring_side *a = &self->a, *b = &self->b;

	ASSERT_EQ(0, fail(b));
	ASSERT_EQ(0, send_message(a, 64, 1));
	EXPECT_EQ((int64_t)SUPERP_ERR_NO_QP << 32 | 1, next(&a->send_cq));
}

TEST_F(modify, before_connect__it_is_the_end_too)
{
	struct ring_side *a = &self->a, *b = &self->b;
	int encap = variant->options.encap;

	ASSERT_EQ(0, qp_create(&b->context, &b->qp, &b->send_cq, 1, &b->recv_cq, 1));
	ASSERT_EQ(0, qp_create(&a->context, &a->qp, &a->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&a->context, &a->qp, &node_b, encap, b->qp.qpn));
	ASSERT_EQ(true, receive(b, &b->qp, 0, 64, 2));
	/* It waits, as for one that will be connected. */
	ASSERT_EQ(0, send_message(a, 64, 1));
	usleep(10000);
	ASSERT_EQ(0, fail(b));
	EXPECT_EQ(FLUSHED(2), next(&b->recv_cq));
	EXPECT_EQ((int64_t)SUPERP_ERR_NO_QP << 32 | 1, next(&a->send_cq));
	ASSERT_EQ(0, qp_connect(&b->context, &b->qp, &node_a, encap, a->qp.qpn));
	EXPECT_EQ(true, qp_failed(&b->qp));
	ASSERT_EQ(0, send_message(b, 64, 3));
	EXPECT_EQ(FLUSHED(3), next(&b->send_cq));
}

TEST_F(modify, half_of_a_message__leaves_its_buffer_alone)
{
	struct ring_side *a = &self->a, *b = &self->b;
	struct superp_cqe completion;
	struct cq one;

	/* Its room is the promise of the message that comes. */
	ASSERT_EQ(0, cq_create(&b->context, &one, 1));
	ASSERT_EQ(0, qp_create(&b->context, &b->qp, &b->send_cq, 1, &one, 2));
	ASSERT_EQ(0, qp_create(&a->context, &a->qp, &a->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, connect_both(a, b, variant->options.encap));
	memset(a->memory, 1, AREA);
	memset(b->memory, 0, AREA);
	ASSERT_EQ(true, receive(b, &b->qp, 0, AREA, 5));
	/* Eight seconds for all of it, until the link is clean again. */
	ASSERT_EQ(0, link_netem("rate 4mbit"));
	ASSERT_EQ(0, send_message(a, AREA, 6));
	ASSERT_EQ(true, arrives(b->memory, 0));
	ASSERT_EQ(0, fail(b));
	link_clean();
	ASSERT_EQ(true, cq_take(&one, &completion));
	EXPECT_EQ(5, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	memset(b->memory, 0xa5, AREA);
	EXPECT_EQ((int64_t)SUPERP_ERR_NO_QP << 32 | 6, next(&a->send_cq));
	EXPECT_EQ(0xa5, b->memory[0]);
	EXPECT_EQ(0, memcmp(b->memory, b->memory + 1, AREA - 1));
	/* The promise was kept, and given once. */
	EXPECT_EQ(false, cq_take(&one, &completion));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(true, receive(b, &b->qp, 0, 64, 7 + i));
		ASSERT_EQ(0, doorbell(&b->context, &b->qp));
		EXPECT_EQ(FLUSHED(7 + i), next(&one));
	}
}

TEST_F(modify, entries_of_a_shared_queue__are_left_to_the_others)
{
	struct ring_side *a = &self->a, *b = &self->b;
	int encap = variant->options.encap;
	struct superp_rqe entry = { .addr = b->mr.addr, .key = b->mr.key, .length = 64, .token = 9 };
	struct superp_cqe completion;
	struct qp ends, lives;
	struct srq srq;

	ASSERT_EQ(0, srq_create(&b->context, &srq, 4, 0));
	ASSERT_EQ(0, qp_create_shared(&b->context, &ends, &b->send_cq, 1, &b->recv_cq, &srq));
	ASSERT_EQ(0, qp_create_shared(&b->context, &lives, &b->send_cq, 1, &b->recv_cq, &srq));
	ASSERT_EQ(0, qp_connect(&b->context, &ends, &node_a, encap, 0));
	ASSERT_EQ(0, qp_connect(&b->context, &lives, &node_a, encap, 0));
	ASSERT_EQ(true, srq_put(&srq, &entry));
	ASSERT_EQ(0, qp_modify(&b->context, ends.id, SUPERP_QPS_ERR));
	EXPECT_EQ(false, cq_take(&b->recv_cq, &completion));

	ASSERT_EQ(0, qp_create(&a->context, &a->qp, &a->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&a->context, &a->qp, &node_b, encap, ends.qpn));
	ASSERT_EQ(0, send_message(a, 64, 1));
	EXPECT_EQ((int64_t)SUPERP_ERR_NO_QP << 32 | 1, next(&a->send_cq));
	EXPECT_EQ(false, cq_take(&b->recv_cq, &completion));

	ASSERT_EQ(0, qp_create(&a->context, &a->qp, &a->send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&a->context, &a->qp, &node_b, encap, lives.qpn));
	ASSERT_EQ(0, send_message(a, 64, 2));
	EXPECT_EQ(2, next(&a->send_cq));
	ASSERT_EQ(true, cq_wait(&b->recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(9, completion.token);
	EXPECT_EQ(lives.id, completion.qp);
	EXPECT_EQ(0, completion.major);
}

TEST_F(modify, without_room__the_rest_waits_for_the_next_doorbell)
{
	struct ring_side *a = &self->a;
	struct cq small;
	unsigned int i;
	struct qp qp;

	ASSERT_EQ(0, cq_create(&a->context, &small, 2));
	ASSERT_EQ(0, qp_create(&a->context, &qp, &small, 4, &small, 4));
	for (i = 0; i < 4; i++) {
		struct superp_sqe entry = message(a, 64, 4 + i);

		ASSERT_EQ(true, receive(a, &qp, 0, 64, i));
		ASSERT_EQ(true, sq_put(&qp, &entry));
	}
	ASSERT_EQ(-1, qp_modify(&a->context, qp.id, SUPERP_QPS_ERR));
	EXPECT_EQ(ENOBUFS, errno);
	EXPECT_EQ(true, qp_failed(&qp));
	for (i = 0; i < 8; i++) {
		struct superp_cqe completion;

		ASSERT_EQ(true, cq_take(&small, &completion));
		EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
		/* The bit is set: no more than the call is needed. */
		send(a->context.fd, NULL, 0, 0);
	}
	EXPECT_EQ(4, *qp.rq.consumer);
	EXPECT_EQ(4, *qp.sq.consumer);
}

/* One direction of the traffic: what a thread posts, and what has completed. */
struct traffic {
	struct ring_side	*side;
	uint64_t	remote;
	bool		*stop;
	/* Posted, completed, and completed out of order or with what cannot be. */
	uint64_t	sent, received, sent_done, received_done, wrong;
};

static void traffic_take(struct traffic *t, struct cq *cq, uint64_t *done)
{
	struct superp_cqe completion;

	while (cq_take(cq, &completion)) {
		t->wrong += completion.token != (*done)++;
		/* NO_QP: the other end was first. */
		t->wrong += completion.major && completion.major != SUPERP_ERR_ABORTED &&
			completion.major != SUPERP_ERR_NO_QP && completion.major != SUPERP_ERR_NO_BUFFER;
	}
}

static void *traffic_run(void *argument)
{
	static const int operations[] = { SUPERP_OP_SEND, SUPERP_OP_READ, SUPERP_OP_WRITE, SUPERP_OP_SEND };
	struct traffic *t = argument;
	struct ring_side *side = t->side;

	while (!__atomic_load_n(t->stop, __ATOMIC_ACQUIRE)) {
		int op = operations[t->sent % ARRAY_SIZE(operations)];
		uint32_t length = 64 + t->sent * 7919 % 20000;
		struct superp_sqe entry = sqe_of(op, &side->mr, 0, NULL, 0, length);

		if (receive(side, &side->qp, HALF, 32768, t->received))
			t->received++;
		entry.token = t->sent;
		entry.remote_addr = op == SUPERP_OP_SEND ? 0 : t->remote;
		if (sq_put(&side->qp, &entry)) {
			t->sent++;
			kick(&side->context, &side->qp);
		}
		traffic_take(t, &side->send_cq, &t->sent_done);
		traffic_take(t, &side->recv_cq, &t->received_done);
	}
	return NULL;
}

/* All that was posted completes, by doorbells and looking. */
static bool traffic_drain(struct traffic *t)
{
	int ms;

	for (ms = 0; ms < WAIT_MS; ms++) {
		traffic_take(t, &t->side->send_cq, &t->sent_done);
		traffic_take(t, &t->side->recv_cq, &t->received_done);
		if (t->sent_done == t->sent && t->received_done == t->received)
			return true;
		doorbell(&t->side->context, &t->side->qp);
		usleep(1000);
	}
	return false;
}

TEST_F_TIMEOUT(modify, while_both_ends_are_busy__each_completes_once, slowly(60))
{
	int round, rounds = 20, encap = variant->options.encap;
	struct ring_side *sides[] = { &self->a, &self->b };

	for (round = 0; round < rounds; round++) {
		struct traffic traffic[2] = {};
		pthread_t threads[2];
		struct superp_cqe completion;
		bool stop = false;
		int i;

		for (i = 0; i < 2; i++) {
			traffic[i].side = sides[i];
			traffic[i].remote = sides[!i]->mr.rma_addr;
			traffic[i].stop = &stop;
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, traffic_run, &traffic[i]));
		}
		usleep(5000 + round * 777 % 9000);
		fail(sides[round % 2]);
		usleep(2000);
		fail(sides[!(round % 2)]);
		usleep(2000);
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, pthread_join(threads[i], NULL));
		for (i = 0; i < 2; i++) {
			bool done = traffic_drain(&traffic[i]);

			EXPECT_EQ(traffic[i].sent, traffic[i].sent_done);
			EXPECT_EQ(traffic[i].received, traffic[i].received_done);
			EXPECT_EQ(0, traffic[i].wrong);
			ASSERT_EQ(true, done);
		}
		/* Nothing of it touches memory any more. */
		for (i = 0; i < 2; i++)
			memset(sides[i]->memory, 0xa5, AREA);
		usleep(2000);
		for (i = 0; i < 2; i++) {
			struct ring_side *side = sides[i];

			EXPECT_EQ(0xa5, side->memory[0]);
			EXPECT_EQ(0, memcmp(side->memory, side->memory + 1, AREA - 1));
			EXPECT_EQ(false, cq_take(&side->send_cq, &completion));
			EXPECT_EQ(false, cq_take(&side->recv_cq, &completion));
			munmap(side->qp.map, side->qp.size);
			ASSERT_EQ(0, ring_destroy(&side->context, SUPERP_IOC_RQP_DESTROY, side->qp.id));
			/* No promise of room was lost: the queues are as large as before. */
			ASSERT_EQ(0, qp_create(&side->context, &side->qp, &side->send_cq, ENTRIES,
					       &side->recv_cq, ENTRIES));
		}
		ASSERT_EQ(0, connect_both(sides[0], sides[1], encap));
	}
}

TEST_F(modify, what_is_wrong__is_refused)
{
	struct ring_side *a = &self->a;
	uint32_t states[] = { SUPERP_QPS_INIT, SUPERP_QPS_RTS, SUPERP_QPS_ERR + 1, UINT32_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		ASSERT_EQ(-1, qp_modify(&a->context, a->qp.id, states[i]));
		EXPECT_EQ(EINVAL, errno);
	}
	ASSERT_EQ(-1, qp_modify(&a->context, a->qp.id + 1, SUPERP_QPS_ERR));
	EXPECT_EQ(ENOENT, errno);
	ASSERT_EQ(-1, ioctl(a->context.fd, SUPERP_IOC_RQP_MODIFY, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(false, qp_failed(&a->qp));
}

static void *stop_softly(void *cid)
{
	usleep(500 + rand() % 1500);
	conn_command(&node_a, SUPERP_CMD_CONN_STOP, *(int *)cid);
	return NULL;
}

/* A queue pair is connected while its connection is shut down: that is done, or refused. */
TEST_F_TIMEOUT(modify, connect_during_a_soft_shutdown__is_done_or_refused, slowly(60))
{
	int round, encap = variant->options.encap;
	struct ring_side *a = &self->a;

	for (round = 0; round < 100; round++) {
		int error = 0;
		pthread_t thread;
		struct qp qp;

		ASSERT_EQ(0, pthread_create(&thread, NULL, stop_softly, &self->cid));
		while (!error) {
			ASSERT_EQ(0, qp_create(&a->context, &qp, &a->send_cq, 1, NULL, 0));
			error = qp_connect(&a->context, &qp, &node_b, encap, 0) ? errno : 0;
			EXPECT_EQ(false, qp_failed(&qp));
			munmap(qp.map, qp.size);
			ASSERT_EQ(0, ring_destroy(&a->context, SUPERP_IOC_RQP_DESTROY, qp.id));
		}
		EXPECT_EQ(EHOSTUNREACH, error);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		conn_down(self->cid);
		ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	}
}

SUPERP_TEST_MAIN
