// SPDX-License-Identifier: GPL-2.0
/*
 * AF_SUPERP sockets: operation tables, queues of struct sock, and the copying of messages from and
 * to user memory. What a socket is bound and connected to, and what it sends, is decided in Rust
 * (ProtoOps in sock.rs).
 */
#include <linux/compat.h>
#include <linux/filter.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/skbuff.h>
#include <linux/sockios.h>
#include <linux/uaccess.h>
#include <net/sock.h>
#include <net/tcp_states.h>
#include <asm/ioctls.h>

#include "kapi_ring.h"
#include "kapi_sock.h"

/**
 * struct superp_sock - a socket of the family
 * @sk: must be first
 * @state: the Rust half, from create() to release()
 */
struct superp_sock {
	struct sock	sk;
	void		*state;
};

/* A completion in the control block of its buffer: the control message that reports it. */
struct superp_sock_completion {
	int	level;
	int	type;
	u32	len;
	u8	data[SUPERP_SOCK_COMPLETION_MAX];
};

/* Flags that sendmsg() accepts; any other flag is an error. */
#define SUPERP_SEND_FLAGS \
	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR | MSG_CMSG_COMPAT | \
	 MSG_SPLICE_PAGES | MSG_BATCH)

static int superp_family __ro_after_init;

/**
 * superp_sock_state - the Rust half of a socket of either type
 * @sk: the socket
 *
 * Context: any, between create() and release().
 * Return: the Rust half.
 */
void *superp_sock_state(const struct sock *sk)
{
	return container_of_const(sk, struct superp_sock, sk)->state;
}

static struct superp_sock_meta *superp_meta(struct sk_buff *skb)
{
	sock_skb_cb_check_size(sizeof(struct superp_sock_meta));
	return (struct superp_sock_meta *)skb->cb;
}

static struct superp_sock_completion *superp_completion(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_sock_completion) > sizeof(skb->cb));
	return (struct superp_sock_completion *)skb->cb;
}

/**
 * superp_sock_end - release() of a socket of either type
 * @sock: the socket
 * @release: releases the Rust half; after it no completion or message finds the socket
 *
 * Context: process.
 * Return: 0.
 */
int superp_sock_end(struct socket *sock, void (*release)(void *state))
{
	struct sock *sk = sock->sk;

	if (!sk)
		return 0;
	release(superp_sock_state(sk));
	lock_sock(sk);
	sock_orphan(sk);
	sock->sk = NULL;
	release_sock(sk);
	sock_put(sk);
	return 0;
}

static int superp_release(struct socket *sock)
{
	return superp_sock_end(sock, superp_rust_sock_release);
}

/* sk_destruct(), a grace period after the last reference (SOCK_RCU_FREE): nobody queues then. */
static void superp_destruct(struct sock *sk)
{
	skb_queue_purge(&sk->sk_receive_queue);
	skb_queue_purge(&sk->sk_error_queue);
	sk_mem_reclaim_final(sk);
}

static int superp_bind(struct socket *sock, struct sockaddr_unsized *addr,
		       int len)
{
	return superp_rust_sock_bind(superp_sock_state(sock->sk), addr, len);
}

static int superp_connect(struct socket *sock, struct sockaddr_unsized *addr,
			  int len, int flags)
{
	const void *state = superp_sock_state(sock->sk);

	if (len < (int)offsetofend(struct sockaddr, sa_family))
		return -EINVAL;
	if (addr->sa_family == AF_UNSPEC) {
		superp_rust_sock_disconnect(state);
		return 0;
	}
	return superp_rust_sock_connect(state, addr, len);
}

static int superp_getname(struct socket *sock, struct sockaddr *addr, int peer)
{
	return superp_rust_sock_getname(superp_sock_state(sock->sk), peer, addr);
}

