// SPDX-License-Identifier: GPL-2.0
/* Requests that follow each other in a ring share packets, and each has its own outcome. */
#include "superp_requests.h"

FIXTURE(pack)
{
	struct sides sides;
};

FIXTURE_VARIANT(pack)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(pack, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(pack, sunh_strict)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .strict = true },
};

FIXTURE_VARIANT_ADD(pack, udp6_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP6, .unordered = true },
};

FIXTURE_SETUP(pack)
{
	ASSERT_EQ(0, sides_begin(&self->sides, &variant->options));
}

FIXTURE_TEARDOWN(pack)
{
	sides_end(&self->sides);
}

/* Requests of one doorbell, @each of which share a packet. */
static void share(struct __test_metadata *const _metadata, struct sides *sides, int op,
		  unsigned int count, uint32_t len, unsigned int each)
{
	uint64_t packets, ops;
	unsigned int i;

	packets = transactions(sides);
	ops = conn_counter(sides->cid, SUPERP_A_CONN_STATS_TX_OPS);
	ASSERT_EQ(0, put_all(sides, op, count, len, 0));
	ASSERT_EQ(0, ring_bell(sides));
	for (i = 0; i < count; i++)
		ASSERT_EQ(true, succeeds(sides, i));
	ASSERT_EQ(true, all_ended(sides));
	ASSERT_EQ(true, memories_right(sides));
	EXPECT_EQ((count + each - 1) / each, transactions(sides) - packets) {
		TH_LOG("opcode %d, %u requests of %u bytes", op, count, len);
	}
	EXPECT_EQ(count, conn_counter(sides->cid, SUPERP_A_CONN_STATS_TX_OPS) - ops);
}

TEST_F_TIMEOUT(pack, those_of_one_doorbell__share_packets, slowly(60))
{
	static const unsigned int counts[] = { 1, 2, 7, 8, 9, 33, 60, 256 };
	static const uint32_t sizes[] = { 1, 15, 16, 64, SMALL };
	struct sides *sides = &self->sides;
	unsigned int i, op;

	for (op = 0; op < ARRAY_SIZE(both); op++) {
		bool strict = variant->options.strict && both[op] == SUPERP_OP_WRITE;

		for (i = 0; i < ARRAY_SIZE(counts); i++)
			share(_metadata, sides, both[op], counts[i], 64, PER_PACKET);
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			if (!strict || sizes[i] >= 16)
				share(_metadata, sides, both[op], 60, sizes[i], PER_PACKET);
		}
		/* A read has its bytes in the answer, which may have several packets. */
		share(_metadata, sides, both[op], 60, SMALL + 1,
		      both[op] == SUPERP_OP_READ ? PER_PACKET : 1);
	}
}

TEST_F_TIMEOUT(pack, operations_per_packet__as_many_share, slowly(60))
{
	struct sides *sides = &self->sides;
	static const struct {
		const char *value;
		unsigned int each;
	} limits[] = { { "15", 15 }, { "1", 1 }, { "3", 3 } };
	unsigned int i, op;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		ASSERT_EQ(0, sides_again(sides, "tal_max_ops_per_pkt", limits[i].value));
		for (op = 0; op < ARRAY_SIZE(both); op++) {
			share(_metadata, sides, both[op], 60, 64, limits[i].each);
			share(_metadata, sides, both[op], 256, SMALL, limits[i].each);
		}
	}
}

/* As many as have an answer of no more packets than a transaction may have. */
TEST_F_TIMEOUT(pack, long_reads__share_a_request, slowly(60))
{
	static const struct {
		const char *packets;
		uint32_t len;
		unsigned int count, each;
	} cases[] = {
		{ "32", 15000, 8, 8 },
		{ "32", 65000, 2, 2 },
		{ "8", 15000, 8, 4 },
		{ "8", 20000, 6, 2 },
		{ "8", 40000, 3, 1 },
	};
	struct sides *sides = &self->sides;
	unsigned int i, n, bad;

	for (n = 0; n < ARRAY_SIZE(cases); n++) {
		unsigned int count = cases[n].count, each = cases[n].each;
		uint32_t len = cases[n].len;

		ASSERT_EQ(0, sides_again(sides, "tal_max_pkt_per_trans", cases[n].packets));
		/* At first none of them is refused. */
		for (bad = count; bad <= count; bad--) {
			uint64_t packets = transactions(sides);

			memories_clear(sides);
			pattern_fill(sides->b.memory, AREA, n);
			pattern_fill(sides->remote, AREA, n);
			for (i = 0; i < count; i++) {
				size_t from = i == bad ? AREA - len + 1 : 1000 * i + 7;
				struct superp_sqe entry = sqe_of(SUPERP_OP_READ, &sides->a.mr,
								 i * len, &sides->b.mr, from, len);

				entry.token = TOKEN + i;
				sides->op[i] = SUPERP_OP_READ;
				sides->len[i] = len;
				ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			}
			ASSERT_EQ(0, ring_bell(sides));
			for (i = 0; i < count; i++) {
				bool together = i / each == bad / each;

				if (!together || i < bad)
					memcpy(sides->local + i * len,
					       sides->remote + 1000 * i + 7, len);
				ASSERT_EQ(true, i == bad ? is_refused(sides, i) :
						together && i > bad ? is_aborted(sides, i) :
						ends(sides, i, 0, 0, 0)) {
					TH_LOG("%u of %u bytes, refused %u", count, len, bad);
				}
			}
			ASSERT_EQ(true, all_ended(sides));
			ASSERT_EQ(true, memories_right(sides));
			if (bad < count) {
				ASSERT_EQ(0, qp_again(sides));
			} else {
				EXPECT_EQ((count + each - 1) / each, transactions(sides) - packets);
			}
		}
	}
}

