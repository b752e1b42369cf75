// SPDX-License-Identifier: GPL-2.0
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/gso.h>

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

/**
 * superp_rx_detach - let a packet live for as long as it is wanted
 * @skb: the packet
 *
 * A message may wait in a socket for hours, and its packets must not hold devices or such.
 */
void superp_rx_detach(struct sk_buff *skb)
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
