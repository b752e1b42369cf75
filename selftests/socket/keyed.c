// SPDX-License-Identifier: GPL-2.0
/* Messages by key: their bytes go to a place of the peer's, and its owner is told when all are there. */
#include "superp_test.h"

#define AREA (1 << 20)
#define WAIT_MS 20000

FIXTURE(keyed)
{
	int cid;
	int a, b;
	uint8_t *out, *in;			/* AREA bytes each */
	struct superp_mr_reg context;		/* all of @in */
	uint32_t most;				/* longest message */
};

FIXTURE_VARIANT(keyed)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(keyed, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(keyed, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(keyed, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_VARIANT_ADD(keyed, sunh_strict)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .strict = true },
};

FIXTURE_SETUP(keyed)
{
	struct superp_qp_info info = {};

	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->out = memory(AREA);
	self->in = mr_memory(self->b, AREA, SUPERP_ACCESS_RECEIVE, &self->context);
	ASSERT_NE(NULL, self->out);
	ASSERT_NE(NULL, self->in);
	ASSERT_EQ(0, ioctl(self->a, SUPERP_IOC_QP_INFO, &info));
	self->most = info.max_keyed;
	ASSERT_LT(65536, self->most);
	ASSERT_GT(AREA / 2, self->most);
}

FIXTURE_TEARDOWN(keyed)
{
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

static ssize_t keyed_send(int fd, const void *bytes, size_t len, uint32_t key, uint32_t offset)
{
	const struct superp_key place = { .key = key, .offset = offset };

	return send_control(fd, SOL_SUPERP, SUPERP_CMSG_KEY, &place, sizeof(place), bytes, len);
}

/* One message, within WAIT_MS; of length 0 with @place filled in, if it is one by key. */
static ssize_t keyed_receive(int fd, struct superp_key *place, void *bytes, size_t len, int flags)
{
	if (!(superp_poll(fd, POLLIN, WAIT_MS) & POLLIN)) {
		errno = ETIME;
		return -1;
	}
	return receive_control(fd, SUPERP_CMSG_KEY, place, sizeof(*place), bytes, len,
			       MSG_DONTWAIT | flags);
}

/* The error of a message that was sent: the completion's, which is also the pending one; or -1. */
static int keyed_error(int fd, size_t len, int *major, int *minor)
{
	struct superp_completion completion;

	if (completion_wait(fd, &completion, WAIT_MS) || completion.op || completion.token ||
	    completion.length != len || superp_error(fd) != (int)completion.error)
		return -1;
	*major = completion.major;
	*minor = completion.minor;
	return completion.error;
}

TEST_F_TIMEOUT(keyed, sizes__exactly_these_bytes, slowly(60))
{
	uint32_t list[] = {
		16, 17, 31, 32, 33, 191, 192, 193, 4095, 4096, 4097, 8943, 8944, 8945, 8959, 8960,
		8961, 65537, 0, 0,
	};
	struct superp_key place;
	unsigned int i, j;

	list[ARRAY_SIZE(list) - 2] = self->most - 1;
	list[ARRAY_SIZE(list) - 1] = self->most;
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		uint32_t size = list[i], offset = 5 + 1000 * i;

		pattern_fill(self->out, size, i);
		memset(self->in, 0x5a, offset + size + 64);
		ASSERT_EQ((ssize_t)size,
			  keyed_send(self->a, self->out, size, self->context.key, offset));
		ASSERT_EQ(0, keyed_receive(self->b, &place, NULL, 0, MSG_PEEK));
		ASSERT_EQ(size, place.length);
		ASSERT_EQ(0, keyed_receive(self->b, &place, NULL, 0, 0));
		ASSERT_EQ(self->context.key, place.key);
		ASSERT_EQ(offset, place.offset);
		ASSERT_EQ(size, place.length);
		ASSERT_EQ(0, place.rsvd);
		ASSERT_EQ(-1, pattern_check(self->in + offset, size, i));
		for (j = 0; j < offset; j++)
			ASSERT_EQ(0x5a, self->in[j]);
		for (j = offset + size; j < offset + size + 64; j++)
			ASSERT_EQ(0x5a, self->in[j]);
	}
	/* To the last byte. */
	ASSERT_EQ(16, keyed_send(self->a, self->out, 16, self->context.key, AREA - 16));
	ASSERT_EQ(0, keyed_receive(self->b, &place, NULL, 0, 0));
	ASSERT_EQ(AREA - 16, place.offset);
	EXPECT_EQ(0, memcmp(self->in + AREA - 16, self->out, 16));
	/* Each once, and without a completion. */
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));
	EXPECT_EQ(POLLOUT, superp_poll(self->a, POLLOUT, 0));
}

