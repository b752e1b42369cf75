/* SPDX-License-Identifier: GPL-2.0 */
/* A path, as path.c and path_neigh.c share it. */
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
 * struct superp_path - how the packets of a connection leave
 * @net: the namespace, which outlives this
 * @config: as given
 * @local: our address, for IPv6
 * @remote: the peer's address
 * @dev: the device; NULL if the route decides
 * @dev_tracker: of the reference to it
 * @route: the one that was taken last, for UDP, or NULL
 * @priority: of the packets in queueing disciplines and VLAN headers, from the traffic class
 * @hash: tells this flow from others where the stack cannot look into the packet
 * @headroom: bytes that headers took most lately
 * @burst: what superp_path_burst() says of the route that was taken last, with SUPERP_PATH_WHOLE; 0 for none
 * @confirmed: the peer has acknowledged something since the last packet
 * @narrow: a packet had to be cut shorter since it was asked last
 */
struct superp_path {
	struct net *net;
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
	bool narrow;
};

/* The route of a path over UDP, or an error. Called under RCU with bottom halves off. */
const struct superp_route *superp_path_route(struct superp_path *path);

/* The entry of the peer of a path over SUNH, or an error. Called under RCU with bottom halves off. */
static inline struct neighbour *superp_path_neigh(const struct superp_path *path)
{
	if (ipv6_addr_v4mapped(&path->remote))
		return ip_neigh_gw4(path->dev, path->remote.s6_addr32[3]);
	return ip_neigh_gw6(path->dev, &path->remote);
}

/* Whether the peer has acknowledged something since this was asked last. */
static inline bool superp_path_take_confirmed(struct superp_path *path)
{
	if (!READ_ONCE(path->confirmed))
		return false;
	WRITE_ONCE(path->confirmed, false);
	return true;
}

#endif
