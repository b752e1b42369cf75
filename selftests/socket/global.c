// SPDX-License-Identifier: GPL-2.0
/* A global address space: regions get the first free pages of it, and nothing else is reached. */
#include "superp_test.h"

#define PAGES 64
#define BASE 0x7123456000ull
#define WAIT_MS 20000

static uint64_t page;

/* Sets the space of a node; 0 or a negative errno. */
static int space_set(const struct node *node, uint64_t base, uint64_t size)
{
	struct nl_request req;

	nl_begin(&req, 0, SUPERP_CMD_NODE_SET);
	nl_put(&req, SUPERP_A_NODE_RMA_BASE, &base, sizeof(base));
	nl_put(&req, SUPERP_A_NODE_RMA_SIZE, &size, sizeof(size));
	return nl_do(node, &req, NULL, 0);
}

FIXTURE(global)
{
	int cid;
	int a, b;
	uint8_t *local;				/* PAGES pages */
	struct superp_mr_reg local_mr;
	uint8_t *area;				/* of B, PAGES pages */
};

FIXTURE_SETUP(global)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };

	page = page_size();
	self->cid = conn_id();
	ASSERT_EQ(0, space_set(&node_b, 0, 0));
	ASSERT_EQ(0, pair_up(self->cid, &options, &self->a, &self->b));
	self->local = mr_memory(self->a, PAGES * page, SUPERP_ACCESS_MASK, &self->local_mr);
	self->area = memory(PAGES * page);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->area);
}

FIXTURE_TEARDOWN(global)
{
	space_set(&node_b, 0, 0);
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

/* One remote access with @len bytes of the local region: minor code of its refusal, 0: done, or -1. */
static int access_at(int fd, int op, const struct superp_mr_reg *local, uint64_t remote,
		     uint32_t len)
{
	struct superp_mr_reg at = { .rma_addr = remote };
	struct superp_rma rma = rma_of(op, local, 0, &at, 0, len);
	struct superp_completion completion;
	int err = rma_run(fd, &rma, &completion);

	if (!err)
		return 0;
	return err == EACCES && completion.major == SUPERP_ERR_ACCESS ? completion.minor : -1;
}

#define NO_REGION 1
#define BOUNDS 2

/*
 * Against a model: a page is free or has the number of a region. Regions come and go at random, with
 * all lengths and places in a page.
 */
TEST_F_TIMEOUT(global, places__first_fit, slowly(60))
{
	struct { struct superp_mr_reg reg; uint64_t first, pages; } regions[24] = {};
	bool taken[PAGES] = {};
	unsigned int step, full = 0, random = 12345;
	uint64_t i, run;

	ASSERT_EQ(0, space_set(&node_b, BASE & -page, PAGES * page));
	for (step = 0; step < 300; step++) {
		unsigned int slot = (random = random * 1103515245 + 12345) >> 16;
		typeof(&regions[0]) r = &regions[slot % ARRAY_SIZE(regions)];
		uint64_t offset, len, pages;

		if (r->pages) {
			ASSERT_EQ(0, mr_dereg(self->b, r->reg.key));
			memset(taken + r->first, 0, r->pages);
			r->pages = 0;
			continue;
		}
		offset = (slot >> 4) % page;
		len = 1 + (slot * 7919ull) % (8 * page);
		pages = (offset + len + page - 1) / page;
		for (i = run = 0; i < PAGES && run < pages; i++)
			run = taken[i] ? 0 : run + 1;
		if (run < pages) {
			ASSERT_EQ(-1, mr_reg(self->b, self->area + offset, len,
					     SUPERP_ACCESS_REMOTE_READ, &r->reg));
			ASSERT_EQ(ENOSPC, errno);
			full++;
			continue;
		}
		ASSERT_EQ(0, mr_reg(self->b, self->area + offset, len, SUPERP_ACCESS_REMOTE_READ,
				    &r->reg));
		r->first = i - pages;
		r->pages = pages;
		memset(taken + r->first, 1, pages);
		ASSERT_EQ((BASE & -page) + r->first * page + offset, r->reg.rma_addr) {
			TH_LOG("step %u, %llu pages", step, (unsigned long long)pages);
		}
	}
	/* Both outcomes were there. */
	EXPECT_LT(10, full);
	/* What is there is reached, from its first byte to its last, and no further. */
	for (i = 0; i < ARRAY_SIZE(regions); i++) {
		const struct superp_mr_reg *reg = &regions[i].reg;
		uint64_t end = reg->rma_addr + reg->length;

		if (!regions[i].pages)
			continue;
		pattern_fill(self->area, PAGES * page, i);
		ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_READ, &self->local_mr, reg->rma_addr,
				       reg->length));
		ASSERT_EQ(0, memcmp(self->local, (void *)(uintptr_t)reg->addr, reg->length));
		ASSERT_EQ(BOUNDS, access_at(self->a, SUPERP_RMA_READ, &self->local_mr, end - 1, 2));
	}
}

