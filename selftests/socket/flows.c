// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that wait for very many queue pairs of a peer: when their connection ends, others do not
 * notice.
 */
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "superp_conn.h"

#define FLOWS 48000
#define SOCKETS 12000
/* Connections that end at a time, and the first of their ids. */
#define CROWD 1000
#define CROWD_CID 61000
/* Messages of a system call. */
#define AT_ONCE 64

FIXTURE(flows)
{
	struct conn_options options;
	int cid;		/* of a connection whose peer is not there */
	int fds[SOCKETS];
	int count;		/* sockets */
};

FIXTURE_SETUP(flows)
{
	self->options.encap = SUPERP_ENCAP_SUNH;
	self->cid = conn_id();
	self->count = 0;
	ASSERT_EQ(0, conn_half(&node_a, &node_b, self->cid, self->cid + 1, &self->options));
}

FIXTURE_TEARDOWN(flows)
{
	while (self->count)
		close(self->fds[--self->count]);
	conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/*
 * @count empty messages, each to a queue pair of its own, from @qpn on, by as many sockets as that
 * takes. 0, or -1.
 */
static int spread(struct _test_data_flows *self, uint32_t qpn, unsigned int count)
{
	struct sockaddr_superp to[AT_ONCE];
	struct mmsghdr messages[AT_ONCE];
	int fd = -1;

	while (count) {
		unsigned int i;
		int sent = 0;

		for (i = 0; i < AT_ONCE; i++) {
			to[i] = superp_name(&node_b, self->options.encap, qpn + i);
			to[i].ssp_cid = self->cid;
			messages[i] = (struct mmsghdr) {
				.msg_hdr = { .msg_name = &to[i], .msg_namelen = sizeof(to[i]) },
			};
		}
		if (fd >= 0)
			sent = sendmmsg(fd, messages, count < i ? count : i, MSG_DONTWAIT);
		if (sent > 0) {
			qpn += sent;
			count -= sent;
			continue;
		}
		if (fd >= 0 && errno != EAGAIN) {
			perror("sendmmsg");
			return -1;
		}
		fd = superp_socket(&node_a);
		if (fd < 0 || self->count == SOCKETS) {
			perror("socket");
			return -1;
		}
		self->fds[self->count++] = fd;
	}
	return 0;
}

struct other {
	int		fd;
	atomic_bool	over;
	uint64_t	longest;	/* ns */
	unsigned int	rounds;
	int		status;
};

/* On the one processor that the test is kept to. */
static int stay(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/* A socket of @node, for round trips to @peer over this connection and no other. */
static int open_over(const struct node *node, uint32_t qpn, const struct node *peer, int encap,
		     uint32_t peer_qpn, int cid)
{
	struct sockaddr_superp to = superp_name(peer, encap, peer_qpn);
	int fd = superp_socket(node);

	to.ssp_cid = cid;
	if (fd < 0 || superp_bind(fd, qpn) || connect(fd, (void *)&to, sizeof(to))) {
		perror("open");
		return -1;
	}
	return fd;
}

/* Does a step again and again until it fails, or all is over, and measures the longest. */
static void repeat(struct other *other, int (*step)(struct other *other))
{
	while (!atomic_load(&other->over)) {
		uint64_t begin = now_ns(), took;

		other->status = step(other);
		if (other->status)
			break;
		took = now_ns() - begin;
		if (took > other->longest)
			other->longest = took;
		other->rounds++;
	}
}

static int round_trip(struct other *other)
{
	struct superp_rma nothing = { .op = SUPERP_RMA_WRITE };
	struct superp_completion completion;

	return rma_run(other->fd, &nothing, &completion);
}

/* Round trips over another connection, by the processor that has to end the requests. */
static void *goes_on(void *other)
{
	repeat(other, round_trip);
	return NULL;
}

TEST_F_TIMEOUT(flows, their_connection_goes__others_go_on, slowly(60))
{
	struct other other = {};
	pthread_t thread;
	uint64_t begin;
	int b, i;

	ASSERT_EQ(0, spread(self, 1000, FLOWS));
	ASSERT_EQ(0, stay());
	ASSERT_EQ(0, conn_up(self->cid + 2, &self->options));
	other.fd = open_over(&node_a, QPN_A, &node_b, self->options.encap, QPN_B, self->cid + 2);
	b = open_over(&node_b, QPN_B, &node_a, self->options.encap, QPN_A, self->cid + 3);
	ASSERT_LE(0, other.fd);
	ASSERT_LE(0, b);
	ASSERT_EQ(0, pthread_create(&thread, NULL, goes_on, &other));
	usleep(100000);
	begin = now_ns();
	ASSERT_EQ(0, conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid));
	TH_LOG("gone after %llu ms", (unsigned long long)(now_ns() - begin) / 1000000);
	usleep(100000);
	atomic_store(&other.over, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u round trips, the longest %llu us", other.rounds,
	       (unsigned long long)other.longest / 1000);
	EXPECT_EQ(0, other.status);
	EXPECT_LT(10, other.rounds);
	/* Under the lock, all at once, they took three seconds. */
	EXPECT_GT(slowly(1000) * 1000000ull, other.longest);
	/* Each socket is told. */
	for (i = 0; i < self->count; i++)
		EXPECT_EQ(ECONNRESET, superp_error(self->fds[i]));
	close(other.fd);
	close(b);
	conn_down(self->cid + 2);
}

static int take_rtnl(struct other *other)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_qlen = 1000 };

	return ioctl(other->fd, SIOCSIFTXQLEN, &request);
}

