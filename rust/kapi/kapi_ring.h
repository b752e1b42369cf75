/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that the kernel shares with a program, and the sockets that map it. Rust side: ring.rs.
 */
#ifndef _SUPERP_KAPI_RING_H
#define _SUPERP_KAPI_RING_H

#include <linux/types.h>

struct net;
struct proto_ops;
struct sock;
struct socket;
struct superp_shared;

/* ring.c defines the operations, sock.c the functions that sockets of both types share. */
extern struct proto_ops superp_ring_ops;
void *superp_sock_state(const struct sock *sk);
int superp_sock_end(struct socket *sock, void (*release)(void *state));

/* Called from Rust. */
struct superp_shared *superp_shared_alloc(size_t size, int *err);
void superp_shared_free(struct superp_shared *shared);
void *superp_shared_address(const struct superp_shared *shared);
int superp_shared_map(struct superp_shared *shared, void *area);
void superp_shared_set_bit(u64 *words, u32 bit);
void superp_ring_wake(struct sock *sk);

/*
 * Called from C, implemented in Rust by ring_ops! of ring.rs. @state is what
 * superp_rust_ring_create() returned; superp_rust_ring_release() frees it. @area is a
 * struct vm_area_struct.
 */
void *superp_rust_ring_create(struct sock *sk, struct net *net);
void superp_rust_ring_release(void *state);
bool superp_rust_ring_readable(const void *state);
int superp_rust_ring_doorbell(const void *state, bool more);
int superp_rust_ring_ioctl(const void *state, unsigned int cmd, unsigned long arg);
int superp_rust_ring_mmap(const void *state, void *area, u64 offset);

#endif /* _SUPERP_KAPI_RING_H */
