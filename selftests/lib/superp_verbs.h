/* SPDX-License-Identifier: GPL-2.0 */
/* What tests of the C library have in common: sides with a queue pair each. */
#ifndef SUPERP_SELFTESTS_VERBS_H
#define SUPERP_SELFTESTS_VERBS_H

#include "superp_test.h"
#include <superp/verbs.h>

#define AREA (1 << 20)
#define ENTRIES 64
#define PIECES 3
#define WAIT_MS 20000

/* One side: a context with a queue pair, and memory. */
struct side {
	struct superp_context	*context;
	struct superp_cq	*send_cq, *recv_cq;
	struct superp_qp	*qp;
	struct superp_mr	*mr;
	uint8_t			*memory;
};

static inline int side_up(struct side *side, const struct node *node)
{
	struct superp_qp_init_attr attr = {
		.qp_context = side, .max_send_wr = ENTRIES, .max_recv_wr = ENTRIES,
		.max_send_sge = PIECES, .max_recv_sge = PIECES,
	};

	if (node_enter(node))
		return -1;
	side->context = superp_open_device(NULL);
	if (!side->context)
		return -2;
	side->send_cq = superp_create_cq(side->context, ENTRIES, &side->send_cq);
	side->recv_cq = superp_create_cq(side->context, ENTRIES, &side->recv_cq);
	attr.send_cq = side->send_cq;
	attr.recv_cq = side->recv_cq;
	if (!side->send_cq || !side->recv_cq)
		return -3;
	side->qp = superp_create_qp(side->context, &attr);
	side->memory = memory(AREA);
	side->mr = superp_reg_mr(side->context, side->memory, AREA,
				 SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE);
	return side->qp && side->memory && side->mr ? 0 : -4;
}

static inline int side_connect(struct side *side, const struct node *peer, int encap, uint32_t number)
{
	struct sockaddr_superp name = superp_name(peer, encap, number);
	struct superp_conn_attr attr;
	int error = superp_connect_qp(side->qp, &name, &attr);

	return error ?: !(attr.flags & SUPERP_QP_F_EXT) || attr.max_message != SUPERP_MAX_RING_MESSAGE || attr.min_message;
}

static inline int side_down(struct side *side)
{
	int error = superp_destroy_qp(side->qp);

	error = error ?: superp_destroy_cq(side->send_cq);
	error = error ?: superp_destroy_cq(side->recv_cq);
	error = error ?: superp_dereg_mr(side->mr);
	error = error ?: superp_close_device(side->context);
	munmap(side->memory, AREA);
	return error;
}

/* The next completion: sleeps until there is one. */
static inline int wait_cq(struct side *side, struct superp_cq *cq, struct superp_wc *wc)
{
	for (;;) {
		int count = superp_poll_cq(cq, 1, wc);
		struct superp_cq *whose;
		void *context;
		int error;

		if (count)
			return count == 1 ? 0 : -1;
		error = superp_req_notify_cq(cq);
		if (error == EAGAIN)
			continue;
		/* The event of the other queue of the side may be left from before. */
		error = error ?: superp_get_cq_event(side->context, WAIT_MS, &whose, &context);
		if (error || *(struct superp_cq **)context != whose)
			return -2;
	}
}

static inline struct superp_sge sge_of(const struct side *side, size_t at, uint32_t length)
{
	return (struct superp_sge){ .addr = (uintptr_t)side->memory + at, .length = length, .lkey = side->mr->lkey };
}

/* Posts one request and waits for its completion; gives its status. */
static inline int request_run(struct side *side, struct superp_send_wr *wr, struct superp_wc *wc)
{
	static uint64_t id = 0x1234567800000000;

	wr->wr_id = ++id;
	wr->send_flags |= SUPERP_SEND_SIGNALED;
	if (superp_post_send(side->qp, wr, NULL) || wait_cq(side, side->send_cq, wc))
		return -1;
	return wc->wr_id == id && wc->opcode == wr->opcode && wc->qp_index == superp_qp_index(side->qp) ?
		(int)wc->status : -2;
}

static inline int receive(struct side *side, size_t at, uint32_t length, uint64_t id)
{
	struct superp_sge sge = sge_of(side, at, length);
	struct superp_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return superp_post_recv(side->qp, &wr, NULL);
}

#endif
