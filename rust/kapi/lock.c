// SPDX-License-Identifier: GPL-2.0
#include <linux/spinlock.h>

#include "kapi_lock.h"

/**
 * superp_spin_lock_bh - take a lock with bottom halves off
 * @lock: an initialised spinlock
 *
 * Context: process or softirq.
 */
void superp_spin_lock_bh(struct spinlock *lock) __acquires(lock)
{
	spin_lock_bh(lock);
}

/**
 * superp_spin_trylock_bh - take a lock if that needs no waiting
 * @lock: an initialised spinlock
 *
 * Context: process or softirq.
 * Return: whether the lock was taken; if so, bottom halves are off.
 */
bool superp_spin_trylock_bh(struct spinlock *lock)
{
	return spin_trylock_bh(lock);
}

/**
 * superp_spin_unlock_bh - give back a lock and turn bottom halves on
 * @lock: a lock that the caller owns
 *
 * Context: the one that took it.
 */
void superp_spin_unlock_bh(struct spinlock *lock) __releases(lock)
{
	spin_unlock_bh(lock);
}
