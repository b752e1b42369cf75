// SPDX-License-Identifier: GPL-2.0
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst.h>

#include "kapi_burst.h"
#include "kapi_net.h"
#include "kapi_path.h"
#include "kapi_run.h"
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
		skb = superp_burst_split(skb, SUPERP_PATH_SUNH_SIZE);
		if (!skb)
			return NET_RX_DROP;
	}
	for (part = skb; part; part = part->next) {
		superp_rx_detach(part);
		if (!superp_run_note(part, SUPERP_PATH_SUNH_SIZE)) {
			kfree_skb_list_reason(skb, SKB_DROP_REASON_SKB_BAD_GSO);
			return NET_RX_DROP;
		}
	}
	superp_rust_rx_sunh(node, dev->ifindex, lite, skb);
	return NET_RX_SUCCESS;
}

static struct packet_type superp_packet_type = {
	.func = superp_rx_sunh,
};

static struct packet_type superp_lite_packet_type = {
	.func = superp_rx_sunh,
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
	superp_burst_register(ethertype, lite);
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
	superp_burst_unregister();
}
