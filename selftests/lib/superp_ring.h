/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contexts and their rings, for tests in C: the smallest program that keeps the
 * contract of uapi/linux/superp.h.
 */
#ifndef SUPERP_RING_H
#define SUPERP_RING_H

#include "superp_test.h"

struct ring {
	uint32_t	entries;
	uint32_t	*producer;
	uint32_t	*consumer;
	uint32_t	*flags;
	void		*array;
	struct superp_segment *segments;
	uint32_t	per_entry;	/* of them */
	uint32_t	index;		/* of the side that is ours */
};

struct cq {
	uint32_t	id;
	struct ring	ring;
	void		*map;
	size_t		size;
};

struct qp {
	uint32_t	id;
	uint32_t	qpn;
	struct ring	sq, rq;
	void		*map;
	size_t		size;
};

/* A shared receive queue. */
struct srq {
	uint32_t	id;
	struct ring	ring;
	void		*map;
	size_t		size;
};

struct context {
	int			fd;
	struct superp_ctx_page	*page;
};

static inline void *ring_map(int fd, uint64_t offset, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	return at == MAP_FAILED ? NULL : at;
}

static inline void ring_init(struct ring *ring, void *map, const struct superp_ring *layout,
			     uint32_t segments)
{
	*ring = (struct ring) {
		.entries = layout->entries,
		.producer = map + layout->producer,
		.consumer = map + layout->consumer,
		.flags = layout->flags ? map + layout->flags : NULL,
		.array = map + layout->array,
		.segments = layout->segments ? map + layout->segments : NULL,
		.per_entry = segments,
	};
}

static inline int context_open(struct context *context, const struct node *node)
{
	if (node_enter(node))
		return -1;
	context->fd = socket(superp_family(), SOCK_RDM | SOCK_CLOEXEC, 0);
	if (context->fd < 0)
		return -1;
	context->page = ring_map(context->fd, 0, sizeof(*context->page));
	return context->page ? 0 : -1;
}

static inline void context_close(struct context *context)
{
	munmap(context->page, sizeof(*context->page));
	close(context->fd);
}

static inline int cq_create(struct context *context, struct cq *cq, uint32_t entries)
{
	struct superp_cq_create create = { .entries = entries };

	if (ioctl(context->fd, SUPERP_IOC_CQ_CREATE, &create))
		return -1;
	cq->id = create.cq;
	cq->size = create.size;
	cq->map = ring_map(context->fd, create.offset, create.size);
	if (!cq->map)
		return -1;
	ring_init(&cq->ring, cq->map, &create.ring, 0);
	return 0;
}

/* As @create says. */
static inline int qp_make(struct context *context, struct qp *qp, struct superp_rqp_create *create)
{
	if (ioctl(context->fd, SUPERP_IOC_RQP_CREATE, create))
		return -1;
	qp->id = create->qp;
	qp->qpn = create->qpn;
	qp->size = create->size;
	qp->map = ring_map(context->fd, create->offset, create->size);
	if (!qp->map)
		return -1;
	ring_init(&qp->sq, qp->map, &create->sq, create->sq_segments);
	if (create->rq_entries)
		ring_init(&qp->rq, qp->map, &create->rq, create->rq_segments);
	return 0;
}

/* With so many segments of each entry. */
static inline int qp_create_lists(struct context *context, struct qp *qp,
				  const struct cq *send_cq, uint32_t sq_entries,
				  const struct cq *recv_cq, uint32_t rq_entries,
				  uint32_t segments)
{
	struct superp_rqp_create create = {
		.send_cq = send_cq->id,
		.recv_cq = recv_cq ? recv_cq->id : 0,
		.sq_entries = sq_entries,
		.rq_entries = rq_entries,
		.sq_segments = segments,
		.rq_segments = segments,
	};

	return qp_make(context, qp, &create);
}

static inline int qp_create(struct context *context, struct qp *qp, const struct cq *send_cq,
			    uint32_t sq_entries, const struct cq *recv_cq, uint32_t rq_entries)
{
	return qp_create_lists(context, qp, send_cq, sq_entries, recv_cq, rq_entries, 0);
}

static inline int srq_create(struct context *context, struct srq *srq, uint32_t entries,
			     uint32_t segments)
{
	struct superp_srq_create create = { .entries = entries, .segments = segments };

	if (ioctl(context->fd, SUPERP_IOC_SRQ_CREATE, &create))
		return -1;
	srq->id = create.srq;
	srq->size = create.size;
	srq->map = ring_map(context->fd, create.offset, create.size);
	if (!srq->map)
		return -1;
	ring_init(&srq->ring, srq->map, &create.ring, segments);
	return 0;
}

/* Receives from the shared queue. */
static inline int qp_create_shared(struct context *context, struct qp *qp,
				   const struct cq *send_cq, uint32_t sq_entries,
				   const struct cq *recv_cq, const struct srq *srq)
{
	struct superp_rqp_create create = {
		.send_cq = send_cq->id,
		.recv_cq = recv_cq->id,
		.sq_entries = sq_entries,
		.flags = SUPERP_RQP_SRQ,
		.srq = srq->id,
	};

	return qp_make(context, qp, &create);
}

static inline int qp_connect(struct context *context, const struct qp *qp,
			     const struct node *peer, int encap, uint32_t qpn)
{
	struct superp_rqp_connect connect = {
		.qp = qp->id,
		.peer = superp_name(peer, encap, qpn),
	};

	return ioctl(context->fd, SUPERP_IOC_RQP_CONNECT, &connect);
}

