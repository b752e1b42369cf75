// SPDX-License-Identifier: GPL-2.0
/* Memory that users have the kernel keep: whom it is charged to, and where it ends. */
#include <sys/fsuid.h>

#include "superp_conn.h"

#define CGROUP "/sys/fs/cgroup/superp-charged"
#define MIB (1 << 20)
#define MESSAGE (16 * MIB)
#define LIMIT (64 * MIB)
#define USER 54327
/* Of the socket that a test makes itself. */
#define QPN_OWN 3003

static const struct conn_options sunh = { .encap = SUPERP_ENCAP_SUNH };

FIXTURE(charged)
{
	int cid;
	int a, b;
	void *out;
};

/* memory.current of the cgroup. */
static long charged(void)
{
	long bytes = -1;
	FILE *file = fopen(CGROUP "/memory.current", "r");

	if (file) {
		if (fscanf(file, "%ld", &bytes) != 1)
			bytes = -1;
		fclose(file);
	}
	return bytes;
}

/* Waits until the cgroup has at most @bytes, at most 20 s. */
static bool charged_at_most(long bytes)
{
	int i;

	for (i = 0; i < 2000 && charged() > bytes; i++)
		usleep(10000);
	return charged() <= bytes;
}

/* Sends a message of @len bytes to B without waiting. Returns 0 or the error. */
static int send_one(int fd, const void *data, size_t len, int qpn)
{
	struct sockaddr_superp to = superp_name(&node_b, SUPERP_ENCAP_SUNH, qpn);

	return sendto(fd, data, len, MSG_DONTWAIT, (void *)&to, sizeof(to)) < 0 ? errno : 0;
}

/*
 * A new socket of @user that sends one message and is closed. Returns 0 or the error. The owner of
 * a socket is the file system user. Entering the node takes the rights of root.
 */
static int send_and_close(int user, const void *data, size_t len)
{
	int fd, err;

	setfsuid(user);
	fd = superp_socket(&node_a);
	setfsuid(0);
	if (fd < 0)
		return errno;
	err = send_one(fd, data, len, QPN_B);
	close(fd);
	return err;
}

FIXTURE_SETUP(charged)
{
	self->cid = conn_id();
	ASSERT_EQ(0, run("echo +memory >/sys/fs/cgroup/cgroup.subtree_control"));
	ASSERT_EQ(0, run("mkdir -p " CGROUP));
	ASSERT_EQ(0, pair_up(self->cid, &sunh, &self->a, &self->b));
	/* The receiver never reads, and has room for one message. */
	ASSERT_EQ(0, setsockopt(self->b, SOL_SOCKET, SO_RCVBUF, &(int){ 1 }, sizeof(int)));
	self->out = memory(MESSAGE);
	ASSERT_NE(NULL, self->out);
	memset(self->out, 1, MESSAGE);
}

FIXTURE_TEARDOWN(charged)
{
	run("echo %d >/sys/fs/cgroup/cgroup.procs", getpid());
	node_param(&node_a, "tal_sndbuf_per_user", "268435456");
	close(self->a);
	close(self->b);
	conn_down(self->cid);
	run("rmdir " CGROUP);
}

/* Messages that wait are memory of the one who sent them, after the socket is closed, too. */
TEST_F_TIMEOUT(charged, messages_that_wait__are_the_senders_memory, slowly(60))
{
	long before;

	ASSERT_EQ(0, run("echo %d >" CGROUP "/cgroup.procs", getpid()));
	ASSERT_EQ(0, send_one(self->a, self->out, 1000, QPN_B));
	before = charged();
	ASSERT_LE(0, before);
	ASSERT_EQ(0, send_and_close(USER, self->out, MESSAGE));
	ASSERT_EQ(0, send_and_close(USER, self->out, MESSAGE));
	EXPECT_LE(before + 2 * MESSAGE - 2 * MIB, charged());
	conn_down(self->cid);
	/* Over veth, what has arrived is in the sender's pages until it is read. */
	close(self->b);
	self->b = superp_socket(&node_b);
	EXPECT_TRUE(charged_at_most(before + 2 * MIB)) {
		TH_LOG("%ld before, %ld afterwards", before, charged());
	}
}

