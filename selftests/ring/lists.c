// SPDX-License-Identifier: GPL-2.0
/* Memory of entries that is in several segments: every operation, and what is refused. */
#include "superp_ring.h"

#define AREA (4 << 20)
#define ALL (SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE)
#define ENTRIES 4
#define WAIT_MS 20000

/* One side: a context with a queue pair, memory, and a region that may only be read. */
struct side {
	struct context		context;
	struct cq		cq;
	struct qp		qp;
	uint8_t			*memory, *constant;
	struct superp_mr_reg	mr, constant_mr;
};

/* Pieces with gaps of 100 bytes between them. */
struct shape {
	const char	*name;
	uint32_t	count;
	uint32_t	length[SUPERP_MAX_SEGMENTS];
};

#define GAP 100
#define FIRST 4001

static const struct shape shapes[] = {
	{ "one", 1, { 5000 } },
	{ "header and body", 2, { 40, 65536 } },
	{ "short ones", 16, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
	{ "some without bytes", 7, { 0, 100, 0, 0, 9000, 1, 0 } },
	{ "across pages", 5, { 4095, 4097, 8191, 1, 12289 } },
	/* More fragments than one packet has room for. */
	{ "many in a packet", 16, { 500, 499, 498, 497, 496, 495, 494, 493, 492, 491, 490, 489,
				    488, 487, 486, 485 } },
	{ "many packets", 16, { 7001, 7003, 7005, 7007, 7009, 7011, 7013, 7015, 7017, 7019, 7021,
				7023, 7025, 7027, 7029, 7031 } },
	{ "several transactions", 3, { 300001, 7, 400003 } },
	{ "nothing", 2, { 0, 0 } },
};

static uint32_t shape_length(const struct shape *shape)
{
	uint32_t i, sum = 0;

	for (i = 0; i < shape->count; i++)
		sum += shape->length[i];
	return sum;
}

/* Where piece @i of a shape begins in the memory. */
static size_t shape_at(const struct shape *shape, uint32_t i)
{
	size_t at = FIRST;

	while (i--)
		at += shape->length[i] + GAP;
	return at;
}

static void shape_segments(const struct shape *shape, const struct superp_mr_reg *mr,
			   struct superp_segment *segments)
{
	uint32_t i;

	for (i = 0; i < shape->count; i++) {
		segments[i] = (struct superp_segment) {
			.addr = mr->addr + shape_at(shape, i),
			.length = shape->length[i],
			/* Of no bytes anything goes. */
			.key = shape->length[i] ? mr->key : 0xabcdef,
		};
	}
}

/* Copies between the pieces and one block. */
static void shape_scatter(const struct shape *shape, uint8_t *memory, const uint8_t *block)
{
	uint32_t i;

	for (i = 0; i < shape->count; i++) {
		memcpy(memory + shape_at(shape, i), block, shape->length[i]);
		block += shape->length[i];
	}
}

static void shape_gather(const struct shape *shape, const uint8_t *memory, uint8_t *block)
{
	uint32_t i;

	for (i = 0; i < shape->count; i++) {
		memcpy(block, memory + shape_at(shape, i), shape->length[i]);
		block += shape->length[i];
	}
}

/* Whether all bytes around the pieces have this value. */
static bool shape_gaps_are(const struct shape *shape, const uint8_t *memory, uint8_t value)
{
	uint32_t i, n;
	size_t at;

	for (i = 0; i <= shape->count; i++) {
		at = shape_at(shape, i) - GAP;
		for (n = 0; n < GAP; n++) {
			if (memory[at + n] != value)
				return false;
		}
	}
	return true;
}

static int side_up(struct side *side, const struct node *node)
{
	if (context_open(&side->context, node) ||
	    cq_create(&side->context, &side->cq, 64) ||
	    qp_create_lists(&side->context, &side->qp, &side->cq, ENTRIES, &side->cq, ENTRIES,
			    SUPERP_MAX_SEGMENTS))
		return -1;
	side->memory = mr_memory(side->context.fd, AREA, ALL, &side->mr);
	side->constant = mr_memory(side->context.fd, 4096, SUPERP_ACCESS_REMOTE_READ,
				   &side->constant_mr);
	return side->memory && side->constant ? 0 : -1;
}

FIXTURE(lists)
{
	int cid;
	struct side a, b;
	uint8_t *block;
};

FIXTURE_VARIANT(lists)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(lists, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(lists, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(lists, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(lists)
{
	int encap = variant->options.encap;

	self->cid = conn_id();
	self->block = malloc(AREA);
	ASSERT_NE(NULL, self->block);
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, side_up(&self->a, &node_a));
	ASSERT_EQ(0, side_up(&self->b, &node_b));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, encap, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, encap, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(lists)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
	free(self->block);
}

/* Makes an entry one whose local bytes are these segments. */
static void entry_list(struct superp_sqe *entry, uint32_t count)
{
	entry->flags |= SUPERP_SQE_LIST;
	entry->local_addr = 0;
	entry->local_key = count;
}

/* Posts an entry with a shape of A's memory, and waits for its completion. */
static int shape_run(struct side *side, struct superp_sqe *entry, const struct shape *shape,
		     struct superp_cqe *completion)
{
	struct superp_segment segments[SUPERP_MAX_SEGMENTS];

	shape_segments(shape, &side->mr, segments);
	entry_list(entry, shape->count);
	segments_put(&side->qp.sq, segments, shape->count);
	if (post(&side->context, &side->qp, entry) || !cq_wait(&side->cq, completion, WAIT_MS))
		return -1;
	return completion->major;
}

/* Gives the queue pair a receive entry whose buffer is a shape, which may be longer by @more bytes. */
static bool shape_receive(struct side *side, const struct shape *shape, uint32_t more)
{
	struct superp_segment segments[SUPERP_MAX_SEGMENTS];
	struct superp_rqe entry = {
		.length = shape_length(shape) + more,
		.segments = shape->count,
		.token = 77,
	};

	shape_segments(shape, &side->mr, segments);
	segments[shape->count - 1].length += more;
	if (more)
		segments[shape->count - 1].key = side->mr.key;
	segments_put(&side->qp.rq, segments, shape->count);
	return rq_put(&side->qp, &entry);
}

TEST_F_TIMEOUT(lists, write__gathers_exactly_these_bytes, slowly(60))
{
	struct superp_cqe completion;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		uint32_t length = shape_length(&shapes[i]);
		struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr,
						 8000, length);

		pattern_fill(self->block, length, i);
		memset(self->a.memory, 0xee, AREA);
		shape_scatter(&shapes[i], self->a.memory, self->block);
		memset(self->b.memory, 0xa5, AREA);
		ASSERT_EQ(0, shape_run(&self->a, &entry, &shapes[i], &completion)) {
			TH_LOG("%s: major %u minor %u", shapes[i].name, completion.major,
			       completion.minor);
		}
		EXPECT_EQ(length, completion.length);
		EXPECT_EQ(-1, pattern_check(self->b.memory + 8000, length, i)) {
			TH_LOG("%s", shapes[i].name);
		}
		EXPECT_EQ(0xa5, self->b.memory[7999]);
		EXPECT_EQ(0xa5, self->b.memory[8000 + length]);
	}
}

TEST_F_TIMEOUT(lists, read__scatters_and_leaves_the_gaps, slowly(60))
{
	struct superp_cqe completion;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		uint32_t length = shape_length(&shapes[i]);
		struct superp_sqe entry = sqe_of(SUPERP_OP_READ, &self->a.mr, 0, &self->b.mr,
						 123, length);

		pattern_fill(self->b.memory + 123, length, i);
		memset(self->a.memory, 0x5a, AREA);
		ASSERT_EQ(0, shape_run(&self->a, &entry, &shapes[i], &completion)) {
			TH_LOG("%s: major %u minor %u", shapes[i].name, completion.major,
			       completion.minor);
		}
		shape_gather(&shapes[i], self->a.memory, self->block);
		EXPECT_EQ(-1, pattern_check(self->block, length, i)) {
			TH_LOG("%s", shapes[i].name);
		}
		EXPECT_EQ(true, shape_gaps_are(&shapes[i], self->a.memory, 0x5a));
	}
}

