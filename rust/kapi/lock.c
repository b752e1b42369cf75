// SPDX-License-Identifier: GPL-2.0
#include <linux/spinlock.h>

#include "kapi_lock.h"

/**
 * superp_spin_lock_bh - disable bottom halves and take a spinlock
 * @lock: an initialised spinlock
 *
 * Context: process or softirq.
 */
void superp_spin_lock_bh(struct spinlock *lock) __acquires(lock)
{
	spin_lock_bh(lock);
}

/**
 * superp_spin_trylock_bh - take a spinlock if it is free
 * @lock: an initialised spinlock
 *
 * Context: process or softirq.
 * Return: whether the lock was taken; bottom halves are then disabled.
 */
bool superp_spin_trylock_bh(struct spinlock *lock)
{
	return spin_trylock_bh(lock);
}

/**
 * superp_spin_unlock_bh - release a spinlock and enable bottom halves
 * @lock: a spinlock that the caller holds
 *
 * Context: that in which the lock was taken.
 */
void superp_spin_unlock_bh(struct spinlock *lock) __releases(lock)
{
	spin_unlock_bh(lock);
}
