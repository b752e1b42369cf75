// SPDX-License-Identifier: GPL-2.0
/* Processes and namespaces that end in the middle of traffic leave nothing behind. */
#include "superp_conn.h"

#define AREA (8u << 20)

FIXTURE(traffic)
{
	struct conn_options options;
	int cid;
};

FIXTURE_SETUP(traffic)
{
	self->options = (struct conn_options) { .encap = SUPERP_ENCAP_SUNH };
	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &self->options));
}

FIXTURE_TEARDOWN(traffic)
{
	conn_down(self->cid);
}

struct shared {
	uint64_t	rma_addr;	/* of B's memory */
	int		ready;
};

/* B: memory to be read and written, and messages that nobody receives. */
static void be_target(struct shared *shared, int encap)
{
	struct superp_mr_reg reg;
	uint8_t *area = memory(AREA);
	int fd = superp_open(&node_b, QPN_B, &node_a, encap, QPN_A);

	if (fd < 0 || mr_reg(fd, area, AREA, SUPERP_ACCESS_MASK, &reg))
		_exit(1);
	shared->rma_addr = reg.rma_addr;
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* A: as much of everything as the socket takes, for ever. */
static void be_initiator(struct shared *shared, int encap)
{
	struct superp_completion completion;
	struct superp_mr_reg reg;
	uint8_t *area = memory(AREA);
	int fd = superp_open(&node_a, QPN_A, &node_b, encap, QPN_B);
	unsigned int i;

	if (fd < 0 || mr_reg(fd, area, AREA, SUPERP_ACCESS_MASK, &reg))
		_exit(1);
	for (i = 0;; i++) {
		struct superp_rma rma = {
			.op = i % 2 ? SUPERP_RMA_READ : SUPERP_RMA_WRITE,
			.key = reg.key,
			.local_addr = reg.addr,
			.remote_addr = shared->rma_addr,
			.length = AREA,
		};

		rma_post(fd, &rma);
		send(fd, area, 100000, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (i == 20)
			__atomic_store_n(&shared->ready, 2, __ATOMIC_RELEASE);
		if (i > 100)
			completion_wait(fd, &completion, 1000);
	}
}

static int wait_ready(struct shared *shared, int want)
{
	int i;

	for (i = 0; i < 1000; i++) {
		if (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) >= want)
			return 0;
		usleep(10000);
	}
	return -1;
}

static void kill_and_reap(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int objects(const struct node *node)
{
	return node_count(node, SUPERP_A_NODE_QPS) + node_count(node, SUPERP_A_NODE_REGIONS);
}

/* A message and a write over the connection. */
static int still_works(int encap)
{
	struct superp_completion completion = {};
	struct superp_mr_reg here, there;
	char byte = 0;
	int a = superp_open(&node_a, 0, &node_b, encap, 77);
	int b = superp_open(&node_b, 77, &node_a, encap, 0);
	uint8_t *area = memory(65536);
	struct superp_rma rma = { .op = SUPERP_RMA_WRITE, .length = 4096 };
	int ok = -1;

	if (a < 0 || b < 0 || mr_reg(a, area, 4096, SUPERP_ACCESS_MASK, &here) ||
	    mr_reg(b, area + 8192, 4096, SUPERP_ACCESS_MASK, &there))
		goto out;
	area[4095] = 99;
	rma.key = here.key;
	rma.local_addr = here.addr;
	rma.remote_addr = there.rma_addr;
	if (send(a, "y", 1, 0) != 1 || recv(b, &byte, 1, 0) != 1 || byte != 'y' ||
	    rma_post(a, &rma) || completion_wait(a, &completion, 10000))
		goto out;
	ok = completion.error || area[8192 + 4095] != 99;
out:
	close(a);
	close(b);
	return ok;
}

TEST_F_TIMEOUT(traffic, initiator_is_killed, slowly(120))
{
	int encap = self->options.encap, round;
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (round = 0; round < 5; round++) {
		pid_t target, initiator;

		memset(shared, 0, sizeof(*shared));
		target = fork();
		if (!target)
			be_target(shared, encap);
		EXPECT_EQ(0, wait_ready(shared, 1));
		initiator = fork();
		if (!initiator)
			be_initiator(shared, encap);
		EXPECT_EQ(0, wait_ready(shared, 2));
		usleep(20000 * round);
		kill_and_reap(initiator);
		EXPECT_EQ(0, objects(&node_a));
		kill_and_reap(target);
		EXPECT_EQ(0, objects(&node_b));
	}
	EXPECT_EQ(0, still_works(encap));
}

TEST_F_TIMEOUT(traffic, target_is_killed, slowly(120))
{
	int encap = self->options.encap, round;
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct superp_completion completion;
	struct superp_mr_reg reg;
	uint8_t *area = memory(AREA);
	int fd = superp_open(&node_a, QPN_A, &node_b, encap, QPN_B);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, area, AREA, SUPERP_ACCESS_MASK, &reg));
	for (round = 0; round < 5; round++) {
		struct superp_rma rma = { .key = reg.key, .local_addr = reg.addr };
		bool last_refused = false;
		unsigned int i;
		pid_t target;

		memset(shared, 0, sizeof(*shared));
		target = fork();
		if (!target)
			be_target(shared, encap);
		ASSERT_EQ(0, wait_ready(shared, 1));
		rma.remote_addr = shared->rma_addr;
		rma.length = AREA;
		for (i = 0; i < 41; i++) {
			rma.op = i % 2 ? SUPERP_RMA_READ : SUPERP_RMA_WRITE;
			rma.token = i;
			if (i == 20)
				ASSERT_EQ(0, kill(target, SIGKILL));
			if (i == 40)
				ASSERT_EQ(target, waitpid(target, NULL, 0));
			ASSERT_EQ(0, rma_post(fd, &rma));
		}
		/* Each ends, and those that came too late end with a name. */
		for (i = 0; i < 41; i++) {
			ASSERT_EQ(0, completion_wait(fd, &completion, 20000));
			if (!completion.error)
				continue;
			ASSERT_EQ(EACCES, completion.error);
			last_refused |= completion.token == 40;
		}
		EXPECT_TRUE(last_refused);
		EXPECT_EQ(-1, completion_take(fd, &completion));
		EXPECT_EQ(0, objects(&node_b));
	}
	close(fd);
	EXPECT_EQ(0, still_works(encap));
}

