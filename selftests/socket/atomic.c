// SPDX-License-Identifier: GPL-2.0
/* Atomic operations on the peer's memory: each is carried out exactly once, whatever the link does. */
#include <pthread.h>

#include "superp_test.h"

#define AREA 65536
#define WAIT_MS 20000
#define DEPTH 16

FIXTURE(atomic)
{
	int cid;
	int a, b;
	uint64_t *local, *remote;
	struct superp_mr_reg local_mr, remote_mr;
};

FIXTURE_VARIANT(atomic)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(atomic, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(atomic, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(atomic, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(atomic)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->local = mr_memory(self->a, AREA, SUPERP_ACCESS_LOCAL_WRITE, &self->local_mr);
	self->remote = mr_memory(self->b, AREA, SUPERP_ACCESS_REMOTE_ATOMIC, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
}

FIXTURE_TEARDOWN(atomic)
{
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

static struct superp_atomic atomic_of(int op, const struct superp_mr_reg *local, uint64_t local_at,
				      const struct superp_mr_reg *remote, uint64_t remote_at,
				      uint64_t operand, uint64_t compare)
{
	return (struct superp_atomic) {
		.rma = {
			.op = op,
			.key = local->key,
			.local_addr = local->addr + local_at,
			.remote_addr = remote->rma_addr + remote_at,
			.length = 8,
			.token = local_at,
		},
		.operand = operand,
		.compare = compare,
	};
}

/* Posts one operation and waits for it: the error of its completion, or -1. */
static int atomic_run(int fd, const struct superp_atomic *atomic)
{
	struct superp_completion completion;

	if (atomic_post(fd, atomic)) {
		perror("sendmsg");
		return -1;
	}
	return rma_wait(fd, &atomic->rma, &completion);
}

TEST_F(atomic, operations__change_the_value_and_give_the_old_one)
{
	struct superp_atomic op;

	self->remote[1] = 40;
	self->remote[0] = self->remote[2] = 0xa5a5a5a5a5a5a5a5;
	op = atomic_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, 16, &self->remote_mr, 8, 2, 0);
	ASSERT_EQ(0, atomic_run(self->a, &op));
	ASSERT_EQ(40, self->local[2]);
	ASSERT_EQ(42, self->remote[1]);

	op = atomic_of(SUPERP_RMA_COMPARE_SWAP, &self->local_mr, 16, &self->remote_mr, 8, 7, 41);
	ASSERT_EQ(0, atomic_run(self->a, &op));
	ASSERT_EQ(42, self->local[2]);
	ASSERT_EQ(42, self->remote[1]);

	op = atomic_of(SUPERP_RMA_COMPARE_SWAP, &self->local_mr, 16, &self->remote_mr, 8, 7, 42);
	ASSERT_EQ(0, atomic_run(self->a, &op));
	ASSERT_EQ(42, self->local[2]);
	ASSERT_EQ(7, self->remote[1]);

	op = atomic_of(SUPERP_RMA_SWAP, &self->local_mr, 16, &self->remote_mr, 8, UINT64_MAX, 0);
	ASSERT_EQ(0, atomic_run(self->a, &op));
	ASSERT_EQ(7, self->local[2]);
	ASSERT_EQ(UINT64_MAX, self->remote[1]);

	op = atomic_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, 16, &self->remote_mr, 8, 1, 0);
	ASSERT_EQ(0, atomic_run(self->a, &op));
	ASSERT_EQ(UINT64_MAX, self->local[2]);
	ASSERT_EQ(0, self->remote[1]);

	ASSERT_EQ(0xa5a5a5a5a5a5a5a5, self->remote[0]);
	ASSERT_EQ(0xa5a5a5a5a5a5a5a5, self->remote[2]);
	ASSERT_EQ(0, self->local[1]);
	ASSERT_EQ(0, self->local[3]);
}

/* Adds 1 to the counter COUNT times; each old value must be another one. */
static int count_up(int fd, uint64_t *local, const struct superp_mr_reg *local_mr,
		    const struct superp_mr_reg *remote_mr, unsigned int count)
{
	struct superp_completion completion;
	unsigned int posted = 0, done = 0;

	while (done < count) {
		while (posted < count && posted - done < DEPTH) {
			struct superp_atomic op = atomic_of(SUPERP_RMA_FETCH_ADD, local_mr,
							    8 * posted, remote_mr, 0, 1, 0);

			local[posted] = UINT64_MAX;
			if (atomic_post(fd, &op)) {
				perror("sendmsg");
				return -1;
			}
			posted++;
		}
		if (completion_wait(fd, &completion, WAIT_MS) || completion.error) {
			fprintf(stderr, "completion %u\n", completion.error);
			return -1;
		}
		done++;
	}
	return 0;
}

TEST_F_TIMEOUT(atomic, bad_link__every_addition_counts_once, slowly(120))
{
	const unsigned int count = 2000;
	static uint8_t seen[2000];
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	self->remote[0] = 0;
	ASSERT_EQ(0, link_netem("loss 5% duplicate 10%"));
	EXPECT_EQ(0, count_up(self->a, self->local, &self->local_mr, &self->remote_mr, count));
	link_clean();
	ASSERT_EQ(count, self->remote[0]);
	for (i = 0; i < count; i++) {
		ASSERT_GT(count, self->local[i]);
		ASSERT_EQ(0, seen[self->local[i]]++) {
			TH_LOG("%llu was returned twice", (unsigned long long)self->local[i]);
		}
	}
}

static void *count_here(void *counter)
{
	int i;

	for (i = 0; i < 1000000; i++)
		__atomic_fetch_add((uint64_t *)counter, 1, __ATOMIC_RELAXED);
	return NULL;
}

TEST_F_TIMEOUT(atomic, program_that_owns_the_memory__loses_no_addition, slowly(120))
{
	const unsigned int count = 2000;
	pthread_t thread;

	self->remote[0] = 0;
	ASSERT_EQ(0, pthread_create(&thread, NULL, count_here, &self->remote[0]));
	EXPECT_EQ(0, count_up(self->a, self->local, &self->local_mr, &self->remote_mr, count));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(1000000 + count, self->remote[0]);
}

TEST_F(atomic, refusals__have_their_names)
{
	const struct superp_atomic good = atomic_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, 0,
						    &self->remote_mr, AREA - 8, 1, 0);
	struct superp_mr_reg plain;
	struct superp_atomic op;

	self->remote[AREA / 8 - 1] = 5;
	ASSERT_EQ(0, atomic_run(self->a, &good));
	ASSERT_EQ(6, self->remote[AREA / 8 - 1]);

	op = good;
	op.rma.remote_addr += 8;
	ASSERT_EQ(EACCES, atomic_run(self->a, &op));
	op = good;
	op.rma.remote_addr -= 4;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(EINVAL, errno);
	op = good;
	op.rma.length = 16;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(EINVAL, errno);
	op = good;
	op.compare = 1;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(EINVAL, errno);
	op = good;
	op.rma.op = SUPERP_RMA_WRITE;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(-1, rma_post(self->a, &good.rma));
	ASSERT_EQ(EOPNOTSUPP, errno);
	op = good;
	op.rma.key ^= 1;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(ENOENT, errno);

	/* Rights: the peer's region, then the own one. */
	ASSERT_EQ(0, mr_reg(self->b, self->remote, AREA,
			    SUPERP_ACCESS_REMOTE_READ | SUPERP_ACCESS_REMOTE_WRITE, &plain));
	op = atomic_of(SUPERP_RMA_SWAP, &self->local_mr, 0, &plain, 0, 1, 0);
	self->remote[0] = 9;
	ASSERT_EQ(EACCES, atomic_run(self->a, &op));
	ASSERT_EQ(9, self->remote[0]);
	ASSERT_EQ(0, mr_reg(self->a, self->local, AREA, 0, &plain));
	op = good;
	op.rma.key = plain.key;
	ASSERT_EQ(-1, atomic_post(self->a, &op));
	ASSERT_EQ(EACCES, errno);
}

TEST(strict_connection__has_no_atomics)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH, .strict = true };
	struct superp_mr_reg mr;
	struct superp_atomic op;
	int cid = conn_id(), fd;

	ASSERT_EQ(0, conn_up(cid, &options));
	fd = superp_open(&node_a, QPN_A, &node_b, SUPERP_ENCAP_SUNH, QPN_B);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, memory(AREA), AREA, SUPERP_ACCESS_LOCAL_WRITE, &mr));
	op = atomic_of(SUPERP_RMA_SWAP, &mr, 0, &mr, 0, 1, 0);
	EXPECT_EQ(-1, atomic_post(fd, &op));
	EXPECT_EQ(EOPNOTSUPP, errno);
	close(fd);
	conn_down(cid);
}

SUPERP_TEST_MAIN
