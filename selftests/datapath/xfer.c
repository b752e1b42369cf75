// SPDX-License-Identifier: GPL-2.0
/*
 * Moves data from one node to another and looks at every byte of it; the tests
 * of this folder and of robust/ run it. Not a test by itself.
 *
 *	xfer each NODE TARGET ADDRESS CID OPERATIONS SIZE…
 *		each operation (of "write,read,send") with each size, one at a time
 *	xfer mixed NODE TARGET ADDRESS CID OPERATIONS COUNT MAX DEPTH
 *		COUNT operations of random kinds and sizes up to MAX, DEPTH under way
 *	xfer damaged (the same arguments)
 *		likewise over a link that may change data: only what lies outside the
 *		regions, and that every request ends, is looked at
 *	xfer refusals NODE TARGET ADDRESS CID
 *		accesses that the target must refuse, and that nothing has changed then
 *	xfer op NODE ADDRESS CID write|read|send|keyed REMOTE LENGTH [FILE]
 *		one request with any RMA address, or to any queue pair, or to any
 *		receive context (key << 32 | offset); FILE is the local memory; without
 *		it LENGTH is 0
 *	xfer serve NODE FILE ACCESS
 *		registers FILE, less GUARD + ODD bytes at both ends, as a region,
 *		prints "QPN RMA-ADDRESS KEY", and until its input ends a line "LENGTH
 *		CRC" for each message it gets, or "at OFFSET LENGTH" if it is placed;
 *		with "i" in ACCESS each has immediate data: "LENGTH number NUMBER"
 *
 * NODE is the namespace of the initiator, TARGET that of its peer, ADDRESS the
 * peer's, CID the connection's number at NODE. Memory of both ends lies between
 * guard bytes, at odd addresses, and is compared as a whole.
 *
 * Exit status: 0 all moved and right; 1 wrong, or not ended within its time;
 * 2 wrong use; 3 requests failed (each with a named error, printed), and all
 * that did not fail is right.
 */
#include <time.h>

#define SUPERP_TEST_PLAIN
#include "superp_test.h"

/* How long anything may take, in ms; longer than a connection lives without its peer. */
#define LIMIT_MS	30000
#define GUARD		4096
#define GUARD_BYTE	0xa5
#define ODD		13
#define MAX_DEPTH	64

/* What initiator and target share. */
struct shared {
	bool		ready, failed, stop;
	uint32_t	qpn;
	struct superp_mr_reg region, read_only, write_only, released;
	uint64_t	messages;	/* received and right */
	uint64_t	seed;
	uint32_t	min, max;	/* lengths of messages */
	uint32_t	exact;		/* the length of the one that is expected, if not ~0 */
	char		error[256];
};

/* Memory between guards. */
struct area {
	uint8_t	*whole;
	uint8_t	*at;
	size_t	len;
};

static struct shared *shared;
static struct area target, local;
static uint32_t cid;
static pid_t child;
static bool damaged;

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	if (child > 0)
		kill(child, SIGKILL);
	exit(1);
}

