// SPDX-License-Identifier: GPL-2.0
/* Immediate data: a number that goes with a message, or tells that a write is in place. */
#include "superp_conn.h"

#define AREA (SUPERP_MAX_MESSAGE + 65536)
#define WAIT_MS 20000
/* A number with four different bytes, and one more for each seed. */
#define NUMBER(seed) (0xa1b2c3d4u + (seed))

FIXTURE(imm)
{
	int cid;
	int a, b;
	uint8_t *local, *remote;		/* AREA bytes each */
	struct superp_mr_reg local_mr, remote_mr;
};

FIXTURE_VARIANT(imm)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(imm, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(imm, udp6)
{
	.options = { .encap = SUPERP_ENCAP_UDP6 },
};

FIXTURE_VARIANT_ADD(imm, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(imm)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->local = mr_memory(self->a, AREA, SUPERP_ACCESS_MASK, &self->local_mr);
	self->remote = mr_memory(self->b, AREA, SUPERP_ACCESS_MASK, &self->remote_mr);
	ASSERT_NE(NULL, self->local);
	ASSERT_NE(NULL, self->remote);
}

FIXTURE_TEARDOWN(imm)
{
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

static ssize_t imm_send(int fd, const void *bytes, size_t len, uint32_t imm)
{
	return send_control(fd, SOL_SUPERP, SUPERP_CMSG_IMM, &imm, sizeof(imm), bytes, len);
}

/* Posts a request, @type says of which kind, with an immediate. */
static ssize_t imm_post(int fd, int type, const void *request, size_t size, uint32_t imm)
{
	const struct control controls[] = {
		{ SOL_SUPERP, type, request, size },
		{ SOL_SUPERP, SUPERP_CMSG_IMM, &imm, sizeof(imm) },
	};

	return send_controls(fd, controls, ARRAY_SIZE(controls), NULL, 0);
}

static ssize_t imm_write(int fd, const struct superp_rma *rma, uint32_t imm)
{
	return imm_post(fd, SUPERP_CMSG_RMA, rma, sizeof(*rma), imm);
}

/* One message, within @ms: its length and number, or -1; ENODATA: without number. */
static ssize_t imm_receive(int fd, void *bytes, size_t len, int flags, int ms, uint32_t *imm)
{
	union {
		char		buffer[CMSG_SPACE(sizeof(*imm))];
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

	if (!(superp_poll(fd, POLLIN, ms) & POLLIN)) {
		errno = ETIME;
		return -1;
	}
	got = recvmsg(fd, &msg, MSG_DONTWAIT | flags);
	if (got < 0)
		return -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg && msg.msg_flags & MSG_EOR) {
		errno = ENODATA;
		return -1;
	}
	if (!cmsg || cmsg->cmsg_level != SOL_SUPERP || cmsg->cmsg_type != SUPERP_CMSG_IMM ||
	    cmsg->cmsg_len != CMSG_LEN(sizeof(*imm)) || CMSG_NXTHDR(&msg, cmsg) ||
	    !(msg.msg_flags & MSG_EOR) || msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
		errno = EPROTO;
		return -1;
	}
	memcpy(imm, CMSG_DATA(cmsg), sizeof(*imm));
	return got;
}

TEST_F_TIMEOUT(imm, message__brings_its_number, slowly(60))
{
	static const uint32_t sizes[] = {
		0, 1, 15, 16, 17, 193, 8952, 9000, 286464, 286465, 1 << 20, SUPERP_MAX_MESSAGE,
	};
	unsigned int i;
	uint32_t imm;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t size = sizes[i];

		pattern_fill(self->local, size, i);
		ASSERT_EQ((ssize_t)size, imm_send(self->a, self->local, size, NUMBER(i)));
		ASSERT_EQ((ssize_t)size, imm_receive(self->b, self->remote, AREA, MSG_PEEK,
						     WAIT_MS, &imm));
		ASSERT_EQ(NUMBER(i), imm);
		imm = 0;
		ASSERT_EQ((ssize_t)size, imm_receive(self->b, self->remote, AREA, 0, WAIT_MS,
						     &imm));
		ASSERT_EQ(NUMBER(i), imm);
		ASSERT_EQ(-1, pattern_check(self->remote, size, i));
	}
	/* Zero is a number too, and none is none. */
	ASSERT_EQ(1, imm_send(self->a, "x", 1, 0));
	ASSERT_EQ(1, imm_receive(self->b, self->remote, 1, 0, WAIT_MS, &imm));
	ASSERT_EQ(0, imm);
	ASSERT_EQ(1, send(self->a, "x", 1, 0));
	ASSERT_EQ(-1, imm_receive(self->b, self->remote, 1, 0, WAIT_MS, &imm));
	ASSERT_EQ(ENODATA, errno);
}

/* Around what one transaction holds (286464 and 286720 over SUNH), and several of them. */
static const uint32_t write_sizes[] = {
	0, 1, 2, 15, 16, 17, 193, 4096, 8952, 8953, 8960, 8961, 65537, 286463, 286464, 286465,
	286719, 286720, 286721, 286736, 573183, 573184, 573185, 573440, 573441, 1 << 20,
	(1 << 20) + 1, SUPERP_MAX_MESSAGE,
};

TEST_F_TIMEOUT(imm, write__number_comes_when_all_bytes_are_there, slowly(60))
{
	struct superp_completion completion;
	unsigned int i, j;
	uint32_t imm;

	for (i = 0; i < ARRAY_SIZE(write_sizes); i++) {
		uint32_t size = write_sizes[i];
		struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 3,
					       &self->remote_mr, 5, size);

		pattern_fill(self->local + 3, size, i);
		memset(self->remote, 0x5a, 5 + size + 64);
		ASSERT_EQ(0, imm_write(self->a, &rma, NUMBER(i)));
		imm = 0;
		ASSERT_EQ(0, imm_receive(self->b, NULL, 0, 0, WAIT_MS, &imm)) {
			TH_LOG("write of %u: %s", size, strerror(errno));
		}
		/* Now, and not only when the writer knows. */
		ASSERT_EQ(-1, pattern_check(self->remote + 5, size, i));
		ASSERT_EQ(NUMBER(i), imm);
		for (j = 0; j < 5; j++)
			ASSERT_EQ(0x5a, self->remote[j]);
		for (j = 5 + size; j < 5 + size + 64; j++)
			ASSERT_EQ(0x5a, self->remote[j]);
		ASSERT_EQ(0, rma_wait(self->a, &rma, &completion));
	}
	/* Each once. */
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));
	EXPECT_EQ(0, superp_poll(self->a, 0, 0));
}

