// SPDX-License-Identifier: GPL-2.0
/* Remote memory: registration, reads and writes of every size, and every refusal by its name. */
#include <sys/resource.h>

#include "superp_test.h"

#define AREA (SUPERP_MAX_MESSAGE + 65536)
#define ALL SUPERP_ACCESS_MASK
/* Guest memory around an operation that must stay as it is. */
#define GUARD 64
#define WAIT_MS 20000

FIXTURE(rma)
{
	int cid;
	int a, b;
	uint8_t *local, *remote;		/* AREA bytes each */
	struct superp_mr_reg local_mr, remote_mr;
	uint64_t token;
};

FIXTURE_VARIANT(rma)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(rma, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(rma, udp4)
{
	.options = { .encap = SUPERP_ENCAP_UDP4 },
};

FIXTURE_VARIANT_ADD(rma, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(rma, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(rma)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->local = mr_memory(self->a, AREA, ALL, &self->local_mr);
	self->remote = mr_memory(self->b, AREA, ALL, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
	self->token = 0x1234567800000000;
}

FIXTURE_TEARDOWN(rma)
{
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

static const uint32_t sizes[] = {
	0, 1, 2, 15, 16, 17, 31, 192, 193, 4095, 4096, 4097, 8931, 8932, 8933,
	8951, 8952, 8953, 8959, 8960, 8961, 9000, 17920, 65535, 65536, 65537,
	1 << 20, (1 << 20) + 1, SUPERP_MAX_MESSAGE,
};

static const uint32_t offsets[][2] = { { 4096, 4096 }, { 4099, 8000 } };

TEST_F_TIMEOUT(rma, write__exactly_these_bytes, slowly(120))
{
	struct superp_completion completion;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (j = 0; j < ARRAY_SIZE(offsets); j++) {
			uint32_t size = sizes[i], from = offsets[j][0], to = offsets[j][1];
			struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr,
						       from, &self->remote_mr, to, size);

			pattern_fill(self->local + from, size, i + j);
			memset(self->remote + to - GUARD, 0xa5, GUARD);
			memset(self->remote + to, 0, size);
			memset(self->remote + to + size, 0x5a, GUARD);
			ASSERT_EQ(0, rma_run(self->a, &rma, &completion)) {
				TH_LOG("write of %u: %d.%d", size, completion.major,
				       completion.minor);
			}
			ASSERT_EQ(-1, pattern_check(self->remote + to, size, i + j)) {
				TH_LOG("write of %u differs", size);
			}
			ASSERT_EQ(0xa5, self->remote[to - 1]);
			ASSERT_EQ(0x5a, self->remote[to + size]);
		}
	}
}

TEST_F_TIMEOUT(rma, read__exactly_these_bytes, slowly(120))
{
	struct superp_completion completion;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (j = 0; j < ARRAY_SIZE(offsets); j++) {
			uint32_t size = sizes[i], to = offsets[j][0], from = offsets[j][1];
			struct superp_rma rma = rma_of(SUPERP_RMA_READ, &self->local_mr,
						       to, &self->remote_mr, from, size);

			pattern_fill(self->remote + from, size, i + j);
			memset(self->local + to - GUARD, 0xa5, GUARD);
			memset(self->local + to, 0, size);
			memset(self->local + to + size, 0x5a, GUARD);
			ASSERT_EQ(0, rma_run(self->a, &rma, &completion)) {
				TH_LOG("read of %u: %d.%d", size, completion.major,
				       completion.minor);
			}
			ASSERT_EQ(-1, pattern_check(self->local + to, size, i + j)) {
				TH_LOG("read of %u differs", size);
			}
			ASSERT_EQ(0xa5, self->local[to - 1]);
			ASSERT_EQ(0x5a, self->local[to + size]);
		}
	}
}

TEST_F_TIMEOUT(rma, many__each_completes_once, slowly(60))
{
	enum { COUNT = 500 };
	static uint8_t seen[COUNT];
	struct superp_completion completion;
	unsigned int i, done = 0;

	pattern_fill(self->local, 4096 * 16, 9);
	for (i = 0; i < COUNT; i++) {
		struct superp_rma rma = rma_of(i % 3 ? SUPERP_RMA_WRITE : SUPERP_RMA_READ,
					       &self->local_mr, i % 16 * 4096,
					       &self->remote_mr, i * 4096, 4096);

		/* Reads fetch what is not looked at. */
		if (rma.op == SUPERP_RMA_READ)
			rma.local_addr += 1 << 20;
		rma.token = i;
		ASSERT_EQ(0, rma_post(self->a, &rma));
	}
	while (done < COUNT) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.error);
		ASSERT_GT(COUNT, completion.token);
		ASSERT_EQ(0, seen[completion.token]);
		seen[completion.token] = 1;
		done++;
	}
	EXPECT_EQ(0, superp_poll(self->a, 0, 50));
	EXPECT_EQ(-1, completion_take(self->a, &completion));
	EXPECT_EQ(EAGAIN, errno);
	for (i = 0; i < COUNT; i++)
		if (i % 3)
			ASSERT_EQ(0, memcmp(self->remote + i * 4096,
					    self->local + i % 16 * 4096, 4096));
}

