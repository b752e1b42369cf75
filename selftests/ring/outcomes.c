// SPDX-License-Identifier: GPL-2.0
/* Requests that share packets end, each with its own outcome, when one is refused or the connection ends. */
#include "superp_requests.h"

FIXTURE(outcomes)
{
	struct sides sides;
};

FIXTURE_VARIANT(outcomes)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(outcomes, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(outcomes, sunh_strict)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .strict = true },
};

FIXTURE_VARIANT_ADD(outcomes, udp6_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP6, .unordered = true },
};

FIXTURE_SETUP(outcomes)
{
	ASSERT_EQ(0, sides_begin(&self->sides, &variant->options));
}

FIXTURE_TEARDOWN(outcomes)
{
	sides_end(&self->sides);
}

/* Whether none of @bad, bits, is request @i, or in front of it in its packet. */
static bool in_front(unsigned int i, uint32_t bad)
{
	unsigned int first = i / PER_PACKET * PER_PACKET;

	return !(bad >> first & ((2u << (i - first)) - 1));
}

/*
 * Whether request @i ends as it has to where those of @bad, bits, are refused, and of a doorbell: those
 * behind one that is refused are not carried out, if they are in its packet.
 */
static bool ends_as_packet(struct sides *sides, unsigned int i, uint32_t bad)
{
	if (in_front(i, bad))
		return succeeds(sides, i);
	return bad >> i & 1 && in_front(i, bad & ~(1u << i)) ? is_refused(sides, i) :
							       is_aborted(sides, i);
}

/* Which of the first requests are refused, as bits, where 24 go in three packets. */
static const uint32_t refusals[] = {
	1 << 0, 1 << 3, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 23,
	/* Several in a packet, and in several ones. */
	1 << 2 | 1 << 5, 1 << 7 | 1 << 8, 0x010101, 0x808080, 0x00ff00, 0x555555, 0xffffff,
};

TEST_F_TIMEOUT(outcomes, refused_by_the_peer__those_behind_it_are_not_carried_out, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 24 };
	unsigned int i, n, good;

	for (n = 0; n < ARRAY_SIZE(both) * ARRAY_SIZE(refusals); n++) {
		uint64_t bytes = mr_written(sides->b.context.fd, sides->b.mr.key);
		uint32_t bad = refusals[n / 2];
		int op = both[n % 2];

		ASSERT_EQ(0, put_all(sides, op, COUNT, 64, bad));
		ASSERT_EQ(0, ring_bell(sides));
		for (i = good = 0; i < COUNT; i++) {
			good += in_front(i, bad);
			ASSERT_EQ(true, ends_as_packet(sides, i, bad)) {
				TH_LOG("opcode %d, refused %#x", op, bad);
			}
		}
		ASSERT_EQ(true, all_ended(sides));
		EXPECT_EQ(true, qp_failed(&sides->a.qp));
		ASSERT_EQ(true, memories_right(sides));
		bytes = mr_written(sides->b.context.fd, sides->b.mr.key) - bytes;
		/* None twice, as a count of bytes tells. */
		EXPECT_EQ(op == SUPERP_OP_READ ? 0 : 64 * good, bytes);
		/* What comes afterwards. */
		ASSERT_EQ(0, put_all(sides, op, 9, 64, 0));
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < 9; i++)
			ASSERT_EQ(true, is_aborted(sides, i));
		ASSERT_EQ(0, qp_again(sides));
	}
}

TEST_F_TIMEOUT(outcomes, refused_by_the_peer__is_told_of_unsignaled_ones, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 24 };
	unsigned int i, n;

	for (n = 0; n < ARRAY_SIZE(both) * ARRAY_SIZE(refusals); n++) {
		uint32_t bad = refusals[n / 2];
		int op = both[n % 2];
		int ms = WAIT_MS;

		ASSERT_EQ(0, put_all(sides, op, COUNT, 64, bad));
		for (i = 0; i < COUNT; i++)
			((struct superp_sqe *)sides->a.qp.sq.array)
				[(sides->a.qp.sq.index - 1 - i) % ENTRIES].flags = 0;
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < COUNT; i++) {
			if (in_front(i, bad)) {
				done(sides, i);
				continue;
			}
			ASSERT_EQ(true, ends_as_packet(sides, i, bad));
		}
		while (ring_used(&sides->a.qp.sq) && ms--)
			usleep(1000);
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		ASSERT_EQ(0, qp_again(sides));
	}
}

