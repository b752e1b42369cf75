// SPDX-License-Identifier: GPL-2.0
/* The C library: every operation, lists of requests, events, threads, and what is refused. */
#include <pthread.h>

#include "superp_verbs.h"

FIXTURE(verbs)
{
	int cid;
	struct side a, b;
};

FIXTURE_VARIANT(verbs)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(verbs, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(verbs, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(verbs, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(verbs)
{
	int encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, side_up(&self->a, &node_a));
	ASSERT_EQ(0, side_up(&self->b, &node_b));
	ASSERT_EQ(0, side_connect(&self->a, &node_b, encap, superp_qp_num(self->b.qp)));
	ASSERT_EQ(0, side_connect(&self->b, &node_a, encap, superp_qp_num(self->a.qp)));
}

FIXTURE_TEARDOWN(verbs)
{
	link_clean();
	EXPECT_EQ(0, side_down(&self->a));
	EXPECT_EQ(0, side_down(&self->b));
	conn_down(self->cid);
}

TEST_F(verbs, write_and_read__exactly_these_bytes)
{
	static const uint32_t sizes[] = { 0, 1, 16, 4097, 9000, 1 << 19 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct superp_sge sge = sge_of(&self->a, 64, sizes[i]);
		struct superp_send_wr wr = {
			.opcode = SUPERP_OP_WRITE, .sg_list = &sge, .num_sge = 1, .remote_addr = self->b.mr->rma_addr + 32,
		};
		struct superp_wc wc;

		pattern_fill(self->a.memory, AREA, 2 * i);
		memset(self->b.memory, 0xee, AREA);
		ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
		EXPECT_EQ(sizes[i], wc.byte_len);
		EXPECT_EQ(0, memcmp(self->b.memory + 32, self->a.memory + 64, sizes[i]));
		EXPECT_EQ(0xee, self->b.memory[31]);
		EXPECT_EQ(0xee, self->b.memory[32 + sizes[i]]);

		pattern_fill(self->b.memory, AREA, 2 * i + 1);
		wr.opcode = SUPERP_OP_READ;
		ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
		EXPECT_EQ(0, memcmp(self->b.memory + 32, self->a.memory + 64, sizes[i]));
	}
}

TEST_F(verbs, atomics__change_once_and_give_the_old_value)
{
	struct superp_sge sge = sge_of(&self->a, 8, 8);
	struct superp_send_wr wr = {
		.opcode = SUPERP_OP_FETCH_ADD, .sg_list = &sge, .num_sge = 1,
		.remote_addr = self->b.mr->rma_addr + 16, .operand = 5,
	};
	uint64_t *number = (uint64_t *)(self->b.memory + 16), *old = (uint64_t *)(self->a.memory + 8);
	struct superp_wc wc;

	*number = 100;
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(100, *old);
	EXPECT_EQ(105, *number);
	wr.opcode = SUPERP_OP_COMPARE_SWAP;
	wr.compare = 105;
	wr.operand = 7;
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(105, *old);
	EXPECT_EQ(7, *number);
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(7, *old);
	EXPECT_EQ(7, *number);
	wr.opcode = SUPERP_OP_SWAP;
	wr.compare = 0;
	wr.operand = 9;
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(7, *old);
	EXPECT_EQ(9, *number);
}

TEST_F(verbs, messages__with_immediate_and_inline)
{
	struct superp_sge sge = sge_of(&self->a, 0, 20000);
	struct superp_send_wr wr = {
		.opcode = SUPERP_OP_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = SUPERP_SEND_IMM, .imm_data = 0xa1b2c3d4,
	};
	char text[] = "from the entry";
	struct superp_wc wc;

	pattern_fill(self->a.memory, AREA, 1);
	ASSERT_EQ(0, receive(&self->b, 128, 32768, 77));
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	ASSERT_EQ(0, wait_cq(&self->b, self->b.recv_cq, &wc));
	EXPECT_EQ(77, wc.wr_id);
	EXPECT_EQ(0, wc.status);
	EXPECT_EQ(SUPERP_OP_RECV, wc.opcode);
	EXPECT_EQ(20000, wc.byte_len);
	EXPECT_EQ(SUPERP_WC_WITH_IMM, wc.wc_flags);
	EXPECT_EQ(0xa1b2c3d4, wc.imm_data);
	EXPECT_EQ(0, memcmp(self->b.memory + 128, self->a.memory, 20000));

	/* The bytes are copied when it is posted, and need no region. */
	ASSERT_EQ(0, receive(&self->b, 0, 64, 78));
	sge = (struct superp_sge){ .addr = (uintptr_t)text, .length = sizeof(text) };
	wr.send_flags = SUPERP_SEND_INLINE;
	ASSERT_EQ(0, superp_post_send(self->a.qp, &wr, NULL));
	memset(text, 0, sizeof(text));
	ASSERT_EQ(0, wait_cq(&self->b, self->b.recv_cq, &wc));
	EXPECT_EQ(0, wc.wc_flags);
	EXPECT_EQ(sizeof(text), wc.byte_len);
	EXPECT_STREQ("from the entry", (char *)self->b.memory);
}

/* Writes from the program's own memory, again and again through a small ring. */
TEST_F(verbs, inline_data__are_copied_when_they_are_posted)
{
	static const uint32_t lengths[] = { 200, 33, 0, 32, 256, 1, 64 };
	enum { PLACE = 512, COUNT = 100, ROOM = 256 };
	struct superp_qp_init_attr attr = {
		.send_cq = self->a.send_cq, .recv_cq = self->a.recv_cq, .max_send_wr = 8, .max_inline_data = 200,
	};
	struct sockaddr_superp peer = superp_name(&node_b, variant->options.encap, 0);
	uint8_t bytes[2][SUPERP_INLINE_LIMIT], expected[ROOM];
	struct superp_sge pieces[] = { { .addr = (uintptr_t)bytes[0] }, { .addr = (uintptr_t)bytes[1] } };
	struct superp_send_wr wr = {
		.opcode = SUPERP_OP_WRITE, .sg_list = pieces, .num_sge = 2,
		.send_flags = SUPERP_SEND_INLINE | SUPERP_SEND_SIGNALED,
	};
	struct superp_qp *qp = superp_create_qp(self->a.context, &attr);
	int posted = 0, done = 0, error;
	struct superp_wc wc;

	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, superp_connect_qp(qp, &peer, NULL));
	memset(self->b.memory, 0xee, AREA);
	while (done < COUNT) {
		if (posted < COUNT) {
			/* Every other one is in two pieces. */
			uint32_t length = lengths[posted % ARRAY_SIZE(lengths)], first = posted % 2 ? length / 3 : length;

			pattern_fill(expected, length, posted);
			memcpy(bytes[0], expected, first);
			memcpy(bytes[1], expected + first, length - first);
			pieces[0].length = first;
			pieces[1].length = length - first;
			wr.wr_id = posted;
			wr.remote_addr = self->b.mr->rma_addr + posted * PLACE;
			error = superp_post_send(qp, &wr, NULL);
			memset(bytes, 0xdd, sizeof(bytes));
			ASSERT_EQ(true, !error || error == ENOMEM);
			posted += !error;
			if (!error)
				continue;
		}
		ASSERT_EQ(0, wait_cq(&self->a, self->a.send_cq, &wc));
		ASSERT_EQ(0, wc.status);
		ASSERT_EQ(done, wc.wr_id);
		ASSERT_EQ(lengths[done % ARRAY_SIZE(lengths)], wc.byte_len);
		done++;
	}
	for (int i = 0; i < COUNT; i++) {
		uint32_t length = lengths[i % ARRAY_SIZE(lengths)];

		pattern_fill(expected, length, i);
		ASSERT_EQ(0, memcmp(self->b.memory + i * PLACE, expected, length));
		ASSERT_EQ(0xee, self->b.memory[i * PLACE + length]);
	}

	pieces[0].length = ROOM;
	pieces[1].length = 1;
	EXPECT_EQ(EMSGSIZE, superp_post_send(qp, &wr, NULL));
	pieces[1].length = SUPERP_INLINE_LIMIT;
	EXPECT_EQ(EMSGSIZE, superp_post_send(qp, &wr, NULL));
	EXPECT_EQ(0, superp_destroy_qp(qp));
	attr.max_inline_data = SUPERP_INLINE_LIMIT + 1;
	EXPECT_EQ(NULL, superp_create_qp(self->a.context, &attr));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(verbs, pieces__are_one_behind_the_other)
{
	struct superp_sge from[PIECES] = {
		sge_of(&self->a, 0, 40), sge_of(&self->a, 5000, 0), sge_of(&self->a, 8191, 30000),
	};
	struct superp_sge to[PIECES] = {
		sge_of(&self->b, 100, 39), sge_of(&self->b, 70000, 20000), sge_of(&self->b, 4096, 20000),
	};
	struct superp_send_wr wr = { .opcode = SUPERP_OP_SEND, .sg_list = from, .num_sge = PIECES };
	struct superp_recv_wr buffer = { .wr_id = 5, .sg_list = to, .num_sge = PIECES };
	char hello[] = "hello, ", world[] = "world";
	struct superp_sge text[] = {
		{ .addr = (uintptr_t)hello, .length = sizeof(hello) - 1 },
		{ .addr = (uintptr_t)world, .length = sizeof(world) },
	};
	uint8_t *a = self->a.memory, *b = self->b.memory;
	struct superp_wc wc;

	pattern_fill(a, AREA, 9);
	ASSERT_EQ(0, superp_post_recv(self->b.qp, &buffer, NULL));
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	ASSERT_EQ(0, wait_cq(&self->b, self->b.recv_cq, &wc));
	EXPECT_EQ(5, wc.wr_id);
	EXPECT_EQ(30040, wc.byte_len);
	EXPECT_EQ(0, memcmp(b + 100, a, 39));
	EXPECT_EQ(a[39], b[70000]);
	EXPECT_EQ(0, memcmp(b + 70001, a + 8191, 19999));
	EXPECT_EQ(0, memcmp(b + 4096, a + 8191 + 19999, 10001));

	wr.opcode = SUPERP_OP_READ;
	wr.remote_addr = self->b.mr->rma_addr + 200;
	pattern_fill(b, AREA, 10);
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(0, memcmp(a, b + 200, 40));
	EXPECT_EQ(0, memcmp(a + 8191, b + 240, 30000));

	wr = (struct superp_send_wr){
		.opcode = SUPERP_OP_WRITE, .sg_list = text, .num_sge = 2, .send_flags = SUPERP_SEND_INLINE,
		.remote_addr = self->b.mr->rma_addr,
	};
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(13, wc.byte_len);
	EXPECT_STREQ("hello, world", (char *)b);
	text[0].length = SUPERP_MAX_INLINE;
	EXPECT_EQ(EMSGSIZE, superp_post_send(self->a.qp, &wr, NULL));
}

TEST_F(verbs, shared_receive_queue__serves_its_queue_pairs)
{
	struct superp_srq_init_attr shared = { .srq_context = self, .max_wr = 3, .max_sge = 2 };
	struct superp_srq *srq = superp_create_srq(self->b.context, &shared);
	struct superp_qp_init_attr attr = {
		.send_cq = self->b.send_cq, .recv_cq = self->b.recv_cq, .max_send_wr = 1, .srq = srq,
	};
	struct superp_sge sge = sge_of(&self->a, 0, 5000), pieces[] = {
		sge_of(&self->b, 0, 1000), sge_of(&self->b, 2000, 4000), sge_of(&self->b, 0, 1),
	};
	struct superp_recv_wr buffers[5], *bad;
	struct superp_send_wr wr = { .opcode = SUPERP_OP_SEND, .sg_list = &sge, .num_sge = 1 };
	struct sockaddr_superp name = superp_name(&node_b, variant->options.encap, 0);
	struct superp_qp *from[2], *to[2];
	struct superp_wc wc;

	ASSERT_NE(NULL, srq);
	EXPECT_EQ(self, superp_srq_context(srq));
	for (int i = 0; i < 5; i++)
		buffers[i] = (struct superp_recv_wr){
			.wr_id = i, .next = i < 4 ? &buffers[i + 1] : NULL, .sg_list = pieces, .num_sge = 2,
		};
	buffers[1].num_sge = 3;
	EXPECT_EQ(EINVAL, superp_post_srq_recv(srq, buffers, &bad));
	EXPECT_EQ(&buffers[1], bad);
	/* Rounded up to four, of which one is there. */
	buffers[1].num_sge = 2;
	EXPECT_EQ(ENOMEM, superp_post_srq_recv(srq, &buffers[1], &bad));
	EXPECT_EQ(&buffers[4], bad);
	pattern_fill(self->a.memory, 5000, 6);
	for (int i = 0; i < 2; i++) {
		struct superp_qp_init_attr own = {
			.send_cq = self->a.send_cq, .recv_cq = self->a.recv_cq, .max_send_wr = 1,
		};

		to[i] = superp_create_qp(self->b.context, &attr);
		ASSERT_NE(NULL, to[i]);
		from[i] = superp_create_qp(self->a.context, &own);
		ASSERT_NE(NULL, from[i]);
		name.ssp_qpn = superp_qp_num(to[i]);
		ASSERT_EQ(0, superp_connect_qp(from[i], &name, NULL));
	}
	name = superp_name(&node_a, variant->options.encap, 0);
	for (int i = 0; i < 4; i++) {
		if (i < 2)
			ASSERT_EQ(0, superp_connect_qp(to[i], &name, NULL));
		memset(self->b.memory, 0, AREA);
		ASSERT_EQ(0, superp_post_send(from[i % 2], &wr, NULL));
		ASSERT_EQ(0, wait_cq(&self->b, self->b.recv_cq, &wc));
		EXPECT_EQ(0, wc.status);
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(superp_qp_index(to[i % 2]), wc.qp_index);
		EXPECT_EQ(0, memcmp(self->b.memory, self->a.memory, 1000));
		EXPECT_EQ(0, memcmp(self->b.memory + 2000, self->a.memory + 1000, 4000));
	}
	EXPECT_EQ(EBUSY, superp_destroy_srq(srq));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, superp_destroy_qp(to[i]));
		EXPECT_EQ(0, superp_destroy_qp(from[i]));
	}
	EXPECT_EQ(0, superp_destroy_srq(srq));
	shared.max_wr = SUPERP_MAX_SRQ_ENTRIES + 1;
	EXPECT_EQ(NULL, superp_create_srq(self->b.context, &shared));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(verbs, write_with_immediate__tells_when_all_is_there)
{
	struct superp_sge sge = sge_of(&self->a, 0, 100000);
	struct superp_send_wr wr = {
		.opcode = SUPERP_OP_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = SUPERP_SEND_IMM,
		.imm_data = 7, .remote_addr = self->b.mr->rma_addr,
	};
	struct superp_wc wc;

	pattern_fill(self->a.memory, AREA, 3);
	ASSERT_EQ(0, receive(&self->b, 0, 0, 5));
	ASSERT_EQ(0, request_run(&self->a, &wr, &wc));
	ASSERT_EQ(0, wait_cq(&self->b, self->b.recv_cq, &wc));
	EXPECT_EQ(SUPERP_OP_RECV_WRITE, wc.opcode);
	EXPECT_EQ(100000, wc.byte_len);
	EXPECT_EQ(7, wc.imm_data);
	EXPECT_EQ(0, memcmp(self->b.memory, self->a.memory, 100000));
}

TEST_F(verbs, fenced_read__sees_the_writes_before)
{
	const uint32_t length = 40000, back = AREA / 2;
	struct superp_sge from = sge_of(&self->a, 0, length), to = sge_of(&self->a, back, length);
	struct superp_send_wr read = {
		.wr_id = 2, .opcode = SUPERP_OP_READ, .sg_list = &to, .num_sge = 1,
		.send_flags = SUPERP_SEND_SIGNALED | SUPERP_SEND_FENCE, .remote_addr = self->b.mr->rma_addr,
	};
	struct superp_send_wr write = {
		.wr_id = 1, .next = &read, .opcode = SUPERP_OP_WRITE, .sg_list = &from, .num_sge = 1,
		.remote_addr = self->b.mr->rma_addr,
	};
	struct superp_wc wc;

	ASSERT_EQ(0, link_netem("delay 1ms 1ms loss 5% duplicate 10%"));
	for (int round = 0; round < 20; round++) {
		pattern_fill(self->a.memory, length, round);
		memset(self->a.memory + back, 0, length);
		ASSERT_EQ(0, superp_post_send(self->a.qp, &write, NULL));
		ASSERT_EQ(0, wait_cq(&self->a, self->a.send_cq, &wc));
		ASSERT_EQ(2, wc.wr_id);
		ASSERT_EQ(0, wc.status);
		ASSERT_EQ(-1, pattern_check(self->a.memory + back, length, round));
	}
}

TEST_F(verbs, list__is_posted_up_to_what_is_wrong)
{
	struct superp_sge sge = sge_of(&self->a, 0, 64), pieces[PIECES + 1] = { sge };
	struct superp_send_wr wr[ENTRIES + 1], *bad = NULL;
	struct superp_wc wc[ENTRIES];

	for (int i = 0; i <= ENTRIES; i++)
		wr[i] = (struct superp_send_wr){
			.wr_id = i, .next = i < ENTRIES ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
			.opcode = SUPERP_OP_WRITE, .remote_addr = self->b.mr->rma_addr,
		};
	wr[2].send_flags = SUPERP_SEND_SIGNALED;
	wr[3].sg_list = pieces;
	wr[3].num_sge = PIECES + 1;
	EXPECT_EQ(EINVAL, superp_post_send(self->a.qp, wr, &bad));
	EXPECT_EQ(&wr[3], bad);
	ASSERT_EQ(0, wait_cq(&self->a, self->a.send_cq, wc));
	EXPECT_EQ(2, wc[0].wr_id);
	EXPECT_EQ(0, superp_poll_cq(self->a.send_cq, ENTRIES, wc));

	wr[3] = wr[4];
	wr[3].next = NULL;
	wr[3].send_flags = 1u << 31;
	EXPECT_EQ(EINVAL, superp_post_send(self->a.qp, &wr[3], &bad));
	EXPECT_EQ(&wr[3], bad);
	sge.length = SUPERP_MAX_INLINE + 1;
	wr[3].send_flags = SUPERP_SEND_INLINE;
	EXPECT_EQ(EMSGSIZE, superp_post_send(self->a.qp, &wr[3], &bad));
	EXPECT_EQ(&wr[3], bad);
	EXPECT_EQ(0, superp_poll_cq(self->a.send_cq, ENTRIES, wc));
}

TEST_F(verbs, full_ring__takes_no_more)
{
	struct superp_recv_wr wr[ENTRIES + 1], *bad = NULL;

	/* Nothing is sent to A: its buffers stay. */
	for (int i = 0; i <= ENTRIES; i++)
		wr[i] = (struct superp_recv_wr){ .wr_id = i, .next = i < ENTRIES ? &wr[i + 1] : NULL };
	EXPECT_EQ(ENOMEM, superp_post_recv(self->a.qp, wr, &bad));
	EXPECT_EQ(&wr[ENTRIES], bad);
}

TEST_F(verbs, failure__is_named_and_aborts_the_rest)
{
	struct superp_sge sge = sge_of(&self->a, 0, 64);
	struct superp_send_wr wr = {
		.opcode = SUPERP_OP_WRITE, .sg_list = &sge, .num_sge = 1, .remote_addr = self->b.mr->rma_addr + AREA,
	};
	struct superp_wc wc;

	ASSERT_EQ(0, receive(&self->a, 0, 64, 1));
	ASSERT_EQ(SUPERP_ERR_ACCESS, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(2, wc.minor);
	EXPECT_EQ(EACCES, wc.error);
	EXPECT_STREQ("outside of the memory region", superp_wc_status_str(wc.status, wc.minor));
	ASSERT_EQ(0, wait_cq(&self->a, self->a.recv_cq, &wc));
	EXPECT_EQ(1, wc.wr_id);
	EXPECT_EQ(SUPERP_ERR_ABORTED, wc.status);

	/* What is posted afterwards is aborted too, at once. */
	wr.remote_addr = self->b.mr->rma_addr;
	EXPECT_EQ(SUPERP_ERR_ABORTED, request_run(&self->a, &wr, &wc));
	ASSERT_EQ(0, receive(&self->a, 0, 64, 2));
	ASSERT_EQ(0, wait_cq(&self->a, self->a.recv_cq, &wc));
	EXPECT_EQ(2, wc.wr_id);
	EXPECT_EQ(SUPERP_ERR_ABORTED, wc.status);
}

static int state_of(struct side *side)
{
	struct superp_qp_attr attr;

	return superp_query_qp(side->qp, &attr, SUPERP_QP_STATE) ? -1 : (int)attr.qp_state;
}

static int modify(struct side *side, uint32_t state, uint32_t mask)
{
	struct superp_qp_attr attr = { .qp_state = state };

	return superp_modify_qp(side->qp, &attr, mask);
}

TEST_F(verbs, error_state__flushes_what_is_posted_and_what_comes)
{
	struct superp_sge sge = sge_of(&self->a, 0, 64);
	struct superp_send_wr wr = { .opcode = SUPERP_OP_SEND, .sg_list = &sge, .num_sge = 1 };
	struct superp_wc wc;

	EXPECT_EQ(SUPERP_QPS_RTS, state_of(&self->a));
	EXPECT_EQ(EINVAL, modify(&self->a, SUPERP_QPS_INIT, SUPERP_QP_STATE));
	EXPECT_EQ(EINVAL, modify(&self->a, SUPERP_QPS_ERR, SUPERP_QP_STATE | 2));
	EXPECT_EQ(EINVAL, superp_query_qp(self->a.qp, NULL, 2));
	EXPECT_EQ(0, modify(&self->a, SUPERP_QPS_ERR, 0));
	EXPECT_EQ(SUPERP_QPS_RTS, state_of(&self->a));
	ASSERT_EQ(0, receive(&self->a, 0, 64, 1));
	/* B has no buffer: the message is with the connection. */
	wr.wr_id = 2;
	ASSERT_EQ(0, superp_post_send(self->a.qp, &wr, NULL));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, modify(&self->a, SUPERP_QPS_ERR, SUPERP_QP_STATE));
		EXPECT_EQ(SUPERP_QPS_ERR, state_of(&self->a));
	}
	ASSERT_EQ(1, superp_poll_cq(self->a.recv_cq, 1, &wc));
	EXPECT_EQ(1, wc.wr_id);
	EXPECT_EQ(SUPERP_ERR_ABORTED, wc.status);
	ASSERT_EQ(0, wait_cq(&self->a, self->a.send_cq, &wc));
	EXPECT_EQ(2, wc.wr_id);
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, wc.status);
	ASSERT_EQ(0, receive(&self->a, 0, 64, 3));
	ASSERT_EQ(1, superp_poll_cq(self->a.recv_cq, 1, &wc));
	EXPECT_EQ(3, wc.wr_id);
	EXPECT_EQ(SUPERP_ERR_ABORTED, request_run(&self->a, &wr, &wc));
	EXPECT_EQ(SUPERP_QPS_RTS, state_of(&self->b));
	conn_down(self->cid);
	EXPECT_EQ(SUPERP_QPS_ERR, state_of(&self->b));
}

