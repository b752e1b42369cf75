// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The user interface as `uapi/linux/superp.h` declares it; `tests/layout.rs` compares the two.
//!
//! Meaning, units and errors are documented in the header.

/// Number of the address family unless the module is told another.
pub const SUPERP_DEFAULT_FAMILY: u16 = 22;
/// Level of socket options and control messages.
pub const SOL_SUPERP: i32 = 0x5350;
/// Largest message to and from a socket, bytes.
pub const SUPERP_MAX_MESSAGE: u32 = 16 << 20;
/// Largest message from rings to rings, bytes.
pub const SUPERP_MAX_RING_MESSAGE: u32 = 0xffff_ffff;
/// Largest remote read or write, bytes.
pub const SUPERP_MAX_RMA: u32 = 0x7fff_ffff;
/// Most requests of a socket under way.
pub const SUPERP_MAX_REQUESTS: u32 = 1024;
/// Any connection to an address.
pub const SUPERP_CID_ANY: u32 = 0xffff_ffff;
/// Any queue pair number.
pub const SUPERP_QPN_ANY: u32 = 0;
/// Largest queue pair number.
pub const SUPERP_QPN_MAX: u32 = 0xff_ffff;

/// The peer may read the region.
pub const SUPERP_ACCESS_REMOTE_READ: u32 = 1 << 0;
/// The peer may write the region.
pub const SUPERP_ACCESS_REMOTE_WRITE: u32 = 1 << 1;
/// The region may be where a remote read puts its bytes.
pub const SUPERP_ACCESS_LOCAL_WRITE: u32 = 1 << 2;

/// The peer may use atomic operations on the region.
pub const SUPERP_ACCESS_REMOTE_ATOMIC: u32 = 1 << 3;
/// Peers may send into the region by its key.
pub const SUPERP_ACCESS_RECEIVE: u32 = 1 << 4;

/// The connection speaks the extension opcodes.
pub const SUPERP_QP_F_EXT: u32 = 1 << 0;
/// The connection delivers in order both ways.
pub const SUPERP_QP_F_ORDERED: u32 = 1 << 1;

/// Queue pairs of a context.
pub const SUPERP_MAX_RING_QPS: u32 = 1024;
/// Completion queues of a context.
pub const SUPERP_MAX_RING_CQS: u32 = 1024;
/// Shared receive queues of a context.
pub const SUPERP_MAX_RING_SRQS: u32 = 1024;
/// Entries of a submission ring.
pub const SUPERP_MAX_SQ_ENTRIES: u32 = 8192;
/// Entries of a receive ring.
pub const SUPERP_MAX_RQ_ENTRIES: u32 = 8192;
/// Entries of a shared receive queue.
pub const SUPERP_MAX_SRQ_ENTRIES: u32 = 32768;
/// Entries of a completion ring.
pub const SUPERP_MAX_CQ_ENTRIES: u32 = 65536;
/// Bytes of inline data.
pub const SUPERP_MAX_INLINE: u32 = 32;
/// Segments of one entry.
pub const SUPERP_MAX_SEGMENTS: u32 = 16;
/// Longest time of [`superp_serve`], microseconds.
pub const SUPERP_MAX_SERVE: u32 = 1_000_000;

/// The queue pair receives from a shared receive queue.
pub const SUPERP_RQP_SRQ: u32 = 1 << 0;

/// The queue pair has no peer yet.
pub const SUPERP_QPS_INIT: u32 = 0;
/// It has one: ready to send, and to receive.
pub const SUPERP_QPS_RTS: u32 = 1;
/// It is in the error state.
pub const SUPERP_QPS_ERR: u32 = 2;

/// Ring the doorbell after a new entry.
pub const SUPERP_RING_NEED_WAKEUP: u32 = 1 << 0;
/// The queue pair is in the error state.
pub const SUPERP_RING_ERROR: u32 = 1 << 1;
/// The kernel looks soon; ring to have it look now.
pub const SUPERP_RING_LATER: u32 = 1 << 2;
/// The arm word of a completion ring.
pub const SUPERP_CQ_ARMED: u32 = 1;
/// Arm word: the next completion that is solicited, or failed, is told.
pub const SUPERP_CQ_ARMED_SOLICITED: u32 = 2;

