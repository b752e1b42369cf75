// SPDX-License-Identifier: GPL-2.0
/*
 * The way out through IPv4. Where nobody listens on it - no filter of what is sent, no IPsec, no tunnel, no VRF - it
 * comes down to a checksum, two counters, what is hooked behind the routing (security modules are) and a neighbour;
 * ip_local_out() does the same, and switches interrupts off and on at each counter where processors have no better way
 * to add.
 */
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/skbuff.h>
#include <net/ip.h>
#include <net/route.h>
#include <net/sock.h>

#include "kapi_ip.h"

static bool superp_ip_filtered4(const struct net *net)
{
#ifdef CONFIG_NETFILTER
	return rcu_access_pointer(net->nf.hooks_ipv4[NF_INET_LOCAL_OUT]);
#else
	return false;
#endif
}

static bool superp_ip_plain4(const struct rtable *rt)
{
	const struct dst_entry *dst = &rt->dst;

	return rt->rt_type == RTN_UNICAST && dst->output == ip_output && !dst_xfrm(dst) &&
	       !dst->lwtstate && !netif_is_l3_slave(dst_dev(dst));
}

static int superp_ip_finish4(struct sk_buff *skb)
{
	struct rtable *rt = skb_rtable(skb);
	struct neighbour *neigh;
	bool is_v6gw = false;

	neigh = ip_neigh_for_gw(rt, skb, &is_v6gw);
	if (IS_ERR(neigh)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_NEIGH_CREATEFAIL);
		return PTR_ERR(neigh);
	}
	sock_confirm_neigh(skb, neigh);
	return neigh_output(neigh, skb, is_v6gw);
}

/**
 * superp_ip_output4 - send a datagram
 * @net: the namespace
 * @skb: it, given up; it begins with its IP header, which lacks the length and the checksum, fits the
 *       MTU of its route, as one or as a burst, or has ignore_df set, and has room for the device's
 *       header
 *
 * Context: process or softirq, bottom halves off, under RCU.
 * Return: as ip_local_out().
 */
int superp_ip_output4(struct net *net, struct sk_buff *skb)
{
	const struct dst_entry *dst = skb_dst(skb);
	struct net_device *dev = dst_dev(dst);
	struct iphdr *ip = ip_hdr(skb);
	int err;

	if (skb->ignore_df || superp_ip_filtered4(net) || !superp_ip_plain4(skb_rtable(skb)))
		return ip_local_out(net, NULL, skb);
	__IP_INC_STATS(net, IPSTATS_MIB_OUTREQUESTS);
	iph_set_totlen(ip, skb->len);
	ip->check = 0;
	ip->check = ip_fast_csum(ip, ip->ihl);
	skb->dev = dev;
	skb->protocol = htons(ETH_P_IP);
	/* What a rule keeps for later goes on there, past what is hooked. */
	IPCB(skb)->flags |= IPSKB_REROUTED;
	err = nf_hook(NFPROTO_IPV4, NF_INET_POST_ROUTING, net, NULL, skb, NULL, dev, ip_output);
	if (err != 1)
		return err;
	/* A rule may have sent it another way. */
	if (unlikely(skb_dst(skb) != dst))
		return ip_output(net, NULL, skb);
	__IP_UPD_PO_STATS(net, IPSTATS_MIB_OUT, skb->len);
	return superp_ip_finish4(skb);
}
