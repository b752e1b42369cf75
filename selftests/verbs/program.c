// SPDX-License-Identifier: GPL-2.0
/*
 * A program for libibverbs, which program.sh runs: writes with immediate data, inline data, events for solicited
 * completions, and queue pairs that it changes to "error", or that end with their connection; on a node's
 * connection with itself.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include "kselftest_harness.h"
#include "superp_preloaded.h"

/* Half of it is more than one transaction carries. */
#define AREA (1 << 20)
#define ENTRIES 8
/* More than an entry has room for. */
#define INLINE 400
#define WAIT_MS 20000
#define ADDRESS "::ffff:127.0.0.1"

FIXTURE(program)
{
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qps[2];
	uint8_t *memory;
};

static struct ibv_context *device_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp("superp", ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

static int change(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int initialise(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Makes the queue pair ready to send to the other one. */
static int ready(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	inet_pton(AF_INET6, ADDRESS, attr.ah_attr.grh.dgid.raw);
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ?:
		change(qp, IBV_QPS_RTS);
}

/* The state that the queue pair is said to be in, twice; -1: not the same. */
static int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) || attr.qp_state != qp->state)
		return -1;
	return attr.qp_state;
}

FIXTURE_SETUP(program)
{
	ASSERT_EQ(0, connection_up());
	self->context = device_open();
	ASSERT_NE(NULL, self->context);
	self->pd = ibv_alloc_pd(self->context);
	self->channel = ibv_create_comp_channel(self->context);
	self->cq = ibv_create_cq(self->context, 4 * ENTRIES, NULL, self->channel, 0);
	self->memory = calloc(1, AREA);
	self->mr = ibv_reg_mr(self->pd, self->memory, AREA, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ASSERT_NE(NULL, self->channel);
	ASSERT_NE(NULL, self->cq);
	ASSERT_NE(NULL, self->mr);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = self->cq, .recv_cq = self->cq, .qp_type = IBV_QPT_RC,
			.cap = { ENTRIES, ENTRIES, 1, 1, INLINE },
		};

		self->qps[i] = ibv_create_qp(self->pd, &init);
		ASSERT_NE(NULL, self->qps[i]);
		ASSERT_LE(INLINE, init.cap.max_inline_data);
		ASSERT_EQ(IBV_QPS_RESET, state_of(self->qps[i]));
		ASSERT_EQ(EINVAL, change(self->qps[i], IBV_QPS_ERR));
		ASSERT_EQ(0, initialise(self->qps[i]));
	}
	ASSERT_EQ(0, ready(self->qps[0], self->qps[1]));
	ASSERT_EQ(0, ready(self->qps[1], self->qps[0]));
	ASSERT_EQ(IBV_QPS_RTS, state_of(self->qps[0]));
}

FIXTURE_TEARDOWN(program)
{
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, ibv_destroy_qp(self->qps[i]));
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	EXPECT_EQ(0, ibv_destroy_cq(self->cq));
	EXPECT_EQ(0, ibv_destroy_comp_channel(self->channel));
	EXPECT_EQ(0, ibv_dealloc_pd(self->pd));
	EXPECT_EQ(0, ibv_close_device(self->context));
	connection_down();
}

static int post_receive(FIXTURE_DATA(program) *self, int qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)self->memory, 64, self->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(self->qps[qp], &wr, &bad);
}

static int post_message(FIXTURE_DATA(program) *self, int qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)self->memory, 64, self->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	return ibv_post_send(self->qps[qp], &wr, &bad);
}

/* Writes the first half of the area to its second one. */
static int post_write(FIXTURE_DATA(program) *self, int qp, uint32_t length, uint32_t number, int flags)
{
	struct ibv_sge sge = { (uintptr_t)self->memory, length, self->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 99, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags, .imm_data = htonl(number),
		.wr.rdma = { (uintptr_t)self->memory + AREA / 2, self->mr->rkey },
	}, *bad;

	return ibv_post_send(self->qps[qp], &wr, &bad);
}

/* The next completion; false: there is none. */
static bool take(FIXTURE_DATA(program) *self, struct ibv_wc *wc)
{
	for (int ms = 0; ms < WAIT_MS; ms++) {
		int count = ibv_poll_cq(self->cq, 1, wc);

		if (count)
			return count == 1;
		usleep(1000);
	}
	return false;
}