static __poll_t superp_poll(struct file *file, struct socket *sock,
			    poll_table *wait)
{
	/* Always reports EPOLLOUT, because the family does not use sk_wmem_alloc. */
	__poll_t mask = datagram_poll(file, sock, wait);

	if (!superp_rust_sock_writable(superp_sock_state(sock->sk)))
		mask &= ~(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
	return mask;
}

static int superp_ioctl(struct socket *sock, unsigned int cmd,
			unsigned long arg)
{
	struct sock *sk = sock->sk;
	struct sk_buff *skb;
	int amount = 0;

	switch (cmd) {
	case SIOCINQ:
		spin_lock_bh(&sk->sk_receive_queue.lock);
		skb = skb_peek(&sk->sk_receive_queue);
		if (skb)
			amount = skb->len;
		spin_unlock_bh(&sk->sk_receive_queue.lock);
		return put_user(amount, (int __user *)arg);
	case SIOCOUTQ:
		amount = superp_rust_sock_queued(superp_sock_state(sk));
		return put_user(amount, (int __user *)arg);
	default:
		return superp_rust_sock_ioctl(superp_sock_state(sk), cmd, arg);
	}
}

#ifdef CONFIG_COMPAT
static int superp_compat_ioctl(struct socket *sock, unsigned int cmd,
			       unsigned long arg)
{
	return superp_ioctl(sock, cmd, (unsigned long)compat_ptr(arg));
}
#endif

static int superp_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;

	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	lock_sock(sk);
	/* how + 1 maps SHUT_RD, SHUT_WR, SHUT_RDWR to the bits RCV_SHUTDOWN and SEND_SHUTDOWN. */
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | (how + 1));
	sk->sk_state_change(sk);
	release_sock(sk);
	return 0;
}

static int superp_setsockopt(struct socket *sock, int level, int optname,
			     sockptr_t optval, unsigned int optlen)
{
	return -ENOPROTOOPT;
}

static int superp_getsockopt(struct socket *sock, int level, int optname,
			     char __user *optval, int __user *optlen)
{
	return -ENOPROTOOPT;
}

static int superp_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct superp_sock_send send = {
		.sk = sock->sk,
		.msg = msg,
		.data = &msg->msg_iter,
		.len = len,
		.name = msg->msg_name,
		.name_len = msg->msg_name ? msg->msg_namelen : 0,
		.cmsg = msg->msg_controllen ? CMSG_FIRSTHDR(msg) : NULL,
		.flags = msg->msg_flags,
		.nonblock = msg->msg_flags & MSG_DONTWAIT,
	};

	if (msg->msg_flags & ~SUPERP_SEND_FLAGS)
		return -EOPNOTSUPP;
	return superp_rust_sock_send(superp_sock_state(sock->sk), &send);
}

/**
 * superp_sock_cmsg - read a control message of a sendmsg() call
 * @msg: the message header; its control messages are in kernel memory
 * @cmsg: the control message; returns the next one, or NULL
 * @out: returns the content, valid as long as @msg
 *
 * Context: process.
 * Return: 0; -EINVAL if the length of the control message is wrong.
 */
int superp_sock_cmsg(struct msghdr *msg, struct cmsghdr **cmsg, struct superp_sock_cmsg *out)
{
	struct cmsghdr *own = *cmsg;

	if (!CMSG_OK(msg, own))
		return -EINVAL;
	out->level = own->cmsg_level;
	out->type = own->cmsg_type;
	out->data = CMSG_DATA(own);
	out->len = own->cmsg_len - sizeof(*own);
	*cmsg = CMSG_NXTHDR(msg, own);
	return 0;
}

/**
 * superp_sock_put_cmsg - return a control message from recvmsg()
 * @msg: the message header
 * @level: level of the control message
 * @type: type of the control message
 * @data: content
 * @len: bytes of content
 *
 * If the control buffer of the program is too small, put_cmsg() sets MSG_CTRUNC.
 *
 * Context: process.
 */
void superp_sock_put_cmsg(struct msghdr *msg, int level, int type, const void *data, size_t len)
{
	/* put_cmsg() does not change the content. */
	put_cmsg(msg, level, type, len, (void *)data);
}

static int superp_recv_completion(struct sock *sk, struct msghdr *msg)
{
	struct superp_sock_completion *completion;
	struct sk_buff *skb;
	int err;

	skb = skb_dequeue(&sk->sk_error_queue);
	if (!skb)
		return -EAGAIN;
	completion = superp_completion(skb);
	err = put_cmsg(msg, completion->level, completion->type, completion->len,
		       completion->data);
	/* If the control buffer is too small, the completion goes back to the head of the queue. */
	if (!err && (msg->msg_flags & MSG_CTRUNC))
		err = -EMSGSIZE;
	if (err) {
		skb_queue_head(&sk->sk_error_queue, skb);
		return err;
	}
	msg->msg_flags |= MSG_ERRQUEUE;
	consume_skb(skb);
	return 0;
}

