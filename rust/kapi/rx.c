// SPDX-License-Identifier: GPL-2.0
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst.h>

#include "kapi_burst.h"
#include "kapi_cells.h"
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
 * superp_rx_detach - drop what a received packet refers to, so that it can be kept
 * @skb: the packet
 *
 * A message may wait in a socket for hours. Meanwhile its packets must not hold a device, a route
 * or a conntrack entry.
 *
 * Context: softirq.
 */
void superp_rx_detach(struct sk_buff *skb)
{
	struct sk_buff *part;

	superp_rx_detach_one(skb);
	skb_walk_frags(skb, part)
		superp_rx_detach_one(part);
}

/* Bytes of the network header of frames. */
static u32 superp_rx_header_len __ro_after_init;

/* Control block of a frame in a cell. */
struct superp_rx_cb {
	u32 ifindex;
	u16 ethertype;
};

static struct superp_rx_cb *superp_rx_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_rx_cb) > sizeof_field(struct sk_buff, cb));
	return (struct superp_rx_cb *)skb->cb;
}

/*
 * Takes the next frames that one device has received with one EtherType, as a list. @cb returns
 * both. Runs with an invalid layout are freed. Returns NULL if no frame is left.
 */
static struct sk_buff *superp_rx_next(struct sk_buff_head *frames, struct superp_rx_cb *cb)
{
	struct sk_buff *skb, *first = NULL, **last = &first;

	while ((skb = skb_peek(frames))) {
		const struct superp_rx_cb *own = superp_rx_cb(skb);

		if (first && (own->ifindex != cb->ifindex || own->ethertype != cb->ethertype))
			break;
		*cb = *own;
		__skb_unlink(skb, frames);
		if (!superp_run_note(skb, superp_rx_header_len)) {
			kfree_skb_reason(skb, SKB_DROP_REASON_SKB_BAD_GSO);
			continue;
		}
		*last = skb;
		last = &skb->next;
	}
	return first;
}

/**
 * superp_rx_deliver - pass frames that were collected together to Rust
 * @cells: cells of a namespace
 * @frames: the frames; all stay if the namespace is being taken down
 *
 * Context: softirq, under RCU.
 */
void superp_rx_deliver(struct superp_cells *cells, struct sk_buff_head *frames)
{
	struct superp_rx_cb cb;
	struct sk_buff *skb;
	void *state;

	state = superp_pernet_state_of_cells(cells);
	while (state && (skb = superp_rx_next(frames, &cb)))
		superp_rust_rx_frames(state, cb.ifindex, cb.ethertype, skb);
}

/*
 * Prepares a received frame for delivery. A burst is taken apart; the result is then a list, and
 * @burst is set. Returns NULL if the frame was dropped.
 */
static struct sk_buff *superp_rx_prepare(struct sk_buff *skb, const struct packet_type *type,
					 bool *burst)
{
	struct superp_rx_cb cb = { skb->dev->ifindex, ntohs(type->type) };
	struct sk_buff *part;

	if (skb->pkt_type != PACKET_HOST || !superp_pernet_state(dev_net(skb->dev))) {
		kfree_skb_reason(skb, SKB_DROP_REASON_OTHERHOST);
		return NULL;
	}
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (skb && skb_is_gso(skb)) {
		*burst = true;
		skb = superp_burst_split(skb, superp_rx_header_len);
	}
	for (part = skb; part; part = part->next) {
		superp_rx_detach(part);
		*superp_rx_cb(part) = cb;
	}
	return skb;
}

static int superp_rx_frame(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			   struct net_device *orig_dev)
{
	struct superp_cells *cells = superp_net_cells(dev_net(dev));
	bool burst = false;

	skb = superp_rx_prepare(skb, type, &burst);
	if (!skb)
		return NET_RX_DROP;
	superp_cells_queue(cells, skb, burst);
	return NET_RX_SUCCESS;
}

/*
 * Delivers the frames that a driver passes up together. Unless there are bursts among them, they do
 * not wait for the end of the softirq round: the next frames may come on another CPU, and would
 * overtake them.
 */
static void superp_rx_frame_list(struct list_head *frames, struct packet_type *type,
				 struct net_device *orig_dev)
{
	struct sk_buff *skb, *next, *first = NULL, **last = &first;
	struct superp_cells *cells = NULL, *own;
	bool burst = false;

	list_for_each_entry_safe(skb, next, frames, list) {
		skb_list_del_init(skb);
		/* Each frame may be of a device in another namespace. */
		own = superp_net_cells(dev_net(skb->dev));
		if (first && own != cells) {
			superp_cells_queue(cells, first, burst);
			first = NULL;
			last = &first;
			burst = false;
		}
		cells = own;
		*last = superp_rx_prepare(skb, type, &burst);
		while (*last)
			last = &(*last)->next;
	}
	if (first)
		superp_cells_queue(cells, first, burst);
}

static struct packet_type superp_packet_types[SUPERP_BURST_ETHERTYPES] = {
	{ .func = superp_rx_frame, .list_func = superp_rx_frame_list },
	{ .func = superp_rx_frame, .list_func = superp_rx_frame_list },
};

/**
 * superp_rx_register - register the packet handlers for all devices
 * @ethertypes: EtherTypes of the frames, host byte order
 * @header_len: bytes of the network header of the frames
 *
 * Context: process, when the module is loaded.
 */
void superp_rx_register(const u16 ethertypes[SUPERP_BURST_ETHERTYPES], u32 header_len)
{
	int i;

	superp_rx_header_len = header_len;
	superp_burst_register(ethertypes, header_len);
	for (i = 0; i < SUPERP_BURST_ETHERTYPES; i++) {
		superp_packet_types[i].type = htons(ethertypes[i]);
		dev_add_pack(&superp_packet_types[i]);
	}
}

/**
 * superp_rx_unregister - unregister the packet handlers
 *
 * Context: process; sleeps until all CPUs have left the handlers.
 */
void superp_rx_unregister(void)
{
	int i;

	for (i = 0; i < SUPERP_BURST_ETHERTYPES; i++)
		dev_remove_pack(&superp_packet_types[i]);
	superp_burst_unregister();
}
