// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A packet to send: header values, and references to its data.

use super::request::ReqOp;
use super::wire::{
    AtomicOp, AtomicResponseOp, ExtFlags, PdlHeader, ReadOp, ReadResponseOp, SendOp, SendQpExtOp,
    SendQpOp, TalHeader, TransactionErrorOp, WriteExtOp, WriteOp,
};

/// A packet to send. The owner sends it now; a packet that it does not send counts as lost on the
/// network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    /// Packet sequence number, the same as in `pdl`.
    pub psn: u32,
    /// The PSN was transmitted before.
    pub retransmit: bool,
    /// The packet is SUPERp-lite: it has no Packet Delivery header, and `psn` and `pdl` are zero.
    pub lite: bool,
    /// Packet Delivery header.
    pub pdl: PdlHeader,
    /// Transaction header.
    pub tal: TalHeader,
    /// Content after the Transaction header.
    pub payload: Payload,
}

/// Content of a packet after the Transaction header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a pure ACK, or a probe.
    #[default]
    None,
    /// A Transaction Error.
    Error(TransactionErrorOp),
    /// Operations of a local request.
    Request(RequestPayload),
    /// Read responses for reads of the peer.
    Reply(ReplyPayload),
    /// The response to an atomic of the peer.
    AtomicResponse(AtomicResponseOp),
}

/// The part of a request that one packet carries: `tal.num_ops` operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPayload {
    /// XID of the transaction.
    pub xid: u16,
    /// Token of the request.
    pub token: u64,
    /// Operation of the request, with the address or offset of the request's first byte.
    pub op: ReqOp,
    /// Number of operations of the whole request.
    pub count: u16,
    /// Index in the request of this packet's first operation; 0 if the request has one operation.
    pub first_op: u32,
    /// Offset of the packet's data in the data of the operation, in bytes. It is 0 unless the
    /// request is one operation over several packets.
    pub offset: u32,
    /// Bytes per operation: of data to send if `has_data`, else of data to read.
    pub len: u32,
    /// Zero bytes to send after the data of each operation, 0..=16.
    pub pad: u8,
    /// Each operation has a data block of `len + pad` bytes, after all headers.
    pub has_data: bool,
    /// The packet is the last of its transaction. It carries the immediate of a write.
    pub last: bool,
}

/// The part of a reply that one packet carries: `tal.num_ops` blocks of `len + pad` bytes.
/// [`super::Connection::reply_reads`] returns the addresses of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyPayload {
    /// XID of the peer's transaction.
    pub xid: u16,
    /// Index of the first read in the target's pool.
    pub(super) read: u16,
    /// Number of reads.
    pub(super) count: u8,
    /// Offset of the block in the data of its read, in bytes; 0 if there are several blocks.
    pub offset: u32,
    /// Bytes of data in each block.
    pub len: u32,
    /// Zero bytes to send after the data of each block, 0..=16.
    pub pad: u8,
}

/// A read of the peer that a block of a reply answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyRead {
    /// RMA address of the block's first byte.
    pub address: u64,
    /// Seqno of the request packet.
    pub seqno: u16,
    /// Position of the read in that packet.
    pub opnum: u8,
}

impl Transmit {
    /// Writes the headers to `out`, see [`super::Connection::emit`]. `reads` returns the reads that
    /// a reply answers.
    pub(super) fn emit<R>(
        &self,
        out: &mut [u8],
        reads: impl FnOnce(&ReplyPayload) -> R,
        address: impl FnMut(u32) -> u64,
    ) -> Option<usize>
    where
        R: Iterator<Item = ReplyRead>,
    {
        let mut out = Writer { buf: out, len: 0 };
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
        Some(out.len)
    }

    /// The same packet as a pure ACK, which fills the PSN. An owner that can no longer fetch the
    /// data of a reply sends this, see [`super::Connection::refuse_reply`].
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

    /// Returns the `n`th packet after this one, of the packets that [`super::Connection::follow`]
    /// returned for it. `last` is the last of them. `n` must be less than their number.
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
                let distance = request.len.wrapping_mul(n.into());
                request.offset = request.offset.wrapping_add(distance);
            }
            Payload::Reply(reply) => {
                let distance = reply.len.wrapping_mul(n.into());
                reply.offset = reply.offset.wrapping_add(distance);
            }
            _ => {}
        }
        next
    }

    /// Bytes of all data blocks, padding included. The blocks follow the headers.
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
        out: &mut Writer<'_>,
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
            // A single operation continues over packets by its offset. Each of several operations
            // has an address of its own.
            let mut position = |first: u64| match request.count {
                0 | 1 => first.wrapping_add(request.offset.into()),
                _ => address(number),
            };
            let last = request.last && index.wrapping_add(1) == self.tal.num_ops;
            match request.op {
                ReqOp::Write { address } => {
                    let address = position(address);
                    out.put(&WriteOp { address }.bytes())?;
                }
                _ => emit_other(request, number, last, out, position)?,
            }
        }
        Some(())
    }
}

/// Writes the header of any operation except a plain write.
///
/// Not inlined, because the match over all operations would slow down the plain write, which is the
/// most frequent operation.
#[inline(never)]
fn emit_other(
    request: &RequestPayload,
    number: u32,
    last: bool,
    out: &mut Writer<'_>,
    position: impl FnOnce(u64) -> u64,
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
                address: position(address),
                kind: kind as u8,
                operand,
                compare,
            }
            .bytes(),
        ),
        ReqOp::Read { address } => out.put(
            &ReadOp {
                address: position(address),
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
                address: position(address),
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
            let position = position((u64::from(key) << 32) | u64::from(offset));
            out.put(
                &SendOp {
                    key: (position >> 32) as u32,
                    offset: position as u32,
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

/// A buffer of which the first `len` bytes are written.
struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    /// Reserves the next `len` bytes. Returns `None` if they do not fit.
    fn take(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.len.checked_add(len)?;
        let bytes = self.buf.get_mut(self.len..end)?;
        self.len = end;
        Some(bytes)
    }

    /// Appends `bytes`. Returns `None` if they do not fit.
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        *self.buf.get_mut(self.len..)?.first_chunk_mut()? = *bytes;
        self.len = self.len.checked_add(N)?;
        Some(())
    }
}
