/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_LOCK_H
#define _SUPERP_KAPI_LOCK_H

#include <linux/types.h>

struct spinlock;

void superp_spin_lock_bh(struct spinlock *lock);
bool superp_spin_trylock_bh(struct spinlock *lock);
void superp_spin_unlock_bh(struct spinlock *lock);

#endif /* _SUPERP_KAPI_LOCK_H */
