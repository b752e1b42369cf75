// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink: access to messages and attributes for the handlers, which are Rust (nl.rs), and
 * queries of devices for their replies. superp-nl-gen.c has the generated policies and operations.
 */
#include <linux/capability.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <net/addrconf.h>
#include <net/genetlink.h>
#include <net/if_inet6.h>
#include <net/netlink.h>

#include "kapi_nl.h"
#include "superp-nl-gen.h"

MODULE_ALIAS_GENL_FAMILY(SUPERP_FAMILY_NAME);

/*
 * Whether the family is registered. A multicast group is found by the number of its family, which
 * another family may get once this one is unregistered; then no event may be sent.
 */
static bool superp_nl_live;

static_assert(sizeof(u64) <= sizeof_field(struct netlink_callback, ctx));

/**
 * superp_nl_register - register the netlink family
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int superp_nl_register(void)
{
	int err = genl_register_family(&superp_nl_family);

	if (!err)
		WRITE_ONCE(superp_nl_live, true);
	return err;
}

/**
 * superp_nl_unregister - unregister the netlink family
 *
 * Context: process. When it returns, no handler runs any more.
 */
void superp_nl_unregister(void)
{
	WRITE_ONCE(superp_nl_live, false);
	synchronize_rcu();
	genl_unregister_family(&superp_nl_family);
}

/**
 * superp_nl_net - network namespace of a request
 * @info: the request
 *
 * Context: process.
 * Return: the namespace, valid as long as @info.
 */
struct net *superp_nl_net(const struct genl_info *info)
{
	return genl_info_net(info);
}

/**
 * superp_nl_may_administer - whether the caller may administer the namespace of a request
 * @info: the request, or that of a dump
 *
 * For what is only shown: who gets the answer is asked, not who opened the socket.
 *
 * Context: process.
 * Return: whether it has CAP_NET_ADMIN there.
 */
bool superp_nl_may_administer(const struct genl_info *info)
{
	return ns_capable_noaudit(genl_info_net(info)->user_ns, CAP_NET_ADMIN);
}

/**
 * superp_nl_dump_info - request that started a dump
 * @cb: the dump
 *
 * Context: process.
 * Return: the request, valid as long as @cb.
 */
const struct genl_info *superp_nl_dump_info(struct netlink_callback *cb)
{
	return genl_info_dump(cb);
}

/**
 * superp_nl_dump_position - position of a dump
 * @cb: the dump
 *
 * Context: process.
 * Return: a number that is preserved between the calls of one dump; 0 in the first call.
 */
u64 *superp_nl_dump_position(struct netlink_callback *cb)
{
	return (u64 *)cb->ctx;
}

/**
 * superp_nl_next - find the next top-level attribute of a type
 * @info: the request, validated
 * @after: where to start, an attribute of the request; NULL starts with the first
 * @type: type of the attribute
 *
 * Context: process.
 * Return: the next attribute of @type behind @after, or NULL.
 */
const struct nlattr *superp_nl_next(const struct genl_info *info,
				    const struct nlattr *after, u16 type)
{
	int rem = genlmsg_len(info->genlhdr);
	const struct nlattr *attr = genlmsg_data(info->genlhdr);

	if (after) {
		rem -= (const u8 *)after - (const u8 *)attr;
		attr = nla_next(after, &rem);
	}
	return nla_find(attr, rem, type);
}

/**
 * superp_nl_nested - find an attribute in a nest
 * @nest: a nested attribute of a validated request
 * @type: type of the attribute
 *
 * Context: process.
 * Return: the first attribute of @type in @nest, or NULL.
 */
const struct nlattr *superp_nl_nested(const struct nlattr *nest, u16 type)
{
	return nla_find_nested(nest, type);
}

/**
 * superp_nl_data - payload of an attribute
 * @attr: the attribute
 *
 * Context: process.
 * Return: the first byte of the payload.
 */
const void *superp_nl_data(const struct nlattr *attr)
{
	return nla_data(attr);
}

/**
 * superp_nl_len - length of the payload of an attribute
 * @attr: the attribute
 *
 * Context: process.
 * Return: bytes.
 */
u16 superp_nl_len(const struct nlattr *attr)
{
	return nla_len(attr);
}

/**
 * superp_nl_refuse - set the extended ACK of a request to a static text
 * @info: the request
 * @attr: the offending attribute, or NULL
 * @msg: text that outlives the request
 *
 * Context: process.
 */
void superp_nl_refuse(const struct genl_info *info, const struct nlattr *attr,
		      const char *msg)
{
	if (!info->extack)
		return;
	info->extack->_msg = msg;
	NL_SET_BAD_ATTR(info->extack, attr);
}

