// SPDX-License-Identifier: GPL-2.0
/* Waiting for completions: epoll on the context, and eventfds of completion queues. */
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "superp_ring.h"

#define AREA 4096
#define ALL (SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE)
#define QUEUES 2
#define WAIT_MS 20000

/* A writes to B's memory, from queue pairs with a completion queue each. */
FIXTURE(events)
{
	int cid, epoll;
	struct context a, b;
	struct cq cq[QUEUES];
	struct qp qp[QUEUES];
	struct superp_mr_reg mr_a, mr_b;
};

FIXTURE_SETUP(events)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };
	int i;

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	ASSERT_EQ(0, context_open(&self->a, &node_a));
	ASSERT_EQ(0, context_open(&self->b, &node_b));
	for (i = 0; i < QUEUES; i++) {
		ASSERT_EQ(0, cq_create(&self->a, &self->cq[i], 16));
		ASSERT_EQ(0, qp_create(&self->a, &self->qp[i], &self->cq[i], 16, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a, &self->qp[i], &node_b, SUPERP_ENCAP_SUNH, 0));
	}
	ASSERT_NE(NULL, mr_memory(self->a.fd, AREA, ALL, &self->mr_a));
	ASSERT_NE(NULL, mr_memory(self->b.fd, AREA, ALL, &self->mr_b));
	self->epoll = epoll_create1(0);
	ASSERT_LE(0, self->epoll);
}

FIXTURE_TEARDOWN(events)
{
	close(self->epoll);
	context_close(&self->a);
	context_close(&self->b);
	conn_down(self->cid);
}

static int write_post(FIXTURE_DATA(events) *self, int i)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->mr_a, 0, &self->mr_b, 0, 64);

	return post(&self->a, &self->qp[i], &entry);
}

/* A completion of queue @i that was armed before; 0, or what was wrong. */
static int armed_write(FIXTURE_DATA(events) *self, int i)
{
	struct superp_cqe completion;

	cq_arm(&self->cq[i]);
	if (cq_take(&self->cq[i], &completion))
		return -1;
	if (write_post(self, i))
		return -2;
	return cq_wait(&self->cq[i], &completion, WAIT_MS) ? completion.major : -3;
}

static int watch(FIXTURE_DATA(events) *self, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* The descriptor that has something, 0 for none within @ms. */
static int next(FIXTURE_DATA(events) *self, int ms)
{
	struct epoll_event event;
	int count = epoll_wait(self->epoll, &event, 1, ms);

	return count == 1 ? event.data.fd : count;
}

static int choose(FIXTURE_DATA(events) *self, int i, int fd)
{
	struct superp_cq_eventfd choice = { .cq = self->cq[i].id, .fd = fd };

	return ioctl(self->a.fd, SUPERP_IOC_CQ_EVENTFD, &choice) ? errno : 0;
}

static uint64_t counted(int fd)
{
	uint64_t count;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

TEST_F(events, level_triggered__tells_until_the_event_is_taken)
{
	int i;

	ASSERT_EQ(0, watch(self, self->a.fd, EPOLLIN));
	ASSERT_EQ(0, next(self, 0));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, armed_write(self, i % QUEUES));
		ASSERT_EQ(self->a.fd, next(self, WAIT_MS));
		ASSERT_EQ(self->a.fd, next(self, 0));
		ASSERT_EQ(true, cq_event(&self->a, &self->cq[i % QUEUES]));
		ASSERT_EQ(0, next(self, 0));
	}
}

TEST_F(events, edge_triggered__tells_each_event_once)
{
	int i;

	ASSERT_EQ(0, watch(self, self->a.fd, EPOLLIN | EPOLLET));
	for (i = 0; i < 10; i++) {
		/* The event before this one was never taken. */
		ASSERT_EQ(0, armed_write(self, i % QUEUES));
		ASSERT_EQ(self->a.fd, next(self, WAIT_MS));
		ASSERT_EQ(0, next(self, 0));
	}
}

