// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A packet to send: header values, and where the data comes from.

use super::request::ReqOp;
use super::wire::{
    AtomicOp, AtomicResponseOp, ExtFlags, PdlHeader, ReadOp, ReadResponseOp, SendOp, SendQpExtOp,
    SendQpOp, TalHeader, TransactionErrorOp, WriteExtOp, WriteOp,
};

/// One packet that the owner must send now, or count as lost on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    /// Packet sequence number, as in `pdl`.
    pub psn: u32,
    /// Not the first transmission of this PSN.
    pub retransmit: bool,
    /// SUPERp-lite: the packet has no Packet Delivery header, and `psn` and `pdl` are zero.
    pub lite: bool,
    /// Packet Delivery header.
    pub pdl: PdlHeader,
    /// Transaction header.
    pub tal: TalHeader,
    /// What follows.
    pub payload: Payload,
}

/// What follows the Transaction header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a pure ACK, or a No-op that asks for one.
    #[default]
    None,
    /// One Transaction Error.
    Error(TransactionErrorOp),
    /// Operations of this end's request.
    Request(RequestPayload),
    /// Data for a read of the peer.
    Reply(ReplyPayload),
    /// Original value for an atomic of the peer.
    AtomicResponse(AtomicResponseOp),
}

/// Operations of a request in one packet: `tal.num_ops` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPayload {
    /// Transaction.
    pub xid: u16,
    /// What was given to `submit`.
    pub token: u64,
    /// What was submitted, with the addresses of the request's first byte.
    pub op: ReqOp,
    /// Operations of the request.
    pub count: u16,
    /// The request's operation that is first in this packet; 0 unless it has more than one.
    pub first_op: u32,
    /// Offset of the packet's data in the operation's data, in bytes; 0 unless the request has one
    /// operation over several packets.
    pub offset: u32,
    /// Bytes per operation: to fetch and send when `has_data`, else to ask for.
    pub len: u32,
    /// Zero bytes to send after the data of each operation, 0..=16.
    pub pad: u8,
    /// Each operation has a data block of `len + pad` bytes after the headers.
    pub has_data: bool,
    /// The transaction's last packet, which is the one that carries a write's immediate.
    pub last: bool,
}

/// Data for reads in one packet: `tal.num_ops` blocks of `len + pad` bytes. For what to fetch see
/// [`super::Connection::reply_reads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyPayload {
    /// Transaction of the peer.
    pub xid: u16,
    /// First of the reads, and how many they are.
    pub(super) read: u16,
    pub(super) count: u8,
    /// Offset of the block in the data of its read, in bytes; 0 when there are several blocks.
    pub offset: u32,
    /// Bytes to fetch for each block.
    pub len: u32,
    /// Zero bytes to send after each block's data.
    pub pad: u8,
}

/// A read that a reply belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyRead {
    /// RMA address of the block's first byte: what to fetch.
    pub address: u64,
    /// Seqno of the request packet.
    pub seqno: u16,
    /// Position of the read in that packet.
    pub opnum: u8,
}

impl Transmit {
    /// See [`super::Connection::emit`]. `reads`: what a reply answers.
    pub(super) fn emit<R>(
        &self,
        out: &mut [u8],
        reads: impl FnOnce(&ReplyPayload) -> R,
        address: impl FnMut(u32) -> u64,
    ) -> Option<usize>
    where
        R: Iterator<Item = ReplyRead>,
    {
        let mut out = Out { out, at: 0 };
        if !self.lite {
            out.put(&self.pdl.bytes())?;
        }
        out.put(&self.tal.bytes())?;
        match &self.payload {
            Payload::None => {}
            Payload::Error(op) => out.put(&op.bytes())?,
            Payload::AtomicResponse(op) => out.put(&op.bytes())?,
            Payload::Request(request) => self.emit_request(request, &mut out, address)?,
            Payload::Reply(reply) => {
                for read in reads(reply) {
                    let op = ReadResponseOp {
                        seqno: read.seqno,
                        opnum: read.opnum,
                        offset: reply.offset,
                    };
                    out.put(&op.bytes())?;
                }
            }
        }
        Some(out.at)
    }

    /// The same packet without its content: a pure ACK that fills the PSN. For an owner that can no
    /// longer fetch the data of a reply, see [`super::Connection::refuse_reply`].
    pub fn without_payload(&self) -> Self {
        Self {
            tal: TalHeader {
                ext: self.tal.ext,
                ack_xid: self.tal.ack_xid,
                ..TalHeader::default()
            },
            payload: Payload::None,
            ..*self
        }
    }

    /// The packet that is `n` after this one, of those that [`super::Connection::follow`] made of it; `last` is the
    /// last of them, and comes after the one that is asked for.
    pub fn nth(&self, n: u16, last: &Self) -> Self {
        let psn = self.psn.wrapping_add(n.into());
        let mut next = Self {
            psn,
            retransmit: false,
            pdl: PdlHeader { psn, ..last.pdl },
            tal: TalHeader {
                seqno: self.tal.seqno.wrapping_add(n),
                ack_xid: last.tal.ack_xid,
                ..self.tal
            },
            ..*self
        };
        match &mut next.payload {
            Payload::Request(request) => {
                let before = request.len.wrapping_mul(n.into());
                request.offset = request.offset.wrapping_add(before);
            }
            Payload::Reply(reply) => {
                let before = reply.len.wrapping_mul(n.into());
                reply.offset = reply.offset.wrapping_add(before);
            }
            _ => {}
        }
        next
    }

