// SPDX-License-Identifier: GPL-2.0
/*
 * Requests over TCP, answered as remote writes are. "writes serve PORT" takes what comes from many
 * clients, and sends one byte back for each whole request. "writes to ADDRESS PORT CONGESTION BYTES
 * DEPTH MS" has DEPTH requests of BYTES under way for MS milliseconds, by that congestion control.
 * It prints how many were answered, the nanoseconds that it took, and of the times of a request what
 * samples_print() does.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "samples.h"
#include "tcp.h"

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

static void serve_one(int fd)
{
	struct head head;

	tcp_no_delay(fd);
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

	tcp_send_all(fd, (const void *)&head, sizeof(head));
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
			tcp_send_all(fd, buffer, bytes);
		}
	}
	printf("%llu %llu ", (unsigned long long)done, (unsigned long long)(last - start));
	samples_print(done);
}

int main(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		err(1, "socket");
	if (argc == 3 && !strcmp(argv[1], "serve")) {
		tcp_listen(fd, argv[2]);
		serve(fd);
	} else if (argc == 8 && !strcmp(argv[1], "to")) {
		unsigned long bytes = strtoul(argv[5], NULL, 10), depth = strtoul(argv[6], NULL, 10);

		if (!bytes || bytes > MOST_BYTES || !depth || depth > MOST_DEPTH)
			errx(2, "bytes: from 1 to %u; depth: from 1 to %u", MOST_BYTES, MOST_DEPTH);
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, argv[4], strlen(argv[4])))
			err(1, "congestion control %s", argv[4]);
		tcp_connect(fd, argv[2], argv[3]);
		measure(fd, bytes, depth, strtoull(argv[7], NULL, 10) * 1000000);
	} else {
		errx(2, "usage: writes serve PORT | to ADDRESS PORT CONGESTION BYTES DEPTH MS");
	}
	return 0;
}
