/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SUPERp for Linux: the user interface of superp.ko, the one place.
 *
 * Sockets of the family are one queue pair each (SOCK_SEQPACKET).  Messages
 * go by send and recv; remote memory is read and written by a control message
 * on sendmsg(), with its completion on the error queue.  A SOCK_RDM socket has
 * many queue pairs instead, with rings in shared memory.  Configuration is
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

/* Largest message to and from a socket, in bytes (16 MiB). */
#define SUPERP_MAX_MESSAGE	(16u << 20)

/* Largest message from rings to rings, in bytes (4 GiB - 1). */
#define SUPERP_MAX_RING_MESSAGE	0xffffffffu

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

/*
 * Rings: queue pairs without a system call for each request.
 *
 * A context is a socket of type SOCK_RDM, protocol 0.  It owns memory regions
 * (SUPERP_IOC_MR_REG and the others, as above, but %SUPERP_ACCESS_RECEIVE is
 * refused with EINVAL), completion queues, queue pairs and shared receive queues,
 * which its ioctls make; they end with SUPERP_IOC_CQ_DESTROY,
 * SUPERP_IOC_RQP_DESTROY, SUPERP_IOC_SRQ_DESTROY, or with the socket.  Queues are rings in memory that the kernel shares with the program
 * by mmap() of the socket, at offsets that the ioctls return; PROT_READ and
 * PROT_WRITE, MAP_SHARED.  It counts against RLIMIT_MEMLOCK.  bind(), connect(), recv() and the like fail with EOPNOTSUPP.
 *
 * Every ring has a power of two of entries, and two free-running 32-bit
 * indices: entry number i is in slot i modulo the entries; producer - consumer
 * of them are in the ring.  Who is called the owner of a word below is the
 * only one that writes it.
 *
 *	ring		entries			producer's owner  consumer's owner
 *	submission	struct superp_sqe	program		  kernel
 *	receive		struct superp_rqe	program		  kernel
 *	completion	struct superp_cqe	kernel		  program
 *
 * To put an entry in: load the consumer (acquire), see that producer -
 * consumer is below the number of entries, write the entry, store the producer
 * (release).  To take one out: load the producer (acquire), read the entry,
 * store the consumer (release).  An entry belongs to the other side between
 * the two.  The kernel takes a private copy of each entry before it looks at
 * it, and trusts no index: a producer that is more than the number of entries
 * ahead puts the queue pair into the error state; a consumer that is ahead of
 * the producer, or too far behind, leaves no room in its completion queue.
 *
 * Submitting.  Put in any number of entries; full memory barrier; load the
 * flags of the submission ring.  If they have SUPERP_RING_NEED_WAKEUP, set the
 * bit of the queue pair in @bell of the context page (atomic or), and ring the
 * doorbell: send(fd, NULL, 0, 0), without a control message.  One doorbell
 * serves all queue pairs whose bits are set, in turn; the kernel clears the
 * bits.  The requests are sent in the caller's context when it returns.
 *	0: everything was taken in.  ENOBUFS: entries were left, because a
 *	completion queue has no room for their completions; their bits stay set.
 *	Take completions, and ring again.  EINTR: the same, because of a signal
 *	while another thread kept submitting.
 *
 * MSG_MORE in the doorbell says that more follows, for which the program would
 * ring all the same.  Then SUPERP_RING_NEED_WAKEUP stays away for the queue pairs
 * that the doorbell served, and SUPERP_RING_LATER is there instead, until a
 * doorbell without MSG_MORE, or about 0.4 ms without any.  What is put in
 * meanwhile is taken in by the next doorbell, or within 0.8 ms by the kernel
 * itself; if it finds no room in the completion queue, by the doorbell after
 * completions were taken.  So that one doorbell may serve many requests: set
 * the bit of the queue pair, ring after a few, and before waiting for what they
 * do.
 *
 * Instead, a thread may lend itself to the context (SUPERP_IOC_SERVE): while it
 * does, rings say that they need no doorbell, and it takes entries in as they
 * come.
 *
 * Entries are carried out as the operations of a socket are (struct
 * superp_rma), and complete in the order in which they were put in.  The
 * consumer index of the submission ring counts those that have completed: a
 * slot is free again, and a buffer the program's, when it has passed.  An entry
 * has a completion if it has SUPERP_SQE_SIGNALED, or if it fails; an entry is
 * taken in only when the completion queue has room for its completion, so none
 * is ever lost or overwritten.
 *
 * The error state.  The first entry that fails, in either direction, puts the
 * queue pair into the error state, as does the end of its connection:
 * SUPERP_RING_ERROR is set in the flags of the submission ring.  So does
 * SUPERP_IOC_RQP_MODIFY.  What has been taken in completes, with its own outcome;
 * a message that the peer has no buffer for is not repeated any more.  What has
 * not, completes as SUPERP_ERR_ABORTED, signaled or not: receive entries at once,
 * submissions and what is put in afterwards with the next doorbell for the queue
 * pair.  Receive entries that find no room in the completion queue wait for the
 * next doorbell, too.
 *
 * Receiving.  A message for the queue pair goes into the oldest receive entry
 * (no doorbell).  Without one, or without room in the completion queue, or
 * before SUPERP_IOC_RQP_CONNECT, it is refused for want of a buffer, and the
 * peer repeats it.  A message longer than its entry fails at both ends, with
 * SUPERP_ERR_NO_BUFFER minor 1.  An entry that is no good itself completes as a
 * submission would (SUPERP_ERR_MALFORMED, SUPERP_ERR_ACCESS); the peer is told
 * SUPERP_ERR_NO_QP, as it is by a queue pair in the error state.
 *
 * Shared receive queues.  Any number of queue pairs may take their receive
 * entries from one, each message the oldest; it completes in the completion
 * queue of the queue pair that got it.  The entries are nobody's until then: the
 * error state of a queue pair does not flush them.  A message that comes in
 * several transactions takes its entry when it is whole; until then the kernel
 * has its bytes, and %SUPERP_MAX_MESSAGE is the limit (SUPERP_ERR_RESOURCES at
 * the sender).  A producer that is out of bounds ends the queue pairs that
 * messages come to.  A queue that runs low tells an eventfd
 * (SUPERP_IOC_SRQ_EVENTFD): store a number to the limit word; full memory
 * barrier; load the consumer, and if fewer entries than that are left already,
 * store 0 and go on with that.  Else the message that leaves fewer clears the
 * word and adds one to the eventfd.
 *
 * Waiting.  Poll the completion ring, or: store SUPERP_CQ_ARMED to the arm word
 * of the completion queue; full memory barrier; load the producer, and if it
 * has moved go on with that.  Else wait with poll(): the next completion clears
 * the arm word, sets the bit of the queue in @events of the context page, and
 * wakes.  POLLIN is there as long as a bit of @events is set; the program clears
 * it (atomic and), then takes completions.  SUPERP_CQ_ARMED_SOLICITED instead,
 * where the word is 0 (compare and exchange), lets others pass than completions
 * that failed, and those of receive entries whose message or write had
 * %SUPERP_SQE_SOLICITED at its sender.  POLLOUT is always there.  A queue
 * with an eventfd (SUPERP_IOC_CQ_EVENTFD) tells that instead, so that each of
 * many threads may wait for its own.
 */

