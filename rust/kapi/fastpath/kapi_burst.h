/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_BURST_H
#define _SUPERP_KAPI_BURST_H

#include <linux/types.h>

struct net_device;
struct sk_buff;

#define SUPERP_BURST_ETHERTYPES	2

void superp_burst_register(const u16 ethertypes[SUPERP_BURST_ETHERTYPES], u32 header_len);
void superp_burst_unregister(void);
void superp_burst_join_frames(struct sk_buff *head);
void superp_burst_join_udp(struct sk_buff *head, struct net_device *dev);
struct sk_buff *superp_burst_split(struct sk_buff *skb, u32 common);

#endif /* _SUPERP_KAPI_BURST_H */
