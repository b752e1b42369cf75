// SPDX-License-Identifier: GPL-2.0
/* Queue pairs with rings: every operation, order, errors, waiting, and what is refused. */

#include "superp_ring.h"

#define AREA (1 << 20)
#define ENTRIES 64
#define WAIT_MS 20000

FIXTURE(ring)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_VARIANT(ring)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(ring, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(ring, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(ring, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(ring)
{
	int encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, ENTRIES, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, encap, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, encap, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(ring)
{
	link_clean();
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

/* Posts an entry of A and waits for its completion, which has its token. */
static int entry_run(struct ring_side *side, struct superp_sqe *entry, struct superp_cqe *completion)
{
	static uint64_t token = 0x1234567800000000;

	entry->token = ++token;
	if (post(&side->context, &side->qp, entry))
		return -1;
	if (!cq_wait(&side->send_cq, completion, WAIT_MS) || completion->token != token)
		return -2;
	return completion->major;
}

/* Gives the queue pair a receive entry for @length bytes at @at of its memory. */
static bool receive(struct ring_side *side, size_t at, uint32_t length, uint64_t token)
{
	struct superp_rqe entry = {
		.addr = side->mr.addr + at,
		.key = side->mr.key,
		.length = length,
		.token = token,
	};

	return rq_put(&side->qp, &entry);
}

static const uint32_t sizes[] = {
	0, 1, 15, 16, 17, 32, 192, 193, 4095, 4096, 4097, 8952, 8953, 9000, 65536, 1 << 19,
};

TEST_F_TIMEOUT(ring, write_and_read__exactly_these_bytes, slowly(60))
{
	struct superp_cqe completion;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t size = sizes[i];
		struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 4099,
						 &self->b.mr, 8000, size);

		pattern_fill(self->a.memory + 4099, size, i);
		memset(self->b.memory + 7936, 0xa5, size + 128);
		ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
		EXPECT_EQ(SUPERP_OP_WRITE, completion.opcode);
		EXPECT_EQ(self->a.qp.id, completion.qp);
		EXPECT_EQ(size, completion.length);
		EXPECT_EQ(0, completion.error);
		ASSERT_EQ(-1, pattern_check(self->b.memory + 8000, size, i));
		EXPECT_EQ(0xa5, self->b.memory[7999]);
		EXPECT_EQ(0xa5, self->b.memory[8000 + size]);

		entry = sqe_of(SUPERP_OP_READ, &self->a.mr, 5000, &self->b.mr, 8000, size);
		memset(self->a.memory + 4999, 0x5a, size + 2);
		ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
		ASSERT_EQ(-1, pattern_check(self->a.memory + 5000, size, i));
		EXPECT_EQ(0x5a, self->a.memory[4999]);
		EXPECT_EQ(0x5a, self->a.memory[5000 + size]);
	}
}

TEST_F(ring, atomics__change_once_and_give_the_old_value)
{
	uint64_t *target = (uint64_t *)(self->b.memory + 64);
	uint64_t *old = (uint64_t *)(self->a.memory + 128);
	struct superp_cqe completion;
	struct superp_sqe entry;

	*target = 40;
	entry = sqe_of(SUPERP_OP_FETCH_ADD, &self->a.mr, 128, &self->b.mr, 64, 8);
	entry.operand = 2;
	ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
	EXPECT_EQ(40, *old);
	EXPECT_EQ(42, *target);
	entry.opcode = SUPERP_OP_COMPARE_SWAP;
	entry.operand = 7;
	entry.compare = 42;
	ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
	EXPECT_EQ(42, *old);
	EXPECT_EQ(7, *target);
	entry.opcode = SUPERP_OP_SWAP;
	entry.operand = 9;
	entry.compare = 0;
	ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
	EXPECT_EQ(7, *old);
	EXPECT_EQ(9, *target);
}

TEST_F(ring, inline__leaves_from_the_entry)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	uint32_t size;

	for (size = 0; size <= SUPERP_MAX_INLINE; size++) {
		entry = (struct superp_sqe) {
			.opcode = SUPERP_OP_WRITE,
			.flags = SUPERP_SQE_SIGNALED | SUPERP_SQE_INLINE,
			.length = size,
			.remote_addr = self->b.mr.rma_addr + 100,
		};
		pattern_fill(entry.data, sizeof(entry.data), size);
		memset(self->b.memory + 100, 0xee, 64);
		ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
		ASSERT_EQ(-1, pattern_check(self->b.memory + 100, size, size));
		EXPECT_EQ(0xee, self->b.memory[100 + size]);
	}
}

/*
 * Rings for entries while completions that have not been taken may fill their
 * queue: what is left in the ring is for the next time.
 */
static bool ring_again(struct ring_side *side)
{
	return !kick(&side->context, &side->qp) || errno == ENOBUFS;
}

TEST_F_TIMEOUT(ring, many__complete_once_and_in_order, slowly(60))
{
	enum { COUNT = 20000 };
	struct superp_cqe completion;
	uint32_t posted = 0, done = 0;

	while (done < COUNT) {
		while (posted < COUNT) {
			struct superp_sqe entry =
				sqe_of(posted % 5 ? SUPERP_OP_WRITE : SUPERP_OP_READ, &self->a.mr,
				       posted % 64 * 256, &self->b.mr, posted % 64 * 256, 256);

			/* What is read is not what is written from. */
			if (entry.opcode == SUPERP_OP_READ)
				entry.local_addr += AREA / 2;
			entry.token = posted;
			if (!sq_put(&self->a.qp, &entry))
				break;
			posted++;
		}
		ASSERT_EQ(true, ring_again(&self->a));
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		do {
			ASSERT_EQ(done, completion.token);
			ASSERT_EQ(0, completion.major);
			done++;
		} while (cq_take(&self->a.send_cq, &completion));
	}
	EXPECT_EQ(0, ring_used(&self->a.qp.sq));
	EXPECT_EQ(false, cq_take(&self->a.send_cq, &completion));
}

TEST_F(ring, unsignaled__completes_without_a_word)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < ENTRIES; i++) {
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, i * 64, &self->b.mr, i * 64, 64);
		entry.token = i;
		/* The last tells of all. */
		if (i < ENTRIES - 1)
			entry.flags = 0;
		memset(self->a.memory + i * 64, i + 1, 64);
		ASSERT_EQ(true, sq_put(&self->a.qp, &entry));
	}
	ASSERT_EQ(0, kick(&self->a.context, &self->a.qp));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(ENTRIES - 1, completion.token);
	EXPECT_EQ(0, ring_used(&self->a.qp.sq));
	EXPECT_EQ(0, memcmp(self->a.memory, self->b.memory, ENTRIES * 64));
	EXPECT_EQ(false, cq_take(&self->a.send_cq, &completion));
}

