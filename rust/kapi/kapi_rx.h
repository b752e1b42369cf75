/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_RX_H
#define _SUPERP_KAPI_RX_H

#include <linux/types.h>

#include "kapi_burst.h"

struct net;
struct sk_buff;
struct sk_buff_head;
struct superp_cells;
struct superp_udp_ip;
struct superp_udp_port;

void superp_rx_register(const u16 ethertypes[SUPERP_BURST_ETHERTYPES], u32 header_len);
void superp_rx_unregister(void);
void superp_rx_detach(struct sk_buff *skb);
void superp_rx_deliver(struct superp_cells *cells, struct sk_buff_head *frames);

struct superp_udp_port *superp_udp_port_open(struct net *net, u16 port, int *err);
void superp_udp_port_close(struct superp_udp_port *udp);
void superp_udp_ports_stop(const struct net *net);

/* Implemented in Rust, by packet_ops! of rx.rs. @skb is a list of packets, consumed. */
void superp_rust_rx_frames(void *state, u32 ifindex, u16 ethertype, struct sk_buff *skb);
void superp_rust_rx_udp(void *state, u32 ifindex, const struct superp_udp_ip *header,
			struct sk_buff *skb);

#endif /* _SUPERP_KAPI_RX_H */