/* Messages that nobody reads are memory of the one who made the socket that has them. */
TEST_F_TIMEOUT(charged, messages_that_nobody_reads__are_the_receivers_memory, slowly(60))
{
	void *in = memory(MESSAGE);
	long before;
	int i, fd;

	ASSERT_NE(NULL, in);
	ASSERT_EQ(0, run("echo %d >" CGROUP "/cgroup.procs", getpid()));
	fd = superp_socket(&node_b);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, superp_bind(fd, QPN_OWN));
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &(int){ 4 * MESSAGE }, sizeof(int)));
	before = charged();
	ASSERT_EQ(0, run("echo %d >/sys/fs/cgroup/cgroup.procs", getpid()));

	/* What one has read is given back, but for a little. */
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, send_one(self->a, self->out, MESSAGE, QPN_OWN));
		ASSERT_EQ(POLLIN, superp_poll(fd, POLLIN, 10000));
		EXPECT_LE(before + MESSAGE - 2 * MIB, charged());
		ASSERT_EQ(MESSAGE, recv(fd, in, MESSAGE, 0));
		ASSERT_EQ(0, memcmp(self->out, in, MESSAGE));
		EXPECT_TRUE(charged_at_most(before + 2 * MIB)) {
			TH_LOG("%ld before, %ld afterwards", before, charged());
		}
	}
	/* What one never reads goes with the socket. */
	ASSERT_EQ(0, send_one(self->a, self->out, MESSAGE, QPN_OWN));
	ASSERT_EQ(POLLIN, superp_poll(fd, POLLIN, 10000));
	close(fd);
	EXPECT_TRUE(charged_at_most(before + MIB)) {
		TH_LOG("%ld before, %ld afterwards", before, charged());
	}
}

/* So is a connection, which a user namespace can have thousands of. */
TEST_F_TIMEOUT(charged, a_connection__is_its_makers_memory, slowly(60))
{
	long before;

	conn_down(self->cid);
	ASSERT_EQ(0, node_param(&node_a, "pdl_window_size", "1024"));
	ASSERT_EQ(0, node_param(&node_a, "tal_trans_window", "1024"));
	ASSERT_EQ(0, run("echo %d >" CGROUP "/cgroup.procs", getpid()));
	before = charged();
	ASSERT_EQ(0, conn_up(self->cid, &sunh));
	EXPECT_LE(before + MIB / 2, charged());
	conn_down(self->cid);
	ASSERT_EQ(0, node_param(&node_a, "pdl_window_size", "32"));
	ASSERT_EQ(0, node_param(&node_a, "tal_trans_window", "32"));
}

/* Closed sockets do not lift the limit of their user, and are no trouble for another one. */
TEST_F_TIMEOUT(charged, closed_sockets__leave_no_more_than_the_limit, slowly(60))
{
	int i, refused = 0, err = 0;

	ASSERT_EQ(0, node_param(&node_a, "tal_sndbuf_per_user", "67108864"));
	for (i = 0; i < 200; i++) {
		int one = send_and_close(USER, self->out, MESSAGE);

		refused += !!one;
		err = one ?: err;
	}
	/* Those below the limit are taken; the receiver may have one more. */
	EXPECT_LE(200 - LIMIT / MESSAGE - 1, refused);
	EXPECT_GE(200 - LIMIT / MESSAGE + 1, refused);
	EXPECT_EQ(ENOBUFS, err);
	EXPECT_EQ(0, send_and_close(USER + 1, self->out, MESSAGE));
	EXPECT_EQ(ENOBUFS, send_and_close(USER, self->out, 1));
	/* What was refused is charged to nobody, and what ends makes room. */
	conn_down(self->cid);
	ASSERT_EQ(0, conn_up(self->cid, &sunh));
	for (i = 0; i < 1000 && (err = send_and_close(USER, self->out, 1)) == ENOBUFS; i++)
		usleep(10000);
	EXPECT_EQ(0, err);
}

SUPERP_TEST_MAIN
