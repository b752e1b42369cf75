// SPDX-License-Identifier: GPL-2.0
/*
 * Users without rights who do whatever the interface lets them: every ioctl with
 * random and edge arguments, every word of mapped rings, socket calls of all
 * kinds, netlink requests well-formed and not, also as the administrator of a
 * network namespace of their own. Each is in a user namespace of its own, with
 * limits near zero, and in the debug home allocations and copies of theirs fail.
 * Beside them a user works on the same nodes. What this user gets is compared.
 *
 * SUPERP_SEED=n gives the seed of the random numbers.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <grp.h>

#include "superp_attack.h"
#include "superp_vandal.h"

#define CGROUP "/sys/fs/cgroup/superp-hostile"
#define MEMLOCK (8 << 20)
#define USER 54400
#define ATTACKERS 5
#define LIVES_MS 2000
#define BLOCK 64
#define STALL_S 5
#define ALONE_S 2
#define MOST_TIMES 65536

/* The two of the victim, to which nobody else sends. */
static uint32_t victim_qpns[2];
/* The user that an attacker becomes. */
static uid_t nobody;
/* Of the attackers of each kind, who write them; they do not count what the rings do. */
static struct attack_tally *tallies;
/* Of the victim's small writes, in nanoseconds. */
static uint64_t times[MOST_TIMES];

/*
 * ---- rings and sockets ----
 */

/* No rights, a user namespace of its own, and memory near zero. */
static int become_nobody(void)
{
	struct rlimit limit = { MEMLOCK, MEMLOCK };

	if (run("echo %d >" CGROUP "/cgroup.procs", getpid()))
		return -1;
	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) ||
	    setresgid(nobody, nobody, nobody) ||
	    setresuid(nobody, nobody, nobody) || unshare(CLONE_NEWUSER))
		return -1;
	/* The first: else its own files in /proc would be root's. A change of user undoes both. */
	return prctl(PR_SET_DUMPABLE, 1) || prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void attack_rings(struct attacker *a)
{
	int told[2];

	if (!pipe2(told, O_CLOEXEC))
		vandals(told[0], a->random, become_nobody);
}

/* A user in one of the nodes. */
static int nobody_in_a_node(struct attacker *a)
{
	static const rlim_t limits[] = { 0, 4096, 65536, 1 << 20, MEMLOCK };
	struct rlimit limit;

	a->node = a->random & 1 ? &node_a : &node_b;
	a->peer = a->random & 1 ? &node_b : &node_a;
	if (node_enter(a->node) || become_nobody())
		return -1;
	limit.rlim_cur = limits[random_below(a, ARRAY_SIZE(limits))];
	limit.rlim_max = limit.rlim_cur;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return -1;
	failing_open(a);
	return 0;
}

static void attack_ioctls(struct attacker *a)
{
	if (!attacker_memory(a) && !nobody_in_a_node(a))
		for (;;)
			ioctl_any(a);
}

static void attack_sockets(struct attacker *a)
{
	if (!attacker_memory(a) && !nobody_in_a_node(a))
		for (;;)
			socket_any(a);
}

static void attack_netlink(struct attacker *a)
{
	if (!attacker_memory(a) && !nobody_in_a_node(a) && !netlink_open(a))
		for (;;)
			netlink_any(a);
}

/* A network namespace of its own, where it may do everything, and does the rest, too. */
static void attack_as_administrator(struct attacker *a)
{
	if (attacker_memory(a) || nobody_in_a_node(a) || unshare(CLONE_NEWNET) ||
	    netlink_open(a) || netlink_loopback(a))
		return;
	a->node = a->peer = NULL;
	for (;;) {
		netlink_any(a);
		if (!random_below(a, 4))
			netlink_loopback(a);
		socket_any(a);
		ioctl_any(a);
	}
}

static void (*const attacks[])(struct attacker *a) = {
	attack_ioctls, attack_sockets, attack_netlink, attack_as_administrator, attack_rings,
};
static const char *const names[] = { "ioctls", "sockets", "netlink", "administrator", "rings" };

/*
 * ---- the user beside them ----
 */

FIXTURE(hostile_user)
{
	int cid;
	struct ring_side a, b;
	uint64_t seed;
	pid_t attackers[ATTACKERS];
	long ends[ATTACKERS];
	uint64_t lives[ATTACKERS];
};

