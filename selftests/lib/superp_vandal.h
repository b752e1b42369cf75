/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program that does not keep the contract of the rings: threads that write
 * random bytes all over them while they are in use.
 */
#ifndef SUPERP_VANDAL_H
#define SUPERP_VANDAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "superp_ring.h"

#define AREA (1 << 20)
#define ALL (SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE)
#define ENTRIES 64
#define QPS 4
#define SEGMENTS 2

/* A context with some queue pairs and its threads. */
struct vandal {
	struct context		context;
	struct cq		cq;
	/* The last one receives from the shared queue. */
	struct qp		qps[QPS];
	struct srq		srq;
	struct superp_mr_reg	mr;
	uint8_t			*memory;
	const struct node	*peer;
	uint32_t		peer_qpn;
	uint64_t		peer_rma;
	uint64_t		seed;
};

static atomic_bool stop;

/* xorshift64: the same bytes for the same seed. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Any word of any mapping gets any value; mostly the words in front, which are the indices. */
static void *scribble(void *argument)
{
	struct vandal *v = argument;
	uint64_t seed = v->seed + 1;

	while (!stop) {
		uint64_t r = next_random(&seed);
		void *map = v->qps[r % QPS].map;
		size_t size = v->qps[r % QPS].size;

		if (r >> 8 & 1) {
			map = r >> 9 & 1 ? v->cq.map : v->srq.map;
			size = r >> 9 & 1 ? v->cq.size : v->srq.size;
		} else if (!(r >> 9 & 15)) {
			map = v->context.page;
			size = sizeof(*v->context.page);
		}
		if (r >> 16 & 3)
			size = 64 * (1 + (r >> 20 & 3));
		r = next_random(&seed);
		((uint32_t *)map)[(r >> 32) % (size / 4)] = r & 1 ? r >> 8 & 255 : r >> 8;
	}
	return NULL;
}

/* Entries that are nearly right, so that what is scribbled on them gets somewhere. */
static void *submit(void *argument)
{
	struct vandal *v = argument;
	uint64_t seed = v->seed + 2;

	while (!stop) {
		uint64_t r = next_random(&seed);
		struct qp *qp = &v->qps[r % QPS];
		struct ring *rq = r % QPS == QPS - 1 ? &v->srq.ring : &qp->rq;
		struct superp_sqe entry = {
			.opcode = 1 + (r >> 8) % 7,
			.flags = r >> 16 & 7,
			.length = r >> 24 & 1 ? 8 : r >> 25 & 0xffff,
			.remote_addr = v->peer_rma + (r >> 41 & 0x7ff8),
			.local_key = v->mr.key,
			.local_addr = v->mr.addr + (r >> 45 & 0xffff),
		};
		struct superp_rqe buffer = {
			.addr = v->mr.addr + (r >> 45 & 0xffff),
			.key = v->mr.key,
			.length = r >> 20 & 0xffff,
		};
		/* Together as long as the entry, if it is an even number of bytes. */
		struct superp_segment halves[SEGMENTS] = {
			{ v->mr.addr + (r >> 40 & 0xffff), entry.length / 2, v->mr.key },
			{ v->mr.addr + (r >> 44 & 0xffff), entry.length / 2, v->mr.key },
		};

		/* Free-running from where the kernel is, or thinks that it is told. */
		qp->sq.index = *qp->sq.producer;
		rq->index = *rq->producer;
		if (r >> 63) {
			entry.flags = (entry.flags & ~SUPERP_SQE_INLINE) | SUPERP_SQE_LIST;
			entry.local_key = SEGMENTS;
			entry.local_addr = 0;
			if (qp->sq.per_entry)
				segments_put(&qp->sq, halves, SEGMENTS);
			buffer = (struct superp_rqe) {
				.length = entry.length,
				.segments = SEGMENTS,
			};
			segments_put(rq, halves, SEGMENTS);
		}
		sq_put(qp, &entry);
		ring_receive(rq, &buffer);
		bell_set(&v->context, qp);
		send(v->context.fd, NULL, 0, 0);
		superp_poll(v->context.fd, POLLIN, 0);
		*v->cq.ring.consumer = *v->cq.ring.producer;
	}
	return NULL;
}

