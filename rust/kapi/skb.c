// SPDX-License-Identifier: GPL-2.0
#include <linux/rbtree.h>
#include <linux/skbuff.h>

#include "kapi_skb.h"

/* Longest copy with linear data, in bytes; the data of longer ones are in pages. */
#define SUPERP_COPY_LINEAR	SZ_2K
/* Order of the largest page allocation of a copy. */
#define SUPERP_COPY_ORDER	3
/* Most bytes of headroom, and of linear data, of superp_skb_alloc(). */
#define SUPERP_LINEAR_MAX	SZ_64K

/* Control block of a packet in a superp_skb_chain. */
struct superp_skb_cb {
	u64 key;
};

static struct superp_skb_cb *superp_skb_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_skb_cb) > sizeof_field(struct sk_buff, cb));
	return (struct superp_skb_cb *)skb->cb;
}

/**
 * superp_skb_alloc - allocate an empty packet
 * @headroom: bytes of headroom
 * @linear: bytes of tailroom
 *
 * Context: any.
 * Return: the packet, or NULL.
 */
struct sk_buff *superp_skb_alloc(u32 headroom, u32 linear)
{
	struct sk_buff *skb;

	if (headroom > SUPERP_LINEAR_MAX || linear > SUPERP_LINEAR_MAX)
		return NULL;
	skb = alloc_skb(headroom + linear, GFP_ATOMIC | __GFP_NOWARN);
	if (skb)
		skb_reserve(skb, headroom);
	return skb;
}

/**
 * superp_skb_reserve - allocate an empty packet for later use
 *
 * Its memory is charged to the memory cgroup of the calling process.
 *
 * Context: process; sleeps.
 * Return: the packet, or NULL.
 */
struct sk_buff *superp_skb_reserve(void)
{
	return alloc_skb(0, GFP_KERNEL_ACCOUNT);
}

/**
 * superp_skb_free - free a packet that is dropped
 * @skb: the packet
 *
 * Context: any.
 */
void superp_skb_free(struct sk_buff *skb)
{
	kfree_skb(skb);
}

/**
 * superp_skb_link - append a packet to a list
 * @last: last packet of the list
 * @skb: the packet
 *
 * Context: any.
 */
void superp_skb_link(struct sk_buff *last, struct sk_buff *skb)
{
	last->next = skb;
}

/**
 * superp_skb_last - last packet of a list
 * @first: first packet of the list
 *
 * Context: any.
 * Return: the last packet.
 */
struct sk_buff *superp_skb_last(struct sk_buff *first)
{
	while (first->next)
		first = first->next;
	return first;
}

/**
 * superp_skb_unlink - remove the first packet of a list
 * @first: the first packet
 *
 * Context: any.
 * Return: the next packet of the list, or NULL.
 */
struct sk_buff *superp_skb_unlink(struct sk_buff *first)
{
	struct sk_buff *next = first->next;

	skb_mark_not_on_list(first);
	return next;
}

/**
 * superp_skb_free_list - free a list of packets that are dropped
 * @first: first packet of the list, or NULL
 *
 * Context: any.
 */
void superp_skb_free_list(struct sk_buff *first)
{
	kfree_skb_list(first);
}

/**
 * superp_skb_consume - free a packet that has served its purpose
 * @skb: the packet
 *
 * Context: any.
 */
void superp_skb_consume(struct sk_buff *skb)
{
	consume_skb(skb);
}

/**
 * superp_skb_len - length of a packet
 * @skb: the packet
 *
 * Context: any.
 * Return: bytes.
 */
u32 superp_skb_len(const struct sk_buff *skb)
{
	return skb->len;
}

/**
 * superp_skb_truesize - memory of a packet
 * @skb: the packet
 *
 * Context: any.
 * Return: bytes, those around the data included.
 */
u32 superp_skb_truesize(const struct sk_buff *skb)
{
	return skb->truesize;
}

