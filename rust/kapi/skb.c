// SPDX-License-Identifier: GPL-2.0
#include <linux/rbtree.h>
#include <linux/skbuff.h>

#include "kapi_skb.h"

/* Longest copy that is linear; a longer one is in pages. */
#define SUPERP_COPY_LINEAR	SZ_2K
/* Largest piece of memory of a copy. */
#define SUPERP_COPY_ORDER	3
/* Most bytes of headroom, and of linear data, that superp_skb_alloc() gives. */
#define SUPERP_LINEAR_MAX	SZ_64K

/* What a packet in a superp_skb_chain carries along. */
struct superp_skb_cb {
	u64 key;
};

static struct superp_skb_cb *superp_skb_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_skb_cb) > sizeof_field(struct sk_buff, cb));
	return (struct superp_skb_cb *)skb->cb;
}

/**
 * superp_skb_alloc - make an empty packet
 * @headroom: bytes in front
 * @linear: bytes of room for data
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
 * superp_skb_free - free a packet that is lost
 * @skb: the packet
 *
 * Context: any.
 */
void superp_skb_free(struct sk_buff *skb)
{
	kfree_skb(skb);
}

/**
 * superp_skb_link - put a packet behind another
 * @last: the last of a list
 * @skb: the new last
 *
 * Context: any.
 */
void superp_skb_link(struct sk_buff *last, struct sk_buff *skb)
{
	last->next = skb;
}

/**
 * superp_skb_last - the last packet of a list
 * @first: of the list
 *
 * Context: any.
 * Return: the packet.
 */
struct sk_buff *superp_skb_last(struct sk_buff *first)
{
	while (first->next)
		first = first->next;
	return first;
}

/**
 * superp_skb_unlink - take a packet out of a list
 * @first: of the list
 *
 * Context: any.
 * Return: the one behind it, or NULL.
 */
struct sk_buff *superp_skb_unlink(struct sk_buff *first)
{
	struct sk_buff *next = first->next;

	skb_mark_not_on_list(first);
	return next;
}

/**
 * superp_skb_free_list - free packets that are lost
 * @first: of a list, or NULL
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
 * superp_skb_len - how long is a packet?
 * @skb: the packet
 *
 * Return: bytes.
 */
u32 superp_skb_len(const struct sk_buff *skb)
{
	return skb->len;
}

/**
 * superp_skb_head - the linear part of a packet
 * @skb: the packet
 * @len: where its length goes, in bytes
 *
 * Return: its first byte.
 */
const u8 *superp_skb_head(const struct sk_buff *skb, u32 *len)
{
	*len = skb_headlen(skb);
	return skb->data;
}

/**
 * superp_skb_extend - append to the linear part
 * @skb: the packet
 * @len: how many bytes
 *
 * Return: the first of them, which have to be written, or NULL if others share the packet's memory, if
 * data follows the linear part, or if there is no room.
 */
u8 *superp_skb_extend(struct sk_buff *skb, u32 len)
{
	if (skb_cloned(skb) || skb_is_nonlinear(skb) || len > skb_tailroom(skb))
		return NULL;
	return skb_put(skb, len);
}

/**
 * superp_skb_put - append bytes to the linear part
 * @skb: the packet
 * @from: the bytes
 * @len: how many
 *
 * Return: 0, or -EMSGSIZE where superp_skb_extend() has no place for them.
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
 * superp_skb_pad - append zero bytes wherever the data ends
 * @skb: the packet
 * @len: how many, from 1 to PAGE_SIZE
 *
 * Return: 0, -EINVAL if others share the packet's memory, -EMSGSIZE if there is no room.
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
 * @len: how much of it, in bytes
 *
 * Context: any.
 * Return: whether it is.
 */
bool superp_skb_may_pull(struct sk_buff *skb, u32 len)
{
	return pskb_may_pull(skb, len);
}

/**
 * superp_skb_pull - remove the beginning of a packet
 * @skb: the packet
 * @len: how much of it, in bytes
 *
 * Context: any.
 * Return: whether that was done; the packet may be too short, or memory scarce.
 */
bool superp_skb_pull(struct sk_buff *skb, u32 len)
{
	return pskb_pull(skb, len);
}

/*
 * Whether a packet refers to pages that somebody else may still write to. A packet that came by a
 * virtual device, veth for example, has the very pages that its sender attached. Where these are memory
 * of a program, the packet has a mark (SKBFL_SHARED_FRAG), which the stack keeps.
 */
static bool superp_skb_is_lent(const struct sk_buff *skb)
{
	const struct sk_buff *part;

	if (skb_has_shared_frag(skb))
		return true;
	/* A message of many packets; they have none in turn. */
	skb_walk_frags(skb, part) {
		if (skb_has_shared_frag(part))
			return true;
	}
	return false;
}