/* The status of the next completion, which is of @id; -1: there is none, or of another. */
static int next(FIXTURE_DATA(program) *self, uint64_t id)
{
	struct ibv_wc wc;

	return take(self, &wc) && wc.wr_id == id ? (int)wc.status : -1;
}

TEST_F(program, write_with_immediate__tells_its_length)
{
	static const uint32_t lengths[] = { 0, 1, 5000, AREA / 2 };
	struct ibv_wc wc;

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(self->memory, 0x10 + i, AREA / 2);
		memset(self->memory + AREA / 2, 0, AREA / 2);
		ASSERT_EQ(0, post_receive(self, 1, i));
		ASSERT_EQ(0, post_write(self, 0, lengths[i], 0xa1b2c3d4 + i, IBV_SEND_SIGNALED));
		/* Both ends complete here, the receiver first. */
		ASSERT_EQ(true, take(self, &wc));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
		EXPECT_EQ(IBV_WC_WITH_IMM, wc.wc_flags);
		EXPECT_EQ(lengths[i], wc.byte_len);
		EXPECT_EQ(0xa1b2c3d4 + i, ntohl(wc.imm_data));
		EXPECT_EQ(self->qps[1]->qp_num, wc.qp_num);
		EXPECT_EQ(0, memcmp(self->memory, self->memory + AREA / 2, lengths[i]));
		ASSERT_EQ(true, take(self, &wc));
		EXPECT_EQ(99, wc.wr_id);
		EXPECT_EQ(IBV_WC_RDMA_WRITE, wc.opcode);
	}
}

/* From memory that is no region, by both interfaces, changed as soon as it is posted. */
TEST_F(program, inline_data__are_more_than_an_entry_has_room_for)
{
	uint8_t text[2][INLINE / 2], expected[2 * INLINE];
	struct ibv_sge sge[] = {
		{ .addr = (uintptr_t)text[0], .length = sizeof(text[0]) },
		{ .addr = (uintptr_t)text[1], .length = sizeof(text[1]) },
	};
	struct ibv_data_buf buffers[] = { { text[0], sizeof(text[0]) }, { text[1], sizeof(text[1]) } };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)self->memory, self->mr->rkey },
	}, *bad;
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(self->qps[0]);

	for (size_t i = 0; i < sizeof(expected); i++)
		expected[i] = i * 7 + i / 251;
	memcpy(text, expected, INLINE);
	ASSERT_EQ(0, ibv_post_send(self->qps[0], &wr, &bad));
	memcpy(text, expected + INLINE, INLINE);
	ibv_wr_start(extended);
	extended->wr_id = 2;
	extended->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(extended, self->mr->rkey, (uintptr_t)self->memory + INLINE);
	ibv_wr_set_inline_data_list(extended, 2, buffers);
	ASSERT_EQ(0, ibv_wr_complete(extended));
	memset(text, 0, sizeof(text));
	EXPECT_EQ(IBV_WC_SUCCESS, next(self, 1));
	EXPECT_EQ(IBV_WC_SUCCESS, next(self, 2));
	EXPECT_EQ(0, memcmp(expected, self->memory, 2 * INLINE));

	sge[1].length = 1024;
	EXPECT_EQ(EINVAL, ibv_post_send(self->qps[0], &wr, &bad));
	EXPECT_EQ(&wr, bad);
	ibv_wr_start(extended);
	ibv_wr_rdma_write(extended, self->mr->rkey, (uintptr_t)self->memory);
	buffers[1].length = 1024;
	ibv_wr_set_inline_data_list(extended, 2, buffers);
	EXPECT_EQ(EINVAL, ibv_wr_complete(extended));
}

TEST_F(program, solicited_only__lets_others_pass)
{
	struct pollfd channel = { .fd = self->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *user;

	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 1));
	ASSERT_EQ(0, post_receive(self, 1, 1));
	ASSERT_EQ(0, post_write(self, 0, 100, 7, IBV_SEND_SIGNALED));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(true, take(self, &wc));
	EXPECT_EQ(0, poll(&channel, 1, 50));
	ASSERT_EQ(0, post_receive(self, 1, 2));
	ASSERT_EQ(0, post_write(self, 0, 100, 7, IBV_SEND_SOLICITED));
	EXPECT_EQ(1, poll(&channel, 1, WAIT_MS));
	ASSERT_EQ(0, ibv_get_cq_event(self->channel, &cq, &user));
	EXPECT_EQ(self->cq, cq);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(0, next(self, 2));
}