/* Those that wait for the window when one of the first is refused do not begin; those under way are done. */
TEST_F_TIMEOUT(outcomes, refused_of_many__what_has_not_begun_is_flushed, slowly(60))
{
	struct sides *sides = &self->sides;
	/*
	 * A few packets more than the window may begin, each with all it has room for: the first ones
	 * are acknowledged before one is refused.
	 */
	enum { BELL = 3, COUNT = 240, BEGUN = 32 * BELL + 4 * 8, BAD = BELL - 1 };
	unsigned int i, n, successes;

	for (n = 0; n < ARRAY_SIZE(both); n++) {
		uint64_t bytes = mr_written(sides->b.context.fd, sides->b.mr.key);

		/* So long that all are posted before the first answer comes. */
		ASSERT_EQ(0, link_netem("delay 100ms"));
		memories_clear(sides);
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, both[n], i, 64);

			if (i == BAD)
				entry.remote_addr = sides->b.mr.rma_addr + AREA - 63;
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			if (i % BELL == BELL - 1)
				ASSERT_EQ(0, ring_bell(sides));
		}
		for (i = successes = 0; i < COUNT; i++) {
			struct superp_cqe completion;
			int major = outcome(sides, i, &completion);

			if (i == BAD) {
				EXPECT_EQ(SUPERP_ERR_ACCESS, major);
				continue;
			}
			/* None succeeds behind the first that was flushed. */
			ASSERT_EQ(i == successes + (i > BAD) ? major : SUPERP_ERR_ABORTED, major);
			if (major == SUPERP_ERR_ABORTED)
				continue;
			ASSERT_EQ(0, major);
			done(sides, i);
			successes++;
		}
		EXPECT_LE(BELL - 1, successes);
		EXPECT_GE(BEGUN, successes);
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		bytes = mr_written(sides->b.context.fd, sides->b.mr.key) - bytes;
		EXPECT_EQ(both[n] == SUPERP_OP_READ ? 0 : 64 * successes, bytes);
		link_clean();
		ASSERT_EQ(0, qp_again(sides));
	}
}

/* Of doorbells that waited, and so share packets with each other. */
TEST_F_TIMEOUT(outcomes, refused_of_several_doorbells__those_behind_it_are_not_carried_out, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { BELL = 3, COUNT = 240, FIRST = 32 * BELL, PACKET = FIRST + 10 * BELL };
	unsigned int i, n, bad, behind;
	bool flushed;

	/* All places in a packet of two doorbells. */
	for (n = 0; n < ARRAY_SIZE(both) * 2 * BELL; n++) {
		uint64_t bytes = mr_written(sides->b.context.fd, sides->b.mr.key);
		int op = both[n % 2];

		bad = PACKET + n / 2;
		memories_clear(sides);
		ASSERT_EQ(0, answers_lost(true));
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, op, i, 64);

			if (i == bad)
				entry.remote_addr = sides->b.mr.rma_addr + AREA - 63;
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
			if (i % BELL == BELL - 1)
				ASSERT_EQ(0, ring_bell(sides));
		}
		ASSERT_EQ(0, answers_lost(false));
		for (i = behind = 0, flushed = false; i < COUNT; i++) {
			struct superp_cqe completion;
			int major = outcome(sides, i, &completion);
			/* Doorbells share from the first that waits on. */
			bool in_packet = i > bad && i < PACKET + 2 * BELL;

			/* Packets behind it may have begun, up to one. */
			flushed |= i > bad && !in_packet && major == SUPERP_ERR_ABORTED;
			behind += in_packet || flushed;
			ASSERT_EQ(in_packet || flushed ? SUPERP_ERR_ABORTED :
				  i == bad ? SUPERP_ERR_ACCESS : 0, major) {
				TH_LOG("opcode %d, refused %u, ends %u", op, bad, i);
			}
			if (!major)
				done(sides, i);
		}
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		bytes = mr_written(sides->b.context.fd, sides->b.mr.key) - bytes;
		EXPECT_EQ(op == SUPERP_OP_READ ? 0 : 64 * (COUNT - 1 - behind), bytes);
		ASSERT_EQ(0, qp_again(sides));
	}
}