/* Blocking allocations may be made to fail, too; only the attackers ask for failures. */
static void failures_on(bool on)
{
	const char *const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		run("cd /sys/kernel/debug/%s 2>/dev/null || exit 0; echo 0 >verbose; "
		    "[ ! -e ignore-gfp-wait ] || echo %s >ignore-gfp-wait", kinds[i],
		    on ? "N" : "Y");
}

FIXTURE_SETUP(hostile_user)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };

	self->seed = attack_seed();
	TH_LOG("SUPERP_SEED=%llu", (unsigned long long)self->seed);
	failures_on(true);
	tallies = mmap(NULL, ATTACKERS * sizeof(*tallies), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, tallies);
	ASSERT_EQ(0, run("echo +memory >/sys/fs/cgroup/cgroup.subtree_control"));
	ASSERT_EQ(0, run("mkdir -p " CGROUP " && echo 8M >" CGROUP "/memory.max"));
	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, 16, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, 16, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, options.encap,
				self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, options.encap,
				self->a.qp.qpn));
	victim_qpns[0] = self->a.qp.qpn;
	victim_qpns[1] = self->b.qp.qpn;
}

FIXTURE_TEARDOWN(hostile_user)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
	run("rmdir " CGROUP);
	failures_on(false);
}

/* Waits without sleeping, so that short times can be compared. */
static bool completed(struct cq *cq, struct superp_cqe *entry)
{
	long end = now_ms() + 1000 * slowly(60);

	while (!cq_take(cq, entry)) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}
	return true;
}

/*
 * A small write, whose time is returned, in nanoseconds; a larger one, a read of what it wrote, and
 * a message. All bytes are compared.
 */
static uint64_t victim_round(struct __test_metadata *_metadata,
			     FIXTURE_DATA(hostile_user) *self, uint32_t i)
{
	uint32_t size = 64 + i * 977 % 30000;
	struct superp_sqe entries[] = {
		sqe_of(SUPERP_OP_WRITE, &self->a.mr, i % 99, &self->b.mr, i % 88, BLOCK),
		sqe_of(SUPERP_OP_WRITE, &self->a.mr, i % 99, &self->b.mr, i % 88, size),
		sqe_of(SUPERP_OP_READ, &self->a.mr, AREA / 2, &self->b.mr, i % 88, size),
		sqe_of(SUPERP_OP_SEND, &self->a.mr, i % 99, NULL, 0, size),
	};
	struct superp_rqe buffer = {
		.addr = self->b.mr.addr + AREA / 2,
		.key = self->b.mr.key,
		.length = size,
		.token = i,
	};
	struct superp_cqe completion;
	uint64_t first = 0, start;
	unsigned int n;

	pattern_fill(self->a.memory + i % 99, size, i);
	ASSERT_EQ(true, rq_put(&self->b.qp, &buffer));
	for (n = 0; n < ARRAY_SIZE(entries); n++) {
		entries[n].token = 4 * i + n;
		start = clock_now();
		ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entries[n]));
		ASSERT_EQ(true, completed(&self->a.send_cq, &completion));
		if (!n)
			first = clock_now() - start;
		ASSERT_EQ(4 * i + n, completion.token);
		ASSERT_EQ(0, completion.major);
		ASSERT_GE(1000 * slowly(STALL_S), (long)((clock_now() - start) / 1000000));
	}
	ASSERT_EQ(true, completed(&self->b.recv_cq, &completion));
	ASSERT_EQ(i, completion.token);
	ASSERT_EQ(size, completion.length);
	ASSERT_EQ(0, completion.major);
	ASSERT_EQ(-1, pattern_check(self->b.memory + i % 88, size, i));
	ASSERT_EQ(-1, pattern_check(self->b.memory + AREA / 2, size, i));
	ASSERT_EQ(-1, pattern_check(self->a.memory + AREA / 2, size, i));
	return first;
}

/* A child that has become an attacker has nothing of the victim's. */
static void forget(const FIXTURE_DATA(hostile_user) *victim)
{
	const struct ring_side *sides[] = { &victim->a, &victim->b };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sides); i++) {
		munmap(sides[i]->context.page, sizeof(*sides[i]->context.page));
		munmap(sides[i]->send_cq.map, sides[i]->send_cq.size);
		munmap(sides[i]->recv_cq.map, sides[i]->recv_cq.size);
		munmap(sides[i]->qp.map, sides[i]->qp.size);
		close(sides[i]->context.fd);
	}
}