TEST_F(rma, requests__are_bounded_until_fetched)
{
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0,
				       &self->remote_mr, 0, 0);
	struct superp_completion completion;
	unsigned int i;

	for (i = 0; i < SUPERP_MAX_REQUESTS; i++)
		ASSERT_EQ(0, rma_post(self->a, &rma));
	EXPECT_EQ(-1, rma_post(self->a, &rma));
	EXPECT_EQ(ENOBUFS, errno);
	for (i = 0; i < SUPERP_MAX_REQUESTS; i++) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.error);
	}
	EXPECT_EQ(0, rma_post(self->a, &rma));
	EXPECT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
}

TEST_F(rma, completion__needs_room_and_is_not_lost)
{
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0,
				       &self->remote_mr, 0, 64);
	struct superp_completion completion;
	char control[CMSG_SPACE(sizeof(completion)) - 8];
	struct msghdr msg = {
		.msg_control = control,
		.msg_controllen = CMSG_LEN(sizeof(completion)) - 1,
	};

	EXPECT_EQ(-1, completion_take(self->a, &completion));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, rma_post(self->a, &rma));
	ASSERT_TRUE(superp_poll(self->a, 0, WAIT_MS) & POLLERR);
	EXPECT_EQ(-1, recvmsg(self->a, &msg, MSG_ERRQUEUE));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_TRUE(superp_poll(self->a, 0, 0) & POLLERR);
	EXPECT_EQ(0, completion_take(self->a, &completion));
	EXPECT_EQ(0, superp_poll(self->a, 0, 0));
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F(rma, post__refusals_have_names)
{
	struct superp_rma good = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0,
					&self->remote_mr, 0, 64);
	struct superp_completion completion;
	struct superp_mr_reg readable;
	struct superp_rma rma;

#define REFUSED(wanted)							\
	do {								\
		EXPECT_EQ(-1, rma_post(self->a, &rma));			\
		EXPECT_EQ(wanted, errno);				\
		rma = good;						\
	} while (0)

	rma = good;
	rma.flags = SUPERP_RMA_F_FENCE << 1;
	REFUSED(EINVAL);
	rma.flags = 1 << 15 | SUPERP_RMA_F_FENCE;
	REFUSED(EINVAL);
	rma.rsvd = 1;
	REFUSED(EINVAL);
	rma.op = 0;
	REFUSED(EOPNOTSUPP);
	rma.op = 3;
	REFUSED(EOPNOTSUPP);
	rma.length = SUPERP_MAX_RMA + 1;
	REFUSED(EMSGSIZE);
	rma.key ^= 1;
	REFUSED(ENOENT);
	/* Of another socket. */
	rma.key = self->remote_mr.key;
	REFUSED(ENOENT);
	rma.local_addr -= 1;
	REFUSED(ERANGE);
	rma.local_addr += AREA - 63;
	REFUSED(ERANGE);
	rma.length = AREA + 1;
	REFUSED(ERANGE);
	rma.local_addr = UINT64_MAX - 10;
	REFUSED(ERANGE);
