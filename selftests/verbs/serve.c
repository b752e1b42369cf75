// SPDX-License-Identifier: GPL-2.0
/* The C library: a thread that is lent to a context takes in what is posted; no doorbells but those needed. */
#include <fcntl.h>
#include <pthread.h>

#include "superp_test.h"
#include <superp/verbs.h>

#define AREA 4096
#define WAIT_MS 20000

FIXTURE(serve)
{
	int cid;
	struct superp_context *context, *peer;
	struct superp_cq *cq;
	struct superp_qp *qp;
	struct superp_mr *mr, *target;
	uint8_t *memory, *there;
};

FIXTURE_SETUP(serve)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };
	struct superp_qp_init_attr attr = { .max_send_wr = 16, .max_send_sge = 1 };
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_SUNH, 0);

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	self->memory = memory(AREA);
	self->there = memory(AREA);
	ASSERT_EQ(0, node_enter(&node_b));
	self->peer = superp_open_device(NULL);
	ASSERT_NE(NULL, self->peer);
	self->target = superp_reg_mr(self->peer, self->there, AREA, SUPERP_ACCESS_REMOTE_WRITE);
	ASSERT_NE(NULL, self->target);
	ASSERT_EQ(0, node_enter(&node_a));
	self->context = superp_open_device(NULL);
	ASSERT_NE(NULL, self->context);
	self->cq = superp_create_cq(self->context, 16, NULL);
	ASSERT_NE(NULL, self->cq);
	attr.send_cq = self->cq;
	attr.recv_cq = self->cq;
	self->qp = superp_create_qp(self->context, &attr);
	ASSERT_NE(NULL, self->qp);
	ASSERT_EQ(0, superp_connect_qp(self->qp, &name, NULL));
	self->mr = superp_reg_mr(self->context, self->memory, AREA, 0);
	ASSERT_NE(NULL, self->mr);
}

FIXTURE_TEARDOWN(serve)
{
	EXPECT_EQ(0, superp_dereg_mr(self->mr));
	EXPECT_EQ(0, superp_dereg_mr(self->target));
	EXPECT_EQ(0, superp_destroy_qp(self->qp));
	EXPECT_EQ(0, superp_destroy_cq(self->cq));
	EXPECT_EQ(0, superp_close_device(self->context));
	EXPECT_EQ(0, superp_close_device(self->peer));
	conn_down(self->cid);
}

struct lent {
	struct superp_context *context;
	bool stop;
	int error;
};

static void *lend(void *arg)
{
	struct lent *lent = arg;

	while (!__atomic_load_n(&lent->stop, __ATOMIC_RELAXED) && !lent->error)
		lent->error = superp_serve(lent->context, 10000);
	return NULL;
}

TEST_F(serve, takes_in_what_is_posted)
{
	struct superp_sge sge = { .addr = (uintptr_t)self->memory, .length = 64, .lkey = self->mr->lkey };
	struct superp_send_wr wr = { .opcode = SUPERP_OP_WRITE, .send_flags = SUPERP_SEND_SIGNALED, .sg_list = &sge,
				     .num_sge = 1, .remote_addr = self->target->rma_addr };
	struct lent lent = { .context = self->context };
	struct superp_wc wc;
	pthread_t thread;
	int i, ms;

	ASSERT_EQ(0, pthread_create(&thread, NULL, lend, &lent));
	for (i = 1; i <= 200; i++) {
		memset(self->memory, i, 64);
		wr.wr_id = i;
		ASSERT_EQ(0, superp_post_send(self->qp, &wr, NULL));
		for (ms = WAIT_MS; !superp_poll_cq(self->cq, 1, &wc); ms--) {
			ASSERT_LT(0, ms);
			usleep(1000);
		}
		ASSERT_EQ(0, wc.status);
		ASSERT_EQ(i, wc.wr_id);
		ASSERT_EQ(0, memcmp(self->memory, self->there, 64));
	}
	__atomic_store_n(&lent.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, lent.error);
}

TEST_F(serve, one_thread_at_a_time)
{
	struct lent lent = { .context = self->context };
	int error = 0, ms;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, lend, &lent));
	for (ms = WAIT_MS; !error && ms; ms--) {
		error = superp_serve(self->context, 1);
		/* The other thread may have come second. */
		if (lent.error)
			break;
		usleep(1000);
	}
	EXPECT_EQ(EBUSY, error ?: lent.error);
	__atomic_store_n(&lent.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* With one outstanding write every completion fills the queue of a latency test. */
TEST_F(serve, taking_from_a_full_queue_rings_no_doorbell)
{
	struct superp_sge sge = { .addr = (uintptr_t)self->memory, .length = 64, .lkey = self->mr->lkey };
	struct superp_send_wr wr = { .opcode = SUPERP_OP_WRITE, .send_flags = SUPERP_SEND_SIGNALED, .sg_list = &sge,
				     .num_sge = 1, .remote_addr = self->target->rma_addr };
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_SUNH, 0);
	struct superp_cq *cq = superp_create_cq(self->context, 1, NULL);
	struct superp_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .max_send_wr = 1, .max_send_sge = 1 };
	int fd = superp_context_fd(self->context), null = open("/dev/null", O_RDWR), kept = dup(fd), taken = 0, ms;
	struct superp_qp *qp = superp_create_qp(self->context, &attr);
	struct superp_wc wc;

	ASSERT_LE(0, null);
	ASSERT_LE(0, kept);
	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, superp_connect_qp(qp, &name, NULL));
	ASSERT_EQ(0, superp_post_send(qp, &wr, NULL));
	/* From here a doorbell would fail. */
	ASSERT_EQ(fd, dup2(null, fd));
	for (ms = WAIT_MS; !taken && ms; ms--) {
		taken = superp_poll_cq(cq, 1, &wc);
		usleep(1000);
	}
	ASSERT_EQ(fd, dup2(kept, fd));
	EXPECT_EQ(1, taken);
	EXPECT_EQ(0, wc.status);
	EXPECT_EQ(0, superp_destroy_qp(qp));
	EXPECT_EQ(0, superp_destroy_cq(cq));
	close(kept);
	close(null);
}

SUPERP_TEST_MAIN