TEST_F_TIMEOUT(global, bounds__never_a_byte_outside, slowly(60))
{
	uint64_t base = BASE & -page, i;
	struct superp_mr_reg first, middle, next, last;
	int op;

	/* "first" ends with its page and "next" begins right behind; then a gap, and "last". */
	ASSERT_EQ(0, space_set(&node_b, base, PAGES * page));
	ASSERT_EQ(0, mr_reg(self->b, self->area + page + 100, page - 100, SUPERP_ACCESS_MASK, &first));
	ASSERT_EQ(0, mr_reg(self->b, self->area + 4 * page, 200, SUPERP_ACCESS_MASK, &next));
	ASSERT_EQ(0, mr_reg(self->b, self->area + 8 * page, page, SUPERP_ACCESS_MASK, &middle));
	ASSERT_EQ(0, mr_reg(self->b, self->area + 12 * page + 8, page, SUPERP_ACCESS_MASK, &last));
	ASSERT_EQ(base + 100, first.rma_addr);
	ASSERT_EQ(base + page, next.rma_addr);
	ASSERT_EQ(base + 3 * page + 8, last.rma_addr);
	ASSERT_EQ(0, mr_dereg(self->b, middle.key));

	const struct {
		uint64_t at;
		int minor;
	} wrong[] = {
		{ base + 99, BOUNDS },
		{ base, BOUNDS },
		{ base - 1, NO_REGION },
		{ base - 16, NO_REGION },
		/* Over the border of two regions. */
		{ base + page - 1, BOUNDS },
		{ base + page - 15, BOUNDS },
		{ base + page + 200 - 15, BOUNDS },
		{ base + page + 200, BOUNDS },
		{ base + 2 * page - 1, BOUNDS },
		/* The gap. */
		{ base + 2 * page, NO_REGION },
		{ base + 3 * page - 8, NO_REGION },
		{ base + 3 * page, BOUNDS },
		{ base + 3 * page + 7, BOUNDS },
		{ base + 4 * page + 8 - 15, BOUNDS },
		{ base + 4 * page + 8, BOUNDS },
		{ base + 5 * page, NO_REGION },
		/* Outside of the space; and what would be the address by key. */
		{ base + PAGES * page, NO_REGION },
		{ 0, NO_REGION },
		{ -16ull, NO_REGION },
		{ (uint64_t)first.key << 40 | (first.addr & ((1ull << 40) - 1)), NO_REGION },
	};

	pattern_fill(self->area, PAGES * page, 7);
	memset(self->local, 0x99, page);
	for (op = SUPERP_RMA_WRITE; op <= SUPERP_RMA_READ; op++) {
		for (i = 0; i < ARRAY_SIZE(wrong); i++)
			ASSERT_EQ(wrong[i].minor, access_at(self->a, op, &self->local_mr,
							    wrong[i].at, 16)) {
				TH_LOG("operation %d, case %u", op, (unsigned int)i);
			}
	}
	ASSERT_EQ(-1, pattern_check(self->area, PAGES * page, 7));
	for (i = 0; i < page; i++)
		ASSERT_EQ(0x99, self->local[i]);

	/* The first and the last bytes are reached. */
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, last.rma_addr, 16));
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr,
			       last.rma_addr + page - 16, 16));
	for (i = 0; i < 16; i++) {
		ASSERT_EQ(0x99, self->area[12 * page + 8 + i]);
		ASSERT_EQ(0x99, self->area[13 * page + 8 - 16 + i]);
	}
	ASSERT_EQ(-1, pattern_check(self->area, 12 * page + 8, 7));
	/* What is released is not. */
	ASSERT_EQ(0, mr_dereg(self->b, last.key));
	ASSERT_EQ(NO_REGION, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, last.rma_addr, 16));
}

