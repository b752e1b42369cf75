// SPDX-License-Identifier: GPL-2.0
#include <linux/etherdevice.h>
#include <linux/hash.h>
#include <linux/if_arp.h>
#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/arp.h>
#include <net/dst_cache.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <net/route.h>
#include <net/sch_generic.h>
#include <net/udp_tunnel.h>

#include "kapi_burst.h"
#include "kapi_ip.h"
#include "kapi_path.h"
#include "kapi_run.h"

#define SUPERP_UDP4_SIZE	(sizeof(struct iphdr) + sizeof(struct udphdr))
#define SUPERP_UDP6_SIZE	(sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/**
 * struct superp_path - how the packets of a connection leave
 * @net: the namespace, which outlives this
 * @config: as given
 * @local: our address, for IPv6
 * @remote: the peer's address
 * @dev: the device; NULL if the route decides
 * @dev_tracker: of the reference to it
 * @dst_cache: the route, for UDP
 * @priority: of the packets in queueing disciplines and VLAN headers, from the traffic class
 * @hash: tells this flow from others where the stack cannot look into the packet
 * @headroom: bytes that headers took most lately
 * @burst: what superp_path_burst() says of the route that was taken last, with SUPERP_PATH_WHOLE; 0 for none
 * @confirmed: the peer has acknowledged something since the last packet
 */
struct superp_path {
	struct net *net;
	struct superp_path_config config;
	struct in6_addr local;
	struct in6_addr remote;
	struct net_device *dev;
	netdevice_tracker dev_tracker;
	struct dst_cache dst_cache;
	u32 priority;
	u32 hash;
	u32 headroom;
	u32 burst;
	bool confirmed;
};

/* The device takes bursts as they are. */
#define SUPERP_PATH_WHOLE	BIT(31)

static void superp_path_note_headroom(struct superp_path *path, u32 headroom)
{
	if (READ_ONCE(path->headroom) != headroom)
		WRITE_ONCE(path->headroom, headroom);
}

/* Both route lookups return with a reference, and want bottom halves off for the cache. */
static struct rtable *superp_path_route4(struct superp_path *path, __be32 *saddr)
{
	const struct superp_path_config *config = &path->config;
	struct flowi4 fl4;
	struct rtable *rt;

	rt = dst_cache_get_ip4(&path->dst_cache, saddr);
	if (rt)
		return rt;
	fl4 = (struct flowi4) {
		.flowi4_oif = config->ifindex,
		.flowi4_proto = IPPROTO_UDP,
		.flowi4_dscp = inet_dsfield_to_dscp(config->tclass),
		.daddr = path->remote.s6_addr32[3],
		.saddr = path->local.s6_addr32[3],
		.fl4_sport = htons(config->sport),
		.fl4_dport = htons(config->dport),
	};
	rt = ip_route_output_key(path->net, &fl4);
	if (IS_ERR(rt))
		return rt;
	dst_cache_set_ip4(&path->dst_cache, &rt->dst, fl4.saddr);
	*saddr = fl4.saddr;
	superp_path_note_headroom(path, LL_RESERVED_SPACE(rt->dst.dev) + rt->dst.header_len +
				  SUPERP_UDP4_SIZE);
	return rt;
}

static struct dst_entry *superp_path_route6(struct superp_path *path, struct in6_addr *saddr)
{
	const struct superp_path_config *config = &path->config;
	struct dst_entry *dst;
	struct flowi6 fl6;