/* Lets each attacker live for a while, and another come in its place. */
static int attackers_renew(FIXTURE_DATA(hostile_user) *self)
{
	unsigned int i;

	for (i = 0; i < ATTACKERS; i++) {
		struct attacker a = { .avoid = victim_qpns, .tally = &tallies[i] };
		pid_t *pid = &self->attackers[i];

		if (*pid && waitpid(*pid, NULL, WNOHANG) != *pid) {
			if (now_ms() < self->ends[i])
				continue;
			kill(*pid, SIGKILL);
			waitpid(*pid, NULL, 0);
		}
		/* Of the seed, the kind, and how many there were before. */
		a.random = (self->seed << 32 | self->lives[i]++ << 8 | i) * 0x9e3779b97f4a7c15;
		self->ends[i] = now_ms() + slowly(1) * (100 + random_below(&a, LIVES_MS));
		*pid = fork();
		if (*pid < 0)
			return -1;
		if (!*pid) {
			nobody = USER + i;
			forget(self);
			attacks[i](&a);
			_exit(0);
		}
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* The median of so many times, or of the last of them; those are in order then. */
static uint64_t median(uint64_t count)
{
	if (count > MOST_TIMES)
		count = MOST_TIMES;
	qsort(times, count, sizeof(*times), compare);
	return times[count / 2];
}

/* Waits until the node has @count of these. */
static bool left(const struct node *node, int attribute, int count)
{
	int i;

	for (i = 0; i < 300 * slowly(1) && node_count(node, attribute) != count; i++)
		usleep(100000);
	return node_count(node, attribute) == count;
}

TEST_F_TIMEOUT(hostile_user, others_go_on, attack_seconds() + slowly(120))
{
	uint32_t rounds = 0, count;
	uint64_t alone, meanwhile, took, worst = 0;
	time_t end;
	unsigned int i;

	end = time(NULL) + ALONE_S;
	for (count = 0; time(NULL) < end || !count; count++)
		times[count % MOST_TIMES] = victim_round(_metadata, self, rounds++);
	alone = median(count);
	end = time(NULL) + attack_seconds();
	for (count = 0; time(NULL) < end || !count; count++) {
		ASSERT_EQ(0, attackers_renew(self));
		took = victim_round(_metadata, self, rounds++);
		times[count % MOST_TIMES] = took;
		worst = took > worst ? took : worst;
	}
	for (i = 0; i < ATTACKERS; i++) {
		kill(self->attackers[i], SIGKILL);
		waitpid(self->attackers[i], NULL, 0);
	}
	meanwhile = median(count);
	TH_LOG("%u rounds; a write took %llu us alone, %llu us meanwhile (%.1f times), %llu us at most",
	       rounds, (unsigned long long)alone / 1000, (unsigned long long)meanwhile / 1000,
	       (double)meanwhile / alone, (unsigned long long)worst / 1000);
	victim_round(_metadata, self, rounds);
	/* The attackers did get somewhere. */
	for (i = 0; i < ATTACKERS - 1; i++) {
		TH_LOG("%s: %llu calls, %llu succeeded, in %llu something failed on demand",
		       names[i], (unsigned long long)tallies[i].calls,
		       (unsigned long long)tallies[i].good, (unsigned long long)tallies[i].failing);
		EXPECT_LT(0, tallies[i].good);
		EXPECT_LT(0, tallies[i].calls - tallies[i].good);
		if (!access("/sys/kernel/debug/failslab", F_OK))
			EXPECT_LT(0, tallies[i].failing);
	}
	/* Only what is the victim's is left. */
	EXPECT_TRUE(left(&node_a, SUPERP_A_NODE_QPS, 1));
	EXPECT_TRUE(left(&node_b, SUPERP_A_NODE_QPS, 1));
	EXPECT_TRUE(left(&node_a, SUPERP_A_NODE_REGIONS, 1));
	EXPECT_TRUE(left(&node_b, SUPERP_A_NODE_REGIONS, 1));
}

SUPERP_TEST_MAIN
