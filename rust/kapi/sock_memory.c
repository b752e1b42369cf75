// SPDX-License-Identifier: GPL-2.0
/*
 * What messages of a socket may take of memory, and whom those that wait to be read are charged to.
 */
#include <linux/skbuff.h>
#include <net/sock.h>

#include "kapi_sock.h"

/* Bytes that stay charged to the memory cgroup of a socket when its messages are read. */
#define SUPERP_SOCK_SPARE (16 * PAGE_SIZE)

/**
 * superp_sock_sndbuf - SO_SNDBUF
 * @sk: the socket
 *
 * Context: any.
 * Return: bytes.
 */
int superp_sock_sndbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_sndbuf);
}

/**
 * superp_sock_full - whether SO_RCVBUF is full
 * @sk: the socket
 * @parts: memory of messages to the socket that are not complete, in bytes
 *
 * A message is accepted if those before it take less memory than the limit. So a message that is
 * larger than the limit can be received.
 *
 * Context: any.
 * Return: whether a message would be refused.
 */
bool superp_sock_full(const struct sock *sk, size_t parts)
{
	int limit = READ_ONCE(sk->sk_rcvbuf);

	return parts >= limit || atomic_read(&sk->sk_rmem_alloc) >= limit - (int)parts;
}

/*
 * Destructor of a message in the receive queue. Up to SUPERP_SOCK_SPARE bytes stay charged to the
 * memory cgroup, for the next messages.
 */
static void superp_sock_uncharge(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	int spare;

	atomic_sub(skb->truesize, &sk->sk_rmem_alloc);
	spin_lock_bh(&sk->sk_receive_queue.lock);
	sk_forward_alloc_add(sk, skb->truesize);
	spare = sk->sk_forward_alloc;
	if (spare > SUPERP_SOCK_SPARE)
		__sk_mem_reclaim(sk, spare - SUPERP_SOCK_SPARE);
	spin_unlock_bh(&sk->sk_receive_queue.lock);
}

/**
 * superp_sock_charge - charge a message to SO_RCVBUF and to the memory cgroup of the socket
 * @sk: the socket
 * @skb: the message, without an owner; afterwards its destructor takes the charge back
 *
 * In softirq the memory cgroup takes it beyond its limit, as from TCP and UDP. The sum stays within
 * an int, so it cannot become negative and the limit void.
 *
 * Context: any up to softirq. The lock of the receive queue is held, because several connections
 * may deliver at a time.
 * Return: whether SO_RCVBUF was not full, and there was memory.
 */
bool superp_sock_charge(struct sock *sk, struct sk_buff *skb)
{
	int used = atomic_read(&sk->sk_rmem_alloc), more;

	if (used >= READ_ONCE(sk->sk_rcvbuf) ||
	    skb->truesize > INT_MAX - SUPERP_SOCK_SPARE - PAGE_SIZE - used)
		return false;
	more = (int)skb->truesize - sk->sk_forward_alloc;
	if (more > 0 && !__sk_mem_schedule(sk, more, SK_MEM_RECV))
		return false;
	sk_forward_alloc_add(sk, -(int)skb->truesize);
	atomic_add(skb->truesize, &sk->sk_rmem_alloc);
	skb->sk = sk;
	skb->destructor = superp_sock_uncharge;
	return true;
}

/**
 * superp_sock_received - memory of the messages in the receive queue
 * @sk: the socket
 *
 * Context: any.
 * Return: bytes.
 */
unsigned int superp_sock_received(const struct sock *sk)
{
	return sk_rmem_alloc_get(sk);
}
