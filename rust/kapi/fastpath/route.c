// SPDX-License-Identifier: GPL-2.0
#include <linux/slab.h>
#include <linux/err.h>

#include "kapi_route.h"

/**
 * superp_route_cache_clear - remove and free the cached route
 * @cache: the cache, which may be empty
 *
 * Context: any.
 */
void superp_route_cache_clear(struct superp_route __rcu **cache)
{
	struct superp_route *route = unrcu_pointer(xchg(cache, NULL));

	if (!route)
		return;
	dst_release(route->dst);
	kfree_rcu(route, rcu);
}

/**
 * superp_route_cache_set - cache a route, and free the one that was cached
 * @cache: the cache
 * @dst: the route; consumes a reference
 * @cookie: for dst_check()
 * @source: local address of the route
 *
 * Context: any, under RCU, which protects the result.
 * Return: the cached route, or ERR_PTR(-ENOMEM).
 */
const struct superp_route *superp_route_cache_set(struct superp_route __rcu **cache,
						  struct dst_entry *dst, u32 cookie,
						  const struct in6_addr *source)
{
	struct superp_route *route = kmalloc_obj(*route, GFP_ATOMIC | __GFP_NOWARN);
	struct superp_route __rcu *old;

	if (!route) {
		dst_release(dst);
		return ERR_PTR(-ENOMEM);
	}
	*route = (struct superp_route){ .dst = dst, .source = *source, .cookie = cookie };
	old = xchg(cache, RCU_INITIALIZER(route));
	superp_route_cache_clear(&old);
	return route;
}
