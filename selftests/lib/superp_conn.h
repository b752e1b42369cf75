/* SPDX-License-Identifier: GPL-2.0 */
/* What connections are told and tell, for tests in C that look closer. */
#ifndef SUPERP_CONN_H
#define SUPERP_CONN_H

#include "superp_test.h"

/* Sets a parameter that connections which are made afterwards have. */
static inline int node_param(const struct node *node, const char *name, const char *value)
{
	return run("ip netns exec %s superp param set %s %s", node->name, name, value);
}

/* SUPERP_CONN_STATE_*; -1: there is no such connection. */
static inline int conn_state(const struct node *node, int cid)
{
	char reply[4096] = {};
	struct nl_request req;

	nl_begin(&req, 0, SUPERP_CMD_CONN_GET);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, cid);
	if (nl_do(node, &req, reply, sizeof(reply)))
		return -1;
	return nl_u32(nl_find((void *)reply, SUPERP_A_CONN_STATE));
}

/* Sends @cmd to both ends, and waits until both are in @state. */
static inline int conn_both(int cmd, int cid, int state)
{
	int i;

	if (conn_command(&node_a, cmd, cid) || conn_command(&node_b, cmd, cid + 1))
		return -1;
	for (i = 0; i < 1000; i++) {
		if (conn_state(&node_a, cid) == state && conn_state(&node_b, cid + 1) == state)
			return 0;
		usleep(10000);
	}
	return -1;
}

/* A counter of A's connection: an attribute SUPERP_A_CONN_STATS_*. */
static inline uint64_t conn_counter(int cid, int attribute)
{
	const struct nlattr *stats, *attr;
	char reply[16384] = {};
	struct nl_request req;
	uint64_t value = 0;

	nl_begin(&req, 0, SUPERP_CMD_CONN_GET);
	nl_put_u16(&req, SUPERP_A_CONN_LOCAL_CID, cid);
	nl_put(&req, SUPERP_A_CONN_WANT_STATS, NULL, 0);
	if (nl_do(&node_a, &req, reply, sizeof(reply)))
		return UINT64_MAX;
	stats = nl_find((void *)reply, SUPERP_A_CONN_STATS);
	if (!stats)
		return UINT64_MAX;
	for (attr = stats + 1; (char *)attr < (char *)stats + stats->nla_len;
	     attr = (void *)((char *)attr + NLA_ALIGN(attr->nla_len))) {
		if ((attr->nla_type & NLA_TYPE_MASK) == attribute)
			memcpy(&value, attr + 1, attr->nla_len - NLA_HDRLEN);
	}
	return value;
}

/* What B sends is lost, so that A's window stays full; or not any more. */
static inline int answers_lost(bool lost)
{
	return run(lost ? "tc -n %s qdisc replace dev eth0 root netem loss 100%%" :
		   "tc -n %s qdisc del dev eth0 root", node_b.name);
}

/* Bytes that peers have written to the region. */
static inline uint64_t mr_written(int fd, uint32_t key)
{
	struct superp_mr_info info = { .key = key };

	return ioctl(fd, SUPERP_IOC_MR_QUERY, &info) ? UINT64_MAX : info.remote_writes;
}

#endif /* SUPERP_CONN_H */
