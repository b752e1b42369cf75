// SPDX-License-Identifier: GPL-2.0
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/route.h>

#include "kapi_cells.h"
#include "kapi_defer.h"
#include "kapi_net.h"
#include "kapi_path.h"
#include "kapi_rx.h"

/**
 * struct superp_pernet - what the module keeps for each network namespace
 * @state: Rust state of the namespace (PernetOps), a counted reference; NULL during setup and exit
 * @exiting: the same reference during exit
 * @handle: handle of the namespace for Rust, a counted reference
 * @cells: collect received frames
 * @paths: paths of the namespace, which path.c protects
 */
struct superp_pernet {
	void __rcu *state;
	void *exiting;
	void *handle;
	struct superp_cells cells;
	struct list_head paths;
};

static unsigned int superp_net_id;

static struct superp_pernet *superp_pernet(const struct net *net)
{
	return net_generic(net, superp_net_id);
}

/**
 * superp_pernet_state - look up the Rust state of a namespace
 * @net: the network namespace
 *
 * Context: under rcu_read_lock(), which protects the result.
 * Return: the state, or NULL while the namespace is being set up or taken down.
 */
void *superp_pernet_state(const struct net *net)
{
	return rcu_dereference(superp_pernet(net)->state);
}

/**
 * superp_net_cells - look up the cells that collect frames of a namespace
 * @net: the network namespace
 *
 * Context: under rcu_read_lock(), while superp_pernet_state() returns a state.
 * Return: the cells.
 */
struct superp_cells *superp_net_cells(const struct net *net)
{
	return &superp_pernet(net)->cells;
}

/**
 * superp_net_paths - look up the list of the paths of a namespace
 * @net: the network namespace
 *
 * Context: any, while the namespace is not taken down.
 * Return: the list, which path.c protects.
 */
struct list_head *superp_net_paths(const struct net *net)
{
	return &superp_pernet(net)->paths;
}

/**
 * superp_pernet_state_of_cells - look up the Rust state of the namespace that cells belong to
 * @cells: what superp_net_cells() returned
 *
 * Context: under rcu_read_lock(), which protects the result.
 * Return: the state, or NULL while the namespace is being set up or taken down.
 */
void *superp_pernet_state_of_cells(const struct superp_cells *cells)
{
	return rcu_dereference(container_of(cells, struct superp_pernet, cells)->state);
}

/**
 * superp_net_get - take a reference to a namespace
 * @net: the namespace, valid
 *
 * Context: any.
 * Return: whether there is a reference; not if the namespace is being taken down.
 */
bool superp_net_get(struct net *net)
{
	return maybe_get_net(net);
}

/**
 * superp_net_put - drop a reference that superp_net_get() took
 * @net: the namespace
 *
 * Context: any.
 */
void superp_net_put(struct net *net)
{
	put_net(net);
}

static int __net_init superp_net_init(struct net *net)
{
	struct superp_pernet *pernet = superp_pernet(net);
	void *state;
	int err;

	INIT_LIST_HEAD(&pernet->paths);
	err = superp_cells_init(&pernet->cells, superp_rx_deliver);
	if (err)
		goto fail;
	err = -ENOMEM;
	state = superp_rust_net_init(net, &pernet->handle, &err);
	if (!state)
		goto fail;
	rcu_assign_pointer(pernet->state, state);
	return 0;

fail:
	superp_cells_stop(&pernet->cells);
	synchronize_net();
	superp_cells_free(&pernet->cells);
	return err;
}

static void __net_exit superp_net_exit_batch(struct list_head *nets)
{
	struct superp_pernet *pernet;
	struct net *net;

	list_for_each_entry(net, nets, exit_list) {
		pernet = superp_pernet(net);
		pernet->exiting = rcu_dereference_protected(pernet->state, true);
		if (pernet->exiting)
			superp_rust_net_exit(pernet->exiting, pernet->handle);
		RCU_INIT_POINTER(pernet->state, NULL);
		superp_paths_detach(&pernet->paths);
	}
	/* After this no reader of the handle, and no path, has the namespace. */
	synchronize_rcu();
	list_for_each_entry(net, nets, exit_list) {
		superp_cells_stop(&superp_pernet(net)->cells);
		superp_paths_release(&superp_pernet(net)->paths);
		superp_udp_ports_stop(net);
	}
	synchronize_net();
	/*
	 * Ports may hold routes until deferred work drops them. The dst_ops of a route belong to the
	 * namespace, so wait for that work.
	 */
	superp_defer_flush();
	list_for_each_entry(net, nets, exit_list) {
		pernet = superp_pernet(net);
		superp_cells_free(&pernet->cells);
		if (pernet->exiting)
			superp_rust_net_free(pernet->exiting, pernet->handle);
	}
}

static struct pernet_operations superp_net_ops = {
	.init = superp_net_init,
	.exit_batch = superp_net_exit_batch,
	.id = &superp_net_id,
	.size = sizeof(struct superp_pernet),
};