/// Local memory to the peer's.
pub const SUPERP_OP_WRITE: u8 = 1;
/// The peer's memory to local memory.
pub const SUPERP_OP_READ: u8 = 2;
/// Add to 64 bits of the peer's memory.
pub const SUPERP_OP_FETCH_ADD: u8 = 3;
/// Replace 64 bits of the peer's memory if they are as expected.
pub const SUPERP_OP_COMPARE_SWAP: u8 = 4;
/// Replace 64 bits of the peer's memory.
pub const SUPERP_OP_SWAP: u8 = 5;
/// A message to the peer's queue pair.
pub const SUPERP_OP_SEND: u8 = 6;
/// A message was received.
pub const SUPERP_OP_RECV: u8 = 128;
/// The peer tells of a write with immediate data.
pub const SUPERP_OP_RECV_WRITE: u8 = 129;

/// The entry has a completion also if it succeeds.
pub const SUPERP_SQE_SIGNALED: u16 = 1 << 0;
/// The data are in the entry.
pub const SUPERP_SQE_INLINE: u16 = 1 << 1;
/// With immediate data.
pub const SUPERP_SQE_IMM: u16 = 1 << 2;
/// It starts when everything before it is complete.
pub const SUPERP_SQE_FENCE: u16 = 1 << 3;
/// The receiver is woken even if it waits for such messages alone.
pub const SUPERP_SQE_SOLICITED: u16 = 1 << 5;
/// The local bytes are segments.
pub const SUPERP_SQE_LIST: u16 = 1 << 4;
/// The completion has immediate data.
pub const SUPERP_CQE_IMM: u8 = 1 << 0;

/// The other side did not understand.
pub const SUPERP_ERR_MALFORMED: u16 = 1;
/// Unknown operation.
pub const SUPERP_ERR_OPCODE: u16 = 2;
/// Memory that may not be reached so.
pub const SUPERP_ERR_ACCESS: u16 = 3;
/// No receive buffer.
pub const SUPERP_ERR_NO_BUFFER: u16 = 4;
/// No such queue pair.
pub const SUPERP_ERR_NO_QP: u16 = 5;
/// The peer lacks something.
pub const SUPERP_ERR_RESOURCES: u16 = 6;
/// The connection or the queue pair ended.
pub const SUPERP_ERR_ABORTED: u16 = 7;

/// Make a completion queue.
pub const SUPERP_IOC_CQ_CREATE: u64 = iowr(16, size_of::<superp_cq_create>());
/// End a completion queue.
pub const SUPERP_IOC_CQ_DESTROY: u64 = iow(17, size_of::<superp_ring_destroy>());
/// Make a queue pair.
pub const SUPERP_IOC_RQP_CREATE: u64 = iowr(18, size_of::<superp_rqp_create>());
/// Choose the peer of a queue pair.
pub const SUPERP_IOC_RQP_CONNECT: u64 = iowr(19, size_of::<superp_rqp_connect>());
/// End a queue pair.
pub const SUPERP_IOC_RQP_DESTROY: u64 = iow(20, size_of::<superp_ring_destroy>());
/// Make a shared receive queue.
pub const SUPERP_IOC_SRQ_CREATE: u64 = iowr(21, size_of::<superp_srq_create>());
/// End a shared receive queue.
pub const SUPERP_IOC_SRQ_DESTROY: u64 = iow(22, size_of::<superp_ring_destroy>());
/// Change the state of a queue pair.
pub const SUPERP_IOC_RQP_MODIFY: u64 = iow(23, size_of::<superp_rqp_modify>());
/// Tell an eventfd.
pub const SUPERP_IOC_CQ_EVENTFD: u64 = iow(24, size_of::<superp_cq_eventfd>());
/// Take in what comes, without doorbells.
pub const SUPERP_IOC_SERVE: u64 = iow(25, size_of::<superp_serve>());
/// Tell an eventfd of a shared receive queue.
pub const SUPERP_IOC_SRQ_EVENTFD: u64 = iow(26, size_of::<superp_srq_eventfd>());

