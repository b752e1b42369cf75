/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C half of AF_SUPERP sockets. Rust side: sock.rs.
 */
#ifndef _SUPERP_KAPI_SOCK_H
#define _SUPERP_KAPI_SOCK_H

#include <linux/types.h>
#include <linux/superp.h>

struct iov_iter;
struct msghdr;
struct net;
struct sk_buff;
struct sock;

/**
 * struct superp_sock_from - metadata of a received message
 * @addr: address of the peer, v4-mapped or IPv6
 * @cid: local id of the connection
 * @imm: immediate data
 * @placed: where the bytes have been written, if the message does not carry them
 * @has_imm: whether there is @imm
 * @has_placed: whether there is @placed
 */
struct superp_sock_from {
	__u8			addr[16];
	__u32			cid;
	__u32			imm;
	struct superp_key	placed;
	bool			has_imm;
	bool			has_placed;
};

/**
 * struct superp_sock_send - parsed arguments of a sendmsg() call
 * @data: the data
 * @len: bytes of data
 * @flags: MSG_* flags of the call; only those that the family supports
 * @nonblock: whether MSG_DONTWAIT is among them
 * @has_name: whether there is @name
 * @has_rma: whether there is @rma
 * @name: destination; family, flags and range of the queue pair number are checked
 * @atomic: whether @rma is an atomic operation
 * @rma: remote memory request
 * @operand: operand of an atomic operation
 * @compare: comparison value of an atomic operation
 * @has_imm: whether there is @imm
 * @imm: immediate data
 * @has_key: whether there is @key
 * @key: receive context of the peer, and the offset in it
 */
struct superp_sock_send {
	struct iov_iter		*data;
	size_t			len;
	unsigned int		flags;
	bool			nonblock;
	bool			has_name;
	bool			has_rma;
	bool			atomic;
	struct sockaddr_superp	name;
	struct superp_rma	rma;
	u64			operand;
	u64			compare;
	bool			has_imm;
	u32			imm;
	bool			has_key;
	struct superp_key	key;
};

/* bindgen translates macros with casts only if they are the values of enumerators. */
enum superp_sock_ioctl {
	SUPERP_SOCK_IOC_MR_REG = SUPERP_IOC_MR_REG,
	SUPERP_SOCK_IOC_MR_QUERY = SUPERP_IOC_MR_QUERY,
	SUPERP_SOCK_IOC_MR_DEREG = SUPERP_IOC_MR_DEREG,
	SUPERP_SOCK_IOC_QP_INFO = SUPERP_IOC_QP_INFO,
};

/* Called from Rust. */
int superp_sock_register(int family);
void superp_sock_unregister(void);
int superp_sock_max_family(void);
void superp_sock_hold(struct sock *sk);
void superp_sock_put(struct sock *sk);
int superp_sock_sndbuf(const struct sock *sk);
u32 superp_sock_uid(const struct sock *sk);
bool superp_sock_full(const struct sock *sk);
unsigned int superp_sock_received(const struct sock *sk);
u64 superp_sock_inode(const struct sock *sk);
bool superp_sock_send_closed(const struct sock *sk);
bool superp_sock_recv_closed(const struct sock *sk);
unsigned int superp_sock_error_queue_len(const struct sock *sk);
int superp_sock_take_error(struct sock *sk);
int superp_sock_pipe_error(struct sock *sk, unsigned int flags);
void superp_sock_set_error(struct sock *sk, int err);
void superp_sock_set_bound(struct sock *sk);
long superp_sock_sndtimeo(const struct sock *sk, bool nonblock);
int superp_sock_wait_space(struct sock *sk, long *timeo);
void superp_sock_write_space(struct sock *sk);
int superp_sock_deliver(struct sock *sk, struct sk_buff *skb,
			const struct superp_sock_from *from);
void superp_sock_complete(struct sock *sk, struct sk_buff *skb,
			  const struct superp_completion *completion);

/*
 * Called from C, implemented in Rust by proto_ops! of sock.rs. @state is what
 * superp_rust_sock_create() returned; superp_rust_sock_release() frees it.
 */
void *superp_rust_sock_create(struct sock *sk, struct net *net);
void superp_rust_sock_release(void *state);
int superp_rust_sock_bind(const void *state,
			  const struct sockaddr_superp *name);
int superp_rust_sock_connect(const void *state,
			     const struct sockaddr_superp *name);
void superp_rust_sock_disconnect(const void *state);
int superp_rust_sock_getname(const void *state, bool peer,
			     struct sockaddr_superp *name);
bool superp_rust_sock_writable(const void *state);
int superp_rust_sock_queued(const void *state);
int superp_rust_sock_ioctl(const void *state, unsigned int cmd,
			   unsigned long arg);
ssize_t superp_rust_sock_send(const void *state,
			      const struct superp_sock_send *send);

#endif /* _SUPERP_KAPI_SOCK_H */