TEST_F(ring, fence__starts_when_those_before_are_complete)
{
	uint64_t *target = (uint64_t *)(self->b.memory + 64);
	uint64_t *result = (uint64_t *)self->a.memory;
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < 200; i++) {
		/* The local memory of the write is what the read before it brings. */
		*target = i;
		*result = 0;
		entry = sqe_of(SUPERP_OP_READ, &self->a.mr, 0, &self->b.mr, 64, 8);
		entry.flags = 0;
		ASSERT_EQ(true, sq_put(&self->a.qp, &entry));
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 128, 8);
		entry.flags |= SUPERP_SQE_FENCE;
		ASSERT_EQ(true, sq_put(&self->a.qp, &entry));
		ASSERT_EQ(0, kick(&self->a.context, &self->a.qp));
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(i, *(uint64_t *)(self->b.memory + 128));
	}
}

TEST_F(ring, small_completion_queue__leaves_entries_until_there_is_room)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	uint32_t posted, done;
	struct cq cq;
	struct qp qp;

	ASSERT_EQ(0, cq_create(&self->a.context, &cq, 4));
	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &cq, 16, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
	for (posted = 0; posted < 16; posted++) {
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
		entry.token = posted;
		ASSERT_EQ(true, sq_put(&qp, &entry));
	}
	ASSERT_EQ(-1, kick(&self->a.context, &qp));
	EXPECT_EQ(ENOBUFS, errno);
	for (done = 0; done < 16; done++) {
		ASSERT_EQ(true, cq_wait(&cq, &completion, WAIT_MS));
		EXPECT_EQ(done, completion.token);
		EXPECT_EQ(0, completion.major);
		/* Without setting the bit again: it has stayed. */
		send(self->a.context.fd, NULL, 0, 0);
	}
	EXPECT_EQ(0, ring_used(&qp.sq));
}

