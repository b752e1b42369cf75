// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink: what Rust's handlers need of messages, and what they tell
 * of devices and processes.  Policies and tables are generated
 * (superp-nl-gen.c); the handlers themselves are in nl.rs.
 */
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

/* Events find the family's group by a number that others get after it is unregistered. */
static bool superp_nl_live;

static_assert(sizeof(u64) <= sizeof_field(struct netlink_callback, ctx));

/**
 * superp_nl_register - register the family
 *
 * Context: process.
 * Return: 0 or an error number.
 */
int superp_nl_register(void)
{
	int err = genl_register_family(&superp_nl_family);

	if (!err)
		WRITE_ONCE(superp_nl_live, true);
	return err;
}

/**
 * superp_nl_unregister - unregister the family; no handler runs afterwards
 *
 * Context: process.
 */
void superp_nl_unregister(void)
{
	WRITE_ONCE(superp_nl_live, false);
	synchronize_rcu();
	genl_unregister_family(&superp_nl_family);
}

/**
 * superp_nl_net - the namespace of a request
 * @info: the request
 *
 * Return: the namespace, valid as long as @info.
 */
struct net *superp_nl_net(const struct genl_info *info)
{
	return genl_info_net(info);
}

/**
 * superp_nl_dump_info - the request of a dump
 * @cb: the dump
 *
 * Return: the request, valid as long as @cb.
 */
const struct genl_info *superp_nl_dump_info(struct netlink_callback *cb)
{
	return genl_info_dump(cb);
}

/**
 * superp_nl_dump_position - where a dump goes on
 * @cb: the dump
 *
 * Return: a number kept between the calls of one dump, 0 at the first.
 */
u64 *superp_nl_dump_position(struct netlink_callback *cb)
{
	return (u64 *)cb->ctx;
}

/**
 * superp_nl_next - walk the attributes of a request
 * @info: the request, validated
 * @after: an attribute of it, or NULL for the first
 * @type: type of the attributes to find
 *
 * Return: the next attribute of @type after @after, or NULL.
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
 * superp_nl_nested - find an attribute inside another
 * @nest: a nested attribute of a validated request
 * @type: type of the attribute to find
 *
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
 * Return: its first byte.
 */
const void *superp_nl_data(const struct nlattr *attr)
{
	return nla_data(attr);
}

/**
 * superp_nl_len - length of the payload of an attribute
 * @attr: the attribute
 *
 * Return: bytes.
 */
u16 superp_nl_len(const struct nlattr *attr)
{
	return nla_len(attr);
}

/**
 * superp_nl_refuse - say why a request is refused
 * @info: the request
 * @attr: the attribute at fault, or NULL
 * @msg: text that outlives the request
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
 * superp_nl_missing - say which attribute a request lacks
 * @info: the request
 * @type: the missing attribute
 * @msg: text that outlives the request
 */
void superp_nl_missing(const struct genl_info *info, u16 type, const char *msg)
{
	superp_nl_refuse(info, NULL, msg);
	NL_SET_ERR_ATTR_MISS(info->extack, NULL, type);
}

/**
 * superp_nl_refuse_text - say why a request is refused, in a made-up text
 * @info: the request
 * @attr: the attribute at fault, or NULL
 * @text: the text, copied; up to NETLINK_MAX_FMTMSG_LEN - 1 bytes of it
 */
void superp_nl_refuse_text(const struct genl_info *info, const struct nlattr *attr,
			   const char *text)
{
	NL_SET_ERR_MSG_FMT(info->extack, "%s", text);
	NL_SET_BAD_ATTR(info->extack, attr);
}

/**
 * superp_nl_reply_new - start the reply to a request
 * @info: the request
 * @msg: out, the message
 *
 * Context: process.
 * Return: what carries the message, or NULL without memory.
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
 * superp_nl_reply - send the reply
 * @info: the request
 * @skb: from superp_nl_reply_new(), consumed
 * @msg: from superp_nl_reply_new()
 *
 * Context: process.
 * Return: 0 or an error number.
 */
int superp_nl_reply(const struct genl_info *info, struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_end(skb, msg);
	return genlmsg_unicast(genl_info_net(info), skb, info->snd_portid);
}

