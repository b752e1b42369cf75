// SPDX-License-Identifier: GPL-2.0
/* Requests that wait for the window share packets, and each has its own outcome. */
#include "superp_conn.h"

#define AREA (1u << 20)
#define WAIT_MS 20000
/* Requests of a test; each has a place of its own, wider than the largest. */
#define REQUESTS 500
#define PLACE 512
/* pdl_window_size, and the default of tal_max_ops_per_pkt. */
#define WINDOW 32
#define PER_PACKET 8

FIXTURE(pack)
{
	int cid;
	int a, b;
	uint8_t *local, *remote;		/* AREA bytes each */
	struct superp_mr_reg local_mr, remote_mr;
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
	struct superp_completion completion;
	struct superp_rma none = {
		.op = SUPERP_RMA_WRITE,
	};

	/* A link that is cut for a while, in a slow home, is not dead. */
	ASSERT_EQ(0, node_param(&node_a, "pdl_dead_time", "60000000000"));
	ASSERT_EQ(0, node_param(&node_b, "pdl_dead_time", "60000000000"));
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->local = mr_memory(self->a, AREA, SUPERP_ACCESS_MASK, &self->local_mr);
	self->remote = mr_memory(self->b, AREA, SUPERP_ACCESS_MASK, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
	/* A peer that was never heard is not taken for dead, however long it is silent. */
	ASSERT_EQ(0, rma_run(self->a, &none, &completion));
}

FIXTURE_TEARDOWN(pack)
{
	link_clean();
	node_param(&node_a, "pdl_dead_time", "2000000000");
	node_param(&node_b, "pdl_dead_time", "2000000000");
	node_param(&node_a, "tal_max_ops_per_pkt", "8");
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

static uint64_t transactions(int cid)
{
	return conn_counter(cid, SUPERP_A_CONN_STATS_TRANSACTIONS);
}

/* Requests of @len bytes each, all of them under way at once; @bad says which are refused. */
static int post_all(int fd, int op, const struct superp_mr_reg *local,
		    const struct superp_mr_reg *remote, uint32_t len, bool (*bad)(unsigned int))
{
	unsigned int i;

	for (i = 0; i < REQUESTS; i++) {
		struct superp_rma rma = rma_of(op, local, i * PLACE, remote, i * PLACE, len);

		rma.token = i;
		if (bad && bad(i))
			rma.remote_addr = remote->rma_addr + AREA - len + 1;
		if (rma_post(fd, &rma)) {
			perror("post");
			return -1;
		}
	}
	return 0;
}

/* Fetches all completions: each once, and with its own outcome. */
static int complete_all(int fd, bool (*bad)(unsigned int))
{
	static uint8_t seen[REQUESTS];
	struct superp_completion completion;
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < REQUESTS; i++) {
		int wanted;

		if (completion_wait(fd, &completion, WAIT_MS) || completion.token >= REQUESTS ||
		    seen[completion.token]++) {
			fprintf(stderr, "completion %u\n", i);
			return -1;
		}
		wanted = bad && bad(completion.token) ? EACCES : 0;
		if ((int)completion.error != wanted) {
			fprintf(stderr, "request %u: error %u instead of %d\n",
				(unsigned int)completion.token, completion.error, wanted);
			return -1;
		}
	}
	return superp_poll(fd, 0, 20) & POLLERR ? -1 : 0;
}

/* The first request that has not left its bytes, and only these, or -1. */
static int check_all(const uint8_t *at, uint32_t len, unsigned int seed, uint8_t before,
		     bool (*bad)(unsigned int))
{
	unsigned int i, j;

	for (i = 0; i < REQUESTS; i++) {
		const uint8_t *place = at + i * PLACE;
		bool done = !bad || !bad(i);

		if (done && pattern_check(place, len, seed + i) >= 0)
			return i;
		for (j = done ? len : 0; j < PLACE; j++)
			if (place[j] != before)
				return i;
	}
	return -1;
}

static void fill_all(uint8_t *at, uint32_t len, unsigned int seed)
{
	unsigned int i;

	for (i = 0; i < REQUESTS; i++)
		pattern_fill(at + i * PLACE, len, seed + i);
}

/* Transactions of REQUESTS requests, where those that do not fit into the window are packed. */
#define PACKED(each) (WINDOW + 1 + ((each) - 1 + REQUESTS - WINDOW) / (each))

TEST_F_TIMEOUT(pack, writes_that_wait__share_packets, slowly(60))
{
	static const uint32_t sizes[] = { 1, 15, 16, 64, 192, 193, 500 };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t before = transactions(self->cid);
		uint64_t ops = conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_OPS);
		uint32_t size = sizes[i];

		if (variant->options.strict && size < 16)
			continue;
		fill_all(self->local, size, i);
		memset(self->remote, 0xa5, AREA);
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr,
				      &self->remote_mr, size, NULL));
		/* The first one waited for no other. */
		ASSERT_LE(1, transactions(self->cid) - before);
		ASSERT_GE(WINDOW + 1, transactions(self->cid) - before);
		for (j = 0; j < 1000 && pattern_check(self->remote, size, i) >= 0; j++)
			usleep(10000);
		ASSERT_GT(1000, j);
		ASSERT_EQ(0, answers_lost(false));
		ASSERT_EQ(0, complete_all(self->a, NULL));
		ASSERT_EQ(-1, check_all(self->remote, size, i, 0xa5, NULL));
		before = transactions(self->cid) - before;
		ops = conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_OPS) - ops;
		EXPECT_EQ(REQUESTS, ops);
		if (size <= 192) {
			EXPECT_GE(PACKED(PER_PACKET), before);
			EXPECT_LE(REQUESTS / PER_PACKET, before);
		} else {
			EXPECT_EQ(REQUESTS, before);
		}
		TH_LOG("%u writes of %u bytes in %u packets", REQUESTS, size,
		       (unsigned int)before);
	}
}

