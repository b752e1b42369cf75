/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/superp.yaml */
/* YNL-GEN kernel header */
/* To regenerate run: Documentation/netlink/regenerate */

#ifndef _LINUX_SUPERP_GEN_H
#define _LINUX_SUPERP_GEN_H

#include <net/netlink.h>
#include <net/genetlink.h>

#include <linux/superp_netlink.h>

/* Common nested types */
extern const struct nla_policy superp_conn_param_nl_policy[SUPERP_A_CONN_PARAM_VALUE + 1];
extern const struct nla_policy superp_conn_path_nl_policy[SUPERP_A_CONN_PATH_RX_PACKETS + 1];

int superp_nl_node_get_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_node_set_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_port_get_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_port_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int superp_nl_port_new_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_port_del_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_get_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int superp_nl_conn_new_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_del_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_start_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_reset_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_param_get_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_param_get_dumpit(struct sk_buff *skb,
			       struct netlink_callback *cb);
int superp_nl_param_set_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_region_get_dumpit(struct sk_buff *skb,
				struct netlink_callback *cb);
int superp_nl_qp_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int superp_nl_stats_get_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_conn_stop_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_route_get_dumpit(struct sk_buff *skb,
			       struct netlink_callback *cb);
int superp_nl_route_new_doit(struct sk_buff *skb, struct genl_info *info);
int superp_nl_route_del_doit(struct sk_buff *skb, struct genl_info *info);

enum {
	SUPERP_NLGRP_EVENTS,
};

extern struct genl_family superp_nl_family;

#endif /* _LINUX_SUPERP_GEN_H */
