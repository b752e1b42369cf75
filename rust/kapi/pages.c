// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/workqueue.h>

#include "kapi_defer.h"
#include "kapi_pages.h"
#include "kapi_skb.h"

/* Most bytes in one region; the array of pages for more cannot be allocated. */
#define SUPERP_PAGES_MAX	BIT_ULL(39)
/* Most pages that are pinned or unpinned in one call. */
#define SUPERP_PAGES_BATCH	SZ_16K
/* Order of the largest kernel allocation; the pages of a jumbo frame are then two fragments. */
#define SUPERP_PAGES_ORDER	3

/**
 * struct superp_pages - a region of memory, as an array of pages
 * @refs: reference count
 * @pinned: whether the pages are pinned user memory; otherwise they are kernel memory
 * @writable: whether received data may be written to pinned memory
 * @first: offset of the first byte in the first page
 * @len: bytes
 * @charge: pages charged to RLIMIT_MEMLOCK
 * @work: frees the region in process context
 * @held: number of pages that are pinned or allocated; equals @count once the region is complete
 * @count: number of pages
 * @pages: the pages
 */
struct superp_pages {
	refcount_t refs;
	bool pinned;
	bool writable;
	u32 first;
	u64 len;
	struct superp_charge charge;
	struct work_struct work;
	unsigned long held;
	unsigned long count;
	struct page *pages[] __counted_by(count);
};

static void superp_pages_free(struct superp_pages *pages)
{
	unsigned long i, n;

	if (pages->pinned) {
		for (i = 0; i < pages->held; i += n) {
			n = min(pages->held - i, SUPERP_PAGES_BATCH);
			unpin_user_pages_dirty_lock(pages->pages + i, n, pages->writable);
			cond_resched();
		}
		superp_uncharge(&pages->charge);
	} else {
		/*
		 * Each allocation has one reference, that of its first page. Loop backwards, so
		 * that the first page comes last: putting it frees the other pages, which then are
		 * no tail pages any more.
		 */
		for (i = pages->held; i-- > 0;) {
			if (!PageTail(pages->pages[i]))
				put_page(pages->pages[i]);
		}
	}
	kvfree(pages);
}

static void superp_pages_work(struct work_struct *work)
{
	superp_pages_free(container_of(work, struct superp_pages, work));
}

static struct superp_pages *superp_pages_new(u64 len, u32 first, gfp_t gfp)
{
	unsigned long count = DIV_ROUND_UP_ULL(first + len, PAGE_SIZE);
	struct superp_pages *pages;

	pages = kvzalloc_flex(*pages, pages, count, gfp);
	if (!pages)
		return NULL;
	refcount_set(&pages->refs, 1);
	INIT_WORK(&pages->work, superp_pages_work);
	pages->first = first;
	pages->len = len;
	pages->count = count;
	return pages;
}

/**
 * superp_charge - charge pages to the user of the calling process
 * @charge: zeroed; returns what superp_uncharge() needs
 * @pages: number of pages, all of which are charged; mm_account_pinned_pages() would add two for
 *         alignment
 *
 * Charges the user rather than the mm, as MSG_ZEROCOPY, AF_XDP and io_uring do. A socket, and so
 * its memory, may outlive the process or be passed to another one. fork() does not multiply the
 * limit of a user. And the charge can be dropped without mmap_lock, in any context. With
 * CAP_IPC_LOCK nothing is charged.
 *
 * Context: process.
 * Return: 0, or -ENOMEM beyond RLIMIT_MEMLOCK.
 */
int superp_charge(struct superp_charge *charge, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	long before, after;

	if (capable(CAP_IPC_LOCK))
		return 0;
	before = atomic_long_read(&user->locked_vm);
	do {
		if (check_add_overflow(before, (long)pages, &after) || after > limit)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &before, after));
	charge->user = get_uid(user);
	charge->pages = pages;
	return 0;
}

/**
 * superp_uncharge - undo superp_charge()
 * @charge: the charge, or zero
 *
 * Context: any.
 */
void superp_uncharge(struct superp_charge *charge)
{
	if (!charge->user)
		return;
	atomic_long_sub(charge->pages, &charge->user->locked_vm);
	free_uid(charge->user);
	charge->user = NULL;
}