TEST_F(pack, signaled_ones__alone_complete)
{
	struct sides *sides = &self->sides;
	static const unsigned int every[] = { 3, 8, 9, 1000 };
	unsigned int i, op, n;
	uint64_t packets;

	for (n = 0; n < ARRAY_SIZE(every) * ARRAY_SIZE(both); n++) {
		unsigned int rate = every[n / 2];

		op = both[n % 2];
		packets = transactions(sides);
		memories_clear(sides);
		for (i = 0; i < 64; i++) {
			struct superp_sqe entry = request(sides, op, i, 64);

			/* The last tells of all. */
			if (i % rate != rate - 1 && i != 63)
				entry.flags = 0;
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
		}
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < 64; i++) {
			done(sides, i);
			if (i % rate == rate - 1 || i == 63)
				ASSERT_EQ(true, succeeds(sides, i));
		}
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		EXPECT_EQ(64 / PER_PACKET, transactions(sides) - packets);
	}
}

/* Doorbells of three requests each, which find the window full: as many as are whole share. */
TEST_F_TIMEOUT(pack, doorbells_that_wait__share_packets, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { WINDOW = 32, BELL = 3, COUNT = 240, WHOLE = PER_PACKET / BELL };
	unsigned int i, op;
	uint64_t packets;

	for (op = 0; op < ARRAY_SIZE(both); op++) {
		packets = transactions(sides);
		memories_clear(sides);
		ASSERT_EQ(0, answers_lost(true));
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, both[op], i, 64);

			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			if (i % BELL == BELL - 1)
				ASSERT_EQ(0, ring_bell(sides));
		}
		EXPECT_EQ(WINDOW, transactions(sides) - packets);
		ASSERT_EQ(0, answers_lost(false));
		for (i = 0; i < COUNT; i++)
			ASSERT_EQ(true, succeeds(sides, i));
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		EXPECT_EQ(WINDOW + (COUNT / BELL - WINDOW) / WHOLE, transactions(sides) - packets);
	}
}

/* One that does not go with its neighbours. */
enum unlike {
	LENGTH,
	REGION,
	OPCODE,
	FENCE,
	INLINE,
	LIST,
	EMPTY,
	MESSAGE,
	/* With extensions. */
	IMM,
	ATOMIC,
	UNLIKE,
};

/* Whether B has a completion of it, too. */
static bool is_received(enum unlike kind)
{
	return kind == MESSAGE || kind == IMM;
}

/* Whether it is unlike its neighbours, but the same to the peer. */
static bool may_share(enum unlike kind, int op)
{
	return kind == REGION || kind == LIST || (kind == INLINE && op == SUPERP_OP_WRITE);
}

