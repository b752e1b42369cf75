// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: packets that pass the network stack as one segmented packet, each of them one of its fragments, or
 * in a run that is one (run.c). What is in front of the fragments belongs to all. Over SUNH that is the
 * Ethernet header, over UDP all up to the UDP header, as for tunnels whose packets the stack takes apart.
 */
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/gso.h>

#include "kapi_burst.h"
#include "kapi_path.h"
#include "kapi_run.h"

static struct packet_offload superp_burst_offload;

/* Of a run in front its packets' length stays what it says of itself; there is no other place for it. */
static void superp_burst_join(struct sk_buff *head, int gso_type)
{
	struct skb_shared_info *info = skb_shinfo(head);
	u32 size = superp_run_packet_len(head), segs = superp_run_count(head);
	bool run = segs > 1;
	struct sk_buff *part;

	info->frag_list = head->next;
	skb_mark_not_on_list(head);
	skb_walk_frags(head, part) {
		if (!run)
			size = max(size, superp_run_packet_len(part));
		segs += superp_run_count(part);
		head->len += part->len;
		head->data_len += part->len;
		head->truesize += part->truesize;
	}
	info->gso_type = gso_type;
	info->gso_size = size;
	info->gso_segs = segs;
}

/**
 * superp_burst_join_sunh - make one packet of a list
 * @head: the first of at least two, each of which begins with its SUNH header, or a run of them
 *
 * Context: any.
 */
void superp_burst_join_sunh(struct sk_buff *head)
{
	superp_burst_join(head, SKB_GSO_FRAGLIST);
	/* There is no checksum; without one it would be taken apart at once. */
	head->ip_summed = CHECKSUM_UNNECESSARY;
}

/**
 * superp_burst_join_udp - make one packet of a list that goes into one UDP header
 * @head: the first of at least two, each of which begins with its PDL header, or a run of them
 * @dev: the device of its route
 *
 * No device that takes tunnels apart knows what is inside of this one: it would have to take lists of
 * fragments, and those that do pass them on.
 *
 * Context: any.
 */
void superp_burst_join_udp(struct sk_buff *head, struct net_device *dev)
{
	struct sk_buff *part;

	/* IPsec has them taken apart before IP says where they go, and the code for tunnels asks the device. */
	head->dev = dev;
	for (part = head; part; part = part->next) {
		skb_reset_network_header(part);
		skb_reset_transport_header(part);
	}
	skb_reset_inner_mac_header(head);
	skb_reset_inner_network_header(head);
	skb_reset_inner_transport_header(head);
	skb_set_inner_protocol(head, superp_burst_offload.type);
	head->encapsulation = 1;
	superp_burst_join(head, SKB_GSO_FRAGLIST | SKB_GSO_UDP_TUNNEL_CSUM);
}

/* Whether what stands for one or several packets begins with the same @common bytes as another, and can be. */
static bool superp_burst_part(const struct sk_buff *part, const struct sk_buff *skb, u32 common)
{
	const struct skb_shared_info *info = skb_shinfo(part);
	struct superp_run run;

	if (skb_headlen(part) < common || memcmp(part->data, skb->data, common))
		return false;
	return !skb_is_gso(part) ||
	       superp_run_layout(part, common, info->gso_segs, info->gso_size, &run);
}

/*
 * Is it as it was joined? A filter may have pulled bytes of some fragments into the first: taken apart,
 * they would be other packets than were sent. All begin with the same @common bytes. @run: how the first
 * lies.
 */
static bool superp_burst_whole(const struct sk_buff *skb, u32 common, struct superp_run *run)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const struct sk_buff *part;
	u32 segs = 0;

	if (!(info->gso_type & SKB_GSO_FRAGLIST) || skb_headlen(skb) < common)
		return false;
	skb_walk_frags(skb, part) {
		segs += superp_run_count(part);
		if (!superp_burst_part(part, skb, common))
			return false;
	}
	if (segs + 1 < info->gso_segs)
		return superp_run_layout(skb, common, info->gso_segs - segs, info->gso_size, run);
	if (segs + 1 != info->gso_segs || skb_pagelen(skb) > info->gso_size)
		return false;
	skb_walk_frags(skb, part) {
		if (superp_run_packet_len(part) > info->gso_size)
			return false;
	}
	*run = (struct superp_run){};
	return true;
}

/**
 * superp_burst_split - take a received burst apart
 * @skb: the segmented packet, given up; its data and its headers are where its fragments' are
 * @common: bytes that all packets of it begin with
 *
 * Context: softirq.
 * Return: packets and runs, a list; or NULL for what is no burst of ours, or without memory.
 */
struct sk_buff *superp_burst_split(struct sk_buff *skb, u32 common)
{
	struct sk_buff *segs = ERR_PTR(-EINVAL), *part;
	u32 size = skb_shinfo(skb)->gso_size;
	struct superp_run run;