/* Item @i of a mixed stream is a message of one byte, or a write to a place of its own. */
#define ITEMS 400
#define PLACE (AREA / ITEMS)

static uint32_t item_size(unsigned int i)
{
	return i % 50 == 7 ? 0 : i % 3 ? 1 + i * 7919 % (PLACE - 100) : 1;
}

static bool item_is_message(unsigned int i)
{
	return i % 4 == 1;
}

static int item_post(int fd, uint8_t *local, const struct superp_mr_reg *local_mr,
		     const struct superp_mr_reg *remote_mr, unsigned int i)
{
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, local_mr, i * PLACE, remote_mr,
				       i * PLACE, item_size(i));
	uint8_t byte = i;

	if (item_is_message(i))
		return imm_send(fd, &byte, 1, NUMBER(i)) == 1 ? 0 : -1;
	rma.token = i;
	pattern_fill(local + i * PLACE, rma.length, i);
	return imm_write(fd, &rma, NUMBER(i));
}

/*
 * Receives one item and checks it: which one it is, or -1. @below: those before it must be in place
 * too, of which the last few are looked at.
 */
static int item_receive(int fd, const uint8_t *remote, bool below)
{
	unsigned int i, j;
	uint8_t byte;
	uint32_t imm;
	ssize_t got = imm_receive(fd, &byte, 1, 0, WAIT_MS, &imm);

	if (got < 0) {
		perror("item");
		return -1;
	}
	i = imm - NUMBER(0);
	if (i >= ITEMS || got != item_is_message(i) || (got && byte != (uint8_t)i)) {
		fprintf(stderr, "item %#x of %zd bytes\n", imm, got);
		return -1;
	}
	for (j = below && i > 8 ? i - 8 : below ? 0 : i; j <= i; j++) {
		if (!item_is_message(j) &&
		    pattern_check(remote + j * PLACE, item_size(j), j) >= 0) {
			fprintf(stderr, "number of %u came before the bytes of %u\n", i, j);
			return -1;
		}
	}
	return i;
}

