// SPDX-License-Identifier: GPL-2.0
/*
 * Early demultiplexing for a UDP port that receives from many peers. A PRE_ROUTING hook gives a
 * datagram the route and the socket of the last datagram of the same peer, if dst_check() says that
 * the route is still valid. IP itself does this only for connected sockets, and for UDP only for
 * the first socket of a hash chain. Netfilter sees each packet as before. The kernel's switches of
 * early demultiplexing, net.ipv4.ip_early_demux and net.ipv4.udp_early_demux, turn it off.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/netdevice.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/dst_metadata.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp.h>

#include "kapi_demux.h"

#ifdef CONFIG_NETFILTER

/**
 * struct superp_demux_entry - cached route for the datagrams of one peer
 * @dst: the input route, a counted reference
 * @cookie: for dst_check()
 * @ipv6: whether the addresses are IPv6
 * @dsfield: DS field of the packets; compared without the ECN bits. Addresses, DSCP, device and
 *           mark are all that a route depends on, unless custom rules look at more
 * @ifindex: index of the device that the packets arrive on
 * @mark: skb->mark of the packets
 * @source: address of the peer; that of IPv4 in the last word
 * @destination: local address; that of IPv4 in the last word
 * @created: time of creation, in jiffies
 * @rcu: for kfree_rcu()
 */
struct superp_demux_entry {
	struct dst_entry *dst;
	u32 cookie;
	bool ipv6;
	u8 dsfield;
	u32 ifindex;
	u32 mark;
	struct in6_addr source;
	struct in6_addr destination;
	unsigned long created;
	struct rcu_head rcu;
};

static bool superp_demux_match4(const struct superp_demux_entry *entry, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);

	return entry && entry->source.s6_addr32[3] == ip->saddr &&
	       entry->destination.s6_addr32[3] == ip->daddr &&
	       !((entry->dsfield ^ ip->tos) & INET_DSCP_MASK) &&
	       entry->ifindex == skb->dev->ifindex && entry->mark == skb->mark && !entry->ipv6;
}

static bool superp_demux_match6(const struct superp_demux_entry *entry, const struct sk_buff *skb)
{
	const struct ipv6hdr *ip = ipv6_hdr(skb);

	return entry && ipv6_addr_equal(&entry->source, &ip->saddr) &&
	       ipv6_addr_equal(&entry->destination, &ip->daddr) &&
	       !((entry->dsfield ^ ipv6_get_dsfield(ip)) & INET_DSCP_MASK) &&
	       entry->ifindex == skb->dev->ifindex && entry->mark == skb->mark && entry->ipv6;
}

static struct superp_demux_entry __rcu **superp_demux_slot4(struct superp_demux *demux,
							    const struct sk_buff *skb)
{
	return &demux->entries[hash_32((__force u32)ip_hdr(skb)->saddr, SUPERP_DEMUX_BITS)];
}

static struct superp_demux_entry __rcu **superp_demux_slot6(struct superp_demux *demux,
							    const struct sk_buff *skb)
{
	return &demux->entries[hash_32(ipv6_addr_hash(&ipv6_hdr(skb)->saddr), SUPERP_DEMUX_BITS)];
}

static void superp_demux_set_dst(struct sk_buff *skb, struct dst_entry *dst, struct sock *sk)
{
	skb_dst_set_noref(skb, dst);
	/* No reference: a UDP socket is freed after a grace period, and IP runs under RCU. */
	skb->sk = sk;
	skb->destructor = sock_pfree;
}

/*
 * Whether the packet is a datagram for the port, and nothing has chosen its route or socket yet.
 * pskb_may_pull() may move the headers, so pointers to them are stale afterwards.
 */
static bool superp_demux_matches_port(const struct superp_demux *demux, struct sk_buff *skb,
				      u8 protocol, u32 headers)
{
	return protocol == IPPROTO_UDP && !skb_dst(skb) && !skb->sk &&
	       pskb_may_pull(skb, headers) && udp_hdr(skb)->dest == demux->port;
}

/* As IP itself decides, of IPv6, too. */
static bool superp_demux_is_on(const struct net *net)
{
	return READ_ONCE(net->ipv4.sysctl_ip_early_demux) &&
	       READ_ONCE(net->ipv4.sysctl_udp_early_demux);
}

static unsigned int superp_demux_hook4(void *priv, struct sk_buff *skb,
				       const struct nf_hook_state *state)
{
	const u32 headers = sizeof(struct iphdr) + sizeof(struct udphdr);
	const struct superp_demux_entry *entry;
	struct superp_demux *demux = priv;
	struct dst_entry *dst;

	if (!superp_demux_is_on(state->net) || ip_hdr(skb)->ihl != 5 || ip_is_fragment(ip_hdr(skb)) ||
	    !superp_demux_matches_port(demux, skb, ip_hdr(skb)->protocol, headers) ||
	    fib4_has_custom_rules(state->net))
		return NF_ACCEPT;
	entry = rcu_dereference(*superp_demux_slot4(demux, skb));
	if (!superp_demux_match4(entry, skb))
		return NF_ACCEPT;
	dst = dst_check(entry->dst, entry->cookie);
	if (dst)
		superp_demux_set_dst(skb, dst, demux->sk4);
	return NF_ACCEPT;
}

