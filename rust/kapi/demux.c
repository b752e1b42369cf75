// SPDX-License-Identifier: GPL-2.0
/*
 * Where a datagram of a peer goes was found out for the one before it: IP's early demultiplexing, for a socket that
 * many peers send to. IP itself does so for connected sockets, and of UDP's for the first of a chain. What it
 * asks is what is asked here: is the route still valid? Filters see each packet, as ever. Over IPv4, where
 * nobody listens on the rest of the way in, it is left out, as it is on the way out (ip.c).
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
#include <net/raw.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp.h>
#include <net/xfrm.h>

#include "kapi_demux.h"

#ifdef CONFIG_NETFILTER

/**
 * struct superp_demux_way - where packets of a peer go
 * @dst: where
 * @cookie: for dst_check()
 * @ipv6: whose the addresses are
 * @dsfield: of the packets, without the bits for congestion; as all that a route depends on where no rules look at more
 * @ifindex: of the device that they come by
 * @mark: of the packets
 * @source: the peer, in the last word if it is of IPv4
 * @destination: our address, in the same way
 * @born: jiffies when it was found
 * @rcu: frees it
 */
struct superp_demux_way {
	struct dst_entry *dst;
	u32 cookie;
	bool ipv6;
	u8 dsfield;
	u32 ifindex;
	u32 mark;
	struct in6_addr source;
	struct in6_addr destination;
	unsigned long born;
	struct rcu_head rcu;
};

static bool superp_demux_is_of4(const struct superp_demux_way *way, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);

	return way && way->source.s6_addr32[3] == ip->saddr &&
	       way->destination.s6_addr32[3] == ip->daddr &&
	       !((way->dsfield ^ ip->tos) & INET_DSCP_MASK) &&
	       way->ifindex == skb->dev->ifindex && way->mark == skb->mark && !way->ipv6;
}

static bool superp_demux_is_of6(const struct superp_demux_way *way, const struct sk_buff *skb)
{
	const struct ipv6hdr *ip = ipv6_hdr(skb);

	return way && ipv6_addr_equal(&way->source, &ip->saddr) &&
	       ipv6_addr_equal(&way->destination, &ip->daddr) &&
	       !((way->dsfield ^ ipv6_get_dsfield(ip)) & INET_DSCP_MASK) &&
	       way->ifindex == skb->dev->ifindex && way->mark == skb->mark && way->ipv6;
}

static struct superp_demux_way __rcu **superp_demux_place4(struct superp_demux *demux,
							   const struct sk_buff *skb)
{
	return &demux->ways[hash_32((__force u32)ip_hdr(skb)->saddr, SUPERP_DEMUX_BITS)];
}

static struct superp_demux_way __rcu **superp_demux_place6(struct superp_demux *demux,
							   const struct sk_buff *skb)
{
	return &demux->ways[hash_32(ipv6_addr_hash(&ipv6_hdr(skb)->saddr), SUPERP_DEMUX_BITS)];
}

static void superp_demux_go(struct sk_buff *skb, struct dst_entry *dst, struct sock *sk)
{
	skb_dst_set_noref(skb, dst);
	/* Nothing is counted: the socket outlives who reads it under RCU. */
	skb->sk = sk;
	skb->destructor = sock_pfree;
}

/* Nothing else has a say in where it goes, and it is for the port. Headers that were read before may have moved. */
static bool superp_demux_is_ours(const struct superp_demux *demux, struct sk_buff *skb, u8 protocol,
				 u32 headers)
{
	return protocol == IPPROTO_UDP && !skb_dst(skb) && !skb->sk &&
	       pskb_may_pull(skb, headers) && udp_hdr(skb)->dest == demux->port;
}

/* One packet, or a burst of ours, which is taken apart where it is taken in. */
static bool superp_demux_is_whole(const struct sk_buff *skb)
{
	const u32 burst = SKB_GSO_FRAGLIST | SKB_GSO_UDP_TUNNEL_CSUM;

	return !skb_is_gso(skb) || (skb_shinfo(skb)->gso_type & burst) == burst;
}

static bool superp_demux_policy(struct net *net, struct sk_buff *skb)
{
#ifdef CONFIG_XFRM
	return !__xfrm_check_nopolicy(net, skb, XFRM_POLICY_IN);
#else
	return false;
#endif
}

/*
 * Between here and the socket nobody else wants to see it: no filter of what comes in, no IPsec, no raw sockets. All is
 * there, and nothing more, and needs no checksum.
 */
static bool superp_demux_is_plain4(struct net *net, struct sk_buff *skb)
{
	const struct hlist_head *raw = &raw_v4_hashinfo.ht[raw_hashfunc(net, IPPROTO_UDP)];

	return skb->pkt_type == PACKET_HOST &&
	       !rcu_access_pointer(net->nf.hooks_ipv4[NF_INET_LOCAL_IN]) && hlist_empty(raw) &&
	       !superp_demux_policy(net, skb) && skb_csum_unnecessary(skb) &&
	       superp_demux_is_whole(skb) && ntohs(udp_hdr(skb)->len) == skb->len - sizeof(struct iphdr);
}

