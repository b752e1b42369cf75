/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SUPERp for Linux: the user interface of superp.ko, the one place.
 *
 * Sockets of the family are one queue pair each (SOCK_SEQPACKET).  Messages
 * go by send and recv; remote memory is read and written by a control message
 * on sendmsg(), with its completion on the error queue.  Configuration is
 * generic netlink (superp_netlink.h).  Documentation/uapi.md is the manual.
 *
 * All integers are in host byte order unless said otherwise.  Every reserved
 * field must be zero; a non-zero one is refused with EINVAL.
 */
#ifndef _UAPI_LINUX_SUPERP_H
#define _UAPI_LINUX_SUPERP_H

#include <linux/types.h>
#include <linux/socket.h>
#include <linux/ioctl.h>

/*
 * The address family.  A module out of tree has no number of its own: it
 * takes over one that Linux reserved and never implemented (AF_SNA).  The
 * number in force is /sys/module/superp/parameters/family.
 */
#define SUPERP_DEFAULT_FAMILY	22

/* Wire numbers, defaults of the module's parameters of the same names. */
#define SUPERP_DEFAULT_ETHERTYPE	0x88B5	/* IEEE local experimental 1 */
#define SUPERP_DEFAULT_LITE_ETHERTYPE	0x88B6	/* IEEE local experimental 2 */
#define SUPERP_DEFAULT_UDP_PORT		7777
#define SUPERP_DEFAULT_NEXT_HEADER	253

/* Level of socket options and control messages. */
#define SOL_SUPERP	0x5350

/* Largest message of send(), in bytes (16 MiB). */
#define SUPERP_MAX_MESSAGE	(16u << 20)

/* Largest number of bytes of one remote read or write. */
#define SUPERP_MAX_RMA		0x7fffffffu

/*
 * Remote memory requests that one socket may have under way or completed on
 * its error queue and not yet fetched; one more is refused with ENOBUFS.
 */
#define SUPERP_MAX_REQUESTS	1024u

/* ssp_cid: any connection to the address. */
#define SUPERP_CID_ANY		0xffffffffu

/* Queue pair numbers are 24 bits; 0 is "any": bind() chooses one. */
#define SUPERP_QPN_ANY		0u
#define SUPERP_QPN_MAX		0xffffffu

/**
 * struct sockaddr_superp - address of a queue pair
 * @ssp_family: the address family
 * @ssp_flags: reserved, zero
 * @ssp_qpn: queue pair number, 1 to %SUPERP_QPN_MAX, or %SUPERP_QPN_ANY.
 *	bind(): any means one that the node chooses.  connect(): any means that
 *	the socket is for remote memory access only; send() without a
 *	destination fails with EDESTADDRREQ.  In the address of a received
 *	message it is always 0: packets do not carry the sender's number.
 * @ssp_addr: IPv6 address, or IPv4 address mapped into IPv6 (::ffff:a.b.c.d),
 *	network byte order: the node's uncompressed SUNH address.  bind(): a
 *	local address or ::.  connect(), sendto(): the peer.
 * @ssp_cid: local id of the connection to use, or %SUPERP_CID_ANY: the one
 *	with the lowest id that is established with @ssp_addr.  bind(): must be
 *	%SUPERP_CID_ANY.
 */
struct sockaddr_superp {
	__kernel_sa_family_t	ssp_family;
	__u16			ssp_flags;
	__u32			ssp_qpn;
	__u8			ssp_addr[16];
	__u32			ssp_cid;
};

/* Access rights of a memory region, for the remote side. */
#define SUPERP_ACCESS_REMOTE_READ	(1u << 0)
#define SUPERP_ACCESS_REMOTE_WRITE	(1u << 1)
/* The region may be the local buffer of a remote read (pinned writable). */
#define SUPERP_ACCESS_LOCAL_WRITE	(1u << 2)
/* Atomic operations of peers. */
#define SUPERP_ACCESS_REMOTE_ATOMIC	(1u << 3)
/* Peers may send into the region by its key: it is a receive context. */
#define SUPERP_ACCESS_RECEIVE		(1u << 4)
#define SUPERP_ACCESS_MASK		0x1fu

/**
 * struct superp_mr_reg - register memory: SUPERP_IOC_MR_REG
 * @addr: in, first byte of the caller's memory
 * @length: in, bytes, at least 1; without a global address space, a region
 *	does not cross a multiple of 2^40
 * @access: in, SUPERP_ACCESS_* bits
 * @partition: in, partition of the region, 0 for any
 * @key: out, the region's 24-bit key: its handle for this interface
 * @rsvd: zero
 * @rma_addr: out, RMA address of @addr, what a peer puts into its request:
 *	@key << 40 | low 40 bits of @addr, or if the node has a part of a global
 *	address space, the first place there that is free
 *
 * Memory stays pinned and counts against RLIMIT_MEMLOCK until the region is
 * released or the socket is closed.
 *
 * Errors: EINVAL (length 0, unknown bits, wraps, crosses a boundary), EFAULT
 * (not mapped, or not writable where the access asks for it), EOPNOTSUPP
 * (memory that cannot be pinned for long, such as DAX files), ENOMEM (also:
 * over RLIMIT_MEMLOCK), ENOSPC (no free key, or no room in the address space).
 */