/* Queue pairs, completion queues, and shared receive queues, of one context. */
#define SUPERP_MAX_RING_QPS	1024u
#define SUPERP_MAX_RING_CQS	1024u
#define SUPERP_MAX_RING_SRQS	1024u
/* Entries of rings. */
#define SUPERP_MAX_SQ_ENTRIES	8192u
#define SUPERP_MAX_RQ_ENTRIES	8192u
#define SUPERP_MAX_SRQ_ENTRIES	32768u
#define SUPERP_MAX_CQ_ENTRIES	65536u
/* Bytes of inline data. */
#define SUPERP_MAX_INLINE	32u
/* Segments of one entry. */
#define SUPERP_MAX_SEGMENTS	16u

/**
 * struct superp_ctx_page - first page of the context: mmap() at offset 0
 * @bell: bit n % 64 of word n / 64: the submission ring of queue pair n has
 *	new entries, or in the error state any of its rings.  The program sets
 *	bits, the doorbell clears them; atomically.
 * @events: bit n % 64 of word n / 64: completion queue n was armed and got a
 *	completion.  The kernel sets bits, the program clears them; atomically.
 */
struct superp_ctx_page {
	__u64	bell[SUPERP_MAX_RING_QPS / 64];
	__u64	events[SUPERP_MAX_RING_CQS / 64];
};