TEST_F(verbs, flush_without_room__goes_on_by_polling)
{
	struct superp_cq *cq = superp_create_cq(self->a.context, 4, NULL);
	struct superp_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .max_send_wr = 4, .max_recv_wr = ENTRIES,
	};
	struct superp_qp_attr error = { .qp_state = SUPERP_QPS_ERR };
	struct superp_recv_wr wr[ENTRIES];
	struct superp_qp *qp = superp_create_qp(self->a.context, &attr);
	struct superp_wc wc;

	ASSERT_NE(NULL, qp);
	for (int i = 0; i < ENTRIES; i++)
		wr[i] = (struct superp_recv_wr){ .wr_id = i, .next = i < ENTRIES - 1 ? &wr[i + 1] : NULL };
	ASSERT_EQ(0, superp_post_recv(qp, wr, NULL));
	ASSERT_EQ(0, superp_modify_qp(qp, &error, SUPERP_QP_STATE));
	for (int i = 0; i < ENTRIES; i++) {
		ASSERT_EQ(1, superp_poll_cq(cq, 1, &wc));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(SUPERP_ERR_ABORTED, wc.status);
	}
	EXPECT_EQ(0, superp_poll_cq(cq, 1, &wc));
	EXPECT_EQ(0, superp_destroy_qp(qp));
	EXPECT_EQ(0, superp_destroy_cq(cq));
}

