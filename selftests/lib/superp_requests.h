/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two sides and requests from A to B, for tests in C: what they leave in the
 * memory of both is foreseen, and their completions are compared with what was
 * asked for.
 */
#ifndef SUPERP_REQUESTS_H
#define SUPERP_REQUESTS_H

#include "superp_conn.h"
#include "superp_ring.h"

#define AREA (1u << 17)
/* Requests have places of their own at both ends; some of these are in two pages. */
#define PLACES 256
#define PLACE 500
/* Bytes behind the places. */
#define TAIL (AREA - 512)
#define ENTRIES PLACES
#define WAIT_MS 20000
/* The default of tal_max_ops_per_pkt. */
#define PER_PACKET 8
/* Packets of so many requests. */
#define PACKETS(count) (((count) + PER_PACKET - 1) / PER_PACKET)
/* The longest that share packets. */
#define SMALL 192
/* What memory has that nobody wrote to. */
#define BLANK_A 0xa5
#define BLANK_B 0x5a
/* The token of the first request. */
#define TOKEN 0x7000000000000000

struct sides {
	int cid;
	const struct conn_options *options;
	struct ring_side a, b;
	uint8_t *local, *remote;	/* what the memories are to have in the end */
	uint32_t len[PLACES];		/* of the requests */
	uint8_t op[PLACES];
};

static const int both[] = { SUPERP_OP_WRITE, SUPERP_OP_READ };

static inline int qp_up(struct sides *sides)
{
	struct ring_side *a = &sides->a;

	if (qp_create_lists(&a->context, &a->qp, &a->send_cq, ENTRIES, NULL, 0, 2))
		return -1;
	return qp_connect(&a->context, &a->qp, &node_b, sides->options->encap, sides->b.qp.qpn);
}

/* Another queue pair of A. */
static inline int qp_again(struct sides *sides)
{
	struct ring_side *a = &sides->a;

	munmap(a->qp.map, a->qp.size);
	return ring_destroy(&a->context, SUPERP_IOC_RQP_DESTROY, a->qp.id) || qp_up(sides) ? -1 : 0;
}

static inline int sides_up(struct sides *sides)
{
	struct superp_cqe completion;
	struct superp_sqe nothing;

	if (conn_up(sides->cid, sides->options) ||
	    ring_side_up(&sides->a, &node_a, ENTRIES, AREA) ||
	    ring_side_up(&sides->b, &node_b, ENTRIES, AREA) ||
	    qp_again(sides) ||
	    qp_connect(&sides->b.context, &sides->b.qp, &node_a, sides->options->encap, 0))
		return -1;
	/* A peer that was never heard is not taken for dead, however long it is silent. */
	nothing = sqe_of(SUPERP_OP_WRITE, &sides->a.mr, 0, &sides->b.mr, 0, 0);
	if (post(&sides->a.context, &sides->a.qp, &nothing) ||
	    !cq_wait(&sides->a.send_cq, &completion, WAIT_MS))
		return -1;
	return completion.major;
}

static inline void sides_down(struct sides *sides)
{
	context_close(&sides->a.context);
	context_close(&sides->b.context);
	conn_down(sides->cid);
}

static inline int sides_begin(struct sides *sides, const struct conn_options *options)
{
	sides->options = options;
	sides->local = malloc(AREA);
	sides->remote = malloc(AREA);
	sides->cid = conn_id();
	/* A link that is cut for a while, in a slow home, is not dead. */
	if (!sides->local || !sides->remote ||
	    node_param(&node_a, "pdl_dead_time", "60000000000") ||
	    node_param(&node_b, "pdl_dead_time", "60000000000"))
		return -1;
	return sides_up(sides);
}

static inline void sides_end(struct sides *sides)
{
	link_clean();
	node_param(&node_a, "pdl_dead_time", "5000000000");
	node_param(&node_b, "pdl_dead_time", "5000000000");
	node_param(&node_a, "tal_max_ops_per_pkt", "8");
	node_param(&node_a, "tal_max_pkt_per_trans", "32");
	sides_down(sides);
	free(sides->local);
	free(sides->remote);
}

/* With another connection, which has this parameter. */
static inline int sides_again(struct sides *sides, const char *name, const char *value)
{
	sides_down(sides);
	sides->cid += 2;
	return node_param(&node_a, name, value) || sides_up(sides);
}

static inline uint64_t transactions(const struct sides *sides)
{
	return conn_counter(sides->cid, SUPERP_A_CONN_STATS_TRANSACTIONS);
}

/* Nothing was asked for. */
static inline void memories_clear(struct sides *sides)
{
	memset(sides->a.memory, BLANK_A, AREA);
	memset(sides->local, BLANK_A, AREA);
	memset(sides->b.memory, BLANK_B, AREA);
	memset(sides->remote, BLANK_B, AREA);
}

static inline bool memory_is(const char *name, const uint8_t *memory, const uint8_t *wanted)
{
	size_t i;

	for (i = 0; i < AREA; i++) {
		if (memory[i] == wanted[i])
			continue;
		fprintf(stderr, "byte %zu of the %s memory: %#x, not %#x\n", i, name, memory[i],
			wanted[i]);
		return false;
	}
	return true;
}

/* Whether what was done, and nothing else, has changed the memories. */
static inline bool memories_right(const struct sides *sides)
{
	bool local = memory_is("local", sides->a.memory, sides->local);

	return memory_is("remote", sides->b.memory, sides->remote) && local;
}

/* Where a request has its place, in an order of its own at each end. */
static inline size_t local_at(unsigned int i)
{
	return i * 37 % PLACES * PLACE + i % 7;
}

static inline size_t remote_at(unsigned int i)
{
	return (i * 101 + 7) % PLACES * PLACE + i % 5;
}