static int superp_pages_charge(struct superp_charge *charge, unsigned long count)
{
	if (!superp_charge(charge, count))
		return 0;
	/* Deferred work may not yet have uncharged regions that were dropped recently. */
	flush_workqueue(superp_wq);
	return superp_charge(charge, count);
}

static int superp_pages_pin_all(struct superp_pages *pages, unsigned long start)
{
	unsigned int flags = FOLL_LONGTERM | (pages->writable ? FOLL_WRITE : 0);
	unsigned long n;
	int ret;

	while (pages->held < pages->count) {
		n = min(pages->count - pages->held, SUPERP_PAGES_BATCH);
		ret = pin_user_pages_fast(start + (pages->held << PAGE_SHIFT), n, flags,
					  pages->pages + pages->held);
		if (ret <= 0)
			return ret ? : -EFAULT;
		pages->held += ret;
		cond_resched();
	}
	return 0;
}

/**
 * superp_pages_pin - pin memory of the calling process as a region
 * @addr: user address of the first byte
 * @len: bytes
 * @writable: whether received data may be written to the memory
 * @err: returns 0 or a negative errno
 *
 * Context: process, no lock held; sleeps.
 * Return: the region with one reference, or NULL.
 */
struct superp_pages *superp_pages_pin(u64 addr, u64 len, bool writable, int *err)
{
	u32 first = offset_in_page(addr);
	struct superp_pages *pages;
	struct superp_charge charge = {};
	u64 end;

	*err = -EINVAL;
	if (!len || check_add_overflow(addr, len, &end) || end > ULONG_MAX)
		return NULL;
	*err = -E2BIG;
	if (len > SUPERP_PAGES_MAX)
		return NULL;
	*err = superp_pages_charge(&charge, DIV_ROUND_UP_ULL(first + len, PAGE_SIZE));
	if (*err)
		return NULL;
	pages = superp_pages_new(len, first, GFP_KERNEL_ACCOUNT);
	if (!pages) {
		superp_uncharge(&charge);
		*err = -ENOMEM;
		return NULL;
	}
	pages->charge = charge;
	pages->pinned = true;
	pages->writable = writable;
	*err = superp_pages_pin_all(pages, addr - first);
	if (*err) {
		superp_pages_free(pages);
		return NULL;
	}
	return pages;
}

/**
 * superp_pages_alloc - allocate kernel memory as a region
 * @len: bytes
 * @err: returns a negative errno
 *
 * The memory is charged to the memory cgroup of the calling process.
 *
 * Context: process; sleeps.
 * Return: the region, not initialised, with one reference; or NULL.
 */
struct superp_pages *superp_pages_alloc(u64 len, int *err)
{
	struct superp_pages *pages;
	unsigned int order, i;
	struct page *page;

	*err = len ? -E2BIG : -EINVAL;
	if (!len || len > SUPERP_PAGES_MAX)
		return NULL;
	*err = -ENOMEM;
	pages = superp_pages_new(len, 0, GFP_KERNEL_ACCOUNT);
	if (!pages)
		return NULL;

	while (pages->held < pages->count) {
		order = min(ilog2(pages->count - pages->held), SUPERP_PAGES_ORDER);
		page = NULL;
		if (order)
			page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_COMP | __GFP_NOWARN |
					   __GFP_NORETRY, order);
		if (!page) {
			order = 0;
			page = alloc_page(GFP_KERNEL_ACCOUNT);
		}
		if (!page) {
			superp_pages_free(pages);
			return NULL;
		}
		for (i = 0; i < 1U << order; i++)
			pages->pages[pages->held++] = page + i;
	}
	return pages;
}

/**
 * superp_pages_get - take a reference
 * @pages: the region
 *
 * Context: any.
 */
void superp_pages_get(struct superp_pages *pages)
{
	refcount_inc(&pages->refs);
}

/**
 * superp_pages_put - drop a reference
 * @pages: the region; the last reference frees it, or defers that, because unpinning sleeps
 *
 * Context: any.
 */
void superp_pages_put(struct superp_pages *pages)
{
	if (!refcount_dec_and_test(&pages->refs))
		return;
	if (pages->pinned || is_vmalloc_addr(pages))
		queue_work(superp_wq, &pages->work);
	else
		superp_pages_free(pages);
}

/**
 * superp_pages_len - length of a region
 * @pages: the region
 *
 * Context: any.
 * Return: bytes.
 */
u64 superp_pages_len(const struct superp_pages *pages)
{
	return pages->len;
}