/* xorshift64*: the same numbers from the same seed at both ends. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static void fill(void *buffer, size_t len, uint64_t seed)
{
	uint8_t *bytes = buffer;
	uint64_t value;
	size_t i;

	seed = seed * 0x9e3779b97f4a7c15ull | 1;
	for (i = 0; i + 8 <= len; i += 8) {
		value = next(&seed);
		memcpy(bytes + i, &value, 8);
	}
	value = next(&seed);
	memcpy(bytes + i, &value, len - i);
}

static void area_make(struct area *area, size_t len, int flags)
{
	size_t whole = len + 2 * GUARD + ODD;

	area->whole = mmap(NULL, whole, PROT_READ | PROT_WRITE,
			   flags | MAP_ANONYMOUS, -1, 0);
	if (area->whole == MAP_FAILED)
		fail("no memory for %zu bytes", whole);
	memset(area->whole, GUARD_BYTE, whole);
	area->at = area->whole + GUARD + ODD;
	area->len = len;
}

static void area_check(const struct area *area, const char *whose)
{
	const uint8_t *end = area->at + area->len;
	size_t i;

	for (i = 0; i < GUARD + ODD; i++)
		if (area->whole[i] != GUARD_BYTE)
			fail("%s memory %zu bytes before the region was changed",
			     whose, GUARD + ODD - i);
	for (i = 0; i < GUARD; i++)
		if (end[i] != GUARD_BYTE)
			fail("%s memory %zu bytes after the region was changed",
			     whose, i);
}

static void same(const void *found, const void *wanted, size_t len,
		 const char *what)
{
	const uint8_t *a = found, *b = wanted;
	size_t i;

	if (!memcmp(a, b, len))
		return;
	for (i = 0; a[i] == b[i]; i++)
		;
	fail("%s: byte %zu of %zu is %02x instead of %02x", what, i, len, a[i], b[i]);
}

static int socket_in(const char *name)
{
	struct node node = {};
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	node.netns = open(path, O_RDONLY | O_CLOEXEC);
	if (node.netns < 0)
		fail("no node %s", name);
	fd = superp_socket(&node);
	if (fd < 0)
		fail("socket: %s", strerror(errno));
	close(node.netns);
	return fd;
}

static void peer_name(struct sockaddr_superp *name, const char *address,
		      uint32_t qpn)
{
	char mapped[64];

	*name = superp_name(NULL, 0, qpn);
	name->ssp_cid = cid;
	snprintf(mapped, sizeof(mapped), "%s%s",
		 strchr(address, ':') ? "" : "::ffff:", address);
	if (inet_pton(AF_INET6, mapped, name->ssp_addr) != 1)
		fail("no address: %s", address);
}

static int connected(const char *node, const char *address, uint32_t qpn)
{
	struct sockaddr_superp name;
	int fd = socket_in(node);

	peer_name(&name, address, qpn);
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)))
		fail("connect to %s, connection %u: %s", address, cid,
		     strerror(errno));
	return fd;
}

static void reg(int fd, const struct area *area, uint32_t access,
		struct superp_mr_reg *region)
{
	if (mr_reg(fd, area->at, area->len, access, region))
		fail("registering %zu bytes: %s", area->len, strerror(errno));
}

/*
 * ---- the target ----
 */

static void __attribute__((noreturn)) target_fail(const char *what, long value)
{
	snprintf(shared->error, sizeof(shared->error),
		 "message %llu at the target: %s (%ld)",
		 (unsigned long long)shared->messages, what, value);
	__atomic_store_n(&shared->failed, true, __ATOMIC_RELEASE);
	exit(1);
}

/* Length and content of a message follow from its number. */
static uint32_t message_make(uint64_t number, uint8_t *bytes)
{
	uint64_t state = (shared->seed + number) * 0x9e3779b97f4a7c15ull | 1;
	uint32_t len = shared->exact;

	if (len == ~0u)
		len = shared->min + next(&state) % (shared->max - shared->min + 1);
	fill(bytes, len, shared->seed + number);
	return len;
}

static void __attribute__((noreturn)) target_run(const char *node)
{
	size_t room = shared->max + 1;
	uint8_t *wanted = malloc(room), *found = malloc(room);
	int fd = socket_in(node);

	if (!wanted || !found || superp_bind(fd, 0))
		target_fail("bind", errno);
	superp_set(fd, SO_RCVBUF, 4 << 20);
	reg(fd, &target, SUPERP_ACCESS_REMOTE_READ | SUPERP_ACCESS_REMOTE_WRITE,
	    &shared->region);
	reg(fd, &target, SUPERP_ACCESS_REMOTE_READ, &shared->read_only);
	reg(fd, &target, SUPERP_ACCESS_REMOTE_WRITE, &shared->write_only);
	reg(fd, &target, SUPERP_ACCESS_REMOTE_READ | SUPERP_ACCESS_REMOTE_WRITE,
	    &shared->released);
	if (mr_dereg(fd, shared->released.key))
		target_fail("release", errno);

	struct superp_qp_info info = {};

	if (ioctl(fd, SUPERP_IOC_QP_INFO, &info))
		target_fail("SUPERP_IOC_QP_INFO", errno);
	shared->qpn = info.qpn;
	__atomic_store_n(&shared->ready, true, __ATOMIC_RELEASE);

	while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
		ssize_t len;
		uint32_t want;

		if (!(superp_poll(fd, POLLIN, 20) & POLLIN))
			continue;
		len = recv(fd, found, room, MSG_DONTWAIT | MSG_TRUNC);
		if (len < 0)
			target_fail("recv", errno);
		want = message_make(shared->messages, wanted);
		if (len != want)
			target_fail("wrong length", len);
		if (memcmp(wanted, found, want))
			target_fail("wrong content of its length", len);
		__atomic_fetch_add(&shared->messages, 1, __ATOMIC_RELEASE);
	}
	exit(0);
}

