// SPDX-License-Identifier: GPL-2.0
/*
 * TCP ping-pong: "pingpong listen PORT sleep|spin" echoes what it gets, connection after connection;
 * "pingpong connect ADDRESS PORT sleep|spin BYTES MS" sends BYTES to it, waits until they are back, and again,
 * for MS milliseconds, and prints how many round trips there were, and of their times in nanoseconds the
 * least, the median and the 99th percentile. Who sleeps waits in recv, who spins asks again and again.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "samples.h"
#include "tcp.h"

#define MOST_BYTES 65536

static unsigned char out[MOST_BYTES], in[MOST_BYTES];

/* Bytes received, at least one; 0 at the end of the connection. */
static size_t receive(int fd, unsigned char *to, size_t most, bool spin)
{
	ssize_t n;

	do {
		n = recv(fd, to, most, spin ? MSG_DONTWAIT : 0);
	} while (n < 0 && (errno == EINTR || (spin && errno == EAGAIN)));
	if (n < 0)
		err(1, "recv");
	return n;
}

static void serve(int listener, bool spin)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		size_t n;

		if (fd < 0)
			err(1, "accept");
		tcp_no_delay(fd);
		while ((n = receive(fd, in, sizeof(in), spin)))
			tcp_send_all(fd, in, n);
		close(fd);
	}
}

static void measure(int fd, bool spin, size_t bytes, uint64_t duration)
{
	uint64_t start = now(), last = start, count = 0;

	while (last - start < duration && count < MOST_SAMPLES) {
		uint64_t before = last;
		size_t have = 0;

		memcpy(out, &count, sizeof(count));
		tcp_send_all(fd, out, bytes);
		while (have < bytes) {
			size_t n = receive(fd, in + have, bytes - have, spin);

			if (!n)
				errx(1, "the peer has closed the connection");
			have += n;
		}
		if (memcmp(out, in, bytes))
			errx(1, "other bytes came back");
		last = now();
		samples[count++] = last - before;
	}
	samples_print(count);
}

static bool way(const char *word)
{
	if (strcmp(word, "sleep") && strcmp(word, "spin"))
		errx(2, "neither sleep nor spin: %s", word);
	return !strcmp(word, "spin");
}

int main(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		err(1, "socket");
	if (argc == 4 && !strcmp(argv[1], "listen")) {
		bool spin = way(argv[3]);

		tcp_listen(fd, argv[2]);
		serve(fd, spin);
	} else if (argc == 7 && !strcmp(argv[1], "connect")) {
		size_t bytes = strtoul(argv[5], NULL, 10);
		bool spin = way(argv[4]);

		if (bytes < sizeof(uint64_t) || bytes > MOST_BYTES)
			errx(2, "bytes: not from 8 to %d", MOST_BYTES);
		tcp_connect(fd, argv[2], argv[3]);
		measure(fd, spin, bytes, strtoull(argv[6], NULL, 10) * 1000000);
	} else {
		errx(2, "usage: pingpong listen PORT WAY | connect ADDRESS PORT WAY BYTES MS");
	}
	return 0;
}