/* Returns the page of the byte at @offset. @in_page returns the offset of the byte in the page. */
static struct page *superp_pages_page(const struct superp_pages *pages, u64 offset, u32 *in_page)
{
	offset += pages->first;
	*in_page = offset_in_page(offset);
	return pages->pages[offset >> PAGE_SHIFT];
}

/*
 * Returns the page of the byte at @offset of the region. @in_page returns its offset in the page,
 * @piece the number of bytes, at most @len, that are contiguous from there in the same folio.
 */
static struct page *superp_pages_contiguous(const struct superp_pages *pages, u64 offset, u32 len,
					    u32 *in_page, u32 *piece)
{
	struct page *page = superp_pages_page(pages, offset, in_page);
	u32 n = PAGE_SIZE - *in_page;

	if (n < len) {
		struct page *const *next = &pages->pages[(pages->first + offset) >> PAGE_SHIFT];
		unsigned long limit = DIV_ROUND_UP((u64)*in_page + len, PAGE_SIZE), i;
		struct folio *folio = page_folio(page);

		limit = min(limit, folio_nr_pages(folio) - folio_page_idx(folio, page));
		for (i = 1; i < limit && next[i] == page + i;)
			i++;
		n = (i << PAGE_SHIFT) - *in_page;
	}
	*piece = min(n, len);
	return page;
}

/* Whether the @len bytes at @offset are inside of the region. */
static bool superp_pages_in_range(const struct superp_pages *pages, u64 offset, u64 len)
{
	return offset <= pages->len && len <= pages->len - offset;
}

/**
 * superp_pages_copy_from_iter - copy data of a system call to a region
 * @pages: the region
 * @offset: offset of the first byte in the region
 * @len: bytes
 * @iter: source of the data
 *
 * Context: process; may fault.
 * Return: number of bytes copied; less than @len after a fault, 0 outside of the region.
 */
size_t superp_pages_copy_from_iter(struct superp_pages *pages, u64 offset, size_t len,
				   struct iov_iter *iter)
{
	size_t done = 0, n, copied;
	struct page *page;
	u32 in_page;

	if (!superp_pages_in_range(pages, offset, len))
		return 0;
	while (done < len) {
		page = superp_pages_page(pages, offset + done, &in_page);
		n = min(len - done, PAGE_SIZE - in_page);
		copied = copy_page_from_iter(page, in_page, n, iter);
		done += copied;
		if (copied < n)
			break;
	}
	return done;
}

/**
 * superp_pages_most_frags - most fragments that superp_pages_add_frags() adds for some bytes
 * @len: bytes, at least 1
 *
 * Context: any.
 * Return: the number of fragments, whatever the offset of the bytes in their pages.
 */
u32 superp_pages_most_frags(u32 len)
{
	return DIV_ROUND_UP((u64)len - 1, PAGE_SIZE) + 1;
}

/**
 * superp_pages_fit - whether fragments fit into a packet that has none
 * @frags: number of fragments
 *
 * Context: any.
 * Return: whether they fit.
 */
bool superp_pages_fit(u32 frags)
{
	return frags <= MAX_SKB_FRAGS;
}

/**
 * superp_pages_add_frags - append bytes of a region to a packet as fragments, without copying
 * @pages: the region
 * @offset: offset of the first byte in the region
 * @len: bytes
 * @skb: the packet, which then holds references to the pages
 *
 * Context: any.
 * Return: 0; -ERANGE outside of the region; -EINVAL if @skb is cloned or has a frag_list; -E2BIG if
 * the fragments do not fit, and then @skb can only be freed.
 */
int superp_pages_add_frags(struct superp_pages *pages, u64 offset, u32 len, struct sk_buff *skb)
{
	struct skb_shared_info *info = skb_shinfo(skb);
	u32 in_page, n;

	if (!superp_pages_in_range(pages, offset, len))
		return -ERANGE;
	if (skb_cloned(skb) || skb_has_frag_list(skb))
		return -EINVAL;
	/* The program may write at any time, so nobody may compute a checksum in place. */
	if (pages->pinned)
		info->flags |= SKBFL_SHARED_FRAG;

	while (len) {
		struct page *page = superp_pages_contiguous(pages, offset, len, &in_page, &n);
		struct folio *folio = page_folio(page);
		u32 at = in_page + (folio_page_idx(folio, page) << PAGE_SHIFT);
		struct page *head = folio_page(folio, 0);

		if (skb_can_coalesce(skb, info->nr_frags, head, at)) {
			skb_frag_size_add(&info->frags[info->nr_frags - 1], n);
		} else {
			if (info->nr_frags >= MAX_SKB_FRAGS)
				return -E2BIG;
			get_page(head);
			skb_fill_page_desc(skb, info->nr_frags, head, at, n);
		}
		skb->len += n;
		skb->data_len += n;
		skb->truesize += n;
		offset += n;
		len -= n;
	}
	return 0;
}