static unsigned int superp_demux_hook6(void *priv, struct sk_buff *skb,
				       const struct nf_hook_state *state)
{
	const u32 headers = sizeof(struct ipv6hdr) + sizeof(struct udphdr);
	const struct superp_demux_entry *entry;
	struct superp_demux *demux = priv;
	struct dst_entry *dst;

	if (!superp_demux_is_on(state->net) ||
	    !superp_demux_matches_port(demux, skb, ipv6_hdr(skb)->nexthdr, headers) ||
	    fib6_has_custom_rules(state->net))
		return NF_ACCEPT;
	entry = rcu_dereference(*superp_demux_slot6(demux, skb));
	if (!superp_demux_match6(entry, skb))
		return NF_ACCEPT;
	dst = dst_check(entry->dst, entry->cookie);
	if (dst)
		superp_demux_set_dst(skb, dst, demux->sk6);
	return NF_ACCEPT;
}

static void superp_demux_entry_free(struct superp_demux_entry *entry)
{
	dst_release(entry->dst);
	kfree_rcu(entry, rcu);
}

/* Caches the route of @skb in @slot, and frees the entry that was there. */
static void superp_demux_store(struct superp_demux_entry __rcu **slot, const struct sk_buff *skb)
{
	struct superp_demux_entry *entry = kzalloc_obj(*entry, GFP_ATOMIC | __GFP_NOWARN);
	struct dst_entry *dst = skb_dst(skb);

	if (!entry)
		return;
	if (!dst_hold_safe(dst)) {
		kfree(entry);
		return;
	}
	entry->dst = dst;
	entry->ifindex = skb->dev->ifindex;
	entry->mark = skb->mark;
	entry->created = jiffies;
	entry->ipv6 = skb->protocol == htons(ETH_P_IPV6);
	if (entry->ipv6) {
		entry->cookie = rt6_get_cookie(dst_rt6_info(dst));
		entry->dsfield = ipv6_get_dsfield(ipv6_hdr(skb));
		entry->source = ipv6_hdr(skb)->saddr;
		entry->destination = ipv6_hdr(skb)->daddr;
	} else {
		entry->dsfield = ip_hdr(skb)->tos;
		entry->source.s6_addr32[3] = ip_hdr(skb)->saddr;
		entry->destination.s6_addr32[3] = ip_hdr(skb)->daddr;
	}
	entry = unrcu_pointer(xchg(slot, RCU_INITIALIZER(entry)));
	if (entry)
		superp_demux_entry_free(entry);
}

/**
 * superp_demux_learn - cache the route of a received packet
 * @demux: the cache of the port
 * @skb: a packet that IP has delivered to the socket of the port, with its route
 *
 * Context: softirq.
 */
void superp_demux_learn(struct superp_demux *demux, const struct sk_buff *skb)
{
	bool ipv6 = skb->protocol == htons(ETH_P_IPV6), known, local;
	struct superp_demux_entry __rcu **slot;
	struct dst_entry *dst = skb_dst(skb);
	const struct superp_demux_entry *entry;

	slot = ipv6 ? superp_demux_slot6(demux, skb) : superp_demux_slot4(demux, skb);
	entry = rcu_dereference(*slot);
	known = ipv6 ? superp_demux_match6(entry, skb) : superp_demux_match4(entry, skb);
	if (known && entry->dst == dst)
		return;
	/*
	 * Peers with the same hash replace each other's entry at most once a jiffy, so that not
	 * each of their packets pays for it.
	 */
	if ((entry && !time_after(jiffies, entry->created)) || !skb_valid_dst(skb))
		return;
	local = ipv6 ? dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL :
		       dst_rtable(dst)->rt_type == RTN_LOCAL;
	if (local)
		superp_demux_store(slot, skb);
}

/**
 * superp_demux_start - start to cache routes for a UDP port
 * @demux: zeroed memory
 * @net: the network namespace
 * @port: the UDP port, in host byte order
 * @sk4: IPv4 socket of the port
 * @sk6: IPv6 socket of the port, or NULL
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6)
{
	int err;

	demux->sk4 = sk4;
	demux->sk6 = sk6;
	demux->port = htons(port);
	/* Behind all hooks that may change, drop or hold a packet. */
	demux->ops[0] = (struct nf_hook_ops){
		.hook = superp_demux_hook4,
		.priv = demux,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_PRE_ROUTING,
		.priority = NF_IP_PRI_LAST,
	};
	demux->ops[1] = (struct nf_hook_ops){
		.hook = superp_demux_hook6,
		.priv = demux,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_PRE_ROUTING,
		.priority = NF_IP6_PRI_LAST,
	};
	err = nf_register_net_hooks(net, demux->ops, sk6 ? 2 : 1);
	if (!err)
		demux->net = net;
	return err;
}

/**
 * superp_demux_stop - unregister the hooks
 * @demux: the cache, started or not
 *
 * Packets may still reach the sockets until a grace period has passed.
 *
 * Context: process.
 */
void superp_demux_stop(struct superp_demux *demux)
{
	if (demux->net)
		nf_unregister_net_hooks(demux->net, demux->ops, demux->sk6 ? 2 : 1);
	demux->net = NULL;
}

/**
 * superp_demux_free - free all entries
 * @demux: the cache, stopped; superp_demux_learn() is not called any more
 *
 * Context: process.
 */
void superp_demux_free(struct superp_demux *demux)
{
	struct superp_demux_entry *entry;
	int i;

	for (i = 0; i < ARRAY_SIZE(demux->entries); i++) {
		entry = unrcu_pointer(xchg(&demux->entries[i], NULL));
		if (entry)
			superp_demux_entry_free(entry);
	}
}

#else

int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6)
{
	return 0;
}

void superp_demux_stop(struct superp_demux *demux)
{
}

void superp_demux_free(struct superp_demux *demux)
{
}

void superp_demux_learn(struct superp_demux *demux, const struct sk_buff *skb)
{
}

#endif