TEST_F_TIMEOUT(lists, messages__from_pieces_into_pieces, slowly(60))
{
	struct superp_cqe completion;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		/* Every shape as the buffer of another, as far as it is long enough. */
		for (j = 0; j < ARRAY_SIZE(shapes); j++) {
			uint32_t length = shape_length(&shapes[i]);
			uint32_t room = shape_length(&shapes[j]);
			uint32_t more = length > room ? length - room : 0;
			struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0,
							 length);
			struct superp_cqe *sent = &completion;

			memset(self->b.memory, 0x33, AREA);
			pattern_fill(self->block, length, i + j);
			shape_scatter(&shapes[i], self->a.memory, self->block);
			ASSERT_EQ(true, shape_receive(&self->b, &shapes[j], more));
			ASSERT_EQ(0, shape_run(&self->a, &entry, &shapes[i], sent)) {
				TH_LOG("%s into %s: major %u minor %u", shapes[i].name,
				       shapes[j].name, sent->major, sent->minor);
			}
			ASSERT_EQ(true, cq_wait(&self->b.cq, &completion, WAIT_MS));
			ASSERT_EQ(0, completion.major);
			EXPECT_EQ(77, completion.token);
			EXPECT_EQ(length, completion.length);
			if (more)
				continue;
			shape_gather(&shapes[j], self->b.memory, self->block);
			EXPECT_EQ(-1, pattern_check(self->block, length, i + j)) {
				TH_LOG("%s into %s", shapes[i].name, shapes[j].name);
			}
			EXPECT_EQ(true, shape_gaps_are(&shapes[j], self->b.memory, 0x33));
		}
	}
}