/* Copies @len bytes to @offset, which the caller has checked to be inside of the region. */
static inline void superp_pages_write(const struct superp_pages *pages, u64 offset, const u8 *from,
				      u32 len)
{
	struct folio *folio;
	struct page *page;
	u32 in_page, n;

	while (len) {
		page = superp_pages_contiguous(pages, offset, len, &in_page, &n);
		folio = page_folio(page);
		memcpy_to_folio(folio, (folio_page_idx(folio, page) << PAGE_SHIFT) + in_page, from,
				n);
		offset += n;
		from += n;
		len -= n;
	}
}

/**
 * superp_pages_copy_in - copy bytes to a region
 * @pages: the region
 * @offset: offset of the first byte in the region
 * @from: the bytes
 * @len: number of bytes
 *
 * Context: any.
 * Return: 0, or -ERANGE outside of the region.
 */
int superp_pages_copy_in(struct superp_pages *pages, u64 offset, const u8 *from, u32 len)
{
	if (!superp_pages_in_range(pages, offset, len))
		return -ERANGE;
	superp_pages_write(pages, offset, from, len);
	return 0;
}

/*
 * Copies @len bytes, which are in the packet, from @skb_offset to @offset of the region. Walks the
 * fragments once; skb_copy_bits() would start at the first fragment again for each page.
 */
static int superp_pages_copy_part(struct superp_pages *pages, u64 offset,
				  const struct sk_buff *skb, u32 skb_offset, u32 len)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	u32 start = skb_headlen(skb), in_page, n, i;
	struct page *page;
	void *to;
	int err;

	if (skb_offset < start) {
		n = min(len, start - skb_offset);
		superp_pages_write(pages, offset, skb->data + skb_offset, n);
		offset += n;
		skb_offset += n;
		len -= n;
	}
	if (len && !skb_frags_readable(skb))
		return -EFAULT;
	for (i = 0; len && i < info->nr_frags; i++) {
		const skb_frag_t *frag = &info->frags[i];
		u32 off, at, copied, piece;
		void *from;

		if (skb_offset - start < skb_frag_size(frag)) {
			off = skb_offset - start;
			n = min(len, skb_frag_size(frag) - off);
			skb_frag_foreach_page(frag, skb_frag_off(frag) + off, n, page, at, piece,
					      copied) {
				from = kmap_local_page(page);
				superp_pages_write(pages, offset + copied, from + at, piece);
				kunmap_local(from);
			}
			offset += n;
			skb_offset += n;
			len -= n;
		}
		start += skb_frag_size(frag);
	}
	/* The remaining bytes are in the frag_list. */
	while (len) {
		page = superp_pages_page(pages, offset, &in_page);
		n = min(len, PAGE_SIZE - in_page);
		to = kmap_local_page(page);
		err = skb_copy_bits(skb, skb_offset, to + in_page, n);
		flush_dcache_page(page);
		kunmap_local(to);
		if (err)
			return err;
		offset += n;
		skb_offset += n;
		len -= n;
	}
	return 0;
}

/**
 * superp_pages_copy_from_skb - copy bytes of a packet to a region
 * @pages: the region
 * @offset: offset of the first byte in the region
 * @skb: the packet
 * @skb_offset: offset of the first byte in the packet
 * @len: bytes
 *
 * Context: any.
 * Return: 0; -ERANGE outside of the region; -EFAULT outside of the packet.
 */
