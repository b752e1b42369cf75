// SPDX-License-Identifier: GPL-2.0
/* Neighbour entries of paths: resolution, probes and confirmation. */
#include <net/neighbour.h>
#include <net/route.h>

#include "path.h"

/*
 * The neighbour that the path's packets go to, with a reference, or NULL. Called under RCU, bottom
 * halves off, which the neighbour table needs.
 */
static struct neighbour *superp_path_neigh_get(struct superp_path *path)
{
	const struct in6_addr *remote = &path->remote;
	const struct superp_route *route;
	struct neighbour *neigh;

	if (path->config.encap != SUPERP_PATH_ETHER) {
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
 * superp_path_resolve - resolve the neighbour before the first packet
 * @path: the path
 *
 * The queue of a neighbour that is being resolved holds only a few jumbo frames, so most of a first
 * window would be lost.
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
 * superp_path_suspect - probe the neighbour of a peer that does not answer
 * @path: the path
 *
 * Called after several retransmissions. The peer may have another Ethernet address now. The stack
 * would trust the entry for half a minute, which is longer than a connection lives without an
 * answer. This function starts a probe at once; if nobody answers it, the entry is resolved again.
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
 * superp_path_confirm - note that the peer has acknowledged something
 * @path: the path
 *
 * The next packet confirms the neighbour, which then needs no probe. On a path that loses packets
 * three probes in a row may be lost, and the neighbour with them.
 *
 * Context: any.
 */
void superp_path_confirm(struct superp_path *path)
{
	WRITE_ONCE(path->confirmed, true);
}