/**
 * superp_skb_head - linear data of a packet
 * @skb: the packet
 * @len: returns the length of the linear data, in bytes
 *
 * Context: any.
 * Return: the first byte.
 */
const u8 *superp_skb_head(const struct sk_buff *skb, u32 *len)
{
	*len = skb_headlen(skb);
	return skb->data;
}

/**
 * superp_skb_extend - extend the linear data of a packet
 * @skb: the packet
 * @len: bytes to append
 *
 * Context: any.
 * Return: the first new byte; the caller writes all of them. NULL if @skb is cloned, has data
 * behind the linear part, or has no space.
 */
u8 *superp_skb_extend(struct sk_buff *skb, u32 len)
{
	if (skb_cloned(skb) || skb_is_nonlinear(skb) || len > skb_tailroom(skb))
		return NULL;
	return skb_put(skb, len);
}

/**
 * superp_skb_put - append bytes to the linear data of a packet
 * @skb: the packet
 * @from: the bytes
 * @len: number of bytes
 *
 * Context: any.
 * Return: 0, or -EMSGSIZE if superp_skb_extend() fails.
 */
int superp_skb_put(struct sk_buff *skb, const u8 *from, u32 len)
{
	u8 *to = superp_skb_extend(skb, len);

	if (!to)
		return -EMSGSIZE;
	memcpy(to, from, len);
	return 0;
}

/**
 * superp_skb_pad - append zero bytes to the data of a packet
 * @skb: the packet
 * @len: number of bytes, from 1 to PAGE_SIZE
 *
 * Context: any.
 * Return: 0; -EINVAL if @skb is cloned or has a frag_list; -EMSGSIZE if there is no space.
 */
int superp_skb_pad(struct sk_buff *skb, u32 len)
{
	unsigned int nr = skb_shinfo(skb)->nr_frags;
	struct page *page = ZERO_PAGE(0);
	u8 *to;

	if (skb_cloned(skb) || skb_has_frag_list(skb))
		return -EINVAL;
	if (!skb_is_nonlinear(skb)) {
		to = superp_skb_extend(skb, len);
		if (!to)
			return -EMSGSIZE;
		memset(to, 0, len);
		return 0;
	}
	if (len > PAGE_SIZE || nr >= MAX_SKB_FRAGS)
		return -EMSGSIZE;
	get_page(page);
	skb_fill_page_desc(skb, nr, page, 0, len);
	skb->len += len;
	skb->data_len += len;
	return 0;
}

/**
 * superp_skb_may_pull - make the beginning of a packet linear
 * @skb: the packet
 * @len: bytes
 *
 * Context: any.
 * Return: false if the packet is shorter, or without memory.
 */
bool superp_skb_may_pull(struct sk_buff *skb, u32 len)
{
	return pskb_may_pull(skb, len);
}

/**
 * superp_skb_pull - remove the beginning of a packet
 * @skb: the packet
 * @len: bytes
 *
 * Context: any.
 * Return: false if the packet is shorter, or without memory.
 */
bool superp_skb_pull(struct sk_buff *skb, u32 len)
{
	return pskb_pull(skb, len);
}

/*
 * Whether a program may still write to the pages of a packet. A packet that came over a virtual
 * device such as veth refers to the very pages that its sender attached. If these are memory of a
 * program, the packet has SKBFL_SHARED_FRAG, which the stack preserves.
 */
static bool superp_skb_has_shared_pages(const struct sk_buff *skb)
{
	const struct sk_buff *part;

	if (skb_has_shared_frag(skb))
		return true;
	/* The packets of a message are in the frag_list of its head, and have none themselves. */
	skb_walk_frags(skb, part) {
		if (skb_has_shared_frag(part))
			return true;
	}
	return false;
}

/*
 * Copies @len bytes from @offset of a packet, which has them, to a new one. The first @linear bytes
 * become linear data, the others are in pages.
 */