/// Register memory.
pub const SUPERP_IOC_MR_REG: u64 = iowr(1, size_of::<superp_mr_reg>());
/// Ask for a region.
pub const SUPERP_IOC_MR_QUERY: u64 = iowr(2, size_of::<superp_mr_info>());
/// Release a region.
pub const SUPERP_IOC_MR_DEREG: u64 = iow(3, size_of::<superp_mr_dereg>());
/// State of the socket.
pub const SUPERP_IOC_QP_INFO: u64 = ior(4, size_of::<superp_qp_info>());

/// Control message of sendmsg().
pub const SUPERP_CMSG_RMA: i32 = 1;
/// Control message of recvmsg(MSG_ERRQUEUE).
pub const SUPERP_CMSG_COMPLETION: i32 = 2;
/// Control message of sendmsg(), for an atomic operation.
pub const SUPERP_CMSG_ATOMIC: i32 = 3;
/// Control message of sendmsg() and recvmsg(): immediate data, 32 bits.
pub const SUPERP_CMSG_IMM: i32 = 4;
/// Control message of sendmsg() and recvmsg(): a place in a receive context.
pub const SUPERP_CMSG_KEY: i32 = 5;

/// Local memory to the peer's.
pub const SUPERP_RMA_WRITE: u16 = 1;
/// The peer's memory to local memory.
pub const SUPERP_RMA_READ: u16 = 2;
/// Add to 64 bits of the peer's memory.
pub const SUPERP_RMA_FETCH_ADD: u16 = 3;
/// Replace 64 bits of the peer's memory if they are as expected.
pub const SUPERP_RMA_COMPARE_SWAP: u16 = 4;
/// Replace 64 bits of the peer's memory.
pub const SUPERP_RMA_SWAP: u16 = 5;
/// The request starts when everything sent before is complete.
pub const SUPERP_RMA_F_FENCE: u16 = 1;

const MAGIC: u64 = 0xb5;

// The numbering of asm-generic/ioctl.h. Architectures with another (alpha, mips, powerpc, sparc)
// are found out by tests/layout.rs.
const fn ioc(direction: u64, number: u64, size: usize) -> u64 {
    (direction << 30) | ((size as u64) << 16) | (MAGIC << 8) | number
}

const fn iow(number: u64, size: usize) -> u64 {
    ioc(1, number, size)
}

const fn ior(number: u64, size: usize) -> u64 {
    ioc(2, number, size)
}

const fn iowr(number: u64, size: usize) -> u64 {
    ioc(3, number, size)
}

macro_rules! structs {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[doc = $doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[allow(missing_docs, non_camel_case_types)]
            pub struct $name { $(pub $field: $type,)* }
        )*

        /// Name, size, and each field with offset and size, of every struct: for tests.
        #[doc(hidden)]
        pub const LAYOUT: &[(&str, usize, &[(&str, usize, usize)])] = &[
            $((stringify!($name), size_of::<$name>(), &[
                $((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>()),)*
            ]),)*
        ];
    };
}

