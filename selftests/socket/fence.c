// SPDX-License-Identifier: GPL-2.0
/* Fences: a request that starts when all before it are complete. */
#include "superp_test.h"

#define AREA (4u << 20)
#define WAIT_MS 20000

FIXTURE(fence)
{
	int cid;
	int a, b;
	uint8_t *local, *remote;		/* AREA bytes each */
	struct superp_mr_reg local_mr, remote_mr;
};

FIXTURE_VARIANT(fence)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(fence, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(fence, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_VARIANT_ADD(fence, udp6_unordered)
{
	.options = { .encap = SUPERP_ENCAP_UDP6, .unordered = true },
};

FIXTURE_SETUP(fence)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->local = mr_memory(self->a, AREA, SUPERP_ACCESS_MASK, &self->local_mr);
	self->remote = mr_memory(self->b, AREA, SUPERP_ACCESS_MASK, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
}

FIXTURE_TEARDOWN(fence)
{
	link_clean();
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

#define BAD_LINK "delay 1ms 1ms loss 5% duplicate 10%"

/* Fetches @count completions, all of them of success. */
static int all_complete(int fd, unsigned int count)
{
	struct superp_completion completion;

	while (count--) {
		if (completion_wait(fd, &completion, WAIT_MS) || completion.error) {
			fprintf(stderr, "request %u: error %u, %u are left\n",
				(unsigned int)completion.token, completion.error, count);
			return -1;
		}
	}
	return 0;
}

/*
 * Rounds of data and a flag behind it, all of them under way at once. The data
 * of a round lies in places of its own, the flag in one for all.
 */
#define ROUNDS 150
#define PLACE 24000
#define FLAG (AREA - 4096)

TEST_F_TIMEOUT(fence, flag__is_seen_after_the_data, slowly(60))
{
	const volatile uint64_t *flag = (void *)(self->remote + FLAG);
	uint64_t *flags = (void *)(self->local + FLAG);
	unsigned int i, seen = 0;

	ASSERT_EQ(0, link_netem(BAD_LINK));
	for (i = 0; i < ROUNDS; i++) {
		struct superp_rma data = rma_of(SUPERP_RMA_WRITE, &self->local_mr, i * PLACE,
						&self->remote_mr, i * PLACE, PLACE);
		struct superp_rma tell = rma_of(SUPERP_RMA_WRITE, &self->local_mr,
						FLAG + i * sizeof(*flags), &self->remote_mr,
						FLAG, sizeof(*flags));

		pattern_fill(self->local + i * PLACE, PLACE, i);
		flags[i] = i + 1;
		tell.flags = SUPERP_RMA_F_FENCE;
		ASSERT_EQ(0, rma_post(self->a, &data));
		ASSERT_EQ(0, rma_post(self->a, &tell));
	}
	while (seen < ROUNDS) {
		uint64_t now = *flag;

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* It only grows: one flag is behind the other. */
		ASSERT_LE(seen, now);
		for (; seen < now; seen++) {
			ASSERT_EQ(-1, pattern_check(self->remote + seen * PLACE, PLACE, seen)) {
				TH_LOG("flag %u came before its data",
				       (unsigned int)now);
			}
		}
		if (superp_poll(self->a, 0, 0) & POLLERR) {
			struct superp_completion completion;

			ASSERT_EQ(0, completion_take(self->a, &completion));
			ASSERT_EQ(0, completion.error);
		}
		usleep(100);
	}
}

TEST_F_TIMEOUT(fence, read_and_atomic__see_the_writes_before, slowly(60))
{
	const unsigned int rounds = 40, size = 40000;
	unsigned int i;

	ASSERT_EQ(0, link_netem(BAD_LINK));
	for (i = 1; i <= rounds; i++) {
		struct superp_rma write = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0,
						 &self->remote_mr, 0, size);
		struct superp_rma read = rma_of(SUPERP_RMA_READ, &self->local_mr, AREA / 2,
						&self->remote_mr, 0, size);
		struct superp_atomic add = {
			.rma = rma_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, AREA - 8,
				      &self->remote_mr, size - 8, 8),
			.operand = 1,
		};
		uint64_t written, old;

		pattern_fill(self->local, size, i);
		memset(self->local + AREA / 2, 0, size);
		read.flags = SUPERP_RMA_F_FENCE;
		add.rma.flags = SUPERP_RMA_F_FENCE;
		ASSERT_EQ(0, rma_post(self->a, &write));
		ASSERT_EQ(0, rma_post(self->a, &read));
		ASSERT_EQ(0, atomic_post(self->a, &add));
		ASSERT_EQ(0, all_complete(self->a, 3));
		ASSERT_EQ(-1, pattern_check(self->local + AREA / 2, size, i));
		memcpy(&written, self->local + size - 8, sizeof(written));
		memcpy(&old, self->local + AREA - 8, sizeof(old));
		ASSERT_EQ(written, old);
		memcpy(&old, self->remote + size - 8, sizeof(old));
		ASSERT_EQ(written + 1, old);
	}
}

TEST_F(fence, request_before_fails__the_fence_opens_all_the_same)
{
	struct superp_rma bad = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr,
				       AREA, 64);
	struct superp_rma good = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr,
					0, 100);
	/* One without bytes has a fence too: it is complete after all before. */
	struct superp_rma none = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr,
					0, 0);
	struct superp_completion completion;

	good.flags = SUPERP_RMA_F_FENCE;
	none.flags = SUPERP_RMA_F_FENCE;
	pattern_fill(self->local, 100, 3);
	ASSERT_EQ(0, rma_post(self->a, &bad));
	ASSERT_EQ(0, rma_post(self->a, &good));
	ASSERT_EQ(0, rma_post(self->a, &none));
	/* One after the other, so the completions are too. */
	EXPECT_EQ(EACCES, rma_wait(self->a, &bad, &completion));
	EXPECT_EQ(0, rma_wait(self->a, &good, &completion));
	EXPECT_EQ(0, rma_wait(self->a, &none, &completion));
	EXPECT_EQ(-1, pattern_check(self->remote, 100, 3));
}