/**
 * superp_nl_missing - set the extended ACK of a request that lacks an attribute
 * @info: the request
 * @type: type of the missing attribute
 * @msg: text that outlives the request
 *
 * Context: process.
 */
void superp_nl_missing(const struct genl_info *info, u16 type, const char *msg)
{
	superp_nl_refuse(info, NULL, msg);
	NL_SET_ERR_ATTR_MISS(info->extack, NULL, type);
}

/**
 * superp_nl_refuse_text - set the extended ACK of a request to a formatted text
 * @info: the request
 * @attr: the offending attribute, or NULL
 * @text: text, copied; cut off after NETLINK_MAX_FMTMSG_LEN - 1 bytes
 *
 * Context: process.
 */
void superp_nl_refuse_text(const struct genl_info *info, const struct nlattr *attr,
			   const char *text)
{
	NL_SET_ERR_MSG_FMT(info->extack, "%s", text);
	NL_SET_BAD_ATTR(info->extack, attr);
}

/**
 * superp_nl_reply_new - start a reply
 * @info: the request
 * @msg: returns the message
 *
 * Context: process.
 * Return: the buffer that holds the message, or NULL without memory.
 */
struct sk_buff *superp_nl_reply_new(const struct genl_info *info, struct nlmsghdr **msg)
{
	struct sk_buff *skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *hdr;

	if (!skb)
		return NULL;
	hdr = genlmsg_iput(skb, info);
	if (!hdr) {
		nlmsg_free(skb);
		return NULL;
	}
	*msg = genlmsg_nlhdr(hdr);
	return skb;
}

/**
 * superp_nl_reply - send a reply
 * @info: the request
 * @skb: what superp_nl_reply_new() returned, consumed
 * @msg: the message of superp_nl_reply_new()
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int superp_nl_reply(const struct genl_info *info, struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_end(skb, msg);
	return genlmsg_unicast(genl_info_net(info), skb, info->snd_portid);
}

/**
 * superp_nl_dump_put - start a message of a dump
 * @skb: buffer of the dump
 * @info: request that started the dump
 *
 * Context: process.
 * Return: the message, or NULL if @skb is full.
 */
struct nlmsghdr *superp_nl_dump_put(struct sk_buff *skb, const struct genl_info *info)
{
	void *hdr = __genlmsg_iput(skb, info, NLM_F_MULTI);

	return hdr ? genlmsg_nlhdr(hdr) : NULL;
}

/**
 * superp_nl_event_new - start an event
 * @cmd: number of the notification
 * @msg: returns the message
 *
 * Context: any up to softirq.
 * Return: the buffer that holds the message, or NULL without memory.
 */
struct sk_buff *superp_nl_event_new(u8 cmd, struct nlmsghdr **msg)
{
	/* The largest event and its attributes take less than half of this. */
	struct sk_buff *skb = genlmsg_new(512, GFP_ATOMIC);
	void *hdr;

	if (!skb)
		return NULL;
	hdr = genlmsg_put(skb, 0, 0, &superp_nl_family, 0, cmd);
	if (!hdr) {
		nlmsg_free(skb);
		return NULL;
	}
	*msg = genlmsg_nlhdr(hdr);
	return skb;
}

/**
 * superp_nl_event_send - multicast an event to the listeners in a namespace
 * @net: the network namespace
 * @skb: what superp_nl_event_new() returned, consumed
 * @msg: the message of superp_nl_event_new()
 *
 * Context: any up to softirq.
 */
void superp_nl_event_send(struct net *net, struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_end(skb, msg);
	guard(rcu)();
	if (READ_ONCE(superp_nl_live))
		genlmsg_multicast_netns(&superp_nl_family, net, skb, 0,
					SUPERP_NLGRP_EVENTS, GFP_ATOMIC);
	else
		nlmsg_free(skb);
}

/**
 * superp_nl_event_wanted - whether anyone listens to the events of a namespace
 * @net: the network namespace
 *
 * Context: any.
 * Return: whether there is a listener.
 */
bool superp_nl_event_wanted(struct net *net)
{
	guard(rcu)();
	return READ_ONCE(superp_nl_live) &&
	       genl_has_listeners(&superp_nl_family, net, SUPERP_NLGRP_EVENTS) > 0;
}

/**
 * superp_nl_end - finish a message of a dump
 * @skb: buffer of the dump
 * @msg: the message
 *
 * Context: process.
 */
void superp_nl_end(struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_end(skb, msg);
}