/* What is under way has its room as what has completed: no completion is written over another one. */
TEST_F(ring, requests_under_way__have_their_room)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	uint32_t posted, done;
	struct cq cq;
	struct qp qp;

	ASSERT_EQ(0, cq_create(&self->a.context, &cq, 2));
	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &cq, 8, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
	/* None completes until the link is clean again. */
	ASSERT_EQ(0, link_netem("delay 2s"));
	for (posted = 0; posted < 8; posted++) {
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
		entry.token = posted;
		ASSERT_EQ(true, sq_put(&qp, &entry));
		if (posted == 1)
			ASSERT_EQ(0, kick(&self->a.context, &qp));
	}
	EXPECT_EQ(-1, kick(&self->a.context, &qp));
	EXPECT_EQ(ENOBUFS, errno);
	link_clean();
	for (done = 0; done < 8; done++) {
		ASSERT_EQ(true, cq_wait(&cq, &completion, WAIT_MS));
		EXPECT_EQ(done, completion.token);
		EXPECT_EQ(0, completion.major);
		send(self->a.context.fd, NULL, 0, 0);
	}
	EXPECT_EQ(0, ring_used(&qp.sq));
}

TEST_F(ring, one_doorbell__serves_all_queue_pairs)
{
	enum { COUNT = 70 };
	struct superp_cqe completion;
	static struct qp qps[COUNT];
	static bool seen[COUNT];
	struct superp_sqe entry;
	unsigned int i;
	struct cq cq;

	ASSERT_EQ(0, cq_create(&self->a.context, &cq, 128));
	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(0, qp_create(&self->a.context, &qps[i], &cq, 1, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qps[i], &node_b,
					variant->options.encap, 0));
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, i * 64, &self->b.mr, i * 64, 64);
		entry.token = i;
		memset(self->a.memory + i * 64, i + 3, 64);
		ASSERT_EQ(true, sq_put(&qps[i], &entry));
		bell_set(&self->a.context, &qps[i]);
	}
	ASSERT_EQ(0, send(self->a.context.fd, NULL, 0, 0));
	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(true, cq_wait(&cq, &completion, WAIT_MS));
		ASSERT_LT(completion.token, COUNT);
		EXPECT_EQ(false, seen[completion.token]);
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(qps[completion.token].id, completion.qp);
		seen[completion.token] = true;
	}
	EXPECT_EQ(0, memcmp(self->a.memory, self->b.memory, COUNT * 64));
}

