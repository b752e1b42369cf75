/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_DEMUX_H
#define _SUPERP_KAPI_DEMUX_H

#include <linux/types.h>
#include <linux/netfilter.h>

struct net;
struct sk_buff;
struct sock;
struct superp_demux_entry;

#define SUPERP_DEMUX_BITS	8

/**
 * struct superp_demux - cached routes for the datagrams that a UDP port receives
 * @net: the network namespace; NULL unless started
 * @sk4: IPv4 socket of the port
 * @sk6: IPv6 socket of the port, or NULL
 * @port: the UDP port
 * @ops: PRE_ROUTING hooks, which see packets before IP routes them
 * @entries: the routes, by a hash of the peer's address
 */
struct superp_demux {
	struct net *net;
	struct sock *sk4;
	struct sock *sk6;
	__be16 port;
#ifdef CONFIG_NETFILTER
	struct nf_hook_ops ops[2];
#endif
	struct superp_demux_entry __rcu *entries[1 << SUPERP_DEMUX_BITS];
};

int superp_demux_start(struct superp_demux *demux, struct net *net, u16 port, struct sock *sk4,
		       struct sock *sk6);
void superp_demux_stop(struct superp_demux *demux);
void superp_demux_free(struct superp_demux *demux);
void superp_demux_learn(struct superp_demux *demux, const struct sk_buff *skb);

#endif /* _SUPERP_KAPI_DEMUX_H */