	dst = dst_cache_get_ip6(&path->dst_cache, saddr);
	if (dst)
		return dst;
	fl6 = (struct flowi6) {
		.flowi6_oif = config->ifindex,
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = ip6_make_flowinfo(config->tclass, htonl(config->flow_label)),
		.daddr = path->remote,
		.saddr = path->local,
		.fl6_sport = htons(config->sport),
		.fl6_dport = htons(config->dport),
	};
	dst = ip6_dst_lookup_flow(path->net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return dst;
	dst_cache_set_ip6(&path->dst_cache, dst, &fl6.saddr);
	*saddr = fl6.saddr;
	superp_path_note_headroom(path, LL_RESERVED_SPACE(dst_dev(dst)) + dst->header_len +
				  SUPERP_UDP6_SIZE);
	return dst;
}

/* Bytes left of an MTU, and of what the length field of UDP can say. */
static u32 superp_path_less(u32 mtu, u32 headers)
{
	mtu = mtu > headers ? mtu - headers : 0;
	return min(mtu, U16_MAX - sizeof(struct udphdr));
}

static u32 superp_path_dst_mtu(const struct dst_entry *dst, u32 headers)
{
	return superp_path_less(min(dst_mtu(dst), READ_ONCE(dst_dev(dst)->mtu)), headers);
}

static u32 superp_path_sunh_mtu(const struct superp_path *path)
{
	return superp_path_less(READ_ONCE(path->dev->mtu), SUPERP_PATH_SUNH_SIZE);
}

static bool superp_path_fits(const struct superp_path *path)
{
	const struct superp_path_config *config = &path->config;
	bool v4 = ipv6_addr_v4mapped(&path->remote);
	bool any = ipv6_addr_any(&path->local);
	bool local4 = ipv6_addr_v4mapped(&path->local);

	switch (config->encap) {
	case SUPERP_PATH_SUNH:
		return config->has_mac ? !is_multicast_ether_addr(config->mac) :
					 !ipv6_addr_any(&path->remote);
	case SUPERP_PATH_UDP4:
		return v4 && (local4 || any);
	case SUPERP_PATH_UDP6:
		return !v4 && !local4 && !ipv6_addr_any(&path->remote) &&
		       config->flow_label <= ntohl(IPV6_FLOWLABEL_MASK);
	}
	return false;
}

static int superp_path_init(struct superp_path *path)
{
	const struct superp_path_config *config = &path->config;
	bool sunh = config->encap == SUPERP_PATH_SUNH;
	struct net_device *dev = NULL;

	if (!superp_path_fits(path))
		return -EINVAL;
	/* Their tables are only there with IPv6. */
	if (!ipv6_addr_v4mapped(&path->remote) && !config->has_mac && !ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	if (sunh || config->ifindex) {
		dev = netdev_get_by_index(path->net, config->ifindex, &path->dev_tracker,
					  GFP_KERNEL);
		if (!dev)
			return -ENODEV;
		path->dev = dev;
	}
	if (!sunh) {
		path->headroom = LL_MAX_HEADER + SUPERP_UDP6_SIZE;
		return dst_cache_init(&path->dst_cache, GFP_KERNEL);
	}

	if (dev->type != ARPHRD_ETHER && dev->type != ARPHRD_LOOPBACK)
		return -EINVAL;
	path->headroom = LL_RESERVED_SPACE(dev) + SUPERP_PATH_SUNH_SIZE;
	return 0;
}

/**
 * superp_path_new - make a path
 * @net: the namespace, which has to outlive it
 * @config: what it is like
 * @err: where a negative errno goes
 *
 * Context: process.
 * Return: the path, or NULL.
 */
struct superp_path *superp_path_new(struct net *net, const struct superp_path_config *config,
				    int *err)
{
	struct superp_path *path = kzalloc_obj(*path);

	*err = -ENOMEM;
	if (!path)
		return NULL;
	path->net = net;
	path->config = *config;
	memcpy(&path->local, config->local, sizeof(path->local));
	memcpy(&path->remote, config->remote, sizeof(path->remote));
	path->priority = rt_tos2priority(config->tclass);
	path->hash = jhash(config, sizeof(*config), net_hash_mix(net));
	*err = superp_path_init(path);
	if (*err) {
		superp_path_free(path);
		return NULL;
	}
	return path;
}

/**
 * superp_path_free - free a path
 * @path: the path; nobody uses it any more
 *
 * Context: any.
 */
void superp_path_free(struct superp_path *path)
{
	dst_cache_destroy(&path->dst_cache);
	netdev_put(path->dev, &path->dev_tracker);
	kfree(path);
}

/**
 * superp_path_mtu - how long may a packet be?
 * @path: the path
 *
 * Context: process or softirq.
 * Return: bytes from its PDL header on; 0 without a route.
 */
u32 superp_path_mtu(struct superp_path *path)
{
	struct dst_entry *dst;
	struct in6_addr in6;
	struct rtable *rt;
	u32 mtu = 0;
	__be32 in4;

	local_bh_disable();
	switch (path->config.encap) {
	case SUPERP_PATH_SUNH:
		mtu = superp_path_sunh_mtu(path);
		break;
	case SUPERP_PATH_UDP4:
		rt = superp_path_route4(path, &in4);
		if (!IS_ERR(rt)) {
			mtu = superp_path_dst_mtu(&rt->dst, SUPERP_UDP4_SIZE);
			ip_rt_put(rt);
		}
		break;
	case SUPERP_PATH_UDP6:
		dst = superp_path_route6(path, &in6);
		if (!IS_ERR(dst)) {
			mtu = superp_path_dst_mtu(dst, SUPERP_UDP6_SIZE);
			dst_release(dst);
		}
		break;
	}
	local_bh_enable();
	return mtu;
}

/**
 * superp_path_headroom - how much is put in front of a packet?
 * @path: the path
 *
 * Return: bytes.
 */
u32 superp_path_headroom(const struct superp_path *path)
{
	return READ_ONCE(path->headroom);
}

static struct neighbour *superp_path_neigh(const struct superp_path *path)
{
	if (ipv6_addr_v4mapped(&path->remote))
		return ip_neigh_gw4(path->dev, path->remote.s6_addr32[3]);
	return ip_neigh_gw6(path->dev, &path->remote);
}

/**
 * superp_path_resolve - find the peer's Ethernet address before the first packet
 * @path: the path
 *
 * A neighbour that is being resolved queues only a few jumbo frames; a first window would be lost.
 *
 * Context: process or softirq; does not wait for the answer.
 */
void superp_path_resolve(struct superp_path *path)
{
	struct neighbour *neigh = NULL;
	struct dst_entry *dst;
	struct in6_addr in6;
	struct rtable *rt;
	__be32 in4;

	/* The first for the cache of routes, the second for the table of neighbours. */
	local_bh_disable();
	rcu_read_lock();
	switch (path->config.encap) {
	case SUPERP_PATH_SUNH:
		if (path->config.has_mac || !netif_running(path->dev))
			break;
		neigh = superp_path_neigh(path);
		if (IS_ERR(neigh) || !refcount_inc_not_zero(&neigh->refcnt))
			neigh = NULL;
		break;
	case SUPERP_PATH_UDP4:
		rt = superp_path_route4(path, &in4);
		if (IS_ERR(rt))
			break;
		neigh = dst_neigh_lookup(&rt->dst, &path->remote.s6_addr32[3]);
		ip_rt_put(rt);
		break;
	case SUPERP_PATH_UDP6:
		dst = superp_path_route6(path, &in6);
		if (IS_ERR(dst))
			break;
		neigh = dst_neigh_lookup(dst, &path->remote);
		dst_release(dst);
		break;
	}
	if (neigh) {
		neigh_event_send(neigh, NULL);
		neigh_release(neigh);
	}
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * superp_path_confirm - the peer has acknowledged something
 * @path: the path
 *
 * The next packet tells the neighbour's entry, which then needs no probes: on a path that loses
 * packets three of them may be lost, and with them the neighbour.
 *
 * Context: any.
 */
void superp_path_confirm(struct superp_path *path)
{
	WRITE_ONCE(path->confirmed, true);
}

/* Whether the peer has acknowledged something since this was asked last. */
static bool superp_path_take_confirmed(struct superp_path *path)
{
	if (!READ_ONCE(path->confirmed))
		return false;
	WRITE_ONCE(path->confirmed, false);
	return true;
}

/* The packet begins with its SUNH header, the network header, and knows its EtherType. */
static int superp_path_output_sunh(struct superp_path *path, struct sk_buff *skb)
{
	const struct superp_path_config *config = &path->config;
	struct net_device *dev = path->dev;
	struct neighbour *neigh;
	int err;

	skb->dev = dev;
	if (config->has_mac) {
		err = -EINVAL;
		if (dev_hard_header(skb, dev, ntohs(skb->protocol), config->mac, NULL,
				    skb->len) < 0)
			goto drop;
		err = dev_queue_xmit(skb);
		return err > 0 ? net_xmit_errno(err) : err;
	}

	rcu_read_lock();
	neigh = superp_path_neigh(path);
	if (IS_ERR(neigh)) {
		rcu_read_unlock();
		err = PTR_ERR(neigh);
		goto drop;
	}
	if (superp_path_take_confirmed(path))
		neigh_confirm(neigh);
	/* Without the neighbour's cached header, which has the EtherType of IP. */
	err = neigh_output(neigh, skb, true);
	rcu_read_unlock();
	return err > 0 ? net_xmit_errno(err) : err;

drop:
	kfree_skb(skb);
	return err;
}

/* A packet or a run of them, from the PDL header on, gets its SUNH header. */
static int superp_path_push_sunh(struct superp_path *path, struct sk_buff *skb, u16 entropy)
{
	u8 *sunh;
	int err;

	if (superp_run_packet_len(skb) > superp_path_sunh_mtu(path))
		return -EMSGSIZE;
	err = skb_cow_head(skb, path->headroom);
	if (err)
		return err;
	sunh = skb_push(skb, SUPERP_PATH_SUNH_SIZE);
	if (skb_is_gso(skb))
		skb_shinfo(skb)->gso_size += SUPERP_PATH_SUNH_SIZE;
	memcpy(sunh, path->config.sunh, SUPERP_PATH_SUNH_SIZE);
	/* Hop Limit and Flow Label share two bytes. */
	sunh[2] ^= (entropy >> 8) & 0xf;
	sunh[3] ^= entropy & 0xff;
	skb_reset_network_header(skb);
	/* Queueing disciplines take what is in front of it for a part of each packet of a burst. */
	skb_reset_transport_header(skb);
	return 0;
}

static int superp_path_xmit_sunh(struct superp_path *path, struct sk_buff *head, u16 entropy)
{
	struct net_device *dev = path->dev;
	struct sk_buff *skb;
	int err;

	err = -ENETDOWN;
	if (!netif_running(dev))
		goto drop;
	superp_path_note_headroom(path, LL_RESERVED_SPACE(dev) + SUPERP_PATH_SUNH_SIZE);
	for (skb = head; skb; skb = skb->next) {
		err = superp_path_push_sunh(path, skb, entropy);
		if (err)
			goto drop;
	}
	if (head->next || skb_is_gso(head))
		superp_burst_join_sunh(head);
	head->protocol = htons(path->config.ethertype);
	return superp_path_output_sunh(path, head);

drop:
	kfree_skb_list(head);
	return err;
}

/*
 * A queueing discipline that limits the rate may take a burst apart, drop some of it and say nothing.
 * One that lets packets pass when nothing waits does not.
 */
static bool superp_path_keeps_bursts(const struct net_device *dev)
{
	const struct Qdisc *queue = rcu_dereference_bh(netdev_get_tx_queue(dev, 0)->qdisc);

	return !queue->enqueue || queue->flags & TCQ_F_CAN_BYPASS;
}

static u32 superp_path_dev_burst(const struct net_device *dev)
{
	u32 size, packets, whole = dev->features & NETIF_F_GSO_FRAGLIST ? SUPERP_PATH_WHOLE : 0;

	if (!(dev->features & NETIF_F_GSO) || !superp_path_keeps_bursts(dev))
		return whole | 1;
	size = min3(READ_ONCE(dev->gso_max_size), READ_ONCE(dev->gso_ipv4_max_size),
		    (u32)GSO_LEGACY_MAX_SIZE);
	size = superp_path_less(size, LL_RESERVED_SPACE(dev) + 1);
	packets = min(size / max(READ_ONCE(dev->mtu), 1u), (u32)READ_ONCE(dev->gso_max_segs));
	return whole | max(packets, 1u);
}

/* The next burst goes as this one, as a rule. */
static void superp_path_note_burst(struct superp_path *path, const struct net_device *dev)
{
	u32 burst = superp_path_dev_burst(dev);

	if (READ_ONCE(path->burst) != burst)
		WRITE_ONCE(path->burst, burst);
}

static void superp_path_ask_burst(struct superp_path *path)
{
	struct dst_entry *dst;
	struct in6_addr in6;
	struct rtable *rt;
	__be32 in4;

	if (path->config.encap == SUPERP_PATH_UDP4) {
		rt = superp_path_route4(path, &in4);
		dst = IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
	} else {
		dst = superp_path_route6(path, &in6);
	}
	if (IS_ERR(dst))
		return;
	superp_path_note_burst(path, dst_dev(dst));
	dst_release(dst);
}

/**
 * superp_path_burst - how many packets does superp_path_xmit() take at a go?
 * @path: the path
 * @whole: where it goes whether the device takes them as they are, and not one by one
 *
 * Where the route has just changed, this is of the one before.
 *
 * Context: process or softirq, bottom halves off.
 * Return: packets, at least 1.
 */
u32 superp_path_burst(struct superp_path *path, bool *whole)
{
	u32 burst;

	if (path->config.encap == SUPERP_PATH_SUNH) {
		burst = superp_path_dev_burst(path->dev);
	} else {
		if (!READ_ONCE(path->burst))
			superp_path_ask_burst(path);
		burst = READ_ONCE(path->burst);
	}
	*whole = burst & SUPERP_PATH_WHOLE;
	return max(burst & ~SUPERP_PATH_WHOLE, 1u);
}

/**
 * superp_path_up - can the device of a path send?
 * @path: the path
 * @len: bytes from the PDL header on that it has to take in one packet, or 0
 *
 * Context: any.
 * Return: true also for a path without a device, whose route nobody knows.
 */
bool superp_path_up(const struct superp_path *path, u32 len)
{
	const struct net_device *dev = path->dev;
	u32 headers = SUPERP_PATH_SUNH_SIZE;

	if (!dev)
		return true;
	if (path->config.encap == SUPERP_PATH_UDP4)
		headers = SUPERP_UDP4_SIZE;
	else if (path->config.encap == SUPERP_PATH_UDP6)
		headers = SUPERP_UDP6_SIZE;
	return netif_running(dev) && netif_carrier_ok(dev) &&
	       superp_path_less(READ_ONCE(dev->mtu), headers) >= len;
}

/* What is left of a packet's way in must not go out with it. */
static void superp_path_scrub(struct sk_buff *skb, u8 tclass, u32 hash)
{
	skb_scrub_packet(skb, false);
	skb_clear_tstamp(skb);
	skb->priority = rt_tos2priority(tclass);
	__skb_set_sw_hash(skb, hash, true);
}

/**
 * superp_path_forward - send a received packet on in SUNH
 * @path: a SUNH path to the next hop
 * @skb: the packet, given up; it begins behind its network header
 * @ethertype: of SUNH or of SUPERp-lite
 * @sunh: the header for it
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno, as superp_path_xmit(); -EINVAL for a packet made of several.
 */
int superp_path_forward(struct superp_path *path, struct sk_buff *skb, u16 ethertype,
			const u8 *sunh)
{
	struct net_device *dev = path->dev;
	int err;

	err = -EINVAL;
	if (skb_is_gso(skb))
		goto drop;
	err = -ENETDOWN;
	if (!netif_running(dev))
		goto drop;
	err = -EMSGSIZE;
	if (skb->len > superp_path_sunh_mtu(path))
		goto drop;
	err = skb_cow_head(skb, LL_RESERVED_SPACE(dev) + SUPERP_PATH_SUNH_SIZE);
	if (err)
		goto drop;

	memcpy(skb_push(skb, SUPERP_PATH_SUNH_SIZE), sunh, SUPERP_PATH_SUNH_SIZE);
	skb_reset_network_header(skb);
	skb->protocol = htons(ethertype);
	superp_path_scrub(skb, sunh[0], jhash(sunh, SUPERP_PATH_SUNH_SIZE, 0));
	return superp_path_output_sunh(path, skb);

drop:
	kfree_skb(skb);
	return err;
}

static void superp_path_push_udp(struct superp_path *path, struct sk_buff *skb,
				 const struct superp_udp_ip *header)
{
	struct udphdr *udp = __skb_push(skb, sizeof(*udp));

	skb_reset_transport_header(skb);
	udp->source = htons(header->sport);
	udp->dest = htons(path->config.dport);
	udp->len = htons(skb->len);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/*
 * These two are udp_tunnel_xmit_skb() and udp_tunnel6_xmit_skb(), which do not say whether the
 * device's queue has taken the packet. The route is given up.
 */
static int superp_path_output4(struct superp_path *path, struct sk_buff *skb, struct rtable *rt,
			       __be32 saddr, const struct superp_udp_ip *header)
{
	__be32 daddr = path->remote.s6_addr32[3];
	struct iphdr *ip;
	int err;

	superp_path_push_udp(path, skb, header);
	udp_hdr(skb)->check = ~udp_v4_check(skb->len, saddr, daddr, 0);
	skb_dst_set(skb, &rt->dst);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));

	ip = skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip->version = 4;
	ip->ihl = sizeof(*ip) >> 2;
	ip->frag_off = ip_mtu_locked(&rt->dst) ? 0 : htons(IP_DF);
	ip->protocol = IPPROTO_UDP;
	ip->tos = header->tclass;
	ip->ttl = header->hop_limit ? : ip4_dst_hoplimit(&rt->dst);
	ip->saddr = saddr;
	ip->daddr = daddr;
	ip_select_ident_segs(path->net, skb, NULL, skb_shinfo(skb)->gso_segs ? : 1);
	err = superp_ip_output4(path->net, skb);
	return err > 0 ? net_xmit_errno(err) : err;
}

static int superp_path_output6(struct superp_path *path, struct sk_buff *skb,
			       struct dst_entry *dst, const struct in6_addr *saddr,
			       const struct superp_udp_ip *header)
{
	struct ipv6hdr *ip;
	int err;

	superp_path_push_udp(path, skb, header);
	skb_dst_set(skb, dst);
	udp_hdr(skb)->check = ~udp_v6_check(skb->len, saddr, &path->remote, 0);
	ip = __skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip, header->tclass, htonl(header->flow_label));
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = header->hop_limit ? : ip6_dst_hoplimit(dst);
	ip->saddr = *saddr;
	ip->daddr = path->remote;
	memset(skb->cb, 0, sizeof(struct inet6_skb_parm));
	err = ip6_local_out(path->net, NULL, skb);
	return err > 0 ? net_xmit_errno(err) : err;
}

/* Makes one packet of the datagrams of a burst, with room for so many bytes of headers in front. */
static int superp_path_join_udp(struct sk_buff *head, const struct dst_entry *dst, u32 headers)
{
	u32 mtu = superp_path_dst_mtu(dst, headers), len = 0;
	struct sk_buff *skb;

	for (skb = head; skb; skb = skb->next) {
		if (superp_run_packet_len(skb) > mtu)
			return -EMSGSIZE;
		len += skb->len;
	}
	/* The MTU may have grown since superp_path_burst(). */
	if (len > IP_MAX_MTU - headers)
		return -EMSGSIZE;
	if (head->next || skb_is_gso(head))
		superp_burst_join_udp(head, dst_dev(dst));
	return skb_cow_head(head, LL_RESERVED_SPACE(dst_dev(dst)) + dst->header_len + headers);
}

/* The destination is the path's. So is the source, if there is none in the header. */
static int superp_path_xmit_udp4(struct superp_path *path, struct sk_buff *skb,
				 const struct superp_udp_ip *header)
{
	const struct in6_addr *source = (const struct in6_addr *)header->source;
	struct rtable *rt;
	__be32 saddr;
	int err;

	rt = superp_path_route4(path, &saddr);
	if (IS_ERR(rt)) {
		err = PTR_ERR(rt);
		goto drop;
	}
	superp_path_note_burst(path, dst_dev(&rt->dst));
	err = superp_path_join_udp(skb, &rt->dst, SUPERP_UDP4_SIZE);
	if (err)
		goto drop_route;
	skb_set_dst_pending_confirm(skb, superp_path_take_confirmed(path));
	return superp_path_output4(path, skb, rt, source->s6_addr32[3] ? : saddr, header);

drop_route:
	ip_rt_put(rt);
drop:
	kfree_skb_list(skb);
	return err;
}

static int superp_path_xmit_udp6(struct superp_path *path, struct sk_buff *skb,
				 const struct superp_udp_ip *header)
{
	const struct in6_addr *source = (const struct in6_addr *)header->source;
	struct dst_entry *dst;
	struct in6_addr saddr;
	int err;

	dst = superp_path_route6(path, &saddr);
	if (IS_ERR(dst)) {
		err = PTR_ERR(dst);
		goto drop;
	}
	superp_path_note_burst(path, dst_dev(dst));
	err = superp_path_join_udp(skb, dst, SUPERP_UDP6_SIZE);
	if (err)
		goto drop_route;
	skb_set_dst_pending_confirm(skb, superp_path_take_confirmed(path));
	return superp_path_output6(path, skb, dst, ipv6_addr_any(source) ? &saddr : source,
				   header);

drop_route:
	dst_release(dst);
drop:
	kfree_skb_list(skb);
	return err;
}

/**
 * superp_path_forward_udp - send a received packet on over UDP
 * @path: a UDP path to where it goes
 * @skb: the packet, given up; it begins with its PDL header
 * @header: the headers for it; its destination is the path's. The source need not be an address of
 *          this namespace
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno, as superp_path_xmit(); -EINVAL for a packet made of several.
 */
int superp_path_forward_udp(struct superp_path *path, struct sk_buff *skb,
			    const struct superp_udp_ip *header)
{
	if (skb_is_gso(skb)) {
		kfree_skb(skb);
		return -EINVAL;
	}
	/* Traffic Class and Hop Limit do not tell flows apart. */
	superp_path_scrub(skb, header->tclass,
			  jhash(header, offsetof(struct superp_udp_ip, tclass), 0));
	return path->config.encap == SUPERP_PATH_UDP4 ? superp_path_xmit_udp4(path, skb, header) :
							superp_path_xmit_udp6(path, skb, header);
}

/**
 * superp_path_xmit - send packets
 * @path: the path
 * @skb: packets and runs, a list in their order, given up; each begins with its PDL header, and they are
 *       not more packets than superp_path_burst() says
 * @entropy: changes the flow that the network sees: label or source port; 0 for the path's own
 *
 * What a packet meets on its way out may queue it to be received in this namespace, but nothing
 * receives it before this returns.
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno, for all of them: -EMSGSIZE over superp_path_mtu(), -ENETDOWN, -ENOMEM,
 * -ENOBUFS if the device's queue had no room, and those of route lookups.
 */
int superp_path_xmit(struct superp_path *path, struct sk_buff *skb, u16 entropy)
{
	const struct superp_path_config *config = &path->config;
	/* Our source ports are dynamic ones [RFC 6335], all with the two upper bits set. */
	struct superp_udp_ip header = {
		.flow_label = config->flow_label ^ entropy,
		.sport = config->sport ^ (entropy & 0x3fff),
		.tclass = config->tclass,
		.hop_limit = config->hop_limit,
	};

	skb->priority = path->priority;
	__skb_set_sw_hash(skb, path->hash ^ hash_32(entropy, 32), true);
	switch (config->encap) {
	case SUPERP_PATH_UDP4:
		return superp_path_xmit_udp4(path, skb, &header);
	case SUPERP_PATH_UDP6:
		return superp_path_xmit_udp6(path, skb, &header);
	default:
		return superp_path_xmit_sunh(path, skb, entropy);
	}
}