TEST_F(events, sleeping_waiter__is_woken)
{
	struct superp_cqe completion;
	int i, efd = eventfd(0, EFD_NONBLOCK);

	ASSERT_EQ(0, choose(self, 1, efd));
	ASSERT_EQ(0, watch(self, self->a.fd, EPOLLIN));
	ASSERT_EQ(0, watch(self, efd, EPOLLIN));
	for (i = 0; i < 100; i++) {
		cq_arm(&self->cq[i % 2]);
		ASSERT_EQ(0, write_post(self, i % 2));
		ASSERT_EQ(i % 2 ? efd : self->a.fd, next(self, WAIT_MS));
		ASSERT_EQ(true, i % 2 ? counted(efd) == 1 : cq_event(&self->a, &self->cq[0]));
		ASSERT_EQ(true, cq_take(&self->cq[i % 2], &completion));
		ASSERT_EQ(0, completion.major);
	}
	close(efd);
}

TEST_F(events, eventfd__counts_armed_completions_and_the_context_is_silent)
{
	struct superp_cqe completion;
	int i, efd = eventfd(0, EFD_NONBLOCK);

	ASSERT_EQ(0, choose(self, 0, efd));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, armed_write(self, 0));
		/* Not armed: it is not told of. */
		ASSERT_EQ(0, write_post(self, 0));
		ASSERT_EQ(true, cq_wait(&self->cq[0], &completion, WAIT_MS));
	}
	ASSERT_EQ(POLLIN, superp_poll(efd, POLLIN, WAIT_MS));
	EXPECT_EQ(5, counted(efd));
	EXPECT_EQ(0, superp_poll(self->a.fd, POLLIN, 0) & POLLIN);
	EXPECT_EQ(false, cq_event(&self->a, &self->cq[0]));
	/* The other queue has none. */
	ASSERT_EQ(0, armed_write(self, 1));
	EXPECT_EQ(POLLIN, superp_poll(self->a.fd, POLLIN, WAIT_MS));
	EXPECT_EQ(0, counted(efd));
	close(efd);
}

TEST_F(events, eventfd__may_be_that_of_several_queues)
{
	int efd = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);

	ASSERT_EQ(0, choose(self, 0, efd));
	ASSERT_EQ(0, choose(self, 1, efd));
	ASSERT_EQ(0, armed_write(self, 0));
	ASSERT_EQ(0, armed_write(self, 1));
	ASSERT_EQ(POLLIN, superp_poll(efd, POLLIN, WAIT_MS));
	EXPECT_EQ(1, counted(efd));
	EXPECT_EQ(1, counted(efd));
	EXPECT_EQ(0, counted(efd));
	close(efd);
}

TEST_F(events, eventfd__outlives_its_descriptor_and_the_queue)
{
	int efd = eventfd(0, EFD_NONBLOCK), other = dup(efd);

	ASSERT_EQ(0, choose(self, 0, efd));
	close(efd);
	ASSERT_EQ(0, armed_write(self, 0));
	ASSERT_EQ(POLLIN, superp_poll(other, POLLIN, WAIT_MS));
	EXPECT_EQ(1, counted(other));
	close(other);
	/* Nobody can read it any more. */
	ASSERT_EQ(0, armed_write(self, 0));
	/* The context goes while a completion may be on its way. */
	cq_arm(&self->cq[0]);
	ASSERT_EQ(0, write_post(self, 0));
}

TEST_F(events, what_cannot_be__is_refused)
{
	struct superp_cq_eventfd nobody = { .cq = 77 };
	int efd = eventfd(0, 0);

	nobody.fd = efd;
	EXPECT_EQ(-1, ioctl(self->a.fd, SUPERP_IOC_CQ_EVENTFD, &nobody));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(EBADF, choose(self, 0, -1));
	EXPECT_EQ(EBADF, choose(self, 0, 1 << 20));
	EXPECT_EQ(EINVAL, choose(self, 0, self->a.fd));
	EXPECT_EQ(0, choose(self, 0, efd));
	EXPECT_EQ(EBUSY, choose(self, 0, efd));
	EXPECT_EQ(-1, ioctl(self->a.fd, SUPERP_IOC_CQ_EVENTFD, NULL));
	EXPECT_EQ(EFAULT, errno);
	close(efd);
}

SUPERP_TEST_MAIN
