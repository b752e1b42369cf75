/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_ROUTE_H
#define _SUPERP_KAPI_ROUTE_H

#include <linux/rcupdate.h>
#include <net/dst.h>
#include <net/ipv6.h>

/**
 * struct superp_route - cached output route
 * @dst: the route, a counted reference
 * @source: local address, v4-mapped or IPv6
 * @cookie: for dst_check()
 * @rcu: for kfree_rcu()
 */
struct superp_route {
	struct dst_entry *dst;
	struct in6_addr source;
	u32 cookie;
	struct rcu_head rcu;
};

/*
 * The cached route, if it is still valid, or NULL. Called under RCU, which protects the result.
 * Unlike with a dst_cache, packets do not count references to the route: connections to one peer
 * share it, and would contend for the counter.
 */
static inline const struct superp_route *
superp_route_cached(struct superp_route __rcu *const *cache)
{
	const struct superp_route *route = rcu_dereference(*cache);

	return route && dst_check(route->dst, route->cookie) ? route : NULL;
}

const struct superp_route *superp_route_cache_set(struct superp_route __rcu **cache,
						  struct dst_entry *dst, u32 cookie,
						  const struct in6_addr *source);
void superp_route_cache_clear(struct superp_route __rcu **cache);

#endif /* _SUPERP_KAPI_ROUTE_H */
