// SPDX-License-Identifier: GPL-2.0
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <linux/workqueue.h>
#include <net/dsfield.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/udp_tunnel.h>

#include "kapi_burst.h"
#include "kapi_cells.h"
#include "kapi_defer.h"
#include "kapi_demux.h"
#include "kapi_net.h"
#include "kapi_path.h"
#include "kapi_run.h"
#include "kapi_rx.h"

/**
 * struct superp_udp_port - a UDP port that receives packets
 * @net: the network namespace; NULL once the port is stopped
 * @list: entry in superp_udp_ports until the port is stopped
 * @v4: IPv4 socket
 * @v6: IPv6 socket; NULL without IPv6
 * @cells: collect received packets, which UDP delivers one by one
 * @demux: caches the routes of received packets
 * @work: frees the port after a grace period
 */
struct superp_udp_port {
	struct net *net;
	struct list_head list;
	struct socket *v4;
	struct socket *v6;
	struct superp_cells cells;
	struct superp_demux demux;
	struct rcu_work work;
};

/* Ports that are not stopped, and the lock that serialises the stop of a port. */
static LIST_HEAD(superp_udp_ports);
static DEFINE_MUTEX(superp_udp_lock);

/* Control block of a packet in a cell. */
struct superp_udp_cb {
	u32 ifindex;
	struct superp_udp_ip header;
};

static struct superp_udp_cb *superp_udp_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_udp_cb) > sizeof_field(struct sk_buff, cb));
	return (struct superp_udp_cb *)skb->cb;
}

/* Passes packets to Rust. Consecutive packets with the same headers go together. */
static void superp_udp_deliver(struct superp_cells *cells, struct sk_buff_head *packets)
{
	struct superp_udp_port *udp = container_of(cells, struct superp_udp_port, cells);
	struct sk_buff *skb, *first, *last;
	struct superp_udp_cb cb;
	const struct net *net;
	bool valid;
	void *state;

	net = READ_ONCE(udp->net);
	state = net ? superp_pernet_state(net) : NULL;
	while (state && (first = __skb_dequeue(packets))) {
		cb = *superp_udp_cb(first);
		valid = superp_run_note(first, 0);
		last = first;
		while ((skb = skb_peek(packets)) &&
		       !memcmp(superp_udp_cb(skb), &cb, sizeof(cb))) {
			__skb_unlink(skb, packets);
			valid &= superp_run_note(skb, 0);
			last->next = skb;
			last = skb;
		}
		if (valid)
			superp_rust_rx_udp(state, cb.ifindex, &cb.header, first);
		else
			kfree_skb_list_reason(first, SKB_DROP_REASON_SKB_BAD_GSO);
	}
}

/* Reads the UDP and IP headers of a packet whose data begins with the UDP header. */
static void superp_udp_parse(const struct sk_buff *skb, struct superp_udp_cb *cb)
{
	struct in6_addr *destination = (struct in6_addr *)cb->header.destination;
	struct in6_addr *source = (struct in6_addr *)cb->header.source;
	/*
	 * In a VRF, skb->dev is the VRF device, but connections refer to the device that the packet
	 * came in by. inet_sdif() reads the control block, which this function overwrites.
	 */
	int slave = skb->protocol == htons(ETH_P_IP) ? inet_sdif(skb) : inet6_sdif(skb);
	int ifindex = slave ?: skb->dev->ifindex;

	cb->ifindex = ifindex;
	if (skb->protocol == htons(ETH_P_IP)) {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, source);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, destination);
		cb->header.tclass = ip_hdr(skb)->tos;
		cb->header.hop_limit = ip_hdr(skb)->ttl;
		cb->header.flow_label = 0;
	} else {
		*source = ipv6_hdr(skb)->saddr;
		*destination = ipv6_hdr(skb)->daddr;
		cb->header.tclass = ipv6_get_dsfield(ipv6_hdr(skb));
		cb->header.hop_limit = ipv6_hdr(skb)->hop_limit;
		cb->header.flow_label = ntohl(ip6_flowlabel(ipv6_hdr(skb)));
	}
	cb->header.sport = ntohs(((struct udphdr *)skb->data)->source);
}

/* Receives a burst, all of whose packets have the same UDP and IP headers. */
static void superp_udp_rcv_burst(struct superp_udp_port *udp, struct sk_buff *skb)
{
	struct superp_udp_cb cb;
	struct sk_buff *part;

	superp_udp_parse(skb, &cb);
	__skb_pull(skb, sizeof(struct udphdr));
	skb->encapsulation = 0;
	skb_reset_network_header(skb);
	skb_reset_transport_header(skb);
	skb = superp_burst_split(skb, 0);
	for (part = skb; part; part = part->next) {
		superp_rx_detach(part);
		*superp_udp_cb(part) = cb;
	}
	if (skb)
		superp_cells_queue(&udp->cells, skb, true);
}

/*
 * encap_rcv() of the sockets. Called under RCU. The checksum has been verified, and the length of
 * the packet is that in the UDP header.
 */