/**
 * superp_nl_dump_put - start a message of a dump
 * @skb: what the dump fills
 * @info: the dump's request
 *
 * Return: the message, or NULL when @skb is full.
 */
struct nlmsghdr *superp_nl_dump_put(struct sk_buff *skb, const struct genl_info *info)
{
	void *hdr = __genlmsg_iput(skb, info, NLM_F_MULTI);

	return hdr ? genlmsg_nlhdr(hdr) : NULL;
}

/**
 * superp_nl_event_new - start an event
 * @msg: out, the message
 *
 * Context: any.
 * Return: what carries the message, or NULL without memory.
 */
struct sk_buff *superp_nl_event_new(struct nlmsghdr **msg)
{
	/* The largest event and its attributes take less than half of this. */
	struct sk_buff *skb = genlmsg_new(512, GFP_ATOMIC);
	void *hdr;

	if (!skb)
		return NULL;
	hdr = genlmsg_put(skb, 0, 0, &superp_nl_family, 0, SUPERP_CMD_EVENT_NTF);
	if (!hdr) {
		nlmsg_free(skb);
		return NULL;
	}
	*msg = genlmsg_nlhdr(hdr);
	return skb;
}

/**
 * superp_nl_event_send - send an event to all who listen in a namespace
 * @net: the namespace
 * @skb: from superp_nl_event_new(), consumed
 * @msg: from superp_nl_event_new()
 *
 * Context: any.
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
 * superp_nl_event_wanted - does anyone listen to events of a namespace?
 * @net: the namespace
 *
 * Context: any.
 */
bool superp_nl_event_wanted(struct net *net)
{
	guard(rcu)();
	return READ_ONCE(superp_nl_live) &&
	       genl_has_listeners(&superp_nl_family, net, SUPERP_NLGRP_EVENTS) > 0;
}

/**
 * superp_nl_end - finish a message of a dump
 * @skb: what the dump fills
 * @msg: the message
 */
void superp_nl_end(struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_end(skb, msg);
}

/**
 * superp_nl_cancel - take a message of a dump back
 * @skb: what the dump fills
 * @msg: the message, the last one in @skb
 */
void superp_nl_cancel(struct sk_buff *skb, struct nlmsghdr *msg)
{
	nlmsg_cancel(skb, msg);
}

/**
 * superp_nl_free - drop a message that is not sent
 * @skb: what carries it
 */
void superp_nl_free(struct sk_buff *skb)
{
	nlmsg_free(skb);
}

/**
 * superp_nl_put - add an attribute
 * @skb: what carries the message
 * @type: of the attribute
 * @data: its payload
 * @len: bytes of @data
 *
 * Return: 0 or -EMSGSIZE.
 */
int superp_nl_put(struct sk_buff *skb, u16 type, const void *data, size_t len)
{
	if (len > U16_MAX - NLA_HDRLEN)
		return -EMSGSIZE;
	return nla_put(skb, type, len, data);
}

/**
 * superp_nl_put_text - add an attribute of type string
 * @skb: what carries the message
 * @type: of the attribute
 * @text: its text, without a zero byte at the end
 * @len: bytes of @text
 *
 * Return: 0 or -EMSGSIZE.
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
 * superp_nl_nest_start - start an attribute that holds attributes
 * @skb: what carries the message
 * @type: of the attribute
 *
 * Return: the attribute, or NULL when @skb is full.
 */
struct nlattr *superp_nl_nest_start(struct sk_buff *skb, u16 type)
{
	return nla_nest_start(skb, type);
}

/**
 * superp_nl_nest_end - finish an attribute that holds attributes
 * @skb: what carries the message
 * @nest: from superp_nl_nest_start()
 */
void superp_nl_nest_end(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_end(skb, nest);
}

/**
 * superp_nl_device_name - name of a device
 * @net: namespace of the device
 * @ifindex: its index
 * @name: out, ended by a zero byte
 *
 * Context: any.
 * Return: false without such a device.
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
 * superp_nl_device_address - an address of a device
 * @net: namespace of the device
 * @ifindex: its index
 * @nth: which one, from 0: the IPv4 addresses, then the IPv6 addresses that
 *	are not link-local
 * @addr: out; IPv4 is mapped into IPv6
 *
 * Context: any.
 * Return: false without such a device or address.
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
