// SPDX-License-Identifier: GPL-2.0
/* A map from ranges of 64-bit numbers, which do not overlap, to 32-bit values; read under RCU. */
#include <linux/maple_tree.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "kapi_range.h"

/* Addresses of remote memory, which have 64 bits, are indices of the tree. */
static_assert(sizeof(unsigned long) == sizeof(u64));

/**
 * superp_range_new - create an empty map
 *
 * Context: process.
 * Return: the map, or NULL without memory.
 */
struct maple_tree *superp_range_new(void)
{
	struct maple_tree *tree = kmalloc(sizeof(*tree), GFP_KERNEL_ACCOUNT);

	if (tree)
		mt_init_flags(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
	return tree;
}

/**
 * superp_range_free - free a map
 * @tree: the map; nobody uses it any more
 *
 * Context: process.
 */
void superp_range_free(struct maple_tree *tree)
{
	mtree_destroy(tree);
	kfree(tree);
}

/**
 * superp_range_find - find the range that contains a number
 * @tree: the map
 * @at: the number
 *
 * Context: any.
 * Return: the value of the range, or 0 if there is none.
 */
u32 superp_range_find(struct maple_tree *tree, u64 at)
{
	void *entry = mtree_load(tree, at);

	return entry ? xa_to_value(entry) : 0;
}

/**
 * superp_range_insert - insert a range
 * @tree: the map
 * @first: first number of the range
 * @last: last number of the range, inclusive
 * @value: value of the range, not 0
 *
 * Context: process.
 * Return: 0; -EEXIST if it overlaps another range; -ENOMEM.
 */
int superp_range_insert(struct maple_tree *tree, u64 first, u64 last, u32 value)
{
	return mtree_insert_range(tree, first, last, xa_mk_value(value), GFP_KERNEL_ACCOUNT);
}

/**
 * superp_range_place - insert a range at the lowest free place
 * @tree: the map
 * @min: lowest number that the range may contain
 * @max: highest number that the range may contain
 * @size: length of the range, at least 1
 * @value: value of the range, not 0
 * @first: returns the first number of the range
 *
 * Context: process.
 * Return: 0; -EBUSY if no place is large enough; -ENOMEM.
 */
int superp_range_place(struct maple_tree *tree, u64 min, u64 max, u64 size, u32 value, u64 *first)
{
	unsigned long at;
	int err;

	/* mtree_alloc_range() returns -EINVAL if @size does not fit between @min and @max. */
	if (size - 1 > max - min)
		return -EBUSY;
	err = mtree_alloc_range(tree, &at, xa_mk_value(value), size, min, max,
				GFP_KERNEL_ACCOUNT);
	if (!err)
		*first = at;
	return err;
}

/**
 * superp_range_erase - remove a range
 * @tree: the map
 * @at: a number in the range
 *
 * Context: process.
 */
void superp_range_erase(struct maple_tree *tree, u64 at)
{
	mtree_erase(tree, at);
}