struct superp_mr_reg {
	__u64	addr;
	__u64	length;
	__u32	access;
	__u32	partition;
	__u32	key;
	__u32	rsvd;
	__u64	rma_addr;
};

/**
 * struct superp_mr_info - ask for a region: SUPERP_IOC_MR_QUERY
 * @key: in, key of a region of this socket
 * @access: out
 * @partition: out
 * @rsvd: zero
 * @addr: out
 * @length: out
 * @rma_addr: out
 * @remote_reads: out, bytes that peers have read
 * @remote_writes: out, bytes that peers have written
 *
 * Errors: ENOENT (no such region of this socket).
 */
struct superp_mr_info {
	__u32	key;
	__u32	access;
	__u32	partition;
	__u32	rsvd;
	__u64	addr;
	__u64	length;
	__u64	rma_addr;
	__u64	remote_reads;
	__u64	remote_writes;
};

/**
 * struct superp_mr_dereg - release a region: SUPERP_IOC_MR_DEREG
 * @key: in
 * @rsvd: zero
 *
 * When it returns, no later operation of a peer touches the memory.  Own
 * operations under way keep it pinned until they complete.
 *
 * Errors: ENOENT (no such region of this socket).
 */
struct superp_mr_dereg {
	__u32	key;
	__u32	rsvd;
};

/**
 * struct superp_qp_info - state of the socket: SUPERP_IOC_QP_INFO
 * @qpn: own queue pair number, 0 before bind
 * @cid: connection in use, %SUPERP_CID_ANY before connect
 * @flags: SUPERP_QP_F_* bits
 * @max_message: largest message send() takes now, bytes; 0 before connect and
 *	when the connection is gone
 * @min_message: smallest
 * @max_keyed: largest message that goes by %SUPERP_CMSG_KEY, bytes; 0 as above
 */
struct superp_qp_info {
	__u32	qpn;
	__u32	cid;
	__u32	flags;
	__u32	max_message;
	__u32	min_message;
	__u32	max_keyed;
};
/* The connection speaks the extension opcodes. */
#define SUPERP_QP_F_EXT		(1u << 0)
/* The connection delivers in order both ways. */
#define SUPERP_QP_F_ORDERED	(1u << 1)

#define SUPERP_IOC_MAGIC	0xb5
#define SUPERP_IOC_MR_REG	_IOWR(SUPERP_IOC_MAGIC, 1, struct superp_mr_reg)
#define SUPERP_IOC_MR_QUERY	_IOWR(SUPERP_IOC_MAGIC, 2, struct superp_mr_info)
#define SUPERP_IOC_MR_DEREG	_IOW(SUPERP_IOC_MAGIC, 3, struct superp_mr_dereg)
#define SUPERP_IOC_QP_INFO	_IOR(SUPERP_IOC_MAGIC, 4, struct superp_qp_info)

/*
 * Remote memory access: sendmsg() with one control message of level
 * SOL_SUPERP, type SUPERP_CMSG_RMA, and no data.  It returns 0 once the
 * request is queued; exactly one completion follows on the error queue.
 */
#define SUPERP_CMSG_RMA		1	/* sendmsg: struct superp_rma */
#define SUPERP_CMSG_COMPLETION	2	/* recvmsg(MSG_ERRQUEUE): struct superp_completion */
#define SUPERP_CMSG_ATOMIC	3	/* sendmsg: struct superp_atomic */

/*
 * Immediate data: a number of the program, __u32, that goes with a message, or
 * with a remote write beside SUPERP_CMSG_RMA.  recvmsg() gives the same number
 * with the message; a write gives an empty message to the queue pair that
 * send() would go to, once all bytes of the write are in the peer's memory.
 * Needs a connection with extensions.
 *
 * Errors of sendmsg(), beside those of send() and struct superp_rma: EINVAL
 * (with a read or an atomic operation, another length, or the second one),
 * EOPNOTSUPP (no extensions), EDESTADDRREQ (a write, and no queue pair).
 */
#define SUPERP_CMSG_IMM		4	/* sendmsg and recvmsg: __u32 */

/*
 * A message to a receive context: instead of waiting to be received, its bytes
 * go to a place that the receiver has chosen.
 */
#define SUPERP_CMSG_KEY		5	/* sendmsg and recvmsg: struct superp_key */

