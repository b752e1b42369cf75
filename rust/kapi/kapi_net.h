/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_NET_H
#define _SUPERP_KAPI_NET_H

#include <linux/types.h>

struct list_head;
struct net;
struct superp_cells;

/* Events of a network device. */
#define SUPERP_DEV_UP		1
#define SUPERP_DEV_DOWN		2
#define SUPERP_DEV_UNREGISTER	3
#define SUPERP_DEV_MTU		4
#define SUPERP_DEV_ADDR		5
#define SUPERP_DEV_CARRIER	6

/**
 * struct superp_device_info - state of a network device
 * @mtu: MTU, in bytes behind the Ethernet header
 * @up: whether it can send and receive: it is running and has a carrier
 * @enslaved: whether a bridge, bond, team or Open vSwitch takes all that it receives
 * @ip_only: whether it receives only IP (ipvlan)
 * @loopback: whether it is a loopback device
 */
struct superp_device_info {
	u32 mtu;
	bool up;
	bool enslaved;
	bool ip_only;
	bool loopback;
};

int superp_net_register(void);
void superp_net_unregister(void);
bool superp_net_get(struct net *net);
void superp_net_put(struct net *net);
void *superp_pernet_state(const struct net *net);
struct superp_cells *superp_net_cells(const struct net *net);
struct list_head *superp_net_paths(const struct net *net);
void *superp_pernet_state_of_cells(const struct superp_cells *cells);

bool superp_device_info(struct net *net, u32 ifindex, struct superp_device_info *info);
bool superp_is_local_address(struct net *net, const u8 addr[16]);
bool superp_local_address(struct net *net, u32 ifindex, const u8 remote[16], u8 local[16]);

/*
 * Implemented in Rust, by pernet_ops! of net.rs. @state is what superp_rust_net_init() returned,
 * @handle what it wrote.
 */
void *superp_rust_net_init(struct net *net, void **handle, int *err);
void superp_rust_net_exit(void *state, void *handle);
void superp_rust_net_free(void *state, void *handle);
void superp_rust_device_event(void *state, u32 ifindex, u32 event);

#endif /* _SUPERP_KAPI_NET_H */
