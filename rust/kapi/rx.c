// SPDX-License-Identifier: GPL-2.0
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/dst.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/udp_tunnel.h>

#include "kapi_net.h"
#include "kapi_path.h"
#include "kapi_rx.h"

static void superp_rx_detach_one(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->ip_summed = CHECKSUM_NONE;
	skb->dev = NULL;
}

/* A message may wait in a socket for hours, and its packets must not hold devices or such. */
static void superp_rx_detach(struct sk_buff *skb)
{
	struct sk_buff *part;

	superp_rx_detach_one(skb);
	skb_walk_frags(skb, part)
		superp_rx_detach_one(part);
}

static struct packet_type superp_lite_packet_type;

/*
 * Are the packets of a burst as superp_path_join() has put them together? A filter may have pulled bytes
 * of some into the first: taken apart, they would be other packets than were sent.
 */
static bool superp_rx_burst_whole(const struct sk_buff *skb)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const struct sk_buff *part;
	u32 segs = 1;

	if (!(info->gso_type & SKB_GSO_FRAGLIST) || skb_pagelen(skb) > info->gso_size ||
	    skb_headlen(skb) < SUPERP_PATH_SUNH_SIZE)
		return false;
	skb_walk_frags(skb, part) {
		segs++;
		/* All have one SUNH header. */
		if (part->len > info->gso_size || skb_headlen(part) < SUPERP_PATH_SUNH_SIZE ||
		    memcmp(part->data, skb->data, SUPERP_PATH_SUNH_SIZE))
			return false;
	}
	return segs == info->gso_segs;
}

/*
 * Takes a segmented packet apart into a list of packets, each of which begins with its SUNH header.
 * Frees it when that cannot be done.
 */
static struct sk_buff *superp_rx_segment(struct sk_buff *skb)
{
	struct sk_buff *segs = ERR_PTR(-EINVAL), *part;

	if (superp_rx_burst_whole(skb)) {
		/* No tunnel header lies before the Ethernet header. */
		SKB_GSO_CB(skb)->mac_offset = skb_headroom(skb) + skb_mac_offset(skb);
		segs = skb_segment_list(skb, NETIF_F_SG | NETIF_F_FRAGLIST, 0);
	}
	if (IS_ERR(segs)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_SKB_BAD_GSO);
		return NULL;
	}
	/* The first of the list is the packet itself; it has been charged with what the others take. */
	consume_skb(skb);
	for (part = segs->next; part; part = part->next)
		segs->truesize -= min(part->truesize, segs->truesize);
	segs->prev = NULL;
	return segs;
}

/* A frame or, from a device that did not need to take them apart, several of one sender. */
static int superp_rx_sunh(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			  struct net_device *orig_dev)
{
	bool lite = type == &superp_lite_packet_type;
	void *node = superp_net_node(dev_net(dev));
	struct sk_buff *part;

	if (skb->pkt_type != PACKET_HOST || !node) {
		kfree_skb_reason(skb, SKB_DROP_REASON_OTHERHOST);
		return NET_RX_DROP;
	}
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	if (skb_is_gso(skb)) {
		skb = superp_rx_segment(skb);
		if (!skb)
			return NET_RX_DROP;
	}
	for (part = skb; part; part = part->next)
		superp_rx_detach(part);
	superp_rust_rx_sunh(node, dev->ifindex, lite, skb);
	return NET_RX_SUCCESS;
}

static struct packet_type superp_packet_type = {
	.func = superp_rx_sunh,
};

static struct packet_type superp_lite_packet_type = {
	.func = superp_rx_sunh,
};

/* For a device that does not take the packets of superp_path_xmit() as they are. */
static struct sk_buff *superp_gso_segment(struct sk_buff *skb, netdev_features_t features)
{
	if (!superp_rx_burst_whole(skb))
		return ERR_PTR(-EINVAL);
	return skb_segment_list(skb, features, skb_mac_header_len(skb));
}

static struct packet_offload superp_offload = {
	.callbacks.gso_segment = superp_gso_segment,
};

static struct packet_offload superp_lite_offload = {
	.callbacks.gso_segment = superp_gso_segment,
};

/**
 * superp_rx_register - receive SUNH on all devices
 * @ethertype: of SUNH
 * @lite: of SUNH with SUPERp-lite
 *
 * Context: process.
 */
void superp_rx_register(u16 ethertype, u16 lite)
{
	superp_packet_type.type = htons(ethertype);
	superp_lite_packet_type.type = htons(lite);
	superp_offload.type = htons(ethertype);
	superp_lite_offload.type = htons(lite);
	dev_add_offload(&superp_offload);
	dev_add_offload(&superp_lite_offload);
	dev_add_pack(&superp_packet_type);
	dev_add_pack(&superp_lite_packet_type);
}

