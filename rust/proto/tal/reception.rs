// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Received packets of a request or reply [proto 4.1, 4.2].

use super::super::bitmap::SeqnoBitmaps;
use super::super::slab::Slabs;
use super::super::wire::{SendQpExtOp, TalHeader};
use super::super::{Block, Code, DropReason, Report, SegmentExt};

/// Reception state of one transaction. A slot of `SeqnoBitmaps` has its Seqnos.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    /// Number of packets: Seqno of the packet with `eom`, plus one. 0 until that packet arrives.
    num_packets: u16,
    /// Highest received Seqno, plus one.
    end: u16,
    /// Number of packets received.
    count: u16,
}

impl Reception {
    /// Checks `count` packets with consecutive Seqnos against those received before. `tal` is the
    /// header of the first packet, except for `eom`, which is that of the last one. Changes no
    /// state.
    ///
    /// # Errors
    ///
    /// A rule of [proto 4.2] is broken.
    pub(super) fn check<A: Slabs>(
        &self,
        seqnos: &SeqnoBitmaps<A>,
        slot: u16,
        tal: &TalHeader,
        count: u16,
        max_packets: u32,
    ) -> Result<(), Report> {
        let seqno = tal.seqno;
        let high = match self.num_packets {
            0 => max_packets,
            packets => packets.into(),
        };
        let end = u32::from(seqno).saturating_add(count.into());
        let reason = if end > max_packets {
            DropReason::SeqnoTooLarge
        } else if tal.eom && self.num_packets != 0 {
            DropReason::EomDuplicate
        } else if end > high || (tal.eom && end < self.end.into()) {
            DropReason::SeqnoBeyondEom
        } else if seqnos.any(slot, seqno, count) {
            DropReason::SeqnoDuplicate
        } else {
            return Ok(());
        };
        Err(Report {
            reason,
            value: seqno.into(),
            low: 0,
            high,
        })
    }

    /// Records packets that [`Self::check`] accepted.
    pub(super) fn take<A: Slabs>(
        &mut self,
        seqnos: &mut SeqnoBitmaps<A>,
        slot: u16,
        tal: &TalHeader,
        count: u16,
    ) {
        seqnos.set(slot, tal.seqno, count);
        let end = tal.seqno.saturating_add(count);
        self.count = self.count.saturating_add(count);
        self.end = self.end.max(end);
        if tal.eom {
            self.num_packets = end;
        }
    }

    /// Whether all packets arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.num_packets != 0 && self.count == self.num_packets
    }
}

/// Position in its message of a block without padding. Cuts the block at the end of the message.
pub(super) fn segment_ext(send: &SendQpExtOp, block: &mut Block) -> Result<SegmentExt, Code> {
    let remaining = send
        .message_len
        .checked_sub(send.offset)
        .ok_or(Code::MALFORMED_LENGTH)? as usize;
    // An empty message has a block of 16 bytes, of which the pad field covers only 15.
    if block.len > remaining && send.message_len > 0 {
        return Err(Code::MALFORMED_LENGTH);
    }
    block.len = block.len.min(remaining);
    Ok(SegmentExt {
        offset: send.offset,
        message_len: send.message_len,
        imm: send.flags.immediate.then_some(send.immediate),
        solicited: send.flags.solicited,
        start: send.flags.start,
    })
}

#[cfg(test)]
mod model_tests;
