// SPDX-License-Identifier: GPL-2.0
/*
 * Runs: the packets of one long request or response in one sk_buff. Its linear part has the headers
 * of all packets, one after the other; its fragments have the data of all. All headers have the
 * same length, and all packets but the last one have the same length. Therefore the number of
 * packets (gso_segs) and their length (gso_size) suffice to find each packet.
 */
#include <linux/skbuff.h>
#include <linux/skbuff_ref.h>

#include "kapi_run.h"

/* The layout of a received packet, which stays in its control block until it is processed. */
static struct superp_run *superp_run_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_run) > sizeof_field(struct sk_buff, cb));
	return (struct superp_run *)skb->cb;
}

/**
 * superp_run_add - append the headers of one more packet to a run
 * @skb: a packet or run, whose fragments also have the data of the new packet
 * @headers: headers of the new packet
 * @len: bytes of @headers
 * @packet_len: bytes of each packet but the last
 *
 * Context: any.
 * Return: 0, or -EMSGSIZE if @skb is cloned or has no space.
 */
int superp_run_add(struct sk_buff *skb, const u8 *headers, u32 len, u32 packet_len)
{
	struct skb_shared_info *info = skb_shinfo(skb);

	/* skb_put() refuses an sk_buff with fragments, so set the tail by hand. */
	if (skb_cloned(skb) || len > skb_end_pointer(skb) - skb_tail_pointer(skb))
		return -EMSGSIZE;
	memcpy(skb_tail_pointer(skb), headers, len);
	skb->tail += len;
	skb->len += len;
	info->gso_segs = superp_run_count(skb) + 1;
	info->gso_size = packet_len;
	return 0;
}

/**
 * superp_run_trim - cut off data at the end of a packet or run
 * @skb: the packet or run; no packet is added afterwards
 * @len: bytes that stay
 *
 * Context: any.
 */
void superp_run_trim(struct sk_buff *skb, u32 len)
{
	/* pskb_trim() can fail only for a clone, and superp_run_add() refuses those. */
	if (pskb_trim(skb, len))
		WARN_ON_ONCE(skb->len != len);
}

/**
 * superp_run_count - number of packets in an sk_buff
 * @skb: a packet or run without a frag_list
 *
 * Context: any.
 * Return: number of packets, at least 1.
 */
u32 superp_run_count(const struct sk_buff *skb)
{
	return max_t(u32, skb_shinfo(skb)->gso_segs, 1);
}

/**
 * superp_run_packet_len - length of the packets in an sk_buff
 * @skb: a packet or run without a frag_list
 *
 * Context: any.
 * Return: bytes of the longest packet.
 */
u32 superp_run_packet_len(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len;
}

/**
 * superp_run_layout - compute the layout of a received run
 * @skb: the run; its frag_list is ignored
 * @common: bytes in front that each packet begins with
 * @count: number of packets
 * @packet_len: bytes of each packet but the last, @common included
 * @run: returns the layout
 *
 * The headers of the first packet tell how long all headers are. Nothing else is read, and the
 * headers are not validated.
 *
 * Context: any.
 * Return: whether @count packets of this length fit the sk_buff.
 */
bool superp_run_layout(const struct sk_buff *skb, u32 common, u32 count, u32 packet_len,
		       struct superp_run *run)
{
	u64 data, headers;

	*run = (struct superp_run){ .count = count };
	if (count < 2 || skb_headlen(skb) < common)
		return false;
	run->headers = superp_rust_headers_len(skb->data + common, skb_headlen(skb) - common);
	headers = (u64)run->headers * count;
	if (headers > skb_headlen(skb) - common || packet_len <= common + run->headers)
		return false;
	run->size = packet_len - common - run->headers;
	data = skb_pagelen(skb) - common - headers;
	return data > (u64)run->size * (count - 1) && data <= (u64)run->size * count;
}

/**
 * superp_run_note - store the layout of a received packet or run in its control block
 * @skb: the packet or run
 * @common: bytes in front that each packet begins with
 *
 * Context: any.
 * Return: false if gso_segs and gso_size do not fit the sk_buff.
 */
bool superp_run_note(struct sk_buff *skb, u32 common)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	struct superp_run *run = superp_run_cb(skb);

	if (!skb_is_gso(skb)) {
		*run = (struct superp_run){};
		return true;
	}
	return superp_run_layout(skb, common, info->gso_segs, info->gso_size, run);
}

