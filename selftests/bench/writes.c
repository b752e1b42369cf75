// SPDX-License-Identifier: GPL-2.0
/*
 * Requests over TCP, answered as remote writes are: "writes serve PORT" takes what comes and sends one byte back for
 * each whole request, to many clients at a time. "writes to ADDRESS PORT CONGESTION BYTES DEPTH MS" has DEPTH requests
 * of BYTES under way for MS milliseconds, by that congestion control, and prints how many were answered, the
 * nanoseconds that it took, and of the times of a request what samples_print() does.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "samples.h"

#define MOST_BYTES (1u << 20)
#define MOST_DEPTH 256

static unsigned char buffer[MOST_BYTES];

/* The first thing that a client sends. */
struct head {
	uint32_t bytes;
};

/* Whether that much came before the end of the connection. */
static bool receive(int fd, void *to, size_t len)
{
	ssize_t n;

	do {
		n = recv(fd, to, len, MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	return n == len;
}

static void send_all(int fd, const void *from, size_t len)
{
	while (len) {
		ssize_t n = send(fd, from, len, MSG_NOSIGNAL);

		if (n < 0)
			err(1, "send");
		from = (const char *)from + n;
		len -= n;
	}
}

static void no_delay(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		err(1, "TCP_NODELAY");
}

static void serve_one(int fd)
{
	struct head head;

	no_delay(fd);
	if (!receive(fd, &head, sizeof(head)) || !head.bytes || head.bytes > MOST_BYTES)
		return;
	while (receive(fd, buffer, head.bytes)) {
		if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

static void serve(int listener)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			err(1, "accept");
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			close(listener);
			serve_one(fd);
			_exit(0);
		}
		close(fd);
	}
}

static void measure(int fd, uint32_t bytes, unsigned int depth, uint64_t duration)
{
	const struct head head = { .bytes = bytes };
	uint64_t begun[MOST_DEPTH], start, last, posted = 0, done = 0;

	send_all(fd, &head, sizeof(head));
	start = last = now();
	for (;;) {
		unsigned char answers[MOST_DEPTH];
		bool late = last - start >= duration || posted == MOST_SAMPLES;
		bool full = posted - done == depth;
		ssize_t n;

		if (late && posted == done)
			break;
		n = recv(fd, answers, sizeof(answers), full || late ? 0 : MSG_DONTWAIT);
		if (!n)
			errx(1, "the server has closed the connection");
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			err(1, "recv");
		last = now();
		for (; n > 0; n--, done++)
			samples[done] = last - begun[done % depth];
		if (!late && posted - done < depth) {
			begun[posted++ % depth] = last;
			send_all(fd, buffer, bytes);
		}
	}
	printf("%llu %llu ", (unsigned long long)done, (unsigned long long)(last - start));
	samples_print(done);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0)
		err(1, "socket");
	if (argc == 3 && !strcmp(argv[1], "serve")) {
		address.sin_port = htons(atoi(argv[2]));
		if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		    bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64))
			err(1, "listen");
		puts("ready");
		fflush(stdout);
		serve(fd);
	} else if (argc == 8 && !strcmp(argv[1], "to")) {
		unsigned long bytes = strtoul(argv[5], NULL, 10), depth = strtoul(argv[6], NULL, 10);

		if (!bytes || bytes > MOST_BYTES || !depth || depth > MOST_DEPTH)
			errx(2, "bytes: from 1 to %u; depth: from 1 to %u", MOST_BYTES, MOST_DEPTH);
		if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
			errx(2, "no address: %s", argv[2]);
		address.sin_port = htons(atoi(argv[3]));
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, argv[4], strlen(argv[4])))
			err(1, "congestion control %s", argv[4]);
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
			err(1, "connect");
		no_delay(fd);
		measure(fd, bytes, depth, strtoull(argv[7], NULL, 10) * 1000000);
	} else {
		errx(2, "usage: writes serve PORT | to ADDRESS PORT CONGESTION BYTES DEPTH MS");
	}
	return 0;
}
