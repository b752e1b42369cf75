// SPDX-License-Identifier: GPL-2.0
/*
 * What a protocol over Ethernet cannot beat: frames whose payload is pages of the sender, copied once at
 * the receiver, with nothing else done. No acknowledgment, no retransmission, no address of memory.
 *
 * Parameter "run" of the loaded module: writing "DEVICE SIZE PAYLOAD SPAN MS" sends messages of SIZE bytes,
 * in frames of at most PAYLOAD bytes, out of DEVICE of the writer's network namespace for MS milliseconds,
 * message after message from memory of SPAN bytes to the same place of another such memory. Reading it then
 * gives "MESSAGES BYTES NANOSECONDS". It fails with EIO if a frame was lost, with EBADMSG if the bytes of
 * both memories differ.
 *
 * With "answered" behind them a message is a single frame, the receiver sends an empty one back at once, and
 * the sender waits for that before it sends the next: the shortest round trip.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/etherdevice.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

/* IEEE Std 802, local experimental EtherType 2; SUPERp has the first. */
#define FRAMES_TYPE 0x88b6
#define FRAMES_HEADER 8
#define FRAMES_MAX_SPAN (64u << 20)
/* Frames that are sent before their receiver may run, and those that may wait for it. */
#define FRAMES_BURST 64
#define FRAMES_WAITING 512

struct frames_job {
	u32 size, payload, span;
	u8 *from, *to;
	struct page **pages;		/* of from */
	struct net_device *dev;
	bool answered;
	/* Frames that came to the receiver, and answers to the sender. */
	atomic_long_t received, answers;
};

static struct frames_job *frames_job;
static u64 frames_messages, frames_bytes, frames_ns;

static int frames_send(struct frames_job *job, struct net_device *dev, u32 at, u32 len)
{
	struct sk_buff *skb;
	u8 *header;

	skb = alloc_skb(LL_RESERVED_SPACE(dev) + FRAMES_HEADER + dev->needed_tailroom, GFP_ATOMIC);
	if (!skb)
		return -ENOMEM;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_reset_network_header(skb);
	header = skb_put(skb, FRAMES_HEADER);
	put_unaligned_be32(at, header);
	put_unaligned_be32(len, header + 4);
	while (len) {
		struct page *page = job->pages[at / PAGE_SIZE];
		u32 offset = offset_in_page(at), part = min_t(u32, len, PAGE_SIZE - offset);

		get_page(page);
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, offset, part, part);
		at += part;
		len -= part;
	}
	skb->dev = dev;
	skb->protocol = cpu_to_be16(FRAMES_TYPE);
	if (dev_hard_header(skb, dev, FRAMES_TYPE, dev->broadcast, NULL, skb->len) < 0) {
		kfree_skb(skb);
		return -EINVAL;
	}
	return dev_queue_xmit(skb) == NET_XMIT_SUCCESS ? 0 : -EIO;
}

static int frames_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			  struct net_device *orig_dev)
{
	struct frames_job *job = READ_ONCE(frames_job);
	u32 at, len;

	if (!job || skb->pkt_type == PACKET_OTHERHOST || !pskb_may_pull(skb, FRAMES_HEADER))
		goto drop;
	at = get_unaligned_be32(skb->data);
	len = get_unaligned_be32(skb->data + 4);
	if (dev == job->dev) {
		atomic_long_inc(&job->answers);
		goto taken;
	}
	if (at > job->span || len > job->span - at || len > skb->len - FRAMES_HEADER ||
	    skb_copy_bits(skb, FRAMES_HEADER, job->to + at, len))
		goto drop;
	atomic_long_inc(&job->received);
	if (job->answered)
		frames_send(job, dev, 0, 0);
taken:
	consume_skb(skb);
	return NET_RX_SUCCESS;
drop:
	kfree_skb(skb);
	return NET_RX_DROP;
}

static struct packet_type frames_type __read_mostly = {
	.type = cpu_to_be16(FRAMES_TYPE),
	.func = frames_receive,
};

/* Waits until at most this many of the sent frames have not come, or not been answered. */
static int frames_wait(struct frames_job *job, long sent, long waiting)
{
	atomic_long_t *count = job->answered ? &job->answers : &job->received;
	u64 end = ktime_get_ns() + NSEC_PER_SEC;

	while (sent - atomic_long_read(count) > waiting) {
		if (ktime_get_ns() > end)
			return -EIO;
		cond_resched();
	}
	return 0;
}