/* As request(), one that is unlike requests of @op and 32 bytes. @other: another region of A. */
static struct superp_sqe unlike(struct sides *sides, enum unlike kind, int op, unsigned int i,
				const struct superp_mr_reg *other)
{
	static const uint64_t original = 0x5a5a5a5a5a5a5a5a;
	struct superp_segment segments[2] = {
		{ sides->a.mr.addr + local_at(i), 10, sides->a.mr.key },
		{ sides->a.mr.addr + local_at(i) + 10, 22, sides->a.mr.key },
	};
	struct superp_sqe entry;

	if (kind == OPCODE)
		op = op == SUPERP_OP_READ ? SUPERP_OP_WRITE : SUPERP_OP_READ;
	else if (kind == MESSAGE)
		op = SUPERP_OP_SEND;
	else if (kind == ATOMIC)
		op = SUPERP_OP_FETCH_ADD;
	else if (kind == INLINE || kind == IMM)
		op = SUPERP_OP_WRITE;
	entry = request(sides, op, i, kind == LENGTH ? 31 : kind == EMPTY ? 0 : 32);
	switch (kind) {
	case REGION:
		entry.local_key = other->key;
		break;
	case FENCE:
		entry.flags |= SUPERP_SQE_FENCE;
		break;
	case INLINE:
		entry.flags |= SUPERP_SQE_INLINE;
		entry.local_key = 0;
		pattern_fill(entry.data, sizeof(entry.data), i);
		break;
	case LIST:
		entry.flags |= SUPERP_SQE_LIST;
		entry.local_addr = 0;
		entry.local_key = ARRAY_SIZE(segments);
		segments_put(&sides->a.qp.sq, segments, ARRAY_SIZE(segments));
		break;
	case MESSAGE:
		entry.remote_addr = 0;
		pattern_fill(sides->remote + TAIL, 32, i);
		break;
	case IMM:
		entry.flags |= SUPERP_SQE_IMM;
		entry.imm = 0xdead0000 + i;
		break;
	case ATOMIC:
		memcpy(sides->a.memory + local_at(i), sides->local + TAIL, 32);
		memcpy(sides->local + local_at(i), sides->local + TAIL, 32);
		memcpy(sides->local + local_at(i), &original, 8);
		memset(sides->remote + TAIL, 0x5b, 8);
		entry.remote_addr = sides->b.mr.rma_addr + TAIL;
		entry.operand = 0x0101010101010101;
		entry.length = 8;
		sides->len[i] = 8;
		break;
	default:
		break;
	}
	return entry;
}

static bool wait_for_message(struct sides *sides, enum unlike kind, unsigned int i)
{
	struct superp_cqe completion;

	if (!cq_wait(&sides->b.recv_cq, &completion, WAIT_MS))
		return false;
	return completion.token == i && completion.major == 0 && completion.length == 32 &&
	       completion.imm == (kind == IMM ? 0xdead0000 + i : 0);
}

/* An entry in B's ring for the message of request @i. */
static bool receive(struct sides *sides, unsigned int i)
{
	struct superp_rqe entry = {
		.addr = sides->b.mr.addr + TAIL,
		.key = sides->b.mr.key,
		.length = 32,
		.token = i,
	};

	return rq_put(&sides->b.qp, &entry);
}

TEST_F_TIMEOUT(pack, unlike_neighbours__are_done_as_well, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 2 * PER_PACKET };
	int kinds = variant->options.strict ? IMM : UNLIKE;
	struct superp_mr_reg other;
	unsigned int i, n, most, least;
	uint64_t packets;
	int at, kind;

	ASSERT_EQ(0, mr_reg(sides->a.context.fd, sides->a.memory, AREA,
			    SUPERP_ACCESS_LOCAL_WRITE, &other));
	for (n = 0; n < ARRAY_SIZE(both) * kinds * COUNT; n++) {
		int op = both[n % 2];

		kind = n / 2 % kinds;
		at = n / 2 / kinds;
		packets = transactions(sides);
		memories_clear(sides);
		if (is_received(kind))
			ASSERT_EQ(true, receive(sides, at));
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, op, i, 32);

			if (i == at)
				entry = unlike(sides, kind, op, i, &other);
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
		}
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < COUNT; i++) {
			ASSERT_EQ(true, succeeds(sides, i)) {
				TH_LOG("opcode %d, kind %d at %d", op, kind, at);
			}
		}
		if (is_received(kind))
			ASSERT_EQ(true, wait_for_message(sides, kind, at));
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides)) {
			TH_LOG("opcode %d, kind %d at %d", op, kind, at);
		}
		packets = transactions(sides) - packets;
		/* Those before it, itself, and those behind it, if none share as if they waited. */
		most = PACKETS(at) + 1 + PACKETS(COUNT - 1 - at);
		least = most;
		if (kind == FENCE)
			least = PACKETS(at) + PACKETS(COUNT - at);
		else if (may_share(kind, op))
			least = PACKETS(COUNT);
		EXPECT_TRUE(least <= packets && packets <= most) {
			TH_LOG("opcode %d, kind %d at %d: %u", op, kind, at, (unsigned int)packets);
		}
	}
}

