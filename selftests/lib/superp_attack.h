/* SPDX-License-Identifier: GPL-2.0 */
/* What a user can do at random: ioctls, socket calls, netlink requests. */
#ifndef SUPERP_ATTACK_H
#define SUPERP_ATTACK_H

#include "superp_ring.h"

#define ATTACK_SOCKETS 6
#define ATTACK_MAPS 8
#define ATTACK_AREA (1 << 18)
#define ATTACK_CID 9

/* What came of the calls of attackers of a kind. */
struct attack_tally {
	uint64_t	calls, good, failing;
};

/* A hostile user, who remembers a few things that were good. */
struct attacker {
	uint64_t	random;
	const uint32_t	*avoid;		/* two queue pairs to which it does not send */
	const struct node *node, *peer;	/* NULL: the network namespace is its own */
	int		sockets[ATTACK_SOCKETS];
	struct {
		void	*at;
		size_t	size;
		struct superp_ring sq;
		int	fd;
		uint32_t qp;
	} maps[ATTACK_MAPS];
	uint8_t		*area;		/* memory; the page behind it is not mapped */
	uint64_t	word;		/* of an answer of the kernel */
	struct superp_mr_reg mr;
	int		failing;	/* fail-nth of this thread; -1: there is none */
	bool		asked;		/* for a failure */
	struct attack_tally *tally;
	int		netlink, family;
};

/* xorshift64: the same numbers from the same seed. */
static inline uint64_t random_next(struct attacker *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return a->random;
}

static inline uint32_t random_below(struct attacker *a, uint32_t limit)
{
	return (random_next(a) >> 16) % limit;
}

/* A number that is often at an edge, small, a power of two, or one that the kernel gave. */
static inline uint64_t random_edge(struct attacker *a)
{
	switch (random_below(a, 8)) {
	case 0:
		return 0;
	case 1:
		return random_below(a, 5);
	case 2:
		return 1ull << random_below(a, 64);
	case 3:
		return (1ull << random_below(a, 64)) - 1;
	case 4:
		return -(uint64_t)random_below(a, 3);
	case 5:
		return a->word;
	case 6:
		return (uintptr_t)a->area + random_below(a, ATTACK_AREA);
	default:
		return random_next(a);
	}
}

/* How long an attack lasts, in seconds. */
static inline int attack_seconds(void)
{
	const char *thorough = getenv("SUPERP_THOROUGH");

	return thorough && !strcmp(thorough, "1") ? 3600 : 10;
}

/* The seed that is given, or 1, or with SUPERP_THOROUGH=1 another one each time. */
static inline uint64_t attack_seed(void)
{
	const char *given = getenv("SUPERP_SEED");

	if (given && strtoull(given, NULL, 0))
		return strtoull(given, NULL, 0);
	return attack_seconds() > 10 ? clock_now() | 1 : 1;
}

static inline int attacker_memory(struct attacker *a)
{
	a->failing = a->netlink = -1;
	memset(a->sockets, -1, sizeof(a->sockets));
	a->area = memory(ATTACK_AREA + page_size());
	if (!a->area || munmap(a->area + ATTACK_AREA, page_size()))
		return -1;
	/* A page that is not there yet would be one more place where memory is short. */
	memset(a->area, 0x5a, ATTACK_AREA);
	/* The first numbers of a small seed are small. */
	while (a->random >> 60 == 0)
		random_next(a);
	return 0;
}

/*
 * ---- failures ----
 */

/*
 * All pages of the process are there. Else one of its page faults might be what fails, which the
 * kernel reports.
 */
