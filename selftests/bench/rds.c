// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams over AF_RDS, by TCP. "rds serve ADDRESS PORT" gives pings back, and compares the bytes of streams.
 * "rds pingpong OWN ADDRESS PORT sleep|spin BYTES MS" sends BYTES to it, waits until they are back, and again,
 * for MS milliseconds, and prints what pingpong.c does; who spins, at both ends, asks again and again.
 * "rds stream OWN ADDRESS PORT BYTES MS" sends datagrams of BYTES as fast as it can, until the server has said
 * that all have arrived as they were sent; it prints how many there were, and the nanoseconds that it took.
 * OWN and ADDRESS are IPv4 addresses.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <linux/rds.h>

#include "samples.h"

/* The longest datagram of RDS. */
#define MOST_BYTES (1u << 20)
/* What may be on its way: as much as with superp perf. */
#define BUFFER (16 << 20)
/* Datagrams begin at different places of the pattern. */
#define PLACES 4096
/* The first pings make the connections, of which RDS has several. */
#define FIRST_PINGS 32
#define PATIENCE_NS 1000000000ull

enum kind { PING, DATA, END, WRONG };

struct head {
	uint32_t number;	/* of the datagram; of END the datagrams that arrived */
	uint16_t kind;
	uint16_t spin;		/* of PING: how the server waits for the next one */
};

static unsigned char pattern[MOST_BYTES + PLACES], in[MOST_BYTES];

static void pattern_make(void)
{
	uint32_t state = 1;

	for (size_t i = 0; i < sizeof(pattern); i++) {
		state = state * 1664525 + 1013904223;
		pattern[i] = state >> 24;
	}
}

static struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		errx(2, "no IPv4 address: %s", text);
	return address;
}

