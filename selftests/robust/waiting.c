// SPDX-License-Identifier: GPL-2.0
/*
 * waiting NAMESPACE PEER-ADDRESS CID CONNECTIONS COUNT: COUNT empty messages, each to a queue pair of
 * its own, in turn over so many connections from number CID on. They wait because nobody answers.
 * Prints "COUNT wait" and ends when its input does.
 */
#include <arpa/inet.h>
#include <err.h>
#include <sys/resource.h>

#define SUPERP_TEST_PLAIN
#include "superp_test.h"

/* Messages of a system call. */
#define AT_ONCE 64
#define SOCKETS_MAX 100000

int main(int argc, char **argv)
{
	struct sockaddr_superp to[AT_ONCE], name = superp_name(NULL, 0, 0);
	struct rlimit files = { SOCKETS_MAX, SOCKETS_MAX };
	uint32_t qpn = 0, cid, connections, count;
	int fd = -1, size = 1 << 30;
	char mapped[64];

	if (argc != 6)
		errx(2, "usage: waiting NAMESPACE PEER-ADDRESS CID CONNECTIONS COUNT");
	snprintf(mapped, sizeof(mapped), "::ffff:%s", argv[2]);
	if (inet_pton(AF_INET6, mapped, name.ssp_addr) != 1)
		errx(1, "%s: not an address", argv[2]);
	cid = strtoul(argv[3], NULL, 0);
	connections = strtoul(argv[4], NULL, 0);
	count = strtoul(argv[5], NULL, 0);
	if (!connections)
		errx(2, "no connections");
	snprintf(node_a.name, sizeof(node_a.name), "/run/netns/%s", argv[1]);
	node_a.netns = open(node_a.name, O_RDONLY | O_CLOEXEC);
	if (node_a.netns < 0 || setrlimit(RLIMIT_NOFILE, &files))
		err(1, "%s", argv[1]);
	while (qpn < count) {
		struct mmsghdr messages[AT_ONCE];
		unsigned int i;
		int sent = 0;

		for (i = 0; i < AT_ONCE && i < count - qpn; i++) {
			to[i] = name;
			to[i].ssp_qpn = 1000 + qpn + i;
			to[i].ssp_cid = cid + (qpn + i) % connections;
			messages[i] = (struct mmsghdr) {
				.msg_hdr = { .msg_name = &to[i], .msg_namelen = sizeof(to[i]) },
			};
		}
		if (fd >= 0)
			sent = sendmmsg(fd, messages, i, MSG_DONTWAIT);
		if (sent > 0) {
			qpn += sent;
			continue;
		}
		if (fd >= 0 && errno != EAGAIN)
			err(1, "sendmmsg");
		/* The socket has as many as it may have. */
		fd = superp_socket(&node_a);
		if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
			err(1, "socket");
	}
	printf("%s wait\n", argv[5]);
	fflush(stdout);
	while (read(STDIN_FILENO, mapped, sizeof(mapped)) > 0)
		;
	return 0;
}