/* Sends all items, receives them at the same time: each once, and in order if @ordered. */
static int items_exchange(int a, int b, uint8_t *local, const struct superp_mr_reg *local_mr,
			  const uint8_t *remote, const struct superp_mr_reg *remote_mr,
			  bool ordered)
{
	static uint8_t seen[ITEMS];
	unsigned int i, posted = 0;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < ITEMS; i++) {
		int item;

		while (posted < ITEMS && posted < i + 32)
			if (item_post(a, local, local_mr, remote_mr, posted++)) {
				perror("post");
				return -1;
			}
		item = item_receive(b, remote, ordered);
		if (item < 0 || seen[item]++ || (ordered && item != (int)i)) {
			fprintf(stderr, "%u-th is item %d\n", i, item);
			return -1;
		}
	}
	return 0;
}

/* Fetches the completions of all items that are writes; each must be there once. */
static int items_complete(int fd)
{
	struct superp_completion completion;
	static uint8_t seen[ITEMS];
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < ITEMS; i++) {
		if (item_is_message(i))
			continue;
		if (completion_wait(fd, &completion, WAIT_MS) || completion.error ||
		    completion.token >= ITEMS || item_is_message(completion.token) ||
		    seen[completion.token]++) {
			fprintf(stderr, "completion of item %u, error %u\n",
				(unsigned int)completion.token, completion.error);
			return -1;
		}
	}
	return 0;
}

TEST_F_TIMEOUT(imm, bad_link__each_number_once_and_after_its_bytes, slowly(100))
{
	ASSERT_EQ(0, link_netem("delay 1ms 1ms loss 3% duplicate 10%"));
	EXPECT_EQ(0, items_exchange(self->a, self->b, self->local, &self->local_mr, self->remote,
				    &self->remote_mr, !variant->options.unordered));
	EXPECT_EQ(0, items_complete(self->a));
	link_clean();
	/* What was repeated or doubled is not delivered late. */
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 100));
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F_TIMEOUT(imm, long_write__later_messages_wait_for_its_number, slowly(60))
{
	const uint32_t size = 4 << 20;
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 0,
				       size);
	struct superp_completion completion;
	unsigned int i;
	uint32_t imm;

	for (i = 0; i < 10; i++) {
		pattern_fill(self->local, size, i);
		ASSERT_EQ(0, imm_write(self->a, &rma, NUMBER(2 * i)));
		ASSERT_EQ(0, imm_send(self->a, NULL, 0, NUMBER(2 * i + 1)));
		ASSERT_EQ(0, imm_receive(self->b, NULL, 0, 0, WAIT_MS, &imm));
		ASSERT_EQ(-1, pattern_check(self->remote, size, i));
		if (!variant->options.unordered)
			ASSERT_EQ(NUMBER(2 * i), imm);
		ASSERT_EQ(0, imm_receive(self->b, NULL, 0, 0, WAIT_MS, &imm));
		ASSERT_EQ(0, rma_wait(self->a, &rma, &completion));
	}
}

TEST_F_TIMEOUT(imm, receive_buffer_full__each_number_once_and_in_order, slowly(60))
{
	unsigned int i;
	uint64_t bytes = 0;

	/* Room for a few, so that nearly all are refused; for all here, that nobody waits. */
	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 4096));
	ASSERT_EQ(0, superp_set(self->a, SO_SNDBUFFORCE, 4 << 20));
	for (i = 0; i < ITEMS; i++) {
		ASSERT_EQ(0, item_post(self->a, self->local, &self->local_mr, &self->remote_mr,
				       i));
		bytes += item_is_message(i) ? 0 : item_size(i);
	}
	usleep(50000);
	for (i = 0; i < ITEMS; i++)
		ASSERT_EQ((int)i, item_receive(self->b, self->remote, true));
	EXPECT_EQ(0, items_complete(self->a));
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 100));
	/* Only the number is repeated, not the bytes. */
	EXPECT_EQ(bytes, mr_written(self->b, self->remote_mr.key));
	EXPECT_EQ(0, superp_error(self->a));
}

