// SPDX-License-Identifier: GPL-2.0
/* Hundreds of receivers on one connection: what one of them does is no trouble for the others. */
#include <linux/sockios.h>

#include "superp_conn.h"

FIXTURE(crowd)
{
	int cid;
	int a, b;
	void *out, *in;
};

FIXTURE_VARIANT(crowd)
{
	struct conn_options options;
};

FIXTURE_VARIANT_ADD(crowd, sunh)
{
	.options = { .encap = SUPERP_ENCAP_SUNH },
};

FIXTURE_VARIANT_ADD(crowd, sunh_unordered)
{
	.options = { .encap = SUPERP_ENCAP_SUNH, .unordered = true },
};

FIXTURE_SETUP(crowd)
{
	self->cid = conn_id();
	ASSERT_EQ(0, pair_up(self->cid, &variant->options, &self->a, &self->b));
	self->out = memory(100000);
	self->in = memory(100000);
	ASSERT_NE(NULL, self->out);
	ASSERT_NE(NULL, self->in);
}

FIXTURE_TEARDOWN(crowd)
{
	link_clean();
	node_param(&node_a, "tal_max_pkt_per_trans", "32");
	close(self->a);
	close(self->b);
	conn_down(self->cid);
}

/* What came of messages to those that closed is nobody's: it takes no room from others. */
TEST_F_TIMEOUT(crowd, receivers_close_in_the_middle__others_receive, slowly(60))
{
	enum { COUNT = 280, SIZE = 100000 };
	int senders[COUNT], receivers[COUNT], i, fresh;

	/* A message is several transactions, and all of them are in the middle for a while. */
	ASSERT_EQ(0, node_param(&node_a, "tal_max_pkt_per_trans", "2"));
	conn_down(self->cid);
	ASSERT_EQ(ECONNRESET, superp_error(self->a));
	ASSERT_EQ(0, conn_up(self->cid, &variant->options));
	ASSERT_EQ(0, run("tc -n %s qdisc replace dev eth0 root netem rate 300mbit", node_a.name));
	for (i = 0; i < COUNT; i++) {
		struct sockaddr_superp to = superp_name(&node_b, variant->options.encap, 3000 + i);

		receivers[i] = superp_socket(&node_b);
		senders[i] = superp_socket(&node_a);
		ASSERT_LE(0, receivers[i]);
		ASSERT_LE(0, senders[i]);
		ASSERT_EQ(0, superp_bind(receivers[i], 3000 + i));
		ASSERT_EQ(SIZE, sendto(senders[i], self->out, SIZE, MSG_DONTWAIT, (void *)&to,
				       sizeof(to)));
	}
	while (conn_counter(self->cid, SUPERP_A_CONN_STATS_COMPLETED) < COUNT + COUNT / 2)
		usleep(1000);
	for (i = 0; i < COUNT; i++)
		close(receivers[i]);
	link_clean();
	/* None has anywhere to go any more. */
	for (i = 0; i < COUNT; i++) {
		int queued = 1;

		while (!ioctl(senders[i], SIOCOUTQ, &queued) && queued)
			usleep(1000);
		ASSERT_EQ(0, queued);
		close(senders[i]);
	}
	for (i = 0; i < 4; i++) {
		fresh = superp_open(&node_b, 4000 + i, &node_a, variant->options.encap, QPN_A);
		ASSERT_LE(0, fresh);
		ASSERT_EQ(0, superp_connect(self->a, &node_b, variant->options.encap, 4000 + i));
		pattern_fill(self->out, SIZE, i);
		ASSERT_EQ(SIZE, send(self->a, self->out, SIZE, 0));
		ASSERT_TRUE(superp_poll(fresh, POLLIN, 5000) & POLLIN) {
			TH_LOG("message %d: %s", i, strerror(superp_error(self->a)));
		}
		ASSERT_EQ(SIZE, recv(fresh, self->in, SIZE, 0));
		ASSERT_EQ(-1, pattern_check(self->in, SIZE, i));
		close(fresh);
	}
}

/* Those who do not read have their messages wait, and nobody else's fail. */
TEST_F_TIMEOUT(crowd, many_do_not_read__others_are_served, slowly(60))
{
	enum { COUNT = 300, SIZE = 8000, MESSAGES = 20 };
	int senders[COUNT], receivers[COUNT], i;

	ASSERT_EQ(0, setsockopt(self->b, SOL_SOCKET, SO_RCVBUF, &(int){ 1 }, sizeof(int)));
	for (i = 0; i < COUNT; i++) {
		struct sockaddr_superp to = superp_name(&node_b, variant->options.encap, 3000 + i);
		int j;

		receivers[i] = superp_socket(&node_b);
		senders[i] = superp_socket(&node_a);
		ASSERT_LE(0, receivers[i]);
		ASSERT_LE(0, senders[i]);
		ASSERT_EQ(0, superp_bind(receivers[i], 3000 + i));
		ASSERT_EQ(0, setsockopt(receivers[i], SOL_SOCKET, SO_RCVBUF, &(int){ 1 },
					sizeof(int)));
		for (j = 0; j < 3; j++)
			ASSERT_EQ(SIZE, sendto(senders[i], self->out, SIZE, MSG_DONTWAIT,
					       (void *)&to, sizeof(to)));
	}
	while (conn_counter(self->cid, SUPERP_A_CONN_STATS_TX_NO_BUFFER) < 5 * COUNT)
		usleep(1000);
	/* One more that does not read for a while. */
	for (i = 0; i < MESSAGES; i++) {
		pattern_fill(self->out, SIZE, i);
		ASSERT_EQ(SIZE, send(self->a, self->out, SIZE, 0));
	}
	usleep(100000);
	for (i = 0; i < MESSAGES; i++) {
		ASSERT_TRUE(superp_poll(self->b, POLLIN, 10000) & POLLIN) {
			TH_LOG("message %d: %s", i, strerror(superp_error(self->a)));
		}
		ASSERT_EQ(SIZE, recv(self->b, self->in, SIZE, 0));
		ASSERT_EQ(-1, pattern_check(self->in, SIZE, i));
	}
	EXPECT_EQ(0, superp_error(self->a));
	for (i = 0; i < COUNT; i++) {
		close(senders[i]);
		close(receivers[i]);
	}
}

SUPERP_TEST_MAIN