static int superp_recvmsg(struct socket *sock, struct msghdr *msg, size_t len,
			  int flags)
{
	struct sock *sk = sock->sk;
	struct sk_buff *skb;
	size_t copied;
	int err;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (flags & MSG_ERRQUEUE)
		return superp_recv_completion(sk, msg);

	/* NULL without an error: the socket is shut down for receiving. */
	skb = skb_recv_datagram(sk, flags, &err);
	if (!skb)
		return err;

	copied = skb->len;
	if (copied > len) {
		copied = len;
		msg->msg_flags |= MSG_TRUNC;
	}
	err = skb_copy_datagram_msg(skb, 0, msg, copied);
	if (err)
		goto out;
	sock_recv_cmsgs(msg, sk, skb);
	err = superp_rust_sock_received(superp_sock_state(sk), msg, superp_meta(skb),
					msg->msg_name);
	if (msg->msg_name)
		msg->msg_namelen = err;
	/* Distinguishes an empty message from the end of reception. */
	msg->msg_flags |= MSG_EOR;
	err = flags & MSG_TRUNC ? skb->len : copied;
out:
	skb_free_datagram(sk, skb);
	return err;
}

/*
 * With these the memory of received messages is charged to the memory cgroup in which the socket
 * was made. There is no limit for all sockets together: one user would use it up for the others.
 */
static DEFINE_PER_CPU(int, superp_memory_per_cpu);
static atomic_long_t superp_memory;
static long superp_memory_limits[3] = { LONG_MAX, LONG_MAX, LONG_MAX };

static struct proto superp_proto = {
	.name			= "SUPERP",
	.owner			= THIS_MODULE,
	.obj_size		= sizeof(struct superp_sock),
	.memory_allocated	= &superp_memory,
	.per_cpu_fw_alloc	= &superp_memory_per_cpu,
	.sysctl_mem		= superp_memory_limits,
};

static struct proto_ops superp_ops __ro_after_init = {
	.owner		= THIS_MODULE,
	.release	= superp_release,
	.bind		= superp_bind,
	.connect	= superp_connect,
	.socketpair	= sock_no_socketpair,
	.accept		= sock_no_accept,
	.getname	= superp_getname,
	.poll		= superp_poll,
	.ioctl		= superp_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl	= superp_compat_ioctl,
#endif
	.gettstamp	= sock_gettstamp,
	.listen		= sock_no_listen,
	.shutdown	= superp_shutdown,
	.setsockopt	= superp_setsockopt,
	.getsockopt	= superp_getsockopt,
	.sendmsg	= superp_sendmsg,
	.recvmsg	= superp_recvmsg,
	.mmap		= sock_no_mmap,
};

static int superp_create(struct net *net, struct socket *sock, int protocol,
			 int kern)
{
	bool rings = sock->type == SOCK_RDM;
	struct sock *sk;
	void *state;

	if (sock->type != SOCK_SEQPACKET && !rings)
		return -ESOCKTNOSUPPORT;
	if (protocol)
		return -EPROTONOSUPPORT;

	sk = sk_alloc(net, superp_family, GFP_KERNEL, &superp_proto, kern);
	if (!sk)
		return -ENOMEM;
	sock_init_data(sock, sk);
	sk->sk_destruct = superp_destruct;
	sock_set_flag(sk, SOCK_RCU_FREE);

	state = rings ? superp_rust_ring_create(sk, net) : superp_rust_sock_create(sk, net);
	if (IS_ERR(state)) {
		/* sock_create() frees @sock, and must not find a socket without a Rust half. */
		sock_orphan(sk);
		sock->sk = NULL;
		sock_put(sk);
		return PTR_ERR(state);
	}
	container_of(sk, struct superp_sock, sk)->state = state;
	sock->ops = rings ? &superp_ring_ops : &superp_ops;
	return 0;
}

static struct net_proto_family superp_proto_family __ro_after_init = {
	.owner	= THIS_MODULE,
	.create	= superp_create,
};

/**
 * superp_sock_max_family - highest possible number of an address family
 *
 * Context: any.
 * Return: the number.
 */