TEST_F_TIMEOUT(ring, messages__into_receive_entries, slowly(60))
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t size = sizes[i];

		pattern_fill(self->a.memory, size, i);
		memset(self->b.memory, 0, AREA);
		entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, size);
		if (i % 2) {
			entry.flags |= SUPERP_SQE_IMM;
			entry.imm = 0xdead0000 + i;
		}
		ASSERT_EQ(true, receive(&self->b, 777, size + i, 1000 + i));
		ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
		ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
		EXPECT_EQ(1000 + i, completion.token);
		EXPECT_EQ(SUPERP_OP_RECV, completion.opcode);
		EXPECT_EQ(size, completion.length);
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(i % 2 ? SUPERP_CQE_IMM : 0, completion.flags);
		EXPECT_EQ(i % 2 ? 0xdead0000 + i : 0, completion.imm);
		ASSERT_EQ(-1, pattern_check(self->b.memory + 777, size, i));
		EXPECT_EQ(0, self->b.memory[776]);
		EXPECT_EQ(0, self->b.memory[777 + size]);
	}
}

TEST_F_TIMEOUT(ring, messages__wait_for_entries_and_keep_their_order, slowly(60))
{
	enum { COUNT = 300 };
	struct superp_cqe completion;
	uint32_t posted = 0, received = 0, done = 0;
	struct superp_sqe entry;

	/* Three entries for many messages: most are refused, and come again. */
	while (self->b.qp.rq.index < 3)
		ASSERT_EQ(true, receive(&self->b, self->b.qp.rq.index * 64, 64, 0));
	while (done < COUNT || received < COUNT) {
		while (posted < COUNT) {
			entry = (struct superp_sqe) {
				.opcode = SUPERP_OP_SEND,
				.flags = SUPERP_SQE_SIGNALED | SUPERP_SQE_INLINE,
				.length = 32,
				.token = posted,
			};
			memcpy(entry.data, &posted, sizeof(posted));
			if (!sq_put(&self->a.qp, &entry))
				break;
			posted++;
		}
		ASSERT_EQ(true, ring_again(&self->a));
		while (cq_take(&self->b.recv_cq, &completion)) {
			ASSERT_EQ(0, completion.major);
			ASSERT_EQ(received, *(uint32_t *)(self->b.memory + received % 3 * 64));
			received++;
			ASSERT_EQ(true, receive(&self->b, self->b.qp.rq.index % 3 * 64, 64, 0));
		}
		while (cq_take(&self->a.send_cq, &completion)) {
			ASSERT_EQ(0, completion.major);
			ASSERT_EQ(done, completion.token);
			done++;
		}
	}
}

/* Every second one waits for its receive entry. */
TEST_F_TIMEOUT(ring, write_with_immediate__takes_a_receive_entry_and_tells_its_length, slowly(60))
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t size = sizes[i];

		pattern_fill(self->a.memory, size, i);
		memset(self->b.memory, 0, AREA);
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 777, size);
		entry.flags |= SUPERP_SQE_IMM | SUPERP_SQE_SIGNALED;
		entry.imm = 0xdead0000 + i;
		entry.token = i;
		if (i % 2 == 0)
			ASSERT_EQ(true, receive(&self->b, 0, 10, 1000 + i));
		ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
		if (i % 2) {
			ASSERT_EQ(false, cq_wait(&self->a.send_cq, &completion, 20));
			ASSERT_EQ(true, receive(&self->b, 0, 10, 1000 + i));
		}
		ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
		EXPECT_EQ(1000 + i, completion.token);
		EXPECT_EQ(SUPERP_OP_RECV_WRITE, completion.opcode);
		EXPECT_EQ(size, completion.length);
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(0xdead0000 + i, completion.imm);
		EXPECT_EQ(SUPERP_CQE_IMM, completion.flags);
		ASSERT_EQ(-1, pattern_check(self->b.memory + 777, size, i));
		EXPECT_EQ(0, self->b.memory[776]);
		EXPECT_EQ(0, self->b.memory[777 + size]);
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		EXPECT_EQ(i, completion.token);
		EXPECT_EQ(0, completion.major);
	}
}