TEST_F(global, regions_with_keys__stay)
{
	struct superp_mr_reg keyed, placed, later;
	struct superp_mr_info info = {};
	uint64_t base;

	ASSERT_EQ(0, mr_reg(self->b, self->area, page, SUPERP_ACCESS_MASK, &keyed));
	ASSERT_EQ((uint64_t)keyed.key << 40 | (keyed.addr & ((1ull << 40) - 1)), keyed.rma_addr);
	/* The space begins where a region with a key is: the first free page is behind that. */
	base = keyed.rma_addr & -page;
	ASSERT_EQ(0, space_set(&node_b, base, 2 * page));
	ASSERT_EQ(0, mr_reg(self->b, self->area + 3 * page, page, SUPERP_ACCESS_MASK, &placed));
	ASSERT_EQ(base + page, placed.rma_addr);
	ASSERT_NE(keyed.key, placed.key);
	info.key = placed.key;
	ASSERT_EQ(0, ioctl(self->b, SUPERP_IOC_MR_QUERY, &info));
	EXPECT_EQ(placed.rma_addr, info.rma_addr);
	EXPECT_EQ(-1, mr_reg(self->b, self->area, page, SUPERP_ACCESS_MASK, &later));
	EXPECT_EQ(ENOSPC, errno);
	memset(self->local, 0x11, page);
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, keyed.rma_addr, page));
	memset(self->local, 0x22, page);
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, placed.rma_addr, page));
	EXPECT_EQ(0x11, self->area[0]);
	EXPECT_EQ(0x11, self->area[page - 1]);
	EXPECT_EQ(0x22, self->area[3 * page]);
	EXPECT_EQ(0x22, self->area[4 * page - 1]);
	/* Over the border of the two. */
	EXPECT_EQ(BOUNDS, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr,
				    placed.rma_addr - 8, 16));

	/* Without a space regions get keys again, and what is placed stays, too. */
	ASSERT_EQ(0, space_set(&node_b, 0, 0));
	ASSERT_EQ(0, mr_reg(self->b, self->area, page, SUPERP_ACCESS_MASK, &later));
	EXPECT_EQ((uint64_t)later.key << 40 | (later.addr & ((1ull << 40) - 1)), later.rma_addr);
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_READ, &self->local_mr, placed.rma_addr, page));
	ASSERT_EQ(0, mr_dereg(self->b, keyed.key));
	EXPECT_EQ(NO_REGION, access_at(self->a, SUPERP_RMA_READ, &self->local_mr, keyed.rma_addr, 16));
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_READ, &self->local_mr, placed.rma_addr, page));
}

/* To the last address there is; what would cross a multiple of 2^40; alignment in a page. */
TEST_F(global, ends__of_the_space)
{
	struct superp_mr_reg reg;
	uint8_t *across = mmap((void *)((1ull << 40) - page), 2 * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	ASSERT_EQ(0, space_set(&node_b, -page, 0));
	ASSERT_EQ(-1, mr_reg(self->b, self->area, page + 1, SUPERP_ACCESS_MASK, &reg));
	ASSERT_EQ(ENOSPC, errno);
	ASSERT_EQ(0, mr_reg(self->b, self->area, page, SUPERP_ACCESS_MASK, &reg));
	ASSERT_EQ(-page, reg.rma_addr);
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, -16ull, 16));
	ASSERT_EQ(BOUNDS, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, -15ull, 16));
	ASSERT_EQ(0, mr_dereg(self->b, reg.key));

	ASSERT_EQ(0, space_set(&node_b, (3ull << 40) - page, 2 * page));
	ASSERT_EQ((void *)((1ull << 40) - page), across);
	ASSERT_EQ(0, mr_reg(self->b, across, 2 * page, SUPERP_ACCESS_MASK, &reg));
	ASSERT_EQ((3ull << 40) - page, reg.rma_addr);
	memset(self->local, 0x44, 2 * page);
	ASSERT_EQ(0, access_at(self->a, SUPERP_RMA_WRITE, &self->local_mr, reg.rma_addr, 2 * page));
	EXPECT_EQ(0, memcmp(across, self->local, 2 * page));

	struct superp_mr_reg aligned;
	struct superp_atomic atomic = { .operand = 5 };
	struct superp_completion completion;

	ASSERT_EQ(0, space_set(&node_b, BASE & -page, page));
	memset(self->area, 0, page);
	ASSERT_EQ(0, mr_reg(self->b, self->area + 24, 8, SUPERP_ACCESS_MASK, &aligned));
	atomic.rma = rma_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, 0, &aligned, 0, 8);
	ASSERT_EQ(0, atomic_post(self->a, &atomic));
	ASSERT_EQ(0, rma_wait(self->a, &atomic.rma, &completion));
	EXPECT_EQ(5, self->area[24]);
}

TEST_F(global, settings__are_checked)
{
	EXPECT_EQ(-EINVAL, space_set(&node_b, (BASE & -page) | 8, page));
	EXPECT_EQ(-EINVAL, space_set(&node_b, BASE & -page, page + 1));
	EXPECT_EQ(-EINVAL, space_set(&node_b, 0, page));
	EXPECT_EQ(-ERANGE, space_set(&node_b, -page, 2 * page));
	EXPECT_EQ(-ERANGE, space_set(&node_b, BASE & -page, -page));
	EXPECT_EQ(0, space_set(&node_b, -page, page));
	EXPECT_EQ(0, space_set(&node_b, page, -page));
	EXPECT_EQ(0, space_set(&node_b, 0, 0));
}

SUPERP_TEST_MAIN