TEST_F_TIMEOUT(pack, reads_that_wait__share_packets, slowly(60))
{
	static const uint32_t sizes[] = { 1, 16, 64, 192, 193, 500 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t before = transactions(self->cid);
		uint32_t size = sizes[i];

		fill_all(self->remote, size, i);
		memset(self->local, 0xa5, AREA);
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_READ, &self->local_mr,
				      &self->remote_mr, size, NULL));
		ASSERT_EQ(0, answers_lost(false));
		ASSERT_EQ(0, complete_all(self->a, NULL));
		ASSERT_EQ(-1, check_all(self->local, size, i, 0xa5, NULL));
		before = transactions(self->cid) - before;
		EXPECT_GE(PACKED(PER_PACKET), before);
	}
}

TEST_F_TIMEOUT(pack, one_operation_per_packet__nothing_is_shared, slowly(60))
{
	uint64_t before;

	conn_down(self->cid);
	close(self->a);
	close(self->b);
	self->cid += 2;
	ASSERT_EQ(0, node_param(&node_a, "tal_max_ops_per_pkt", "1"));
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	ASSERT_EQ(0, mr_reg(self->a, self->local, AREA, SUPERP_ACCESS_MASK, &self->local_mr));
	ASSERT_EQ(0, mr_reg(self->b, self->remote, AREA, SUPERP_ACCESS_MASK, &self->remote_mr));
	before = transactions(self->cid);
	ASSERT_EQ(0, answers_lost(true));
	ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr, &self->remote_mr, 64,
			      NULL));
	ASSERT_EQ(0, answers_lost(false));
	ASSERT_EQ(0, complete_all(self->a, NULL));
	EXPECT_EQ(REQUESTS, transactions(self->cid) - before);
}

/* Alone, at the ends of a packet, and a whole packet of them. */
static bool some(unsigned int i)
{
	return i % 37 == 5 || i == 0 || i == REQUESTS - 1 || (i >= 200 && i < 220);
}