TEST_F(ring, message_too_long__fails_at_both_ends)
{
	struct superp_cqe completion;
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 100);

	memset(self->b.memory, 0x11, 200);
	ASSERT_EQ(true, receive(&self->b, 0, 99, 1));
	ASSERT_EQ(true, receive(&self->b, 0, 200, 2));
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, entry_run(&self->a, &entry, &completion));
	EXPECT_EQ(1, completion.minor);
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(1, completion.token);
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, completion.major);
	EXPECT_EQ(1, completion.minor);
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(2, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	EXPECT_EQ(0x11, self->b.memory[0]);
	EXPECT_EQ(true, qp_failed(&self->a.qp));
	EXPECT_EQ(true, qp_failed(&self->b.qp));
}

TEST_F(ring, receive_entry_outside_of_regions__fails)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 100);
	struct superp_cqe completion;

	ASSERT_EQ(true, receive(&self->b, AREA - 50, 100, 1));
	EXPECT_EQ(SUPERP_ERR_NO_QP, entry_run(&self->a, &entry, &completion));
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);
	EXPECT_EQ(2, completion.minor);
}

TEST_F(ring, armed__wakes_poll_once)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
	struct superp_cqe completion;
	unsigned int i;

	/* Not armed: no word. */
	ASSERT_EQ(0, entry_run(&self->a, &entry, &completion));
	EXPECT_EQ(0, superp_poll(self->a.context.fd, POLLIN, 0) & POLLIN);
	for (i = 0; i < 100; i++) {
		cq_arm(&self->a.send_cq);
		ASSERT_EQ(false, cq_take(&self->a.send_cq, &completion));
		ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
		ASSERT_EQ(POLLIN, superp_poll(self->a.context.fd, POLLIN, WAIT_MS));
		ASSERT_EQ(true, cq_event(&self->a.context, &self->a.send_cq));
		ASSERT_EQ(0, *self->a.send_cq.ring.flags);
		ASSERT_EQ(true, cq_take(&self->a.send_cq, &completion));
		ASSERT_EQ(0, superp_poll(self->a.context.fd, POLLIN, 0) & POLLIN);
	}
}