TEST_F(lists, malformed__each_by_its_name)
{
	const struct superp_sqe good = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);
	const struct superp_segment halves[] = {
		{ .addr = self->a.mr.addr, .length = 32, .key = self->a.mr.key },
		{ .addr = self->a.mr.addr + 1000, .length = 32, .key = self->a.mr.key },
	};
	struct {
		struct superp_sqe entry;
		struct superp_segment segments[2];
		int major, minor;
	} cases[] = {
		[0] = { .major = 0 },
		[1] = { .major = SUPERP_ERR_MALFORMED },
		[2] = { .major = SUPERP_ERR_MALFORMED },
		[3] = { .major = SUPERP_ERR_MALFORMED },
		[4] = { .major = SUPERP_ERR_MALFORMED },
		[5] = { .major = SUPERP_ERR_MALFORMED },
		[6] = { .major = SUPERP_ERR_MALFORMED },
		[7] = { .major = SUPERP_ERR_MALFORMED, .minor = 1 },
		[8] = { .major = SUPERP_ERR_MALFORMED, .minor = 1 },
		[9] = { .major = SUPERP_ERR_MALFORMED, .minor = 1 },
		[10] = { .major = SUPERP_ERR_ACCESS, .minor = 1 },
		[11] = { .major = SUPERP_ERR_ACCESS, .minor = 2 },
		[12] = { .major = SUPERP_ERR_ACCESS, .minor = 3 },
	};
	struct superp_cqe completion;
	unsigned int i;
	struct qp qp;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		cases[i].entry = good;
		entry_list(&cases[i].entry, 2);
		memcpy(cases[i].segments, halves, sizeof(halves));
	}
	cases[1].entry.local_key = 0;
	cases[2].entry.local_key = 3;
	cases[3].entry.local_key = UINT32_MAX;
	cases[4].entry.local_addr = self->a.mr.addr;
	cases[5].entry.flags |= SUPERP_SQE_INLINE;
	cases[5].entry.length = 16;
	cases[6].entry.opcode = SUPERP_OP_FETCH_ADD;
	cases[6].entry.length = 8;
	cases[6].segments[0].length = 8;
	cases[6].segments[1].length = 0;
	cases[7].entry.length = 63;
	cases[8].entry.length = 65;
	/* 32 bits are not enough for the sum. */
	cases[9].segments[1].length = UINT32_MAX;
	cases[10].segments[1].key ^= 1;
	cases[11].segments[1].addr = self->a.mr.addr + AREA - 31;
	cases[12].entry.opcode = SUPERP_OP_READ;
	cases[12].segments[1].addr = self->a.constant_mr.addr;
	cases[12].segments[1].key = self->a.constant_mr.key;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(0, qp_create_lists(&self->a.context, &qp, &self->a.cq, 1, NULL, 0, 2));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
		segments_put(&qp.sq, cases[i].segments, 2);
		ASSERT_EQ(0, post(&self->a.context, &qp, &cases[i].entry));
		ASSERT_EQ(true, cq_wait(&self->a.cq, &completion, WAIT_MS));
		EXPECT_EQ(cases[i].major, completion.major) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(cases[i].minor, completion.minor) {
			TH_LOG("case %u", i);
		}
		munmap(qp.map, qp.size);
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
	}
	/* A queue pair that was made without. */
	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, variant->options.encap, 0));
	ASSERT_EQ(0, post(&self->a.context, &qp, &cases[0].entry));
	ASSERT_EQ(true, cq_wait(&self->a.cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_MALFORMED, completion.major);
}