/* A socket at this address; port 0: any. */
static int open_at(const char *text, int port)
{
	struct sockaddr_in own = address(text, port);
	int fd = socket(AF_RDS, SOCK_SEQPACKET, 0), transport = RDS_TRANS_TCP, bytes = BUFFER;

	if (fd < 0)
		err(1, "socket");
	/* The kernel makes twice as much of the bytes, and RDS half of that. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		err(1, "buffers");
	if (setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &transport, sizeof(transport)))
		err(1, "RDS by TCP");
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)))
		err(1, "bind to %s port %d", text, port);
	return fd;
}

/* The bytes of a datagram after its head. */
static const unsigned char *bytes_of(uint32_t number)
{
	return pattern + number % PLACES;
}

/* Waits as long as the peer has no room: it blocks while the destination is congested. */
static void send_to(int fd, const struct sockaddr_in *to, struct head head, size_t bytes)
{
	struct iovec parts[] = {
		{ &head, sizeof(head) }, { (void *)bytes_of(head.number), bytes - sizeof(head) },
	};
	struct msghdr message = {
		.msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = parts, .msg_iovlen = 2,
	};
	ssize_t n;

	do {
		n = sendmsg(fd, &message, 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)bytes)
		err(1, "send");
}

/* The next datagram, of which the bytes are in @in, and whether they are what was sent. */
static bool receive(int fd, bool spin, struct head *head, size_t *bytes, struct sockaddr_in *from)
{
	uint64_t end = spin ? now() + PATIENCE_NS : 0;
	socklen_t length = sizeof(*from);
	ssize_t n;

	do {
		/* Nobody spins for a peer that is gone. */
		spin = spin && now() < end;
		n = recvfrom(fd, in, sizeof(in), spin ? MSG_DONTWAIT : 0, (struct sockaddr *)from, &length);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < (ssize_t)sizeof(*head))
		err(1, "receive");
	memcpy(head, in, sizeof(*head));
	*bytes = n;
	return !memcmp(in + sizeof(*head), bytes_of(head->number), n - sizeof(*head));
}

static void serve(int fd)
{
	uint32_t arrived = 0;
	bool spin = false, wrong = false;

	for (;;) {
		struct sockaddr_in from;
		struct head head;
		size_t bytes;
		bool right = receive(fd, spin, &head, &bytes, &from);

		switch (head.kind) {
		case PING:
			/* Whoever streams begins with pings; one before may have ended too early. */
			arrived = 0;
			wrong = !right;
			spin = head.spin;
			send_to(fd, &from, head, bytes);
			break;
		case DATA:
			wrong |= !right || head.number != arrived;
			arrived++;
			break;
		default:
			head = (struct head){ .number = arrived, .kind = wrong ? WRONG : END };
			send_to(fd, &from, head, sizeof(head));
			arrived = 0;
			wrong = false;
			spin = false;
		}
	}
}

/* There and back. */
static void ping(int fd, const struct sockaddr_in *to, uint32_t number, bool spin, size_t bytes)
{
	struct head sent = { .number = number, .kind = PING, .spin = spin }, back;
	struct sockaddr_in from;
	size_t length;

	send_to(fd, to, sent, bytes);
	if (!receive(fd, spin, &back, &length, &from) || length != bytes || memcmp(&sent, &back, sizeof(sent)))
		errx(1, "other bytes came back");
}

/* What the server has got since the last time, all right. */
static uint32_t finish(int fd, const struct sockaddr_in *to)
{
	struct head head = { .kind = END };
	struct sockaddr_in from;
	size_t bytes;

	send_to(fd, to, head, sizeof(head));
	receive(fd, false, &head, &bytes, &from);
	if (head.kind != END)
		errx(1, "other bytes arrived, or in another order");
	return head.number;
}

static void pingpong(int fd, const struct sockaddr_in *to, bool spin, size_t bytes, uint64_t duration)
{
	uint64_t start = now(), last = start, count = 0;

	while (last - start < duration && count < MOST_SAMPLES) {
		uint64_t before = last;

		ping(fd, to, count, spin, bytes);
		last = now();
		samples[count++] = last - before;
	}
	finish(fd, to);
	samples_print(count);
}

static void stream(int fd, const struct sockaddr_in *to, size_t bytes, uint64_t duration)
{
	uint64_t start = now();
	uint32_t count = 0, arrived;

	while (now() - start < duration)
		send_to(fd, to, (struct head){ .number = count++, .kind = DATA }, bytes);
	arrived = finish(fd, to);
	if (arrived != count)
		errx(1, "of %u datagrams %u arrived", count, arrived);
	printf("%u %llu\n", count, (unsigned long long)(now() - start));
}

static size_t length(const char *text)
{
	size_t bytes = strtoul(text, NULL, 10);

	if (bytes < sizeof(struct head) || bytes > MOST_BYTES)
		errx(2, "bytes: not from %zu to %u", sizeof(struct head), MOST_BYTES);
	return bytes;
}

int main(int argc, char **argv)
{
	bool pings = argc == 8 && !strcmp(argv[1], "pingpong");

	pattern_make();
	if (argc == 4 && !strcmp(argv[1], "serve")) {
		int fd = open_at(argv[2], atoi(argv[3]));

		puts("ready");
		fflush(stdout);
		serve(fd);
	} else if (pings || (argc == 7 && !strcmp(argv[1], "stream"))) {
		struct timeval patience = { .tv_sec = 20 };
		struct sockaddr_in to = address(argv[3], atoi(argv[4]));
		size_t bytes = length(argv[argc - 2]);
		uint64_t duration = strtoull(argv[argc - 1], NULL, 10) * 1000000;
		int fd = open_at(argv[2], 0);

		if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
			err(1, "SO_RCVTIMEO");
		for (int i = 0; i < FIRST_PINGS; i++)
			ping(fd, &to, i, false, sizeof(struct head));
		if (!pings)
			stream(fd, &to, bytes, duration);
		else if (strcmp(argv[5], "sleep") && strcmp(argv[5], "spin"))
			errx(2, "neither sleep nor spin: %s", argv[5]);
		else
			pingpong(fd, &to, !strcmp(argv[5], "spin"), bytes, duration);
	} else {
		errx(2, "usage: rds serve ADDRESS PORT | pingpong OWN ADDRESS PORT WAY BYTES MS | stream OWN ADDRESS PORT BYTES MS");
	}
	return 0;
}
