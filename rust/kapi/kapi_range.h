/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_RANGE_H
#define _SUPERP_KAPI_RANGE_H

#include <linux/types.h>

struct maple_tree;

struct maple_tree *superp_range_new(void);
void superp_range_free(struct maple_tree *tree);
u32 superp_range_find(struct maple_tree *tree, u64 at);
int superp_range_insert(struct maple_tree *tree, u64 first, u64 last, u32 value);
int superp_range_place(struct maple_tree *tree, u64 min, u64 max, u64 size, u32 value, u64 *first);
void superp_range_erase(struct maple_tree *tree, u64 at);

#endif /* _SUPERP_KAPI_RANGE_H */
