/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_DEMUX_H
#define _SUPERP_KAPI_DEMUX_H

#include <linux/types.h>
#include <linux/netfilter.h>

struct net;
struct sk_buff;
struct sock;
struct superp_demux_way;

#define SUPERP_DEMUX_BITS	8

/**
 * struct superp_demux - where the datagrams of the peers of a UDP port go
 * @net: the namespace; NULL unless it is started
 * @sk4: the port's socket for IPv4
 * @sk6: for IPv6, or NULL
 * @deliver: takes a packet for @sk4
 * @port: the port
 * @ops: see the packets before IP routes them
 * @ways: what was found for a peer; by a hash of its address
 */
struct superp_demux {
	struct net *net;
	struct sock *sk4;
	struct sock *sk6;
	int (*deliver)(struct sock *sk, struct sk_buff *skb);
	__be16 port;
#ifdef CONFIG_NETFILTER
	struct nf_hook_ops ops[2];
#endif
	struct superp_demux_way __rcu *ways[1 << SUPERP_DEMUX_BITS];
};

int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6, int (*deliver)(struct sock *sk, struct sk_buff *skb));
void superp_demux_stop(struct superp_demux *demux);
void superp_demux_free(struct superp_demux *demux);
void superp_demux_learn(struct superp_demux *demux, const struct sk_buff *skb);

#endif /* _SUPERP_KAPI_DEMUX_H */