/* Messages of a socket that is closed at once are delivered all the same. */
TEST_F(traffic, closed_socket__has_sent)
{
	int encap = self->options.encap;
	int b = superp_open(&node_b, QPN_B, &node_a, encap, 0);
	static char message[50000], in[50000];
	int a, i;

	ASSERT_LE(0, b);
	a = superp_open(&node_a, 0, &node_b, encap, QPN_B);
	ASSERT_LE(0, a);
	for (i = 0; i < 4; i++) {
		pattern_fill(message, sizeof(message), i);
		ASSERT_EQ((ssize_t)sizeof(message), send(a, message, sizeof(message), 0));
	}
	close(a);
	for (i = 0; i < 4; i++) {
		ASSERT_EQ((ssize_t)sizeof(message), recv(b, in, sizeof(in), 0));
		EXPECT_EQ(-1, pattern_check(in, sizeof(in), i));
	}
	close(b);
}

/* Its messages go again for as long as the peer has no buffer, but not for ever: nobody waits for them any more. */
TEST_F_TIMEOUT(traffic, closed_socket__gives_up_on_who_does_not_receive, slowly(90))
{
	int encap = self->options.encap;
	uint64_t packets, before = 0;
	static char message[3000];
	int a, b, i;

	b = superp_open(&node_b, QPN_B, &node_a, encap, 0);
	ASSERT_LE(0, b);
	ASSERT_EQ(0, superp_set(b, SO_RCVBUF, 30000));
	a = superp_open(&node_a, 0, &node_b, encap, QPN_B);
	ASSERT_LE(0, a);
	/* Each is given up by itself, after two seconds: a few are left. */
	ASSERT_EQ(0, superp_set(a, SO_SNDBUF, 8000));
	for (i = 0; superp_poll(a, POLLOUT, 300) & POLLOUT; i++) {
		ASSERT_GT(1000, i);
		if (send(a, message, sizeof(message), MSG_DONTWAIT) < 0)
			ASSERT_EQ(EAGAIN, errno);
	}
	close(a);
	packets = conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_PACKETS);
	/* They went again: this is not the end of a burst. */
	for (i = 0; i < slowly(60) && packets != before; i++) {
		before = packets;
		sleep(1);
		packets = conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_PACKETS);
	}
	EXPECT_LE(2, i);
	EXPECT_EQ(before, packets);
	close(b);
}

/* Runs last, for it takes the nodes away. */
TEST_F_TIMEOUT(traffic, zz_namespace_is_deleted, slowly(120))
{
	int encap = self->options.encap;
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t target, initiator;

	target = fork();
	if (!target)
		be_target(shared, encap);
	ASSERT_EQ(0, wait_ready(shared, 1));
	initiator = fork();
	if (!initiator)
		be_initiator(shared, encap);
	ASSERT_EQ(0, wait_ready(shared, 2));
	/* B's goes with its process and with the name; A runs into the void, then goes too. */
	close(node_b.netns);
	ASSERT_EQ(0, run("ip netns delete %s", node_b.name));
	kill_and_reap(target);
	usleep(200000);
	kill_and_reap(initiator);
	EXPECT_EQ(0, objects(&node_a));
}

SUPERP_TEST_MAIN