TEST_F(verbs, small_completion_queue__nothing_is_forgotten)
{
	struct superp_cq *cq = superp_create_cq(self->a.context, 4, NULL);
	struct superp_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .max_send_wr = ENTRIES };
	struct superp_qp *qp = superp_create_qp(self->a.context, &attr);
	struct sockaddr_superp peer = superp_name(&node_b, variant->options.encap, 0);
	struct superp_sge sge = sge_of(&self->a, 0, 64);
	struct superp_wc wc[3];
	uint64_t next = 0;

	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, superp_connect_qp(qp, &peer, NULL));
	for (int i = 0; i < ENTRIES; i++) {
		struct superp_send_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = SUPERP_OP_WRITE,
			.send_flags = SUPERP_SEND_SIGNALED, .remote_addr = self->b.mr->rma_addr,
		};

		ASSERT_EQ(0, superp_post_send(qp, &wr, NULL));
	}
	/* Polling alone goes on with what had no room. */
	while (next < ENTRIES) {
		int count = superp_poll_cq(cq, 3, wc);

		ASSERT_LE(0, count);
		for (int i = 0; i < count; i++) {
			EXPECT_EQ(0, wc[i].status);
			EXPECT_EQ(next++, wc[i].wr_id);
		}
	}
	EXPECT_EQ(EBUSY, superp_destroy_cq(cq));
	EXPECT_EQ(0, superp_destroy_qp(qp));
	EXPECT_EQ(0, superp_destroy_cq(cq));
}

