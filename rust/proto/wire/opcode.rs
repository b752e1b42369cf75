// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Operation codes and their properties [proto 2.4, 7].

/// The operation codes that this implementation knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// No operation. With `eom` clear and Seqno 0 the packet is a pure ACK.
    Noop = 0,
    /// Last request of a connection that is being shut down.
    LastNull = 1,
    /// Failure of an operation, and so of its transaction.
    TransactionError = 2,
    /// RMA Read request.
    Read = 8,
    /// RMA Write.
    Write = 9,
    /// Read response: data of an RMA Read.
    ReadResponse = 10,
    /// Send to the receive context that a key names.
    Send = 11,
    /// Send to a queue pair. The message is the transaction.
    SendQp = 12,
    /// Write with length, and optional immediate data (extension).
    WriteExt = 0xc0,
    /// Send to a queue pair, segmented (extension).
    SendQpExt = 0xc1,
    /// Atomic operation on 64 bits (extension).
    Atomic = 0xc2,
    /// Atomic response: original value of an atomic (extension).
    AtomicResponse = 0xc3,
}

impl Opcode {
    /// Decodes an operation code. `None` if this implementation does not know it.
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

    /// Bytes of one operation header. The block of an atomic, or of its response, has fixed fields
    /// and counts as part of the header.
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

    /// Whether the code is an extension [proto 7].
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            Self::WriteExt | Self::SendQpExt | Self::Atomic | Self::AtomicResponse
        )
    }

    /// Whether packets with this code go from target to initiator: answers. Every unknown code is a
    /// request [proto 4.13].
    pub const fn is_reply(code: u8) -> bool {
        code == Self::TransactionError as u8
            || code == Self::ReadResponse as u8
            || code == Self::AtomicResponse as u8
    }

    /// Display name.
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