TEST_F_TIMEOUT(keyed, among_messages__in_order, slowly(60))
{
	struct superp_key place;
	static uint8_t message[3000];
	unsigned int i;

	/* Room for all: nobody receives before the last one is sent. */
	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUFFORCE, 16 << 20));
	for (i = 0; i < 200; i++) {
		uint32_t size = 16 + i * 7919 % 2900;

		pattern_fill(message, size, i);
		ASSERT_EQ((ssize_t)size, i % 3 ? keyed_send(self->a, message, size,
							    self->context.key, 3000 * i) :
						 send(self->a, message, size, 0));
	}
	for (i = 0; i < 200; i++) {
		uint32_t size = 16 + i * 7919 % 2900;

		ASSERT_EQ(i % 3 ? 0 : (ssize_t)size,
			  keyed_receive(self->b, &place, message, sizeof(message), 0));
		if (!(i % 3)) {
			ASSERT_EQ(0, place.length);
			ASSERT_EQ(-1, pattern_check(message, size, i));
			continue;
		}
		ASSERT_EQ(3000 * i, place.offset);
		ASSERT_EQ(size, place.length);
		ASSERT_EQ(-1, pattern_check(self->in + 3000 * i, size, i));
	}
}

TEST_F_TIMEOUT(keyed, receive_buffer_full__nothing_lost, slowly(60))
{
	struct superp_key place;
	unsigned int i, sent = 0;
	static uint8_t message[64];

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 4000));
	ASSERT_EQ(0, superp_set(self->a, SO_SNDBUF, 100000));
	do {
		pattern_fill(message, sizeof(message), sent);
		/* Admitted without waiting: poll said so, and nobody else sends. */
		ASSERT_EQ((ssize_t)sizeof(message),
			  keyed_send(self->a, message, sizeof(message), self->context.key,
				     64 * sent));
		ASSERT_GT(1000, ++sent);
	} while (superp_poll(self->a, POLLOUT, 300) & POLLOUT);
	ASSERT_LT(1, sent);
	for (i = 0; i < sent; i++) {
		ASSERT_EQ(0, keyed_receive(self->b, &place, NULL, 0, 0));
		ASSERT_EQ(64 * i, place.offset);
		ASSERT_EQ(-1, pattern_check(self->in + 64 * i, 64, i));
	}
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F_TIMEOUT(keyed, refused__by_name_and_nothing_changed, slowly(60))
{
	struct superp_mr_reg plain, other, mine;
	int major, minor;
	unsigned int i;

	ASSERT_NE(NULL, mr_memory(self->b, 4096, SUPERP_ACCESS_MASK & ~SUPERP_ACCESS_RECEIVE,
				  &plain));
	ASSERT_NE(NULL, mr_memory(self->b, 4096, SUPERP_ACCESS_RECEIVE, &other));
	ASSERT_EQ(0, mr_dereg(self->b, other.key));
	mine = (struct superp_mr_reg) {
		.addr = (uintptr_t)memory(4096),
		.length = 4096,
		.access = SUPERP_ACCESS_RECEIVE,
		.partition = 77,
	};
	ASSERT_EQ(0, ioctl(self->b, SUPERP_IOC_MR_REG, &mine));

	const struct {
		uint32_t key, offset;
		int minor;
	} wrong[] = {
		{ 0, 0, 1 },
		{ 0xdeadbeef, 0, 1 },
		{ other.key, 0, 1 },
		{ self->context.key, AREA - 31, 2 },
		{ self->context.key, AREA, 2 },
		{ self->context.key, 0xffffffc0, 2 },
		{ plain.key, 0, 3 },
		{ mine.key, 0, 4 },
	};

	pattern_fill(self->out, 32, 1);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		ASSERT_EQ(32, keyed_send(self->a, self->out, 32, wrong[i].key, wrong[i].offset));
		ASSERT_EQ(EACCES, keyed_error(self->a, 32, &major, &minor));
		ASSERT_EQ(SUPERP_ERR_ACCESS, major);
		ASSERT_EQ(wrong[i].minor, minor) {
			TH_LOG("case %u", i);
		}
	}
	for (i = 0; i < AREA; i++)
		ASSERT_EQ(0, self->in[i]);
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));

	/* An owner that does not receive any more; the connection goes on. */
	ASSERT_EQ(0, shutdown(self->b, SHUT_RD));
	ASSERT_EQ(32, keyed_send(self->a, self->out, 32, self->context.key, 0));
	ASSERT_EQ(ECONNREFUSED, keyed_error(self->a, 32, &major, &minor));
	EXPECT_EQ(SUPERP_ERR_NO_QP, major);
	EXPECT_EQ(0, self->in[0]);
}

