// SPDX-License-Identifier: GPL-2.0
/* io_uring's send and receive work on sockets of the family as on others. */
#include <sys/syscall.h>
#include <linux/io_uring.h>

#include "superp_test.h"

#define ENTRIES 8

struct ring {
	int			fd;
	uint8_t			*rings;
	struct io_uring_sqe	*sqes;
	struct io_uring_params	params;
};

static uint32_t *at(struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(ring->rings + offset);
}

static int ring_open(struct ring *ring)
{
	size_t size;

	memset(ring, 0, sizeof(*ring));
	ring->fd = syscall(SYS_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP))
		return -1;
	size = ring->params.cq_off.cqes +
	       ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			   IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, ENTRIES * sizeof(*ring->sqes), PROT_READ | PROT_WRITE,
			  MAP_SHARED, ring->fd, IORING_OFF_SQES);
	return ring->rings == MAP_FAILED || ring->sqes == MAP_FAILED ? -1 : 0;
}

static void ring_put(struct ring *ring, int op, int fd, void *buffer, size_t len,
		     uint64_t data)
{
	uint32_t tail = *at(ring, ring->params.sq_off.tail);
	uint32_t i = tail & (ENTRIES - 1);

	ring->sqes[i] = (struct io_uring_sqe) {
		.opcode = op,
		.fd = fd,
		.addr = (uintptr_t)buffer,
		.len = len,
		.user_data = data,
	};
	at(ring, ring->params.sq_off.array)[i] = i;
	__atomic_store_n(at(ring, ring->params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
}

static int ring_enter(struct ring *ring, unsigned int submit, unsigned int wait)
{
	return syscall(SYS_io_uring_enter, ring->fd, submit, wait,
		       wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static int ring_take(struct ring *ring, struct io_uring_cqe *cqe)
{
	uint32_t head = *at(ring, ring->params.cq_off.head);
	struct io_uring_cqe *cqes = (void *)(ring->rings + ring->params.cq_off.cqes);

	if (head == __atomic_load_n(at(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE))
		return -1;
	*cqe = cqes[head & (ring->params.cq_entries - 1)];
	__atomic_store_n(at(ring, ring->params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return 0;
}

TEST(uring__receive_waits_for_send)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };
	static char out[100000], in[200000];
	struct io_uring_cqe cqe;
	struct ring ring;
	int cid = conn_id(), a, b, i, got[2] = {};

	ASSERT_EQ(0, conn_up(cid, &options));
	a = superp_open(&node_a, 11, &node_b, options.encap, 22);
	b = superp_open(&node_b, 22, &node_a, options.encap, 11);
	ASSERT_LE(0, a);
	ASSERT_LE(0, b);
	ASSERT_EQ(0, ring_open(&ring));
	pattern_fill(out, sizeof(out), 3);

	/* The receive comes first: it is armed by poll and goes on when the message is there. */
	ring_put(&ring, IORING_OP_RECV, b, in, sizeof(in), 1);
	ASSERT_EQ(1, ring_enter(&ring, 1, 0));
	EXPECT_EQ(-1, ring_take(&ring, &cqe));
	ring_put(&ring, IORING_OP_SEND, a, out, sizeof(out), 2);
	ASSERT_EQ(1, ring_enter(&ring, 1, 2));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ring_take(&ring, &cqe));
		EXPECT_EQ((int)sizeof(out), cqe.res);
		ASSERT_TRUE(cqe.user_data == 1 || cqe.user_data == 2);
		got[cqe.user_data - 1]++;
	}
	EXPECT_EQ(1, got[0]);
	EXPECT_EQ(1, got[1]);
	EXPECT_EQ(-1, pattern_check(in, sizeof(out), 3));
	close(a);
	close(b);
	conn_down(cid);
}

SUPERP_TEST_MAIN