	if (superp_burst_whole(skb, common, &run)) {
		if (!skb_has_frag_list(skb))
			return skb;
		/* What was in front of it is not wanted any more. */
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
	if (run.count) {
		skb_shinfo(segs)->gso_segs = run.count;
		skb_shinfo(segs)->gso_size = size;
	}
	return segs;
}

/*
 * Room in front of the fragments for headers of @len bytes, which may be more than the sender's device
 * needed: a VLAN's tag, another kind of device further on. The list may be a clone's too.
 */
static int superp_burst_widen(struct sk_buff *skb, u32 len)
{
	struct sk_buff *part, *wider, **at;
	int err;

	skb_walk_frags(skb, part)
		if (skb_headroom(part) < len)
			break;
	if (!part)
		return 0;
	err = skb_unclone(skb, GFP_ATOMIC);
	if (err)
		return err;
	for (at = &skb_shinfo(skb)->frag_list; *at; at = &wider->next) {
		part = *at;
		wider = skb_realloc_headroom(part, len);
		if (!wider)
			return -ENOMEM;
		wider->next = part->next;
		*at = wider;
		consume_skb(part);
	}
	return 0;
}

/*
 * The code for tunnels makes the checksums of packets, of what it is told about what is inside. Here that
 * is nothing, if it leaves them to the device. The condition is __skb_udp_tunnel_segment()'s or a narrower one.
 */
static void superp_burst_sum(struct sk_buff *segs)
{
	bool later = segs->dev->features & NETIF_F_HW_CSUM && !skb_sec_path(segs) &&
		     !(skb_dst(segs) && dst_xfrm(skb_dst(segs)));
	struct sk_buff *skb;

	for (skb = segs; skb; skb = skb->next) {
		skb->ip_summed = CHECKSUM_NONE;
		SKB_GSO_CB(skb)->csum = later ? 0 : skb_checksum(skb, 0, skb->len, 0);
		SKB_GSO_CB(skb)->csum_start = skb_headroom(skb);
	}
}

/*
 * Takes the runs in a list of packets apart, given up, which begin with @mac_len bytes and the common ones.
 * @run: how the first lies.
 */
static struct sk_buff *superp_burst_split_runs(struct sk_buff *segs, u32 mac_len, u32 common,
					       struct superp_run run, netdev_features_t features)
{
	struct sk_buff *skb, *next, *last = NULL, **at = &segs;
	const struct skb_shared_info *info;

	while ((skb = *at)) {
		next = skb->next;
		last = skb;
		if (run.count) {
			*at = superp_run_split(skb, mac_len + common, &run, features, &last);
			skb_mark_not_on_list(skb);
			consume_skb(skb);
			if (!*at) {
				*at = next;
				goto drop;
			}
			last->next = next;
		}
		at = &last->next;
		run = (struct superp_run){};
		if (!next || !skb_is_gso(next))
			continue;
		info = skb_shinfo(next);
		if (!superp_run_layout(next, mac_len + common, info->gso_segs,
				       info->gso_size + mac_len, &run))
			goto drop;
	}
	segs->prev = last;
	return segs;

drop:
	kfree_skb_list(segs);
	return ERR_PTR(-ENOMEM);
}

/* In front of a device that does not take a burst as it is; for one in UDP the code for tunnels asks. */
static struct sk_buff *superp_burst_segment(struct sk_buff *skb, netdev_features_t features)
{
	bool tunnel = skb_shinfo(skb)->gso_type & SKB_GSO_UDP_TUNNEL_CSUM;
	/* All have one SUNH header. */
	u32 mac_len = skb_mac_header_len(skb), common = tunnel ? 0 : SUPERP_PATH_SUNH_SIZE;
	struct sk_buff *segs = skb;
	struct superp_run run;
	int err;

	if (!superp_burst_whole(skb, common, &run))
		return ERR_PTR(-EINVAL);
	if (skb_has_frag_list(skb)) {
		err = superp_burst_widen(skb, mac_len + skb_tnl_header_len(skb));
		if (err)
			return ERR_PTR(err);
		segs = skb_segment_list(skb, features, mac_len);
	} else {
		__skb_push(skb, mac_len);
		skb_get(skb);
	}
	if (!IS_ERR(segs))
		segs = superp_burst_split_runs(segs, mac_len, common, run, features);
	if (tunnel && !IS_ERR(segs))
		superp_burst_sum(segs);
	return segs;
}

static struct packet_offload superp_burst_offload = {
	.callbacks.gso_segment = superp_burst_segment,
};

static struct packet_offload superp_burst_lite_offload = {
	.callbacks.gso_segment = superp_burst_segment,
};

/**
 * superp_burst_register - have bursts taken apart in front of devices that do not take them
 * @ethertype: of SUNH
 * @lite: of SUNH with SUPERp-lite
 *
 * Context: process.
 */
void superp_burst_register(u16 ethertype, u16 lite)
{
	superp_burst_offload.type = htons(ethertype);
	superp_burst_lite_offload.type = htons(lite);
	dev_add_offload(&superp_burst_offload);
	dev_add_offload(&superp_burst_lite_offload);
}

/**
 * superp_burst_unregister - the reverse of superp_burst_register()
 *
 * Context: process.
 */
void superp_burst_unregister(void)
{
	dev_remove_offload(&superp_burst_lite_offload);
	dev_remove_offload(&superp_burst_offload);
}