static int superp_udp_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct superp_udp_port *udp = rcu_dereference_sk_user_data(sk);
	bool more;

	/* UDP segments a GRO packet, and delivers its segments, which are a list, one by one. */
	more = skb->next;
	skb_mark_not_on_list(skb);
	if (!udp || !pskb_may_pull(skb, sizeof(struct udphdr))) {
		kfree_skb(skb);
		return 0;
	}
	if (skb_dst(skb))
		superp_demux_learn(&udp->demux, skb);
	if (skb_is_gso(skb)) {
		superp_udp_rcv_burst(udp, skb);
		return 0;
	}
	superp_udp_parse(skb, superp_udp_cb(skb));
	__skb_pull(skb, sizeof(struct udphdr));
	superp_rx_detach(skb);
	superp_cells_queue(&udp->cells, skb, more);
	return 0;
}

/* encap_err_lookup(): accepts ICMP errors for the port, so that IP learns the path MTU. */
static int superp_udp_err(struct sock *sk, struct sk_buff *skb)
{
	return 0;
}

static int superp_udp_sock(struct superp_udp_port *udp, u8 family, u16 port, struct socket **sock)
{
	struct udp_port_cfg config = {
		.family = family,
		.local_udp_port = htons(port),
		.use_udp6_rx_checksums = true,
		.ipv6_v6only = true,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.sk_user_data = udp,
		.encap_type = 1,
		.encap_rcv = superp_udp_rcv,
		.encap_err_lookup = superp_udp_err,
	};
	int err;

	err = udp_sock_create(udp->net, &config, sock);
	if (err)
		return err;
	setup_udp_tunnel_sock(udp->net, (*sock)->sk, &tunnel);
	/* Without this UDP would segment bursts. It still segments packets of its own GRO. */
	udp_allow_gso((*sock)->sk);
	/*
	 * setup_udp_tunnel_sock() makes UDP compute CHECKSUM_COMPLETE for inner checksums. There
	 * are none, and when UDP segments a packet, that sum would cover all of its bytes.
	 */
	inet_dec_convert_csum((*sock)->sk);
	return 0;
}

/* Frees a port a grace period after it was closed, when its sockets deliver nothing any more. */
static void superp_udp_free(struct work_struct *work)
{
	struct superp_udp_port *udp = container_of(to_rcu_work(work), struct superp_udp_port, work);

	superp_cells_stop(&udp->cells);
	synchronize_net();
	superp_cells_free(&udp->cells);
	superp_demux_free(&udp->demux);
	kfree(udp);
}

/**
 * superp_udp_port_open - receive packets on a UDP port, over IPv4 and IPv6
 * @net: the network namespace
 * @port: the port, host byte order
 * @err: returns 0 or a negative errno
 *
 * Context: process.
 * Return: the port, or NULL.
 */
struct superp_udp_port *superp_udp_port_open(struct net *net, u16 port, int *err)
{
	struct superp_udp_port *udp;

	*err = -EINVAL;
	if (!port)
		return NULL;
	udp = kzalloc_obj(*udp, GFP_KERNEL_ACCOUNT);
	*err = -ENOMEM;
	if (!udp)
		return NULL;
	udp->net = net;
	mutex_lock(&superp_udp_lock);
	list_add(&udp->list, &superp_udp_ports);
	mutex_unlock(&superp_udp_lock);
	INIT_RCU_WORK(&udp->work, superp_udp_free);
	*err = superp_cells_init(&udp->cells, superp_udp_deliver);
	if (*err)
		goto fail;
	*err = superp_udp_sock(udp, AF_INET, port, &udp->v4);
	if (*err)
		goto fail;
	*err = superp_udp_sock(udp, AF_INET6, port, &udp->v6);
	if (*err == -EAFNOSUPPORT || *err == -EPFNOSUPPORT)
		*err = 0;
	if (*err)
		goto fail;
	*err = superp_demux_start(&udp->demux, net, port, udp->v4->sk, udp->v6 ? udp->v6->sk : NULL);
	if (*err)
		goto fail;
	return udp;

fail:
	superp_udp_port_close(udp);
	return NULL;
}

/* Releases what belongs to the namespace. Called once, with superp_udp_lock held. */
static void superp_udp_stop(struct superp_udp_port *udp)
{
	WRITE_ONCE(udp->net, NULL);
	list_del(&udp->list);
	superp_demux_stop(&udp->demux);
	if (udp->v4)
		udp_tunnel_sock_release(udp->v4->sk);
	if (udp->v6)
		udp_tunnel_sock_release(udp->v6->sk);
}

/**
 * superp_udp_port_close - close a UDP port
 * @udp: the port
 *
 * Packets may still reach the Rust state of the namespace until a grace period has passed. The port
 * is freed after it.
 *
 * Context: process.
 */
void superp_udp_port_close(struct superp_udp_port *udp)
{
	mutex_lock(&superp_udp_lock);
	if (udp->net)
		superp_udp_stop(udp);
	mutex_unlock(&superp_udp_lock);
	queue_rcu_work(superp_wq, &udp->work);
}

/**
 * superp_udp_ports_stop - stop the ports of a namespace that is taken down
 * @net: the namespace
 *
 * Their owners may close them later.
 *
 * Context: process, sleeps.
 */
void superp_udp_ports_stop(const struct net *net)
{
	struct superp_udp_port *udp, *next;

	mutex_lock(&superp_udp_lock);
	list_for_each_entry_safe(udp, next, &superp_udp_ports, list) {
		if (udp->net != net)
			continue;
		superp_udp_stop(udp);
		/* After a grace period no packet reaches the port, and it learns no route. */
		synchronize_net();
		superp_demux_free(&udp->demux);
	}
	mutex_unlock(&superp_udp_lock);
}