/**
 * superp_run_noted - layout of a received packet or run
 * @skb: the packet or run, after superp_run_note()
 *
 * Context: any.
 * Return: the layout, valid as long as @skb and its control block.
 */
const struct superp_run *superp_run_noted(const struct sk_buff *skb)
{
	return superp_run_cb(skb);
}

/* Appends @len bytes of @skb, from @from on, to @part as fragments. @part has no fragments yet. */
static void superp_run_ref_frags(struct sk_buff *part, const struct sk_buff *skb, u32 from, u32 len)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	u32 start = skb_headlen(skb), i, n, nr = 0;
	skb_frag_t *to = skb_shinfo(part)->frags;

	skb_len_add(part, len);
	skb_shinfo(part)->flags |= info->flags & SKBFL_SHARED_FRAG;
	part->unreadable = skb->unreadable;
	for (i = 0; len && i < info->nr_frags; i++) {
		const skb_frag_t *frag = &info->frags[i];
		u32 size = skb_frag_size(frag), offset = from - start;

		start += size;
		if (offset >= size)
			continue;
		n = min(len, size - offset);
		*to = *frag;
		skb_frag_off_add(to, offset);
		skb_frag_size_set(to, n);
		__skb_frag_ref(to);
		to++;
		nr++;
		from += n;
		len -= n;
	}
	skb_shinfo(part)->nr_frags = nr;
}

/* Makes an sk_buff of packet @i of a run; it shares the data in fragments. */
static struct sk_buff *superp_run_extract(const struct sk_buff *skb, u32 common,
					  const struct superp_run *run, u32 i)
{
	u32 front = common + run->count * run->headers, headroom = skb_headroom(skb);
	u32 end = min(front + (i + 1) * run->size, skb_pagelen(skb));
	u32 from = front + i * run->size, pulled = 0;
	struct sk_buff *part;

	if (skb_headlen(skb) > from)
		pulled = min(skb_headlen(skb), end) - from;
	part = alloc_skb(headroom + common + run->headers + pulled, GFP_ATOMIC | __GFP_NOWARN);
	if (!part)
		return NULL;
	/* Copy all headers in front as well, so that the header offsets stay right. */
	memcpy(part->head, skb->head, headroom);
	skb_reserve(part, headroom);
	skb_copy_header(part, skb);
	skb_gso_reset(part);
	part->ip_summed = CHECKSUM_NONE;
	skb_put_data(part, skb->data, common);
	skb_put_data(part, skb->data + common + i * run->headers, run->headers);
	skb_put_data(part, skb->data + from, pulled);
	superp_run_ref_frags(part, skb, from + pulled, end - from - pulled);
	return part;
}

/**
 * superp_run_part - make an sk_buff of one packet of a received run
 * @skb: the run, after superp_run_note()
 * @common: bytes in front that each packet begins with
 * @i: number of the packet, from 0
 *
 * Context: any.
 * Return: the packet, which shares the data of @skb; NULL if there is no such packet, or no memory.
 */
struct sk_buff *superp_run_part(const struct sk_buff *skb, u32 common, u32 i)
{
	const struct superp_run *run = superp_run_noted(skb);
	struct sk_buff *part;

	if (i >= run->count || skb_headlen(skb) < common + run->count * run->headers)
		return NULL;
	part = superp_run_extract(skb, common, run, i);
	if (part)
		*superp_run_cb(part) = (struct superp_run){};
	return part;
}

/**
 * superp_run_split - split a run for a device that does not take runs
 * @skb: the run; its frag_list is ignored
 * @common: bytes in front that each packet begins with
 * @run: layout of superp_run_layout()
 * @features: features of the device
 * @last: returns the last packet
 *
 * Context: any.
 * Return: a list of packets, which share the data of @skb; NULL without memory.
 */
struct sk_buff *superp_run_split(const struct sk_buff *skb, u32 common,
				 const struct superp_run *run, u64 features,
				 struct sk_buff **last)
{
	struct sk_buff *first = NULL, **next = &first;
	u32 i;

	for (i = 0; i < run->count; i++) {
		struct sk_buff *part = superp_run_extract(skb, common, run, i);

		*next = part;
		if (!part || (skb_needs_linearize(part, features) && __skb_linearize(part))) {
			kfree_skb_list(first);
			return NULL;
		}
		*last = part;
		next = &part->next;
	}
	return first;
}