/* Takes RTNL, which the whole machine shares. */
static void *takes_rtnl(void *other)
{
	repeat(other, take_rtnl);
	return NULL;
}

/* A batch for the superp command: @count connections by a device of their own. */
static int write_batch(const char *path, int count)
{
	FILE *file = fopen(path, "w");
	int i;

	if (!file)
		return -1;
	for (i = 0; i < count; i++)
		fprintf(file, "conn add %d peer 10.99.0.2 peer-cid 1 local 10.99.0.1 dev crowd0\n"
			"conn start %d\n", CROWD_CID + i, CROWD_CID + i);
	return fclose(file);
}

/*
 * The device of many connections goes, at a node that has many sockets. Every socket is told of
 * each connection.
 */
TEST_F_TIMEOUT(flows, many_connections_break__others_go_on, slowly(60))
{
	struct rlimit files = { SOCKETS + 100, SOCKETS + 100 };
	struct sockaddr_superp to = superp_name(NULL, 0, QPN_B);
	const char *batch = "/tmp/flows.batch";
	struct other other = {};
	uint64_t begin, took;
	pthread_t thread;
	int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, node_param(&node_a, "pdl_conns_per_xpu", "4096"));
	ASSERT_EQ(0, run("ip -n %s link add crowd0 type veth peer crowd1", node_a.name));
	ASSERT_EQ(0, run("ip -n %s link set crowd0 up", node_a.name));
	ASSERT_EQ(0, run("ip -n %s link set crowd1 up", node_a.name));
	ASSERT_EQ(0, run("ip netns exec %s superp dev add crowd0 encap sunh", node_a.name));
	ASSERT_EQ(0, write_batch(batch, CROWD));
	ASSERT_EQ(0, run("ip netns exec %s superp batch %s", node_a.name, batch));
	memcpy(to.ssp_addr, (uint8_t[]){ [10] = 255, 255, 10, 99, 0, 2 }, 16);
	for (i = 0; i < SOCKETS; i++) {
		self->fds[i] = superp_socket(&node_a);
		ASSERT_LE(0, self->fds[i]);
		self->count++;
		ASSERT_EQ(0, superp_bind(self->fds[i], 100000 + i));
		to.ssp_cid = CROWD_CID + i % CROWD;
		ASSERT_EQ(0, connect(self->fds[i], (void *)&to, sizeof(to)));
	}
	other.fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, other.fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, takes_rtnl, &other));
	begin = now_ns();
	ASSERT_EQ(0, run("ip -n %s link del crowd0", node_a.name));
	/* Each socket is told of its connection. */
	for (i = 0; i < SOCKETS; i++) {
		ASSERT_TRUE(superp_poll(self->fds[i], POLLERR, slowly(10000)) & POLLERR);
		EXPECT_EQ(ECONNRESET, superp_error(self->fds[i]));
	}
	took = now_ns() - begin;
	atomic_store(&other.over, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("all were told in %llu us; RTNL was taken %u times, the longest took %llu us",
	       (unsigned long long)took / 1000, other.rounds,
	       (unsigned long long)other.longest / 1000);
	EXPECT_EQ(0, other.status);
	EXPECT_LT(10, other.rounds);
	/* When all sockets were told under RTNL, that was most of the time. */
	EXPECT_GT(took / 2, other.longest);
	close(other.fd);
	for (i = 0; i < CROWD; i++)
		conn_command(&node_a, SUPERP_CMD_CONN_DEL, CROWD_CID + i);
}

SUPERP_TEST_MAIN
