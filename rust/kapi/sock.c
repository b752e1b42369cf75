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

static struct superp_sock_from *superp_from(struct sk_buff *skb)
{
	sock_skb_cb_check_size(sizeof(struct superp_sock_from));
	return (struct superp_sock_from *)skb->cb;
}

static struct superp_completion *superp_completion(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct superp_completion) > sizeof(skb->cb));
	return (struct superp_completion *)skb->cb;
}

/* Checks an address of the user. Nothing else checks its family, its flags and its range. */
static int superp_check_name(const void *name, int len,
			     struct sockaddr_superp *out)
{
	if (len < (int)sizeof(*out))
		return -EINVAL;
	memcpy(out, name, sizeof(*out));
	if (out->ssp_family != superp_family)
		return -EAFNOSUPPORT;
	if (out->ssp_flags || out->ssp_qpn > SUPERP_QPN_MAX)
		return -EINVAL;
	return 0;
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
}

static int superp_bind(struct socket *sock, struct sockaddr_unsized *addr,
		       int len)
{
	struct sockaddr_superp name;
	int err;

	err = superp_check_name(addr, len, &name);
	if (err)
		return err;
	return superp_rust_sock_bind(superp_sock_state(sock->sk), &name);
}

static int superp_connect(struct socket *sock, struct sockaddr_unsized *addr,
			  int len, int flags)
{
	const void *state = superp_sock_state(sock->sk);
	struct sockaddr_superp name;
	int err;

	if (len < (int)offsetofend(struct sockaddr, sa_family))
		return -EINVAL;
	if (addr->sa_family == AF_UNSPEC) {
		superp_rust_sock_disconnect(state);
		return 0;
	}
	err = superp_check_name(addr, len, &name);
	if (err)
		return err;
	return superp_rust_sock_connect(state, &name);
}

static int superp_getname(struct socket *sock, struct sockaddr *addr, int peer)
{
	struct sockaddr_superp *name = (struct sockaddr_superp *)addr;
	int err;

	memset(name, 0, sizeof(*name));
	err = superp_rust_sock_getname(superp_sock_state(sock->sk), peer, name);
	if (err)
		return err;
	name->ssp_family = superp_family;
	return sizeof(*name);
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

/* Parses control messages: at most one of each kind, and no unknown ones. */
static int superp_send_control(struct msghdr *msg,
			       struct superp_sock_send *send)
{
	struct superp_atomic atomic;
	struct cmsghdr *cmsg;

	for_each_cmsghdr(cmsg, msg) {
		bool *has = cmsg->cmsg_type == SUPERP_CMSG_IMM ? &send->has_imm :
			    cmsg->cmsg_type == SUPERP_CMSG_KEY ? &send->has_key : &send->has_rma;

		if (!CMSG_OK(msg, cmsg) || cmsg->cmsg_level != SOL_SUPERP || *has)
			return -EINVAL;
		if (cmsg->cmsg_type == SUPERP_CMSG_RMA &&
		    cmsg->cmsg_len == CMSG_LEN(sizeof(send->rma))) {
			memcpy(&send->rma, CMSG_DATA(cmsg), sizeof(send->rma));
		} else if (cmsg->cmsg_type == SUPERP_CMSG_ATOMIC &&
			   cmsg->cmsg_len == CMSG_LEN(sizeof(atomic))) {
			memcpy(&atomic, CMSG_DATA(cmsg), sizeof(atomic));
			send->rma = atomic.rma;
			send->operand = atomic.operand;
			send->compare = atomic.compare;
			send->atomic = true;
		} else if (cmsg->cmsg_type == SUPERP_CMSG_IMM &&
			   cmsg->cmsg_len == CMSG_LEN(sizeof(send->imm))) {
			memcpy(&send->imm, CMSG_DATA(cmsg), sizeof(send->imm));
		} else if (cmsg->cmsg_type == SUPERP_CMSG_KEY &&
			   cmsg->cmsg_len == CMSG_LEN(sizeof(send->key))) {
			memcpy(&send->key, CMSG_DATA(cmsg), sizeof(send->key));
		} else {
			return -EINVAL;
		}
		*has = true;
	}
	return 0;
}

static int superp_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct superp_sock_send send = {
		.data = &msg->msg_iter,
		.len = len,
		.flags = msg->msg_flags,
		.nonblock = msg->msg_flags & MSG_DONTWAIT,
	};
	int err;

	if (msg->msg_flags & ~SUPERP_SEND_FLAGS)
		return -EOPNOTSUPP;
	if (msg->msg_name) {
		err = superp_check_name(msg->msg_name, msg->msg_namelen,
					&send.name);
		if (err)
			return err;
		send.has_name = true;
	}
	if (msg->msg_controllen) {
		err = superp_send_control(msg, &send);
		if (err)
			return err;
	}
	return superp_rust_sock_send(superp_sock_state(sock->sk), &send);
}