/* No write passes one before it, whatever they share packets with; on ordered connections. */
TEST_F_TIMEOUT(pack, writes_to_one_place__the_last_one_stays, slowly(60))
{
	struct sides *sides = &self->sides;
	static const enum unlike kinds[] = { LENGTH, REGION, FENCE, INLINE, LIST, IMM };
	enum { COUNT = 17 };
	struct superp_mr_reg other;
	unsigned int i, kind, at;

	if (variant->options.unordered)
		return;
	ASSERT_EQ(0, mr_reg(sides->a.context.fd, sides->a.memory, AREA, 0, &other));
	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		if (kinds[kind] == IMM && variant->options.strict)
			continue;
		for (at = 0; at < COUNT - 1; at++) {
			memories_clear(sides);
			if (is_received(kinds[kind]))
				ASSERT_EQ(true, receive(sides, at));
			for (i = 0; i < COUNT; i++) {
				struct superp_sqe entry = request(sides, SUPERP_OP_WRITE, i, 32);

				if (i == at)
					entry = unlike(sides, kinds[kind], SUPERP_OP_WRITE, i,
						       &other);
				entry.remote_addr = sides->b.mr.rma_addr + TAIL;
				ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			}
			ASSERT_EQ(0, ring_bell(sides));
			for (i = 0; i < COUNT; i++)
				ASSERT_EQ(true, ends(sides, i, 0, 0, 0));
			if (is_received(kinds[kind]))
				ASSERT_EQ(true, wait_for_message(sides, kinds[kind], at));
			pattern_fill(sides->remote + TAIL, 32, COUNT - 1);
			ASSERT_EQ(true, memories_right(sides)) {
				TH_LOG("kind %d at %u", kinds[kind], at);
			}
		}
	}
}

/* A write behind reads, of what the last of them has brought; and a read of that behind it. */
TEST_F_TIMEOUT(pack, fence__waits_for_all_that_share_packets, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 20 };
	unsigned int i, at;

	for (at = 1; at < COUNT - 1; at++) {
		memories_clear(sides);
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry;

			if (i == at) {
				/* Of bytes that are not there yet. */
				entry = sqe_of(SUPERP_OP_WRITE, &sides->a.mr, local_at(at - 1),
					       &sides->b.mr, TAIL, 64);
				entry.flags |= SUPERP_SQE_FENCE;
				entry.token = TOKEN + i;
				sides->op[i] = SUPERP_OP_WRITE;
				sides->len[i] = 64;
			} else if (i == at + 1 && !variant->options.unordered) {
				entry = sqe_of(SUPERP_OP_READ, &sides->a.mr, local_at(i),
					       &sides->b.mr, TAIL, 64);
				entry.token = TOKEN + i;
				sides->op[i] = SUPERP_OP_READ;
				sides->len[i] = 64;
			} else {
				entry = request(sides, SUPERP_OP_READ, i, 64);
				done(sides, i);
			}
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
		}
		pattern_fill(sides->remote + TAIL, 64, at - 1);
		if (!variant->options.unordered)
			pattern_fill(sides->local + local_at(at + 1), 64, at - 1);
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < COUNT; i++)
			ASSERT_EQ(true, ends(sides, i, 0, 0, 0));
		ASSERT_EQ(true, memories_right(sides)) {
			TH_LOG("the fence is at %u", at);
		}
	}
}

TEST_F_TIMEOUT(pack, bad_link__each_completes_once, slowly(100))
{
	struct sides *sides = &self->sides;
	static const uint32_t sizes[] = { 16, 17, 64, 100, SMALL };
	unsigned int i, round, count, refused;
	struct superp_cqe completion;

	srand(7);
	ASSERT_EQ(0, link_netem("delay 500us 500us loss 3% duplicate 5%"));
	for (round = 0; round < 64; round++) {
		/* In each second round one of them is refused. */
		refused = round % 2 ? rand() % PLACES : PLACES;
		memories_clear(sides);
		for (i = 0; i < PLACES; ) {
			int op = both[rand() % 2];
			uint32_t len = sizes[rand() % ARRAY_SIZE(sizes)];

			for (count = 1 + rand() % 40; count-- && i < PLACES; i++) {
				struct superp_sqe entry = request(sides, op, i, len);

				if (i == refused)
					entry.remote_addr = sides->b.mr.rma_addr + AREA - len + 1;
				ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			}
			ASSERT_EQ(0, ring_bell(sides));
		}
		for (i = 0; i < PLACES; i++) {
			int major = outcome(sides, i, &completion);

			if (i == refused) {
				ASSERT_EQ(SUPERP_ERR_ACCESS, major);
			} else if (major || i < refused) {
				/* Those that were not taken in any more are aborted. */
				ASSERT_EQ(i < refused ? 0 : SUPERP_ERR_ABORTED, major);
			}
			if (!major)
				done(sides, i);
		}
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		if (refused < PLACES)
			ASSERT_EQ(0, qp_again(sides));
	}
}

SUPERP_TEST_MAIN
