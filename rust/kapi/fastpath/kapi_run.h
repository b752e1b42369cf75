/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_RUN_H
#define _SUPERP_KAPI_RUN_H

#include <linux/types.h>

struct sk_buff;

/**
 * struct superp_run - layout of the packets of a run in one sk_buff
 * @count: number of packets; 0 if the sk_buff is a single packet
 * @headers: bytes of headers of each packet
 * @size: bytes of data of each packet; the last packet may have fewer
 *
 * The headers of all packets come first, then the data of all. Bytes that each packet begins with
 * may be in front of both.
 */
struct superp_run {
	u32 count;
	u32 headers;
	u32 size;
};

int superp_run_add(struct sk_buff *skb, const u8 *headers, u32 len, u32 packet_len);
void superp_run_trim(struct sk_buff *skb, u32 len);
u32 superp_run_count(const struct sk_buff *skb);
u32 superp_run_packet_len(const struct sk_buff *skb);
bool superp_run_layout(const struct sk_buff *skb, u32 common, u32 count, u32 packet_len,
		       struct superp_run *run);
bool superp_run_note(struct sk_buff *skb, u32 common);
const struct superp_run *superp_run_noted(const struct sk_buff *skb);
struct sk_buff *superp_run_part(const struct sk_buff *skb, u32 common, u32 i);
struct sk_buff *superp_run_split(const struct sk_buff *skb, u32 common,
				 const struct superp_run *run, u64 features,
				 struct sk_buff **last);

/*
 * Implemented in Rust, by headers_len! of run.rs. Returns the bytes of headers at @start, according to
 * these headers.
 */
u32 superp_rust_headers_len(const u8 *start, u32 len);

#endif /* _SUPERP_KAPI_RUN_H */
