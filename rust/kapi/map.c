// SPDX-License-Identifier: GPL-2.0
#include <linux/xarray.h>

#include "kapi_map.h"

/**
 * superp_map_init - make an empty table
 * @xa: memory for it
 */
void superp_map_init(struct xarray *xa)
{
	xa_init(xa);
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
	return xa_insert(xa, key, entry, GFP_KERNEL);
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
	*old = xa_store(xa, key, entry, GFP_KERNEL);
	return xa_err(*old);
}
