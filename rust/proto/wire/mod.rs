// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Wire formats: one file per header, each with its length, `parse` and `bytes` [proto 2].

mod gateway;
mod op;
mod opcode;
mod packet;
mod pdl;
mod run;
mod sunh;
mod tal;
#[cfg(test)]
mod tests;

pub use gateway::{Prefix, UdpIp, DYNAMIC_PORTS};
pub use op::{
    AtomicKind, AtomicOp, AtomicResponseOp, ExtFlags, Op, ReadOp, ReadResponseOp, SendOp,
    SendQpExtOp, SendQpOp, TransactionErrorOp, WriteExtOp, WriteOp, QP_MAX,
};
pub use opcode::Opcode;
pub use packet::{Block, Malformed, Packet};
pub use pdl::PdlHeader;
pub use run::Run;
pub use sunh::Sunh;
pub use tal::TalHeader;

/// Bytes of the Packet Delivery header and the Transaction header together.
pub const FIXED_LEN: usize = PdlHeader::LEN + TalHeader::LEN;

/// Largest number of operations in a packet: Num ops has 4 bits.
pub const OPS_MAX: u8 = 15;

/// Largest number of bytes from the Packet Delivery header to the end of the operation headers.
pub const HEADERS_MAX: usize = FIXED_LEN + OPS_MAX as usize * WriteExtOp::LEN;

/// Largest number of bytes from the Packet Delivery header to the end of the operation header of a
/// packet with at most one operation.
pub const ONE_OP_MAX: usize = FIXED_LEN + AtomicOp::LEN;

/// Smallest data block, in bytes [proto 2.5].
pub const BLOCK_MIN: u32 = 16;