/**
 * struct superp_ring - where the parts of a ring are
 * @entries: how many
 * @producer: offset in the mapping of the producer index, __u32
 * @consumer: of the consumer index, __u32
 * @flags: of the flags of a submission ring (SUPERP_RING_*, owner: kernel), the
 *	arm word of a completion ring, or the limit word of a shared receive
 *	ring, __u32; of another receive ring 0: none
 * @array: of the first entry
 * @segments: of the first segment; 0 if entries have none
 *
 * All offsets are in bytes; words of different owners are not in one cache
 * line (64 bytes).
 */
struct superp_ring {
	__u32	entries;
	__u32	producer;
	__u32	consumer;
	__u32	flags;
	__u32	array;
	__u32	segments;
};

/* Flags of a submission ring. */
#define SUPERP_RING_NEED_WAKEUP	(1u << 0)	/* ring the doorbell after a new entry */
#define SUPERP_RING_ERROR	(1u << 1)	/* the queue pair is in the error state */
#define SUPERP_RING_LATER	(1u << 2)	/* the kernel looks soon; ring to have it look now */

/* The arm word of a completion ring; otherwise 0. */
#define SUPERP_CQ_ARMED		1u	/* for the next completion */
#define SUPERP_CQ_ARMED_SOLICITED 2u	/* for the next that is solicited, or failed */

enum superp_opcode {
	/* Of submission entries; the first five are enum superp_rma_op. */
	SUPERP_OP_WRITE = 1,
	SUPERP_OP_READ = 2,
	SUPERP_OP_FETCH_ADD = 3,
	SUPERP_OP_COMPARE_SWAP = 4,
	SUPERP_OP_SWAP = 5,
	SUPERP_OP_SEND = 6,
	/*
	 * Only in completions: of a receive entry that a message came to, or
	 * one that tells of a write with immediate data.
	 */
	SUPERP_OP_RECV = 128,
	SUPERP_OP_RECV_WRITE = 129,
};

/* Flags of a submission entry. */
#define SUPERP_SQE_SIGNALED	(1u << 0)	/* has a completion also if it succeeds */
#define SUPERP_SQE_INLINE	(1u << 1)	/* a write or message: the data are in the entry */
#define SUPERP_SQE_IMM		(1u << 2)	/* a write or message, with immediate data */
#define SUPERP_SQE_FENCE	(1u << 3)	/* as SUPERP_RMA_F_FENCE, also of messages */
#define SUPERP_SQE_LIST		(1u << 4)	/* no atomic operation: the local bytes are segments */
#define SUPERP_SQE_SOLICITED	(1u << 5)	/* a message, or a write with immediate data */
#define SUPERP_SQE_MASK		0x3fu

/**
 * struct superp_segment - a piece of the memory of an entry, 16 bytes
 * @addr: address of the first byte, inside the region
 * @length: bytes
 * @key: key of a region of this context; ignored if @length is 0
 *
 * Memory that is in several pieces is a list of segments, whose bytes are one
 * behind the other.  A slot of a ring has room for as many as the queue pair
 * was made with: those of slot n begin with segment n times that many.  They
 * belong to the other side as long as the entry does.
 */
struct superp_segment {
	__u64	addr;
	__u32	length;
	__u32	key;
};

/**
 * struct superp_sqe - submission entry, 64 bytes
 * @opcode: enum superp_opcode
 * @rsvd: zero
 * @flags: SUPERP_SQE_* bits
 * @length: bytes: of a message 0 to %SUPERP_MAX_RING_MESSAGE, of other
 *	operations as in struct superp_rma; with %SUPERP_SQE_INLINE up to
 *	%SUPERP_MAX_INLINE
 * @token: given back in the completion
 * @remote_addr: RMA address at the peer; of a message 0
 * @imm: with %SUPERP_SQE_IMM, as with SUPERP_CMSG_IMM; otherwise 0
 * @local_key: key of the local region of this context; ignored if @length is
 *	0; with %SUPERP_SQE_INLINE 0; with %SUPERP_SQE_LIST the number of
 *	segments, whose lengths together are @length
 * @local_addr: address of the first local byte, inside the region; ignored if
 *	@length is 0; with %SUPERP_SQE_LIST 0
 * @operand: of an atomic operation, as in struct superp_atomic; otherwise 0
 * @compare: of %SUPERP_OP_COMPARE_SWAP; otherwise 0
 * @rsvd2: zero
 * @data: with %SUPERP_SQE_INLINE the data, in place of @local_addr to @rsvd2
 *
 * An entry that is malformed fails with SUPERP_ERR_MALFORMED, an unknown
 * opcode, or one that needs extensions the connection has not (as do
 * %SUPERP_SQE_IMM and %SUPERP_SQE_SOLICITED), with SUPERP_ERR_OPCODE, a length that is not allowed, or not that of its list,
 * with SUPERP_ERR_MALFORMED minor 1, local memory with SUPERP_ERR_ACCESS: minor
 * 1 (no such region of this context), 2 (not all bytes are inside), 3 (no
 * %SUPERP_ACCESS_LOCAL_WRITE), and without a connected queue pair to go to with
 * SUPERP_ERR_NO_QP.
 */
