// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * hello: two programs greet each other, and one writes into the other's memory.
 *
 *	hello serve PEER-ADDRESS	waits for one caller
 *	hello call PEER-ADDRESS
 *
 * The caller sends a message.  The server answers with the place of its memory.
 * The caller writes there, with an immediate, which tells the server that all
 * bytes are in place.  Needs a connection with extensions between the two.
 *
 *	cc hello.c $(pkg-config --cflags --libs libsuperp) -o hello
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <superp/verbs.h>

#define SERVER 7001	/* numbers of the queue pairs */
#define CALLER 7002
#define BYTES 8192
#define DONE 42		/* the immediate */

static struct superp_context *context;
static struct superp_cq *cq;
static struct superp_qp *qp;
static struct superp_mr *mr;
static char memory[BYTES];

static void fail(const char *what, int error)
{
	fprintf(stderr, "hello: %s: %s\n", what, strerror(error));
	exit(1);
}

static void prepare(const char *address, uint32_t number, uint32_t peer_number)
{
	struct superp_qp_init_attr attr = { .max_send_wr = 8, .max_recv_wr = 8, .qp_num = number };
	struct sockaddr_superp peer = { .ssp_qpn = peer_number, .ssp_cid = SUPERP_CID_ANY };
	char mapped[64];
	int error;

	snprintf(mapped, sizeof(mapped), "%s%s", strchr(address, ':') ? "" : "::ffff:", address);
	if (inet_pton(AF_INET6, mapped, peer.ssp_addr) != 1)
		fail(address, EINVAL);
	context = superp_open_device(NULL);
	if (!context)
		fail("open", errno);
	cq = superp_create_cq(context, 16, NULL);
	if (!cq)
		fail("completion queue", errno);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = superp_create_qp(context, &attr);
	if (!qp)
		fail("queue pair", errno);
	mr = superp_reg_mr(context, memory, sizeof(memory), SUPERP_ACCESS_LOCAL_WRITE | SUPERP_ACCESS_REMOTE_WRITE);
	if (!mr)
		fail("memory region", errno);
	error = superp_connect_qp(qp, &peer, NULL);
	if (error)
		fail("connect", error);
}

/* A buffer for the next message, at the start of the memory. */
static void receive(void)
{
	struct superp_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
	struct superp_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	int error = superp_post_recv(qp, &wr, NULL);

	if (error)
		fail("post a buffer", error);
}

/* A request with a completion. */
static void post(struct superp_send_wr *wr)
{
	int error;

	wr->send_flags |= SUPERP_SEND_SIGNALED;
	error = superp_post_send(qp, wr, NULL);
	if (error)
		fail("post a request", error);
}

/* The next completion of this kind; it sleeps until there is one. */
static struct superp_wc complete(uint32_t opcode)
{
	static struct superp_wc other;	/* one that came before the one that was waited for */
	struct superp_wc wc;

	if (other.opcode == opcode) {
		wc = other;
		other.opcode = 0;
		return wc;
	}
	for (;;) {
		int count = superp_poll_cq(cq, 1, &wc);

		if (count < 0)
			fail("poll", -count);
		if (count == 0) {
			int error = superp_req_notify_cq(cq);

			if (!error)
				error = superp_get_cq_event(context, -1, NULL, NULL);
			if (error && error != EAGAIN)
				fail("wait", error);
			continue;
		}
		if (wc.status) {
			fprintf(stderr, "hello: %s\n", superp_wc_status_str(wc.status, wc.minor));
			exit(1);
		}
		if (wc.opcode == opcode)
			return wc;
		other = wc;
	}
}

static void serve(void)
{
	uint64_t place = mr->rma_addr;
	struct superp_sge sge = { .addr = (uintptr_t)&place, .length = sizeof(place) };
	struct superp_send_wr answer = {
		.opcode = SUPERP_OP_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = SUPERP_SEND_INLINE,
	};
	struct superp_wc wc;

	receive();
	printf("ready\n");
	fflush(stdout);
	wc = complete(SUPERP_OP_RECV);
	printf("received: %.*s\n", (int)wc.byte_len, memory);
	receive();
	post(&answer);
	complete(SUPERP_OP_SEND);
	wc = complete(SUPERP_OP_RECV_WRITE);
	for (uint32_t i = 0; i < wc.byte_len; i++)
		if (memory[i] != 'x')
			fail("a wrong byte", EIO);
	printf("written: %u bytes, immediate %u\n", wc.byte_len, wc.imm_data);
}

static void call(void)
{
	static char greeting[] = "hello, memory";
	struct superp_sge sge = { .addr = (uintptr_t)greeting, .length = sizeof(greeting) - 1 };
	struct superp_send_wr hello = {
		.opcode = SUPERP_OP_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = SUPERP_SEND_INLINE,
	};
	struct superp_send_wr write = {
		.opcode = SUPERP_OP_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = SUPERP_SEND_IMM, .imm_data = DONE,
	};

	receive();
	post(&hello);
	complete(SUPERP_OP_SEND);
	complete(SUPERP_OP_RECV);
	memcpy(&write.remote_addr, memory, sizeof(write.remote_addr));
	memset(memory, 'x', sizeof(memory));
	sge = (struct superp_sge){ .addr = (uintptr_t)memory, .length = BYTES, .lkey = mr->lkey };
	post(&write);
	complete(SUPERP_OP_WRITE);
	printf("written: %d bytes to %#llx\n", BYTES, (unsigned long long)write.remote_addr);
}

int main(int argc, char **argv)
{
	int serving = argc == 3 && !strcmp(argv[1], "serve");

	if (!serving && (argc != 3 || strcmp(argv[1], "call"))) {
		fprintf(stderr, "usage: hello serve|call PEER-ADDRESS\n");
		return 2;
	}
	prepare(argv[2], serving ? SERVER : CALLER, serving ? CALLER : SERVER);
	if (serving)
		serve();
	else
		call();
	superp_destroy_qp(qp);
	superp_destroy_cq(cq);
	superp_dereg_mr(mr);
	return superp_close_device(context);
}
