/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_SKB_H
#define _SUPERP_KAPI_SKB_H

#include <linux/types.h>

struct rb_node;
struct sk_buff;

struct sk_buff *superp_skb_alloc(u32 headroom, u32 linear);
struct sk_buff *superp_skb_reserve(void);
void superp_skb_free(struct sk_buff *skb);
void superp_skb_link(struct sk_buff *last, struct sk_buff *skb);
struct sk_buff *superp_skb_last(struct sk_buff *first);
struct sk_buff *superp_skb_unlink(struct sk_buff *first);
void superp_skb_free_list(struct sk_buff *first);
void superp_skb_consume(struct sk_buff *skb);
u32 superp_skb_len(const struct sk_buff *skb);
u32 superp_skb_truesize(const struct sk_buff *skb);
const u8 *superp_skb_head(const struct sk_buff *skb, u32 *len);
u8 *superp_skb_extend(struct sk_buff *skb, u32 len);
int superp_skb_put(struct sk_buff *skb, const u8 *from, u32 len);
int superp_skb_pad(struct sk_buff *skb, u32 len);
bool superp_skb_may_pull(struct sk_buff *skb, u32 len);
bool superp_skb_pull(struct sk_buff *skb, u32 len);
struct sk_buff *superp_skb_own(struct sk_buff *skb);
struct sk_buff *superp_skb_slice(struct sk_buff *skb, u32 offset, u32 len);

/**
 * struct superp_skb_chain - packets sorted by a key
 * @root: root node of their red-black tree, or NULL
 * @last: the packet with the highest key, or NULL if there are none
 * @truesize: memory of the packets, in bytes
 */
struct superp_skb_chain {
	struct rb_node *root;
	struct sk_buff *last;
	u64 truesize;
};

int superp_skb_chain_insert(struct superp_skb_chain *chain, u64 key, struct sk_buff *skb);
bool superp_skb_chain_first_key(const struct superp_skb_chain *chain, u64 *key);
void superp_skb_chain_merge(struct superp_skb_chain *to, struct superp_skb_chain *from);
struct sk_buff *superp_skb_chain_join(struct superp_skb_chain *chain);
void superp_skb_chain_free(struct superp_skb_chain *chain);

#endif /* _SUPERP_KAPI_SKB_H */