static unsigned int superp_demux_hook4(void *priv, struct sk_buff *skb,
				       const struct nf_hook_state *state)
{
	const u32 headers = sizeof(struct iphdr) + sizeof(struct udphdr);
	const struct superp_demux_way *way;
	struct superp_demux *demux = priv;
	struct sock *sk = demux->sk4;
	struct dst_entry *dst;

	if (ip_hdr(skb)->ihl != 5 || ip_is_fragment(ip_hdr(skb)) ||
	    !superp_demux_is_ours(demux, skb, ip_hdr(skb)->protocol, headers) ||
	    fib4_has_custom_rules(state->net))
		return NF_ACCEPT;
	way = rcu_dereference(*superp_demux_place4(demux, skb));
	if (!superp_demux_is_of4(way, skb))
		return NF_ACCEPT;
	dst = dst_check(way->dst, way->cookie);
	if (!dst)
		return NF_ACCEPT;
	if (!superp_demux_is_plain4(state->net, skb)) {
		superp_demux_go(skb, dst, sk);
		return NF_ACCEPT;
	}
	/* All that is left to IP and UDP is to count it. */
	__IP_INC_STATS(state->net, IPSTATS_MIB_INDELIVERS);
	__UDP_INC_STATS(state->net, UDP_MIB_INDATAGRAMS);
	__skb_pull(skb, sizeof(struct iphdr));
	demux->deliver(sk, skb);
	return NF_STOLEN;
}

static unsigned int superp_demux_hook6(void *priv, struct sk_buff *skb,
				       const struct nf_hook_state *state)
{
	const u32 headers = sizeof(struct ipv6hdr) + sizeof(struct udphdr);
	const struct superp_demux_way *way;
	struct superp_demux *demux = priv;
	struct dst_entry *dst;

	if (!superp_demux_is_ours(demux, skb, ipv6_hdr(skb)->nexthdr, headers) ||
	    fib6_has_custom_rules(state->net))
		return NF_ACCEPT;
	way = rcu_dereference(*superp_demux_place6(demux, skb));
	if (!superp_demux_is_of6(way, skb))
		return NF_ACCEPT;
	dst = dst_check(way->dst, way->cookie);
	if (dst)
		superp_demux_go(skb, dst, demux->sk6);
	return NF_ACCEPT;
}

static void superp_demux_forget(struct superp_demux_way *way)
{
	dst_release(way->dst);
	kfree_rcu(way, rcu);
}

/* Puts a way there, for packets like this one. */
static void superp_demux_put(struct superp_demux_way __rcu **place, const struct sk_buff *skb)
{
	struct superp_demux_way *way = kzalloc_obj(*way, GFP_ATOMIC | __GFP_NOWARN);
	struct dst_entry *dst = skb_dst(skb);

	if (!way)
		return;
	if (!dst_hold_safe(dst)) {
		kfree(way);
		return;
	}
	way->dst = dst;
	way->ifindex = skb->dev->ifindex;
	way->mark = skb->mark;
	way->born = jiffies;
	way->ipv6 = skb->protocol == htons(ETH_P_IPV6);
	if (way->ipv6) {
		way->cookie = rt6_get_cookie(dst_rt6_info(dst));
		way->dsfield = ipv6_get_dsfield(ipv6_hdr(skb));
		way->source = ipv6_hdr(skb)->saddr;
		way->destination = ipv6_hdr(skb)->daddr;
	} else {
		way->dsfield = ip_hdr(skb)->tos;
		way->source.s6_addr32[3] = ip_hdr(skb)->saddr;
		way->destination.s6_addr32[3] = ip_hdr(skb)->daddr;
	}
	way = unrcu_pointer(xchg(place, RCU_INITIALIZER(way)));
	if (way)
		superp_demux_forget(way);
}

/**
 * superp_demux_learn - remember where a packet went
 * @demux: of its port
 * @skb: a packet that has come to the port's socket
 *
 * Context: softirq.
 */
void superp_demux_learn(struct superp_demux *demux, const struct sk_buff *skb)
{
	bool ipv6 = skb->protocol == htons(ETH_P_IPV6), known, local;
	struct superp_demux_way __rcu **place;
	struct dst_entry *dst = skb_dst(skb);
	const struct superp_demux_way *way;

	place = ipv6 ? superp_demux_place6(demux, skb) : superp_demux_place4(demux, skb);
	way = rcu_dereference(*place);
	known = ipv6 ? superp_demux_is_of6(way, skb) : superp_demux_is_of4(way, skb);
	if (known && way->dst == dst)
		return;
	/* Peers that share a place do not make each packet cost more than it did. */
	if ((way && !time_after(jiffies, way->born)) || !skb_valid_dst(skb))
		return;
	local = ipv6 ? dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL :
		       dst_rtable(dst)->rt_type == RTN_LOCAL;
	if (local)
		superp_demux_put(place, skb);
}

/**
 * superp_demux_start - have packets find their way as those before them
 * @demux: zeroed
 * @net: the namespace
 * @port: a UDP port
 * @sk4: its socket for IPv4
 * @sk6: its socket for IPv6, or NULL
 * @deliver: takes a packet for the socket for IPv4, from the UDP header on
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6, int (*deliver)(struct sock *sk, struct sk_buff *skb))
{
	int err;

	demux->deliver = deliver;
	demux->sk4 = sk4;
	demux->sk6 = sk6;
	demux->port = htons(port);
	/* After all that may change a packet or hold it up. */
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
 * superp_demux_stop - the reverse of superp_demux_start()
 * @demux: started or not
 *
 * Packets may still be under way to the sockets for a grace period.
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
 * superp_demux_free - forget all ways
 * @demux: stopped, and nobody learns any more
 *
 * Context: process.
 */
void superp_demux_free(struct superp_demux *demux)
{
	struct superp_demux_way *way;
	int i;

	for (i = 0; i < ARRAY_SIZE(demux->ways); i++) {
		way = unrcu_pointer(xchg(&demux->ways[i], NULL));
		if (way)
			superp_demux_forget(way);
	}
}

#else

int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6, int (*deliver)(struct sock *sk, struct sk_buff *skb))
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