/**
 * superp_nl_cancel - remove an unfinished message of a dump
 * @skb: buffer of the dump
 * @msg: the last message in @skb
 *
 * Context: process.
 */
void superp_nl_cancel(struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_cancel(skb, msg);
}

/**
 * superp_nl_free - free a message that is not sent
 * @skb: the buffer that holds the message
 *
 * Context: any up to softirq.
 */
void superp_nl_free(struct sk_buff *skb)
{
	nlmsg_free(skb);
}

/**
 * superp_nl_put - append an attribute
 * @skb: the buffer that holds the message
 * @type: type of the attribute
 * @data: payload
 * @len: bytes of @data
 *
 * Context: any up to softirq.
 * Return: 0, or -EMSGSIZE if @skb is full.
 */
int superp_nl_put(struct sk_buff *skb, u16 type, const void *data, size_t len)
{
	if (len > U16_MAX - NLA_HDRLEN)
		return -EMSGSIZE;
	return nla_put(skb, type, len, data);
}

/**
 * superp_nl_put_text - append an attribute of type string
 * @skb: the buffer that holds the message
 * @type: type of the attribute
 * @text: text without a terminating zero, which is added
 * @len: bytes of @text
 *
 * Context: any up to softirq.
 * Return: 0, or -EMSGSIZE if @skb is full.
 */
int superp_nl_put_text(struct sk_buff *skb, u16 type, const u8 *text, size_t len)
{
	struct nlattr *attr;

	if (len > U16_MAX - NLA_HDRLEN - 1)
		return -EMSGSIZE;
	attr = nla_reserve(skb, type, len + 1);
	if (!attr)
		return -EMSGSIZE;
	memcpy(nla_data(attr), text, len);
	((u8 *)nla_data(attr))[len] = 0;
	return 0;
}

/**
 * superp_nl_nest_start - start a nested attribute
 * @skb: the buffer that holds the message
 * @type: type of the attribute
 *
 * Context: any up to softirq.
 * Return: the attribute, or NULL if @skb is full.
 */
struct nlattr *superp_nl_nest_start(struct sk_buff *skb, u16 type)
{
	return nla_nest_start(skb, type);
}

/**
 * superp_nl_nest_end - finish a nested attribute
 * @skb: the buffer that holds the message
 * @nest: what superp_nl_nest_start() returned
 *
 * Context: any up to softirq.
 */
void superp_nl_nest_end(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_end(skb, nest);
}

/**
 * superp_nl_device_name - name of a network device
 * @net: network namespace of the device
 * @ifindex: index of the device
 * @name: returns the name, zero-terminated
 *
 * Context: any.
 * Return: whether there is such a device.
 */
bool superp_nl_device_name(struct net *net, u32 ifindex, u8 name[IFNAMSIZ])
{
	struct net_device *dev;

	guard(rcu)();
	dev = dev_get_by_index_rcu(net, ifindex);
	if (!dev)
		return false;
	strscpy((char *)name, dev->name, IFNAMSIZ);
	return true;
}

/**
 * superp_nl_device_address - an IP address of a network device
 * @net: network namespace of the device
 * @ifindex: index of the device
 * @nth: number of the address, from 0: IPv4 addresses first, then IPv6 addresses that are not
 *       link-local
 * @addr: returns the address, v4-mapped or IPv6
 *
 * Context: any up to softirq.
 * Return: whether there is such a device and address.
 */
bool superp_nl_device_address(struct net *net, u32 ifindex, u32 nth, u8 addr[16])
{
	struct inet6_ifaddr *ifa6;
	struct in_device *in_dev;
	struct inet6_dev *in6_dev;
	struct net_device *dev;
	struct in_ifaddr *ifa;
	struct in6_addr found;
	bool hit = false;

	guard(rcu)();
	dev = dev_get_by_index_rcu(net, ifindex);
	if (!dev)
		return false;
	in_dev = __in_dev_get_rcu(dev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			if (nth--)
				continue;
			ipv6_addr_set_v4mapped(ifa->ifa_local, &found);
			memcpy(addr, &found, sizeof(found));
			return true;
		}
	}
	in6_dev = __in6_dev_get(dev);
	if (!in6_dev)
		return false;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifa6, &in6_dev->addr_list, if_list) {
		if (ipv6_addr_type(&ifa6->addr) & IPV6_ADDR_LINKLOCAL)
			continue;
		if (nth--)
			continue;
		memcpy(addr, &ifa6->addr, sizeof(ifa6->addr));
		hit = true;
		break;
	}
	read_unlock_bh(&in6_dev->lock);
	return hit;
}
