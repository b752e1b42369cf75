/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two nodes, the connections between them and their sockets, for tests in C.
 *
 * The nodes are those of lib/nodes.sh: one veth pair, addresses 10.23.0.1 and
 * fd23::1 (A), 10.23.0.2 and fd23::2 (B). A test program makes them once, in
 * main(), and every test makes its own connection.
 */
#ifndef SUPERP_TEST_H
#define SUPERP_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/superp.h>

#include "clock.h"
#include "pattern.h"
#include "superp_nl.h"

/* A program that is no test by itself, but part of one, goes without. */
#ifndef SUPERP_TEST_PLAIN
#include "kselftest_harness.h"
#endif

/* A time limit, in seconds of User Mode Linux: the other homes are slower. */
static inline int slowly(int seconds)
{
	const char *home = getenv("SUPERP_HOME");

	return home && strcmp(home, "uml") ? 4 * seconds : seconds;
}

/* The harness's 30 s are for machines that are not emulated. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120

struct node {
	char	name[64];	/* of the network namespace */
	int	netns;		/* descriptor of it */
	int	id;		/* last part of its addresses */
};

static struct node node_a = { .id = 1 }, node_b = { .id = 2 };

/* The family's number. */
static inline int superp_family(void)
{
	FILE *file = fopen("/sys/module/superp/parameters/family", "r");
	int family = SUPERP_DEFAULT_FAMILY;

	if (file) {
		if (fscanf(file, "%d", &family) != 1)
			family = SUPERP_DEFAULT_FAMILY;
		fclose(file);
	}
	return family;
}

static inline int node_enter(const struct node *node)
{
	return setns(node->netns, CLONE_NEWNET);
}

/* Runs a shell command; 0 if it succeeds. */
static inline int run(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command) == 0 ? 0 : -1;
}

/*
 * ---- generic netlink in a node ----
 */

/* A generic netlink socket in the node, and the family's id. */
static inline int nl_open(const struct node *node, int *family)
{
	return node_enter(node) ? -1 : nl_open_here(family);
}

/* One request of the family; 0 or a negative errno. */
static inline int nl_do(const struct node *node, struct nl_request *req,
			void *reply, size_t size)
{
	int family, err, fd = nl_open(node, &family);

	if (fd < 0)
		return -ENOENT;
	req->nlh.nlmsg_type = family;
	err = nl_talk(fd, req, reply, size);
	close(fd);
	return err;
}

/*
 * ---- nodes and connections ----
 */

static inline uint32_t node_ifindex(const struct node *node)
{
	int fd, index = 0;

	if (node_enter(node))
		return 0;
	/* The namespace was made by "ip netns", whose /sys is another's. */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		struct {
			char	name[16];
			int	index;
			char	rest[64];
		} request = { .name = "eth0" };

		if (!ioctl(fd, 0x8933 /* SIOCGIFINDEX */, &request))
			index = request.index;
		close(fd);
	}
	return index;
}

/* Number of objects of the node: an attribute SUPERP_A_NODE_*. */
static inline int node_count(const struct node *node, int attribute)
{
	char reply[4096] = {};
	struct nl_request req;

	nl_begin(&req, 0, SUPERP_CMD_NODE_GET);
	if (nl_do(node, &req, reply, sizeof(reply)) ||
	    !nl_find((void *)reply, attribute))
		return -1;
	return nl_u32(nl_find((void *)reply, attribute));
}

static inline int node_port(const struct node *node)
{
	struct nl_request req;

	nl_begin(&req, 0, SUPERP_CMD_PORT_NEW);
	nl_put_u32(&req, SUPERP_A_PORT_IFINDEX, node_ifindex(node));
	nl_put_u32(&req, SUPERP_A_PORT_ENCAP,
		   SUPERP_PORT_ENCAP_SUNH | SUPERP_PORT_ENCAP_UDP);
	return nl_do(node, &req, NULL, 0);
}

/* Refusals name the reason, which tests look at. */
static inline int node_error_detail(const struct node *node)
{
	static const char name[] = "tal_error_detail";
	struct nl_request req;

	nl_begin(&req, 0, SUPERP_CMD_PARAM_SET);
	nl_put(&req, SUPERP_A_PARAM_NAME, name, sizeof(name));
	nl_put_u32(&req, SUPERP_A_PARAM_VALUE, 1);
	return nl_do(node, &req, NULL, 0);
}

static inline void nodes_down(void)
{
	if (node_a.name[0])
		run("ip netns delete %s", node_a.name);
	if (node_b.name[0])
		run("ip netns delete %s", node_b.name);
}

