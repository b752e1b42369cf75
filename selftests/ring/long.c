// SPDX-License-Identifier: GPL-2.0
/*
 * Messages longer than the kernel would keep: their parts go into the buffer as they come. The memory
 * is a file of a few megabytes, mapped again and again: as long as a message, but no longer than a guest.
 * User Mode Linux needs a mapping of its host for each page of a process, and gets 65,530: there messages
 * of 64 MiB stand for those of 4 GiB.
 */
#include <sys/mman.h>

#include "superp_ring.h"

#define ENTRIES 8
#define WAIT_MS 120000
#define WORDS(bytes) ((bytes) / sizeof(uint64_t))

/* Bytes of memory that a side has; the longest message is one byte shorter. */
static uint64_t span(void)
{
	const char *home = getenv("SUPERP_HOME");

	return home && !strcmp(home, "uml") ? UINT64_C(64) << 20 : UINT64_C(1) << 32;
}

static uint32_t longest(void)
{
	return span() - 1;
}

/* One side: a context with a queue pair, and memory, which repeats. */
struct side {
	struct context		context;
	struct cq		send_cq, recv_cq;
	struct qp		qp;
	uint8_t			*memory;
	size_t			period;
	struct superp_mr_reg	mr;
};

/* span() bytes or more that repeat after @period. */
static uint8_t *repeated(size_t period)
{
	size_t length = (span() / period + 1) * period;
	uint8_t *memory;
	size_t at;
	int fd;

	fd = memfd_create("superp", 0);
	if (fd < 0 || ftruncate(fd, period))
		return NULL;
	memory = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	for (at = 0; at < length; at += period)
		if (mmap(memory + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			return NULL;
	close(fd);
	return memory;
}

static int side_up(struct side *side, const struct node *node, size_t period)
{
	if (context_open(&side->context, node) ||
	    cq_create(&side->context, &side->send_cq, ENTRIES) ||
	    cq_create(&side->context, &side->recv_cq, ENTRIES) ||
	    qp_create(&side->context, &side->qp, &side->send_cq, ENTRIES, &side->recv_cq, ENTRIES))
		return -1;
	side->period = period;
	side->memory = repeated(period);
	if (!side->memory)
		return -1;
	return mr_reg(side->context.fd, side->memory, span(), SUPERP_ACCESS_LOCAL_WRITE, &side->mr);
}

static uint64_t word(uint64_t place, uint64_t seed)
{
	return (place + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(struct side *side, uint64_t seed)
{
	uint64_t *words = (uint64_t *)side->memory;
	size_t i;

	for (i = 0; i < WORDS(side->period); i++)
		words[i] = word(i, seed);
}

FIXTURE(message)
{
	int cid;
	struct side a, b;
};

FIXTURE_VARIANT(message)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(message, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(message, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(message, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(message)
{
	int encap = variant->options.encap;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	/* Periods that have little in common: a byte at a wrong place is another byte. */
	ASSERT_EQ(0, side_up(&self->a, &node_a, 4099 * page_size()));
	ASSERT_EQ(0, side_up(&self->b, &node_b, 8191 * page_size()));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, encap, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, encap, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(message)
{
	link_clean();
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

/* Gives B's queue pair a receive entry for @length bytes from the beginning of its memory. */
static bool receive(struct side *side, uint32_t length, uint64_t token)
{
	struct superp_rqe entry = {
		.addr = side->mr.addr,
		.key = side->mr.key,
		.length = length,
		.token = token,
	};

	return rq_put(&side->qp, &entry);
}

static int send_begin(struct side *side, uint32_t length)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_SEND, &side->mr, 0, NULL, 0, length);

	return post(&side->context, &side->qp, &entry);
}

/*
 * Begins the longest message, which takes seconds at least; true when its first bytes are at B, whose
 * memory was empty.
 */
static bool send_some(struct side *a, struct side *b)
{
	volatile uint64_t *there = (volatile uint64_t *)b->memory;
	int ms;

	if (link_netem("rate 100mbit") || send_begin(a, longest()))
		return false;
	for (ms = 0; !*there && ms < WAIT_MS; ms++)
		usleep(1000);
	return *there;
}

/* The first of the last bytes of a message of @length that differs, or -1. */
static int64_t check_end(struct side *a, struct side *b, uint64_t length)
{
	uint64_t i = length > b->period ? length - b->period : 0;

	for (; i < length; i++)
		if (b->memory[i % b->period] != a->memory[i % a->period])
			return i;
	return -1;
}

TEST_F_TIMEOUT(message, the_longest__is_put_into_its_buffer, slowly(240))
{
	const uint32_t sizes[] = { SUPERP_MAX_MESSAGE + 1, span() / 2, longest() };
	struct superp_cqe completion;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		fill(&self->a, i);
		memset(self->b.memory, 0xa5, self->b.period);
		ASSERT_EQ(true, receive(&self->b, sizes[i], 70 + i));
		ASSERT_EQ(0, send_begin(&self->a, sizes[i]));
		ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, slowly(WAIT_MS)));
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(70 + i, completion.token);
		EXPECT_EQ(sizes[i], completion.length);
		ASSERT_EQ(-1, check_end(&self->a, &self->b, sizes[i]));
		if (sizes[i] < self->b.period) {
			EXPECT_EQ(0xa5, self->b.memory[sizes[i]]);
		}
		ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		EXPECT_EQ(0, completion.major);
		EXPECT_EQ(sizes[i], completion.length);
	}
	EXPECT_EQ(false, cq_take(&self->b.recv_cq, &completion));
}

TEST_F(message, longer_than_its_buffer__fails_before_it_is_carried)
{
	struct superp_cqe completion;

	fill(&self->a, 5);
	memset(self->b.memory, 0xa5, self->b.period);
	ASSERT_EQ(true, receive(&self->b, longest() - 1, 80));
	ASSERT_EQ(0, send_begin(&self->a, longest()));
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(80, completion.token);
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, completion.major);
	EXPECT_EQ(1, completion.minor);
	EXPECT_EQ(0xa5, self->b.memory[0]);
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_BUFFER, completion.major);
	EXPECT_EQ(1, completion.minor);
	EXPECT_EQ(true, qp_failed(&self->b.qp));
}

TEST_F(message, longer_than_a_socket_takes__fails)
{
	int encap = variant->options.encap;
	struct superp_cqe completion;
	int socket;

	socket = superp_open(&node_b, QPN_B, &node_a, encap, 0);
	ASSERT_LE(0, socket);
	ASSERT_EQ(0, qp_create(&self->a.context, &self->a.qp, &self->a.send_cq, 1, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, encap, QPN_B));
	ASSERT_EQ(0, send_begin(&self->a, SUPERP_MAX_MESSAGE + 1));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_RESOURCES, completion.major);
	close(socket);
}

TEST_F(message, end_of_the_connection_half_way__ends_both_entries_once)
{
	struct superp_cqe completion;

	fill(&self->a, 6);
	ASSERT_EQ(true, receive(&self->b, longest(), 90));
	ASSERT_EQ(true, receive(&self->b, longest(), 91));
	ASSERT_EQ(true, send_some(&self->a, &self->b));
	conn_down(self->cid);
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(90, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(91, completion.token);
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	EXPECT_EQ(false, cq_take(&self->b.recv_cq, &completion));
}

TEST_F(message, whose_memory_is_released_half_way__fails)
{
	struct superp_cqe completion;

	fill(&self->a, 7);
	ASSERT_EQ(true, receive(&self->b, longest(), 92));
	ASSERT_EQ(true, send_some(&self->a, &self->b));
	ASSERT_EQ(0, mr_dereg(self->b.context.fd, self->b.mr.key));
	memset(self->b.memory, 0xa5, self->b.period);
	ASSERT_EQ(true, cq_wait(&self->b.recv_cq, &completion, WAIT_MS));
	EXPECT_EQ(92, completion.token);
	EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);
	EXPECT_EQ(true, qp_failed(&self->b.qp));
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	EXPECT_EQ(0xa5, self->b.memory[0]);
	EXPECT_EQ(0, memcmp(self->b.memory, self->b.memory + 1, self->b.period - 1));
}

TEST_F(message, whose_queue_pair_is_destroyed_half_way__fails)
{
	struct superp_cqe completion;

	fill(&self->a, 8);
	ASSERT_EQ(true, receive(&self->b, longest(), 93));
	ASSERT_EQ(true, send_some(&self->a, &self->b));
	ASSERT_EQ(0, ring_destroy(&self->b.context, SUPERP_IOC_RQP_DESTROY, self->b.qp.id));
	memset(self->b.memory, 0xa5, self->b.period);
	ASSERT_EQ(true, cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	EXPECT_EQ(false, cq_take(&self->b.recv_cq, &completion));
	EXPECT_EQ(0xa5, self->b.memory[0]);
	EXPECT_EQ(0, memcmp(self->b.memory, self->b.memory + 1, self->b.period - 1));
}

SUPERP_TEST_MAIN
