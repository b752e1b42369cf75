/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions that path.c and path_neigh.c share. */
#ifndef _SUPERP_PATH_H
#define _SUPERP_PATH_H

#include <linux/netdevice.h>
#include <net/arp.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <net/route.h>

#include "kapi_path.h"
#include "kapi_route.h"

/**
 * struct superp_path - route, encapsulation and neighbour of outgoing packets
 * @net: the network namespace; NULL once it is taken down; read under RCU
 * @list: entry in the list of paths of @net
 * @config: configuration
 * @local: source address as in @config; zero leaves the choice to the route
 * @remote: destination address as in @config
 * @dev: the device, a counted reference; NULL if the route decides
 * @dev_tracker: tracks the reference to @dev
 * @route: cached route of a path over UDP, or NULL
 * @priority: skb->priority, from the traffic class
 * @hash: flow hash, for packets that the stack cannot dissect
 * @headroom: bytes of headers, link layer included, of the route that was used last
 * @burst: what superp_path_burst() returns for the route that was used last, with
 *         SUPERP_PATH_NATIVE_BURST; 0 if there was none
 * @confirmed: whether the peer has acknowledged something since the last packet
 * @fragmented: whether a packet was sent in fragments since superp_path_was_narrow() was called
 */
struct superp_path {
	struct net *net;
	struct list_head list;
	struct superp_path_config config;
	struct in6_addr local;
	struct in6_addr remote;
	struct net_device *dev;
	netdevice_tracker dev_tracker;
	struct superp_route __rcu *route;
	u32 priority;
	u32 hash;
	u32 headroom;
	u32 burst;
	bool confirmed;
	bool fragmented;
};

/* The route of a path over UDP, or an ERR_PTR. Called under RCU, bottom halves off. */
const struct superp_route *superp_path_route(struct superp_path *path);

/* The neighbour of a path of frames, or an ERR_PTR. Called under RCU, bottom halves off. */
static inline struct neighbour *superp_path_neigh(const struct superp_path *path)
{
	if (ipv6_addr_v4mapped(&path->remote))
		return ip_neigh_gw4(path->dev, path->remote.s6_addr32[3]);
	return ip_neigh_gw6(path->dev, &path->remote);
}

/* Whether the peer has acknowledged something since the last call. */
static inline bool superp_path_take_confirmed(struct superp_path *path)
{
	if (!READ_ONCE(path->confirmed))
		return false;
	WRITE_ONCE(path->confirmed, false);
	return true;
}

#endif