static int frames_go(struct frames_job *job, struct net_device *dev, u64 duration)
{
	u64 start = ktime_get_ns(), now = start, messages = 0;
	u32 at = 0, burst = 0;
	long sent = 0;
	int error = 0;

	while (now - start < duration && !error) {
		u32 left = job->size;

		if (!burst)
			local_bh_disable();
		while (left && !error) {
			u32 part = min(left, job->payload);

			error = frames_send(job, dev, at, part);
			at += part;
			left -= part;
			sent++;
			burst++;
		}
		messages++;
		if (job->span - at < job->size)
			at = 0;
		if (burst < FRAMES_BURST && !error && !job->answered)
			continue;
		burst = 0;
		local_bh_enable();
		if (!error)
			error = frames_wait(job, sent, job->answered ? 0 : FRAMES_WAITING);
		now = ktime_get_ns();
	}
	if (!error)
		error = frames_wait(job, sent, 0);
	frames_messages = messages;
	frames_bytes = messages * job->size;
	frames_ns = ktime_get_ns() - start;
	return error;
}

static int frames_set(const char *text, const struct kernel_param *param)
{
	char name[IFNAMSIZ], answered[sizeof("answered")];
	struct frames_job job = {};
	struct net_device *dev;
	u64 random = 1;
	u32 ms, i, used;
	int words, error;

	frames_messages = 0;
	frames_bytes = 0;
	frames_ns = 0;
	words = sscanf(text, "%15s %u %u %u %u %8s", name, &job.size, &job.payload, &job.span, &ms, answered);
	if (words < 5 || !job.size || !job.payload || job.size > job.span || job.span > FRAMES_MAX_SPAN)
		return -EINVAL;
	job.answered = words == 6;
	if (job.answered && (strcmp(answered, "answered") || job.size > job.payload))
		return -EINVAL;
	dev = dev_get_by_name(current->nsproxy->net_ns, name);
	if (!dev)
		return -ENODEV;
	error = -EMSGSIZE;
	if (dev->mtu < FRAMES_HEADER || job.payload > dev->mtu - FRAMES_HEADER ||
	    job.payload > (MAX_SKB_FRAGS - 1) * PAGE_SIZE)
		goto put;
	job.from = vzalloc(job.span);
	job.to = vzalloc(job.span);
	job.pages = kvcalloc(DIV_ROUND_UP(job.span, PAGE_SIZE), sizeof(*job.pages), GFP_KERNEL);
	error = -ENOMEM;
	if (!job.from || !job.to || !job.pages)
		goto free;
	for (i = 0; i < DIV_ROUND_UP(job.span, PAGE_SIZE); i++)
		job.pages[i] = vmalloc_to_page(job.from + i * PAGE_SIZE);
	for (i = 0; i + sizeof(random) <= job.span; i += sizeof(random)) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		put_unaligned(random, (u64 *)(job.from + i));
	}
	job.dev = dev;
	WRITE_ONCE(frames_job, &job);
	error = frames_go(&job, dev, (u64)ms * NSEC_PER_MSEC);
	WRITE_ONCE(frames_job, NULL);
	/* Nobody copies any more. */
	synchronize_net();
	used = min_t(u64, frames_messages, job.span / job.size) * job.size;
	if (!error && memcmp(job.from, job.to, used))
		error = -EBADMSG;
free:
	kvfree(job.pages);
	vfree(job.from);
	vfree(job.to);
put:
	dev_put(dev);
	return error;
}

static int frames_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%llu %llu %llu\n", frames_messages, frames_bytes, frames_ns);
}

static const struct kernel_param_ops frames_ops = {
	.set = frames_set,
	.get = frames_get,
};
module_param_cb(run, &frames_ops, NULL, 0600);
MODULE_PARM_DESC(run, "write DEVICE SIZE PAYLOAD SPAN MS [answered] to measure, read MESSAGES BYTES NANOSECONDS");

static int __init frames_init(void)
{
	dev_add_pack(&frames_type);
	return 0;
}

static void __exit frames_exit(void)
{
	dev_remove_pack(&frames_type);
}

module_init(frames_init);
module_exit(frames_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The fastest that frames of pages can be sent and copied");
