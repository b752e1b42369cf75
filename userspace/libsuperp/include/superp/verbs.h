/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * libsuperp: queue pairs of SUPERp in the shape that users of verbs know.
 *
 * The device of a network namespace is its SUPERp node.  A context on it is a
 * protection domain: memory regions, completion queues and queue pairs of one
 * context may be used together.  Queues are rings in memory shared with the
 * kernel: completions are polled without a system call, and one call posts any
 * number of requests.  See libsuperp(7) and superp_post_send(3).
 *
 * Functions that return a pointer return NULL on failure, with errno set.
 * Functions that return int return 0, or an errno value, unless said otherwise.
 * All functions may be called by several threads at a time, on the same object
 * too, except that nothing may be used while or after it is destroyed.
 */
#ifndef SUPERP_VERBS_H
#define SUPERP_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <linux/superp.h>

#ifdef __cplusplus
extern "C" {
#endif

struct superp_device;
struct superp_context;
struct superp_cq;
struct superp_srq;
struct superp_qp;

/* One port of a device: a network device that carries SUPERp. */
struct superp_port_attr {
	uint32_t ifindex;
	uint32_t mtu;		/* bytes */
	uint32_t up;		/* 1: it can send and receive */
	char name[20];
};

/* A memory region. */
struct superp_mr {
	struct superp_context *context;
	void *addr;
	size_t length;
	uint64_t rma_addr;	/* of addr: what a peer needs to reach it */
	uint32_t lkey;		/* what own requests name it by */
};

struct superp_srq_init_attr {
	void *srq_context;
	uint32_t max_wr;	/* rounded up to a power of two */
	uint32_t max_sge;	/* of a buffer, up to SUPERP_MAX_SEGMENTS; 0 is 1 */
};

/* Inline data of a request, in bytes, that a queue pair can be made for.  Any has room for SUPERP_MAX_INLINE. */
#define SUPERP_INLINE_LIMIT	1024u

struct superp_qp_init_attr {
	void *qp_context;
	struct superp_cq *send_cq;
	struct superp_cq *recv_cq;
	uint32_t max_send_wr;	/* rounded up to a power of two */
	uint32_t max_recv_wr;	/* rounded up to a power of two; 0: receives nothing */
	uint32_t qp_num;	/* in the node; SUPERP_QPN_ANY: the kernel chooses */
	uint32_t max_send_sge;	/* of a request, up to SUPERP_MAX_SEGMENTS; 0 is 1 */
	uint32_t max_recv_sge;	/* of a buffer, the same */
	uint32_t max_inline_data;	/* bytes of a request, at least; up to SUPERP_INLINE_LIMIT */
	struct superp_srq *srq;	/* where its buffers come from; then max_recv_wr and max_recv_sge mean nothing */
};

/* What superp_connect_qp() tells of the connection. */
struct superp_conn_attr {
	uint32_t cid;		/* its local id */
	uint32_t flags;		/* SUPERP_QP_F_* */
	uint32_t max_message;	/* bytes */
	uint32_t min_message;
};

/* What superp_modify_qp() changes, and superp_query_qp() tells. */
struct superp_qp_attr {
	uint32_t qp_state;	/* SUPERP_QPS_* of linux/superp.h */
};

/* Members of it. */
#define SUPERP_QP_STATE		(1u << 0)	/* qp_state */

/* Local bytes.  Those of a list are one behind the other. */
struct superp_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Flags of a send request. */
#define SUPERP_SEND_SIGNALED	(1u << 0)	/* has a completion also if it succeeds */
#define SUPERP_SEND_INLINE	(1u << 1)	/* the bytes are copied now; no lkey; up to max_inline_data */
#define SUPERP_SEND_IMM		(1u << 2)	/* with imm_data */
#define SUPERP_SEND_FENCE	(1u << 3)	/* starts when all before it on the queue pair is complete */
#define SUPERP_SEND_SOLICITED	(1u << 4)	/* message, or write with imm_data: wakes who waits for such ones alone */

/* A request.  sg_list has num_sge entries, up to max_send_sge. */
struct superp_send_wr {
	uint64_t wr_id;
	struct superp_send_wr *next;
	struct superp_sge *sg_list;
	int num_sge;
	uint32_t opcode;	/* SUPERP_OP_* of linux/superp.h */
	uint32_t send_flags;
	uint32_t imm_data;	/* host byte order, at both ends */
	uint64_t remote_addr;
	uint64_t operand;	/* of atomic operations: added or put in */
	uint64_t compare;	/* of SUPERP_OP_COMPARE_SWAP */
};

/* A buffer for a message.  sg_list has num_sge entries, up to max_recv_sge. */
struct superp_recv_wr {
	uint64_t wr_id;
	struct superp_recv_wr *next;
	struct superp_sge *sg_list;
	int num_sge;
};

/* Flags of a completion. */
#define SUPERP_WC_WITH_IMM	(1u << 0)	/* imm_data is there */

/* A completion. */
struct superp_wc {
	uint64_t wr_id;
	uint32_t status;	/* 0, or enum superp_error of linux/superp.h */
	uint32_t minor;		/* refines it */
	uint32_t error;		/* errno value of both, 0 for success */
	uint32_t opcode;	/* SUPERP_OP_* */
	uint32_t byte_len;	/* of SUPERP_OP_RECV_WRITE: of the peer's write */
	uint32_t imm_data;
	uint32_t wc_flags;
	uint32_t qp_index;	/* superp_qp_index() of the queue pair */
};

/* The devices of the current network namespace: an array that ends with NULL. */
struct superp_device **superp_get_device_list(int *num_devices);
void superp_free_device_list(struct superp_device **list);
const char *superp_get_device_name(const struct superp_device *device);
int superp_device_port_count(const struct superp_device *device);
int superp_query_port(const struct superp_device *device, int port, struct superp_port_attr *attr);

/* device may be NULL: that of the current network namespace. */
struct superp_context *superp_open_device(const struct superp_device *device);
/* EBUSY: regions or queues are left. */
int superp_close_device(struct superp_context *context);
/* Readable (POLLIN) as long as there is an event. */
int superp_context_fd(const struct superp_context *context);

/*
 * access: SUPERP_ACCESS_* of linux/superp.h.  partition: 0 for any; without it, the one that SUPERP_PARTITION in the
 * environment named when the device was opened, or any.  EINVAL: also if that is no number of 32 bits; a line on
 * standard error says so.
 */
struct superp_mr *superp_reg_mr(struct superp_context *context, void *addr, size_t length, uint32_t access);
struct superp_mr *superp_reg_mr_partition(struct superp_context *context, void *addr, size_t length, uint32_t access,
					  uint32_t partition);
int superp_dereg_mr(struct superp_mr *mr);

struct superp_cq *superp_create_cq(struct superp_context *context, int cqe, void *cq_context);
/* EBUSY: queue pairs use it. */
int superp_destroy_cq(struct superp_cq *cq);
/*
 * Has the events of the queue go to an eventfd, once and for all: each adds one, and superp_get_cq_event() and the
 * descriptor of the context tell nothing of them.  EBUSY: it has one.  EINVAL: not an eventfd.  EBADF.
 */
int superp_set_cq_eventfd(struct superp_cq *cq, int fd);
/* How many completions it took, or a negative errno value. */
int superp_poll_cq(struct superp_cq *cq, int num_entries, struct superp_wc *wc);
/* EAGAIN: completions are there already; take them first. */
int superp_req_notify_cq(struct superp_cq *cq);
/* Likewise with the next that failed, or of a message or write with SUPERP_SEND_SOLICITED. */
int superp_req_notify_cq_solicited(struct superp_cq *cq);
/*
 * Lends the kernel the calling thread for so long, 1 s at most, or until a signal comes: it takes in what is posted as it
 * comes, and superp_post_send() makes no system call. The thread does not sleep meanwhile. EBUSY: another one does it.
 */
int superp_serve(struct superp_context *context, uint32_t usec);
/* Waits for the event of a completion queue; timeout in ms, -1: without end.  ETIMEDOUT. */
int superp_get_cq_event(struct superp_context *context, int timeout, struct superp_cq **cq, void **cq_context);

/* Receive buffers that any number of queue pairs share; messages to them have up to SUPERP_MAX_MESSAGE bytes. */
struct superp_srq *superp_create_srq(struct superp_context *context, const struct superp_srq_init_attr *attr);
/* EBUSY: queue pairs use it. */
int superp_destroy_srq(struct superp_srq *srq);
void *superp_srq_context(const struct superp_srq *srq);
/*
 * Has an eventfd told, once and for all, when the queue runs low: each time adds one.  EBUSY: it has one.  EINVAL: not an
 * eventfd.  EBADF.
 */
int superp_set_srq_eventfd(struct superp_srq *srq, int fd);
/* Has it told, once, when fewer buffers are left than limit; 0: not any more.  EAGAIN: fewer are left already. */
int superp_set_srq_limit(struct superp_srq *srq, uint32_t limit);

struct superp_qp *superp_create_qp(struct superp_context *context, const struct superp_qp_init_attr *attr);
int superp_destroy_qp(struct superp_qp *qp);
uint32_t superp_qp_num(const struct superp_qp *qp);
uint32_t superp_qp_index(const struct superp_qp *qp);
void *superp_qp_context(const struct superp_qp *qp);
/*
 * Once; ssp_family of the peer is filled in.  attr may be NULL.  With SUPERP_CID_ANY the connection is the established
 * one with the lowest id, in the partition that SUPERP_PARTITION named when the device was opened; EHOSTUNREACH: there
 * is none; EINVAL: also as of superp_reg_mr().
 */
int superp_connect_qp(struct superp_qp *qp, const struct sockaddr_superp *peer, struct superp_conn_attr *attr);

/*
 * qp_state may become SUPERP_QPS_ERR: what was posted, and what is posted later,
 * completes as SUPERP_ERR_ABORTED, except for what is with the connection.  EINVAL:
 * another state, or another member.
 */
int superp_modify_qp(struct superp_qp *qp, const struct superp_qp_attr *attr, uint32_t attr_mask);
/* Fills in the members that are asked for, at least.  EINVAL: there is another. */
int superp_query_qp(struct superp_qp *qp, struct superp_qp_attr *attr, uint32_t attr_mask);

/* ENOMEM: the ring is full.  *bad_wr is the first request that was not posted; bad_wr may be NULL. */
int superp_post_send(struct superp_qp *qp, struct superp_send_wr *wr, struct superp_send_wr **bad_wr);
int superp_post_recv(struct superp_qp *qp, struct superp_recv_wr *wr, struct superp_recv_wr **bad_wr);
int superp_post_srq_recv(struct superp_srq *srq, struct superp_recv_wr *wr, struct superp_recv_wr **bad_wr);

/* A sentence on status and minor of a completion. */
const char *superp_wc_status_str(uint32_t status, uint32_t minor);

#ifdef __cplusplus
}
#endif

#endif /* SUPERP_VERBS_H */