static void target_start(const char *node, size_t len, uint32_t max)
{
	long end = now_ms() + LIMIT_MS;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("no memory");
	shared->seed = (uint64_t)getpid() << 32 | cid;
	shared->max = max;
	shared->exact = ~0u;
	area_make(&target, len, MAP_SHARED);
	child = fork();
	if (!child) {
		child = -1;
		target_run(node);
	}
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE)) {
		if (shared->failed)
			fail("%s", shared->error);
		if (now_ms() > end || waitpid(child, NULL, WNOHANG))
			fail("the target did not start");
		usleep(1000);
	}
}

static void target_end(void)
{
	int status;

	__atomic_store_n(&shared->stop, true, __ATOMIC_RELEASE);
	waitpid(child, &status, 0);
	child = 0;
	if (shared->failed)
		fail("%s", shared->error);
	area_check(&target, "target");
}

static void messages_wait(uint64_t count)
{
	long end = now_ms() + LIMIT_MS;

	while (__atomic_load_n(&shared->messages, __ATOMIC_ACQUIRE) < count) {
		if (shared->failed)
			fail("%s", shared->error);
		if (now_ms() > end)
			fail("%llu messages of %llu arrived",
			     (unsigned long long)shared->messages,
			     (unsigned long long)count);
		usleep(200);
	}
}

/*
 * ---- the initiator ----
 */

static int post(int fd, int op, const struct superp_mr_reg *region,
		void *at, uint64_t remote, uint32_t len, uint64_t token)
{
	struct superp_rma rma = {
		.op = op,
		.key = region->key,
		.local_addr = (uintptr_t)at,
		.remote_addr = remote,
		.length = len,
		.token = token,
	};

	return rma_post(fd, &rma);
}

static void completion(int fd, struct superp_completion *done)
{
	long end = now_ms() + LIMIT_MS;

	/* POLLERR may be the connection's end, which the completions then repeat. */
	while (completion_wait(fd, done, end - now_ms()))
		if (errno != EAGAIN || !superp_error(fd))
			fail("no completion: %s", strerror(errno));
}

static bool has(const char *operations, const char *name)
{
	return strstr(operations, name);
}

static struct superp_qp_info limits(int fd)
{
	struct superp_qp_info info = {};

	if (ioctl(fd, SUPERP_IOC_QP_INFO, &info))
		fail("SUPERP_IOC_QP_INFO: %s", strerror(errno));
	return info;
}

static void write_one(int fd, const struct superp_mr_reg *mine, uint32_t len)
{
	/* The last bytes of the region: what goes too far hits the guard. */
	size_t offset = target.len - len;
	uint8_t *model = malloc(target.len);
	struct superp_completion done;

	memcpy(model, target.at, target.len);
	fill(local.at, len, shared->seed ^ len ^ 1);
	memcpy(model + offset, local.at, len);
	if (post(fd, SUPERP_RMA_WRITE, mine, local.at,
		 shared->region.rma_addr + offset, len, len))
		fail("write of %u: %s", len, strerror(errno));
	completion(fd, &done);
	if (done.error || done.token != len || done.length != len ||
	    done.op != SUPERP_RMA_WRITE)
		fail("write of %u: code %u.%u, error %u, token %llu, length %u",
		     len, done.major, done.minor, done.error,
		     (unsigned long long)done.token, done.length);
	same(target.at, model, target.len, "written");
	area_check(&target, "target");
	free(model);
}

static void read_one(int fd, const struct superp_mr_reg *mine, uint32_t len)
{
	size_t offset = target.len - len;
	struct superp_completion done;
	uint8_t *model = malloc(local.len);

	fill(target.at, target.len, shared->seed ^ len ^ 2);
	memset(local.at, 0x5a, local.len);
	memcpy(model, local.at, local.len);
	memcpy(model + (local.len - len), target.at + offset, len);
	if (post(fd, SUPERP_RMA_READ, mine, local.at + local.len - len,
		 shared->region.rma_addr + offset, len, len))
		fail("read of %u: %s", len, strerror(errno));
	completion(fd, &done);
	if (done.error || done.token != len || done.length != len ||
	    done.op != SUPERP_RMA_READ)
		fail("read of %u: code %u.%u, error %u", len, done.major,
		     done.minor, done.error);
	same(local.at, model, local.len, "read");
	area_check(&local, "own");
	free(model);
}

static void send_one(int fd, uint32_t len, uint8_t *bytes)
{
	uint64_t count = shared->messages + 1;

	shared->exact = len;
	message_make(shared->messages, bytes);
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail("send of %u: %s", len, strerror(errno));
	messages_wait(count);
}