static inline int nodes_open(struct node *node)
{
	char path[128];

	snprintf(path, sizeof(path), "/run/netns/%s", node->name);
	node->netns = open(path, O_RDONLY | O_CLOEXEC);
	if (node->netns < 0 || node_port(node) || node_error_detail(node)) {
		fprintf(stderr, "cannot make the port of node %s\n", node->name);
		return -1;
	}
	return 0;
}

/* Makes both nodes, and their ports. */
static inline int nodes_up(int mtu)
{
	char command[256];
	FILE *shell;
	int found;

	snprintf(command, sizeof(command),
		 "bash -euc '. lib/nodes.sh; nodes_up %d >&2; nodes_acquainted; echo $nodeA $nodeB'",
		 mtu);
	shell = popen(command, "r");
	if (!shell)
		return -1;
	found = fscanf(shell, "%63s %63s", node_a.name, node_b.name);
	if (pclose(shell) || found != 2) {
		fprintf(stderr, "lib/nodes.sh could not make the nodes\n");
		return -1;
	}
	return nodes_open(&node_a) || nodes_open(&node_b);
}

/* The tests of a program that needs nodes. */
#define SUPERP_TEST_MAIN						\
	int main(int argc, char **argv)					\
	{								\
		int status = KSFT_FAIL;					\
									\
		if (!nodes_up(9000))					\
			status = test_harness_run(argc, argv);		\
		nodes_down();						\
		return status;						\
	}

struct conn_options {
	int	encap;		/* SUPERP_ENCAP_* */
	bool	strict;		/* without the extension opcodes */
	bool	unordered;
	int	partition;
	bool	created;	/* not started */
};

/* Addresses of the nodes, as the encapsulation has them. */
static inline void node_address(const struct node *node, int encap,
				uint8_t addr[16])
{
	char text[64];

	snprintf(text, sizeof(text), "%s%d",
		 encap == SUPERP_ENCAP_UDP6 ? "fd23::" : "::ffff:10.23.0.",
		 node->id);
	inet_pton(AF_INET6, text, addr);
}

static inline int conn_command(const struct node *node, int cmd, int cid)
{
	struct nl_request req;

	nl_begin(&req, 0, cmd);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, cid);
	return nl_do(node, &req, NULL, 0);
}

static inline int conn_half(const struct node *node, const struct node *peer,
			    int cid, int peer_cid,
			    const struct conn_options *options)
{
	uint8_t local[16], remote[16];
	struct nl_request req;
	int err;

	node_address(node, options->encap, local);
	node_address(peer, options->encap, remote);
	nl_begin(&req, 0, SUPERP_CMD_CONN_NEW);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, cid);
	nl_put_u16(&req, SUPERP_A_CONN_REMOTE_CID, peer_cid);
	nl_put_u32(&req, SUPERP_A_CONN_ENCAP, options->encap);
	nl_put_u32(&req, SUPERP_A_CONN_IFINDEX, node_ifindex(node));
	nl_put(&req, SUPERP_A_CONN_LOCAL_ADDR, local, 16);
	nl_put(&req, SUPERP_A_CONN_REMOTE_ADDR, remote, 16);
	nl_put_u8(&req, SUPERP_A_CONN_EXT, !options->strict);
	nl_put_u8(&req, SUPERP_A_CONN_ORDERED_TX, !options->unordered);
	nl_put_u8(&req, SUPERP_A_CONN_ORDERED_RX, !options->unordered);
	nl_put_u32(&req, SUPERP_A_CONN_PARTITION, options->partition);
	err = nl_do(node, &req, NULL, 0);
	if (!err && !options->created)
		err = conn_command(node, SUPERP_CMD_CONN_START, cid);
	return err;
}

/* Connects A and B; A's id is @cid, B's the one above. */
static inline int conn_up(int cid, const struct conn_options *options)
{
	int err = conn_half(&node_a, &node_b, cid, cid + 1, options);

	if (!err)
		err = conn_half(&node_b, &node_a, cid + 1, cid, options);
	return err;
}

static inline void conn_down(int cid)
{
	conn_command(&node_a, SUPERP_CMD_CONN_DEL, cid);
	conn_command(&node_b, SUPERP_CMD_CONN_DEL, cid + 1);
}

/* What the link does to packets, both ways, in words of netem. */
static inline int link_netem(const char *netem)
{
	return run("tc -n %s qdisc replace dev eth0 root netem %s", node_a.name, netem) ||
	       run("tc -n %s qdisc replace dev eth0 root netem %s", node_b.name, netem);
}

/* The link does nothing to them any more, if it did. */
static inline void link_clean(void)
{
	run("tc -n %s qdisc del dev eth0 root 2>/dev/null", node_a.name);
	run("tc -n %s qdisc del dev eth0 root 2>/dev/null", node_b.name);
}