/* The error state is the end of a queue pair: new ones all the time. */
static void *replace(void *argument)
{
	struct vandal *v = argument;
	uint64_t seed = v->seed + 3;

	while (!stop) {
		struct superp_rqp_create create = {
			.send_cq = v->cq.id,
			.recv_cq = v->cq.id,
			.sq_entries = ENTRIES,
			.rq_entries = ENTRIES,
			.sq_segments = SEGMENTS,
			.rq_segments = SEGMENTS,
		};
		unsigned int index = next_random(&seed) % QPS;
		struct qp *qp = &v->qps[index];
		void *map;

		if (index == QPS - 1) {
			create.rq_entries = 0;
			create.rq_segments = 0;
			create.flags = SUPERP_RQP_SRQ;
			create.srq = v->srq.id;
		}

		qp_modify(&v->context, next_random(&seed) % (QPS + 1), SUPERP_QPS_ERR);
		ring_destroy(&v->context, SUPERP_IOC_RQP_DESTROY, qp->id);
		if (ioctl(v->context.fd, SUPERP_IOC_RQP_CREATE, &create))
			continue;
		qp->id = create.qp;
		qp_connect(&v->context, qp, v->peer, SUPERP_ENCAP_SUNH, v->peer_qpn);
		/* In the place of the old mapping, under the hands of the others. */
		map = mmap(qp->map, qp->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   v->context.fd, create.offset);
		if (map == MAP_FAILED)
			return NULL;
	}
	return NULL;
}

static int vandal_up(struct vandal *v, const struct node *peer)
{
	unsigned int i;

	v->peer = peer;
	if (cq_create(&v->context, &v->cq, ENTRIES))
		return -1;
	if (srq_create(&v->context, &v->srq, ENTRIES, SEGMENTS))
		return -1;
	for (i = 0; i < QPS - 1; i++) {
		if (qp_create_lists(&v->context, &v->qps[i], &v->cq, ENTRIES, &v->cq, ENTRIES,
				    SEGMENTS))
			return -1;
	}
	if (qp_create_shared(&v->context, &v->qps[i], &v->cq, ENTRIES, &v->cq, &v->srq))
		return -1;
	v->memory = mr_memory(v->context.fd, AREA, ALL, &v->mr);
	return v->memory ? 0 : -1;
}

static int vandal_connect(struct vandal *v, const struct vandal *other)
{
	unsigned int i;

	v->peer_qpn = other->qps[0].qpn;
	v->peer_rma = other->mr.rma_addr;
	for (i = 0; i < QPS; i++) {
		if (qp_connect(&v->context, &v->qps[i], v->peer, SUPERP_ENCAP_SUNH,
			       other->qps[i].qpn))
			return -1;
	}
	return 0;
}

/*
 * The hostile program: one context on each node, each with three threads; dies when told. Who
 * enters a node must be root; @become, if not NULL, gives up these rights before anything else.
 */
static int vandals(int told, uint64_t seed, int (*become)(void))
{
	void *(*const parts[])(void *) = { scribble, submit, replace };
	struct vandal v[2] = { { .seed = seed }, { .seed = seed * 31 } };
	pthread_t threads[2 * ARRAY_SIZE(parts)];
	unsigned int i;
	char byte;

	if (context_open(&v[0].context, &node_a) || context_open(&v[1].context, &node_b) ||
	    (become && become()))
		return 1;
	if (vandal_up(&v[0], &node_b) || vandal_up(&v[1], &node_a) ||
	    vandal_connect(&v[0], &v[1]) || vandal_connect(&v[1], &v[0]))
		return 1;
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		if (pthread_create(&threads[i], NULL, parts[i / 2], &v[i % 2]))
			return 2;
	}
	if (read(told, &byte, 1) != 0)
		return 3;
	stop = true;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	return 0;
}

#endif /* SUPERP_VANDAL_H */