int superp_sock_max_family(void)
{
	return AF_MAX - 1;
}

/**
 * superp_sock_register - register the address family
 * @family: number of the family
 *
 * Context: process, when the module is loaded.
 * Return: 0; -ENOBUFS if @family is not between 1 and superp_sock_max_family(); -EEXIST if it is in
 * use; -ENOMEM.
 */
int superp_sock_register(int family)
{
	int err;

	if (family <= AF_UNSPEC || family >= AF_MAX)
		return -ENOBUFS;
	superp_family = family;
	superp_ops.family = family;
	superp_ring_ops.family = family;
	superp_proto_family.family = family;
	err = proto_register(&superp_proto, 1);
	if (err)
		return err;
	err = sock_register(&superp_proto_family);
	if (err)
		proto_unregister(&superp_proto);
	return err;
}

/**
 * superp_sock_unregister - undo superp_sock_register()
 *
 * No socket exists, because each holds a reference to the module.
 *
 * Context: process, when the module is unloaded.
 */
void superp_sock_unregister(void)
{
	sock_unregister(superp_family);
	/* RCU callbacks free sockets into the slab cache that proto_unregister() destroys. */
	rcu_barrier();
	proto_unregister(&superp_proto);
}

/**
 * superp_sock_hold - take a reference
 * @sk: the socket, to which the caller has a reference
 *
 * Context: any.
 */
void superp_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

/**
 * superp_sock_put - drop a reference
 * @sk: the socket
 *
 * Context: any.
 */
void superp_sock_put(struct sock *sk)
{
	sock_put(sk);
}

/**
 * superp_sock_net - network namespace of a socket
 * @sk: the socket
 *
 * Context: any.
 * Return: the namespace, valid as long as @sk.
 */
struct net *superp_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

/**
 * superp_sock_uid - user that created the socket
 * @sk: the socket
 *
 * Context: any.
 * Return: number of the user in the initial user namespace.
 */
u32 superp_sock_uid(const struct sock *sk)
{
	return __kuid_val(sk_uid(sk));
}

/**
 * superp_sock_inode - inode number of the socket
 * @sk: the socket
 *
 * Context: any.
 * Return: the number that /proc/PID/fd shows; 0 once the socket is closed.
 */
u64 superp_sock_inode(const struct sock *sk)
{
	return sock_i_ino(sk);
}

/**
 * superp_sock_send_closed - whether sending has been shut down
 * @sk: the socket
 *
 * Context: any.
 * Return: whether it has.
 */
bool superp_sock_send_closed(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN;
}

/**
 * superp_sock_recv_closed - whether receiving has been shut down
 * @sk: the socket
 *
 * Context: any.
 * Return: whether it has.
 */
bool superp_sock_recv_closed(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN;
}

/**
 * superp_sock_error_queue_len - number of completions in the error queue
 * @sk: the socket
 *
 * Context: any.
 * Return: the number.
 */
unsigned int superp_sock_error_queue_len(const struct sock *sk)
{
	return skb_queue_len_lockless(&sk->sk_error_queue);
}

/**
 * superp_sock_take_error - read and clear the pending error
 * @sk: the socket
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int superp_sock_take_error(struct sock *sk)
{
	return sock_error(sk);
}

/**
 * superp_sock_pipe_error - error of a send after shutdown
 * @sk: the socket
 * @flags: MSG_* flags of the call; without MSG_NOSIGNAL, -EPIPE also raises SIGPIPE
 *
 * Context: process.
 * Return: the pending error, or -EPIPE.
 */
int superp_sock_pipe_error(struct sock *sk, unsigned int flags)
{
	return sk_stream_error(sk, flags, -EPIPE);
}

/**
 * superp_sock_set_error - set the pending error and wake all waiters
 * @sk: the socket
 * @err: positive errno
 *
 * Context: any up to softirq.
 */
void superp_sock_set_error(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
	sk_error_report(sk);
}

/**
 * superp_sock_set_bound - mark a socket as bound, so that it can receive
 * @sk: the socket
 *
 * The core distinguishes two values of sk_state for this family: TCP_CLOSE (recv() returns
 * ENOTCONN, poll() reports EPOLLHUP) and TCP_ESTABLISHED.
 *
 * Context: process.
 */