TEST_F(lists, malformed_buffers__fail_at_both_ends)
{
	const struct superp_segment halves[] = {
		{ .addr = self->b.mr.addr, .length = 32, .key = self->b.mr.key },
		{ .addr = self->b.mr.addr + 1000, .length = 32, .key = self->b.mr.key },
	};
	struct {
		struct superp_rqe entry;
		struct superp_segment segments[2];
		int major, minor;
	} cases[] = {
		[0] = { .major = 0 },
		[1] = { .major = SUPERP_ERR_MALFORMED },
		[2] = { .major = SUPERP_ERR_MALFORMED },
		[3] = { .major = SUPERP_ERR_MALFORMED },
		/* Found out when the bytes are there. */
		[4] = { .major = SUPERP_ERR_MALFORMED, .minor = 1 },
		[5] = { .major = SUPERP_ERR_MALFORMED },
		[6] = { .major = SUPERP_ERR_ACCESS, .minor = 1 },
		[7] = { .major = SUPERP_ERR_ACCESS, .minor = 2 },
		[8] = { .major = SUPERP_ERR_ACCESS, .minor = 3 },
		/* What the message does not need is not looked at. */
		[9] = { .major = 0 },
	};
	int encap = variant->options.encap;
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &self->a.mr, 0, NULL, 0, 64);
	struct superp_cqe completion;
	struct qp from, to = { };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		cases[i].entry = (struct superp_rqe) { .length = 64, .segments = 2, .token = i };
		memcpy(cases[i].segments, halves, sizeof(halves));
	}
	cases[1].entry.addr = self->b.mr.addr;
	cases[2].entry.key = self->b.mr.key;
	cases[3].entry.rsvd = 1;
	cases[4].segments[1].length = 31;
	cases[5].segments[1].length = 31;
	cases[5].entry.segments = 3;
	cases[6].segments[1].key ^= 1;
	cases[7].segments[1].addr = self->b.mr.addr + AREA - 31;
	cases[8].segments[1].addr = self->b.constant_mr.addr;
	cases[8].segments[1].key = self->b.constant_mr.key;
	cases[9].segments[0].length = 64;
	cases[9].segments[1].key ^= 1;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(0, qp_create(&self->a.context, &from, &self->a.cq, 1, NULL, 0));
		ASSERT_EQ(0, qp_create_lists(&self->b.context, &to, &self->b.cq, 1, &self->b.cq, 1,
					     2));
		ASSERT_EQ(0, qp_connect(&self->a.context, &from, &node_b, encap, to.qpn));
		ASSERT_EQ(0, qp_connect(&self->b.context, &to, &node_a, encap, 0));
		segments_put(&to.rq, cases[i].segments, 2);
		ASSERT_EQ(true, rq_put(&to, &cases[i].entry));
		ASSERT_EQ(0, post(&self->a.context, &from, &entry));
		ASSERT_EQ(true, cq_wait(&self->b.cq, &completion, WAIT_MS));
		EXPECT_EQ(i, completion.token);
		EXPECT_EQ(cases[i].major, completion.major) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(cases[i].minor, completion.minor) {
			TH_LOG("case %u", i);
		}
		ASSERT_EQ(true, cq_wait(&self->a.cq, &completion, WAIT_MS));
		EXPECT_EQ(cases[i].major ? SUPERP_ERR_NO_QP : 0, completion.major) {
			TH_LOG("case %u, sender", i);
		}
		munmap(from.map, from.size);
		munmap(to.map, to.size);
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, from.id));
		ASSERT_EQ(0, ring_destroy(&self->b.context, SUPERP_IOC_RQP_DESTROY, to.id));
	}
}

TEST_F(lists, region_that_is_released__stays_until_the_request_ends)
{
	struct superp_segment segments[2] = { };
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 1 << 20);
	struct superp_mr_dereg dereg = { };
	struct superp_cqe completion;
	struct superp_mr_reg mr;
	uint8_t *memory;

	memory = mr_memory(self->a.context.fd, 1 << 19, ALL, &mr);
	ASSERT_NE(NULL, memory);
	pattern_fill(self->a.memory, 1 << 19, 1);
	pattern_fill(memory, 1 << 19, 2);
	segments[0] = (struct superp_segment) { self->a.mr.addr, 1 << 19, self->a.mr.key };
	segments[1] = (struct superp_segment) { mr.addr, 1 << 19, mr.key };
	entry_list(&entry, 2);
	segments_put(&self->a.qp.sq, segments, 2);
	ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
	dereg.key = mr.key;
	ASSERT_EQ(0, ioctl(self->a.context.fd, SUPERP_IOC_MR_DEREG, &dereg));
	munmap(memory, 1 << 19);
	ASSERT_EQ(true, cq_wait(&self->a.cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
	EXPECT_EQ(-1, pattern_check(self->b.memory, 1 << 19, 1));
	EXPECT_EQ(-1, pattern_check(self->b.memory + (1 << 19), 1 << 19, 2));
}

TEST(more_segments_than_an_entry_may_have__are_refused)
{
	struct superp_rqp_create create = { .sq_entries = 1, .rq_entries = 1 };
	struct context context;
	struct cq cq;

	ASSERT_EQ(0, context_open(&context, &node_a));
	ASSERT_EQ(0, cq_create(&context, &cq, 1));
	create.sq_segments = SUPERP_MAX_SEGMENTS + 1;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.sq_segments = 0;
	create.rq_segments = UINT32_MAX;
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &create));
	EXPECT_EQ(EINVAL, errno);
	create.rq_segments = 1;
	EXPECT_EQ(0, ioctl(context.fd, SUPERP_IOC_RQP_CREATE, &create));
	EXPECT_EQ(0, create.sq.segments);
	EXPECT_NE(0, create.rq.segments);
	context_close(&context);
}

SUPERP_TEST_MAIN
