/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_MAP_H
#define _SUPERP_KAPI_MAP_H

#include <linux/types.h>

struct xarray;

u32 superp_map_hash(u64 first, u64 second);
void superp_map_init(struct xarray *xa);
int superp_map_insert(struct xarray *xa, u32 key, void *entry);
int superp_map_store(struct xarray *xa, u32 key, void *entry, void **old);
void *superp_map_erase(struct xarray *xa, u32 key);
void superp_map_drop_later(void *entry, void (*drop)(void *entry));

#endif /* _SUPERP_KAPI_MAP_H */