struct superp_sqe {
	__u8	opcode;
	__u8	rsvd;
	__u16	flags;
	__u32	length;
	__u64	token;
	__u64	remote_addr;
	__u32	imm;
	__u32	local_key;
	union {
		struct {
			__u64	local_addr;
			__u64	operand;
			__u64	compare;
			__u64	rsvd2;
		};
		__u8	data[SUPERP_MAX_INLINE];
	};
};

/**
 * struct superp_rqe - receive entry, 32 bytes
 * @addr: address of the first byte of the buffer, inside the region
 * @key: key of a region of this context with %SUPERP_ACCESS_LOCAL_WRITE;
 *	ignored if @length is 0
 * @length: bytes
 * @token: given back in the completion
 * @segments: 0, or the number of segments that the buffer is, whose lengths
 *	together are @length: then @addr and @key are 0.  They are looked at as
 *	far as a message needs them.
 * @rsvd: zero
 */
struct superp_rqe {
	__u64	addr;
	__u32	key;
	__u32	length;
	__u64	token;
	__u32	segments;
	__u32	rsvd;
};

/* Flags of a completion entry. */
#define SUPERP_CQE_IMM		(1u << 0)	/* @imm is there */

/**
 * struct superp_cqe - completion entry, 32 bytes
 * @token: of the entry that has completed
 * @qp: queue pair
 * @length: of a submission the bytes asked for; of a receive entry the length
 *	of the message, 0 if it failed, or with %SUPERP_OP_RECV_WRITE that of
 *	the write, whose bytes are where it has put them: the buffer is unused
 * @imm: immediate data of a received message, or of a write
 * @opcode: of the submission, or %SUPERP_OP_RECV, %SUPERP_OP_RECV_WRITE
 * @flags: SUPERP_CQE_* bits
 * @major: 0 success, else enum superp_error
 * @minor: refines @major
 * @rsvd: zero
 * @error: errno value of @major and @minor, 0 on success
 */
struct superp_cqe {
	__u64	token;
	__u32	qp;
	__u32	length;
	__u32	imm;
	__u8	opcode;
	__u8	flags;
	__u16	major;
	__u16	minor;
	__u16	rsvd;
	__u32	error;
};

/**
 * struct superp_cq_create - make a completion queue: SUPERP_IOC_CQ_CREATE
 * @entries: in, a power of two, 1 to %SUPERP_MAX_CQ_ENTRIES
 * @cq: out, its number in the context, the lowest that is free
 * @offset: out, for mmap()
 * @size: out, bytes to map
 * @ring: out
 *
 * Errors: EINVAL (entries, reserved fields), ENOSPC (%SUPERP_MAX_RING_CQS),
 * ENOMEM (also: over RLIMIT_MEMLOCK).
 */
struct superp_cq_create {
	__u32	entries;
	__u32	cq;
	__u64	offset;
	__u64	size;
	struct superp_ring	ring;
};

/**
 * struct superp_cq_eventfd - tell an eventfd: SUPERP_IOC_CQ_EVENTFD
 * @cq: in, completion queue
 * @fd: in, an eventfd
 *
 * Once.  From now on the events of the queue go there: the completion that
 * clears the arm word adds one, and neither sets a bit of @events of the context
 * page nor wakes who polls the context.  Several queues may have the same one.
 * It is held until the queue is gone, whatever becomes of the descriptor.
 *
 * Errors: ENOENT (no such completion queue), EBUSY (it has one), EBADF, EINVAL
 * (not an eventfd).
 */
struct superp_cq_eventfd {
	__u32	cq;
	__s32	fd;
};

