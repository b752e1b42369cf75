// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which packets of a request or reply have come [proto 4.1, 4.2].

use super::super::bitmap::SeqnoBitmaps;
use super::super::slab::Slabs;
use super::super::wire::TalHeader;
use super::super::{DropReason, Report};

/// Reception state of one transaction; its Seqnos are in a `SeqnoBitmaps` slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    /// Seqno of the eom packet + 1; 0 while eom has not been seen.
    num_packets: u16,
    /// Highest Seqno seen + 1.
    end: u16,
    /// Packets seen.
    count: u16,
}

impl Reception {
    /// Whether `count` packets, of which `tal` is the first, or the last as to its eom, fit to what was seen. Changes
    /// nothing.
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

    /// Notes packets that were checked.
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

    /// All packets have come.
    pub(super) fn is_complete(&self) -> bool {
        self.num_packets != 0 && self.count == self.num_packets
    }
}

#[cfg(test)]
mod model_tests;