static int each(const char *node, const char *target_node, const char *address,
		const char *operations, int count, char **sizes)
{
	struct superp_mr_reg mine;
	uint32_t len, max = 64;
	uint8_t *bytes;
	int i, fd;

	for (i = 0; i < count; i++) {
		len = strtoul(sizes[i], NULL, 0);
		max = len > max ? len : max;
	}
	target_start(target_node, max, max);
	fd = connected(node, address, shared->qpn);
	area_make(&local, max, MAP_PRIVATE);
	bytes = malloc(max);
	reg(fd, &local, SUPERP_ACCESS_LOCAL_WRITE, &mine);
	for (i = 0; i < count; i++) {
		len = strtoul(sizes[i], NULL, 0);
		if (has(operations, "write"))
			write_one(fd, &mine, len);
		if (has(operations, "read"))
			read_one(fd, &mine, len);
		if (has(operations, "send"))
			send_one(fd, len, bytes);
	}
	target_end();
	area_check(&local, "own");
	return 0;
}

/* Operations under way, each with its own part of both areas. */
struct slot {
	int		op;	/* 0: free */
	uint32_t	len;
	uint64_t	seed;
};

static struct slot slots[MAX_DEPTH];
static size_t part;
static unsigned int under_way, failed, first_error;

static void failure(unsigned int error)
{
	failed++;
	if (!first_error)
		first_error = error;
}

/* One completion, and what it says is true. */
static void mixed_complete(int fd, uint8_t *bytes)
{
	struct superp_completion done;
	struct slot *slot;
	uint8_t *mine, *theirs;

	completion(fd, &done);
	if (!done.op) {
		failure(done.error);
		return;
	}
	if (done.token >= MAX_DEPTH)
		fail("completion with token %llu", (unsigned long long)done.token);
	slot = &slots[done.token];
	if (slot->op != done.op || slot->len != done.length)
		fail("completion of operation %u, length %u, instead of %d, %u",
		     done.op, done.length, slot->op, slot->len);
	mine = local.at + done.token * part;
	theirs = target.at + done.token * part;
	slot->op = 0;
	under_way--;
	if (done.error) {
		failure(done.error);
		return;
	}
	if (damaged)
		return;
	fill(bytes, slot->len, slot->seed);
	if (done.op == SUPERP_RMA_WRITE)
		same(theirs, bytes, slot->len, "written");
	else
		same(mine, bytes, slot->len, "read");
}

static bool mixed_rma(int fd, const struct superp_mr_reg *mine, int op,
		      uint32_t len, uint64_t seed)
{
	struct slot *slot = slots;
	uint64_t token;

	while (slot->op)
		slot++;
	token = slot - slots;
	*slot = (struct slot){ .op = op, .len = len, .seed = seed };
	fill((op == SUPERP_RMA_WRITE ? local.at : target.at) + token * part,
	     len, seed);
	if (post(fd, op, mine, local.at + token * part,
		 shared->region.rma_addr + token * part, len, token)) {
		slot->op = 0;
		failure(errno);
		return false;
	}
	under_way++;
	return true;
}

static int mixed(const char *node, const char *target_node, const char *address,
		 const char *operations, unsigned int count, uint32_t max,
		 unsigned int depth)
{
	uint64_t random, messages = 0, moved = 0;
	struct superp_qp_info info;
	struct superp_mr_reg mine;
	unsigned int i;
	uint8_t *bytes;
	long start;
	int fd;

	if (!depth || depth > MAX_DEPTH || max < 16)
		fail("depth is 1 to %d, max at least 16", MAX_DEPTH);
	part = max;
	target_start(target_node, part * depth, max);
	fd = connected(node, address, shared->qpn);
	info = limits(fd);
	shared->min = info.min_message;
	shared->max = max < info.max_message ? max : info.max_message;
	random = shared->seed | 1;
	area_make(&local, part * depth, MAP_PRIVATE);
	bytes = malloc(max);
	reg(fd, &local, SUPERP_ACCESS_LOCAL_WRITE, &mine);
	start = now_ms();
	for (i = 0; i < count && !failed; i++) {
		uint32_t len = info.min_message +
			       next(&random) % (max - info.min_message + 1);
		int kind;

		do {
			kind = next(&random) % 3;
		} while (!has(operations, (const char *[]){ "send", "write", "read" }[kind]));
		if (!kind) {
			len = message_make(messages, bytes);
			if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
				failure(errno);
				break;
			}
			messages++;
		} else {
			while (under_way >= depth)
				mixed_complete(fd, bytes);
			if (!mixed_rma(fd, &mine, kind, len, next(&random)))
				break;
		}
		moved += len;
		while (superp_poll(fd, 0, 0) & POLLERR) {
			int error = 0;

			/* A broken connection raises POLLERR without a completion. */
			if (!under_way) {
				error = superp_error(fd);
				if (error) {
					failure(error);
					break;
				}
			}
			mixed_complete(fd, bytes);
		}
	}
	while (under_way)
		mixed_complete(fd, bytes);
	if (!failed)
		messages_wait(messages);
	start = now_ms() - start;
	target_end();
	area_check(&local, "own");
	printf("%u operations, %llu messages, %llu bytes in %ld ms", i,
	       (unsigned long long)messages, (unsigned long long)moved, start);
	if (failed)
		printf(", %u failed: %s", failed, strerror(first_error));
	putchar('\n');
	return failed ? 3 : 0;
}