int superp_pages_copy_from_skb(struct superp_pages *pages, u64 offset, const struct sk_buff *skb,
			       u32 skb_offset, u32 len)
{
	const struct sk_buff *part;
	u32 n, start;
	int err;

	if (!superp_pages_in_range(pages, offset, len))
		return -ERANGE;
	if (skb_offset > skb->len || len > skb->len - skb_offset)
		return -EFAULT;
	if (skb_offset + len <= skb_headlen(skb)) {
		superp_pages_write(pages, offset, skb->data + skb_offset, len);
		return 0;
	}
	if (!skb_has_frag_list(skb))
		return superp_pages_copy_part(pages, offset, skb, skb_offset, len);

	/*
	 * A message of many packets. skb_copy_bits() starts at the head each time, which is
	 * quadratic, so copy from one packet of the frag_list at a time.
	 */
	start = skb_pagelen(skb);
	if (skb_offset < start) {
		n = min(len, start - skb_offset);
		err = superp_pages_copy_part(pages, offset, skb, skb_offset, n);
		if (err)
			return err;
		offset += n;
		skb_offset += n;
		len -= n;
	}
	skb_walk_frags(skb, part) {
		if (!len)
			break;
		if (skb_offset - start < part->len) {
			n = min(len, part->len - (skb_offset - start));
			err = superp_pages_copy_part(pages, offset, part, skb_offset - start, n);
			if (err)
				return err;
			offset += n;
			skb_offset += n;
			len -= n;
		}
		start += part->len;
	}
	return len ? -EFAULT : 0;
}

/**
 * superp_pages_append - copy blocks of a region behind the linear data of a packet
 * @pages: the region
 * @offsets: offset of each block in the region
 * @count: number of blocks
 * @len: bytes of each block
 * @pad: zero bytes behind each block
 * @skb: the packet
 *
 * Context: any.
 * Return: 0; -ERANGE outside of the region; -EMSGSIZE if superp_skb_extend() fails.
 */
int superp_pages_append(const struct superp_pages *pages, const u64 *offsets, u32 count, u32 len,
			u32 pad, struct sk_buff *skb)
{
	u64 total = (u64)count * ((u64)len + pad);
	u32 in_page, left, n, i;
	struct page *page;
	u64 offset;
	u8 *to;

	for (i = 0; i < count; i++) {
		if (!superp_pages_in_range(pages, offsets[i], len))
			return -ERANGE;
	}
	to = total <= U32_MAX ? superp_skb_extend(skb, total) : NULL;
	if (!to)
		return -EMSGSIZE;
	for (i = 0; i < count; i++) {
		offset = offsets[i];
		for (left = len; left; left -= n) {
			page = superp_pages_page(pages, offset, &in_page);
			n = min(left, PAGE_SIZE - in_page);
			memcpy_from_page(to, page, in_page, n);
			offset += n;
			to += n;
		}
		if (pad)
			memset(to, 0, pad);
		to += pad;
	}
	return 0;
}

/**
 * superp_pages_atomic - atomic operation on 64 bits of a region
 * @pages: the region
 * @offset: offset of the first byte in the region; its address is a multiple of 8
 * @op: one of SUPERP_PAGES_FETCH_ADD, _COMPARE_SWAP and _SWAP
 * @operand: the number to add, or the new value
 * @compare: the value that SUPERP_PAGES_COMPARE_SWAP replaces
 * @old: returns the previous value
 *
 * The operation is fully ordered, also with respect to the program that owns the memory.
 *
 * Context: any.
 * Return: 0; -ERANGE outside of the region; -EINVAL if the address is no multiple of 8, or for an
 * unknown @op.
 */
int superp_pages_atomic(struct superp_pages *pages, u64 offset, u32 op, u64 operand,
			u64 compare, u64 *old)
{
	atomic64_t *value;
	struct page *page;
	u32 in_page;
	int err = 0;
	void *base;

	if (!superp_pages_in_range(pages, offset, sizeof(*value)))
		return -ERANGE;
	page = superp_pages_page(pages, offset, &in_page);
	if (!IS_ALIGNED(in_page, sizeof(*value)))
		return -EINVAL;
	base = kmap_local_page(page);
	value = base + in_page;
	switch (op) {
	case SUPERP_PAGES_FETCH_ADD:
		*old = atomic64_fetch_add(operand, value);
		break;
	case SUPERP_PAGES_COMPARE_SWAP:
		*old = atomic64_cmpxchg(value, compare, operand);
		break;
	case SUPERP_PAGES_SWAP:
		*old = atomic64_xchg(value, operand);
		break;
	default:
		err = -EINVAL;
	}
	flush_dcache_page(page);
	kunmap_local(base);
	return err;
}