TEST_F_TIMEOUT(imm, connection_starts_anew__waiting_writes_go_again_whole, slowly(60))
{
	const uint32_t size = 5000;
	struct superp_rma rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 0,
				       size);
	static char bytes[8192];
	struct superp_completion completion;
	unsigned int i;
	uint32_t imm;

	ASSERT_EQ(0, superp_set(self->b, SO_RCVBUF, 4096));
	/* It takes all the room, and is not refused: what comes behind a refused one would not be sent. */
	ASSERT_EQ((ssize_t)sizeof(bytes), imm_send(self->a, self->local, sizeof(bytes), NUMBER(0)));
	pattern_fill(self->local, size, 1);
	ASSERT_EQ(0, imm_write(self->a, &rma, NUMBER(1)));
	/* Its bytes are there, its number has no room. */
	for (i = 0; i < 1000 && pattern_check(self->remote, size, 1) >= 0; i++)
		usleep(10000);
	ASSERT_GT(1000, i);
	ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_STOP, self->cid, SUPERP_CONN_STATE_STOPPED));
	memset(self->remote, 0, size);
	ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_RESET, self->cid, SUPERP_CONN_STATE_CREATED));
	ASSERT_EQ(0, conn_both(SUPERP_CMD_CONN_START, self->cid, SUPERP_CONN_STATE_ESTABLISHED));
	for (i = 0; i < 2; i++) {
		ASSERT_LE(0, imm_receive(self->b, bytes, sizeof(bytes), 0, WAIT_MS, &imm));
		ASSERT_EQ(NUMBER(i), imm);
	}
	EXPECT_EQ(-1, pattern_check(self->remote, size, 1));
	EXPECT_EQ(0, rma_wait(self->a, &rma, &completion));
}

TEST_F(imm, control_buffer__too_small)
{
	union {
		char		buffer[CMSG_SPACE(sizeof(uint32_t))];
		struct cmsghdr	align;
	} control;
	char bytes[8];
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	uint32_t imm;
	size_t room;

	for (room = 0; room <= CMSG_LEN(sizeof(imm)); room++) {
		bool fits = room == CMSG_LEN(sizeof(imm));

		ASSERT_EQ(5, imm_send(self->a, "hello", 5, NUMBER(room)));
		ASSERT_TRUE(superp_poll(self->b, POLLIN, WAIT_MS) & POLLIN);
		memset(&control, 0, sizeof(control));
		msg.msg_control = room ? &control : NULL;
		msg.msg_controllen = room;
		/* The message itself is whole. */
		ASSERT_EQ(5, recvmsg(self->b, &msg, 0));
		EXPECT_EQ(0, memcmp(bytes, "hello", 5));
		EXPECT_EQ(MSG_EOR | (fits ? 0 : MSG_CTRUNC),
			  msg.msg_flags & (MSG_EOR | MSG_CTRUNC | MSG_TRUNC)) {
			TH_LOG("with room for %zu", room);
		}
		if (fits) {
			memcpy(&imm, CMSG_DATA(&control.align), sizeof(imm));
			EXPECT_EQ(NUMBER(room), imm);
		}
	}
	/* Programs that ask for none lose nothing else. */
	ASSERT_EQ(5, imm_send(self->a, "hello", 5, 1));
	EXPECT_EQ(5, recv(self->b, bytes, sizeof(bytes), 0));
}

