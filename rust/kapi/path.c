// SPDX-License-Identifier: GPL-2.0
#include <linux/etherdevice.h>
#include <linux/hash.h>
#include <linux/if_arp.h>
#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/arp.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <net/route.h>
#include <net/sch_generic.h>
#include <net/udp_tunnel.h>

#include "kapi_burst.h"
#include "kapi_net.h"
#include "kapi_route.h"
#include "kapi_run.h"
#include "path.h"

#define SUPERP_UDP4_SIZE	(sizeof(struct iphdr) + sizeof(struct udphdr))
#define SUPERP_UDP6_SIZE	(sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/* Flag in superp_path.burst: the device takes bursts as they are. */
#define SUPERP_PATH_NATIVE_BURST	BIT(31)

/* Protects the lists of the paths of all namespaces. A path may be freed while they are walked. */
static DEFINE_SPINLOCK(superp_paths_lock);

static void superp_path_cache_headroom(struct superp_path *path, u32 headroom)
{
	if (READ_ONCE(path->headroom) != headroom)
		WRITE_ONCE(path->headroom, headroom);
}

static noinline_for_stack const struct superp_route *
superp_path_route4(struct superp_path *path, struct net *net)
{
	const struct superp_path_config *config = &path->config;
	struct flowi4 fl4 = {
		.flowi4_oif = config->ifindex,
		.flowi4_proto = IPPROTO_UDP,
		.flowi4_dscp = inet_dsfield_to_dscp(config->tclass),
		.daddr = path->remote.s6_addr32[3],
		.saddr = path->local.s6_addr32[3],
		.fl4_sport = htons(config->sport),
		.fl4_dport = htons(config->dport),
	};
	struct in6_addr source;
	struct rtable *rt;

	rt = ip_route_output_key(net, &fl4);
	if (IS_ERR(rt))
		return ERR_CAST(rt);
	ipv6_addr_set_v4mapped(fl4.saddr, &source);
	return superp_route_cache_set(&path->route, &rt->dst, 0, &source);
}

static noinline_for_stack const struct superp_route *
superp_path_route6(struct superp_path *path, struct net *net)
{
	const struct superp_path_config *config = &path->config;
	struct flowi6 fl6 = {
		.flowi6_oif = config->ifindex,
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = ip6_make_flowinfo(config->tclass, htonl(config->flow_label)),
		.daddr = path->remote,
		.saddr = path->local,
		.fl6_sport = htons(config->sport),
		.fl6_dport = htons(config->dport),
	};
	struct dst_entry *dst;

	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return ERR_CAST(dst);
	return superp_route_cache_set(&path->route, dst, rt6_get_cookie(dst_rt6_info(dst)),
				      &fl6.saddr);
}

static u32 superp_path_headers(const struct superp_path *path)
{
	switch (path->config.encap) {
	case SUPERP_PATH_UDP4:
		return SUPERP_UDP4_SIZE;
	case SUPERP_PATH_UDP6:
		return SUPERP_UDP6_SIZE;
	default:
		return path->config.header_len;
	}
}

/* The cached route of a path over UDP, or the result of a new lookup. Called under RCU. */
const struct superp_route *superp_path_route(struct superp_path *path)
{
	const struct superp_route *route = superp_route_cached(&path->route);
	struct net *net = READ_ONCE(path->net);

	if (route)
		return route;
	if (!net)
		return ERR_PTR(-ENETDOWN);
	route = path->config.encap == SUPERP_PATH_UDP4 ? superp_path_route4(path, net) :
							 superp_path_route6(path, net);
	if (!IS_ERR(route))
		superp_path_cache_headroom(path, LL_RESERVED_SPACE(dst_dev(route->dst)) +
					  route->dst->header_len + superp_path_headers(path));
	return route;
}

/* Bytes that an MTU leaves behind @headers; at most what the UDP length field can express. */
static u32 superp_path_payload_mtu(u32 mtu, u32 headers)
{
	mtu = mtu > headers ? mtu - headers : 0;
	return min(mtu, U16_MAX - sizeof(struct udphdr));
}

static u32 superp_path_udp_mtu(const struct superp_path *path, const struct superp_route *route)
{
	const struct dst_entry *dst = route->dst;

	return superp_path_payload_mtu(min(dst_mtu(dst), READ_ONCE(dst_dev(dst)->mtu)),
				superp_path_headers(path));
}

