// SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/superp.yaml */
/* YNL-GEN kernel source */
/* To regenerate run: Documentation/netlink/regenerate */

#include <net/netlink.h>
#include <net/genetlink.h>

#include "superp-nl-gen.h"

#include <linux/superp_netlink.h>

/* Integer value ranges */
static const struct netlink_range_validation superp_a_route_ifindex_range = {
	.min	= 1ULL,
	.max	= S32_MAX,
};

static const struct netlink_range_validation superp_a_port_ifindex_range = {
	.min	= 1ULL,
	.max	= S32_MAX,
};

static const struct netlink_range_validation superp_a_conn_ifindex_range = {
	.min	= 1ULL,
	.max	= S32_MAX,
};

static const struct netlink_range_validation superp_a_conn_flow_label_range = {
	.max	= 1048575ULL,
};

static const struct netlink_range_validation superp_a_conn_mtu_range = {
	.min	= 128ULL,
	.max	= 65535ULL,
};

static const struct netlink_range_validation superp_a_conn_path_ifindex_range = {
	.min	= 1ULL,
	.max	= S32_MAX,
};

/* Common nested types */
const struct nla_policy superp_conn_param_nl_policy[SUPERP_A_CONN_PARAM_VALUE + 1] = {
	[SUPERP_A_CONN_PARAM_NAME] = { .type = NLA_NUL_STRING, .len = 31, },
	[SUPERP_A_CONN_PARAM_VALUE] = { .type = NLA_UINT, },
};

const struct nla_policy superp_conn_path_nl_policy[SUPERP_A_CONN_PATH_RX_PACKETS + 1] = {
	[SUPERP_A_CONN_PATH_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_conn_path_ifindex_range),
	[SUPERP_A_CONN_PATH_IFNAME] = { .type = NLA_NUL_STRING, },
	[SUPERP_A_CONN_PATH_LOCAL_ADDR] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_CONN_PATH_REMOTE_ADDR] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_CONN_PATH_LLADDR] = NLA_POLICY_EXACT_LEN(6),
	[SUPERP_A_CONN_PATH_STATE] = NLA_POLICY_MAX(NLA_U32, 1),
	[SUPERP_A_CONN_PATH_TX_PACKETS] = { .type = NLA_UINT, },
	[SUPERP_A_CONN_PATH_RX_PACKETS] = { .type = NLA_UINT, },
};

/* SUPERP_CMD_NODE_SET - do */
static const struct nla_policy superp_node_set_nl_policy[SUPERP_A_NODE_RMA_SIZE + 1] = {
	[SUPERP_A_NODE_CM_ADDRESS] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_NODE_FORWARDING] = NLA_POLICY_MAX(NLA_U8, 1),
	[SUPERP_A_NODE_RMA_BASE] = { .type = NLA_UINT, },
	[SUPERP_A_NODE_RMA_SIZE] = { .type = NLA_UINT, },
};

/* SUPERP_CMD_PORT_GET - do */
static const struct nla_policy superp_port_get_nl_policy[SUPERP_A_PORT_IFINDEX + 1] = {
	[SUPERP_A_PORT_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_port_ifindex_range),
};

/* SUPERP_CMD_PORT_NEW - do */
static const struct nla_policy superp_port_new_nl_policy[SUPERP_A_PORT_ENCAP + 1] = {
	[SUPERP_A_PORT_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_port_ifindex_range),
	[SUPERP_A_PORT_ENCAP] = NLA_POLICY_MASK(NLA_U32, 0x3),
};

/* SUPERP_CMD_PORT_DEL - do */
static const struct nla_policy superp_port_del_nl_policy[SUPERP_A_PORT_IFINDEX + 1] = {
	[SUPERP_A_PORT_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_port_ifindex_range),
};

/* SUPERP_CMD_CONN_GET - do */
static const struct nla_policy superp_conn_get_do_nl_policy[SUPERP_A_CONN_WANT_STATS + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
	[SUPERP_A_CONN_WANT_STATS] = { .type = NLA_FLAG, },
};

/* SUPERP_CMD_CONN_GET - dump */
static const struct nla_policy superp_conn_get_dump_nl_policy[SUPERP_A_CONN_WANT_STATS + 1] = {
	[SUPERP_A_CONN_WANT_STATS] = { .type = NLA_FLAG, },
};