static int superp_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	void *state;
	u32 kind;

	switch (event) {
	case NETDEV_UP:
		kind = SUPERP_DEV_UP;
		break;
	case NETDEV_GOING_DOWN:
		kind = SUPERP_DEV_DOWN;
		break;
	case NETDEV_UNREGISTER:
		kind = SUPERP_DEV_UNREGISTER;
		break;
	case NETDEV_CHANGEMTU:
		kind = SUPERP_DEV_MTU;
		break;
	case NETDEV_CHANGEADDR:
		kind = SUPERP_DEV_ADDR;
		break;
	case NETDEV_CHANGE:
		kind = SUPERP_DEV_CARRIER;
		break;
	default:
		return NOTIFY_DONE;
	}
	/* RTNL protects the state: it stays while its namespace has devices. */
	state = rcu_dereference_rtnl(superp_pernet(dev_net(dev))->state);
	if (state)
		superp_rust_device_event(state, dev->ifindex, kind);
	return NOTIFY_DONE;
}

static struct notifier_block superp_netdev_notifier = {
	.notifier_call = superp_netdev_event,
};

/**
 * superp_net_register - register the pernet operations and the netdevice notifier
 *
 * Context: process; before anything else of the module is registered.
 * Return: 0 or a negative errno.
 */
int superp_net_register(void)
{
	int err;

	err = superp_defer_init();
	if (err)
		return err;
	err = register_pernet_subsys(&superp_net_ops);
	if (err)
		goto fail_pernet;
	err = register_netdevice_notifier(&superp_netdev_notifier);
	if (err)
		goto fail_notifier;
	return 0;

fail_notifier:
	unregister_pernet_subsys(&superp_net_ops);
fail_pernet:
	superp_defer_exit();
	return err;
}

/**
 * superp_net_unregister - undo superp_net_register()
 *
 * Each namespace first sees NETDEV_UNREGISTER for all of its devices, then its exit.
 *
 * Context: process; after everything else of the module has been unregistered.
 */
void superp_net_unregister(void)
{
	unregister_netdevice_notifier(&superp_netdev_notifier);
	unregister_pernet_subsys(&superp_net_ops);
	superp_defer_exit();
}

/**
 * superp_device_info - query the state of a network device
 * @net: network namespace of the device
 * @ifindex: index of the device
 * @info: returns the state
 *
 * Context: any.
 * Return: whether there is such a device.
 */
bool superp_device_info(struct net *net, u32 ifindex, struct superp_device_info *info)
{
	struct net_device *dev;

	guard(rcu)();
	dev = dev_get_by_index_rcu(net, ifindex);
	if (!dev)
		return false;
	info->mtu = READ_ONCE(dev->mtu);
	info->up = netif_running(dev) && netif_carrier_ok(dev);
	info->enslaved = netif_is_bridge_port(dev) || netif_is_lag_port(dev) ||
			 netif_is_ovs_port(dev);
	info->ip_only = dev->rtnl_link_ops && !strcmp(dev->rtnl_link_ops->kind, "ipvlan");
	info->loopback = dev->flags & IFF_LOOPBACK;
	return true;
}

static const struct in6_addr *superp_in6(const u8 addr[16])
{
	return (const struct in6_addr *)addr;
}

/**
 * superp_is_local_address - whether an address belongs to a namespace
 * @net: the network namespace
 * @addr: address, v4-mapped or IPv6
 *
 * Context: any.
 * Return: whether it is one of the namespace's own unicast addresses.
 */
bool superp_is_local_address(struct net *net, const u8 addr[16])
{
	const struct in6_addr *in6 = superp_in6(addr);

	if (ipv6_addr_v4mapped(in6))
		return inet_addr_type(net, in6->s6_addr32[3]) == RTN_LOCAL;
	return ipv6_mod_enabled() && ipv6_chk_addr(net, in6, NULL, 0);
}

/**
 * superp_local_address - find the source address of packets to a destination
 * @net: the network namespace
 * @ifindex: index of the output device, or 0 for that of the route
 * @remote: destination address, v4-mapped or IPv6
 * @local: returns the source address, in the same format
 *
 * Context: process.
 * Return: whether there is a route with a source address.
 */
bool superp_local_address(struct net *net, u32 ifindex, const u8 remote[16], u8 local[16])
{
	const struct in6_addr *in6 = superp_in6(remote);
	struct dst_entry *dst;
	struct rtable *rt;

	if (ipv6_addr_v4mapped(in6)) {
		struct flowi4 fl4 = {
			.flowi4_oif = ifindex,
			.flowi4_proto = IPPROTO_UDP,
			.daddr = in6->s6_addr32[3],
		};

		rt = ip_route_output_key(net, &fl4);
		if (IS_ERR(rt))
			return false;
		ip_rt_put(rt);
		ipv6_addr_set_v4mapped(fl4.saddr, (struct in6_addr *)local);
		return fl4.saddr;
	}
	if (ipv6_mod_enabled()) {
		struct flowi6 fl6 = {
			.flowi6_oif = ifindex,
			.flowi6_proto = IPPROTO_UDP,
			.daddr = *in6,
		};

		dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
		if (IS_ERR(dst))
			return false;
		dst_release(dst);
		memcpy(local, &fl6.saddr, sizeof(fl6.saddr));
		return !ipv6_addr_any(&fl6.saddr);
	}
	return false;
}