/* Two queue pairs, whose doorbells alternate and wait. */
TEST_F_TIMEOUT(outcomes, refused_of_another_queue_pair__this_one_is_not_touched, slowly(60))
{
	struct sides *sides = &self->sides;
	struct qp other = sides->a.qp;
	enum { COUNT = 240, BAD = 150 };
	struct superp_cqe completion;
	unsigned int i, op;

	for (op = 0; op < ARRAY_SIZE(both); op++) {
		ASSERT_EQ(0, qp_up(sides));
		memories_clear(sides);
		ASSERT_EQ(0, answers_lost(true));
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, both[op], i, 64);
			struct qp *qp = i % 2 ? &sides->a.qp : &other;

			if (i == BAD)
				entry.remote_addr = sides->b.mr.rma_addr + AREA - 63;
			ASSERT_EQ(true, sq_put(qp, &entry));
			ASSERT_EQ(0, doorbell(&sides->a.context, qp));
		}
		ASSERT_EQ(0, answers_lost(false));
		for (i = 0; i < COUNT; i++) {
			unsigned int at;

			ASSERT_EQ(true, cq_wait(&sides->a.send_cq, &completion, WAIT_MS));
			at = completion.token - TOKEN;
			ASSERT_GT(COUNT, at);
			if (at == BAD) {
				EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);
			} else if (at % 2 || completion.major != SUPERP_ERR_ABORTED) {
				EXPECT_EQ(0, completion.major);
				done(sides, at);
			}
		}
		ASSERT_EQ(true, all_ended(sides));
		EXPECT_EQ(false, qp_failed(&sides->a.qp));
		EXPECT_EQ(true, qp_failed(&other));
		ASSERT_EQ(true, memories_right(sides));
		munmap(other.map, other.size);
		ASSERT_EQ(0, ring_destroy(&sides->a.context, SUPERP_IOC_RQP_DESTROY, other.id));
		other = sides->a.qp;
	}
}

/* The order of writes and messages, by which the peer knows what is there. */
TEST_F_TIMEOUT(outcomes, refused_by_the_peer__nothing_is_late, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 3 * PER_PACKET, BAD = PER_PACKET + 2 };
	unsigned int i;

	/* So that all packets are under way before the refusal comes. */
	ASSERT_EQ(0, link_netem("delay 2ms"));
	ASSERT_EQ(0, put_all(sides, SUPERP_OP_WRITE, COUNT, 64, 1 << BAD));
	for (i = 0; i < COUNT; i++) {
		struct superp_sqe *entry = (struct superp_sqe *)sides->a.qp.sq.array +
					   (sides->a.qp.sq.index - COUNT + i) % ENTRIES;

		/* All to one place, the last of which stays. */
		if (i != BAD)
			entry->remote_addr = sides->b.mr.rma_addr + remote_at(0);
	}
	ASSERT_EQ(0, ring_bell(sides));
	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(true, i == BAD ? is_refused(sides, i) :
				i > BAD && i < 2 * PER_PACKET ? is_aborted(sides, i) :
				ends(sides, i, 0, 0, 0));
	}
	pattern_fill(sides->remote + remote_at(0), 64, COUNT - 1);
	ASSERT_EQ(true, all_ended(sides));
	if (!variant->options.unordered)
		ASSERT_EQ(true, memories_right(sides));
}