/* Each test, a process of its own, has ids that no other uses soon again. */
static inline int conn_id(void)
{
	return 2 + (getpid() * 4) % 60000;
}

/*
 * ---- sockets ----
 */

static inline int superp_socket(const struct node *node)
{
	if (node_enter(node))
		return -1;
	return socket(superp_family(), SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static inline struct sockaddr_superp superp_name(const struct node *node,
						 int encap, uint32_t qpn)
{
	struct sockaddr_superp name = {
		.ssp_family = superp_family(),
		.ssp_qpn = qpn,
		.ssp_cid = SUPERP_CID_ANY,
	};

	if (node)
		node_address(node, encap, name.ssp_addr);
	return name;
}

static inline int superp_bind(int fd, uint32_t qpn)
{
	struct sockaddr_superp name = superp_name(NULL, 0, qpn);

	return bind(fd, (struct sockaddr *)&name, sizeof(name));
}

static inline int superp_connect(int fd, const struct node *peer, int encap,
				 uint32_t qpn)
{
	struct sockaddr_superp name = superp_name(peer, encap, qpn);

	return connect(fd, (struct sockaddr *)&name, sizeof(name));
}

/* A socket of @node, bound to @qpn and connected to @peer_qpn of @peer. */
static inline int superp_open(const struct node *node, uint32_t qpn,
			      const struct node *peer, int encap,
			      uint32_t peer_qpn)
{
	int fd = superp_socket(node);

	if (fd < 0)
		return -1;
	if (superp_bind(fd, qpn) || superp_connect(fd, peer, encap, peer_qpn)) {
		close(fd);
		return -1;
	}
	return fd;
}

#define QPN_A 1001
#define QPN_B 2002

/* Connects the nodes, and two sockets over the connection. */
static inline int pair_up(int cid, const struct conn_options *options, int *a, int *b)
{
	if (conn_up(cid, options))
		return -1;
	*a = superp_open(&node_a, QPN_A, &node_b, options->encap, QPN_B);
	*b = superp_open(&node_b, QPN_B, &node_a, options->encap, QPN_A);
	return *a < 0 || *b < 0 ? -1 : 0;
}

/*
 * The events of a socket within @ms milliseconds, or four times that in the
 * slower homes; -1: an error.
 */
static inline int superp_poll(int fd, short events, int ms)
{
	struct pollfd pollfd = { .fd = fd, .events = events };

	if (poll(&pollfd, 1, slowly(ms)) < 0)
		return -1;
	return pollfd.revents;
}

static inline int superp_error(int fd)
{
	socklen_t len = sizeof(int);
	int err = -1;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err;
}

static inline int superp_set(int fd, int option, int value)
{
	return setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

/* Not 4096 everywhere: 16 KiB on some arm64. */
static inline size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/* Anonymous memory, page aligned. */
static inline void *memory(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static inline int mr_reg(int fd, void *addr, size_t len, uint32_t access,
			 struct superp_mr_reg *reg)
{
	*reg = (struct superp_mr_reg) {
		.addr = (uintptr_t)addr,
		.length = len,
		.access = access,
	};
	return ioctl(fd, SUPERP_IOC_MR_REG, reg);
}

/* New memory as a region of the socket; NULL: failed. */
static inline void *mr_memory(int fd, size_t len, uint32_t access, struct superp_mr_reg *reg)
{
	void *at = memory(len);

	return at && !mr_reg(fd, at, len, access, reg) ? at : NULL;
}

static inline int mr_dereg(int fd, uint32_t key)
{
	struct superp_mr_dereg dereg = { .key = key };

	return ioctl(fd, SUPERP_IOC_MR_DEREG, &dereg);
}

struct control {
	int		level, type;
	const void	*data;
	size_t		size;
};

/* sendmsg() with @count control messages, of 256 bytes in all, and @len bytes of data. */
static inline ssize_t send_controls(int fd, const struct control *controls, int count,
				    const void *bytes, size_t len)
{
	union {
		char		buffer[CMSG_SPACE(256)];
		struct cmsghdr	align;
	} room = {};
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &room,
	};
	int i;

	for (i = 0; i < count; i++) {
		struct cmsghdr *cmsg = (void *)(room.buffer + msg.msg_controllen);

		cmsg->cmsg_level = controls[i].level;
		cmsg->cmsg_type = controls[i].type;
		cmsg->cmsg_len = CMSG_LEN(controls[i].size);
		memcpy(CMSG_DATA(cmsg), controls[i].data, controls[i].size);
		msg.msg_controllen += CMSG_SPACE(controls[i].size);
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

/* sendmsg() with one control message and @len bytes of data. */
static inline ssize_t send_control(int fd, int level, int type,
				   const void *data, size_t size,
				   const void *bytes, size_t len)
{
	const struct control control = { level, type, data, size };

	return send_controls(fd, &control, 1, bytes, len);
}

/* recvmsg(): the message's length; its only control message, of SOL_SUPERP and @type, or zeros. */
static inline ssize_t receive_control(int fd, int type, void *data, size_t size, void *bytes,
				      size_t len, int flags)
{
	union {
		char		buffer[CMSG_SPACE(64)];
		struct cmsghdr	align;
	} control = {};
	struct iovec iov = { .iov_base = bytes, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg;
	ssize_t got;

	memset(data, 0, size);
	got = recvmsg(fd, &msg, flags);
	if (got < 0)
		return -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg)
		return got;
	if (cmsg->cmsg_level != SOL_SUPERP || cmsg->cmsg_type != type ||
	    cmsg->cmsg_len != CMSG_LEN(size) || CMSG_NXTHDR(&msg, cmsg) ||
	    !(msg.msg_flags & MSG_EOR) || msg.msg_flags & MSG_CTRUNC) {
		errno = EPROTO;
		return -1;
	}
	memcpy(data, CMSG_DATA(cmsg), size);
	return got;
}

static inline int rma_post(int fd, const struct superp_rma *rma)
{
	return send_control(fd, SOL_SUPERP, SUPERP_CMSG_RMA, rma, sizeof(*rma),
			    NULL, 0);
}

static inline int atomic_post(int fd, const struct superp_atomic *atomic)
{
	return send_control(fd, SOL_SUPERP, SUPERP_CMSG_ATOMIC, atomic,
			    sizeof(*atomic), NULL, 0);
}

static inline struct superp_rma rma_of(int op, const struct superp_mr_reg *local,
				       uint64_t local_offset,
				       const struct superp_mr_reg *remote,
				       uint64_t remote_offset, uint32_t length)
{
	return (struct superp_rma) {
		.op = op,
		.key = local->key,
		.local_addr = local->addr + local_offset,
		.remote_addr = remote->rma_addr + remote_offset,
		.length = length,
		.token = 0xfedcba9876543210 ^ length,
	};
}

/* One completion, without waiting. */
static inline int completion_take(int fd, struct superp_completion *completion)
{
	union {
		char		buffer[CMSG_SPACE(sizeof(*completion))];
		struct cmsghdr	align;
	} control = {};
	struct msghdr msg = {
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg;

	if (recvmsg(fd, &msg, MSG_ERRQUEUE) < 0)
		return -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_level != SOL_SUPERP ||
	    cmsg->cmsg_type != SUPERP_CMSG_COMPLETION ||
	    cmsg->cmsg_len != CMSG_LEN(sizeof(*completion)) ||
	    !(msg.msg_flags & MSG_ERRQUEUE)) {
		errno = EPROTO;
		return -1;
	}
	memcpy(completion, CMSG_DATA(cmsg), sizeof(*completion));
	return 0;
}

/* One completion, within @ms milliseconds. */
static inline int completion_wait(int fd, struct superp_completion *completion,
				  int ms)
{
	if (!(superp_poll(fd, 0, ms) & POLLERR)) {
		errno = ETIME;
		return -1;
	}
	return completion_take(fd, completion);
}

/* Waits for the completion of @rma: its error, or -1. */
static inline int rma_wait(int fd, const struct superp_rma *rma,
			   struct superp_completion *completion)
{
	if (completion_wait(fd, completion, 20000)) {
		perror("completion");
		return -1;
	}
	if (completion->token != rma->token || completion->op != rma->op ||
	    completion->length != rma->length || completion->rsvd) {
		fprintf(stderr, "completion of another request\n");
		return -1;
	}
	return completion->error;
}

/* Posts one request and waits for it: the error of its completion, or -1. */
static inline int rma_run(int fd, const struct superp_rma *rma,
			  struct superp_completion *completion)
{
	if (rma_post(fd, rma)) {
		perror("sendmsg");
		return -1;
	}
	return rma_wait(fd, rma, completion);
}

/*
 * For people who look why something did not happen: connections, drop counters and queue pairs of
 * both nodes, and when the kernel's timers expire.
 */
static inline void nodes_say(void)
{
	static const char *const what[] = { "conn show -s", "stats", "qp" };
	const struct node *nodes[] = { &node_a, &node_b };
	unsigned int i, n;

	for (n = 0; n < 2; n++) {
		for (i = 0; i < sizeof(what) / sizeof(*what); i++)
			run("ip netns exec %s superp %s 2>&1 | head -n 60 | sed 's/^/# /' >&2",
			    nodes[n]->name, what[i]);
	}
	run("sed 's/^/# /' /proc/timer_list >&2");
}

#endif /* SUPERP_TEST_H */