static int superp_recv_completion(struct sock *sk, struct msghdr *msg)
{
	struct sk_buff *skb;
	int err;

	skb = skb_dequeue(&sk->sk_error_queue);
	if (!skb)
		return -EAGAIN;
	err = put_cmsg(msg, SOL_SUPERP, SUPERP_CMSG_COMPLETION,
		       sizeof(struct superp_completion),
		       superp_completion(skb));
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
	struct superp_sock_from from;
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
	from = *superp_from(skb);
	if (msg->msg_name) {
		struct sockaddr_superp *name = msg->msg_name;

		memset(name, 0, sizeof(*name));
		name->ssp_family = superp_family;
		memcpy(name->ssp_addr, from.addr, sizeof(name->ssp_addr));
		name->ssp_cid = from.cid;
		msg->msg_namelen = sizeof(*name);
	}
	sock_recv_cmsgs(msg, sk, skb);
	/* If the control buffer is too small, put_cmsg() sets MSG_CTRUNC. */
	if (from.has_imm)
		put_cmsg(msg, SOL_SUPERP, SUPERP_CMSG_IMM, sizeof(from.imm), &from.imm);
	if (from.has_placed)
		put_cmsg(msg, SOL_SUPERP, SUPERP_CMSG_KEY, sizeof(from.placed), &from.placed);
	/* Distinguishes an empty message from the end of reception. */
	msg->msg_flags |= MSG_EOR;
	err = flags & MSG_TRUNC ? skb->len : copied;
out:
	skb_free_datagram(sk, skb);
	return err;
}

static struct proto superp_proto = {
	.name		= "SUPERP",
	.owner		= THIS_MODULE,
	.obj_size	= sizeof(struct superp_sock),
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
 * superp_sock_full - whether SO_RCVBUF is full
 * @sk: the socket
 *
 * A message is accepted if those before it take less memory than the limit. So a message that is
 * larger than the limit can be received.
 *
 * Context: any.
 * Return: whether a message would be refused.
 */
bool superp_sock_full(const struct sock *sk)
{
	return atomic_read(&sk->sk_rmem_alloc) >= READ_ONCE(sk->sk_rcvbuf);
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
 * @sk: the socket
 * @timeo: jiffies left, updated
 *
 * Context: process, sleeps.
 * Return: 0 if there is room, an error is pending or sending was shut down; -EAGAIN after the
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
 * superp_sock_write_space - wake senders, because there is room again
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
 * @from: metadata of the message
 *
 * If the socket filter or the security module rejects the message, it is dropped and 0 is returned,
 * so that the sender does not notice, as in AF_UNIX.
 *
 * Context: any up to softirq, under RCU.
 * Return: 0; -ENOBUFS if SO_RCVBUF is full, or if @skb is from memory reserves (pfmemalloc);
 * -ESHUTDOWN.
 */
int superp_sock_deliver(struct sock *sk, struct sk_buff *skb,
			const struct superp_sock_from *from)
{
	enum skb_drop_reason reason;
	int err = 0;

	if (superp_sock_recv_closed(sk)) {
		err = -ESHUTDOWN;
		goto drop;
	}
	if (superp_sock_full(sk)) {
		err = -ENOBUFS;
		goto drop;
	}
	reason = sk_filter_reason(sk, skb);
	if (reason) {
		if (reason == SKB_DROP_REASON_PFMEMALLOC)
			err = -ENOBUFS;
		goto drop;
	}

	*superp_from(skb) = *from;
	skb->dev = NULL;
	skb_dst_drop(skb);
	skb_set_owner_r(skb, sk);
	sock_skb_set_dropcount(sk, skb);
	skb_queue_tail(&sk->sk_receive_queue, skb);
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
 * @completion: the completion
 *
 * The completion is not charged to SO_RCVBUF, because it must not be lost. The caller limits the
 * number of completions.
 *
 * Context: any up to softirq, under RCU.
 */
void superp_sock_complete(struct sock *sk, struct sk_buff *skb,
			  const struct superp_completion *completion)
{
	*superp_completion(skb) = *completion;
	skb_queue_tail(&sk->sk_error_queue, skb);
	sk_error_report(sk);
}