#undef REFUSED

	EXPECT_EQ(-1, send_control(self->a, SOL_SUPERP, SUPERP_CMSG_RMA, &good,
				   sizeof(good), "data", 4));
	EXPECT_EQ(EINVAL, errno);

	/* A read writes to local memory. */
	ASSERT_EQ(0, mr_reg(self->a, self->local, 4096, SUPERP_ACCESS_REMOTE_READ, &readable));
	rma = rma_of(SUPERP_RMA_READ, &readable, 0, &self->remote_mr, 0, 64);
	EXPECT_EQ(-1, rma_post(self->a, &rma));
	EXPECT_EQ(EACCES, errno);
	rma.op = SUPERP_RMA_WRITE;
	EXPECT_EQ(0, rma_run(self->a, &rma, &completion));

	/* None of them has left anything. */
	EXPECT_EQ(0, rma_run(self->a, &good, &completion));
	EXPECT_EQ(-1, completion_take(self->a, &completion));
}

TEST_F(rma, remote__refusals_have_names_and_touch_nothing)
{
	struct superp_completion completion;
	struct superp_mr_reg readable, writable, foreign, gone;
	uint8_t *at = self->remote + 65536;
	struct superp_rma rma;

	memset(at - 4096, 0x77, 12288);
	memset(self->local, 0x11, 4096);
	ASSERT_EQ(0, mr_reg(self->b, at, 4096, SUPERP_ACCESS_REMOTE_READ, &readable));
	ASSERT_EQ(0, mr_reg(self->b, at, 4096, SUPERP_ACCESS_REMOTE_WRITE, &writable));
	ASSERT_EQ(0, mr_reg(self->b, at, 4096, ALL, &gone));
	ASSERT_EQ(0, mr_dereg(self->b, gone.key));
	foreign = (struct superp_mr_reg) {
		.addr = (uintptr_t)at, .length = 4096, .access = ALL, .partition = 7,
	};
	ASSERT_EQ(0, ioctl(self->b, SUPERP_IOC_MR_REG, &foreign));

#define REFUSED(op, region, offset, length, want)				\
	do {									\
		rma = rma_of(op, &self->local_mr, 0, region, offset, length);	\
		EXPECT_EQ(EACCES, rma_run(self->a, &rma, &completion));		\
		EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);			\
		EXPECT_EQ(want, completion.minor);				\
	} while (0)

	/* Key, bounds, permission, partition. */
	REFUSED(SUPERP_RMA_WRITE, &gone, 0, 64, 1);
	REFUSED(SUPERP_RMA_READ, &gone, 0, 64, 1);
	REFUSED(SUPERP_RMA_WRITE, &writable, 4095, 16, 2);
	REFUSED(SUPERP_RMA_WRITE, &writable, 4096, 16, 2);
	REFUSED(SUPERP_RMA_WRITE, &writable, -1, 16, 2);
	REFUSED(SUPERP_RMA_WRITE, &writable, -4096, 16384, 2);
	REFUSED(SUPERP_RMA_READ, &readable, 4081, 16, 2);
	REFUSED(SUPERP_RMA_WRITE, &readable, 0, 64, 3);
	REFUSED(SUPERP_RMA_READ, &writable, 0, 64, 3);
	REFUSED(SUPERP_RMA_WRITE, &foreign, 0, 64, 4);
	REFUSED(SUPERP_RMA_READ, &foreign, 0, 64, 4);
#undef REFUSED
	{
		unsigned int i;

		for (i = 0; i < 12288; i++)
			ASSERT_EQ(0x77, at[(int)i - 4096]);
		for (i = 0; i < 4096; i++)
			ASSERT_EQ(0x11, self->local[i]);
	}

	/* The connection has not suffered. */
	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &writable, 0, 4096);
	EXPECT_EQ(0, rma_run(self->a, &rma, &completion));
	EXPECT_EQ(0, memcmp(at, self->local, 4096));
}