/* SUPERP_CMD_CONN_NEW - do */
static const struct nla_policy superp_conn_new_nl_policy[SUPERP_A_CONN_PATH + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
	[SUPERP_A_CONN_REMOTE_CID] = { .type = NLA_U16, },
	[SUPERP_A_CONN_ENCAP] = NLA_POLICY_MAX(NLA_U32, 2),
	[SUPERP_A_CONN_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_conn_ifindex_range),
	[SUPERP_A_CONN_LOCAL_ADDR] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_CONN_REMOTE_ADDR] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_CONN_LLADDR] = NLA_POLICY_EXACT_LEN(6),
	[SUPERP_A_CONN_ORDERED_TX] = NLA_POLICY_MAX(NLA_U8, 1),
	[SUPERP_A_CONN_ORDERED_RX] = NLA_POLICY_MAX(NLA_U8, 1),
	[SUPERP_A_CONN_EXT] = NLA_POLICY_MAX(NLA_U8, 2),
	[SUPERP_A_CONN_PARTITION] = { .type = NLA_U32, },
	[SUPERP_A_CONN_TCLASS] = { .type = NLA_U8, },
	[SUPERP_A_CONN_HOP_LIMIT] = NLA_POLICY_MIN(NLA_U8, 1),
	[SUPERP_A_CONN_FLOW_LABEL] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_conn_flow_label_range),
	[SUPERP_A_CONN_SPRAY] = NLA_POLICY_MAX(NLA_U8, 1),
	[SUPERP_A_CONN_LITE] = NLA_POLICY_MAX(NLA_U8, 1),
	[SUPERP_A_CONN_MTU] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_conn_mtu_range),
	[SUPERP_A_CONN_START_PSN] = { .type = NLA_U32, },
	[SUPERP_A_CONN_START_XID] = { .type = NLA_U16, },
	[SUPERP_A_CONN_PARAM] = NLA_POLICY_NESTED(superp_conn_param_nl_policy),
	[SUPERP_A_CONN_PATH] = NLA_POLICY_NESTED(superp_conn_path_nl_policy),
};

/* SUPERP_CMD_CONN_DEL - do */
static const struct nla_policy superp_conn_del_nl_policy[SUPERP_A_CONN_LOCAL_CID + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
};

/* SUPERP_CMD_CONN_START - do */
static const struct nla_policy superp_conn_start_nl_policy[SUPERP_A_CONN_LOCAL_CID + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
};

/* SUPERP_CMD_CONN_RESET - do */
static const struct nla_policy superp_conn_reset_nl_policy[SUPERP_A_CONN_START_XID + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
	[SUPERP_A_CONN_START_PSN] = { .type = NLA_U32, },
	[SUPERP_A_CONN_START_XID] = { .type = NLA_U16, },
};

/* SUPERP_CMD_PARAM_GET - do */
static const struct nla_policy superp_param_get_nl_policy[SUPERP_A_PARAM_NAME + 1] = {
	[SUPERP_A_PARAM_NAME] = { .type = NLA_NUL_STRING, .len = 31, },
};

/* SUPERP_CMD_PARAM_SET - do */
static const struct nla_policy superp_param_set_nl_policy[SUPERP_A_PARAM_VALUE + 1] = {
	[SUPERP_A_PARAM_NAME] = { .type = NLA_NUL_STRING, .len = 31, },
	[SUPERP_A_PARAM_VALUE] = { .type = NLA_UINT, },
};

/* SUPERP_CMD_CONN_STOP - do */
static const struct nla_policy superp_conn_stop_nl_policy[SUPERP_A_CONN_LOCAL_CID + 1] = {
	[SUPERP_A_CONN_LOCAL_CID] = { .type = NLA_U16, },
};

/* SUPERP_CMD_ROUTE_NEW - do */
static const struct nla_policy superp_route_new_nl_policy[SUPERP_A_ROUTE_PREFIX_LEN + 1] = {
	[SUPERP_A_ROUTE_ADDRESS] = { .type = NLA_U16, },
	[SUPERP_A_ROUTE_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_route_ifindex_range),
	[SUPERP_A_ROUTE_VIA] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_ROUTE_LLADDR] = NLA_POLICY_EXACT_LEN(6),
	[SUPERP_A_ROUTE_PREFIX] = NLA_POLICY_EXACT_LEN(16),
	[SUPERP_A_ROUTE_PREFIX_LEN] = NLA_POLICY_RANGE(NLA_U8, 1, 127),
};

/* SUPERP_CMD_ROUTE_DEL - do */
static const struct nla_policy superp_route_del_nl_policy[SUPERP_A_ROUTE_IFINDEX + 1] = {
	[SUPERP_A_ROUTE_ADDRESS] = { .type = NLA_U16, },
	[SUPERP_A_ROUTE_IFINDEX] = NLA_POLICY_FULL_RANGE(NLA_U32, &superp_a_route_ifindex_range),
};