TEST_F(program, limit_of_a_shared_queue__its_event_goes_with_it)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct pollfd events = { .fd = self->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_srq *srq;

	/* There are fewer at once. */
	srq = ibv_create_srq(self->pd, &init);
	ASSERT_NE(NULL, srq);
	ASSERT_EQ(0, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	ASSERT_EQ(1, poll(&events, 1, WAIT_MS));
	ASSERT_EQ(0, ibv_get_async_event(self->context, &event));
	EXPECT_EQ(IBV_EVENT_SRQ_LIMIT_REACHED, event.event_type);
	EXPECT_EQ(srq, event.element.srq);
	EXPECT_EQ(0, poll(&events, 1, 0));
	ASSERT_EQ(0, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	ASSERT_EQ(1, poll(&events, 1, WAIT_MS));
	/* One of the two was taken. */
	ibv_ack_async_event(&event);
	ASSERT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, poll(&events, 1, 0));

	srq = ibv_create_srq(self->pd, &init);
	ASSERT_NE(NULL, srq);
	limit.srq_limit = init.attr.max_wr + 1;
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	EXPECT_EQ(EOPNOTSUPP, ibv_modify_srq(srq, &limit, IBV_SRQ_MAX_WR));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
}

TEST_F(program, error_state__flushes_what_is_posted_and_what_comes)
{
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, post_receive(self, 0, i));
	ASSERT_EQ(0, change(self->qps[0], IBV_QPS_ERR));
	EXPECT_EQ(IBV_QPS_ERR, self->qps[0]->state);
	EXPECT_EQ(IBV_QPS_ERR, state_of(self->qps[0]));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, next(self, i));
	ASSERT_EQ(0, post_receive(self, 0, 10));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, next(self, 10));
	ASSERT_EQ(0, post_message(self, 0, 11));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, next(self, 11));
	ASSERT_EQ(0, change(self->qps[0], IBV_QPS_ERR));
	EXPECT_EQ(0, ibv_poll_cq(self->cq, 1, &wc));
	/* The peer is not told, but refused. */
	EXPECT_EQ(IBV_QPS_RTS, state_of(self->qps[1]));
	ASSERT_EQ(0, post_message(self, 1, 12));
	EXPECT_EQ(IBV_WC_REM_OP_ERR, next(self, 12));
	EXPECT_EQ(IBV_QPS_ERR, state_of(self->qps[1]));
}

TEST_F(program, error_state__has_no_way_back)
{
	ASSERT_EQ(0, change(self->qps[0], IBV_QPS_ERR));
	EXPECT_EQ(EOPNOTSUPP, change(self->qps[0], IBV_QPS_RESET));
	EXPECT_EQ(EINVAL, initialise(self->qps[0]));
	EXPECT_EQ(EINVAL, change(self->qps[0], IBV_QPS_RTS));
	EXPECT_EQ(IBV_QPS_ERR, state_of(self->qps[0]));
	EXPECT_EQ(EOPNOTSUPP, change(self->qps[1], IBV_QPS_SQD));
	EXPECT_EQ(IBV_QPS_RTS, state_of(self->qps[1]));
}

TEST_F(program, message_without_a_buffer__is_given_up)
{
	int status;

	ASSERT_EQ(0, post_message(self, 0, 1));
	ASSERT_EQ(0, post_message(self, 0, 2));
	usleep(50000);
	ASSERT_EQ(0, change(self->qps[0], IBV_QPS_ERR));
	EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, next(self, 1));
	/* It had not begun, unless it was faster than the refusal. */
	status = next(self, 2);
	EXPECT_TRUE(status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(program, end_of_the_connection__is_the_error_state)
{
	ASSERT_EQ(0, post_receive(self, 0, 1));
	ASSERT_EQ(0, connection_down());
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, next(self, 1));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(IBV_QPS_ERR, state_of(self->qps[i]));
		EXPECT_EQ(0, change(self->qps[i], IBV_QPS_ERR));
	}
}

TEST_HARNESS_MAIN
