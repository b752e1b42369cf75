// SPDX-License-Identifier: GPL-2.0
/*
 * Runs: the packets of a long request or answer as one sk_buff, which has the headers of all in its linear
 * part, one after the other, and their data in its fragments. All headers have the same length, and so have
 * all packets but the last one: how many there are and how long, in gso_segs and gso_size, tells them apart.
 */
#include <linux/skbuff.h>
#include <linux/skbuff_ref.h>

#include "kapi_run.h"

/* What a received packet carries along until it has been looked at. */
static struct superp_run *superp_run_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_run) > sizeof_field(struct sk_buff, cb));
	return (struct superp_run *)skb->cb;
}

/**
 * superp_run_add - put the headers of one more packet behind those that are there
 * @skb: a packet, or several, whose data is in fragments, that of the new one included
 * @headers: of the new packet
 * @len: their length, in bytes
 * @packet_len: bytes of the first packet
 *
 * Context: any.
 * Return: 0, or -EMSGSIZE if others share the memory or there is no room.
 */
int superp_run_add(struct sk_buff *skb, const u8 *headers, u32 len, u32 packet_len)
{
	struct skb_shared_info *info = skb_shinfo(skb);

	/* skb_put() would not have them in front of fragments. */
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
 * superp_run_trim - take away data that was added last
 * @skb: a packet, or several; none is to be added any more
 * @len: bytes that stay
 *
 * Context: any.
 */
void superp_run_trim(struct sk_buff *skb, u32 len)
{
	/* Fails only where memory is shared, and there nothing is added. */
	if (pskb_trim(skb, len))
		WARN_ON_ONCE(skb->len != len);
}

/**
 * superp_run_count - how many packets are in an sk_buff?
 * @skb: made here, without fragments that are packets
 *
 * Return: packets, at least 1.
 */
u32 superp_run_count(const struct sk_buff *skb)
{
	return max_t(u32, skb_shinfo(skb)->gso_segs, 1);
}

/**
 * superp_run_packet_len - how long are the packets in an sk_buff?
 * @skb: made here, without fragments that are packets
 *
 * Return: bytes of the longest.
 */
u32 superp_run_packet_len(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len;
}

/**
 * superp_run_layout - how do packets lie in an sk_buff that has come?
 * @skb: the packets; its fragments that are packets do not count
 * @common: bytes in front that are each packet's
 * @count: of packets
 * @packet_len: bytes of each but the last, those in front included
 * @run: where it goes
 *
 * Nothing is read but the headers of the first packet, and they are believed.
 *
 * Return: whether that can be.
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
 * superp_run_note - note beside a received packet how it lies, for superp_run_noted()
 * @skb: the packet, or several
 * @common: bytes in front that are each packet's
 *
 * Return: false if what it says of itself cannot be.
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
 * superp_run_noted - how does a received packet lie?
 * @skb: the packet, or several, after superp_run_note()
 *
 * Return: valid as long as the packet.
 */
const struct superp_run *superp_run_noted(const struct sk_buff *skb)
{
	return superp_run_cb(skb);
}

/* Bytes of @skb from @from on, as the fragments of @part, which has none. */
static void superp_run_share(struct sk_buff *part, const struct sk_buff *skb, u32 from, u32 len)
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

/* One of the packets, which shares the data. */
static struct sk_buff *superp_run_copy(const struct sk_buff *skb, u32 common,
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
	/* With all that is in front, so that all offsets of headers are right. */
	memcpy(part->head, skb->head, headroom);
	skb_reserve(part, headroom);
	skb_copy_header(part, skb);
	skb_gso_reset(part);
	part->ip_summed = CHECKSUM_NONE;
	skb_put_data(part, skb->data, common);
	skb_put_data(part, skb->data + common + i * run->headers, run->headers);
	skb_put_data(part, skb->data + from, pulled);
	superp_run_share(part, skb, from + pulled, end - from - pulled);
	return part;
}

/**
 * superp_run_part - one of the packets in a received one, as a packet of its own
 * @skb: the packets
 * @common: bytes in front that are each packet's
 * @i: which, from 0
 *
 * Context: any.
 * Return: the packet, which shares the data; NULL if there is none or memory is scarce.
 */
struct sk_buff *superp_run_part(const struct sk_buff *skb, u32 common, u32 i)
{
	const struct superp_run *run = superp_run_noted(skb);
	struct sk_buff *part;

	if (i >= run->count || skb_headlen(skb) < common + run->count * run->headers)
		return NULL;
	part = superp_run_copy(skb, common, run, i);
	if (part)
		*superp_run_cb(part) = (struct superp_run){};
	return part;
}

/**
 * superp_run_split - take packets apart that shall leave by a device
 * @skb: the packets; its fragments that are packets do not count
 * @common: bytes in front that are each packet's
 * @run: how they lie, of superp_run_layout()
 * @features: of the device
 * @last: where the last one goes
 *
 * Context: any.
 * Return: the packets, a list, which share the data; NULL without memory.
 */
struct sk_buff *superp_run_split(const struct sk_buff *skb, u32 common,
				 const struct superp_run *run, u64 features,
				 struct sk_buff **last)
{
	struct sk_buff *first = NULL, **next = &first;
	u32 i;

	for (i = 0; i < run->count; i++) {
		struct sk_buff *part = superp_run_copy(skb, common, run, i);

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