/* Threads that share a queue pair and its completion queue. */
struct share {
	struct side *side;
	uint64_t remote;
	int taken, wrong;
};

#define THREADS 4
#define EACH 2000

static void *poster(void *argument)
{
	struct share *share = argument;
	struct superp_sge sge = sge_of(share->side, 0, 64);
	struct superp_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = SUPERP_OP_WRITE,
		.send_flags = SUPERP_SEND_SIGNALED, .remote_addr = share->remote,
	};

	for (int posted = 0; posted < EACH;) {
		struct superp_wc wc[8];
		int count, error = superp_post_send(share->side->qp, &wr, NULL);

		if (!error)
			posted++;
		else if (error != ENOMEM)
			__atomic_add_fetch(&share->wrong, 1, __ATOMIC_RELAXED);
		count = superp_poll_cq(share->side->send_cq, 8, wc);
		for (int i = 0; i < count; i++)
			if (wc[i].status)
				__atomic_add_fetch(&share->wrong, 1, __ATOMIC_RELAXED);
		if (count < 0)
			__atomic_add_fetch(&share->wrong, 1, __ATOMIC_RELAXED);
		else
			__atomic_add_fetch(&share->taken, count, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F(verbs, threads__share_a_queue_pair)
{
	struct share share = { .side = &self->a, .remote = self->b.mr->rma_addr };
	pthread_t threads[THREADS];
	struct superp_wc wc;

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, poster, &share));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	while (share.taken < THREADS * EACH) {
		ASSERT_EQ(0, wait_cq(&self->a, self->a.send_cq, &wc));
		EXPECT_EQ(0, wc.status);
		share.taken++;
	}
	EXPECT_EQ(0, share.wrong);
	EXPECT_EQ(THREADS * EACH, share.taken);
	EXPECT_EQ(0, superp_poll_cq(self->a.send_cq, 1, &wc));
}

