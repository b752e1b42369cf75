// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The user interface as `uapi/linux/superp.h` declares it; `tests/layout.rs` compares the two.
//!
//! Meaning, units and errors are documented in the header.

/// Number of the address family unless the module is told another.
pub const SUPERP_DEFAULT_FAMILY: u16 = 22;
/// Level of socket options and control messages.
pub const SOL_SUPERP: i32 = 0x5350;
/// Largest message, bytes.
pub const SUPERP_MAX_MESSAGE: u32 = 16 << 20;
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
}