static inline void failing_populate(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char writable;

	if (!maps)
		return;
	while (fscanf(maps, "%lx-%lx %*c%c%*[^\n]", &from, &to, &writable) == 3)
		madvise((void *)from, to - from,
			writable == 'w' ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	fclose(maps);
}

static inline void failing_open(struct attacker *a)
{
	failing_populate();
	a->failing = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
}

/* Of what the next call allocates and copies, the nth fails, sometimes. */
static inline void failing_on(struct attacker *a)
{
	char text[8];

	a->asked = a->failing >= 0 && !random_below(a, 3);
	if (a->asked) {
		snprintf(text, sizeof(text), "%u", 1 + random_below(a, 24));
		a->asked = pwrite(a->failing, text, strlen(text), 0) > 0;
	}
}

/*
 * What the call has not reached does not fail any more. One of the two calls that see to that may be
 * what fails. Then there is nothing left.
 */
static inline long failing_off(struct attacker *a, long result)
{
	char left = '1';

	a->tally->calls++;
	a->tally->good += result != -1;
	if (a->asked && pread(a->failing, &left, 1, 0) == 1) {
		a->tally->failing += left == '0';
		if (left != '0' && pwrite(a->failing, "0", 1, 0) != 1)
			a->asked = false;
	}
	return result;
}

#define FAILING(a, call)	(failing_on(a), failing_off(a, (call)))

/*
 * ---- ioctls and rings ----
 */

static inline int *attack_socket(struct attacker *a)
{
	static const int types[] = { SOCK_SEQPACKET, SOCK_RDM, SOCK_RDM };
	int *fd = &a->sockets[random_below(a, ATTACK_SOCKETS)];
	bool odd = !random_below(a, 32);

	if (*fd >= 0 && !random_below(a, 64)) {
		close(*fd);
		*fd = -1;
	}
	if (*fd < 0)
		*fd = FAILING(a, socket(superp_family(),
					(odd ? random_below(a, 12) : types[random_below(a, 3)]) |
					SOCK_NONBLOCK | SOCK_CLOEXEC,
					odd ? random_below(a, 300) : 0));
	return fd;
}

/* A name that a call may succeed with, at least now and then. */
static inline struct sockaddr_superp attack_name(struct attacker *a)
{
	const struct node *to = random_below(a, 6) ? a->peer : a->node;
	struct sockaddr_superp name = superp_name(to, SUPERP_ENCAP_SUNH, random_below(a, 64));

	if (!to)
		inet_pton(AF_INET6, "::ffff:127.0.0.1", name.ssp_addr);
	if (!random_below(a, 8))
		name.ssp_qpn = random_edge(a);
	if (!random_below(a, 12))
		name.ssp_cid = random_edge(a);
	if (!random_below(a, 24))
		name.ssp_flags = random_edge(a);
	if (!random_below(a, 24))
		name.ssp_family = random_edge(a);
	if (!random_below(a, 24))
		name.ssp_addr[random_below(a, 16)] = random_next(a);
	if (name.ssp_qpn == a->avoid[0] || name.ssp_qpn == a->avoid[1])
		name.ssp_qpn = 1;
	return name;
}

static inline uint32_t attack_entries(struct attacker *a)
{
	return 1u << random_below(a, random_below(a, 8) ? 7 : 17);
}

/* A request that is right, so far as the attacker knows. */
static inline size_t ioctl_right(struct attacker *a, unsigned long command, void *at)
{
	uint32_t id = random_below(a, 4);

	memset(at, 0, 256);
	switch (command) {
	case SUPERP_IOC_MR_REG:
		*(struct superp_mr_reg *)at = (struct superp_mr_reg) {
			.addr = (uintptr_t)a->area + random_below(a, ATTACK_AREA / 2),
			.length = 1 + random_below(a, ATTACK_AREA / 2),
			.access = random_below(a, SUPERP_ACCESS_MASK + 1),
		};
		break;
	case SUPERP_IOC_MR_QUERY:
	case SUPERP_IOC_MR_DEREG:
		*(uint32_t *)at = a->mr.key;
		break;
	case SUPERP_IOC_CQ_CREATE:
		((struct superp_cq_create *)at)->entries = attack_entries(a);
		break;
	case SUPERP_IOC_SRQ_CREATE:
		*(struct superp_srq_create *)at = (struct superp_srq_create) {
			.entries = attack_entries(a),
			.segments = random_below(a, SUPERP_MAX_SEGMENTS + 1),
		};
		break;
	case SUPERP_IOC_RQP_CREATE:
		*(struct superp_rqp_create *)at = (struct superp_rqp_create) {
			.send_cq = id,
			.recv_cq = random_below(a, 4),
			.sq_entries = attack_entries(a),
			.rq_entries = random_below(a, 2) ? attack_entries(a) : 0,
			.sq_segments = random_below(a, SUPERP_MAX_SEGMENTS + 1),
			.qpn = random_below(a, 2) ? random_below(a, 64) : 0,
		};
		if (!random_below(a, 3)) {
			((struct superp_rqp_create *)at)->flags = SUPERP_RQP_SRQ;
			((struct superp_rqp_create *)at)->rq_entries = 0;
		}
		break;
	case SUPERP_IOC_RQP_CONNECT:
		*(struct superp_rqp_connect *)at = (struct superp_rqp_connect) {
			.qp = id,
			.peer = attack_name(a),
		};
		break;
	case SUPERP_IOC_RQP_MODIFY:
		*(struct superp_rqp_modify *)at = (struct superp_rqp_modify) {
			.qp = id,
			.state = SUPERP_QPS_ERR,
		};
		break;
	case SUPERP_IOC_CQ_EVENTFD:
	case SUPERP_IOC_SRQ_EVENTFD:
		*(struct superp_cq_eventfd *)at = (struct superp_cq_eventfd) {
			.cq = id,
			.fd = a->sockets[random_below(a, ATTACK_SOCKETS)],
		};
		break;
	case SUPERP_IOC_SERVE:
		((struct superp_serve *)at)->usec = 1 + random_below(a, 1000);
		break;
	default:
		*(uint32_t *)at = id;
	}
	return _IOC_SIZE(command);
}

/* The mapping of rings that were made, in place of another. */
static inline void ring_keep(struct attacker *a, int fd, uint64_t offset, uint64_t size,
			     const struct superp_rqp_create *qp)
{
	unsigned int slot = random_below(a, ATTACK_MAPS);

	if (a->maps[slot].at)
		munmap(a->maps[slot].at, a->maps[slot].size);
	a->maps[slot].at = ring_map(fd, offset, size);
	a->maps[slot].size = size;
	a->maps[slot].fd = fd;
	a->maps[slot].qp = qp ? qp->qp : 0;
	a->maps[slot].sq = qp ? qp->sq : (struct superp_ring) {};
}

/* Some words of a mapping get any value; a queue pair gets an entry, and the bell is rung. */
static inline void ring_any(struct attacker *a)
{
	unsigned int slot = random_below(a, ATTACK_MAPS), i;
	uint8_t *at = a->maps[slot].at;
	const struct superp_ring *sq = &a->maps[slot].sq;
	struct superp_ctx_page *page = NULL;
	int fd = a->maps[slot].fd;

	if (!at)
		return;
	for (i = random_below(a, 6); i; i--) {
		uint32_t words = random_below(a, 2) ? 64 : a->maps[slot].size / 4;

		((uint32_t *)at)[random_below(a, words)] = random_edge(a);
	}
	if (sq->entries && sq->array) {
		uint32_t *producer = (uint32_t *)(at + sq->producer);
		uint32_t *consumer = (uint32_t *)(at + sq->consumer);
		struct superp_sqe *entry = (void *)(at + sq->array);

		*producer = *consumer;
		entry[*producer & (sq->entries - 1)] = (struct superp_sqe) {
			.opcode = 1 + random_below(a, 7),
			.flags = random_below(a, SUPERP_SQE_MASK + 1),
			.length = random_below(a, 2) ? 8 : random_below(a, 1 << 17),
			.token = random_next(a),
			.remote_addr = random_below(a, 2) ? a->mr.rma_addr : random_edge(a),
			.local_key = a->mr.key,
			.local_addr = a->mr.addr,
		};
		*producer += 1 + !random_below(a, 16);
		page = ring_map(fd, 0, sizeof(*page));
		if (page)
			page->bell[a->maps[slot].qp / 64 % 16] |= 1ull << a->maps[slot].qp % 64;
	}
	FAILING(a, send(fd, NULL, 0, MSG_DONTWAIT | (random_below(a, 3) ? 0 : MSG_MORE)));
	if (page)
		munmap(page, sizeof(*page));
}

static inline void ioctl_any(struct attacker *a)
{
	static const unsigned long commands[] = {
		SUPERP_IOC_MR_REG, SUPERP_IOC_MR_QUERY, SUPERP_IOC_MR_DEREG, SUPERP_IOC_QP_INFO,
		SUPERP_IOC_CQ_CREATE, SUPERP_IOC_CQ_DESTROY, SUPERP_IOC_RQP_CREATE,
		SUPERP_IOC_RQP_CONNECT, SUPERP_IOC_RQP_DESTROY, SUPERP_IOC_SRQ_CREATE,
		SUPERP_IOC_SRQ_DESTROY, SUPERP_IOC_RQP_MODIFY, SUPERP_IOC_CQ_EVENTFD,
		SUPERP_IOC_SERVE, SUPERP_IOC_SRQ_EVENTFD, SUPERP_IOC_CQ_CREATE,
		SUPERP_IOC_RQP_CREATE, SUPERP_IOC_RQP_CONNECT,
	};
	unsigned long command = commands[random_below(a, sizeof(commands) / sizeof(*commands))];
	int fd = *attack_socket(a);
	void *at = a->area;
	size_t size, i;

	if (fd < 0)
		return;
	if (!random_below(a, 4)) {
		ring_any(a);
		return;
	}
	size = ioctl_right(a, command, at);
	for (i = random_below(a, 2) ? 0 : random_below(a, 6); i; i--)
		((uint32_t *)at)[random_below(a, size / 4)] = random_edge(a);
	if (!random_below(a, 24))
		command = _IOC(random_below(a, 4), SUPERP_IOC_MAGIC, random_below(a, 40),
			       random_below(a, 300));
	switch (random_below(a, 32)) {
	case 0:
		/* The end is not there. */
		at = memmove(a->area + ATTACK_AREA - size + 4, at, size - 4);
		break;
	case 1:
		at = (void *)(uintptr_t)random_edge(a);
		break;
	}
	if (FAILING(a, ioctl(fd, command, at)))
		return;
	if (at != a->area)
		return;
	memcpy(&a->word, a->area + 4 * random_below(a, size / 4 - 1), 8);
	if (command == SUPERP_IOC_MR_REG)
		a->mr = *(struct superp_mr_reg *)at;
	if (command == SUPERP_IOC_CQ_CREATE) {
		const struct superp_cq_create *made = at;

		ring_keep(a, fd, made->offset, made->size, NULL);
	} else if (command == SUPERP_IOC_SRQ_CREATE) {
		const struct superp_srq_create *made = at;

		ring_keep(a, fd, made->offset, made->size, NULL);
	} else if (command == SUPERP_IOC_RQP_CREATE) {
		const struct superp_rqp_create *made = at;

		ring_keep(a, fd, made->offset, made->size, made);
	}
}

/*
 * ---- socket calls ----
 */

/* A message with control messages that are right, nearly right, or not at all. */
static inline void send_any(struct attacker *a, int fd)
{
	struct sockaddr_superp name = attack_name(a);
	struct superp_atomic atomic = {
		.rma = {
			.op = random_below(a, 7),
			.flags = random_below(a, 3),
			.key = a->mr.key,
			.local_addr = a->mr.addr,
			.remote_addr = random_below(a, 2) ? a->mr.rma_addr : random_edge(a),
			.length = random_below(a, 2) ? 8 : random_below(a, 70000),
			.token = random_next(a),
		},
	};
	struct superp_key key = { .key = a->mr.key, .offset = random_below(a, 5000) };
	uint32_t imm = random_next(a);
	const struct control right[] = {
		{ SOL_SUPERP, SUPERP_CMSG_RMA, &atomic.rma, sizeof(atomic.rma) },
		{ SOL_SUPERP, SUPERP_CMSG_ATOMIC, &atomic, sizeof(atomic) },
		{ SOL_SUPERP, SUPERP_CMSG_IMM, &imm, sizeof(imm) },
		{ SOL_SUPERP, SUPERP_CMSG_KEY, &key, sizeof(key) },
		{ SOL_SUPERP, random_below(a, 8), a->area, random_below(a, 64) },
		{ SOL_SOCKET, random_below(a, 60), a->area, random_below(a, 24) },
	};
	union {
		char		buffer[512];
		struct cmsghdr	align;
	} room = {};
	struct iovec iov[2] = {
		{ a->area, random_below(a, 3) ? random_below(a, 3000) : 0 },
		{ a->area + random_below(a, 4000),
		  random_below(a, 3) ? 0 : random_below(a, 200000) },
	};
	struct msghdr msg = {
		.msg_name = random_below(a, 3) ? &name : NULL,
		.msg_namelen = random_below(a, 16) ? sizeof(name) : random_below(a, 40),
		.msg_iov = iov,
		.msg_iovlen = 1 + random_below(a, 2),
		.msg_control = &room,
	};
	unsigned int i;

	for (i = random_below(a, 3); i; i--) {
		const struct control *control =
			&right[random_below(a, sizeof(right) / sizeof(*right))];
		struct cmsghdr *cmsg = (void *)(room.buffer + msg.msg_controllen);

		cmsg->cmsg_level = control->level;
		cmsg->cmsg_type = control->type;
		cmsg->cmsg_len = CMSG_LEN(control->size);
		memcpy(CMSG_DATA(cmsg), control->data, control->size);
		msg.msg_controllen += CMSG_SPACE(control->size);
		if (control->type <= SUPERP_CMSG_ATOMIC) {
			/* Such a request has no data. */
			iov[0].iov_len = random_below(a, 16) ? 0 : 8;
			msg.msg_iovlen = 1;
		}
	}
	if (msg.msg_controllen && !random_below(a, 8))
		room.buffer[random_below(a, msg.msg_controllen)] = random_edge(a);
	if (!random_below(a, 16))
		msg.msg_controllen = random_below(a, sizeof(room));
	FAILING(a, sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL |
			   (random_below(a, 8) ? 0 : random_edge(a) & 0xffff)));
}