/*
 * Copies @len bytes of a packet, which has them, into one with memory of its own, the first @linear of
 * them into its linear part.
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
 * superp_skb_own - see to it that nobody changes the bytes of a packet any more
 * @skb: the packet, given up
 *
 * As superp_skb_slice() does for a part of one. What is linear stays linear.
 *
 * Context: any.
 * Return: the packet, or one with a copy of its bytes; NULL without memory, and then it is freed.
 */
struct sk_buff *superp_skb_own(struct sk_buff *skb)
{
	struct sk_buff *copy;

	if (!superp_skb_is_lent(skb))
		return skb;
	copy = superp_skb_copy_part(skb, 0, skb->len, skb_headlen(skb));
	if (copy)
		consume_skb(skb);
	else
		kfree_skb(skb);
	return copy;
}

/**
 * superp_skb_slice - make a packet of some bytes of another, which nobody changes any more
 * @skb: the other
 * @offset: of the first byte
 * @len: how many bytes
 *
 * The bytes stay where they are, unless the other packet refers to pages that somebody may still
 * write to: then they are copied, because what the slice is part of is kept after its sender was
 * told that it has been received.
 *
 * Context: any.
 * Return: the packet, or NULL if @skb has too few bytes or memory is scarce.
 */
struct sk_buff *superp_skb_slice(struct sk_buff *skb, u32 offset, u32 len)
{
	struct sk_buff *slice;

	if (offset > skb->len || len > skb->len - offset)
		return NULL;
	if (superp_skb_is_lent(skb))
		return superp_skb_copy_part(skb, offset, len,
					    len <= SUPERP_COPY_LINEAR ? len : 0);
	/* To pull beyond the linear part would copy into it; to extract only takes references. */
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

/* Takes the first packet out. The tree's links share memory with @next, @prev and @dev. */
static struct sk_buff *superp_skb_chain_take(struct superp_skb_chain *chain)
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
	if (chain->last == skb)
		chain->last = NULL;
	return skb;
}

static int superp_skb_chain_put(struct superp_skb_chain *chain, struct sk_buff *skb)
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
	if (!chain->last || superp_skb_cb(chain->last)->key < key)
		chain->last = skb;
	return 0;
}

/**
 * superp_skb_chain_insert - put a packet where its key belongs
 * @chain: the packets
 * @key: of the packet
 * @skb: the packet, given up; in no list, and without a device
 *
 * Context: any. Constant time behind the last, else logarithmic: a peer chooses the order.
 * Return: 0, or -EEXIST if the key is taken, and then the packet is freed.
 */
int superp_skb_chain_insert(struct superp_skb_chain *chain, u64 key, struct sk_buff *skb)
{
	int err;

	superp_skb_cb(skb)->key = key;
	err = superp_skb_chain_put(chain, skb);
	if (err)
		kfree_skb(skb);
	return err;
}

/**
 * superp_skb_chain_first_key - the lowest key
 * @chain: the packets
 * @key: where it goes
 *
 * Return: whether there is one.
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
 * superp_skb_chain_merge - move packets
 * @to: where they go; of two with the same key, the one that is here stays
 * @from: where they come from, empty afterwards
 *
 * Context: any.
 */
void superp_skb_chain_merge(struct superp_skb_chain *to, struct superp_skb_chain *from)
{
	struct sk_buff *skb;

	while ((skb = superp_skb_chain_take(from))) {
		if (superp_skb_chain_put(to, skb))
			kfree_skb(skb);
	}
}

/**
 * superp_skb_chain_join - make one packet of all
 * @chain: the packets; empty afterwards, unless there is an error
 *
 * Context: any.
 * Return: a packet that has the others in its frag_list, or the only one, or an empty one if
 * there is none; NULL if memory is scarce or the memory in it is over 2 GiB.
 */
struct sk_buff *superp_skb_chain_join(struct superp_skb_chain *chain)
{
	struct rb_root root = { .rb_node = chain->root };
	struct sk_buff *skb, **end, *head;
	struct rb_node *node;
	u64 truesize = 0;

	if (chain->last && chain->root == &chain->last->rbnode && !chain->root->rb_left)
		return superp_skb_chain_take(chain);
	for (node = rb_first(&root); node; node = rb_next(node))
		truesize += rb_to_skb(node)->truesize;
	head = alloc_skb(0, GFP_ATOMIC);
	if (!head)
		return NULL;
	truesize += head->truesize;
	/* What is charged to a socket is an int; the bytes are fewer. */
	if (truesize > INT_MAX) {
		kfree_skb(head);
		return NULL;
	}

	end = &skb_shinfo(head)->frag_list;
	while ((skb = superp_skb_chain_take(chain))) {
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

	while ((skb = superp_skb_chain_take(chain)))
		kfree_skb(skb);
}
