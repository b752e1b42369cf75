/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_PATH_H
#define _SUPERP_KAPI_PATH_H

#include <linux/types.h>

struct net;
struct sk_buff;
struct superp_path;

#define SUPERP_PATH_SUNH	0
#define SUPERP_PATH_UDP4	1
#define SUPERP_PATH_UDP6	2

#define SUPERP_PATH_SUNH_SIZE	8

/**
 * struct superp_path_config - how the packets of a connection leave
 * @local: IP address, v4-mapped or IPv6; for UDP, zero is the kernel's choice
 * @remote: IP address, v4-mapped or IPv6
 * @ifindex: the device; required for SUNH and link-local addresses, else zero is the route's
 * @flow_label: of IPv6, 20 bits
 * @sport: UDP source port
 * @dport: UDP destination port
 * @ethertype: of SUNH
 * @encap: one of SUPERP_PATH_*
 * @tclass: IPv4 TOS, IPv6 Traffic Class
 * @hop_limit: IPv4 TTL, IPv6 Hop Limit; zero is the namespace's default
 * @has_mac: whether to send to @mac rather than to the neighbour @remote
 * @mac: destination of SUNH
 * @sunh: the SUNH header
 */
struct superp_path_config {
	u8 local[16];
	u8 remote[16];
	u32 ifindex;
	u32 flow_label;
	u16 sport;
	u16 dport;
	u16 ethertype;
	u8 encap;
	u8 tclass;
	u8 hop_limit;
	bool has_mac;
	u8 mac[6];
	u8 sunh[SUPERP_PATH_SUNH_SIZE];
};

/**
 * struct superp_udp_ip - what the headers of UDP and IP say, less what is the same for all packets
 * @source: IP address, v4-mapped or IPv6
 * @destination: IP address
 * @flow_label: of IPv6, 20 bits
 * @sport: UDP source port
 * @tclass: IPv4 TOS, IPv6 Traffic Class
 * @hop_limit: IPv4 TTL, IPv6 Hop Limit
 */
struct superp_udp_ip {
	u8 source[16];
	u8 destination[16];
	u32 flow_label;
	u16 sport;
	u8 tclass;
	u8 hop_limit;
};

struct superp_path *superp_path_new(struct net *net, const struct superp_path_config *config,
				    int *err);
void superp_path_free(struct superp_path *path);
void superp_path_resolve(struct superp_path *path);
void superp_path_confirm(struct superp_path *path);
void superp_path_suspect(struct superp_path *path);
u32 superp_path_mtu(struct superp_path *path);
bool superp_path_was_narrow(struct superp_path *path);
u32 superp_path_headroom(const struct superp_path *path);
u32 superp_path_burst(struct superp_path *path, bool *whole);
bool superp_path_up(const struct superp_path *path, u32 len);
int superp_path_forward(struct superp_path *path, struct sk_buff *skb, u16 ethertype,
			const u8 *sunh);
int superp_path_forward_udp(struct superp_path *path, struct sk_buff *skb,
			    const struct superp_udp_ip *header);
int superp_path_xmit(struct superp_path *path, struct sk_buff *skb, u16 entropy);

#endif /* _SUPERP_KAPI_PATH_H */
