// SPDX-License-Identifier: GPL-2.0
/*
 * receiver NAMESPACE PEER-ADDRESS LENGTH: a queue pair with one receive entry of LENGTH bytes, and a
 * completion queue with one entry. Prints the number of the queue pair, and "MAJOR LENGTH" for each receive
 * that completes; then the entry takes the next message. Ends when its input does.
 */
#include <arpa/inet.h>
#include <err.h>

#define SUPERP_TEST_PLAIN
#include "superp_ring.h"

static void peer_name(struct sockaddr_superp *name, const char *text)
{
	struct in6_addr *address = (struct in6_addr *)name->ssp_addr;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	if (inet_pton(AF_INET6, mapped, address) != 1)
		errx(1, "%s: not an address", text);
}

int main(int argc, char **argv)
{
	struct superp_rqp_connect connect = { .peer = superp_name(NULL, 0, 1) };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	struct superp_cqe completion;
	struct context context;
	struct cq send_cq, cq;
	struct superp_rqe entry = {};
	struct superp_mr_reg mr;
	struct qp qp = {};

	if (argc != 4)
		errx(2, "usage: receiver NAMESPACE PEER-ADDRESS LENGTH");
	snprintf(node_a.name, sizeof(node_a.name), "/run/netns/%s", argv[1]);
	node_a.netns = open(node_a.name, O_RDONLY | O_CLOEXEC);
	peer_name(&connect.peer, argv[2]);
	entry.length = strtoul(argv[3], NULL, 0);
	if (node_a.netns < 0 || context_open(&context, &node_a) ||
	    !mr_memory(context.fd, entry.length, SUPERP_ACCESS_LOCAL_WRITE, &mr) ||
	    cq_create(&context, &send_cq, 1) || cq_create(&context, &cq, 1) ||
	    qp_create(&context, &qp, &send_cq, 1, &cq, 1))
		err(1, "%s", argv[1]);
	connect.qp = qp.id;
	if (ioctl(context.fd, SUPERP_IOC_RQP_CONNECT, &connect))
		err(1, "%s", argv[2]);
	entry.addr = mr.addr;
	entry.key = mr.key;
	if (!rq_put(&qp, &entry))
		errx(1, "no place for a receive entry");
	printf("%u\n", qp.qpn);
	fflush(stdout);
	while (poll(&input, 1, 0) == 0) {
		if (!cq_wait(&cq, &completion, 100))
			continue;
		/* Before its peer is told, who may send at once. */
		if (!rq_put(&qp, &entry))
			errx(1, "no place for a receive entry");
		printf("%u %u\n", completion.major, completion.length);
		fflush(stdout);
	}
	return 0;
}
