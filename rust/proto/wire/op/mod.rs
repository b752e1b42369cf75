// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Operation headers, little endian, packed back to back [proto 2.4, 7].
//!
//! From the second operation of a packet on, a header is only 4-byte aligned, so headers are read
//! byte by byte.

mod atomic;
mod atomic_response;
mod error;
mod read;
mod read_response;
mod send;
mod send_qp;
mod send_qp_ext;
mod write;
mod write_ext;

pub use atomic::{AtomicKind, AtomicOp};
pub use atomic_response::AtomicResponseOp;
pub use error::TransactionErrorOp;
pub use read::ReadOp;
pub use read_response::ReadResponseOp;
pub use send::SendOp;
pub use send_qp::SendQpOp;
pub use send_qp_ext::SendQpExtOp;
pub use write::WriteOp;
pub use write_ext::WriteExtOp;

use super::Opcode;

/// Largest queue pair number: 24 bits.
pub const QP_MAX: u32 = 0xff_ffff;

/// An operation header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The types of the variants have the documentation.
pub enum Op {
    TransactionError(TransactionErrorOp),
    Read(ReadOp),
    Write(WriteOp),
    ReadResponse(ReadResponseOp),
    Send(SendOp),
    SendQp(SendQpOp),
    WriteExt(WriteExtOp),
    SendQpExt(SendQpExtOp),
    Atomic(AtomicOp),
    AtomicResponse(AtomicResponseOp),
}

impl Op {
    /// Decodes the header of an operation with code `opcode` from the start of `bytes`. `None` if
    /// there are too few bytes, or if the code has no operation headers.
    pub fn parse(opcode: Opcode, bytes: &[u8]) -> Option<Self> {
        Some(match opcode {
            Opcode::Noop | Opcode::LastNull => return None,
            Opcode::TransactionError => {
                Self::TransactionError(TransactionErrorOp::parse(bytes.first_chunk()?))
            }
            Opcode::Read => Self::Read(ReadOp::parse(bytes.first_chunk()?)),
            Opcode::Write => Self::Write(WriteOp::parse(bytes.first_chunk()?)),
            Opcode::ReadResponse => Self::ReadResponse(ReadResponseOp::parse(bytes.first_chunk()?)),
            Opcode::Send => Self::Send(SendOp::parse(bytes.first_chunk()?)),
            Opcode::SendQp => Self::SendQp(SendQpOp::parse(bytes.first_chunk()?)),
            Opcode::WriteExt => Self::WriteExt(WriteExtOp::parse(bytes.first_chunk()?)),
            Opcode::SendQpExt => Self::SendQpExt(SendQpExtOp::parse(bytes.first_chunk()?)),
            Opcode::Atomic => Self::Atomic(AtomicOp::parse(bytes.first_chunk()?)),
            Opcode::AtomicResponse => {
                Self::AtomicResponse(AtomicResponseOp::parse(bytes.first_chunk()?))
            }
        })
    }

    /// Writes the header to the start of `out`. Returns its length in bytes, or `None` if it does
    /// not fit.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        match self {
            Self::TransactionError(op) => put(out, &op.bytes()),
            Self::Read(op) => put(out, &op.bytes()),
            Self::Write(op) => put(out, &op.bytes()),
            Self::ReadResponse(op) => put(out, &op.bytes()),
            Self::Send(op) => put(out, &op.bytes()),
            Self::SendQp(op) => put(out, &op.bytes()),
            Self::WriteExt(op) => put(out, &op.bytes()),
            Self::SendQpExt(op) => put(out, &op.bytes()),
            Self::Atomic(op) => put(out, &op.bytes()),
            Self::AtomicResponse(op) => put(out, &op.bytes()),
        }
    }
}

fn put<const N: usize>(out: &mut [u8], bytes: &[u8; N]) -> Option<usize> {
    *out.first_chunk_mut()? = *bytes;
    Some(N)
}

/// The flags byte of the extension headers with data [proto 7].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtFlags {
    /// Number of padding bytes at the end of the data block, 0..=15.
    pub pad: u8,
    /// The immediate field is valid.
    pub immediate: bool,
    /// Solicited event: the sender asks that the receiver be woken.
    pub solicited: bool,
    /// The message is the first one sent again after a refusal with code 4.
    pub start: bool,
    /// The operation has no data, but announces a complete write; the message length is that of the
    /// write.
    pub written: bool,
}

impl ExtFlags {
    /// Largest value of the pad field.
    pub const PAD_MAX: u8 = 0x0f;

    const IMMEDIATE: u8 = 1 << 4;
    const SOLICITED: u8 = 1 << 5;
    const START: u8 = 1 << 6;
    const WRITTEN: u8 = 1 << 7;

    const fn parse(b: u8) -> Self {
        Self {
            pad: b & Self::PAD_MAX,
            immediate: b & Self::IMMEDIATE != 0,
            solicited: b & Self::SOLICITED != 0,
            start: b & Self::START != 0,
            written: b & Self::WRITTEN != 0,
        }
    }

    const fn byte(self) -> u8 {
        (self.pad & Self::PAD_MAX)
            | (if self.immediate { Self::IMMEDIATE } else { 0 })
            | (if self.solicited { Self::SOLICITED } else { 0 })
            | (if self.start { Self::START } else { 0 })
            | (if self.written { Self::WRITTEN } else { 0 })
    }
}