TEST_F(rma, region__of_the_right_partition)
{
	struct conn_options options = variant->options;
	struct superp_completion completion;
	struct superp_mr_reg reg;
	struct superp_rma rma;
	int cid = self->cid + 2, fd;

	conn_down(self->cid);
	options.partition = 7;
	ASSERT_EQ(0, conn_up(cid, &options));
	reg = (struct superp_mr_reg) {
		.addr = (uintptr_t)self->remote, .length = 4096, .access = ALL, .partition = 7,
	};
	ASSERT_EQ(0, ioctl(self->b, SUPERP_IOC_MR_REG, &reg));
	fd = superp_open(&node_a, 0, &node_b, options.encap, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, self->local, 4096, ALL, &self->local_mr));
	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &reg, 0, 64);
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	close(fd);
	conn_down(cid);
}

TEST_F(rma, query__tells_the_region_and_what_peers_did)
{
	struct superp_mr_info info = { .key = self->remote_mr.key };
	struct superp_completion completion;
	struct superp_rma rma;

	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 5, 1000);
	ASSERT_EQ(0, rma_run(self->a, &rma, &completion));
	rma = rma_of(SUPERP_RMA_READ, &self->local_mr, 0, &self->remote_mr, 5, 70000);
	ASSERT_EQ(0, rma_run(self->a, &rma, &completion));
	ASSERT_EQ(0, ioctl(self->b, SUPERP_IOC_MR_QUERY, &info));
	EXPECT_EQ(self->remote_mr.key, info.key);
	EXPECT_EQ(ALL, info.access);
	EXPECT_EQ(0, info.partition);
	EXPECT_EQ((uintptr_t)self->remote, info.addr);
	EXPECT_EQ(AREA, info.length);
	EXPECT_EQ(self->remote_mr.rma_addr, info.rma_addr);
	EXPECT_EQ((uint64_t)info.key << 40 | (info.addr & ((1ull << 40) - 1)), info.rma_addr);
	EXPECT_EQ(1000, info.remote_writes);
	EXPECT_EQ(70000, info.remote_reads);
	/* Not another's. */
	EXPECT_EQ(-1, ioctl(self->a, SUPERP_IOC_MR_QUERY, &info));
	EXPECT_EQ(ENOENT, errno);
	info.rsvd = 1;
	EXPECT_EQ(-1, ioctl(self->b, SUPERP_IOC_MR_QUERY, &info));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, node_count(&node_b, SUPERP_A_NODE_REGIONS));
}

TEST_F(rma, release__own_operations_end_and_others_are_refused)
{
	struct superp_completion completion;
	struct superp_rma rma;
	unsigned int i;

	for (i = 0; i < 10; i++) {
		rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, i << 20, &self->remote_mr,
			     i << 20, 1 << 20);
		pattern_fill(self->local + (i << 20), 1 << 20, i);
		ASSERT_EQ(0, rma_post(self->a, &rma));
	}
	/* The memory of what is under way stays pinned. */
	ASSERT_EQ(0, mr_dereg(self->a, self->local_mr.key));
	EXPECT_EQ(-1, mr_dereg(self->a, self->local_mr.key));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(-1, rma_post(self->a, &rma));
	EXPECT_EQ(ENOENT, errno);
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		EXPECT_EQ(0, completion.error);
	}
	for (i = 0; i < 10; i++)
		EXPECT_EQ(-1, pattern_check(self->remote + (i << 20), 1 << 20, i));

	/* The peer's, in the middle of them. */
	ASSERT_EQ(0, mr_reg(self->a, self->local, AREA, ALL, &self->local_mr));
	for (i = 0; i < 10; i++) {
		rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 0,
			     SUPERP_MAX_MESSAGE);
		ASSERT_EQ(0, rma_post(self->a, &rma));
	}
	ASSERT_EQ(0, mr_dereg(self->b, self->remote_mr.key));
	memset(self->remote, 0x33, AREA);
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		EXPECT_TRUE(completion.error == 0 || completion.error == EACCES);
	}
	/* However many of them were faster: none is carried out now. */
	EXPECT_EQ(EACCES, rma_run(self->a, &rma, &completion));
	for (i = 0; i < AREA; i++)
		ASSERT_EQ(0x33, self->remote[i]);
}