    /// Bytes of data blocks after the headers.
    pub fn data_len(&self) -> usize {
        let block = match &self.payload {
            Payload::None | Payload::Error(_) | Payload::AtomicResponse(_) => 0,
            Payload::Request(request) if !request.has_data => 0,
            Payload::Request(request) => request.len.saturating_add(request.pad.into()),
            Payload::Reply(reply) => reply.len.saturating_add(reply.pad.into()),
        };
        (block as usize).saturating_mul(self.tal.num_ops.into())
    }

    fn emit_request(
        &self,
        request: &RequestPayload,
        out: &mut Out<'_>,
        mut address: impl FnMut(u32) -> u64,
    ) -> Option<()> {
        if let (ReqOp::Write { .. }, 2..) = (request.op, request.count) {
            let len = usize::from(self.tal.num_ops).checked_mul(WriteOp::LEN)?;
            let mut number = request.first_op;
            for op in out.take(len)?.chunks_exact_mut(WriteOp::LEN) {
                let address = address(number);
                *op.first_chunk_mut()? = WriteOp { address }.bytes();
                number = number.wrapping_add(1);
            }
            return Some(());
        }
        for index in 0..self.tal.num_ops {
            let number = request.first_op.wrapping_add(index.into());
            // One operation goes on over packets by its offset; of several each has its own place.
            let mut place = |first: u64| match request.count {
                0 | 1 => first.wrapping_add(request.offset.into()),
                _ => address(number),
            };
            let last = request.last && index.wrapping_add(1) == self.tal.num_ops;
            match request.op {
                ReqOp::Write { address } => {
                    let address = place(address);
                    out.put(&WriteOp { address }.bytes())?;
                }
                _ => emit_other(request, number, last, out, place)?,
            }
        }
        Some(())
    }
}

/// Writes the header of an operation that is no plain write, the most frequent one: for the others the
/// compiler takes apart all that an operation can be.
#[inline(never)]
fn emit_other(
    request: &RequestPayload,
    number: u32,
    last: bool,
    out: &mut Out<'_>,
    place: impl FnOnce(u64) -> u64,
) -> Option<()> {
    let pad = request.pad.min(ExtFlags::PAD_MAX);
    match request.op {
        ReqOp::Noop | ReqOp::LastNull | ReqOp::Write { .. } => Some(()),
        ReqOp::Atomic {
            address,
            kind,
            operand,
            compare,
        } => out.put(
            &AtomicOp {
                address: place(address),
                kind: kind as u8,
                operand,
                compare,
            }
            .bytes(),
        ),
        ReqOp::Read { address } => out.put(
            &ReadOp {
                address: place(address),
                length: request.len,
            }
            .bytes(),
        ),
        ReqOp::WriteExt {
            address,
            qp,
            imm,
            solicited,
        } => out.put(
            &WriteExtOp {
                address: place(address),
                qp,
                flags: ExtFlags {
                    pad,
                    immediate: last && imm.is_some(),
                    solicited: last && solicited,
                    ..ExtFlags::default()
                },
                immediate: imm.filter(|_| last).unwrap_or(0),
            }
            .bytes(),
        ),
        ReqOp::Send { key, offset } => {
            let place = place((u64::from(key) << 32) | u64::from(offset));
            out.put(
                &SendOp {
                    key: (place >> 32) as u32,
                    offset: place as u32,
                }
                .bytes(),
            )
        }
        ReqOp::SendQp { qp } => out.put(&SendQpOp { qp }.bytes()),
        ReqOp::SendQpExt {
            qp,
            offset,
            message_len,
            imm,
            solicited,
            start,
        } => out.put(
            &SendQpExtOp {
                qp,
                flags: ExtFlags {
                    pad,
                    immediate: imm.is_some(),
                    solicited,
                    start,
                    written: false,
                },
                immediate: imm.unwrap_or(0),
                offset: offset
                    .wrapping_add(request.offset)
                    .wrapping_add(number.wrapping_mul(request.len)),
                message_len,
            }
            .bytes(),
        ),
        ReqOp::Written {
            qp,
            write_len,
            imm,
            solicited,
            start,
        } => out.put(
            &SendQpExtOp {
                qp,
                flags: ExtFlags {
                    pad,
                    immediate: true,
                    solicited,
                    start,
                    written: true,
                },
                immediate: imm,
                offset: 0,
                message_len: write_len,
            }
            .bytes(),
        ),
    }
}

struct Out<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    /// The next `len` bytes, to be written.
    fn take(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.at.checked_add(len)?;
        let bytes = self.out.get_mut(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        *self.out.get_mut(self.at..)?.first_chunk_mut()? = *bytes;
        self.at = self.at.checked_add(N)?;
        Some(())
    }
}