structs! {
    /// Address of a queue pair.
    sockaddr_superp {
        ssp_family: u16,
        ssp_flags: u16,
        ssp_qpn: u32,
        ssp_addr: [u8; 16],
        ssp_cid: u32,
    }

    /// Register memory.
    superp_mr_reg {
        addr: u64,
        length: u64,
        access: u32,
        partition: u32,
        key: u32,
        rsvd: u32,
        rma_addr: u64,
    }

    /// What there is to tell of a region.
    superp_mr_info {
        key: u32,
        access: u32,
        partition: u32,
        rsvd: u32,
        addr: u64,
        length: u64,
        rma_addr: u64,
        remote_reads: u64,
        remote_writes: u64,
    }

    /// Release a region.
    superp_mr_dereg {
        key: u32,
        rsvd: u32,
    }

    /// State of the socket.
    superp_qp_info {
        qpn: u32,
        cid: u32,
        flags: u32,
        max_message: u32,
        min_message: u32,
        max_keyed: u32,
    }

    /// A place in a receive context.
    superp_key {
        key: u32,
        offset: u32,
        length: u32,
        rsvd: u32,
    }

    /// One remote read or write.
    superp_rma {
        op: u16,
        flags: u16,
        key: u32,
        local_addr: u64,
        remote_addr: u64,
        length: u32,
        rsvd: u32,
        token: u64,
    }

    /// One atomic operation.
    superp_atomic {
        rma: superp_rma,
        operand: u64,
        compare: u64,
    }

    /// Outcome of a request.
    superp_completion {
        token: u64,
        length: u32,
        op: u16,
        major: u16,
        minor: u16,
        rsvd: u16,
        error: u32,
    }

    /// First page of a context.
    superp_ctx_page {
        bell: [u64; 16],
        events: [u64; 16],
    }

    /// Where the parts of a ring are.
    superp_ring {
        entries: u32,
        producer: u32,
        consumer: u32,
        flags: u32,
        array: u32,
        segments: u32,
    }

    /// A piece of the memory of an entry.
    superp_segment {
        addr: u64,
        length: u32,
        key: u32,
    }

    /// Submission entry. Inline data are in place of the last four fields.
    superp_sqe {
        opcode: u8,
        rsvd: u8,
        flags: u16,
        length: u32,
        token: u64,
        remote_addr: u64,
        imm: u32,
        local_key: u32,
        local_addr: u64,
        operand: u64,
        compare: u64,
        rsvd2: u64,
    }

    /// Receive entry.
    superp_rqe {
        addr: u64,
        key: u32,
        length: u32,
        token: u64,
        segments: u32,
        rsvd: u32,
    }

    /// Completion entry.
    superp_cqe {
        token: u64,
        qp: u32,
        length: u32,
        imm: u32,
        opcode: u8,
        flags: u8,
        major: u16,
        minor: u16,
        rsvd: u16,
        error: u32,
    }

    /// Make a completion queue.
    superp_cq_create {
        entries: u32,
        cq: u32,
        offset: u64,
        size: u64,
        ring: superp_ring,
    }

    /// Tell an eventfd.
    superp_cq_eventfd {
        cq: u32,
        fd: i32,
    }

    /// Tell an eventfd of a shared receive queue.
    superp_srq_eventfd {
        srq: u32,
        fd: i32,
    }

    /// Make a shared receive queue.
    superp_srq_create {
        entries: u32,
        segments: u32,
        srq: u32,
        rsvd: u32,
        offset: u64,
        size: u64,
        ring: superp_ring,
    }

    /// Make a queue pair.
    superp_rqp_create {
        send_cq: u32,
        recv_cq: u32,
        sq_entries: u32,
        rq_entries: u32,
        qpn: u32,
        qp: u32,
        sq_segments: u32,
        rq_segments: u32,
        flags: u32,
        srq: u32,
        offset: u64,
        size: u64,
        sq: superp_ring,
        rq: superp_ring,
    }

    /// Choose the peer of a queue pair.
    superp_rqp_connect {
        qp: u32,
        flags: u32,
        max_message: u32,
        min_message: u32,
        peer: sockaddr_superp,
        rsvd: u32,
    }

    /// Change the state of a queue pair.
    superp_rqp_modify {
        qp: u32,
        state: u32,
    }

    /// Take in what comes, without doorbells.
    superp_serve {
        usec: u32,
        rsvd: u32,
    }

    /// End a queue.
    superp_ring_destroy {
        id: u32,
        rsvd: u32,
    }
}
