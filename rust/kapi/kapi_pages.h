/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_PAGES_H
#define _SUPERP_KAPI_PAGES_H

#include <linux/types.h>

struct iov_iter;
struct sk_buff;
struct superp_pages;
struct user_struct;

/**
 * struct superp_charge - pages that are charged to a user's RLIMIT_MEMLOCK
 * @user: the user; NULL if nothing is charged
 * @pages: number of pages
 */
struct superp_charge {
	struct user_struct *user;
	unsigned long pages;
};

int superp_charge(struct superp_charge *charge, unsigned long pages);
void superp_uncharge(struct superp_charge *charge);

/* Operations of superp_pages_atomic(), with the numbers of the wire format [proto 7]. */
#define SUPERP_PAGES_FETCH_ADD		1
#define SUPERP_PAGES_COMPARE_SWAP	2
#define SUPERP_PAGES_SWAP		3

struct superp_pages *superp_pages_pin(u64 addr, u64 len, bool writable, int *err);
struct superp_pages *superp_pages_alloc(u64 len, int *err);
void superp_pages_get(struct superp_pages *pages);
void superp_pages_put(struct superp_pages *pages);
u64 superp_pages_len(const struct superp_pages *pages);
size_t superp_pages_copy_from_iter(struct superp_pages *pages, u64 offset, size_t len,
				   struct iov_iter *iter);
u32 superp_pages_most_frags(u32 len);
bool superp_pages_fit(u32 frags);
int superp_pages_add_frags(struct superp_pages *pages, u64 offset, u32 len, struct sk_buff *skb);
int superp_pages_copy_from_skb(struct superp_pages *pages, u64 offset, const struct sk_buff *skb,
			       u32 skb_offset, u32 len);
int superp_pages_append(const struct superp_pages *pages, const u64 *offsets, u32 count, u32 len,
			u32 pad, struct sk_buff *skb);
int superp_pages_copy_in(struct superp_pages *pages, u64 offset, const u8 *from, u32 len);
int superp_pages_atomic(struct superp_pages *pages, u64 offset, u32 op, u64 operand,
			u64 compare, u64 *old);

#endif /* _SUPERP_KAPI_PAGES_H */