/* Fills B's receive buffer; some messages wait, but all of them fit into a window with more. */
static int fill_buffer(int a, int b)
{
	char bytes[4096] = {};
	int i;

	if (superp_set(b, SO_RCVBUF, 4096) || superp_set(a, SO_SNDBUFFORCE, 4 << 20))
		return -1;
	for (i = 0; i < 8; i++)
		if (send(a, bytes, sizeof(bytes), 0) != sizeof(bytes))
			return -1;
	return i;
}

TEST_F_TIMEOUT(fence, message_before_waits__only_its_own_queue_pair_is_held_up, slowly(60))
{
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr,
				       0, 100);
	struct superp_completion completion;
	struct superp_mr_reg reg;
	int i, fd, messages;
	uint32_t qpn;

	messages = fill_buffer(self->a, self->b);
	ASSERT_LT(0, messages);
	pattern_fill(self->local, 200, 1);
	rma.flags = SUPERP_RMA_F_FENCE;
	ASSERT_EQ(0, rma_post(self->a, &rma));
	/* Sockets to no queue pair, and to another one, over the same connection. */
	for (qpn = 0; qpn < 6; qpn++) {
		struct superp_rma other;

		fd = superp_open(&node_a, 0, &node_b, variant->options.encap, qpn / 2);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, mr_reg(fd, self->local, 4096, 0, &reg));
		other = rma_of(SUPERP_RMA_WRITE, &reg, 100, &self->remote_mr, 100, 100);
		other.flags = qpn & 1 ? SUPERP_RMA_F_FENCE : 0;
		ASSERT_EQ(0, rma_run(fd, &other, &completion));
		close(fd);
	}
	ASSERT_EQ(0, memcmp(self->remote + 100, self->local + 100, 100));
	ASSERT_EQ(0, superp_poll(self->a, 0, 50));
	ASSERT_EQ(0, self->remote[0]);
	for (i = 0; i < messages; i++) {
		ASSERT_TRUE(superp_poll(self->b, POLLIN, WAIT_MS) & POLLIN);
		ASSERT_EQ(4096, recv(self->b, self->local + 4096, 4096, 0));
	}
	EXPECT_EQ(0, rma_wait(self->a, &rma, &completion));
	EXPECT_EQ(-1, pattern_check(self->remote, 100, 1));
}

TEST_F_TIMEOUT(fence, many_requests_before__a_socket_without_queue_pair_waits_for_its_own, slowly(60))
{
	const unsigned int requests = 200, size = 1 << 20;
	struct superp_completion completion;
	struct superp_mr_reg reg;
	struct superp_rma rma;
	unsigned int i;
	int busy, quick;

	busy = superp_open(&node_a, 0, &node_b, variant->options.encap, 0);
	quick = superp_open(&node_a, 0, &node_b, variant->options.encap, 0);
	ASSERT_LE(0, busy);
	ASSERT_LE(0, quick);
	/* Half a minute's work for one of them. */
	ASSERT_EQ(0, link_netem("delay 20ms limit 10000"));
	ASSERT_EQ(0, mr_reg(busy, self->local, size, 0, &reg));
	for (i = 0; i < requests; i++) {
		rma = rma_of(SUPERP_RMA_WRITE, &reg, 0, &self->remote_mr, 0, size);
		ASSERT_EQ(0, rma_post(busy, &rma));
	}
	rma = rma_of(SUPERP_RMA_WRITE, &reg, 0, &self->remote_mr, FLAG, 8);
	rma.flags = SUPERP_RMA_F_FENCE;
	self->local[0] = 1;
	ASSERT_EQ(0, rma_post(busy, &rma));

	ASSERT_EQ(0, mr_reg(quick, self->local, 4096, 0, &reg));
	rma = rma_of(SUPERP_RMA_WRITE, &reg, 0, &self->remote_mr, FLAG + 8, 8);
	rma.flags = SUPERP_RMA_F_FENCE;
	ASSERT_EQ(0, rma_run(quick, &rma, &completion));
	EXPECT_EQ(1, self->remote[FLAG + 8]);
	EXPECT_EQ(0, self->remote[FLAG]);
	close(busy);
	close(quick);
}

TEST_F_TIMEOUT(fence, connection_ends__the_waiting_request_fails, slowly(60))
{
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr,
				       0, 100);
	struct superp_completion completion;
	unsigned int failed = 0;

	ASSERT_LT(0, fill_buffer(self->a, self->b));
	rma.flags = SUPERP_RMA_F_FENCE;
	ASSERT_EQ(0, rma_post(self->a, &rma));
	conn_down(self->cid);
	/* Beside those of the messages. */
	do {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		EXPECT_EQ(ECONNRESET, completion.error);
		failed += completion.op == SUPERP_RMA_WRITE;
	} while (completion.op != SUPERP_RMA_WRITE);
	EXPECT_EQ(1, failed);
}

SUPERP_TEST_MAIN
