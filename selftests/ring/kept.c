// SPDX-License-Identifier: GPL-2.0
/*
 * A message that a receiver keeps is its own: its sender, once it has the completion, writes
 * something else into the buffer, and the receiver still gets what was sent.
 */
#include "superp_ring.h"

#define AREA (4 << 20)
#define ENTRIES 16
#define WAIT_MS 20000

static const uint32_t sizes[] = { 193, 1000, 4097, 8192, 9001, 40000, 65536, 300001, 1 << 20 };

FIXTURE(kept)
{
	int cid;
	struct ring_side a;
	uint8_t *bytes;
};

FIXTURE_VARIANT(kept)
{
	struct conn_options options;
	bool single;		/* each packet by itself in an sk_buff */
};

FIXTURE_VARIANT_ADD(kept, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(kept, sunh_single)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
	.single = true,
};

FIXTURE_VARIANT_ADD(kept, sunh_strict)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .strict = true },
};

FIXTURE_VARIANT_ADD(kept, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(kept, udp6_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP6, .unordered = true },
};

static int single_packets(bool single)
{
	return run("ip -n %s link set eth0 gso_max_segs %d", node_a.name, single ? 1 : 65535);
}

FIXTURE_SETUP(kept)
{
	self->cid = conn_id();
	self->bytes = malloc(AREA);
	ASSERT_NE(NULL, self->bytes);
	ASSERT_EQ(0, single_packets(variant->single));
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
}

FIXTURE_TEARDOWN(kept)
{
	context_close(&self->a.context);
	conn_down(self->cid);
	single_packets(false);
	free(self->bytes);
}

/* Sends @len bytes of a pattern, and overwrites them when they are sent; the completion's major. */
static int send_and_reuse(struct ring_side *side, uint32_t len, unsigned int seed)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &side->mr, 100, NULL, 0, len);
	struct superp_cqe completion;

	pattern_fill(side->memory + 100, len, seed);
	if (post(&side->context, &side->qp, &entry) ||
	    !cq_wait(&side->send_cq, &completion, WAIT_MS))
		return -1;
	memset(side->memory, 0xee, AREA);
	return completion.major;
}

TEST_F_TIMEOUT(kept, socket__has_what_was_sent_before_the_buffer_was_reused, slowly(60))
{
	int b = superp_open(&node_b, QPN_B, &node_a, variant->options.encap, self->a.qp.qpn);
	unsigned int i;

	ASSERT_LE(0, b);
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, variant->options.encap,
				QPN_B));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		/* Without extensions a message is one transaction. */
		if (variant->options.strict && sizes[i] > 65536)
			break;
		ASSERT_EQ(0, send_and_reuse(&self->a, sizes[i], i)) {
			TH_LOG("%u bytes", sizes[i]);
		}
		ASSERT_EQ(POLLIN, superp_poll(b, POLLIN, WAIT_MS));
		ASSERT_EQ(sizes[i], recv(b, self->bytes, AREA, MSG_PEEK));
		EXPECT_EQ(-1, pattern_check(self->bytes, sizes[i], i)) {
			TH_LOG("%u bytes", sizes[i]);
		}
		ASSERT_EQ(sizes[i], recv(b, self->bytes, AREA, 0));
		EXPECT_EQ(-1, pattern_check(self->bytes, sizes[i], i)) {
			TH_LOG("%u bytes", sizes[i]);
		}
	}
	close(b);
}

/* Of a shared queue no entry is taken before the message is whole. */
TEST_F_TIMEOUT(kept, shared_queue__has_it_too, slowly(60))
{
	struct superp_rqe entry = { .length = AREA };
	struct superp_cqe completion;
	struct context context;
	struct superp_mr_reg mr;
	uint8_t *memory;
	struct srq srq;
	struct qp qp;
	struct cq cq;
	unsigned int i;

	ASSERT_EQ(0, context_open(&context, &node_b));
	ASSERT_EQ(0, cq_create(&context, &cq, ENTRIES));
	ASSERT_EQ(0, srq_create(&context, &srq, ENTRIES, 0));
	ASSERT_EQ(0, qp_create_shared(&context, &qp, &cq, ENTRIES, &cq, &srq));
	memory = mr_memory(context.fd, AREA, SUPERP_ACCESS_LOCAL_WRITE, &mr);
	ASSERT_NE(NULL, memory);
	ASSERT_EQ(0, qp_connect(&context, &qp, &node_a, variant->options.encap, self->a.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, variant->options.encap,
				qp.qpn));
	entry.addr = mr.addr;
	entry.key = mr.key;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (variant->options.strict && sizes[i] > 65536)
			break;
		ASSERT_EQ(true, srq_put(&srq, &entry));
		ASSERT_EQ(0, send_and_reuse(&self->a, sizes[i], i));
		ASSERT_EQ(true, cq_wait(&cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(sizes[i], completion.length);
		EXPECT_EQ(-1, pattern_check(memory, sizes[i], i)) {
			TH_LOG("%u bytes", sizes[i]);
		}
	}
	context_close(&context);
}

SUPERP_TEST_MAIN
