// SPDX-License-Identifier: GPL-2.0
#include <linux/xarray.h>

#include "kapi_map.h"

/**
 * superp_map_init - make an empty table
 * @xa: memory for it
 */
void superp_map_init(struct xarray *xa)
{
	/* Tables also end in softirq, with the last packet that holds their owner. */
	xa_init_flags(xa, XA_FLAGS_LOCK_BH);
}

/**
 * superp_map_insert - put an entry in
 * @xa: the table
 * @key: under which key
 * @entry: a pointer whose two low bits are clear
 *
 * Context: process.
 * Return: 0, -EBUSY if there is one, -ENOMEM.
 */
int superp_map_insert(struct xarray *xa, u32 key, void *entry)
{
	return xa_insert_bh(xa, key, entry, GFP_KERNEL);
}

/**
 * superp_map_store - put an entry in, in place of what is there
 * @xa: the table
 * @key: under which key
 * @entry: a pointer whose two low bits are clear
 * @old: where what was there goes, or NULL
 *
 * Context: process.
 * Return: 0, or -ENOMEM, which only happens when nothing was there.
 */
int superp_map_store(struct xarray *xa, u32 key, void *entry, void **old)
{
	*old = xa_store_bh(xa, key, entry, GFP_KERNEL);
	return xa_err(*old);
}

/**
 * superp_map_erase - take an entry out
 * @xa: the table
 * @key: under which key
 *
 * Context: process.
 * Return: the entry, or NULL.
 */
void *superp_map_erase(struct xarray *xa, u32 key)
{
	return xa_erase_bh(xa, key);
}