/**
 * struct superp_srq_create - make a shared receive queue: SUPERP_IOC_SRQ_CREATE
 * @entries: in, a power of two, 1 to %SUPERP_MAX_SRQ_ENTRIES
 * @segments: in, how many segments an entry may have, to %SUPERP_MAX_SEGMENTS
 * @srq: out, its number in the context, the lowest that is free
 * @rsvd: zero
 * @offset: out, for mmap()
 * @size: out, bytes to map
 * @ring: out, a receive ring
 *
 * Errors: EINVAL (entries, segments, reserved fields), ENOSPC
 * (%SUPERP_MAX_RING_SRQS), ENOMEM (also: over RLIMIT_MEMLOCK).
 */
struct superp_srq_create {
	__u32	entries;
	__u32	segments;
	__u32	srq;
	__u32	rsvd;
	__u64	offset;
	__u64	size;
	struct superp_ring	ring;
};

/**
 * struct superp_srq_eventfd - tell an eventfd: SUPERP_IOC_SRQ_EVENTFD
 * @srq: in, shared receive queue
 * @fd: in, an eventfd
 *
 * Once.  Without one the limit word means nothing.  Several queues may have the
 * same one.  It is held until the queue is gone, whatever becomes of the
 * descriptor.
 *
 * Errors: ENOENT (no such shared receive queue), EBUSY (it has one), EBADF,
 * EINVAL (not an eventfd).
 */
struct superp_srq_eventfd {
	__u32	srq;
	__s32	fd;
};

/* Flags of struct superp_rqp_create. */
#define SUPERP_RQP_SRQ		(1u << 0)	/* receives from a shared receive queue */

/**
 * struct superp_rqp_create - make a queue pair: SUPERP_IOC_RQP_CREATE
 * @send_cq: in, where submissions complete
 * @recv_cq: in, where receive entries complete; ignored if @rq_entries is 0 and
 *	there is no %SUPERP_RQP_SRQ
 * @sq_entries: in, a power of two, 1 to %SUPERP_MAX_SQ_ENTRIES
 * @rq_entries: in, a power of two to %SUPERP_MAX_RQ_ENTRIES, or 0: messages
 *	to the queue pair are refused
 * @qpn: in, queue pair number in the node, or %SUPERP_QPN_ANY; out, the number
 * @qp: out, its number in the context, the lowest that is free
 * @sq_segments: in, how many segments a submission may have, to
 *	%SUPERP_MAX_SEGMENTS; 0: no submission is a list
 * @rq_segments: in, the same of receive entries
 * @flags: in, SUPERP_RQP_*
 * @srq: in, with %SUPERP_RQP_SRQ the shared receive queue; then @rq_entries and
 *	@rq_segments are 0; otherwise 0
 * @offset: out, for mmap(): both rings
 * @size: out, bytes to map
 * @sq: out
 * @rq: out, zero if @rq_entries is 0
 *
 * Errors: EINVAL (entries, segments, flags, number out of range), ENOENT (no such
 * completion queue, or shared receive queue), ENOSPC (%SUPERP_MAX_RING_QPS), EADDRINUSE (@qpn is taken),
 * ENOMEM (also: over RLIMIT_MEMLOCK).
 */
struct superp_rqp_create {
	__u32	send_cq;
	__u32	recv_cq;
	__u32	sq_entries;
	__u32	rq_entries;
	__u32	qpn;
	__u32	qp;
	__u32	sq_segments;
	__u32	rq_segments;
	__u32	flags;
	__u32	srq;
	__u64	offset;
	__u64	size;
	struct superp_ring	sq;
	struct superp_ring	rq;
};

/**
 * struct superp_rqp_connect - choose the peer: SUPERP_IOC_RQP_CONNECT
 * @qp: in, queue pair
 * @flags: out, SUPERP_QP_F_* bits of the connection
 * @max_message: out, largest message, bytes
 * @min_message: out, smallest
 * @peer: in, as with connect(); number 0 means that the queue pair is for
 *	remote memory only; out: @ssp_cid is the connection in use
 * @rsvd: zero
 *
 * Once.  Nothing is sent and the peer is not asked.  From now on the queue
 * pair takes messages of this address, unless it is in the error state, where
 * it stays.
 *
 * Errors: ENOENT (no such queue pair), EISCONN (it is connected, or was),
 * EHOSTUNREACH (no established connection fits), EINVAL, EAFNOSUPPORT.
 */
struct superp_rqp_connect {
	__u32	qp;
	__u32	flags;
	__u32	max_message;
	__u32	min_message;
	struct sockaddr_superp	peer;
	__u32	rsvd;
};

