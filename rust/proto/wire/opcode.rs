// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Operation codes and what follows from them alone [proto 2.4, 7].

/// The operation codes this implementation can lay out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// No operation; with `eom` clear and Seqno 0 a pure ACK.
    Noop = 0,
    /// Last request of a connection that is being shut down.
    LastNull = 1,
    /// Failure of one operation, hence of its transaction.
    TransactionError = 2,
    /// RMA Read request.
    Read = 8,
    /// RMA Write.
    Write = 9,
    /// Data of an RMA Read.
    ReadResponse = 10,
    /// Send to a receive context named by a key.
    Send = 11,
    /// Send to a queue pair, one message a transaction.
    SendQp = 12,
    /// Write with exact length and immediate data (extension).
    WriteExt = 0xc0,
    /// Send to a queue pair, segmented (extension).
    SendQpExt = 0xc1,
    /// Atomic operation on 64 bits (extension).
    Atomic = 0xc2,
    /// Original value of an atomic (extension).
    AtomicResponse = 0xc3,
}

impl Opcode {
    /// The code's meaning, or `None` when this implementation knows no layout for it.
    pub const fn from_u8(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Noop,
            1 => Self::LastNull,
            2 => Self::TransactionError,
            8 => Self::Read,
            9 => Self::Write,
            10 => Self::ReadResponse,
            11 => Self::Send,
            12 => Self::SendQp,
            0xc0 => Self::WriteExt,
            0xc1 => Self::SendQpExt,
            0xc2 => Self::Atomic,
            0xc3 => Self::AtomicResponse,
            _ => return None,
        })
    }

    /// Bytes of one operation header. Blocks of atomics and their responses have a layout of their own
    /// and count as part of the header.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Noop | Self::LastNull => 0,
            Self::SendQp => 4,
            Self::TransactionError | Self::Write | Self::ReadResponse | Self::Send => 8,
            Self::Read => 12,
            Self::WriteExt | Self::SendQpExt => 16,
            Self::Atomic | Self::AtomicResponse => 32,
        }
    }

    /// Whether each operation has a data block.
    pub const fn has_data(self) -> bool {
        !matches!(
            self,
            Self::Noop
                | Self::LastNull
                | Self::TransactionError
                | Self::Read
                | Self::Atomic
                | Self::AtomicResponse
        )
    }

    /// Whether the code is an extension, legal only on connections created with `ext`.
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            Self::WriteExt | Self::SendQpExt | Self::Atomic | Self::AtomicResponse
        )
    }

    /// Whether packets with this code, known or not, travel from target to initiator.
    pub const fn is_reply(code: u8) -> bool {
        code == Self::TransactionError as u8
            || code == Self::ReadResponse as u8
            || code == Self::AtomicResponse as u8
    }

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "no-op",
            Self::LastNull => "last null",
            Self::TransactionError => "transaction error",
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadResponse => "read response",
            Self::Send => "send",
            Self::SendQp => "send to queue pair",
            Self::WriteExt => "write with length",
            Self::SendQpExt => "send to queue pair, segmented",
            Self::Atomic => "atomic",
            Self::AtomicResponse => "atomic response",
        }
    }
}
