// SPDX-License-Identifier: GPL-2.0
#include <linux/once.h>
#include <linux/rcupdate.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "kapi_defer.h"
#include "kapi_map.h"

/**
 * superp_map_hash - keyed hash of two numbers
 * @first: the first number
 * @second: the second number
 *
 * The key is random, and the same until the module is unloaded.
 *
 * Context: any.
 * Return: the hash.
 */
u32 superp_map_hash(u64 first, u64 second)
{
	static siphash_key_t key __read_mostly;

	get_random_once(&key, sizeof(key));
	return (u32)siphash_2u64(first, second, &key);
}

/**
 * superp_map_init - initialise an empty table
 * @xa: memory for the table
 *
 * Context: any.
 */
void superp_map_init(struct xarray *xa)
{
	/* A softirq may drop the last reference to the owner of a table, and so empty the table. */
	xa_init_flags(xa, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
}

/**
 * superp_map_insert - insert an entry
 * @xa: the table
 * @key: key of the entry
 * @entry: a pointer whose two low bits are clear
 *
 * Context: process; may sleep.
 * Return: 0, -EBUSY if the key has an entry, or -ENOMEM.
 */
int superp_map_insert(struct xarray *xa, u32 key, void *entry)
{
	return xa_insert_bh(xa, key, entry, GFP_KERNEL);
}

/**
 * superp_map_store - insert or replace an entry
 * @xa: the table
 * @key: key of the entry
 * @entry: a pointer whose two low bits are clear
 * @old: returns the entry that was replaced, or NULL; undefined after an error
 *
 * Context: process; may sleep.
 * Return: 0, or -ENOMEM, which is possible only if the key had no entry.
 */
int superp_map_store(struct xarray *xa, u32 key, void *entry, void **old)
{
	*old = xa_store_bh(xa, key, entry, GFP_KERNEL);
	return xa_err(*old);
}

/**
 * superp_map_erase - remove an entry
 * @xa: the table
 * @key: key of the entry
 *
 * Context: any up to softirq.
 * Return: the entry, or NULL.
 */
void *superp_map_erase(struct xarray *xa, u32 key)
{
	return xa_erase_bh(xa, key);
}

/* A removed entry that waits for the end of a grace period. */
struct superp_map_erased {
	struct rcu_work	work;
	void		*entry;
	void		(*drop)(void *entry);
};

static void superp_map_work(struct work_struct *work)
{
	struct superp_map_erased *erased =
		container_of(to_rcu_work(work), struct superp_map_erased, work);

	erased->drop(erased->entry);
	kfree(erased);
}

/**
 * superp_map_drop_later - drop a removed entry after a grace period
 * @entry: the entry
 * @drop: called with @entry in process context
 *
 * Context: process. Waits for the grace period itself only if memory is short.
 */
void superp_map_drop_later(void *entry, void (*drop)(void *entry))
{
	struct superp_map_erased *erased = kmalloc_obj(*erased, GFP_KERNEL);

	if (!erased) {
		synchronize_rcu();
		drop(entry);
		return;
	}
	erased->entry = entry;
	erased->drop = drop;
	INIT_RCU_WORK(&erased->work, superp_map_work);
	queue_rcu_work(superp_wq, &erased->work);
}