void superp_sock_set_bound(struct sock *sk)
{
	WRITE_ONCE(sk->sk_state, TCP_ESTABLISHED);
}

/**
 * superp_sock_sndtimeo - how long a send may wait
 * @sk: the socket
 * @nonblock: whether it must not wait
 *
 * Context: any.
 * Return: jiffies.
 */
long superp_sock_sndtimeo(const struct sock *sk, bool nonblock)
{
	return sock_sndtimeo(sk, nonblock);
}

/**
 * superp_sock_wait_space - sleep until a send can continue or fails
 * @sk: the socket, during one of its system calls
 * @timeo: jiffies left, updated
 *
 * Context: process, sleeps.
 * Return: 0 if there is space, an error is pending or sending was shut down; -EAGAIN after the
 * timeout; -ERESTARTSYS or -EINTR after a signal.
 */
int superp_sock_wait_space(struct sock *sk, long *timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	const void *state = superp_sock_state(sk);
	int err = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	while (!superp_rust_sock_writable(state) && !READ_ONCE(sk->sk_err) &&
	       !superp_sock_send_closed(sk)) {
		if (!*timeo) {
			err = -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			err = sock_intr_errno(*timeo);
			break;
		}
		*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}

/**
 * superp_sock_write_space - wake senders, because there is space again
 * @sk: the socket
 *
 * Context: any up to softirq.
 */
void superp_sock_write_space(struct sock *sk)
{
	sk->sk_write_space(sk);
}

/**
 * superp_sock_deliver - append a message to the receive queue
 * @sk: the socket
 * @skb: the message, consumed
 * @meta: metadata of the message, for superp_rust_sock_received()
 *
 * If the socket filter or the security module rejects the message, it is dropped and 0 is returned,
 * so that the sender does not notice, as in AF_UNIX.
 *
 * Context: any up to softirq, under RCU.
 * Return: 0; -ENOBUFS if SO_RCVBUF is full, if there is no memory, or if @skb is from memory
 * reserves (pfmemalloc); -ESHUTDOWN.
 */
int superp_sock_deliver(struct sock *sk, struct sk_buff *skb,
			const struct superp_sock_meta *meta)
{
	enum skb_drop_reason reason;
	int err = 0;

	if (superp_sock_recv_closed(sk)) {
		err = -ESHUTDOWN;
		goto drop;
	}
	if (superp_sock_full(sk, 0)) {
		err = -ENOBUFS;
		goto drop;
	}
	reason = sk_filter_reason(sk, skb);
	if (reason) {
		if (reason == SKB_DROP_REASON_PFMEMALLOC)
			err = -ENOBUFS;
		goto drop;
	}

	*superp_meta(skb) = *meta;
	skb->dev = NULL;
	skb_dst_drop(skb);
	skb_orphan(skb);
	sock_skb_set_dropcount(sk, skb);
	spin_lock_bh(&sk->sk_receive_queue.lock);
	/* The filter may have changed the size. */
	if (superp_sock_charge(sk, skb))
		__skb_queue_tail(&sk->sk_receive_queue, skb);
	else
		err = -ENOBUFS;
	spin_unlock_bh(&sk->sk_receive_queue.lock);
	if (err)
		goto drop;
	sk->sk_data_ready(sk);
	return 0;
drop:
	kfree_skb(skb);
	return err;
}

/**
 * superp_sock_complete - append a completion to the error queue
 * @sk: the socket
 * @skb: an empty buffer, consumed
 * @level: level of the control message that recvmsg() returns
 * @type: type of the control message
 * @data: content of the control message
 * @len: bytes of content, at most SUPERP_SOCK_COMPLETION_MAX
 *
 * The completion is not charged to SO_RCVBUF, because it must not be lost. The caller limits the
 * number of completions.
 *
 * Context: any up to softirq, under RCU.
 */
void superp_sock_complete(struct sock *sk, struct sk_buff *skb, int level, int type,
			  const void *data, u32 len)
{
	struct superp_sock_completion *completion = superp_completion(skb);

	completion->level = level;
	completion->type = type;
	completion->len = min(len, sizeof(completion->data));
	memcpy(completion->data, data, completion->len);
	skb_queue_tail(&sk->sk_error_queue, skb);
	sk_error_report(sk);
}
