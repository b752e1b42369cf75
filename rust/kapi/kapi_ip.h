/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_IP_H
#define _SUPERP_KAPI_IP_H

struct net;
struct sk_buff;

int superp_ip_output4(struct net *net, struct sk_buff *skb);

#endif /* _SUPERP_KAPI_IP_H */