/* Ops table for superp */
static const struct genl_split_ops superp_nl_ops[] = {
	{
		.cmd	= SUPERP_CMD_NODE_GET,
		.doit	= superp_nl_node_get_doit,
		.flags	= GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_NODE_SET,
		.doit		= superp_nl_node_set_doit,
		.policy		= superp_node_set_nl_policy,
		.maxattr	= SUPERP_A_NODE_RMA_SIZE,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_PORT_GET,
		.doit		= superp_nl_port_get_doit,
		.policy		= superp_port_get_nl_policy,
		.maxattr	= SUPERP_A_PORT_IFINDEX,
		.flags		= GENL_CMD_CAP_DO,
	},
	{
		.cmd	= SUPERP_CMD_PORT_GET,
		.dumpit	= superp_nl_port_get_dumpit,
		.flags	= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= SUPERP_CMD_PORT_NEW,
		.doit		= superp_nl_port_new_doit,
		.policy		= superp_port_new_nl_policy,
		.maxattr	= SUPERP_A_PORT_ENCAP,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_PORT_DEL,
		.doit		= superp_nl_port_del_doit,
		.policy		= superp_port_del_nl_policy,
		.maxattr	= SUPERP_A_PORT_IFINDEX,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_GET,
		.doit		= superp_nl_conn_get_doit,
		.policy		= superp_conn_get_do_nl_policy,
		.maxattr	= SUPERP_A_CONN_WANT_STATS,
		.flags		= GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_GET,
		.dumpit		= superp_nl_conn_get_dumpit,
		.policy		= superp_conn_get_dump_nl_policy,
		.maxattr	= SUPERP_A_CONN_WANT_STATS,
		.flags		= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= SUPERP_CMD_CONN_NEW,
		.doit		= superp_nl_conn_new_doit,
		.policy		= superp_conn_new_nl_policy,
		.maxattr	= SUPERP_A_CONN_PATH,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_DEL,
		.doit		= superp_nl_conn_del_doit,
		.policy		= superp_conn_del_nl_policy,
		.maxattr	= SUPERP_A_CONN_LOCAL_CID,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_START,
		.doit		= superp_nl_conn_start_doit,
		.policy		= superp_conn_start_nl_policy,
		.maxattr	= SUPERP_A_CONN_LOCAL_CID,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_RESET,
		.doit		= superp_nl_conn_reset_doit,
		.policy		= superp_conn_reset_nl_policy,
		.maxattr	= SUPERP_A_CONN_START_XID,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_PARAM_GET,
		.doit		= superp_nl_param_get_doit,
		.policy		= superp_param_get_nl_policy,
		.maxattr	= SUPERP_A_PARAM_NAME,
		.flags		= GENL_CMD_CAP_DO,
	},
	{
		.cmd	= SUPERP_CMD_PARAM_GET,
		.dumpit	= superp_nl_param_get_dumpit,
		.flags	= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= SUPERP_CMD_PARAM_SET,
		.doit		= superp_nl_param_set_doit,
		.policy		= superp_param_set_nl_policy,
		.maxattr	= SUPERP_A_PARAM_VALUE,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd	= SUPERP_CMD_REGION_GET,
		.dumpit	= superp_nl_region_get_dumpit,
		.flags	= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DUMP,
	},
	{
		.cmd	= SUPERP_CMD_QP_GET,
		.dumpit	= superp_nl_qp_get_dumpit,
		.flags	= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd	= SUPERP_CMD_STATS_GET,
		.doit	= superp_nl_stats_get_doit,
		.flags	= GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_CONN_STOP,
		.doit		= superp_nl_conn_stop_doit,
		.policy		= superp_conn_stop_nl_policy,
		.maxattr	= SUPERP_A_CONN_LOCAL_CID,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd	= SUPERP_CMD_ROUTE_GET,
		.dumpit	= superp_nl_route_get_dumpit,
		.flags	= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= SUPERP_CMD_ROUTE_NEW,
		.doit		= superp_nl_route_new_doit,
		.policy		= superp_route_new_nl_policy,
		.maxattr	= SUPERP_A_ROUTE_PREFIX_LEN,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= SUPERP_CMD_ROUTE_DEL,
		.doit		= superp_nl_route_del_doit,
		.policy		= superp_route_del_nl_policy,
		.maxattr	= SUPERP_A_ROUTE_IFINDEX,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
};

static const struct genl_multicast_group superp_nl_mcgrps[] = {
	[SUPERP_NLGRP_EVENTS] = { "events", .flags = GENL_MCAST_CAP_NET_ADMIN, },
};

struct genl_family superp_nl_family __ro_after_init = {
	.name		= SUPERP_FAMILY_NAME,
	.version	= SUPERP_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.split_ops	= superp_nl_ops,
	.n_split_ops	= ARRAY_SIZE(superp_nl_ops),
	.mcgrps		= superp_nl_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(superp_nl_mcgrps),
};