TEST_F(ring, failed_entry__the_rest_is_aborted)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	ASSERT_EQ(true, receive(&self->a, 0, 64, 500));
	for (i = 0; i < 5; i++) {
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
		entry.token = i;
		entry.flags = 0;
		if (i == 2)
			entry.local_key ^= 1;
		ASSERT_EQ(true, sq_put(&self->a.qp, &entry));
	}
	ASSERT_EQ(0, kick(&self->a.context, &self->a.qp));
	for (i = 2; i < 5; i++) {
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		EXPECT_EQ(i, completion.token);
		EXPECT_EQ(i == 2 ? SUPERP_ERR_ACCESS : SUPERP_ERR_ABORTED, completion.major);
		EXPECT_EQ(i == 2 ? 1 : 0, completion.minor);
		EXPECT_EQ(i == 2 ? EACCES : ECONNRESET, completion.error);
	}
	EXPECT_EQ(true, qp_failed(&self->a.qp));
	ASSERT_EQ(true, cq_wait(&self->a.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(500, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	/* What comes afterwards is flushed by the doorbell. */
	ASSERT_EQ(true, receive(&self->a, 0, 64, 501));
	ASSERT_EQ(0, doorbell(&self->a.context, &self->a.qp));
	ASSERT_EQ(true, cq_take(&self->a.recv_cq, &completion));
	EXPECT_EQ(501, completion.token);
}

TEST_F(ring, malformed_entries__each_by_its_name)
{
	const struct superp_sqe good = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
	struct {
		struct superp_sqe entry;
		int major, minor;
	} cases[] = {
		{ good, SUPERP_ERR_MALFORMED, 0 },
		{ good, SUPERP_ERR_MALFORMED, 0 },
		{ good, SUPERP_ERR_OPCODE, 0 },
		{ good, SUPERP_ERR_OPCODE, 0 },
		{ good, SUPERP_ERR_MALFORMED, 1 },
		{ good, SUPERP_ERR_MALFORMED, 1 },
		{ good, SUPERP_ERR_ACCESS, 2 },
		{ good, SUPERP_ERR_ACCESS, 2 },
		{ good, SUPERP_ERR_MALFORMED, 0 },
		{ good, SUPERP_ERR_MALFORMED, 0 },
		{ good, SUPERP_ERR_MALFORMED, 4 },
		{ good, SUPERP_ERR_ACCESS, 1 },
		{ good, SUPERP_ERR_NO_QP, 0 },
	};
	struct superp_cqe completion;
	unsigned int i;
	struct qp qp;

	cases[0].entry.rsvd = 1;
	cases[1].entry.flags |= 0x8000;
	cases[2].entry.opcode = 0;
	cases[3].entry.opcode = SUPERP_OP_RECV;
	cases[4].entry.length = SUPERP_MAX_RMA + 1;
	cases[5].entry.flags |= SUPERP_SQE_INLINE;
	cases[5].entry.local_key = 0;
	cases[6].entry.length = AREA + 1;
	cases[7].entry.local_addr -= 1;
	cases[8].entry.rsvd2 = 1;
	cases[9].entry.imm = 1;
	cases[10].entry.opcode = SUPERP_OP_SWAP;
	cases[10].entry.length = 8;
	cases[10].entry.remote_addr += 1;
	cases[11].entry.local_key ^= 1;
	cases[12].entry.opcode = SUPERP_OP_SEND;
	cases[12].entry.remote_addr = 0;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, 1, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
		ASSERT_EQ(0, post(&self->a.context, &qp, &cases[i].entry));
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		EXPECT_EQ(cases[i].major, completion.major) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(cases[i].minor, completion.minor) {
			TH_LOG("case %u", i);
		}
		munmap(qp.map, qp.size);
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
	}
}

TEST_F(ring, not_connected__has_nobody_to_go_to)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
	struct superp_cqe completion;
	struct qp qp;

	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, 1, NULL, 0));
	ASSERT_EQ(0, post(&self->a.context, &qp, &entry));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(qp.id, completion.qp);
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	ASSERT_EQ(-1, qp_connect(&self->a.context, &self->a.qp, &node_b, variant->options.encap, 1));
	EXPECT_EQ(EISCONN, errno);
}

