// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What an initiator asks for.

use super::wire::{AtomicKind, Opcode};

/// One transaction to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation, with the place of its first byte.
    pub op: ReqOp,
    /// 1: one operation of `len` bytes, cut into as many packets as it takes. 2 and up: that many
    /// operations of `len` bytes each, packed into packets; `Transmit::emit` asks for their addresses.
    pub count: u16,
    /// Bytes of each operation; 0 for operations without data.
    pub len: u32,
    /// Returned with everything that concerns the transaction.
    pub token: u64,
}

/// Kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReqOp {
    /// No operation.
    Noop,
    /// Last request: after it `submit` refuses everything.
    LastNull,
    /// RMA Read.
    Read {
        /// RMA address.
        address: u64,
    },
    /// RMA Write of 16 bytes and more.
    Write {
        /// RMA address.
        address: u64,
    },
    /// RMA Write of any length from 1, optionally with an immediate for a queue pair (extension).
    WriteExt {
        /// RMA address.
        address: u64,
        /// Queue pair that takes the immediate, 24 bits.
        qp: u32,
        /// Immediate data, delivered when all data is placed.
        imm: Option<u32>,
        /// Wake the receiver; travels with the immediate.
        solicited: bool,
    },
    /// Send to a receive context, 16 bytes and more.
    Send {
        /// Key of the receive context.
        key: u32,
        /// Offset into it, in bytes.
        offset: u32,
    },
    /// Send to a queue pair, one message of 16 bytes and more.
    SendQp {
        /// Queue pair number, 24 bits.
        qp: u32,
    },
    /// Part of a message to a queue pair, of any length (extension).
    SendQpExt {
        /// Queue pair number, 24 bits.
        qp: u32,
        /// Offset of this transaction's first byte in the message, in bytes.
        offset: u32,
        /// Length of the message, in bytes.
        message_len: u32,
        /// Immediate data.
        imm: Option<u32>,
        /// Wake the receiver.
        solicited: bool,
        /// First message of a run that follows a refused one.
        start: bool,
    },
    /// Tells a queue pair of a write whose bytes are in place (extension).
    Written {
        /// Queue pair number, 24 bits.
        qp: u32,
        /// Length of the write, in bytes.
        write_len: u32,
        /// Immediate data.
        imm: u32,
        /// Wake the receiver.
        solicited: bool,
        /// First message of a run that follows a refused one.
        start: bool,
    },
    /// Atomic operation on 64 bits (extension). `Event::Completed` brings the original value.
    Atomic {
        /// RMA address, a multiple of 8.
        address: u64,
        /// What to do.
        kind: AtomicKind,
        /// What to add or to put in place.
        operand: u64,
        /// What compare and swap expects.
        compare: u64,
    },
}

impl ReqOp {
    /// The operation code.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Noop => Opcode::Noop,
            Self::LastNull => Opcode::LastNull,
            Self::Read { .. } => Opcode::Read,
            Self::Write { .. } => Opcode::Write,
            Self::WriteExt { .. } => Opcode::WriteExt,
            Self::Send { .. } => Opcode::Send,
            Self::SendQp { .. } => Opcode::SendQp,
            Self::SendQpExt { .. } | Self::Written { .. } => Opcode::SendQpExt,
            Self::Atomic { .. } => Opcode::Atomic,
        }
    }
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The initiator window is full, or a barrier holds. `Event::Writable` tells when to try again.
    WindowFull,
    /// More bytes than one transaction carries.
    TooLong {
        /// The most it would carry.
        max: u64,
    },
    /// Fewer bytes than the operation can carry.
    TooShort {
        /// The least it would carry.
        min: u32,
    },
    /// The operation is an extension, and the connection was created without.
    NeedsExt,
    /// The connection is shutting down, stopped or broken.
    Stopped,
    /// `count` is 0, or more than one transaction holds.
    BadCount {
        /// The most operations of this length in a transaction.
        max: u16,
    },
}

/// Which later requests a barrier holds back [proto 4.12].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// All.
    All,
    /// Those that write remote memory.
    Writes,
}
