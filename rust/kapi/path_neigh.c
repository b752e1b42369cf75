// SPDX-License-Identifier: GPL-2.0
/* Whose Ethernet address the packets of a path get, and whether it is still the right one. */
#include <net/neighbour.h>
#include <net/route.h>

#include "path.h"

/*
 * The entry of who takes the path's packets, with a reference; NULL where there is none. Called under RCU, with
 * bottom halves off for the table of neighbours.
 */
static struct neighbour *superp_path_neigh_get(struct superp_path *path)
{
	const struct in6_addr *remote = &path->remote;
	const struct superp_route *route;
	struct neighbour *neigh;

	if (path->config.encap != SUPERP_PATH_SUNH) {
		route = superp_path_route(path);
		if (IS_ERR(route))
			return NULL;
		return dst_neigh_lookup(route->dst, ipv6_addr_v4mapped(remote) ?
							    (const void *)&remote->s6_addr32[3] :
							    remote);
	}
	if (path->config.has_mac || !netif_running(path->dev))
		return NULL;
	neigh = superp_path_neigh(path);
	if (IS_ERR(neigh) || !refcount_inc_not_zero(&neigh->refcnt))
		return NULL;
	return neigh;
}

/**
 * superp_path_resolve - find the peer's Ethernet address before the first packet
 * @path: the path
 *
 * A neighbour that is being resolved queues only a few jumbo frames; a first window would be lost.
 *
 * Context: process or softirq; does not wait for the answer.
 */
void superp_path_resolve(struct superp_path *path)
{
	struct neighbour *neigh;

	local_bh_disable();
	rcu_read_lock();
	neigh = superp_path_neigh_get(path);
	if (neigh) {
		neigh_event_send(neigh, NULL);
		neigh_release(neigh);
	}
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * superp_path_suspect - the peer has been silent for several retransmissions
 * @path: the path
 *
 * It may have another Ethernet address now. An entry would be believed for half a minute, longer than
 * a connection lives without an answer. It is probed at once, and resolved again if nobody answers.
 * A permanent entry stays.
 *
 * Context: process or softirq; does not wait for the answer.
 */
void superp_path_suspect(struct superp_path *path)
{
	struct neighbour *neigh;

	local_bh_disable();
	rcu_read_lock();
	neigh = superp_path_neigh_get(path);
	if (neigh) {
		if (READ_ONCE(neigh->nud_state) & (NUD_REACHABLE | NUD_STALE | NUD_DELAY))
			neigh_update(neigh, NULL, NUD_PROBE, 0, 0);
		neigh_release(neigh);
	}
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * superp_path_confirm - the peer has acknowledged something
 * @path: the path
 *
 * The next packet tells the neighbour's entry, which then needs no probes: on a path that loses
 * packets three of them may be lost, and with them the neighbour.
 *
 * Context: any.
 */
void superp_path_confirm(struct superp_path *path)
{
	WRITE_ONCE(path->confirmed, true);
}