TEST_F(verbs, objects__are_busy_while_others_use_them)
{
	EXPECT_EQ(EBUSY, superp_destroy_cq(self->a.send_cq));
	EXPECT_EQ(EBUSY, superp_close_device(self->a.context));
	EXPECT_EQ((void *)&self->a, superp_qp_context(self->a.qp));
	EXPECT_EQ(ETIMEDOUT, superp_get_cq_event(self->a.context, 0, NULL, NULL));
}

TEST_F(verbs, connect__once_and_only_where_a_connection_leads)
{
	struct sockaddr_superp peer = superp_name(&node_b, variant->options.encap, 0);
	struct superp_qp_init_attr attr = {
		.send_cq = self->a.send_cq, .recv_cq = self->a.send_cq, .max_send_wr = 1,
		.qp_num = superp_qp_num(self->a.qp),
	};
	struct superp_qp *qp;

	EXPECT_EQ(EISCONN, superp_connect_qp(self->a.qp, &peer, NULL));
	ASSERT_EQ(0, node_enter(&node_a));
	EXPECT_EQ(NULL, superp_create_qp(self->a.context, &attr));
	EXPECT_EQ(EADDRINUSE, errno);
	attr.qp_num = SUPERP_QPN_ANY;
	qp = superp_create_qp(self->a.context, &attr);
	ASSERT_NE(NULL, qp);
	peer.ssp_addr[15] = 77;
	EXPECT_EQ(EHOSTUNREACH, superp_connect_qp(qp, &peer, NULL));
	EXPECT_EQ(0, superp_destroy_qp(qp));
	/* Completion queues of another context. */
	attr.recv_cq = self->b.send_cq;
	EXPECT_EQ(NULL, superp_create_qp(self->a.context, &attr));
	EXPECT_EQ(EINVAL, errno);
}

