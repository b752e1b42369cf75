// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that come in during one round of the network stack, on one processor, go on together: one lock and one
 * acknowledgment for all. A NAPI instance runs when the round is over.
 */
#include <linux/local_lock.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>

#include "kapi_cells.h"

/* So many packets do not wait for more to go with them. */
#define SUPERP_CELLS_BATCH	64

/**
 * struct superp_cell - packets that came in on a processor
 * @lock: held for @packets
 * @packets: those that go on together, in their order
 * @napi: hands them on
 * @cells: of which this is one
 */
struct superp_cell {
	local_lock_t lock;
	struct sk_buff_head packets;
	struct napi_struct napi;
	struct superp_cells *cells;
};

static void superp_cells_deliver(struct superp_cells *cells, struct sk_buff_head *packets)
{
	cells->deliver(cells, packets);
	__skb_queue_purge(packets);
}

static int superp_cells_poll(struct napi_struct *napi, int budget)
{
	struct superp_cell *cell = container_of(napi, struct superp_cell, napi);
	struct superp_cells *cells = cell->cells;
	struct sk_buff_head packets;
	int work;

	__skb_queue_head_init(&packets);
	local_lock_nested_bh(&cells->cell->lock);
	skb_queue_splice_init(&cell->packets, &packets);
	local_unlock_nested_bh(&cells->cell->lock);
	work = min_t(int, skb_queue_len(&packets), budget - 1);
	rcu_read_lock();
	superp_cells_deliver(cells, &packets);
	rcu_read_unlock();
	napi_complete_done(napi, work);
	return work;
}

/**
 * superp_cells_init - prepare
 * @cells: zeroed
 * @deliver: see struct superp_cells
 *
 * Context: process.
 * Return: 0 or -ENOMEM; either way superp_cells_stop() and superp_cells_free() are to be called.
 */
int superp_cells_init(struct superp_cells *cells,
		      void (*deliver)(struct superp_cells *cells, struct sk_buff_head *packets))
{
	struct superp_cell *cell;
	int cpu;

	cells->deliver = deliver;
	cells->dummy = alloc_netdev_dummy(0);
	if (!cells->dummy)
		return -ENOMEM;
	cells->cell = alloc_percpu(struct superp_cell);
	if (!cells->cell)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		cell = per_cpu_ptr(cells->cell, cpu);
		cell->cells = cells;
		local_lock_init(&cell->lock);
		__skb_queue_head_init(&cell->packets);
		set_bit(NAPI_STATE_NO_BUSY_POLL, &cell->napi.state);
		netif_napi_add(cells->dummy, &cell->napi, superp_cells_poll);
		napi_enable(&cell->napi);
	}
	return 0;
}

/**
 * superp_cells_stop - forget what waits
 * @cells: to which nothing is added any more
 *
 * Context: process. After it synchronize_net(), before superp_cells_free().
 */
void superp_cells_stop(struct superp_cells *cells)
{
	struct superp_cell *cell;
	int cpu;

	if (!cells->cell)
		return;
	for_each_possible_cpu(cpu) {
		cell = per_cpu_ptr(cells->cell, cpu);
		napi_disable(&cell->napi);
		__netif_napi_del(&cell->napi);
		__skb_queue_purge(&cell->packets);
	}
}

/**
 * superp_cells_free - the reverse of superp_cells_init()
 * @cells: that were stopped
 *
 * Context: process.
 */
void superp_cells_free(struct superp_cells *cells)
{
	free_percpu(cells->cell);
	if (cells->dummy)
		free_netdev(cells->dummy);
}

/**
 * superp_cells_queue - have packets go on with others of the same round
 * @cells: where
 * @list: the packets, given up
 * @more: it is known that others follow
 *
 * Where none are known to follow they go on at once, unless they would overtake others: a round of NAPI costs more than
 * what there is to gain.
 *
 * Context: softirq, under RCU.
 */
void superp_cells_queue(struct superp_cells *cells, struct sk_buff *list, bool more)
{
	struct superp_cell *cell;
	struct sk_buff *skb, *next;
	struct sk_buff_head ready, *to;
	bool first;

	__skb_queue_head_init(&ready);
	local_lock_nested_bh(&cells->cell->lock);
	cell = this_cpu_ptr(cells->cell);
	first = skb_queue_empty(&cell->packets);
	to = first && !more ? &ready : &cell->packets;
	if (first && more)
		napi_schedule(&cell->napi);
	skb_list_walk_safe(list, skb, next)
		__skb_queue_tail(to, skb);
	if (skb_queue_len(&cell->packets) >= SUPERP_CELLS_BATCH)
		skb_queue_splice_init(&cell->packets, &ready);
	local_unlock_nested_bh(&cells->cell->lock);
	if (!skb_queue_empty(&ready))
		superp_cells_deliver(cells, &ready);
}
