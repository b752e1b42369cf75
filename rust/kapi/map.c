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
 * superp_map_hash - a keyed hash of two numbers
 * @first: the one
 * @second: the other
 *
 * Context: any.
 * Return: the hash, the same for as long as the module is loaded.
 */
u32 superp_map_hash(u64 first, u64 second)
{
	static siphash_key_t key __read_mostly;

	get_random_once(&key, sizeof(key));
	return (u32)siphash_2u64(first, second, &key);
}

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

/* An entry that was taken out, until nobody has it from the table any more. */
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
 * superp_map_drop_later - drop an entry that was taken out, after a grace period
 * @entry: the entry
 * @drop: drops it, in process context
 *
 * Context: process. Sleeps for the grace period only if there is no memory.
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
