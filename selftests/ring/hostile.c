// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that do not keep the contract: threads that write random bytes all
 * over their rings while these are in use. Beside them an innocent context
 * works on the same connection, and its data must be right.
 */
#include "superp_vandal.h"

#define SECONDS 4
#define WAIT_MS 60000

FIXTURE(hostile)
{
	int cid;
	struct context a, b;
	struct cq cq, recv_cq;
	struct qp qp, peer;
	uint8_t *local, *remote;
	struct superp_mr_reg local_mr, remote_mr;
};

FIXTURE_SETUP(hostile)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	ASSERT_EQ(0, context_open(&self->a, &node_a));
	ASSERT_EQ(0, context_open(&self->b, &node_b));
	ASSERT_EQ(0, cq_create(&self->a, &self->cq, ENTRIES));
	ASSERT_EQ(0, cq_create(&self->b, &self->recv_cq, ENTRIES));
	ASSERT_EQ(0, qp_create(&self->a, &self->qp, &self->cq, ENTRIES, NULL, 0));
	ASSERT_EQ(0, qp_create(&self->b, &self->peer, &self->recv_cq, 1, &self->recv_cq, 4));
	ASSERT_EQ(0, qp_connect(&self->a, &self->qp, &node_b, options.encap, self->peer.qpn));
	ASSERT_EQ(0, qp_connect(&self->b, &self->peer, &node_a, options.encap, 0));
	self->local = mr_memory(self->a.fd, AREA, ALL, &self->local_mr);
	self->remote = mr_memory(self->b.fd, AREA, ALL, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
}

FIXTURE_TEARDOWN(hostile)
{
	context_close(&self->a);
	context_close(&self->b);
	conn_down(self->cid);
}

/* One write and one message of the innocent; 0: everything is as it should be. */
static int innocent(struct __test_metadata *_metadata, FIXTURE_DATA(hostile) *self, uint32_t i)
{
	uint32_t size = 64 + i * 977 % 30000;
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->local_mr, i % 999,
					 &self->remote_mr, i % 888, size);
	struct superp_rqe buffer = {
		.addr = self->remote_mr.addr + AREA / 2,
		.key = self->remote_mr.key,
		.length = size,
		.token = i,
	};
	struct superp_cqe completion;

	pattern_fill(self->local + i % 999, size, i);
	memset(self->remote, 0, AREA);
	entry.token = 2 * i;
	ASSERT_EQ(0, post(&self->a, &self->qp, &entry));
	ASSERT_EQ(true, cq_wait(&self->cq, &completion, WAIT_MS));
	ASSERT_EQ(2 * i, completion.token);
	ASSERT_EQ(0, completion.major);
	ASSERT_EQ(-1, pattern_check(self->remote + i % 888, size, i));

	entry.opcode = SUPERP_OP_SEND;
	entry.token++;
	entry.remote_addr = 0;
	ASSERT_EQ(true, rq_put(&self->peer, &buffer));
	ASSERT_EQ(0, post(&self->a, &self->qp, &entry));
	ASSERT_EQ(true, cq_wait(&self->recv_cq, &completion, WAIT_MS));
	ASSERT_EQ(i, completion.token);
	ASSERT_EQ(size, completion.length);
	ASSERT_EQ(0, completion.major);
	ASSERT_EQ(true, cq_wait(&self->cq, &completion, WAIT_MS));
	ASSERT_EQ(2 * i + 1, completion.token);
	ASSERT_EQ(0, completion.major);
	ASSERT_EQ(-1, pattern_check(self->remote + AREA / 2, size, i));
	return 0;
}

TEST_F_TIMEOUT(hostile, scribbled_rings__hurt_nobody_else, slowly(60))
{
	uint32_t rounds = 0;
	time_t end;
	int told[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe2(told, O_CLOEXEC));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(told[1]);
		_exit(vandals(told[0], 88172645463325252ull, NULL));
	}
	close(told[0]);
	end = time(NULL) + SECONDS;
	while (time(NULL) < end)
		ASSERT_EQ(0, innocent(_metadata, self, rounds++));
	TH_LOG("%u rounds beside it", rounds);
	close(told[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(true, WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ(0, innocent(_metadata, self, rounds));
}

TEST_F_TIMEOUT(hostile, killed_in_the_middle__leaves_nothing, slowly(60))
{
	int told[2], status, i;
	pid_t pid;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pipe2(told, O_CLOEXEC));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(told[1]);
			_exit(vandals(told[0], 4101842887655102017ull + i, NULL));
		}
		close(told[0]);
		usleep(300000);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(true, WIFSIGNALED(status));
		close(told[1]);
		ASSERT_EQ(0, innocent(_metadata, self, i));
	}
	/* Of both nodes only the innocent's queue pairs and regions are left. */
	EXPECT_EQ(1, node_count(&node_a, SUPERP_A_NODE_QPS));
	EXPECT_EQ(1, node_count(&node_b, SUPERP_A_NODE_QPS));
	EXPECT_EQ(1, node_count(&node_a, SUPERP_A_NODE_REGIONS));
	EXPECT_EQ(1, node_count(&node_b, SUPERP_A_NODE_REGIONS));
}

SUPERP_TEST_MAIN
