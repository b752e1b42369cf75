// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: several packets that cross the stack as one GSO sk_buff. The first packet is the head,
 * the others are its frag_list. Each of them may be a run of packets (run.c). The headers in front
 * of the head belong to all: of frames the Ethernet header; over UDP all headers up to that of UDP,
 * as in a tunnel whose inner packets the stack segments.
 */
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/gso.h>

#include "kapi_burst.h"
#include "kapi_path.h"
#include "kapi_run.h"

static struct packet_offload superp_burst_offloads[SUPERP_BURST_ETHERTYPES];

/* Bytes of the network header that all frames of a burst share. */
static u32 superp_burst_header_len __ro_after_init;

/*
 * Turns the list that begins with @head into one GSO sk_buff. Its gso_size is the longest packet.
 * If @head is a run, gso_size stays the packet length of that run, because nothing else tells it to
 * superp_run_layout().
 */
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
 * superp_burst_join_frames - make one GSO sk_buff of a list of frames
 * @head: first of the list: a run, or one of at least two entries, each a packet or a run. Each
 *        entry begins with its network header
 *
 * Context: any.
 */
void superp_burst_join_frames(struct sk_buff *head)
{
	superp_burst_join(head, SKB_GSO_FRAGLIST);
	/* The frames have no checksum. With CHECKSUM_NONE netif_needs_gso() would segment every burst. */
	head->ip_summed = CHECKSUM_UNNECESSARY;
}

/**
 * superp_burst_join_udp - make one GSO sk_buff of a list of packets that share one UDP header
 * @head: first of the list: a run, or one of at least two entries, each a packet or a run. Each
 *        entry begins behind the UDP header
 * @dev: output device of the route
 *
 * No device segments the burst in hardware. It would need NETIF_F_GSO_FRAGLIST, and devices with
 * that feature pass bursts on as they are.
 *
 * Context: any.
 */
void superp_burst_join_udp(struct sk_buff *head, struct net_device *dev)
{
	struct sk_buff *part;

	/* IPsec segments the burst before IP sets the device, and tunnel code reads features. */
	head->dev = dev;
	for (part = head; part; part = part->next) {
		skb_reset_network_header(part);
		skb_reset_transport_header(part);
	}
	skb_reset_inner_mac_header(head);
	skb_reset_inner_network_header(head);
	skb_reset_inner_transport_header(head);
	skb_set_inner_protocol(head, superp_burst_offloads[0].type);
	head->encapsulation = 1;
	superp_burst_join(head, SKB_GSO_FRAGLIST | SKB_GSO_UDP_TUNNEL_CSUM);
}

/*
 * Whether @part can be an entry of the burst @skb: it begins with the same @common bytes and, if it
 * is a run, has a valid layout.
 */
static bool superp_burst_part_valid(const struct sk_buff *part, const struct sk_buff *skb,
				    u32 common)
{
	const struct skb_shared_info *info = skb_shinfo(part);
	struct superp_run run;

	if (skb_headlen(part) < common || memcmp(part->data, skb->data, common))
		return false;
	return !skb_is_gso(part) ||
	       superp_run_layout(part, common, info->gso_segs, info->gso_size, &run);
}

/*
 * Whether the burst is as superp_burst_join() made it. A filter may have pulled bytes of some
 * fragments into the head. Segmenting that burst would make packets that nobody sent. All packets
 * begin with the same @common bytes. @run returns the layout of the head; its count is 0 if the
 * head is a single packet.
 */
