// SPDX-License-Identifier: GPL-2.0
/*
 * Collects the packets that one CPU receives in one softirq round, and delivers them together, so
 * that the receiver takes one lock and sends one acknowledgment for all. A NAPI instance of each
 * CPU, scheduled behind that of the driver, delivers them.
 */
#include <linux/local_lock.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>

#include "kapi_cells.h"

/* With this many packets a cell is delivered without waiting for more. */
#define SUPERP_CELLS_BATCH	64

/**
 * struct superp_cell - packets that one CPU has received
 * @lock: protects @packets; innermost, nothing is taken inside
 * @packets: packets to deliver, in the order of arrival
 * @napi: delivers @packets
 * @cells: the set that this cell belongs to
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
 * superp_cells_init - set up a cell for each CPU
 * @cells: zeroed memory
 * @deliver: see struct superp_cells
 *
 * Context: process.
 * Return: 0 or -ENOMEM. In both cases the caller has to call superp_cells_stop() and
 * superp_cells_free().
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
 * superp_cells_stop - delete the NAPI instances and free the packets that wait
 * @cells: the cells; nobody queues to them any more
 *
 * The caller then calls synchronize_net() and superp_cells_free().
 *
 * Context: process.
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
 * superp_cells_free - free the cells
 * @cells: the cells, after superp_cells_stop() and synchronize_net()
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
 * superp_cells_queue - deliver packets, together with others of the same softirq round
 * @cells: the cells
 * @list: list of packets, consumed
 * @more: whether more packets are known to follow
 *
 * If no packet waits and none is known to follow, @list is delivered at once, because a NAPI round
 * costs more than it saves. If packets wait, @list queues behind them, so that it does not overtake
 * them.
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