/* The partition of a region, or -1. */
static int64_t region_partition(const struct superp_mr *mr)
{
	struct superp_mr_info info = { .key = mr ? mr->lkey : 0 };

	return mr && !ioctl(superp_context_fd(mr->context), SUPERP_IOC_MR_QUERY, &info) ? (int64_t)info.partition : -1;
}

#define JOB 0x80000007u

TEST(partition__of_the_environment_unless_one_is_named)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };
	struct sockaddr_superp peer = superp_name(&node_b, options.encap, 0);
	/* Each has an id at either end, one behind the other. */
	int others = conn_id(), job = others + 2;
	struct superp_conn_attr attr;
	struct side a, named, b;
	struct superp_mr *mr;

	ASSERT_EQ(0, conn_up(others, &options));
	options.partition = JOB;
	ASSERT_EQ(0, conn_up(job, &options));
	ASSERT_EQ(0, setenv("SUPERP_PARTITION", "2147483655", 1));
	ASSERT_EQ(0, side_up(&a, &node_a));
	ASSERT_EQ(0, side_up(&named, &node_a));
	/* What the contexts found stays, and so does their network namespace. */
	ASSERT_EQ(0, unsetenv("SUPERP_PARTITION"));
	ASSERT_EQ(0, side_up(&b, &node_b));
	EXPECT_EQ(JOB, region_partition(a.mr));
	EXPECT_EQ(0, region_partition(b.mr));
	ASSERT_EQ(0, superp_connect_qp(a.qp, &peer, &attr));
	EXPECT_EQ(job, attr.cid);

	mr = superp_reg_mr_partition(named.context, named.memory, AREA, SUPERP_ACCESS_REMOTE_READ, 0);
	EXPECT_EQ(0, region_partition(mr));
	EXPECT_EQ(0, superp_dereg_mr(mr));
	peer.ssp_cid = others;
	ASSERT_EQ(0, superp_connect_qp(named.qp, &peer, &attr));
	EXPECT_EQ(others, attr.cid);
	EXPECT_EQ(0, side_down(&a));
	EXPECT_EQ(0, side_down(&named));
	EXPECT_EQ(0, side_down(&b));
	conn_down(others);
	conn_down(job);
}

