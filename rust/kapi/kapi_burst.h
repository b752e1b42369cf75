/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_BURST_H
#define _SUPERP_KAPI_BURST_H

#include <linux/types.h>

struct net_device;
struct sk_buff;

void superp_burst_register(u16 ethertype, u16 lite);
void superp_burst_unregister(void);
void superp_burst_join_sunh(struct sk_buff *head);
void superp_burst_join_udp(struct sk_buff *head, struct net_device *dev);
struct sk_buff *superp_burst_split(struct sk_buff *skb, u32 common);

#endif /* _SUPERP_KAPI_BURST_H */