/**
 * superp_rx_unregister - receive SUNH no longer
 *
 * Context: process; returns when no packet is being handled any more.
 */
void superp_rx_unregister(void)
{
	dev_remove_pack(&superp_lite_packet_type);
	dev_remove_pack(&superp_packet_type);
	dev_remove_offload(&superp_lite_offload);
	dev_remove_offload(&superp_offload);
}

/* Called under RCU; the checksum has been verified, the length is that of the UDP header. */
static int superp_rx_udp(struct sock *sk, struct sk_buff *skb)
{
	void *node = superp_net_node(sock_net(sk));
	u32 ifindex = skb->dev->ifindex;
	struct superp_udp_ip header = {};
	struct in6_addr *source = (struct in6_addr *)header.source;
	struct in6_addr *destination = (struct in6_addr *)header.destination;

	/* UDP takes apart what arrives as one packet, and goes on with the next; that one is not ours yet. */
	skb_mark_not_on_list(skb);
	if (!node || !pskb_may_pull(skb, sizeof(struct udphdr))) {
		kfree_skb(skb);
		return 0;
	}
	if (skb->protocol == htons(ETH_P_IP)) {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, source);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, destination);
		header.tclass = ip_hdr(skb)->tos;
		header.hop_limit = ip_hdr(skb)->ttl;
	} else {
		*source = ipv6_hdr(skb)->saddr;
		*destination = ipv6_hdr(skb)->daddr;
		header.tclass = ipv6_get_dsfield(ipv6_hdr(skb));
		header.hop_limit = ipv6_hdr(skb)->hop_limit;
		header.flow_label = ntohl(ip6_flowlabel(ipv6_hdr(skb)));
	}
	header.sport = ntohs(udp_hdr(skb)->source);
	__skb_pull(skb, sizeof(struct udphdr));
	superp_rx_detach(skb);
	superp_rust_rx_udp(node, ifindex, &header, skb);
	return 0;
}

/* An ICMP error for a packet to our port: it is ours, so that IP learns the path MTU from it. */
static int superp_rx_udp_err(struct sock *sk, struct sk_buff *skb)
{
	return 0;
}

/**
 * struct superp_udp_port - the sockets behind a UDP port
 * @v4: for IPv4
 * @v6: for IPv6, or NULL if there is none
 */
struct superp_udp_port {
	struct socket *v4;
	struct socket *v6;
};

static int superp_udp_sock(struct net *net, u8 family, u16 port, struct socket **sock)
{
	struct udp_port_cfg config = {
		.family = family,
		.local_udp_port = htons(port),
		.use_udp6_rx_checksums = true,
		.ipv6_v6only = true,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.encap_type = 1,
		.encap_rcv = superp_rx_udp,
		.encap_err_lookup = superp_rx_udp_err,
	};
	int err;

	err = udp_sock_create(net, &config, sock);
	if (!err)
		setup_udp_tunnel_sock(net, (*sock)->sk, &tunnel);
	return err;
}

/**
 * superp_udp_port_open - receive packets on a UDP port, over IPv4 and IPv6
 * @net: the namespace
 * @port: the port
 * @err: where a negative errno goes
 *
 * Context: process.
 * Return: the port, or NULL.
 */
struct superp_udp_port *superp_udp_port_open(struct net *net, u16 port, int *err)
{
	struct superp_udp_port *udp;

	*err = -EINVAL;
	if (!port)
		return NULL;
	udp = kzalloc_obj(*udp);
	*err = -ENOMEM;
	if (!udp)
		return NULL;
	*err = superp_udp_sock(net, AF_INET, port, &udp->v4);
	if (*err)
		goto fail;
	*err = superp_udp_sock(net, AF_INET6, port, &udp->v6);
	if (*err == -EAFNOSUPPORT || *err == -EPFNOSUPPORT)
		*err = 0;
	if (*err)
		goto fail;
	return udp;

fail:
	superp_udp_port_close(udp);
	return NULL;
}

/**
 * superp_udp_port_close - receive no longer
 * @udp: the port
 *
 * Packets may still be under way to the node for a grace period.
 *
 * Context: process.
 */
void superp_udp_port_close(struct superp_udp_port *udp)
{
	if (udp->v4)
		udp_tunnel_sock_release(udp->v4->sk);
	if (udp->v6)
		udp_tunnel_sock_release(udp->v6->sk);
	kfree(udp);
}