TEST_F(rma, strict__short_writes_need_the_extension)
{
	struct conn_options options = variant->options;
	struct superp_completion completion;
	struct superp_rma rma;
	int cid = self->cid + 2, fd;

	conn_down(self->cid);
	options.strict = true;
	ASSERT_EQ(0, conn_up(cid, &options));
	fd = superp_open(&node_a, 0, &node_b, options.encap, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, self->local, AREA, ALL, &self->local_mr));
	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 0, 15);
	EXPECT_EQ(-1, rma_post(fd, &rma));
	EXPECT_EQ(EMSGSIZE, errno);
	rma.length = 0;
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	rma.length = 16;
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	self->remote[100] = 0x42;
	rma = rma_of(SUPERP_RMA_READ, &self->local_mr, 0, &self->remote_mr, 100, 1);
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	EXPECT_EQ(0x42, self->local[0]);
	pattern_fill(self->local, 1 << 20, 5);
	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 3, 1 << 20);
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	EXPECT_EQ(-1, pattern_check(self->remote + 3, 1 << 20, 5));
	close(fd);
	conn_down(cid);
}

TEST_F(rma, connection_is_removed__all_complete)
{
	enum { SOME = 20 };
	struct superp_completion completion;
	struct superp_rma rma = rma_of(SUPERP_RMA_READ, &self->local_mr, 0, &self->remote_mr, 0,
				       SUPERP_MAX_MESSAGE);
	unsigned int i, failed = 0;

	/* Some are under way, in whatever state, when the link is cut; the others cannot succeed. */
	for (i = 0; i < SOME; i++)
		ASSERT_EQ(0, rma_post(self->a, &rma));
	ASSERT_EQ(0, link_netem("loss 100%"));
	for (i = 0; i < SOME; i++)
		ASSERT_EQ(0, rma_post(self->a, &rma));
	EXPECT_EQ(0, conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid));
	link_clean();
	for (i = 0; i < 2 * SOME; i++) {
		ASSERT_EQ(0, completion_wait(self->a, &completion, WAIT_MS));
		if (!completion.error)
			continue;
		failed++;
		EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
		EXPECT_EQ(ECONNRESET, completion.error);
	}
	EXPECT_LE(SOME, failed);
	EXPECT_EQ(-1, completion_take(self->a, &completion));
	EXPECT_EQ(EAGAIN, errno);
}

/*
 * ---- registration, without any connection ----
 */

FIXTURE(mr)
{
	int fd;
	uint8_t *at;
};

FIXTURE_SETUP(mr)
{
	self->fd = superp_socket(&node_a);
	ASSERT_LE(0, self->fd);
	self->at = memory(1 << 20);
	ASSERT_NE(NULL, self->at);
}

FIXTURE_TEARDOWN(mr)
{
	close(self->fd);
}

TEST_F(mr, register__refusals_have_names)
{
	const size_t page = page_size();
	struct superp_mr_reg reg;
	uint8_t *boundary;

	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 0, ALL, &reg));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 4096, ALL + 1, &reg));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mr_reg(self->fd, (void *)-4096, 8192, ALL, &reg));
	EXPECT_EQ(EINVAL, errno);
	reg = (struct superp_mr_reg) {
		.addr = (uintptr_t)self->at, .length = 4096, .access = ALL, .rsvd = 1,
	};
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_REG, &reg));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_REG, NULL));
	EXPECT_EQ(EFAULT, errno);

	/* Crosses a multiple of 2^40; each side of it alone does not. */
	boundary = mmap((void *)((1ul << 40) - page), 2 * page, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_NE(MAP_FAILED, boundary);
	EXPECT_EQ(-1, mr_reg(self->fd, boundary, 2 * page, ALL, &reg));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, mr_reg(self->fd, boundary, page, ALL, &reg));
	EXPECT_EQ(0, mr_reg(self->fd, boundary + page, page, ALL, &reg));

	/* Not mapped; mapped for reading only. */
	ASSERT_EQ(0, munmap(self->at + 2 * page, page));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 4 * page, ALL, &reg));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, mprotect(self->at, page, PROT_READ));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 4096, SUPERP_ACCESS_REMOTE_WRITE, &reg));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 4096, SUPERP_ACCESS_LOCAL_WRITE, &reg));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, mr_reg(self->fd, self->at, 4096, SUPERP_ACCESS_REMOTE_READ, &reg));
	EXPECT_EQ(3, node_count(&node_a, SUPERP_A_NODE_REGIONS));
}