TEST_F(keyed, arguments__are_checked)
{
	struct superp_key place = { .key = self->context.key };
	struct superp_rma rma = { .op = SUPERP_RMA_WRITE };
	uint32_t imm = 7;
	const struct control with_imm[] = {
		{ SOL_SUPERP, SUPERP_CMSG_KEY, &place, sizeof(place) },
		{ SOL_SUPERP, SUPERP_CMSG_IMM, &imm, sizeof(imm) },
	}, with_rma[] = {
		{ SOL_SUPERP, SUPERP_CMSG_RMA, &rma, sizeof(rma) },
		{ SOL_SUPERP, SUPERP_CMSG_KEY, &place, sizeof(place) },
	}, twice[] = {
		{ SOL_SUPERP, SUPERP_CMSG_KEY, &place, sizeof(place) },
		{ SOL_SUPERP, SUPERP_CMSG_KEY, &place, sizeof(place) },
	};
	struct superp_key wrong[] = {
		{ .key = place.key, .length = 16 },
		{ .key = place.key, .rsvd = 1 },
		{ .key = place.key, .offset = 0xfffffff0 + 1 },
	};
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(-1, send_control(self->a, SOL_SUPERP, SUPERP_CMSG_KEY, &wrong[i],
					   sizeof(wrong[i]), self->out, 16));
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(-1, send_controls(self->a, with_imm, 2, self->out, 16));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send_controls(self->a, with_rma, 2, NULL, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send_controls(self->a, twice, 2, self->out, 16));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send_control(self->a, SOL_SUPERP, SUPERP_CMSG_KEY, &place,
				   sizeof(place) - 4, self->out, 16));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, keyed_send(self->a, self->out, 15, place.key, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, keyed_send(self->a, self->out, 0, place.key, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, keyed_send(self->a, self->out, self->most + 1, place.key, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	fd = superp_socket(&node_a);
	EXPECT_EQ(-1, keyed_send(fd, self->out, 16, place.key, 0));
	EXPECT_EQ(ENOTCONN, errno);
	close(fd);
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));
	EXPECT_EQ(0, superp_error(self->a));
}

/* It needs the number of no queue pair, and the owner need not bind. */
TEST_F(keyed, numbers__are_not_needed)
{
	int from = superp_open(&node_a, 0, &node_b, variant->options.encap, 0);
	int to = superp_socket(&node_b);
	struct superp_mr_reg context;
	struct superp_key place;
	struct superp_qp_info info = {};
	uint8_t *in = mr_memory(to, 4096, SUPERP_ACCESS_RECEIVE, &context);

	ASSERT_LE(0, from);
	ASSERT_NE(NULL, in);
	ASSERT_EQ(0, ioctl(to, SUPERP_IOC_QP_INFO, &info));
	EXPECT_NE(0, info.qpn);
	ASSERT_EQ(16, keyed_send(from, "0123456789abcdef", 16, context.key, 40));
	ASSERT_EQ(0, keyed_receive(to, &place, NULL, 0, 0));
	EXPECT_EQ(40, place.offset);
	EXPECT_EQ(0, memcmp(in + 40, "0123456789abcdef", 16));
	close(from);
	close(to);
}

SUPERP_TEST_MAIN