TEST_F(ring, wild_index__is_the_error_state)
{
	struct superp_cqe completion;

	ASSERT_EQ(true, receive(&self->a, 0, 64, 500));
	*self->a.qp.sq.producer = ENTRIES + 1;
	ASSERT_EQ(0, doorbell(&self->a.context, &self->a.qp));
	EXPECT_EQ(true, qp_failed(&self->a.qp));
	ASSERT_EQ(true, cq_wait(&self->a.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(500, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
}

TEST_F(ring, end_of_the_connection__ends_everything)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 64);
	struct superp_cqe completion;

	cq_arm(&self->b.recv_cq);
	ASSERT_EQ(true, receive(&self->b, 0, 64, 1));
	/* B has one entry: the second message waits. */
	entry.token = 10;
	ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
	entry.token = 11;
	ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
	conn_down(self->cid);
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(11, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	EXPECT_EQ(true, qp_failed(&self->a.qp));
	EXPECT_EQ(true, qp_failed(&self->b.qp));
	ASSERT_EQ(true, receive(&self->b, 0, 64, 2));
	ASSERT_EQ(0, doorbell(&self->b.context, &self->b.qp));
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(2, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
}

TEST_F(ring, before_connect__messages_wait)
{
	struct superp_sqe entry;
	struct superp_cqe completion;
	struct qp to, from;

	ASSERT_EQ(0, qp_create(&self->b.context, &to, &self->b.send_cq, 1, &self->b.recv_cq, 1));
	ASSERT_EQ(0, qp_create(&self->a.context, &from, &self->a.send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &from, &node_b, variant->options.encap, to.qpn));
	self->b.qp = to;
	ASSERT_EQ(true, receive(&self->b, 0, 64, 3));
	entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 64);
	ASSERT_EQ(0, post(&self->a.context, &from, &entry));
	usleep(10000);
	EXPECT_EQ(false, cq_take(&self->b.recv_cq, &completion));
	ASSERT_EQ(0, qp_connect(&self->b.context, &to, &node_a, variant->options.encap, from.qpn));
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(3, completion.token);
	EXPECT_EQ(0, completion.major);
}

TEST_F(ring, destroy__with_requests_under_way)
{
	struct superp_cqe completion;
	struct superp_sqe entry;
	unsigned int i;

	for (i = 0; i < 50; i++) {
		struct qp qp;

		ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, 1, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
		entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, AREA);
		ASSERT_EQ(0, post(&self->a.context, &qp, &entry));
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
		while (cq_take(&self->a.send_cq, &completion))
			;
		ASSERT_EQ(-1, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
		EXPECT_EQ(ENOENT, errno);
		/* The mapping stays, and means nothing. */
		*qp.sq.producer = 99;
		munmap(qp.map, qp.size);
	}
	/* No promise of room was lost. */
	entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 8192);
	for (i = 0; i < ENTRIES; i++)
		ASSERT_EQ(true, sq_put(&self->a.qp, &entry));
	for (i = 0; i < ENTRIES; i++) {
		/* ENOBUFS as long as those of before are under way. */
		doorbell(&self->a.context, &self->a.qp);
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		EXPECT_EQ(0, completion.major);
	}
}

TEST(commands__refuse_what_is_wrong)
{
	struct superp_rqp_create qp = { .sq_entries = 1 };
	struct superp_rqp_connect connect = { .qp = 5 };
	struct superp_cq_create cq = { .entries = 3 };
	struct superp_mr_reg region;
	struct context context;
	struct cq good;
	char byte = 0;

	ASSERT_EQ(0, context_open(&context, &node_a));
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(EINVAL, errno);
	cq.entries = 0;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(EINVAL, errno);
	cq.entries = 2 * SUPERP_MAX_CQ_ENTRIES;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(ENOENT, errno);
	ASSERT_EQ(0, cq_create(&context, &good, 1));
	qp.sq_entries = 2 * SUPERP_MAX_SQ_ENTRIES;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.sq_entries = 1;
	qp.rq_entries = 3;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.rq_entries = 1;
	qp.qpn = SUPERP_QPN_MAX + 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EINVAL, errno);
	qp.qpn = 4711;
	ASSERT_EQ(0, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(4711, qp.qpn);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &qp));
	EXPECT_EQ(EADDRINUSE, errno);
	EXPECT_EQ(-1, ring_destroy(&context, SUPERP_IOC_CQ_DESTROY, good.id));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CONNECT, &connect));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	connect.peer = superp_name(&node_b, SUPERP_ENCAP_SUNH, 0);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CONNECT, &connect));
	EXPECT_EQ(ENOENT, errno);
	connect.qp = qp.qp;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CONNECT, &connect));
	EXPECT_EQ(EHOSTUNREACH, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, context.fd,
				   1ull << 40));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, context.fd,
				   0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, context.fd, 0));
	EXPECT_EQ(NULL, mr_memory(context.fd, 4096, SUPERP_ACCESS_RECEIVE, &region));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send(context.fd, &byte, 1, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, recv(context.fd, &byte, 1, 0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(0, ring_destroy(&context, SUPERP_IOC_RQP_DESTROY, qp.qp));
	ASSERT_EQ(0, ring_destroy(&context, SUPERP_IOC_CQ_DESTROY, good.id));
	EXPECT_EQ(-1, ring_destroy(&context, SUPERP_IOC_CQ_DESTROY, good.id));
	EXPECT_EQ(ENOENT, errno);
	context_close(&context);
}

SUPERP_TEST_MAIN