/* One access that must be refused with this code, and change nothing. */
static void refused(int fd, const char *what, int op,
		    const struct superp_mr_reg *mine, uint64_t remote,
		    uint32_t len, unsigned int minor)
{
	uint8_t *before = malloc(target.len);
	struct superp_completion done;

	memcpy(before, target.at, target.len);
	memset(local.at, 0x77, local.len);
	if (post(fd, op, mine, local.at, remote, len, 7))
		fail("%s: %s", what, strerror(errno));
	completion(fd, &done);
	if (done.major != SUPERP_ERR_ACCESS || done.minor != minor ||
	    done.error != EACCES)
		fail("%s: code %u.%u, error %u, instead of 3.%u, %u", what,
		     done.major, done.minor, done.error, minor, EACCES);
	same(target.at, before, target.len, what);
	memset(before, 0x77, local.len);
	same(local.at, before, local.len, what);
	area_check(&target, "target");
	free(before);
}

/* Minor codes of "access refused" [proto 4.7]. */
enum { KEY = 1, BOUNDS, RIGHTS };

static int refusals(const char *node, const char *target_node,
		    const char *address)
{
	const uint32_t len = 20000;
	struct superp_mr_reg mine;
	uint64_t begin, end;
	int fd, op;

	target_start(target_node, len, len);
	fd = connected(node, address, shared->qpn);
	area_make(&local, len, MAP_PRIVATE);
	reg(fd, &local, SUPERP_ACCESS_LOCAL_WRITE, &mine);
	begin = shared->region.rma_addr;
	end = begin + len;
	fill(target.at, len, 99);
	for (op = SUPERP_RMA_WRITE; op <= SUPERP_RMA_READ; op++) {
		refused(fd, "a byte before the region", op, &mine, begin - 1, 16, BOUNDS);
		refused(fd, "a byte behind the region", op, &mine, end - 15, 16, BOUNDS);
		refused(fd, "right behind the region", op, &mine, end, 16, BOUNDS);
		refused(fd, "far behind the region", op, &mine, end + (1 << 20), 64, BOUNDS);
		refused(fd, "far before the region", op, &mine, begin & ~0xffffffffffull, 64, BOUNDS);
		refused(fd, "another key", op, &mine, begin ^ (1ull << 50), 64, KEY);
		refused(fd, "address 0", op, &mine, 0, 64, KEY);
		refused(fd, "the last address", op, &mine, ~0ull - 63, 64, KEY);
		refused(fd, "a released region", op, &mine, shared->released.rma_addr, 64, KEY);
	}
	refused(fd, "write to what is for reading", SUPERP_RMA_WRITE, &mine,
		shared->read_only.rma_addr, 64, RIGHTS);
	refused(fd, "read of what is for writing", SUPERP_RMA_READ, &mine,
		shared->write_only.rma_addr, 64, RIGHTS);
	/* Refusals are the requests' own: the connection still works. */
	write_one(fd, &mine, len);
	read_one(fd, &mine, len);
	target_end();
	return 0;
}

/*
 * ---- halves, for tests that play the other one ----
 */

static uint8_t *map_file(const char *path, size_t *len)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	void *at;

	if (file < 0)
		fail("%s: %s", path, strerror(errno));
	*len = lseek(file, 0, SEEK_END);
	at = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		fail("%s: %s", path, strerror(errno));
	close(file);
	return at;
}