static inline void receive_any(struct attacker *a, int fd)
{
	struct sockaddr_superp name;
	char control[128];
	struct iovec iov = { a->area, random_below(a, ATTACK_AREA) };
	struct msghdr msg = {
		.msg_name = &name,
		.msg_namelen = random_below(a, 40),
		.msg_iov = &iov,
		.msg_iovlen = random_below(a, 2),
		.msg_control = control,
		.msg_controllen = random_below(a, sizeof(control)),
	};
	int flags = random_below(a, 2) ? MSG_ERRQUEUE : random_edge(a) & 0xffff;

	FAILING(a, recvmsg(fd, &msg, MSG_DONTWAIT | flags));
}

static inline void socket_any(struct attacker *a)
{
	struct sockaddr_superp name = attack_name(a);
	socklen_t len = random_below(a, 8) ? sizeof(name) : random_below(a, 64);
	int fd = *attack_socket(a), level, option, pipes[2];
	struct superp_mr_reg reg;
	void *at;

	if (fd < 0)
		return;
	level = random_below(a, 3) ? random_below(a, 2) ? SOL_SOCKET : SOL_SUPERP : random_edge(a);
	option = random_below(a, 80);
	memset(a->area, 0, 8);
	*(uint32_t *)a->area = random_edge(a);
	switch (random_below(a, 18)) {
	case 0:
		FAILING(a, bind(fd, (void *)&name, len));
		break;
	case 1:
	case 2:
		FAILING(a, connect(fd, (void *)&name, len));
		break;
	case 3:
		FAILING(a, setsockopt(fd, level, option, a->area, random_below(a, 40)));
		break;
	case 4:
		len = random_below(a, 40);
		FAILING(a, getsockopt(fd, level, option, a->area, &len));
		break;
	case 5:
		FAILING(a, random_below(a, 2) ? getsockname(fd, (void *)a->area, &len) :
					      getpeername(fd, (void *)a->area, &len));
		break;
	case 6:
		FAILING(a, random_below(a, 2) ? listen(fd, 1) : accept(fd, NULL, NULL));
		break;
	case 7:
		if (!random_below(a, 8))
			FAILING(a, shutdown(fd, random_below(a, 4)));
		break;
	case 8:
		at = mmap(NULL, 1 + random_below(a, 1 << 16), PROT_READ | PROT_WRITE,
			  random_below(a, 2) ? MAP_SHARED : MAP_PRIVATE, fd,
			  (random_edge(a) & ~0ull >> 1) & -page_size());
		if (at != MAP_FAILED)
			munmap(at, 4096);
		break;
	case 9:
		if (!pipe2(pipes, O_NONBLOCK | O_CLOEXEC)) {
			if (write(pipes[1], a->area, 100) > 0)
				splice(pipes[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK);
			splice(fd, NULL, pipes[1], NULL, 4096, SPLICE_F_NONBLOCK);
			close(pipes[0]);
			close(pipes[1]);
		}
		break;
	case 10:
		superp_poll(fd, random_next(a), 0);
		break;
	case 11:
		if (!FAILING(a, mr_reg(fd, a->area, ATTACK_AREA / 4,
				       random_below(a, SUPERP_ACCESS_MASK + 1), &reg)))
			a->mr = reg;
		break;
	case 12:
	case 13:
		receive_any(a, fd);
		break;
	default:
		send_any(a, fd);
	}
}

/*
 * ---- netlink ----
 */

static inline int netlink_open(struct attacker *a)
{
	struct timeval patience = { .tv_usec = 100000 };

	a->netlink = nl_open_here(&a->family);
	if (a->netlink < 0)
		return -1;
	return setsockopt(a->netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* Sends it, and takes what has come in answer. */
static inline void netlink_say(struct attacker *a, struct nl_request *req)
{
	req->nlh.nlmsg_type = a->family;
	FAILING(a, send(a->netlink, req, sizeof(*req) < req->nlh.nlmsg_len ? sizeof(*req) :
			req->nlh.nlmsg_len, MSG_DONTWAIT));
	while (recv(a->netlink, a->area, ATTACK_AREA, MSG_DONTWAIT) > 0)
		;
}

/* Attributes that may be right; of conn-new those that are needed. */
static inline void netlink_any(struct attacker *a)
{
	static const char *const names[] = {
		"pdl_window_size", "tal_error_detail", "pdl_max_rtx", "",
	};
	struct nl_request req;
	uint8_t loopback[16];
	unsigned int i;
	char data[64];

	inet_pton(AF_INET6, "::ffff:127.0.0.1", loopback);
	nl_begin(&req, 0, random_below(a, SUPERP_CMD_MAX + 3));
	if (!random_below(a, 4))
		req.nlh.nlmsg_flags |= NLM_F_DUMP;
	if (random_below(a, 2)) {
		nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID,
			   random_below(a, 2) ? ATTACK_CID : random_below(a, 64));
		if (req.genl.cmd == SUPERP_CMD_CONN_NEW) {
			nl_put_u16(&req, SUPERP_A_CONN_REMOTE_CID, ATTACK_CID);
			nl_put_u32(&req, SUPERP_A_CONN_ENCAP, random_below(a, 4));
			nl_put(&req, SUPERP_A_CONN_REMOTE_ADDR, loopback, 16);
		}
	} else if (random_below(a, 2)) {
		const char *name = names[random_below(a, 4)];

		nl_put(&req, SUPERP_A_PARAM_NAME, name, strlen(name) + 1);
		nl_put_u32(&req, SUPERP_A_PARAM_VALUE, random_edge(a));
	} else {
		nl_put_u32(&req, SUPERP_A_PORT_IFINDEX, 1 + random_below(a, 3));
	}
	for (i = random_below(a, 5); i; i--) {
		static const uint8_t sizes[] = { 0, 1, 2, 4, 4, 4, 8, 16, 16, 33 };
		unsigned int n;

		for (n = 0; n < sizeof(data); n += 8)
			*(uint64_t *)(data + n) = random_edge(a);
		nl_put(&req, random_below(a, 30) | (random_below(a, 6) ? 0 : NLA_F_NESTED), data,
		       sizes[random_below(a, sizeof(sizes))]);
	}
	/* Malformed: lengths, and any byte. */
	if (!random_below(a, 12))
		req.nlh.nlmsg_len = random_below(a, 8) ? random_below(a, sizeof(req)) :
							 random_edge(a);
	if (!random_below(a, 12))
		req.attrs[random_below(a, 128)] = random_next(a);
	netlink_say(a, &req);
}

/* In a namespace of its own: the loopback device is up, and a connection leads from it to it. */
static inline int netlink_loopback(struct attacker *a)
{
	struct {
		char	name[16];
		short	flags;
		char	rest[22];
	} up = { .name = "lo", .flags = 1 /* IFF_UP */ };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct nl_request req;
	uint8_t loopback[16];

	if (fd < 0)
		return -1;
	ioctl(fd, 0x8914 /* SIOCSIFFLAGS */, &up);
	close(fd);
	nl_begin(&req, 0, SUPERP_CMD_PORT_NEW);
	nl_put_u32(&req, SUPERP_A_PORT_IFINDEX, 1);
	nl_put_u32(&req, SUPERP_A_PORT_ENCAP, SUPERP_PORT_ENCAP_SUNH | SUPERP_PORT_ENCAP_UDP);
	netlink_say(a, &req);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", loopback);
	nl_begin(&req, 0, SUPERP_CMD_CONN_NEW);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, ATTACK_CID);
	nl_put_u16(&req, SUPERP_A_CONN_REMOTE_CID, ATTACK_CID);
	nl_put_u32(&req, SUPERP_A_CONN_ENCAP, SUPERP_ENCAP_UDP4);
	nl_put_u32(&req, SUPERP_A_CONN_IFINDEX, 1);
	nl_put(&req, SUPERP_A_CONN_LOCAL_ADDR, loopback, 16);
	nl_put(&req, SUPERP_A_CONN_REMOTE_ADDR, loopback, 16);
	netlink_say(a, &req);
	nl_begin(&req, 0, SUPERP_CMD_CONN_START);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, ATTACK_CID);
	netlink_say(a, &req);
	return 0;
}

#endif /* SUPERP_ATTACK_H */
