/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_PATH_H
#define _SUPERP_KAPI_PATH_H

#include <linux/types.h>

struct list_head;
struct net;
struct sk_buff;
struct superp_path;

#define SUPERP_PATH_ETHER	0
#define SUPERP_PATH_UDP4	1
#define SUPERP_PATH_UDP6	2

#define SUPERP_PATH_HEADER_MAX	16

/**
 * struct superp_path_config - encapsulation and addresses of the packets of a path
 * @local: source IP address, v4-mapped or IPv6; over UDP, zero leaves the choice to the route
 * @remote: destination IP address, v4-mapped or IPv6
 * @ifindex: index of the device; required for frames and for link-local addresses, otherwise 0
 *           leaves the choice to the route
 * @flow_label: IPv6 flow label, 20 bits
 * @sport: UDP source port, host byte order
 * @dport: UDP destination port, host byte order
 * @ethertype: EtherType of frames, host byte order
 * @entropy_mask: bits of the entropy that superp_path_xmit() XORs into @header
 * @encap: SUPERP_PATH_ETHER for frames with a network header of the caller, or _UDP4 or _UDP6
 * @tclass: IPv4 TOS, IPv6 Traffic Class
 * @hop_limit: IPv4 TTL, IPv6 Hop Limit; 0 is the default of the route or namespace
 * @has_mac: whether frames go to @mac rather than to the neighbour @remote
 * @mac: Ethernet destination of frames
 * @header_len: bytes of @header
 * @entropy_offset: offset in @header of the big-endian word of 16 bits that the entropy changes
 * @header: network header of frames
 */
struct superp_path_config {
	u8 local[16];
	u8 remote[16];
	u32 ifindex;
	u32 flow_label;
	u16 sport;
	u16 dport;
	u16 ethertype;
	u16 entropy_mask;
	u8 encap;
	u8 tclass;
	u8 hop_limit;
	bool has_mac;
	u8 mac[6];
	u8 header_len;
	u8 entropy_offset;
	u8 header[SUPERP_PATH_HEADER_MAX];
};

/**
 * struct superp_udp_ip - fields of the UDP and IP headers that differ between packets
 * @source: source IP address, v4-mapped or IPv6
 * @destination: destination IP address, v4-mapped or IPv6
 * @flow_label: IPv6 flow label, 20 bits; 0 over IPv4
 * @sport: UDP source port, host byte order
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
void superp_paths_detach(struct list_head *paths);
void superp_paths_release(struct list_head *paths);
void superp_path_resolve(struct superp_path *path);
void superp_path_confirm(struct superp_path *path);
void superp_path_suspect(struct superp_path *path);
u32 superp_path_mtu(struct superp_path *path);
bool superp_path_was_narrow(struct superp_path *path);
u32 superp_path_headroom(const struct superp_path *path);
u32 superp_path_burst(struct superp_path *path, bool *native);
bool superp_path_up(const struct superp_path *path, u32 len);
int superp_path_forward(struct superp_path *path, struct sk_buff *skb, u16 ethertype, u8 tclass,
			const u8 *header);
int superp_path_forward_udp(struct superp_path *path, struct sk_buff *skb,
			    const struct superp_udp_ip *header);
int superp_path_xmit(struct superp_path *path, struct sk_buff *skb, u16 entropy);

#endif /* _SUPERP_KAPI_PATH_H */
