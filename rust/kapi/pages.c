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

/* Most bytes in one range: a larger array of pages cannot be allocated. */
#define SUPERP_PAGES_MAX	BIT_ULL(39)
/* Pages that are pinned or unpinned at a go. */
#define SUPERP_PAGES_BATCH	SZ_16K
/* Largest piece of the kernel's memory: a jumbo frame then takes two fragments. */
#define SUPERP_PAGES_ORDER	3

/**
 * struct superp_pages - a range of bytes in pages
 * @refs: references
 * @pinned: user memory, otherwise the kernel's
 * @writable: that packets may be emptied into
 * @first: offset of the first byte in the first page
 * @len: bytes
 * @charge: what is charged to the user's RLIMIT_MEMLOCK
 * @work: frees this in process context
 * @held: how many pages are held, all of them once the range is made
 * @count: how many pages there are
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
		 * Of each piece, the first page stands for its reference. It comes last: with it,
		 * the others are no longer tail pages, nor ours.
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
 * superp_charge - charge pages to the calling user, unless it has CAP_IPC_LOCK
 * @charge: zero; what superp_uncharge() needs
 * @pages: how many, all of them: mm_account_pinned_pages() would add two for the sake of alignment
 *
 * To the user, as MSG_ZEROCOPY, AF_XDP and io_uring do, rather than to the mm: a socket, and so its
 * memory, may outlive the process or be passed on; a limit of the user's is not multiplied by
 * fork(); and the charge can be taken back without mmap_lock, in any context.
 *
 * Context: process.
 * Return: 0, or -ENOMEM beyond RLIMIT_MEMLOCK.
 */
int superp_charge(struct superp_charge *charge, unsigned long pages)
{
	unsigned long most = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	long before, after;

	if (capable(CAP_IPC_LOCK))
		return 0;
	before = atomic_long_read(&user->locked_vm);
	do {
		if (check_add_overflow(before, (long)pages, &after) || after > most)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &before, after));
	charge->user = get_uid(user);
	charge->pages = pages;
	return 0;
}

