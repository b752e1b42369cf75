/* SPDX-License-Identifier: GPL-2.0 */
/* TCP over IPv4, for programs that are measured beside SUPERp. What fails ends the program. */
#ifndef SELFTESTS_TCP_H
#define SELFTESTS_TCP_H

#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static inline void tcp_no_delay(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		err(1, "TCP_NODELAY");
}

static inline void tcp_send_all(int fd, const unsigned char *from, size_t len)
{
	while (len) {
		ssize_t n = send(fd, from, len, MSG_NOSIGNAL);

		if (n < 0)
			err(1, "send");
		from += n;
		len -= n;
	}
}

/* Makes @fd listen at @port of all addresses, and prints "ready". */
static inline void tcp_listen(int fd, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64))
		err(1, "listen");
	puts("ready");
	fflush(stdout);
}

static inline void tcp_connect(int fd, const char *to, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, to, &address.sin_addr) != 1)
		errx(2, "no address: %s", to);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err(1, "connect");
	tcp_no_delay(fd);
}

#endif /* SELFTESTS_TCP_H */