static u32 superp_path_ether_mtu(const struct superp_path *path)
{
	return superp_path_payload_mtu(READ_ONCE(path->dev->mtu), path->config.header_len);
}

static bool superp_path_config_valid(const struct superp_path *path)
{
	const struct superp_path_config *config = &path->config;
	bool v4 = ipv6_addr_v4mapped(&path->remote);
	bool any = ipv6_addr_any(&path->local);
	bool local4 = ipv6_addr_v4mapped(&path->local);

	switch (config->encap) {
	case SUPERP_PATH_ETHER:
		if (config->header_len > SUPERP_PATH_HEADER_MAX ||
		    config->entropy_offset + sizeof(u16) > config->header_len)
			return false;
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
	bool frames = config->encap == SUPERP_PATH_ETHER;
	struct net_device *dev = NULL;

	if (!superp_path_config_valid(path))
		return -EINVAL;
	/* Without IPv6 there is no neighbour table and no routing table for its addresses. */
	if (!ipv6_addr_v4mapped(&path->remote) && !config->has_mac && !ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	if (frames || config->ifindex) {
		dev = netdev_get_by_index(path->net, config->ifindex, &path->dev_tracker,
					  GFP_KERNEL);
		if (!dev)
			return -ENODEV;
		path->dev = dev;
	}
	if (!frames) {
		path->headroom = LL_MAX_HEADER + SUPERP_UDP6_SIZE;
		return 0;
	}

	if (dev->type != ARPHRD_ETHER && dev->type != ARPHRD_LOOPBACK)
		return -EINVAL;
	path->headroom = LL_RESERVED_SPACE(dev) + path->config.header_len;
	return 0;
}

/**
 * superp_path_new - create a path
 * @net: the network namespace, whose exit has not begun
 * @config: configuration of the path
 * @err: returns 0 or a negative errno
 *
 * Context: process; may sleep.
 * Return: the path, or NULL.
 */
struct superp_path *superp_path_new(struct net *net, const struct superp_path_config *config,
				    int *err)
{
	struct superp_path *path = kzalloc_obj(*path, GFP_KERNEL_ACCOUNT);

	*err = -ENOMEM;
	if (!path)
		return NULL;
	path->net = net;
	INIT_LIST_HEAD(&path->list);
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
	spin_lock_bh(&superp_paths_lock);
	list_add(&path->list, superp_net_paths(net));
	spin_unlock_bh(&superp_paths_lock);
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
	spin_lock_bh(&superp_paths_lock);
	list_del(&path->list);
	/* Under the lock: superp_paths_release() is not over before the route is gone. */
	superp_route_cache_clear(&path->route);
	spin_unlock_bh(&superp_paths_lock);
	netdev_put(path->dev, &path->dev_tracker);
	kfree(path);
}

/**
 * superp_paths_detach - have paths forget their namespace, which is being taken down
 * @paths: the list of its paths
 *
 * From a grace period later on, paths that are left send nothing over UDP and look up no route.
 *
 * Context: process.
 */
void superp_paths_detach(struct list_head *paths)
{
	struct superp_path *path;

	spin_lock_bh(&superp_paths_lock);
	list_for_each_entry(path, paths, list)
		WRITE_ONCE(path->net, NULL);
	spin_unlock_bh(&superp_paths_lock);
}

/**
 * superp_paths_release - free the routes of paths whose namespace is being taken down
 * @paths: the list of its paths, empty afterwards
 *
 * The operations of a route belong to the namespace.
 *
 * Context: process; a grace period after superp_paths_detach().
 */
void superp_paths_release(struct list_head *paths)
{
	struct superp_path *path, *next;

	spin_lock_bh(&superp_paths_lock);
	list_for_each_entry_safe(path, next, paths, list) {
		list_del_init(&path->list);
		superp_route_cache_clear(&path->route);
	}
	spin_unlock_bh(&superp_paths_lock);
}

/**
 * superp_path_mtu - longest packet of a path
 * @path: the path
 *
 * Context: process or softirq.
 * Return: bytes behind the headers that the path adds; 0 without a route.
 */
u32 superp_path_mtu(struct superp_path *path)
{
	const struct superp_route *route;
	u32 mtu = 0;

	if (path->config.encap == SUPERP_PATH_ETHER)
		return superp_path_ether_mtu(path);
	rcu_read_lock();
	route = superp_path_route(path);
	if (!IS_ERR(route))
		mtu = superp_path_udp_mtu(path, route);
	rcu_read_unlock();
	return mtu;
}

/**
 * superp_path_was_narrow - whether packets have been sent in IP fragments
 * @path: the path
 *
 * Context: any; not concurrently with superp_path_xmit() of the same path.
 * Return: whether a packet was longer than superp_path_mtu() since the last call.
 */
bool superp_path_was_narrow(struct superp_path *path)
{
	if (!READ_ONCE(path->fragmented))
		return false;
	WRITE_ONCE(path->fragmented, false);
	return true;
}

/**
 * superp_path_headroom - bytes of headers in front of a packet
 * @path: the path
 *
 * Context: any.
 * Return: bytes, link-layer header included.
 */
u32 superp_path_headroom(const struct superp_path *path)
{
	return READ_ONCE(path->headroom);
}

/* Sends a frame that begins with its network header; skb->protocol is set. */
static int superp_path_output_ether(struct superp_path *path, struct sk_buff *skb)
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
	/* The neighbour's cached header has the EtherType of IP, so do not use it. */
	err = neigh_output(neigh, skb, true);
	rcu_read_unlock();
	return err > 0 ? net_xmit_errno(err) : err;

drop:
	kfree_skb(skb);
	return err;
}

/* Pushes the network header in front of a packet or a run. */
static int superp_path_push_header(struct superp_path *path, struct sk_buff *skb, u16 entropy)
{
	const struct superp_path_config *config = &path->config;
	u8 *header;
	int err;

	if (superp_run_packet_len(skb) > superp_path_ether_mtu(path))
		return -EMSGSIZE;
	err = skb_cow_head(skb, path->headroom);
	if (err)
		return err;
	header = skb_push(skb, config->header_len);
	if (skb_is_gso(skb))
		skb_shinfo(skb)->gso_size += config->header_len;
	memcpy(header, config->header, config->header_len);
	entropy &= config->entropy_mask;
	header[config->entropy_offset] ^= entropy >> 8;
	header[config->entropy_offset + 1] ^= entropy & 0xff;
	skb_reset_network_header(skb);
	/* Qdiscs count the bytes up to the transport header for each packet of a burst. */
	skb_reset_transport_header(skb);
	return 0;
}

/*
 * Whether the device is one that can send. A device that has moved to another namespace sends
 * nothing for this one, though the path may still have it for a moment.
 */
static bool superp_path_dev_ready(const struct superp_path *path)
{
	return netif_running(path->dev) && dev_net(path->dev) == READ_ONCE(path->net);
}

static int superp_path_xmit_ether(struct superp_path *path, struct sk_buff *head, u16 entropy)
{
	struct net_device *dev = path->dev;
	struct sk_buff *skb;
	int err;

	err = -ENETDOWN;
	if (!superp_path_dev_ready(path))
		goto drop;
	superp_path_cache_headroom(path, LL_RESERVED_SPACE(dev) + path->config.header_len);
	for (skb = head; skb; skb = skb->next) {
		err = superp_path_push_header(path, skb, entropy);
		if (err)
			goto drop;
	}
	if (head->next || skb_is_gso(head))
		superp_burst_join_frames(head);
	head->protocol = htons(path->config.ethertype);
	return superp_path_output_ether(path, head);

drop:
	kfree_skb_list(head);
	return err;
}

/*
 * Whether the qdisc passes bursts on whole. One that limits the rate may segment a burst, drop some
 * of the packets and not report it. A qdisc that packets bypass when it is empty does not do that.
 */
static bool superp_path_qdisc_passes_bursts(const struct net_device *dev)
{
	const struct Qdisc *queue = rcu_dereference_bh(netdev_get_tx_queue(dev, 0)->qdisc);

	return !queue->enqueue || queue->flags & TCQ_F_CAN_BYPASS;
}

static u32 superp_path_dev_burst(const struct net_device *dev)
{
	u32 native = dev->features & NETIF_F_GSO_FRAGLIST ? SUPERP_PATH_NATIVE_BURST : 0;
	u32 size, packets;

	if (!(dev->features & NETIF_F_GSO) || !superp_path_qdisc_passes_bursts(dev))
		return native | 1;
	size = min3(READ_ONCE(dev->gso_max_size), READ_ONCE(dev->gso_ipv4_max_size),
		    (u32)GSO_LEGACY_MAX_SIZE);
	size = superp_path_payload_mtu(size, LL_RESERVED_SPACE(dev) + 1);
	packets = min(size / max(READ_ONCE(dev->mtu), 1u), (u32)READ_ONCE(dev->gso_max_segs));
	return native | max(packets, 1u);
}

/* Caches the burst parameters of the route in use, because the next burst most likely uses it. */
static void superp_path_cache_burst(struct superp_path *path, const struct net_device *dev)
{
	u32 burst = superp_path_dev_burst(dev);

	if (READ_ONCE(path->burst) != burst)
		WRITE_ONCE(path->burst, burst);
}

static void superp_path_update_burst(struct superp_path *path)
{
	const struct superp_route *route;

	rcu_read_lock();
	route = superp_path_route(path);
	if (!IS_ERR(route))
		superp_path_cache_burst(path, dst_dev(route->dst));
	rcu_read_unlock();
}

/**
 * superp_path_burst - most packets that superp_path_xmit() should send in one call
 * @path: the path
 * @native: returns whether the device takes bursts as they are, without segmentation
 *
 * Over UDP, both are those of the route that was used last, so they lag behind a change of route.
 *
 * Context: process or softirq, bottom halves off.
 * Return: number of packets, at least 1.
 */
u32 superp_path_burst(struct superp_path *path, bool *native)
{
	u32 burst;

	if (path->config.encap == SUPERP_PATH_ETHER) {
		burst = superp_path_dev_burst(path->dev);
	} else {
		if (!READ_ONCE(path->burst))
			superp_path_update_burst(path);
		burst = READ_ONCE(path->burst);
	}
	*native = burst & SUPERP_PATH_NATIVE_BURST;
	return max(burst & ~SUPERP_PATH_NATIVE_BURST, 1u);
}

/**
 * superp_path_up - whether the device of a path can send
 * @path: the path
 * @len: bytes of a packet that must fit into one frame, or 0; ignored over UDP,
 *       where IP fragments what does not fit
 *
 * Context: any.
 * Return: whether it can; always true for a path without a device, whose route decides.
 */
bool superp_path_up(const struct superp_path *path, u32 len)
{
	const struct net_device *dev = path->dev;

	return !dev || (superp_path_dev_ready(path) && netif_carrier_ok(dev) &&
			(path->config.encap != SUPERP_PATH_ETHER ||
			 superp_path_ether_mtu(path) >= len));
}

/* Removes the state of reception from a packet that is forwarded. */
static void superp_path_scrub(struct sk_buff *skb, u8 tclass, u32 hash)
{
	skb_scrub_packet(skb, false);
	skb_clear_tstamp(skb);
	skb->priority = rt_tos2priority(tclass);
	__skb_set_sw_hash(skb, hash, true);
}

/**
 * superp_path_forward - forward a received frame
 * @path: a path of frames to the next hop
 * @skb: the packet, consumed; its data begins behind the network header
 * @ethertype: EtherType to send, host byte order
 * @tclass: traffic class in @header
 * @header: the network header to send, as long as that of the path
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno as superp_path_xmit(); -EINVAL for a burst or run.
 */
int superp_path_forward(struct superp_path *path, struct sk_buff *skb, u16 ethertype, u8 tclass,
			const u8 *header)
{
	u32 header_len = path->config.header_len;
	struct net_device *dev = path->dev;
	int err;

	err = -EINVAL;
	if (skb_is_gso(skb))
		goto drop;
	err = -ENETDOWN;
	if (!superp_path_dev_ready(path))
		goto drop;
	err = -EMSGSIZE;
	if (skb->len > superp_path_ether_mtu(path))
		goto drop;
	err = skb_cow_head(skb, LL_RESERVED_SPACE(dev) + header_len);
	if (err)
		goto drop;

	memcpy(skb_push(skb, header_len), header, header_len);
	skb_reset_network_header(skb);
	skb->protocol = htons(ethertype);
	superp_path_scrub(skb, tclass, jhash(header, header_len, 0));
	return superp_path_output_ether(path, skb);

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
 * The next two functions do the same as udp_tunnel_xmit_skb() and udp_tunnel6_xmit_skb(), which do
 * not report whether the device's queue took the packet.
 */
static int superp_path_output4(struct superp_path *path, struct net *net, struct sk_buff *skb,
			       const struct in6_addr *source, const struct superp_udp_ip *header)
{
	__be32 saddr = source->s6_addr32[3], daddr = path->remote.s6_addr32[3];
	const struct dst_entry *dst = skb_dst(skb);
	struct iphdr *ip;

	superp_path_push_udp(path, skb, header);
	udp_hdr(skb)->check = ~udp_v4_check(skb->len, saddr, daddr, 0);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	ip = __skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip->version = 4;
	ip->ihl = sizeof(*ip) >> 2;
	ip->frag_off = ip_mtu_locked(dst) ? 0 : htons(IP_DF);
	ip->protocol = IPPROTO_UDP;
	ip->tos = header->tclass;
	ip->ttl = header->hop_limit ? : ip4_dst_hoplimit(dst);
	ip->saddr = saddr;
	ip->daddr = daddr;
	ip_select_ident_segs(net, skb, NULL, skb_shinfo(skb)->gso_segs ? : 1);
	return ip_local_out(net, NULL, skb);
}

static int superp_path_output6(struct superp_path *path, struct net *net, struct sk_buff *skb,
			       const struct in6_addr *source, const struct superp_udp_ip *header)
{
	struct ipv6hdr *ip;

	superp_path_push_udp(path, skb, header);
	udp_hdr(skb)->check = ~udp_v6_check(skb->len, source, &path->remote, 0);
	ip = __skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip, header->tclass, htonl(header->flow_label));
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = header->hop_limit ? : ip6_dst_hoplimit(skb_dst(skb));
	ip->saddr = *source;
	ip->daddr = path->remote;
	memset(skb->cb, 0, sizeof(struct inet6_skb_parm));
	return ip6_local_out(net, NULL, skb);
}

/*
 * Makes one burst of a list of packets, which have headroom, for a route. Returns -EMSGSIZE, and
 * changes nothing, if a packet or the whole burst is too long for the route.
 */
static int superp_path_join_udp(struct superp_path *path, struct sk_buff *head,
				const struct superp_route *route)
{
	u32 mtu = superp_path_udp_mtu(path, route), headers = superp_path_headers(path), len = 0;
	struct net_device *dev = dst_dev(route->dst);
	struct sk_buff *skb;

	superp_path_cache_burst(path, dev);
	if (!head->next && !skb_is_gso(head))
		return head->len > mtu ? -EMSGSIZE : 0;
	for (skb = head; skb; skb = skb->next) {
		if (superp_run_packet_len(skb) > mtu)
			return -EMSGSIZE;
		len += skb->len;
	}
	/* The MTU may have grown since superp_path_burst() was called. */
	if (len > IP_MAX_MTU - headers)
		return -EMSGSIZE;
	superp_burst_join_udp(head, dev);
	return 0;
}

static int superp_path_output_udp(struct superp_path *path, struct net *net, struct sk_buff *skb,
				  const struct superp_route *route,
				  const struct superp_udp_ip *header)
{
	const struct in6_addr *source = (const struct in6_addr *)header->source;
	int err;

	err = skb_cow_head(skb, LL_RESERVED_SPACE(dst_dev(route->dst)) + route->dst->header_len +
				superp_path_headers(path));
	if (err) {
		kfree_skb(skb);
		return err;
	}
	skb_set_dst_pending_confirm(skb, superp_path_take_confirmed(path));
	skb_dst_set_noref(skb, route->dst);
	if (ipv6_addr_any(source))
		source = &route->source;
	err = path->config.encap == SUPERP_PATH_UDP4 ?
		      superp_path_output4(path, net, skb, source, header) :
		      superp_path_output6(path, net, skb, source, header);
	return err > 0 ? net_xmit_errno(err) : err;
}

/*
 * Sends packets that are longer than the MTU has become, as IP fragments. They cannot be cut again,
 * because a retransmission carries what the first packet carried. Each entry is sent alone, because
 * IP assumes that all fragments of a burst have the same length.
 */
static int superp_path_output_fragments(struct superp_path *path, struct net *net,
					struct sk_buff *list,
					const struct superp_route *route,
					const struct superp_udp_ip *header)
{
	u32 max_len = IP_MAX_MTU - superp_path_headers(path);
	struct sk_buff *skb, *next;
	int err = 0;

	WRITE_ONCE(path->fragmented, true);
	skb_list_walk_safe(list, skb, next) {
		skb_mark_not_on_list(skb);
		/* The run was made before the MTU grew, and is too long for one IP packet. */
		if (skb->len > max_len) {
			kfree_skb(skb);
			err = -EMSGSIZE;
			continue;
		}
		if (skb_is_gso(skb))
			superp_burst_join_udp(skb, dst_dev(route->dst));
		skb->ignore_df = 1;
		err = superp_path_output_udp(path, net, skb, route, header) ? : err;
	}
	return err;
}

/*
 * Sends packets over UDP to the destination of the path. A zero source in @header is replaced by
 * the one that the route chose. @local: whether the packets are from this host, and may be sent in
 * fragments; forwarded ones may not.
 */
static int superp_path_xmit_udp(struct superp_path *path, struct sk_buff *skb,
				const struct superp_udp_ip *header, bool local)
{
	const struct superp_route *route;
	struct net *net;
	int err;

	rcu_read_lock();
	/* The namespace may be taken down any time. It stays until the end of this section. */
	net = READ_ONCE(path->net);
	route = net ? superp_path_route(path) : ERR_PTR(-ENETDOWN);
	err = IS_ERR(route) ? PTR_ERR(route) : superp_path_join_udp(path, skb, route);
	if (!err)
		err = superp_path_output_udp(path, net, skb, route, header);
	else if (err == -EMSGSIZE && local && !IS_ERR(route))
		err = superp_path_output_fragments(path, net, skb, route, header);
	else
		kfree_skb_list(skb);
	rcu_read_unlock();
	return err;
}

/**
 * superp_path_forward_udp - forward a received packet over UDP
 * @path: a UDP path to the destination
 * @skb: the packet, consumed; its data begins behind the UDP header
 * @header: fields of the headers to send; the destination is that of the path, the source need not
 *          be a local address
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno as superp_path_xmit(); -EINVAL for a burst or run.
 */
int superp_path_forward_udp(struct superp_path *path, struct sk_buff *skb,
			    const struct superp_udp_ip *header)
{
	if (skb_is_gso(skb)) {
		kfree_skb(skb);
		return -EINVAL;
	}
	/* Traffic Class and Hop Limit are no part of the flow, so the hash leaves them out. */
	superp_path_scrub(skb, header->tclass,
			  jhash(header, offsetof(struct superp_udp_ip, tclass), 0));
	return superp_path_xmit_udp(path, skb, header, false);
}

/**
 * superp_path_xmit - send packets
 * @path: the path
 * @skb: list of packets and runs without headers of the path, consumed; together no more packets
 *       than superp_path_burst() returns
 * @entropy: XORed into flow label and UDP source port, so that the network sees another flow; 0 for
 *           the path's own flow
 *
 * Packets that the stack loops back into this namespace are queued, and not received before this
 * function returns. The caller may therefore hold locks that reception takes.
 *
 * Context: process or softirq, bottom halves off.
 * Return: 0 or a negative errno for all packets. -EMSGSIZE: longer than superp_path_mtu(); over
 * UDP, longer than an IP datagram can be. -ENETDOWN, -ENOMEM. -ENOBUFS: the queue of the device was
 * full. Otherwise that of a route lookup.
 */
int superp_path_xmit(struct superp_path *path, struct sk_buff *skb, u16 entropy)
{
	const struct superp_path_config *config = &path->config;
	/* Source ports are dynamic ones [RFC 6335]: the two upper bits stay set. */
	struct superp_udp_ip header = {
		.flow_label = config->flow_label ^ entropy,
		.sport = config->sport ^ (entropy & 0x3fff),
		.tclass = config->tclass,
		.hop_limit = config->hop_limit,
	};

	skb->priority = path->priority;
	__skb_set_sw_hash(skb, path->hash ^ hash_32(entropy, 32), true);
	return config->encap == SUPERP_PATH_ETHER ? superp_path_xmit_ether(path, skb, entropy) :
						   superp_path_xmit_udp(path, skb, &header, true);
}
