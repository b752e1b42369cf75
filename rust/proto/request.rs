// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests of the initiator.

use super::wire::{AtomicKind, Opcode};

/// A transaction to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation, with the address or offset of its first byte.
    pub op: ReqOp,
    /// Number of operations. One operation is split over as many packets as `len` needs. Several
    /// operations, of `len` bytes each, are packed into packets; [`super::Connection::emit`] asks
    /// for their addresses.
    pub count: u16,
    /// Length of each operation, in bytes; 0 for operations without data.
    pub len: u32,
    /// Value of the owner's choice. Callbacks, packets and events of the transaction carry it.
    pub token: u64,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReqOp {
    /// No operation.
    Noop,
    /// Last request of a connection: after it `submit` refuses everything.
    LastNull,
    /// RMA Read.
    Read {
        /// RMA address.
        address: u64,
    },
    /// RMA Write of at least 16 bytes.
    Write {
        /// RMA address.
        address: u64,
    },
    /// RMA Write of at least 1 byte, optionally with an immediate for a queue pair (extension).
    WriteExt {
        /// RMA address.
        address: u64,
        /// Number of the queue pair that receives the immediate, 24 bits.
        qp: u32,
        /// Immediate data. The target delivers it when all data is in memory.
        imm: Option<u32>,
        /// Solicited event: wake the receiver. Ignored without an immediate.
        solicited: bool,
    },
    /// Send of at least 16 bytes to a receive context.
    Send {
        /// Key of the receive context.
        key: u32,
        /// Offset into the receive context, in bytes.
        offset: u32,
    },
    /// Send to a queue pair: one message of at least 16 bytes.
    SendQp {
        /// Queue pair number, 24 bits.
        qp: u32,
    },
    /// Segment, of any length, of a message to a queue pair (extension).
    SendQpExt {
        /// Queue pair number, 24 bits.
        qp: u32,
        /// Offset of this transaction's first byte in the message, in bytes.
        offset: u32,
        /// Length of the message, in bytes.
        message_len: u32,
        /// Immediate data.
        imm: Option<u32>,
        /// Solicited event: wake the receiver.
        solicited: bool,
        /// The message is the first one sent again after a refusal with code 4 [proto 7].
        start: bool,
    },
    /// Immediate for a queue pair that announces a write whose bytes are in memory (extension).
    Written {
        /// Queue pair number, 24 bits.
        qp: u32,
        /// Length of the write, in bytes.
        write_len: u32,
        /// Immediate data.
        imm: u32,
        /// Solicited event: wake the receiver.
        solicited: bool,
        /// The message is the first one sent again after a refusal with code 4 [proto 7].
        start: bool,
    },
    /// Atomic operation on 64 bits (extension). `Event::Completed` has the original value.
    Atomic {
        /// RMA address, a multiple of 8.
        address: u64,
        /// The operation.
        kind: AtomicKind,
        /// The value to add or to store.
        operand: u64,
        /// The value that compare and swap expects. Other kinds ignore it.
        compare: u64,
    },
}

impl ReqOp {
    /// Opcode on the wire.
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

/// Why `submit` refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The initiator window is full, a barrier holds the request back, or the peer has not
    /// announced yet whether it has the extensions. Try again after `Event::Writable`.
    WindowFull,
    /// The request is too long for one transaction.
    TooLong {
        /// Largest length, in bytes.
        max: u64,
    },
    /// The request is too short for the operation.
    TooShort {
        /// Smallest length, in bytes.
        min: u32,
    },
    /// The operation is an extension, and the connection does not use extensions.
    NeedsExt,
    /// The connection is shutting down, stopped or broken.
    Stopped,
    /// `count` is 0, or too large for one transaction.
    BadCount {
        /// Largest number of operations of this length in one transaction.
        max: u16,
    },
}

/// The requests that a barrier holds back [proto 4.12].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// All requests.
    All,
    /// RMA Writes and atomics.
    Writes,
}