static inline int ring_destroy(struct context *context, unsigned long command, uint32_t id)
{
	struct superp_ring_destroy destroy = { .id = id };

	return ioctl(context->fd, command, &destroy);
}

/* Changes the state of a queue pair. */
static inline int qp_modify(struct context *context, uint32_t id, uint32_t state)
{
	struct superp_rqp_modify modify = { .qp = id, .state = state };

	return ioctl(context->fd, SUPERP_IOC_RQP_MODIFY, &modify);
}

/* Entries of ours that the kernel has not given back. */
static inline uint32_t ring_used(const struct ring *ring)
{
	return ring->index - __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
}

static inline bool sq_put(struct qp *qp, const struct superp_sqe *entry)
{
	struct ring *ring = &qp->sq;

	if (ring_used(ring) >= ring->entries)
		return false;
	((struct superp_sqe *)ring->array)[ring->index & (ring->entries - 1)] = *entry;
	__atomic_store_n(ring->producer, ++ring->index, __ATOMIC_RELEASE);
	return true;
}

static inline bool ring_receive(struct ring *ring, const struct superp_rqe *entry)
{
	if (ring_used(ring) >= ring->entries)
		return false;
	((struct superp_rqe *)ring->array)[ring->index & (ring->entries - 1)] = *entry;
	__atomic_store_n(ring->producer, ++ring->index, __ATOMIC_RELEASE);
	return true;
}

static inline bool rq_put(struct qp *qp, const struct superp_rqe *entry)
{
	return ring_receive(&qp->rq, entry);
}

static inline bool srq_put(struct srq *srq, const struct superp_rqe *entry)
{
	return ring_receive(&srq->ring, entry);
}

/* Puts segments into the slot of the next entry. */
static inline void segments_put(struct ring *ring, const struct superp_segment *segments,
				uint32_t count)
{
	uint32_t slot = ring->index & (ring->entries - 1);

	memcpy(ring->segments + slot * ring->per_entry, segments, count * sizeof(*segments));
}

static inline void bell_set(struct context *context, const struct qp *qp)
{
	__atomic_fetch_or(&context->page->bell[qp->id / 64], 1ull << qp->id % 64,
			  __ATOMIC_SEQ_CST);
}

/* Rings for one queue pair, whether it asks for that or not. */
static inline int doorbell(struct context *context, const struct qp *qp)
{
	bell_set(context, qp);
	return send(context->fd, NULL, 0, 0);
}

/* Rings for one queue pair, if it asks for that. */
static inline int kick(struct context *context, const struct qp *qp)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(qp->sq.flags, __ATOMIC_RELAXED) & SUPERP_RING_NEED_WAKEUP))
		return 0;
	return doorbell(context, qp);
}

static inline int post(struct context *context, struct qp *qp, const struct superp_sqe *entry)
{
	return sq_put(qp, entry) ? kick(context, qp) : -1;
}

static inline bool qp_failed(const struct qp *qp)
{
	return __atomic_load_n(qp->sq.flags, __ATOMIC_RELAXED) & SUPERP_RING_ERROR;
}

static inline bool cq_take(struct cq *cq, struct superp_cqe *entry)
{
	struct ring *ring = &cq->ring;

	if (__atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) == ring->index)
		return false;
	*entry = ((struct superp_cqe *)ring->array)[ring->index & (ring->entries - 1)];
	__atomic_store_n(ring->consumer, ++ring->index, __ATOMIC_RELEASE);
	return true;
}

/* Waits for a completion by looking, for @ms at most. */
static inline bool cq_wait(struct cq *cq, struct superp_cqe *entry, int ms)
{
	long end = now_ms() + ms;

	while (!cq_take(cq, entry)) {
		if (now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* The next completion takes the arm word, sets the event bit and wakes poll(). */
static inline void cq_arm(struct cq *cq)
{
	__atomic_store_n(cq->ring.flags, SUPERP_CQ_ARMED, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Whether the completion queue has told something; forgets that. */
static inline bool cq_event(struct context *context, const struct cq *cq)
{
	uint64_t bit = 1ull << cq->id % 64;

	return __atomic_fetch_and(&context->page->events[cq->id / 64], ~bit, __ATOMIC_SEQ_CST) & bit;
}

static inline struct superp_sqe sqe_of(int opcode, const struct superp_mr_reg *local, size_t at,
				       const struct superp_mr_reg *remote, size_t to,
				       uint32_t length)
{
	return (struct superp_sqe) {
		.opcode = opcode,
		.flags = SUPERP_SQE_SIGNALED,
		.length = length,
		.remote_addr = remote ? remote->rma_addr + to : 0,
		.local_key = local->key,
		.local_addr = local->addr + at,
	};
}

/* One side of a connection: a context with a queue pair, and memory. */
struct ring_side {
	struct context		context;
	struct cq		send_cq, recv_cq;
	struct qp		qp;
	uint8_t			*memory;
	struct superp_mr_reg	mr;
};

/* All rings have @entries; the memory, of @area bytes, is open to everything but Send by key. */
static inline int ring_side_up(struct ring_side *side, const struct node *node, uint32_t entries,
			       size_t area)
{
	if (context_open(&side->context, node) ||
	    cq_create(&side->context, &side->send_cq, entries) ||
	    cq_create(&side->context, &side->recv_cq, entries) ||
	    qp_create(&side->context, &side->qp, &side->send_cq, entries, &side->recv_cq, entries))
		return -1;
	side->memory = mr_memory(side->context.fd, area, SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE,
				 &side->mr);
	return side->memory ? 0 : -1;
}

#endif /* SUPERP_RING_H */
