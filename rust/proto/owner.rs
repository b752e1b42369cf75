// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The callbacks of a connection: access to memory and queue pairs.

use super::code::Code;
use super::wire::{AtomicKind, Block};

/// The part of a message to a queue pair that one operation carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// XID of the peer's transaction.
    pub xid: u16,
    /// Seqno of the packet. The blocks of a message are ordered by (Seqno, OpNum) [proto 4.14].
    pub seqno: u16,
    /// Position of the operation in the packet, 0..=14.
    pub opnum: u8,
    /// Destination queue pair number, 24 bits.
    pub qp: u32,
    /// Position in a segmented message (opcode 0xC1). `None` for a plain Send to QP, where the
    /// message is the transaction.
    pub ext: Option<SegmentExt>,
    /// The transaction has only this packet and this operation, and the data is the whole message.
    pub whole: bool,
}

/// Position of a segment in a segmented message, and the flags of that message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentExt {
    /// Offset of the segment in the message, in bytes. The segment ends inside the message.
    pub offset: u32,
    /// Length of the message, in bytes.
    pub message_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Solicited event: the sender asks that the receiver be woken.
    pub solicited: bool,
    /// The message ends a refusal: it is the first that the peer sends again after code 4
    /// [proto 7].
    pub start: bool,
}

/// Immediate data of a write. All data of its transaction is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// XID of the peer's transaction.
    pub xid: u16,
    /// Destination queue pair number, 24 bits.
    pub qp: u32,
    /// The immediate value.
    pub imm: u32,
    /// Solicited event: the sender asks that the receiver be woken.
    pub solicited: bool,
    /// Length of the write, in bytes. A Write with length has the bytes of its transaction here, an
    /// operation with the flag `written` the length that it announces.
    pub len: u32,
    /// The message ends a refusal: it is the first that the peer sends again after code 4
    /// [proto 7].
    pub start: bool,
}

/// An atomic operation of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// RMA address of 8 bytes, a multiple of 8.
    pub address: u64,
    /// The operation, see [`AtomicKind::apply`].
    pub kind: AtomicKind,
    /// The value to add or to store.
    pub operand: u64,
    /// The value that compare and swap expects. Other kinds ignore it.
    pub compare: u64,
}

/// Access to memory and queue pairs for a connection that delivers a packet.
///
/// Only [`super::Connection::receive`], [`super::Connection::receive_run`] and
/// [`super::Connection::release`] call these methods, with the locks that their caller holds (in
/// the module: bottom halves off, `Conn::inner` held). A [`Block`] is a range of bytes in the
/// packet, or run, that is being delivered; padding is cut off.
///
/// # Errors
///
/// An error of `reply` ends the local read with that code. Any other error fails the peer's
/// transaction: the code goes to the peer in a Transaction Error, and later packets of the
/// transaction are discarded. `receive_run` is an exception for the methods that place data
/// (`write`, `message_to_qp`, `reply`): it returns `None`, the owner passes in each packet alone,
/// and only an error of that second attempt counts.
pub trait Owner {
    /// Copies `data` to `address`, if the peer may write all of it.
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code>;

    /// Checks that the peer may read `len` bytes at `address`. The bytes are fetched when the reply
    /// is sent.
    fn read(&mut self, address: u64, len: u32) -> Result<(), Code>;

    /// Carries out `atomic` if it is allowed, and returns the original value. The call happens once
    /// for each atomic of the peer. [`Self::aborted`] does not undo it.
    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code>;

    /// Receives a part of a message to a receive context: copies `data` to `offset` (bytes) of
    /// context `key`, for the peer's transaction `xid`.
    fn message_to_context(
        &mut self,
        xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code>;

    /// Receives a segment of a message to a queue pair.
    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code>;

    /// Delivers the immediate of a write. If it succeeds, [`Self::complete`] is called next.
    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code>;

    /// Completes the peer's transaction `xid`: every packet arrived and all data is placed. The
    /// call happens only for opcodes with data.
    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code>;

    /// Drops what the owner stored for the peer's transaction `xid`, because the transaction
    /// failed.
    fn aborted(&mut self, xid: u16);

    /// Receives data of the local read `xid`: the bytes from `offset` on of its operation `op`.
    /// `token` is that of the request. The range lies within the length of the operation.
    fn reply(
        &mut self,
        xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code>;
}
