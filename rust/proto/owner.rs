// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a connection calls while it delivers a packet.

use super::code::Code;
use super::wire::{AtomicKind, Block};

/// A piece of a message to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Transaction at the peer.
    pub xid: u16,
    /// Packet in the transaction. The message's blocks are ordered by (Seqno, OpNum) [proto 4.14].
    pub seqno: u16,
    /// Operation in the packet.
    pub opnum: u8,
    /// Queue pair number, 24 bits.
    pub qp: u32,
    /// Place in a segmented message; `None` for the plain operation, whose message is the transaction.
    pub ext: Option<SegmentExt>,
    /// It is the only packet and operation of its transaction, and the whole message.
    pub whole: bool,
}

/// Place of a piece in a segmented message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentExt {
    /// Offset of the piece in the message, in bytes; offset + length is within the message.
    pub offset: u32,
    /// Length of the message, in bytes.
    pub message_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The sender asks that the receiver be woken.
    pub solicited: bool,
    /// First message of a run that follows a refused one.
    pub start: bool,
}

/// Immediate data of a write, due now that all of its data is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Transaction at the peer.
    pub xid: u16,
    /// Queue pair that takes it.
    pub qp: u32,
    /// The value.
    pub imm: u32,
    /// The sender asks that the receiver be woken.
    pub solicited: bool,
    /// Bytes of the write: those of the transaction, or, where it only tells of one, what it says.
    pub len: u32,
    /// First message of a run that follows a refused one.
    pub start: bool,
}

/// An atomic operation of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// RMA address of 8 bytes, a multiple of 8.
    pub address: u64,
    /// What to do, see [`AtomicKind::apply`].
    pub kind: AtomicKind,
    /// What to add or to put in place.
    pub operand: u64,
    /// What compare and swap expects.
    pub compare: u64,
}

/// Memory and queue pairs as a connection sees them.
///
/// Called from [`super::Connection::receive`] and [`super::Connection::release`] only, under whatever
/// the caller holds. Data is named by its place in the packet being delivered, padding cut off. An error
/// ends the transaction: the peer gets its code in a Transaction Error, the rest of the transaction is
/// swallowed.
pub trait Owner {
    /// Places `data` at `address`, after checking that all of it is allowed.
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code>;

    /// Checks that `len` bytes at `address` may be read. They are fetched when the reply is sent.
    fn read(&mut self, address: u64, len: u32) -> Result<(), Code>;

    /// Carries out `atomic`, after checking that it is allowed, and gives the original value. Called
    /// once for each atomic of the peer; not to be undone by [`Self::aborted`].
    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code>;

    /// Places `data` into the receive context `key`, as part of transaction `xid` of the peer.
    fn send(&mut self, xid: u16, key: u32, offset: u32, data: Block) -> Result<(), Code>;

    /// Takes a piece of a message to a queue pair.
    fn send_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code>;

    /// Delivers the immediate of a write; called just before [`Self::complete`].
    fn imm(&mut self, immediate: Immediate) -> Result<(), Code>;

    /// The last packet of transaction `xid` of the peer has come and all of its data is placed.
    /// Called for opcodes with data.
    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code>;

    /// Transaction `xid` of the peer failed after its first packet came: forget what is kept of it.
    fn aborted(&mut self, xid: u16);

    /// Data of this end's read `xid`: bytes from `offset` of its operation `op`, within its length.
    fn reply(
        &mut self,
        xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code>;
}
