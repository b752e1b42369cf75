// SPDX-License-Identifier: GPL-2.0
/* The C library: what tells of completions, and of a shared receive queue that runs low. */
#include <sys/eventfd.h>

#include "superp_verbs.h"

FIXTURE(events)
{
	int cid;
	struct side a, b;
};

FIXTURE_VARIANT(events)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(events, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(events, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(events, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(events)
{
	int encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, side_up(&self->a, &node_a));
	ASSERT_EQ(0, side_up(&self->b, &node_b));
	ASSERT_EQ(0, side_connect(&self->a, &node_b, encap, superp_qp_num(self->b.qp)));
	ASSERT_EQ(0, side_connect(&self->b, &node_a, encap, superp_qp_num(self->a.qp)));
}

FIXTURE_TEARDOWN(events)
{
	link_clean();
	EXPECT_EQ(0, side_down(&self->a));
	EXPECT_EQ(0, side_down(&self->b));
	conn_down(self->cid);
}

TEST_F(events, eventfd__tells_of_one_queue_only)
{
	struct superp_sge sge = sge_of(&self->a, 0, 64);
	struct superp_send_wr wr = { .opcode = SUPERP_OP_WRITE, .send_flags = SUPERP_SEND_SIGNALED, .sg_list = &sge,
				     .num_sge = 1, .remote_addr = self->b.mr->rma_addr };
	struct superp_wc wc;
	int efd = eventfd(0, 0);
	eventfd_t count = 0;

	EXPECT_EQ(EBADF, superp_set_cq_eventfd(self->a.send_cq, -1));
	EXPECT_EQ(EINVAL, superp_set_cq_eventfd(self->a.send_cq, superp_context_fd(self->a.context)));
	ASSERT_EQ(0, superp_set_cq_eventfd(self->a.send_cq, efd));
	EXPECT_EQ(EBUSY, superp_set_cq_eventfd(self->a.send_cq, efd));
	ASSERT_EQ(0, superp_req_notify_cq(self->a.send_cq));
	ASSERT_EQ(0, superp_post_send(self->a.qp, &wr, NULL));
	EXPECT_EQ(0, eventfd_read(efd, &count) ?: count != 1);
	ASSERT_EQ(1, superp_poll_cq(self->a.send_cq, 1, &wc));
	EXPECT_EQ(ETIMEDOUT, superp_get_cq_event(self->a.context, 0, NULL, NULL));
	close(efd);
}

/* Posts a message of A, which B receives, and takes the completion of that. */
static int message(FIXTURE_DATA(events) *self, struct superp_qp *qp, uint32_t flags)
{
	struct superp_sge sge = sge_of(&self->a, 0, 64);
	struct superp_send_wr wr = { .opcode = SUPERP_OP_SEND, .send_flags = flags, .sg_list = &sge, .num_sge = 1 };
	struct superp_wc wc;
	int ms = WAIT_MS, count;

	if (superp_post_send(qp, &wr, NULL))
		return -1;
	while (!(count = superp_poll_cq(self->b.recv_cq, 1, &wc)) && ms--)
		usleep(1000);
	return count == 1 ? (int)wc.status : -2;
}

TEST_F(events, solicited__lets_others_pass)
{
	struct superp_cq *whose;

	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, receive(&self->b, 0, 64, i));
	ASSERT_EQ(0, superp_req_notify_cq_solicited(self->b.recv_cq));
	ASSERT_EQ(0, message(self, self->a.qp, 0));
	EXPECT_EQ(ETIMEDOUT, superp_get_cq_event(self->b.context, 50, &whose, NULL));
	ASSERT_EQ(0, message(self, self->a.qp, SUPERP_SEND_SOLICITED));
	ASSERT_EQ(0, superp_get_cq_event(self->b.context, WAIT_MS, &whose, NULL));
	EXPECT_EQ(self->b.recv_cq, whose);
	/* Asking for some does not take back asking for all. */
	ASSERT_EQ(0, superp_req_notify_cq(self->b.recv_cq));
	ASSERT_EQ(0, superp_req_notify_cq_solicited(self->b.recv_cq));
	ASSERT_EQ(0, message(self, self->a.qp, 0));
	EXPECT_EQ(0, superp_get_cq_event(self->b.context, WAIT_MS, &whose, NULL));
}

TEST_F(events, shared_receive_queue__tells_once_that_it_runs_low)
{
	struct superp_srq_init_attr shared = { .max_wr = 4, .max_sge = 1 };
	struct superp_srq *srq = superp_create_srq(self->b.context, &shared);
	struct superp_qp_init_attr theirs = {
		.send_cq = self->b.send_cq, .recv_cq = self->b.recv_cq, .max_send_wr = 1, .srq = srq,
	}, own = { .send_cq = self->a.send_cq, .recv_cq = self->a.recv_cq, .max_send_wr = 8 };
	struct superp_qp *from = superp_create_qp(self->a.context, &own), *to = superp_create_qp(self->b.context, &theirs);
	struct sockaddr_superp name = superp_name(&node_b, variant->options.encap, superp_qp_num(to));
	struct superp_sge sge = sge_of(&self->b, 0, 64);
	struct superp_recv_wr buffer = { .sg_list = &sge, .num_sge = 1 };
	int efd = eventfd(0, EFD_NONBLOCK);
	eventfd_t count = 0;

	ASSERT_EQ(0, superp_connect_qp(from, &name, NULL));
	name = superp_name(&node_a, variant->options.encap, 0);
	ASSERT_EQ(0, superp_connect_qp(to, &name, NULL));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, superp_post_srq_recv(srq, &buffer, NULL));
	EXPECT_EQ(EBADF, superp_set_srq_eventfd(srq, -1));
	EXPECT_EQ(EINVAL, superp_set_srq_eventfd(srq, superp_context_fd(self->b.context)));
	ASSERT_EQ(0, superp_set_srq_eventfd(srq, efd));
	EXPECT_EQ(EBUSY, superp_set_srq_eventfd(srq, efd));
	EXPECT_EQ(EAGAIN, superp_set_srq_limit(srq, 5));
	ASSERT_EQ(0, superp_set_srq_limit(srq, 3));
	ASSERT_EQ(0, message(self, from, 0));
	EXPECT_EQ(-1, eventfd_read(efd, &count));
	ASSERT_EQ(0, message(self, from, 0));
	EXPECT_EQ(POLLIN, superp_poll(efd, POLLIN, WAIT_MS));
	EXPECT_EQ(0, eventfd_read(efd, &count));
	EXPECT_EQ(1, count);
	ASSERT_EQ(0, message(self, from, 0));
	EXPECT_EQ(0, superp_poll(efd, POLLIN, 50));
	EXPECT_EQ(0, superp_destroy_qp(to));
	EXPECT_EQ(0, superp_destroy_qp(from));
	EXPECT_EQ(0, superp_destroy_srq(srq));
	close(efd);
}

SUPERP_TEST_MAIN
