/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C half of AF_SUPERP sockets. Rust side: sock.rs.
 */
#ifndef _SUPERP_KAPI_SOCK_H
#define _SUPERP_KAPI_SOCK_H

#include <linux/types.h>

struct cmsghdr;
struct iov_iter;
struct msghdr;
struct net;
struct sk_buff;
struct sock;

#define SUPERP_SOCK_META_WORDS		11
#define SUPERP_SOCK_COMPLETION_MAX	32

/**
 * struct superp_sock_meta - what Rust keeps with a message until it is received
 * @words: opaque to the C half
 */
struct superp_sock_meta {
	u32 words[SUPERP_SOCK_META_WORDS];
};

/**
 * struct superp_sock_cmsg - a control message of a sendmsg() call
 * @data: content
 * @len: bytes of @data
 * @level: as in struct cmsghdr
 * @type: as in struct cmsghdr
 */
struct superp_sock_cmsg {
	const void	*data;
	size_t		len;
	int		level;
	int		type;
};

/**
 * struct superp_sock_send - arguments of a sendmsg() call
 * @sk: the socket
 * @msg: the message header
 * @data: the data
 * @len: bytes of data
 * @name: destination, or NULL
 * @name_len: bytes of @name
 * @cmsg: first control message, or NULL; see superp_sock_cmsg()
 * @flags: MSG_* flags of the call; only those that the family supports
 * @nonblock: whether MSG_DONTWAIT is among them
 */
struct superp_sock_send {
	struct sock	*sk;
	struct msghdr	*msg;
	struct iov_iter	*data;
	size_t		len;
	const void	*name;
	int		name_len;
	struct cmsghdr	*cmsg;
	unsigned int	flags;
	bool		nonblock;
};

/* Called from Rust. */
int superp_sock_register(int family);
void superp_sock_unregister(void);
int superp_sock_max_family(void);
void superp_sock_hold(struct sock *sk);
void superp_sock_put(struct sock *sk);
struct net *superp_sock_net(const struct sock *sk);
int superp_sock_sndbuf(const struct sock *sk);
u32 superp_sock_uid(const struct sock *sk);
bool superp_sock_full(const struct sock *sk, size_t parts);
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
			const struct superp_sock_meta *meta);
void superp_sock_complete(struct sock *sk, struct sk_buff *skb, int level, int type,
			  const void *data, u32 len);
int superp_sock_cmsg(struct msghdr *msg, struct cmsghdr **cmsg, struct superp_sock_cmsg *out);
void superp_sock_put_cmsg(struct msghdr *msg, int level, int type, const void *data, size_t len);

/* For sock.c. */
bool superp_sock_charge(struct sock *sk, struct sk_buff *skb);

/*
 * Called from C, implemented in Rust by proto_ops! of sock.rs. @state is what
 * superp_rust_sock_create() returned; superp_rust_sock_release() frees it. @name of getname() and
 * received() is a struct sockaddr_storage, or NULL; they return the bytes written to it.
 */
void *superp_rust_sock_create(struct sock *sk, struct net *net);
void superp_rust_sock_release(void *state);
int superp_rust_sock_bind(const void *state, const void *name, int len);
int superp_rust_sock_connect(const void *state, const void *name, int len);
void superp_rust_sock_disconnect(const void *state);
int superp_rust_sock_getname(const void *state, bool peer, void *name);
int superp_rust_sock_received(const void *state, struct msghdr *msg,
			      const struct superp_sock_meta *meta, void *name);
bool superp_rust_sock_writable(const void *state);
int superp_rust_sock_queued(const void *state);
int superp_rust_sock_ioctl(const void *state, unsigned int cmd,
			   unsigned long arg);
ssize_t superp_rust_sock_send(const void *state,
			      const struct superp_sock_send *send);

#endif /* _SUPERP_KAPI_SOCK_H */