/* The entry of request @i, whose bytes nobody else has. */
static inline struct superp_sqe request(struct sides *sides, int op, unsigned int i, uint32_t len)
{
	struct superp_sqe entry = sqe_of(op, &sides->a.mr, local_at(i), &sides->b.mr, remote_at(i),
					 len);

	if (op == SUPERP_OP_READ) {
		pattern_fill(sides->b.memory + remote_at(i), len, i);
		pattern_fill(sides->remote + remote_at(i), len, i);
	} else {
		pattern_fill(sides->a.memory + local_at(i), len, i);
		pattern_fill(sides->local + local_at(i), len, i);
	}
	sides->op[i] = op;
	sides->len[i] = len;
	entry.token = TOKEN + i;
	return entry;
}

/* Request @i was done. */
static inline void done(struct sides *sides, unsigned int i)
{
	if (sides->op[i] == SUPERP_OP_READ)
		pattern_fill(sides->local + local_at(i), sides->len[i], i);
	else if (sides->op[i] == SUPERP_OP_WRITE)
		pattern_fill(sides->remote + remote_at(i), sides->len[i], i);
}

/* For people who look why something did not happen. */
static inline void connection_says(int cid)
{
	static const struct {
		const char	*name;
		int		attribute;
	} counters[] = {
		{ "transactions", SUPERP_A_CONN_STATS_TRANSACTIONS },
		{ "completed", SUPERP_A_CONN_STATS_COMPLETED },
		{ "failed", SUPERP_A_CONN_STATS_FAILED },
		{ "tx-packets", SUPERP_A_CONN_STATS_TX_PACKETS },
		{ "rx-packets", SUPERP_A_CONN_STATS_RX_PACKETS },
		{ "timeouts", SUPERP_A_CONN_STATS_TIMEOUTS },
		{ "probes", SUPERP_A_CONN_STATS_PROBES },
		{ "retrans-rto", SUPERP_A_CONN_STATS_RETRANS_RTO },
		{ "rto-ns", SUPERP_A_CONN_STATS_RTO_NS },
		{ "tx-path-errors", SUPERP_A_CONN_STATS_TX_PATH_ERRORS },
	};
	unsigned int i;

	fprintf(stderr, "connection %d: state %d", cid, conn_state(&node_a, cid));
	for (i = 0; i < ARRAY_SIZE(counters); i++)
		fprintf(stderr, ", %s %llu", counters[i].name,
			(unsigned long long)conn_counter(cid, counters[i].attribute));
	fprintf(stderr, "\n");
}

/* The major code of the next completion, which is that of request @i; -1: it is not. */
static inline int outcome(struct sides *sides, unsigned int i, struct superp_cqe *completion)
{
	if (!cq_wait(&sides->a.send_cq, completion, slowly(WAIT_MS))) {
		fprintf(stderr, "request %u does not complete\n", i);
		connection_says(sides->cid);
		return -1;
	}
	if (completion->token != TOKEN + i || completion->qp != sides->a.qp.id ||
	    completion->opcode != sides->op[i] || completion->length != sides->len[i] ||
	    completion->flags || completion->imm || completion->rsvd) {
		fprintf(stderr, "request %u (opcode %u, %u bytes): %#llx (opcode %u, %u bytes)\n",
			i, sides->op[i], sides->len[i], (unsigned long long)completion->token,
			completion->opcode, completion->length);
		return -1;
	}
	return completion->major;
}

/* Whether the next completion is that of request @i, with these codes and this error number. */
static inline bool ends(struct sides *sides, unsigned int i, int major, int minor, int error)
{
	struct superp_cqe completion;
	int got = outcome(sides, i, &completion);

	if (got < 0)
		return false;
	if (got != major || completion.minor != minor || (int)completion.error != error) {
		fprintf(stderr, "request %u: major %u minor %u error %u, not %d, %d and %d\n", i,
			completion.major, completion.minor, completion.error, major, minor, error);
		return false;
	}
	return true;
}

static inline bool succeeds(struct sides *sides, unsigned int i)
{
	done(sides, i);
	return ends(sides, i, 0, 0, 0);
}

/* Its remote bytes are out of bounds. */
static inline bool is_refused(struct sides *sides, unsigned int i)
{
	return ends(sides, i, SUPERP_ERR_ACCESS, 2, EACCES);
}

static inline bool is_aborted(struct sides *sides, unsigned int i)
{
	return ends(sides, i, SUPERP_ERR_ABORTED, 0, ECONNRESET);
}

/* Whether no completion is left, and none comes. */
static inline bool all_ended(struct sides *sides)
{
	struct superp_cqe completion;

	if (ring_used(&sides->a.qp.sq)) {
		fprintf(stderr, "%u entries are left\n", ring_used(&sides->a.qp.sq));
		return false;
	}
	usleep(2000);
	if (!cq_take(&sides->a.send_cq, &completion))
		return true;
	fprintf(stderr, "one more completion: %#llx\n", (unsigned long long)completion.token);
	return false;
}

/* Puts in @count requests that are alike, without ringing; those of @bad, bits, reach too far. */
static inline int put_all(struct sides *sides, int op, unsigned int count, uint32_t len,
			  uint32_t bad)
{
	unsigned int i;

	memories_clear(sides);
	for (i = 0; i < count; i++) {
		struct superp_sqe entry = request(sides, op, i, len);

		if (i < 32 && bad >> i & 1)
			entry.remote_addr = sides->b.mr.rma_addr + AREA - len + 1;
		if (!sq_put(&sides->a.qp, &entry))
			return -1;
	}
	return 0;
}

static inline int ring_bell(struct sides *sides)
{
	return doorbell(&sides->a.context, &sides->a.qp);
}

#endif /* SUPERP_REQUESTS_H */