/**
 * struct superp_key - a place in a receive context
 * @key: of a region that was registered with %SUPERP_ACCESS_RECEIVE
 * @offset: of the first byte in it
 * @length: recvmsg(): bytes placed; sendmsg(): zero, the data says
 * @rsvd: zero
 *
 * With sendmsg() the message's bytes go there, at the peer; it needs no queue
 * pair number.  A message has 16 bytes (22 on SUPERP-lite) to what one
 * transaction carries (@max_keyed of struct superp_qp_info), also with
 * extensions.
 *
 * With recvmsg() an empty message tells that all bytes are in place, one for
 * each message that was sent; it comes to the socket that the region belongs
 * to.  Other implementations may fill several places in one transaction: then
 * @offset is the lowest one and @length the sum.
 *
 * Errors of sendmsg(), beside those of send(): EINVAL (a reserved field,
 * @offset and data go beyond 2^32, or another control message beside it),
 * EMSGSIZE (too short or too long).  The peer's refusal is the pending error,
 * with a completion: EACCES (%SUPERP_ERR_ACCESS: no such key, out of bounds,
 * no %SUPERP_ACCESS_RECEIVE, another partition), ECONNREFUSED (the owner does
 * not receive from here).
 */
struct superp_key {
	__u32	key;
	__u32	offset;
	__u32	length;
	__u32	rsvd;
};

enum superp_rma_op {
	SUPERP_RMA_WRITE = 1,	/* local memory to the peer's */
	SUPERP_RMA_READ = 2,	/* the peer's memory to local memory */
	/* Only in struct superp_atomic. */
	SUPERP_RMA_FETCH_ADD = 3,	/* add the operand */
	SUPERP_RMA_COMPARE_SWAP = 4,	/* put the operand in, if it is equal to compare */
	SUPERP_RMA_SWAP = 5,	/* put the operand in */
};

/**
 * struct superp_rma - one remote read or write
 * @op: enum superp_rma_op
 * @flags: SUPERP_RMA_F_* bits
 * @key: key of the local region of this socket
 * @local_addr: address of the first local byte, inside the region
 * @remote_addr: RMA address at the peer
 * @length: bytes, 0 to %SUPERP_MAX_RMA; under 16, a write needs a connection
 *	with extensions.  A length of 0 is a round trip without access: @key and
 *	both addresses are ignored.
 * @rsvd: zero
 * @token: given back in the completion
 *
 * Errors of sendmsg(): EINVAL (unknown flag, reserved field, data given, malformed control
 * message), EOPNOTSUPP (unknown @op), EMSGSIZE (@length over %SUPERP_MAX_RMA,
 * or too short for this connection), ENOENT (no such region of this socket),
 * ERANGE (not all local bytes are in the region), EACCES (a read into a region
 * without %SUPERP_ACCESS_LOCAL_WRITE), ENOBUFS (%SUPERP_MAX_REQUESTS), and
 * those of send().
 */
struct superp_rma {
	__u16	op;
	__u16	flags;
	__u32	key;
	__u64	local_addr;
	__u64	remote_addr;
	__u32	length;
	__u32	rsvd;
	__u64	token;
};

/*
 * Fence: the request starts when everything that the socket has sent before to
 * the same queue pair is complete, requests and messages, whether with success
 * or not.  What is sent to that queue pair afterwards starts after it.
 */
#define SUPERP_RMA_F_FENCE	(1u << 0)

/**
 * struct superp_atomic - one atomic operation on 64 bits of the peer's memory
 * @rma: @op is one of the last three of enum superp_rma_op; @length is 8;
 *	@remote_addr is a multiple of 8; the value from before goes to
 *	@local_addr, in the peer's byte order
 * @operand: added or put in
 * @compare: of %SUPERP_RMA_COMPARE_SWAP, otherwise 0
 *
 * It is carried out exactly once, atomically with respect to other atomic
 * operations and to the peer's CPUs.  It needs a connection with extensions.
 *
 * Errors of sendmsg(): those of struct superp_rma; EINVAL also for another
 * @length, an address that is no multiple of 8, or a @compare that is not
 * asked for; EOPNOTSUPP without extensions.
 */
struct superp_atomic {
	struct superp_rma	rma;
	__u64			operand;
	__u64			compare;
};

/**
 * struct superp_completion - outcome of a request
 * @token: of the request, 0 for a message
 * @length: bytes asked for
 * @op: enum superp_rma_op, or 0 for a message of send() that failed
 * @major: 0 success, else enum superp_error
 * @minor: refines @major
 * @rsvd: zero
 * @error: errno value of @major and @minor, 0 on success
 */
struct superp_completion {
	__u64	token;
	__u32	length;
	__u16	op;
	__u16	major;
	__u16	minor;
	__u16	rsvd;
	__u32	error;
};

/* Major codes of a Transaction Error, and the errno they become. */
enum superp_error {
	SUPERP_OK = 0,
	SUPERP_ERR_MALFORMED = 1,	/* EBADMSG */
	SUPERP_ERR_OPCODE = 2,		/* EOPNOTSUPP */
	SUPERP_ERR_ACCESS = 3,		/* EACCES */
	SUPERP_ERR_NO_BUFFER = 4,	/* ENOBUFS */
	SUPERP_ERR_NO_QP = 5,		/* ECONNREFUSED */
	SUPERP_ERR_RESOURCES = 6,	/* ENOMEM */
	SUPERP_ERR_ABORTED = 7,		/* ECONNRESET; by time, ETIMEDOUT */
};

#endif /* _UAPI_LINUX_SUPERP_H */