static struct sk_buff *superp_skb_copy_part(const struct sk_buff *skb, u32 offset, u32 len,
					    u32 linear)
{
	u32 paged = len - linear, i;
	struct sk_buff *copy;
	int err;

	copy = alloc_skb_with_frags(linear, paged, SUPERP_COPY_ORDER, &err,
				    GFP_ATOMIC | __GFP_NOWARN);
	if (!copy)
		return NULL;
	skb_put(copy, linear);
	copy->len += paged;
	copy->data_len = paged;
	err = skb_copy_bits(skb, offset, copy->data, linear);
	offset += linear;
	for (i = 0; !err && i < skb_shinfo(copy)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(copy)->frags[i];

		err = skb_copy_bits(skb, offset, skb_frag_address(frag), skb_frag_size(frag));
		offset += skb_frag_size(frag);
	}
	if (err) {
		kfree_skb(copy);
		return NULL;
	}
	return copy;
}

/**
 * superp_skb_own - make sure that nobody writes to the data of a packet
 * @skb: the packet, consumed
 *
 * If a program may still write to the pages, the data is copied. Linear data stays linear.
 *
 * Context: any.
 * Return: the packet or a copy; NULL without memory, and then @skb is freed.
 */
struct sk_buff *superp_skb_own(struct sk_buff *skb)
{
	struct sk_buff *copy;

	if (!superp_skb_has_shared_pages(skb))
		return skb;
	copy = superp_skb_copy_part(skb, 0, skb->len, skb_headlen(skb));
	if (copy)
		consume_skb(skb);
	else
		kfree_skb(skb);
	return copy;
}

/**
 * superp_skb_slice - make a packet of a part of another one
 * @skb: the other packet
 * @offset: offset of the first byte in @skb
 * @len: bytes
 *
 * The slice shares the memory of @skb, unless a program may still write to its pages. The slice is
 * kept after the sender was told that its data has been received, and from then on the sender may
 * write. Therefore the bytes are copied in that case.
 *
 * Context: any.
 * Return: the packet; NULL if @skb has fewer bytes, or without memory.
 */
struct sk_buff *superp_skb_slice(struct sk_buff *skb, u32 offset, u32 len)
{
	struct sk_buff *slice;

	if (offset > skb->len || len > skb->len - offset)
		return NULL;
	if (superp_skb_has_shared_pages(skb))
		return superp_skb_copy_part(skb, offset, len,
					    len <= SUPERP_COPY_LINEAR ? len : 0);
	/* pskb_extract() takes references only; pulling fragments would copy them. */
	if (offset > skb_headlen(skb))
		return pskb_extract(skb, offset, len, GFP_ATOMIC);

	slice = skb_clone(skb, GFP_ATOMIC);
	if (!slice)
		return NULL;
	__skb_pull(slice, offset);
	if (pskb_trim(slice, len)) {
		kfree_skb(slice);
		return NULL;
	}
	return slice;
}

/*
 * Removes the packet with the lowest key. rbnode shares memory with next, prev and dev, so these
 * are reset.
 */
static struct sk_buff *superp_skb_chain_pop(struct superp_skb_chain *chain)
{
	struct rb_root root = { .rb_node = chain->root };
	struct rb_node *node = rb_first(&root);
	struct sk_buff *skb;

	if (!node)
		return NULL;
	skb = rb_to_skb(node);
	rb_erase(node, &root);
	skb->next = NULL;
	skb->prev = NULL;
	skb->dev = NULL;
	chain->root = root.rb_node;
	chain->truesize -= skb->truesize;
	if (chain->last == skb)
		chain->last = NULL;
	return skb;
}

