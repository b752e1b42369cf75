// SPDX-License-Identifier: GPL-2.0
#include <linux/slab.h>
#include <linux/err.h>

#include "kapi_route.h"

/**
 * superp_route_forget - keep no route any more
 * @kept: where it is kept, or NULL is
 *
 * Context: any.
 */
void superp_route_forget(struct superp_route __rcu **kept)
{
	struct superp_route *route = unrcu_pointer(xchg(kept, NULL));

	if (!route)
		return;
	dst_release(route->dst);
	kfree_rcu(route, rcu);
}

/**
 * superp_route_keep - keep a route for the next packets, instead of the one that was
 * @kept: where, for superp_route_kept()
 * @dst: the route; the reference is given up
 * @cookie: for dst_check()
 * @source: our address
 *
 * Context: any, under RCU.
 * Return: it, or ERR_PTR(-ENOMEM).
 */
const struct superp_route *superp_route_keep(struct superp_route __rcu **kept,
					     struct dst_entry *dst, u32 cookie,
					     const struct in6_addr *source)
{
	struct superp_route *route = kmalloc_obj(*route, GFP_ATOMIC | __GFP_NOWARN);
	struct superp_route __rcu *other;

	if (!route) {
		dst_release(dst);
		return ERR_PTR(-ENOMEM);
	}
	*route = (struct superp_route){ .dst = dst, .source = *source, .cookie = cookie };
	other = xchg(kept, RCU_INITIALIZER(route));
	superp_route_forget(&other);
	return route;
}