static int op(const char *node, const char *address, const char *name,
	      uint64_t remote, uint32_t len, const char *path)
{
	struct superp_completion done;
	struct superp_mr_reg mine = {};
	bool keyed = !strcmp(name, "keyed");
	bool message = keyed || !strcmp(name, "send");
	struct superp_key key = { .key = remote >> 32, .offset = remote };
	int fd = connected(node, address, message && !keyed ? remote : 0);
	uint8_t *at = NULL;

	if (path) {
		local.at = map_file(path, &local.len);
		at = local.at;
		reg(fd, &local, SUPERP_ACCESS_LOCAL_WRITE, &mine);
	}
	if (keyed ? send_control(fd, SOL_SUPERP, SUPERP_CMSG_KEY, &key, sizeof(key), at, len) < 0 :
	    message ? send(fd, at, len, MSG_NOSIGNAL) < 0 :
		      post(fd, strcmp(name, "read") ? SUPERP_RMA_WRITE : SUPERP_RMA_READ,
			   &mine, at, remote, len, 1)) {
		printf("refused %s\n", strerrorname_np(errno));
		return 3;
	}
	if (message) {
		puts("sent");
		return 0;
	}
	completion(fd, &done);
	printf("completed %u.%u %s\n", done.major, done.minor,
	       done.error ? strerrorname_np(done.error) : "OK");
	return done.error ? 3 : 0;
}

static int serve(const char *node, const char *path, const char *access)
{
	static uint8_t message[1 << 20];
	const bool numbers = strchr(access, 'i');
	struct superp_qp_info info;
	struct superp_mr_reg region;
	int fd = socket_in(node);
	struct area file;
	uint32_t rights = 0;

	file.at = map_file(path, &file.len) + GUARD + ODD;
	file.len -= 2 * (GUARD + ODD);
	if (strchr(access, 'r'))
		rights |= SUPERP_ACCESS_REMOTE_READ;
	if (strchr(access, 'w'))
		rights |= SUPERP_ACCESS_REMOTE_WRITE;
	if (strchr(access, 's'))
		rights |= SUPERP_ACCESS_RECEIVE;
	if (superp_bind(fd, 0))
		fail("bind: %s", strerror(errno));
	reg(fd, &file, rights, &region);
	info = limits(fd);
	setlinebuf(stdout);
	printf("%u %llu %u\n", info.qpn, (unsigned long long)region.rma_addr, region.key);
	for (;;) {
		struct pollfd fds[] = { { .fd = 0, .events = POLLIN },
					{ .fd = fd, .events = POLLIN } };
		struct superp_key placed;
		ssize_t len;

		if (poll(fds, 2, -1) < 0)
			fail("poll: %s", strerror(errno));
		if (fds[0].revents)
			return 0;
		len = receive_control(fd, numbers ? SUPERP_CMSG_IMM : SUPERP_CMSG_KEY, &placed,
				      numbers ? sizeof(__u32) : sizeof(placed), message,
				      sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
		if (len < 0 || len > (ssize_t)sizeof(message))
			fail("recv: %s", strerror(errno));
		if (numbers)
			printf("%zd number %u\n", len, placed.key);
		else if (!placed.length)
			printf("%zd %08x\n", len, crc32(message, len));
		else if (!len && placed.key == region.key && !placed.rsvd)
			printf("at %u %u\n", placed.offset, placed.length);
		else
			fail("a message of another region: %#x", placed.key);
	}
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "serve") && argc == 5)
		return serve(argv[2], argv[3], argv[4]);
	if (argc < 6)
		goto usage;
	cid = strtoul(argv[strcmp(command, "op") ? 5 : 4], NULL, 0);
	if (!strcmp(command, "op") && (argc == 8 || argc == 9))
		return op(argv[2], argv[3], argv[5], strtoull(argv[6], NULL, 0),
			  strtoul(argv[7], NULL, 0), argc == 9 ? argv[8] : NULL);
	if (!strcmp(command, "each") && argc >= 8)
		return each(argv[2], argv[3], argv[4], argv[6], argc - 7, argv + 7);
	damaged = !strcmp(command, "damaged");
	if ((damaged || !strcmp(command, "mixed")) && argc == 10)
		return mixed(argv[2], argv[3], argv[4], argv[6], atoi(argv[7]),
			     strtoul(argv[8], NULL, 0), atoi(argv[9]));
	if (!strcmp(command, "refusals") && argc == 6)
		return refusals(argv[2], argv[3], argv[4]);
usage:
	fprintf(stderr, "xfer: wrong arguments, see the top of its source\n");
	return 2;
}