TEST_F_TIMEOUT(outcomes, not_allowed_here__those_before_are_done, slowly(60))
{
	struct sides *sides = &self->sides;
	static const unsigned int places[] = { 0, 1, 3, 7, 8, 9, 23, 31, 32, 33, 39 };
	/* The kinds, and what they end with; the last one is none of writes. */
	static const struct {
		int major, minor, error;
	} codes[] = {
		{ SUPERP_ERR_ACCESS, 2, EACCES },	/* out of bounds, by a byte */
		{ SUPERP_ERR_ACCESS, 2, EACCES },	/* and in front of them */
		{ SUPERP_ERR_ACCESS, 1, EACCES },	/* no region */
		{ SUPERP_ERR_MALFORMED, 0, EBADMSG },	/* an operand */
		{ SUPERP_ERR_MALFORMED, 0, EBADMSG },	/* an immediate that is none */
		{ SUPERP_ERR_MALFORMED, 0, EBADMSG },	/* a reserved field */
		{ SUPERP_ERR_ACCESS, 3, EACCES },	/* a region that is not to be changed */
	};
	enum { COUNT = 40, KINDS = ARRAY_SIZE(codes) };
	struct superp_mr_reg constant;
	unsigned int i, n;

	ASSERT_EQ(0, mr_reg(sides->a.context.fd, sides->a.memory, AREA, 0, &constant));
	for (n = 0; n < ARRAY_SIZE(both) * KINDS * ARRAY_SIZE(places); n++) {
		uint64_t bytes = mr_written(sides->b.context.fd, sides->b.mr.key);
		unsigned int bad = places[n / 2 / KINDS], kind = n / 2 % KINDS;
		int op = both[n % 2];

		if (kind == KINDS - 1 && op == SUPERP_OP_WRITE)
			continue;
		memories_clear(sides);
		for (i = 0; i < COUNT; i++) {
			struct superp_sqe entry = request(sides, op, i, 64);

			if (i == bad && kind == 0)
				entry.local_addr = sides->a.mr.addr + AREA - 63;
			else if (i == bad && kind == 1)
				entry.local_addr = sides->a.mr.addr - 1;
			else if (i == bad && kind == 2)
				entry.local_key ^= 0x10000;
			else if (i == bad && kind == 3)
				entry.operand = 1;
			else if (i == bad && kind == 4)
				entry.imm = 1;
			else if (i == bad && kind == 5)
				entry.rsvd2 = 1;
			else if (i == bad && kind == 6)
				entry.local_key = constant.key;
			ASSERT_EQ(true, sq_put(&sides->a.qp, &entry));
		}
		ASSERT_EQ(0, ring_bell(sides));
		for (i = 0; i < COUNT; i++) {
			ASSERT_EQ(true, i < bad ? succeeds(sides, i) :
					i > bad ? is_aborted(sides, i) :
					ends(sides, i, codes[kind].major, codes[kind].minor,
					     codes[kind].error)) {
				TH_LOG("opcode %d, kind %u at %u", op, kind, bad);
			}
		}
		ASSERT_EQ(true, all_ended(sides));
		EXPECT_EQ(true, qp_failed(&sides->a.qp));
		ASSERT_EQ(true, memories_right(sides));
		bytes = mr_written(sides->b.context.fd, sides->b.mr.key) - bytes;
		EXPECT_EQ(op == SUPERP_OP_READ ? 0 : 64 * bad, bytes);
		ASSERT_EQ(0, qp_again(sides));
	}
}

/*
 * @count requests end with their connection, each once: how many were done. Those of @bad, bits,
 * are refused, unless they are aborted, too.
 */
static unsigned int all_end(struct __test_metadata *const _metadata, struct sides *sides, int op,
			    unsigned int count, uint32_t bad)
{
	struct superp_cqe completion;
	unsigned int i, successes = 0;
	const uint8_t *at;

	for (i = 0; i < count; i++) {
		int major = outcome(sides, i, &completion);
		bool refused = i < 32 && bad >> i & 1;

		if (major == SUPERP_ERR_ABORTED) {
			EXPECT_TRUE(completion.error == ECONNRESET ||
				    completion.error == ETIMEDOUT);
			continue;
		}
		EXPECT_EQ(refused ? SUPERP_ERR_ACCESS : 0, major);
		if (refused)
			continue;
		at = op == SUPERP_OP_READ ? sides->a.memory + local_at(i) :
					    sides->b.memory + remote_at(i);
		EXPECT_EQ(-1, pattern_check(at, 64, i));
		successes++;
	}
	EXPECT_EQ(true, all_ended(sides));
	EXPECT_EQ(true, qp_failed(&sides->a.qp));
	return successes;
}

TEST_F_TIMEOUT(outcomes, connection_ends__each_fails_once, slowly(60))
{
	struct sides *sides = &self->sides;
	unsigned int op;

	for (op = 0; op < ARRAY_SIZE(both); op++) {
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, put_all(sides, both[op], ENTRIES, 64, 0));
		ASSERT_EQ(0, ring_bell(sides));
		conn_down(sides->cid);
		EXPECT_EQ(0, all_end(_metadata, sides, both[op], ENTRIES, 0));
		ASSERT_EQ(0, answers_lost(false));
		ASSERT_EQ(0, sides_again(sides, "tal_max_ops_per_pkt", "15"));
	}
}

TEST_F_TIMEOUT(outcomes, peer_is_dead__each_fails_once, slowly(60))
{
	struct sides *sides = &self->sides;
	unsigned int op;

	for (op = 0; op < ARRAY_SIZE(both); op++) {
		ASSERT_EQ(0, sides_again(sides, "pdl_dead_time", "500000000"));
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, put_all(sides, both[op], ENTRIES, 64, 0));
		ASSERT_EQ(0, ring_bell(sides));
		EXPECT_EQ(0, all_end(_metadata, sides, both[op], ENTRIES, 0));
		ASSERT_EQ(0, answers_lost(false));
	}
}