TEST_F(mr, register__nobody_can_write_the_answer_down)
{
	struct superp_mr_reg *reg = memory(page_size());

	reg->addr = (uintptr_t)self->at;
	reg->length = 4096;
	ASSERT_EQ(0, mprotect(reg, page_size(), PROT_READ));
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_REG, reg));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, node_count(&node_a, SUPERP_A_NODE_REGIONS));
}

TEST_F(mr, register__keys_are_distinct_and_regions_go_with_the_socket)
{
	struct superp_mr_reg reg[50];
	int i, j;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, mr_reg(self->fd, self->at + i, 100, ALL, &reg[i]));
		EXPECT_LT(0, reg[i].key);
		EXPECT_GT(1u << 24, reg[i].key);
		for (j = 0; j < i; j++)
			EXPECT_NE(reg[j].key, reg[i].key);
	}
	EXPECT_EQ(50, node_count(&node_a, SUPERP_A_NODE_REGIONS));
	close(self->fd);
	EXPECT_EQ(0, node_count(&node_a, SUPERP_A_NODE_REGIONS));
	self->fd = superp_socket(&node_a);
}

TEST_F(mr, register__counts_against_the_limit_of_locked_memory)
{
	struct rlimit limit = { .rlim_cur = 256 * 1024, .rlim_max = 256 * 1024 };
	struct superp_mr_reg reg, second;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	/* A user of whom nothing else is pinned. The lengths are whole pages, whatever the size of these. */
	ASSERT_EQ(0, setresuid(54321, 54321, 54321));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 256 * 1024 + 4096, ALL, &reg));
	EXPECT_EQ(ENOMEM, errno);
	ASSERT_EQ(0, mr_reg(self->fd, self->at, 192 * 1024, ALL, &reg));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 128 * 1024, ALL, &second));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(0, mr_reg(self->fd, self->at, 64 * 1024, ALL, &second));
	ASSERT_EQ(0, mr_dereg(self->fd, reg.key));
	EXPECT_EQ(0, mr_reg(self->fd, self->at, 128 * 1024, ALL, &second));
}

/* Of a page that has a byte of it, all counts, and no other page does. */
TEST_F(mr, register__one_page_is_charged_as_one)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct rlimit limit = { .rlim_cur = page, .rlim_max = page };
	struct superp_mr_reg reg, second;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, setresuid(54322, 54322, 54322));
	ASSERT_EQ(0, mr_reg(self->fd, self->at, page, ALL, &reg));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at, 1, ALL, &second));
	EXPECT_EQ(ENOMEM, errno);
	ASSERT_EQ(0, mr_dereg(self->fd, reg.key));
	EXPECT_EQ(-1, mr_reg(self->fd, self->at + page - 1, 2, ALL, &second));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(0, mr_reg(self->fd, self->at + page - 1, 1, ALL, &second));
}

TEST_F(mr, release__refusals_have_names)
{
	struct superp_mr_dereg dereg = { .key = 12345 };

	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_DEREG, &dereg));
	EXPECT_EQ(ENOENT, errno);
	dereg.rsvd = 1;
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_DEREG, &dereg));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_MR_DEREG, NULL));
	EXPECT_EQ(EFAULT, errno);
}

SUPERP_TEST_MAIN
