// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the kernel shares with a program, and the operations of SOCK_RDM sockets, which map
 * it. uapi/linux/superp.h defines the contents of the memory; only Rust code accesses them
 * (ring.rs).
 */
#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/sock.h>

#include "kapi_pages.h"
#include "kapi_ring.h"

/**
 * struct superp_shared - kernel memory that programs may map
 * @address: address of the first byte, page-aligned
 * @size: size in bytes, whole pages
 * @users: reference count: one for the kernel and one for each mapping
 * @charge: pages charged to RLIMIT_MEMLOCK until the memory is freed
 */
struct superp_shared {
	void		*address;
	size_t		size;
	refcount_t	users;
	struct superp_charge charge;
};

/**
 * superp_shared_alloc - allocate zeroed memory to be shared
 * @size: bytes, rounded up to whole pages
 * @err: returns 0 or a negative errno
 *
 * Context: process, may sleep.
 * Return: the memory with one reference, or NULL.
 */
struct superp_shared *superp_shared_alloc(size_t size, int *err)
{
	struct superp_shared *shared;

	*err = -ENOMEM;
	shared = kzalloc_obj(*shared, GFP_KERNEL_ACCOUNT);
	if (!shared)
		return NULL;
	shared->size = PAGE_ALIGN(size);
	if (superp_charge(&shared->charge, shared->size >> PAGE_SHIFT))
		goto free;
	shared->address = __vmalloc(shared->size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!shared->address)
		goto unaccount;
	refcount_set(&shared->users, 1);
	*err = 0;
	return shared;
unaccount:
	superp_uncharge(&shared->charge);
free:
	kfree(shared);
	return NULL;
}

/**
 * superp_shared_free - drop a reference of the kernel or of a mapping
 * @shared: the memory; the last reference frees and uncharges it
 *
 * Context: any up to softirq.
 */
void superp_shared_free(struct superp_shared *shared)
{
	if (!refcount_dec_and_test(&shared->users))
		return;
	vfree(shared->address);
	superp_uncharge(&shared->charge);
	kfree(shared);
}

/**
 * superp_shared_address - address of the memory
 * @shared: the memory
 *
 * Context: any.
 * Return: address of the first byte.
 */
void *superp_shared_address(const struct superp_shared *shared)
{
	return shared->address;
}

static void superp_shared_vma_open(struct vm_area_struct *vma)
{
	struct superp_shared *shared = vma->vm_private_data;

	refcount_inc(&shared->users);
}

static void superp_shared_vma_close(struct vm_area_struct *vma)
{
	superp_shared_free(vma->vm_private_data);
}

/* A mapping holds the file of the socket, and so the module, whose code these callbacks are. */
static const struct vm_operations_struct superp_shared_vma_ops = {
	.open	= superp_shared_vma_open,
	.close	= superp_shared_vma_close,
};

/**
 * superp_shared_map - map the memory, from its first byte on, into a program
 * @shared: the memory
 * @area: the mapping, a struct vm_area_struct
 *
 * Context: process, mmap_lock held for writing.
 * Return: 0; -EINVAL if the mapping is not shared, or longer than the memory; -ENOMEM.
 */
int superp_shared_map(struct superp_shared *shared, void *area)
{
	struct vm_area_struct *vma = area;
	unsigned long size = vma->vm_end - vma->vm_start;
	unsigned long at;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || size > shared->size)
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = 0; at < size; at += PAGE_SIZE) {
		err = vm_insert_page(vma, vma->vm_start + at,
				     vmalloc_to_page(shared->address + at));
		if (err)
			return err;
	}
	/* Take the reference last: close() is not called for a mapping that failed. */
	refcount_inc(&shared->users);
	vma->vm_private_data = shared;
	vma->vm_ops = &superp_shared_vma_ops;
	return 0;
}

/**
 * superp_shared_set_bit - set a bit, atomically also with respect to programs
 * @words: the first word of a bitmap in shared memory
 * @bit: number of the bit, which is bit @bit % 64 of word @bit / 64
 *
 * Context: any.
 */
void superp_shared_set_bit(u64 *words, u32 bit)
{
	atomic64_or(BIT_ULL(bit % 64), (atomic64_t *)words + bit / 64);
}

/**
 * superp_ring_wake - wake the waiters of a socket, because a completion queue has an event
 * @sk: the socket
 *
 * Context: any up to softirq.
 */
void superp_ring_wake(struct sock *sk)
{
	sk->sk_data_ready(sk);
}

static int superp_ring_release(struct socket *sock)
{
	return superp_sock_end(sock, superp_rust_ring_release);
}

static __poll_t superp_ring_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	__poll_t mask = EPOLLOUT | EPOLLWRNORM;

	sock_poll_wait(file, sock, wait);
	if (superp_rust_ring_readable(superp_sock_state(sock->sk)))
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

static int superp_ring_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	return superp_rust_ring_ioctl(superp_sock_state(sock->sk), cmd, arg);
}

#ifdef CONFIG_COMPAT
static int superp_ring_compat_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	return superp_ring_ioctl(sock, cmd, (unsigned long)compat_ptr(arg));
}
#endif

/* The doorbell: a sendmsg() without data, address and control messages. */
static int superp_ring_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	if (len || msg->msg_name || msg->msg_controllen)
		return -EINVAL;
	if (msg->msg_flags & ~(MSG_DONTWAIT | MSG_MORE | MSG_NOSIGNAL | MSG_CMSG_COMPAT))
		return -EOPNOTSUPP;
	return superp_rust_ring_doorbell(superp_sock_state(sock->sk), msg->msg_flags & MSG_MORE);
}

static int superp_ring_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma)
{
	return superp_rust_ring_mmap(superp_sock_state(sock->sk), vma,
				     (u64)vma->vm_pgoff << PAGE_SHIFT);
}

struct proto_ops superp_ring_ops __ro_after_init = {
	.owner		= THIS_MODULE,
	.release	= superp_ring_release,
	.bind		= sock_no_bind,
	.connect	= sock_no_connect,
	.socketpair	= sock_no_socketpair,
	.accept		= sock_no_accept,
	.getname	= sock_no_getname,
	.poll		= superp_ring_poll,
	.ioctl		= superp_ring_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl	= superp_ring_compat_ioctl,
#endif
	.listen		= sock_no_listen,
	.shutdown	= sock_no_shutdown,
	.sendmsg	= superp_ring_sendmsg,
	.recvmsg	= sock_no_recvmsg,
	.mmap		= superp_ring_mmap,
};
