/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_NL_H
#define _SUPERP_KAPI_NL_H

#include <linux/types.h>

struct genl_info;
struct net;
struct netlink_callback;
struct nlattr;
struct nlmsghdr;
struct sk_buff;

int superp_nl_register(void);
void superp_nl_unregister(void);

struct net *superp_nl_net(const struct genl_info *info);
bool superp_nl_may_administer(const struct genl_info *info);
const struct genl_info *superp_nl_dump_info(struct netlink_callback *cb);
u64 *superp_nl_dump_position(struct netlink_callback *cb);

const struct nlattr *superp_nl_next(const struct genl_info *info,
				    const struct nlattr *after, u16 type);
const struct nlattr *superp_nl_nested(const struct nlattr *nest, u16 type);
const void *superp_nl_data(const struct nlattr *attr);
u16 superp_nl_len(const struct nlattr *attr);

void superp_nl_refuse(const struct genl_info *info, const struct nlattr *attr,
		      const char *msg);
void superp_nl_missing(const struct genl_info *info, u16 type, const char *msg);
void superp_nl_refuse_text(const struct genl_info *info, const struct nlattr *attr,
			   const char *text);

struct sk_buff *superp_nl_reply_new(const struct genl_info *info, struct nlmsghdr **msg);
int superp_nl_reply(const struct genl_info *info, struct sk_buff *skb, struct nlmsghdr *msg);
struct nlmsghdr *superp_nl_dump_put(struct sk_buff *skb, const struct genl_info *info);
struct sk_buff *superp_nl_event_new(u8 cmd, struct nlmsghdr **msg);
void superp_nl_event_send(struct net *net, struct sk_buff *skb, struct nlmsghdr *msg);
bool superp_nl_event_wanted(struct net *net);
void superp_nl_end(struct sk_buff *skb, struct nlmsghdr *msg);
void superp_nl_cancel(struct sk_buff *skb, struct nlmsghdr *msg);
void superp_nl_free(struct sk_buff *skb);

int superp_nl_put(struct sk_buff *skb, u16 type, const void *data, size_t len);
int superp_nl_put_text(struct sk_buff *skb, u16 type, const u8 *text, size_t len);
struct nlattr *superp_nl_nest_start(struct sk_buff *skb, u16 type);
void superp_nl_nest_end(struct sk_buff *skb, struct nlattr *nest);

bool superp_nl_device_name(struct net *net, u32 ifindex, u8 name[16]);
bool superp_nl_device_address(struct net *net, u32 ifindex, u32 nth, u8 addr[16]);

#endif /* _SUPERP_KAPI_NL_H */