static bool all(unsigned int i)
{
	return true;
}

TEST_F_TIMEOUT(pack, some_are_refused__the_others_are_done_once, slowly(60))
{
	static bool (*const which[])(unsigned int) = { some, all, some };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(which); i++) {
		uint64_t bytes = mr_written(self->b, self->remote_mr.key);

		fill_all(self->local, 64, i);
		memset(self->remote, 0xa5, AREA);
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr,
				      &self->remote_mr, 64, which[i]));
		ASSERT_EQ(0, answers_lost(false));
		ASSERT_EQ(0, complete_all(self->a, which[i]));
		ASSERT_EQ(-1, check_all(self->remote, 64, i, 0xa5, which[i]));
		bytes = mr_written(self->b, self->remote_mr.key) - bytes;
		for (j = 0; j < REQUESTS; j++)
			bytes -= which[i](j) ? 0 : 64;
		/* None twice, as a count of bytes tells. */
		EXPECT_EQ(0, bytes);

		fill_all(self->remote, 64, i);
		memset(self->local, 0xa5, AREA);
		ASSERT_EQ(0, answers_lost(true));
		ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_READ, &self->local_mr,
				      &self->remote_mr, 64, which[i]));
		ASSERT_EQ(0, answers_lost(false));
		ASSERT_EQ(0, complete_all(self->a, which[i]));
		ASSERT_EQ(-1, check_all(self->local, 64, i, 0xa5, which[i]));
	}
	EXPECT_EQ(0, superp_error(self->a));
}

/* Also of what was in a packet with one that is refused, and went again. */
TEST_F_TIMEOUT(pack, message__comes_when_the_writes_before_it_are_there, slowly(60))
{
	char message[64] = "after them";

	fill_all(self->local, 64, 3);
	memset(self->remote, 0xa5, AREA);
	ASSERT_EQ(0, answers_lost(true));
	ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr, &self->remote_mr, 64,
			      some));
	ASSERT_EQ(sizeof(message), send(self->a, message, sizeof(message), 0));
	/* By when a refusal comes, all else could be under way. */
	ASSERT_EQ(0, link_netem("delay 2ms"));
	ASSERT_EQ(POLLIN, superp_poll(self->b, POLLIN, WAIT_MS));
	/* On an unordered connection it says nothing of them. */
	if (!variant->options.unordered)
		EXPECT_EQ(-1, check_all(self->remote, 64, 3, 0xa5, some));
	EXPECT_EQ(sizeof(message), recv(self->b, message, sizeof(message), 0));
	ASSERT_EQ(0, complete_all(self->a, some));
	ASSERT_EQ(-1, check_all(self->remote, 64, 3, 0xa5, some));
}

TEST_F_TIMEOUT(pack, requests_of_several_sockets__share_packets, slowly(60))
{
	enum { SOCKETS = 4 };
	uint64_t before = transactions(self->cid);
	struct superp_completion completion;
	struct superp_mr_reg mr[SOCKETS];
	int fd[SOCKETS], completed[SOCKETS] = {};
	unsigned int i;

	for (i = 0; i < SOCKETS; i++) {
		fd[i] = superp_open(&node_a, 0, &node_b, variant->options.encap, i & 2);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, mr_reg(fd[i], self->local, AREA, SUPERP_ACCESS_MASK, &mr[i]));
	}
	fill_all(self->local, 64, 9);
	memset(self->remote, 0xa5, AREA);
	ASSERT_EQ(0, answers_lost(true));
	for (i = 0; i < REQUESTS; i++) {
		struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &mr[i % SOCKETS], i * PLACE,
					       &self->remote_mr, i * PLACE, 64);

		rma.token = i;
		ASSERT_EQ(0, rma_post(fd[i % SOCKETS], &rma));
	}
	ASSERT_EQ(0, answers_lost(false));
	for (i = 0; i < REQUESTS; i++) {
		ASSERT_EQ(0, completion_wait(fd[i % SOCKETS], &completion, WAIT_MS));
		EXPECT_EQ(0, completion.error);
		EXPECT_EQ(i % SOCKETS, completion.token % SOCKETS);
		completed[completion.token % SOCKETS]++;
	}
	for (i = 0; i < SOCKETS; i++) {
		EXPECT_EQ(REQUESTS / SOCKETS, completed[i]);
		EXPECT_EQ(0, superp_poll(fd[i], 0, 0) & POLLERR);
		close(fd[i]);
	}
	ASSERT_EQ(-1, check_all(self->remote, 64, 9, 0xa5, NULL));
	EXPECT_GE(PACKED(PER_PACKET) + SOCKETS, transactions(self->cid) - before);
}