/* States of a queue pair. */
enum superp_qp_state {
	SUPERP_QPS_INIT = 0,	/* it has no peer yet */
	SUPERP_QPS_RTS = 1,	/* it has one: ready to send, and to receive */
	SUPERP_QPS_ERR = 2,	/* the error state */
};

/**
 * struct superp_rqp_modify - change the state: SUPERP_IOC_RQP_MODIFY
 * @qp: in, queue pair
 * @state: in, %SUPERP_QPS_ERR
 *
 * Puts the queue pair into the error state, as a failure does, and serves it as
 * a doorbell does: when it returns, what had been put in before has completed,
 * except for what is with the connection, which completes with its own outcome.
 * When all has completed, nothing of it touches memory any more.  The peer is
 * not told; messages of it are refused from now on.  A queue pair that is in
 * the error state already stays so.
 *
 * Errors: ENOENT (no such queue pair), EINVAL (another state).  ENOBUFS, EINTR:
 * it is in the error state, and entries were left, as by a doorbell, which goes
 * on with them.
 */
struct superp_rqp_modify {
	__u32	qp;
	__u32	state;
};

/* Longest time of struct superp_serve, microseconds. */
#define SUPERP_MAX_SERVE	1000000u

/**
 * struct superp_serve - take in what comes, without doorbells: SUPERP_IOC_SERVE
 * @usec: in, for how long, microseconds, 1 to %SUPERP_MAX_SERVE
 * @rsvd: zero
 *
 * The calling thread looks at the submission rings of all queue pairs again and
 * again, and takes in what it finds, as doorbells would; SUPERP_RING_NEED_WAKEUP
 * is not set meanwhile.  It does not sleep: this is for a thread, and a
 * processor, that has nothing else to do.  Doorbells are possible all the same,
 * and needed for what they are needed for in the error state.
 *
 * Errors: EINVAL, EBUSY (another thread serves the context), EINTR (a signal
 * came; what had been put in before is taken in).  ENOBUFS: the time is over, and
 * entries are left for want of room, as by a doorbell.
 */
struct superp_serve {
	__u32	usec;
	__u32	rsvd;
};

/**
 * struct superp_ring_destroy - end a queue: SUPERP_IOC_CQ_DESTROY,
 *	SUPERP_IOC_RQP_DESTROY, SUPERP_IOC_SRQ_DESTROY
 * @id: in, number in the context
 * @rsvd: zero
 *
 * A queue pair: when it returns, no completion of it follows, and no message
 * is put into its buffers.  Operations under way go on, and keep their regions
 * pinned.  Mappings stay, and mean nothing any more.
 *
 * Errors: ENOENT (no such queue), EBUSY (a completion queue, or shared receive
 * queue, that queue pairs use).
 */
struct superp_ring_destroy {
	__u32	id;
	__u32	rsvd;
};

#define SUPERP_IOC_CQ_CREATE	_IOWR(SUPERP_IOC_MAGIC, 16, struct superp_cq_create)
#define SUPERP_IOC_CQ_DESTROY	_IOW(SUPERP_IOC_MAGIC, 17, struct superp_ring_destroy)
#define SUPERP_IOC_RQP_CREATE	_IOWR(SUPERP_IOC_MAGIC, 18, struct superp_rqp_create)
#define SUPERP_IOC_RQP_CONNECT	_IOWR(SUPERP_IOC_MAGIC, 19, struct superp_rqp_connect)
#define SUPERP_IOC_RQP_DESTROY	_IOW(SUPERP_IOC_MAGIC, 20, struct superp_ring_destroy)
#define SUPERP_IOC_SRQ_CREATE	_IOWR(SUPERP_IOC_MAGIC, 21, struct superp_srq_create)
#define SUPERP_IOC_SRQ_DESTROY	_IOW(SUPERP_IOC_MAGIC, 22, struct superp_ring_destroy)
#define SUPERP_IOC_RQP_MODIFY	_IOW(SUPERP_IOC_MAGIC, 23, struct superp_rqp_modify)
#define SUPERP_IOC_CQ_EVENTFD	_IOW(SUPERP_IOC_MAGIC, 24, struct superp_cq_eventfd)
#define SUPERP_IOC_SERVE	_IOW(SUPERP_IOC_MAGIC, 25, struct superp_serve)
#define SUPERP_IOC_SRQ_EVENTFD	_IOW(SUPERP_IOC_MAGIC, 26, struct superp_srq_eventfd)

#endif /* _UAPI_LINUX_SUPERP_H */