static int superp_skb_chain_link(struct superp_skb_chain *chain, struct sk_buff *skb)
{
	struct rb_root root = { .rb_node = chain->root };
	struct rb_node **link = &root.rb_node, *parent = NULL;
	u64 key = superp_skb_cb(skb)->key;

	if (chain->last && superp_skb_cb(chain->last)->key < key) {
		parent = &chain->last->rbnode;
		link = &parent->rb_right;
	}
	while (*link) {
		u64 at;

		parent = *link;
		at = superp_skb_cb(rb_to_skb(parent))->key;
		if (at == key)
			return -EEXIST;
		link = key < at ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color(&skb->rbnode, &root);
	chain->root = root.rb_node;
	chain->truesize += skb->truesize;
	if (!chain->last || superp_skb_cb(chain->last)->key < key)
		chain->last = skb;
	return 0;
}

/**
 * superp_skb_chain_insert - insert a packet at the place of its key
 * @chain: the packets
 * @key: key of the packet
 * @skb: the packet, consumed; in no list, and without a device
 *
 * Takes constant time behind the last packet, otherwise logarithmic time. A peer chooses the order,
 * so a sorted list could cost linear time for each packet.
 *
 * Context: any.
 * Return: 0; -EEXIST if there is a packet with this key, and then @skb is freed.
 */
int superp_skb_chain_insert(struct superp_skb_chain *chain, u64 key, struct sk_buff *skb)
{
	int err;

	superp_skb_cb(skb)->key = key;
	err = superp_skb_chain_link(chain, skb);
	if (err)
		kfree_skb(skb);
	return err;
}

/**
 * superp_skb_chain_first_key - lowest key
 * @chain: the packets
 * @key: returns the key
 *
 * Context: any.
 * Return: whether there is a packet.
 */
bool superp_skb_chain_first_key(const struct superp_skb_chain *chain, u64 *key)
{
	struct rb_root root = { .rb_node = chain->root };
	struct rb_node *node = rb_first(&root);

	if (!node)
		return false;
	*key = superp_skb_cb(rb_to_skb(node))->key;
	return true;
}

/**
 * superp_skb_chain_merge - move all packets to another chain
 * @to: the destination
 * @from: the source, empty afterwards
 *
 * A packet whose key is in use in @to is freed.
 *
 * Context: any.
 */
void superp_skb_chain_merge(struct superp_skb_chain *to, struct superp_skb_chain *from)
{
	struct sk_buff *skb;

	while ((skb = superp_skb_chain_pop(from))) {
		if (superp_skb_chain_link(to, skb))
			kfree_skb(skb);
	}
}

/**
 * superp_skb_chain_join - make one packet of all
 * @chain: the packets; empty afterwards, unless the function fails
 *
 * Context: any.
 * Return: a packet with the others in its frag_list, or the only packet, or an empty one if there
 * is none; NULL without memory, or if the packets take more than 2 GiB of memory.
 */
struct sk_buff *superp_skb_chain_join(struct superp_skb_chain *chain)
{
	struct sk_buff *skb, **end, *head;
	u64 truesize;

	if (chain->last && chain->root == &chain->last->rbnode && !chain->root->rb_left)
		return superp_skb_chain_pop(chain);
	head = alloc_skb(0, GFP_ATOMIC);
	if (!head)
		return NULL;
	truesize = chain->truesize + head->truesize;
	/* sk_rmem_alloc is an int. The data is less than truesize. */
	if (truesize > INT_MAX) {
		kfree_skb(head);
		return NULL;
	}

	end = &skb_shinfo(head)->frag_list;
	while ((skb = superp_skb_chain_pop(chain))) {
		*end = skb;
		end = &skb->next;
		head->len += skb->len;
	}
	head->data_len = head->len;
	head->truesize = truesize;
	return head;
}

/**
 * superp_skb_chain_free - free all packets
 * @chain: the packets; empty afterwards
 *
 * Context: any.
 */
void superp_skb_chain_free(struct superp_skb_chain *chain)
{
	struct sk_buff *skb;

	while ((skb = superp_skb_chain_pop(chain)))
		kfree_skb(skb);
}
