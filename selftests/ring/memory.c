// SPDX-License-Identifier: GPL-2.0
/* Memory of rings, and what it counts as. */
#include <sys/resource.h>

#include "superp_ring.h"

TEST(memory__counts_against_the_limit)
{
	struct superp_cq_create cq = { .entries = SUPERP_MAX_CQ_ENTRIES };
	struct rlimit limit = { 1 << 20, 1 << 20 };
	struct context context;

	ASSERT_EQ(0, node_enter(&node_a));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, seteuid(65534));
	context.fd = socket(superp_family(), SOCK_RDM, 0);
	ASSERT_LE(0, context.fd);
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(ENOMEM, errno);
	cq.entries = 64;
	EXPECT_EQ(0, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
}

/* A ring is charged as many pages as it has. */
TEST(memory__is_charged_as_it_is)
{
	struct superp_cq_create cq = { .entries = 64 };
	size_t page = sysconf(_SC_PAGESIZE);
	struct context context;
	struct rlimit limit;

	ASSERT_EQ(0, node_enter(&node_a));
	context.fd = socket(superp_family(), SOCK_RDM, 0);
	ASSERT_LE(0, context.fd);
	ASSERT_EQ(0, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	limit.rlim_max = (cq.size + page - 1) / page * page;
	limit.rlim_cur = limit.rlim_max;
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	/* A user of whom nothing else is pinned. */
	ASSERT_EQ(0, setresuid(54323, 54323, 54323));
	EXPECT_EQ(0, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(-1, ioctl(context.fd, SUPERP_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(ENOMEM, errno);
}

/* What was destroyed is memory in use for as long as a program maps it. */
TEST(memory__is_charged_until_it_is_unmapped)
{
	struct superp_cq_create cq = { .entries = 64 };
	struct rlimit limit = { 64 << 10, 64 << 10 };
	void *maps[200];
	size_t page = sysconf(_SC_PAGESIZE);
	int fd, count;

	ASSERT_EQ(0, node_enter(&node_a));
	fd = socket(superp_family(), SOCK_RDM, 0);
	ASSERT_LE(0, fd);
	limit.rlim_cur = limit.rlim_max = 16 * page;
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, setresuid(54325, 54325, 54325));
	for (count = 0; count < 200 && !ioctl(fd, SUPERP_IOC_CQ_CREATE, &cq); count++) {
		struct superp_ring_destroy destroy = { .id = cq.cq };

		maps[count] = mmap(NULL, cq.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, cq.offset);
		ASSERT_NE(MAP_FAILED, maps[count]);
		ASSERT_EQ(0, ioctl(fd, SUPERP_IOC_CQ_DESTROY, &destroy));
	}
	ASSERT_LT(0, count);
	ASSERT_GE(16, count);
	EXPECT_EQ(ENOMEM, errno);
	/* Half of a mapping is still one. */
	if (cq.size > page) {
		ASSERT_EQ(0, munmap(maps[0], page));
		EXPECT_EQ(-1, ioctl(fd, SUPERP_IOC_CQ_CREATE, &cq));
	}
	while (count--)
		ASSERT_EQ(0, munmap(maps[count], cq.size));
	EXPECT_EQ(0, ioctl(fd, SUPERP_IOC_CQ_CREATE, &cq));
}

SUPERP_TEST_MAIN