TEST(partition__without_a_connection_and_malformed)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };
	struct sockaddr_superp peer = superp_name(&node_b, options.encap, 0);
	struct superp_conn_attr attr;
	struct side a, malformed;
	int cid = conn_id();

	ASSERT_EQ(0, conn_up(cid, &options));
	ASSERT_EQ(0, setenv("SUPERP_PARTITION", "9", 1));
	ASSERT_EQ(0, side_up(&a, &node_a));
	EXPECT_EQ(EHOSTUNREACH, superp_connect_qp(a.qp, &peer, &attr));

	/* Only the region is missing. */
	ASSERT_EQ(0, setenv("SUPERP_PARTITION", "nine", 1));
	errno = 0;
	ASSERT_EQ(-4, side_up(&malformed, &node_a));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(EINVAL, superp_connect_qp(malformed.qp, &peer, &attr));
	malformed.mr = superp_reg_mr_partition(malformed.context, malformed.memory, AREA, 0, 9);
	EXPECT_EQ(9, region_partition(malformed.mr));
	peer.ssp_cid = cid;
	EXPECT_EQ(0, superp_connect_qp(malformed.qp, &peer, &attr));
	EXPECT_EQ(0, side_down(&a));
	EXPECT_EQ(0, side_down(&malformed));
	conn_down(cid);
}

TEST(device__has_the_ports_of_the_namespace)
{
	struct superp_device **list;
	struct superp_port_attr port;
	int count = -1;

	ASSERT_EQ(0, node_enter(&node_a));
	list = superp_get_device_list(&count);
	ASSERT_NE(NULL, list);
	ASSERT_EQ(1, count);
	EXPECT_EQ(NULL, list[1]);
	EXPECT_STREQ("superp", superp_get_device_name(list[0]));
	ASSERT_EQ(1, superp_device_port_count(list[0]));
	ASSERT_EQ(0, superp_query_port(list[0], 0, &port));
	EXPECT_STREQ("eth0", port.name);
	EXPECT_EQ(9000, port.mtu);
	EXPECT_EQ(1, port.up);
	EXPECT_EQ(node_ifindex(&node_a), port.ifindex);
	EXPECT_EQ(EINVAL, superp_query_port(list[0], 1, &port));
	EXPECT_EQ(EINVAL, superp_query_port(list[0], -1, &port));
	superp_free_device_list(list);
}

SUPERP_TEST_MAIN