/**
 * superp_uncharge - take a charge back
 * @charge: of superp_charge(), or zero
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
	/* What was given up lately may still be on its way. */
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
 * superp_pages_pin - pin memory of the calling process
 * @addr: of the first byte
 * @len: how many bytes
 * @writable: whether packets may be emptied into it
 * @err: where a negative errno goes
 *
 * Context: process, with no locks held.
 * Return: the range, with one reference, or NULL.
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
 * superp_pages_alloc - allocate memory of the kernel's
 * @len: how many bytes
 * @err: where a negative errno goes
 *
 * Context: process; sleeps.
 * Return: the range, not initialised, with one reference, or NULL.
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
	pages = superp_pages_new(len, 0, GFP_KERNEL);
	if (!pages)
		return NULL;

	while (pages->held < pages->count) {
		order = min(ilog2(pages->count - pages->held), SUPERP_PAGES_ORDER);
		page = NULL;
		if (order)
			page = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY,
					   order);
		if (!page) {
			order = 0;
			page = alloc_page(GFP_KERNEL);
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
 * @pages: the range
 *
 * Context: any.
 */
void superp_pages_get(struct superp_pages *pages)
{
	refcount_inc(&pages->refs);
}

/**
 * superp_pages_put - give up a reference
 * @pages: the range; freed with the last one, if need be a little later, because to unpin sleeps
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
 * superp_pages_len - how long is a range?
 * @pages: the range
 *
 * Return: bytes.
 */
u64 superp_pages_len(const struct superp_pages *pages)
{
	return pages->len;
}

/*
 * The page that a byte is in.
 * @offset: of the byte in the range
 * @in_page: where its offset in the page goes
 */
static struct page *superp_pages_at(const struct superp_pages *pages, u64 offset, u32 *in_page)
{
	offset += pages->first;
	*in_page = offset_in_page(offset);
	return pages->pages[offset >> PAGE_SHIFT];
}

/*
 * The page that a byte is in, and how many bytes from there on, @len at most, are behind each other in the same
 * folio.
 */
static struct page *superp_pages_piece(const struct superp_pages *pages, u64 offset, u32 len,
				       u32 *in_page, u32 *piece)
{
	struct page *page = superp_pages_at(pages, offset, in_page);
	u32 n = PAGE_SIZE - *in_page;

	if (n < len) {
		struct page *const *next = &pages->pages[(pages->first + offset) >> PAGE_SHIFT];
		unsigned long most = DIV_ROUND_UP((u64)*in_page + len, PAGE_SIZE), i;
		struct folio *folio = page_folio(page);

		most = min(most, folio_nr_pages(folio) - folio_page_idx(folio, page));
		for (i = 1; i < most && next[i] == page + i;)
			i++;
		n = (i << PAGE_SHIFT) - *in_page;
	}
	*piece = min(n, len);
	return page;
}

/* Whether @len bytes at @offset are in the range. */
static bool superp_pages_has(const struct superp_pages *pages, u64 offset, u64 len)
{
	return offset <= pages->len && len <= pages->len - offset;
}

/**
 * superp_pages_copy_from_iter - fill in bytes of a system call
 * @pages: the range
 * @offset: of the first byte in it
 * @len: how many bytes
 * @iter: where they come from
 *
 * Context: process; may fault.
 * Return: how many were copied, less than @len after a fault.
 */
size_t superp_pages_copy_from_iter(struct superp_pages *pages, u64 offset, size_t len,
				   struct iov_iter *iter)
{
	size_t done = 0, n, copied;
	struct page *page;
	u32 in_page;

	if (!superp_pages_has(pages, offset, len))
		return 0;
	while (done < len) {
		page = superp_pages_at(pages, offset + done, &in_page);
		n = min(len - done, PAGE_SIZE - in_page);
		copied = copy_page_from_iter(page, in_page, n, iter);
		done += copied;
		if (copied < n)
			break;
	}
	return done;
}

/**
 * superp_pages_most_frags - how many fragments of a packet are so many bytes?
 * @len: bytes, at least 1
 *
 * Return: how many superp_pages_add_frags() adds at most, wherever in their pages they begin.
 */
u32 superp_pages_most_frags(u32 len)
{
	return DIV_ROUND_UP((u64)len - 1, PAGE_SIZE) + 1;
}

/* Whether a packet without fragments has room for so many. */
bool superp_pages_fit(u32 frags)
{
	return frags <= MAX_SKB_FRAGS;
}

/**
 * superp_pages_add_frags - append bytes to a packet, which then shares the pages
 * @pages: the range
 * @offset: of the first byte in it
 * @len: how many bytes
 * @skb: the packet
 *
 * Context: any.
 * Return: 0, -ERANGE outside of the range, -EINVAL if others share the packet's memory, -E2BIG if
 * it would have too many fragments: it is then only good for being freed.
 */
int superp_pages_add_frags(struct superp_pages *pages, u64 offset, u32 len, struct sk_buff *skb)
{
	struct skb_shared_info *info = skb_shinfo(skb);
	u32 in_page, n;

	if (!superp_pages_has(pages, offset, len))
		return -ERANGE;
	if (skb_cloned(skb) || skb_has_frag_list(skb))
		return -EINVAL;
	/* Checksums and the like must not be computed in place while the user may write. */
	if (pages->pinned)
		info->flags |= SKBFL_SHARED_FRAG;

	while (len) {
		struct page *page = superp_pages_piece(pages, offset, len, &in_page, &n);
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

/* Fills in bytes that are in the range. */
static inline void superp_pages_fill(const struct superp_pages *pages, u64 offset, const u8 *from,
				     u32 len)
{
	struct folio *folio;
	struct page *page;
	u32 in_page, n;

	while (len) {
		page = superp_pages_piece(pages, offset, len, &in_page, &n);
		folio = page_folio(page);
		memcpy_to_folio(folio, (folio_page_idx(folio, page) << PAGE_SHIFT) + in_page, from, n);
		offset += n;
		from += n;
		len -= n;
	}
}

/**
 * superp_pages_copy_in - fill in bytes
 * @pages: the range
 * @offset: of the first byte
 * @from: where they come from
 * @len: how many bytes
 *
 * Context: any.
 * Return: 0, or -ERANGE outside of the range.
 */
int superp_pages_copy_in(struct superp_pages *pages, u64 offset, const u8 *from, u32 len)
{
	if (!superp_pages_has(pages, offset, len))
		return -ERANGE;
	superp_pages_fill(pages, offset, from, len);
	return 0;
}

/*
 * Copies @len bytes that are in the packet, from @skb_offset of it to @offset. One walk over its fragments:
 * skb_copy_bits() begins at the first one for each page.
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
		superp_pages_fill(pages, offset, skb->data + skb_offset, n);
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
				superp_pages_fill(pages, offset + copied, from + at, piece);
				kunmap_local(from);
			}
			offset += n;
			skb_offset += n;
			len -= n;
		}
		start += skb_frag_size(frag);
	}
	/* What is left is in packets of its own. */
	while (len) {
		page = superp_pages_at(pages, offset, &in_page);
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
 * superp_pages_copy_from_skb - fill in bytes of a packet
 * @pages: the range
 * @offset: of the first byte in it
 * @skb: the packet
 * @skb_offset: of the first byte in it
 * @len: how many bytes
 *
 * Context: any.
 * Return: 0, -ERANGE outside of the range, -EFAULT outside of the packet.
 */
int superp_pages_copy_from_skb(struct superp_pages *pages, u64 offset, const struct sk_buff *skb,
			       u32 skb_offset, u32 len)
{
	const struct sk_buff *part;
	u32 n, start;
	int err;

	if (!superp_pages_has(pages, offset, len))
		return -ERANGE;
	if (skb_offset > skb->len || len > skb->len - skb_offset)
		return -EFAULT;
	if (skb_offset + len <= skb_headlen(skb)) {
		superp_pages_fill(pages, offset, skb->data + skb_offset, len);
		return 0;
	}
	if (!skb_has_frag_list(skb))
		return superp_pages_copy_part(pages, offset, skb, skb_offset, len);

	/*
	 * A message of many packets: skb_copy_bits() walks from the first one every time, so it is
	 * only given one of them.
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
 * superp_pages_append - copy blocks of a range behind the linear part of a packet
 * @pages: the range
 * @offsets: of the first byte of each block
 * @count: how many blocks
 * @len: bytes of each
 * @pad: zero bytes behind each
 * @skb: the packet
 *
 * Context: any.
 * Return: 0, -ERANGE outside of the range, -EMSGSIZE where superp_skb_extend() has no place for them.
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
		if (!superp_pages_has(pages, offsets[i], len))
			return -ERANGE;
	}
	to = total <= U32_MAX ? superp_skb_extend(skb, total) : NULL;
	if (!to)
		return -EMSGSIZE;
	for (i = 0; i < count; i++) {
		offset = offsets[i];
		for (left = len; left; left -= n) {
			page = superp_pages_at(pages, offset, &in_page);
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
 * superp_pages_atomic - change 64 bits atomically
 * @pages: the range
 * @offset: of the first byte; its address is a multiple of 8
 * @op: what to do
 * @operand: added or put in
 * @compare: the value that SUPERP_PAGES_COMPARE_SWAP replaces
 * @old: where the value from before goes
 *
 * Fully ordered, also with respect to the program that the memory belongs to.
 *
 * Context: any.
 * Return: 0, -ERANGE outside of the range, -EINVAL at an odd address or for an unknown @op.
 */
int superp_pages_atomic(struct superp_pages *pages, u64 offset, u32 op, u64 operand,
			u64 compare, u64 *old)
{
	atomic64_t *value;
	struct page *page;
	u32 in_page;
	int err = 0;
	void *base;

	if (!superp_pages_has(pages, offset, sizeof(*value)))
		return -ERANGE;
	page = superp_pages_at(pages, offset, &in_page);
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