static bool superp_burst_intact(const struct sk_buff *skb, u32 common, struct superp_run *run)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const struct sk_buff *part;
	u32 segs = 0;

	if (!(info->gso_type & SKB_GSO_FRAGLIST) || skb_headlen(skb) < common)
		return false;
	skb_walk_frags(skb, part) {
		segs += superp_run_count(part);
		if (!superp_burst_part_valid(part, skb, common))
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
 * @skb: the burst, consumed; its data and its header offsets are where those of its fragments are
 * @common: bytes that all packets begin with
 *
 * Context: softirq.
 * Return: a list of packets and runs; NULL if @skb is not an intact burst, or without memory.
 */
struct sk_buff *superp_burst_split(struct sk_buff *skb, u32 common)
{
	struct sk_buff *segs = ERR_PTR(-EINVAL), *part;
	u32 size = skb_shinfo(skb)->gso_size;
	struct superp_run run;

	if (superp_burst_intact(skb, common, &run)) {
		if (!skb_has_frag_list(skb))
			return skb;
		/* Makes skb_tnl_header_len() 0, so that skb_segment_list() copies no headers. */
		SKB_GSO_CB(skb)->mac_offset = skb_headroom(skb) + skb_mac_offset(skb);
		segs = skb_segment_list(skb, NETIF_F_SG | NETIF_F_FRAGLIST, 0);
	}
	if (IS_ERR(segs)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_SKB_BAD_GSO);
		return NULL;
	}
	/*
	 * skb_segment_list() returned @skb itself, with one more reference. The truesize of @skb
	 * still includes that of the other packets.
	 */
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
 * Makes sure that all fragments have @len bytes of headroom. The device may need longer headers
 * than the one that the sender built the packets for: a VLAN tag, or another kind of device after
 * forwarding. skb_unclone() comes first, because a clone may share the list.
 */
static int superp_burst_expand_headroom(struct sk_buff *skb, u32 len)
{
	struct sk_buff *part, *copy, **at;
	int err;

	skb_walk_frags(skb, part)
		if (skb_headroom(part) < len)
			break;
	if (!part)
		return 0;
	err = skb_unclone(skb, GFP_ATOMIC);
	if (err)
		return err;
	for (at = &skb_shinfo(skb)->frag_list; *at; at = &copy->next) {
		part = *at;
		copy = skb_realloc_headroom(part, len);
		if (!copy)
			return -ENOMEM;
		copy->next = part->next;
		*at = copy;
		consume_skb(part);
	}
	return 0;
}

/*
 * Gives the tunnel code the checksum of each inner packet, from which it computes the outer UDP
 * checksum. If that code leaves the checksum to the device, it needs no inner one. The condition
 * for this is that of __skb_udp_tunnel_segment(), or narrower.
 */
static void superp_burst_set_csum(struct sk_buff *segs)
{
	bool offload = segs->dev->features & NETIF_F_HW_CSUM && !skb_sec_path(segs) &&
		     !(skb_dst(segs) && dst_xfrm(skb_dst(segs)));
	struct sk_buff *skb;

	for (skb = segs; skb; skb = skb->next) {
		skb->ip_summed = CHECKSUM_NONE;
		SKB_GSO_CB(skb)->csum = offload ? 0 : skb_checksum(skb, 0, skb->len, 0);
		SKB_GSO_CB(skb)->csum_start = skb_headroom(skb);
	}
}

/*
 * Splits the runs in a list of packets, which is consumed. All entries begin with @mac_len bytes of
 * link-layer header and @common bytes that their packets share. @run: layout of the first entry.
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

/*
 * gso_segment() for a device that does not take bursts (no NETIF_F_GSO_FRAGLIST). For a burst in
 * UDP the tunnel code calls it.
 */
static struct sk_buff *superp_burst_segment(struct sk_buff *skb, netdev_features_t features)
{
	bool tunnel = skb_shinfo(skb)->gso_type & SKB_GSO_UDP_TUNNEL_CSUM;
	/* All frames of a burst have the same network header. */
	u32 mac_len = skb_mac_header_len(skb), common = tunnel ? 0 : superp_burst_header_len;
	struct sk_buff *segs = skb;
	struct superp_run run;
	int err;

	if (!superp_burst_intact(skb, common, &run))
		return ERR_PTR(-EINVAL);
	if (skb_has_frag_list(skb)) {
		err = superp_burst_expand_headroom(skb, mac_len + skb_tnl_header_len(skb));
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
		superp_burst_set_csum(segs);
	return segs;
}

static struct packet_offload superp_burst_offloads[SUPERP_BURST_ETHERTYPES] = {
	{ .callbacks.gso_segment = superp_burst_segment },
	{ .callbacks.gso_segment = superp_burst_segment },
};

/**
 * superp_burst_register - register the segmentation of bursts
 * @ethertypes: EtherTypes of frames, host byte order; bursts over UDP use the first one
 * @header_len: bytes of the network header of frames
 *
 * Context: process, when the module is loaded.
 */
void superp_burst_register(const u16 ethertypes[SUPERP_BURST_ETHERTYPES], u32 header_len)
{
	int i;

	superp_burst_header_len = header_len;
	for (i = 0; i < SUPERP_BURST_ETHERTYPES; i++) {
		superp_burst_offloads[i].type = htons(ethertypes[i]);
		dev_add_offload(&superp_burst_offloads[i]);
	}
}

/**
 * superp_burst_unregister - the reverse of superp_burst_register()
 *
 * Context: process.
 */
void superp_burst_unregister(void)
{
	int i;

	for (i = 0; i < SUPERP_BURST_ETHERTYPES; i++)
		dev_remove_offload(&superp_burst_offloads[i]);
}