/*
 * One of each packet is refused, and when the connection ends those in front of it go again, if they are reads. What
 * has happened by then is not the same each time; where it is, on a machine that is too slow for it, all takes longer.
 */
TEST_F_TIMEOUT(outcomes, connection_ends_after_refusals__each_completes_once, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 32, BAD = 0x04040404, TIMES = 8, IN_FRONT = 2 * COUNT / PER_PACKET };
	unsigned int n, successes = 0;
	char delay[32];

	for (n = 0; n < TIMES || !successes || successes == n * IN_FRONT; n++) {
		unsigned int slower = 1 << n / TIMES;

		snprintf(delay, sizeof(delay), "delay %ums", 2 * slower);
		ASSERT_EQ(0, link_netem(delay));
		ASSERT_EQ(0, put_all(sides, both[n % 2], COUNT, 64, BAD));
		ASSERT_EQ(0, ring_bell(sides));
		/* The refusal takes a round trip, and what goes again another one. */
		usleep(1500 * (n % TIMES) * slower);
		conn_down(sides->cid);
		successes += all_end(_metadata, sides, both[n % 2], COUNT, BAD);
		link_clean();
		ASSERT_EQ(0, sides_again(sides, "tal_max_ops_per_pkt", "8"));
	}
}

/* As before, but the connection stays, so that nothing completes for the want of it. */
TEST_F_TIMEOUT(outcomes, peer_is_dead_after_refusals__each_completes_once, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 32, BAD = 0x10101010 };
	unsigned int delay = 50;
	bool in_time = false;
	uint64_t packets;
	char text[32];
	long begin;

	for (; !in_time; delay *= 2) {
		/* Long enough that nobody is dead while packets are under way. */
		snprintf(text, sizeof(text), "%llu", delay * 20000000ULL);
		ASSERT_EQ(0, sides_again(sides, "pdl_dead_time", text));
		snprintf(text, sizeof(text), "delay %ums", delay);
		ASSERT_EQ(0, link_netem(text));
		packets = transactions(sides);
		begin = now_ms();
		ASSERT_EQ(0, put_all(sides, SUPERP_OP_READ, COUNT, 64, BAD));
		ASSERT_EQ(0, ring_bell(sides));
		while (transactions(sides) < packets + PACKETS(COUNT) + 1)
			usleep(1000);
		ASSERT_EQ(0, answers_lost(true));
		/* The refusals had a round trip before them, and what goes again has half a one. */
		in_time = now_ms() - begin < 3 * delay;
		EXPECT_TRUE(!all_end(_metadata, sides, SUPERP_OP_READ, COUNT, BAD) || !in_time);
		link_clean();
	}
}

/* The connection stops when some are to go again, and goes on with them in its next life. */
TEST_F_TIMEOUT(outcomes, connection_starts_anew__each_is_done_once, slowly(60))
{
	struct sides *sides = &self->sides;
	enum { COUNT = 32, BAD = 0x02000800 };
	unsigned int i, n, good;

	for (n = 0; n < 8; n++) {
		uint64_t bytes = mr_written(sides->b.context.fd, sides->b.mr.key);
		int op = both[n % 2];

		ASSERT_EQ(0, link_netem("delay 2ms"));
		ASSERT_EQ(0, put_all(sides, op, COUNT, 64, BAD));
		ASSERT_EQ(0, ring_bell(sides));
		usleep(1500 * n);
		ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_STOP, sides->cid,
				       SUPERP_CONN_STATE_STOPPED));
		ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_RESET, sides->cid,
				       SUPERP_CONN_STATE_CREATED));
		ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_START, sides->cid,
				       SUPERP_CONN_STATE_ESTABLISHED));
		link_clean();
		for (i = good = 0; i < COUNT; i++) {
			good += in_front(i, BAD);
			ASSERT_EQ(true, ends_as_packet(sides, i, BAD));
		}
		ASSERT_EQ(true, all_ended(sides));
		ASSERT_EQ(true, memories_right(sides));
		bytes = mr_written(sides->b.context.fd, sides->b.mr.key) - bytes;
		EXPECT_EQ(op == SUPERP_OP_READ ? 0 : 64 * good, bytes);
		ASSERT_EQ(0, qp_again(sides));
	}
}

SUPERP_TEST_MAIN
