/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_ROUTE_H
#define _SUPERP_KAPI_ROUTE_H

#include <linux/rcupdate.h>
#include <net/dst.h>
#include <net/ipv6.h>

/**
 * struct superp_route - a route that was found for one packet, and the next ones take
 * @dst: the route
 * @source: our address, v4-mapped or IPv6
 * @cookie: for dst_check()
 * @rcu: frees it
 */
struct superp_route {
	struct dst_entry *dst;
	struct in6_addr source;
	u32 cookie;
	struct rcu_head rcu;
};

/*
 * The route that was found last, if it is valid still; else NULL. Under RCU, like what it leads to: unlike that of a
 * dst_cache, no packet counts its references, which connections to one peer have in common.
 */
static inline const struct superp_route *superp_route_kept(struct superp_route __rcu *const *kept)
{
	const struct superp_route *route = rcu_dereference(*kept);

	return route && dst_check(route->dst, route->cookie) ? route : NULL;
}

const struct superp_route *superp_route_keep(struct superp_route __rcu **kept,
					     struct dst_entry *dst, u32 cookie,
					     const struct in6_addr *source);
void superp_route_forget(struct superp_route __rcu **kept);

#endif /* _SUPERP_KAPI_ROUTE_H */
