// SPDX-License-Identifier: GPL-2.0
/* Ranges that do not overlap, each with a number; read under RCU. */
#include <linux/maple_tree.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "kapi_range.h"

/* Addresses of remote memory are indices of the tree. */
static_assert(sizeof(unsigned long) == sizeof(u64));

/**
 * superp_range_new - make an empty set
 *
 * Context: process.
 * Return: the set, or NULL without memory.
 */
struct maple_tree *superp_range_new(void)
{
	struct maple_tree *tree = kmalloc(sizeof(*tree), GFP_KERNEL);

	if (tree)
		mt_init_flags(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
	return tree;
}

/**
 * superp_range_free - free a set that nobody uses any more
 * @tree: the set
 *
 * Context: process.
 */
void superp_range_free(struct maple_tree *tree)
{
	mtree_destroy(tree);
	kfree(tree);
}

/**
 * superp_range_find - which range is this in?
 * @tree: the set
 * @at: the place
 *
 * Context: any.
 * Return: the range's number, or 0 for none.
 */
u32 superp_range_find(struct maple_tree *tree, u64 at)
{
	void *entry = mtree_load(tree, at);

	return entry ? xa_to_value(entry) : 0;
}

/**
 * superp_range_insert - put a range in
 * @tree: the set
 * @first: where it begins
 * @last: where it ends, inclusive
 * @value: its number, not 0
 *
 * Context: process.
 * Return: 0, -EEXIST if it overlaps another, -ENOMEM.
 */
int superp_range_insert(struct maple_tree *tree, u64 first, u64 last, u32 value)
{
	return mtree_insert_range(tree, first, last, xa_mk_value(value), GFP_KERNEL);
}

/**
 * superp_range_place - put a range in at the first place that is free
 * @tree: the set
 * @min: first place it may take
 * @max: last place it may take
 * @size: how long it is, at least 1
 * @value: its number, not 0
 * @first: out, where it begins
 *
 * Context: process.
 * Return: 0, -EBUSY if there is no room, -ENOMEM.
 */
int superp_range_place(struct maple_tree *tree, u64 min, u64 max, u64 size, u32 value, u64 *first)
{
	unsigned long at;
	int err;

	/* The tree takes a range that cannot be for a mistake of its caller. */
	if (size - 1 > max - min)
		return -EBUSY;
	err = mtree_alloc_range(tree, &at, xa_mk_value(value), size, min, max, GFP_KERNEL);
	if (!err)
		*first = at;
	return err;
}

/**
 * superp_range_erase - take a range out
 * @tree: the set
 * @at: a place in it
 *
 * Context: process.
 */
void superp_range_erase(struct maple_tree *tree, u64 at)
{
	mtree_erase(tree, at);
}