TEST_F(imm, refusals__have_their_names)
{
	const struct superp_rma good = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0,
					      &self->remote_mr, 0, 64);
	struct superp_atomic atomic = {
		.rma = rma_of(SUPERP_RMA_FETCH_ADD, &self->local_mr, 0, &self->remote_mr, 0, 8),
	};
	const uint64_t value = 7;
	const struct control wrong[][3] = {
		/* A length that is not the number's, twice, a level that is not ours. */
		{ { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 0 } },
		{ { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 3 } },
		{ { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 8 } },
		{ { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 4 },
		  { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 4 } },
		{ { SOL_SOCKET, SUPERP_CMSG_IMM, &value, 4 } },
		{ { SOL_SUPERP, SUPERP_CMSG_IMM, &value, 4 },
		  { SOL_SUPERP, SUPERP_CMSG_RMA, &good, sizeof(good) },
		  { SOL_SUPERP, SUPERP_CMSG_RMA, &good, sizeof(good) } },
	};
	struct superp_completion completion;
	struct superp_rma rma = good;
	unsigned int i;
	uint32_t imm;
	int fd;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		int count = 0;

		while (count < 3 && wrong[i][count].data)
			count++;
		EXPECT_EQ(-1, send_controls(self->a, wrong[i], count, NULL, 0));
		EXPECT_EQ(EINVAL, errno) {
			TH_LOG("control messages %u", i);
		}
	}
	/* Only a write has a number. */
	rma.op = SUPERP_RMA_READ;
	EXPECT_EQ(-1, imm_write(self->a, &rma, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, imm_post(self->a, SUPERP_CMSG_ATOMIC, &atomic, sizeof(atomic), 1));
	EXPECT_EQ(EINVAL, errno);

	/* Nobody to tell it to. */
	fd = superp_open(&node_a, 0, &node_b, variant->options.encap, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, self->local, 4096, 0, &self->local_mr));
	rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &self->remote_mr, 0, 64);
	EXPECT_EQ(-1, imm_write(fd, &rma, 1));
	EXPECT_EQ(EDESTADDRREQ, errno);
	EXPECT_EQ(0, rma_run(fd, &rma, &completion));
	close(fd);
	fd = superp_open(&node_a, 0, &node_b, variant->options.encap, 4444);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mr_reg(fd, self->local, 4096, 0, &self->local_mr));
	rma.key = self->local_mr.key;
	EXPECT_EQ(0, imm_write(fd, &rma, 1));
	EXPECT_EQ(ECONNREFUSED, rma_wait(fd, &rma, &completion));
	EXPECT_EQ(SUPERP_ERR_NO_QP, completion.major);
	EXPECT_EQ(0, superp_error(fd));
	close(fd);

	/* None of them has left anything. */
	EXPECT_EQ(0, superp_poll(self->b, POLLIN, 50));
	EXPECT_EQ(0, imm_write(self->a, &good, 5));
	EXPECT_EQ(0, rma_wait(self->a, &good, &completion));
	EXPECT_EQ(0, imm_receive(self->b, NULL, 0, 0, WAIT_MS, &imm));
	EXPECT_EQ(5, imm);
}

TEST_F(imm, write_refused__there_is_no_number)
{
	const uint32_t half = 1 << 20;
	struct superp_completion completion;
	struct superp_mr_reg upper;
	struct superp_rma rma;
	uint32_t imm, size;

	/* Begins below the region and ends in it: the last transaction alone would be good. */
	ASSERT_EQ(0, mr_reg(self->b, self->remote + half, half, SUPERP_ACCESS_REMOTE_WRITE,
			    &upper));
	for (size = 32; size <= half; size <<= 5) {
		rma = rma_of(SUPERP_RMA_WRITE, &self->local_mr, 0, &upper, -size / 2, size);
		ASSERT_EQ(0, imm_write(self->a, &rma, NUMBER(size)));
		EXPECT_EQ(EACCES, rma_wait(self->a, &rma, &completion));
		EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);
	}
	ASSERT_EQ(1, imm_send(self->a, "x", 1, 9));
	EXPECT_EQ(1, imm_receive(self->b, self->remote, 1, 0, WAIT_MS, &imm));
	EXPECT_EQ(9, imm);
}

TEST(without_extensions__refused_by_name)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH, .strict = true };
	struct superp_completion completion;
	struct superp_mr_reg local, remote;
	int cid = conn_id(), a, b;
	struct superp_rma rma;
	uint8_t *at;

	ASSERT_EQ(0, pair_up(cid, &options, &a, &b));
	at = memory(8192);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, mr_reg(a, at, 4096, 0, &local));
	ASSERT_EQ(0, mr_reg(b, at + 4096, 4096, SUPERP_ACCESS_REMOTE_WRITE, &remote));
	rma = rma_of(SUPERP_RMA_WRITE, &local, 0, &remote, 0, 64);
	EXPECT_EQ(-1, imm_send(a, at, 64, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, imm_write(a, &rma, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	rma.length = 0;
	EXPECT_EQ(-1, imm_write(a, &rma, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, superp_poll(a, 0, 50));

	/* Nothing of that has gone out. */
	rma.length = 64;
	EXPECT_EQ(0, rma_run(a, &rma, &completion));
	EXPECT_EQ(64, send(a, at, 64, 0));
	EXPECT_EQ(64, recv(b, at, 64, 0));
	close(a);
	close(b);
	conn_down(cid);
}

SUPERP_TEST_MAIN