TEST_F_TIMEOUT(pack, different_kinds_and_fences__do_not_share, slowly(60))
{
	uint64_t before = transactions(self->cid);
	unsigned int i;

	ASSERT_EQ(0, answers_lost(true));
	fill_all(self->local, 100, 1);
	memset(self->remote, 0, AREA);
	for (i = 0; i < REQUESTS; i++) {
		/* No two in a row alike, but the last ones, of which each has a fence. */
		bool fenced = i >= REQUESTS / 2, read = !fenced && i % 3 == 0;
		struct superp_rma rma = rma_of(read ? SUPERP_RMA_READ : SUPERP_RMA_WRITE,
					       &self->local_mr,
					       i * PLACE + (read ? PLACE / 2 : 0),
					       &self->remote_mr, fenced ? 0 : i * PLACE,
					       fenced ? 64 : 64 + i % 3);

		rma.token = i;
		rma.flags = fenced ? SUPERP_RMA_F_FENCE : 0;
		ASSERT_EQ(0, rma_post(self->a, &rma));
	}
	ASSERT_EQ(0, answers_lost(false));
	ASSERT_EQ(0, complete_all(self->a, NULL));
	EXPECT_EQ(REQUESTS, transactions(self->cid) - before);
	EXPECT_EQ(-1, pattern_check(self->remote, 64, REQUESTS));
}

TEST_F_TIMEOUT(pack, bad_link__each_completes_once, slowly(100))
{
	unsigned int i;

	ASSERT_EQ(0, link_netem("delay 500us 500us loss 3% duplicate 5%"));
	for (i = 0; i < 10; i++) {
		fill_all(self->local, 64, i);
		memset(self->remote, 0xa5, AREA);
		ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr,
				      &self->remote_mr, 64, i & 1 ? some : NULL));
		ASSERT_EQ(0, complete_all(self->a, i & 1 ? some : NULL));
		ASSERT_EQ(-1, check_all(self->remote, 64, i, 0xa5, i & 1 ? some : NULL));
	}
}

TEST_F_TIMEOUT(pack, connection_ends__all_that_share_fail, slowly(60))
{
	struct superp_completion completion;
	unsigned int i, sent;

	ASSERT_EQ(0, answers_lost(true));
	ASSERT_EQ(0, post_all(self->a, SUPERP_RMA_WRITE, &self->local_mr, &self->remote_mr, 64,
			      NULL));
	/* Packed ones go out, and then their answers are lost. */
	sent = transactions(self->cid);
	ASSERT_EQ(0, answers_lost(false));
	for (i = 0; i < 1000 && transactions(self->cid) == sent; i++)
		usleep(1000);
	ASSERT_EQ(0, answers_lost(true));
	conn_down(self->cid);
	for (i = 0; i < REQUESTS; i++) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		EXPECT_TRUE(completion.error == 0 || completion.error == ECONNRESET);
	}
	EXPECT_EQ(-1, completion_take(self->a, &completion));
	EXPECT_EQ(EAGAIN, errno);
}

SUPERP_TEST_MAIN
