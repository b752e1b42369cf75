// SPDX-License-Identifier: GPL-2.0
/*
 * IPv4 output for a route without LOCAL_OUT hooks, IPsec, tunnel or VRF. All that remains then is a
 * checksum, two counters, the POST_ROUTING hooks (security modules use them) and the neighbour.
 * ip_local_out() does the same, but disables interrupts around each counter on CPUs that have no
 * cheaper way to add to a per-CPU variable.
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
 * superp_ip_output4 - send an IPv4 datagram
 * @net: the network namespace
 * @skb: the datagram, consumed. It begins with its IP header, without length and checksum. It has
 *       a route, and headroom for the link-layer header. It fits the MTU of the route, as a packet
 *       or as a burst of such packets, or has ignore_df set
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
	/* A hook may hold the packet; ip_output(), where it then goes on, must skip the hooks. */
	IPCB(skb)->flags |= IPSKB_REROUTED;
	err = nf_hook(NFPROTO_IPV4, NF_INET_POST_ROUTING, net, NULL, skb, NULL, dev, ip_output);
	if (err != 1)
		return err;
	/* A hook may have changed the route. */
	if (unlikely(skb_dst(skb) != dst))
		return ip_output(net, NULL, skb);
	__IP_UPD_PO_STATS(net, IPSTATS_MIB_OUT, skb->len);
	return superp_ip_finish4(skb);
}
