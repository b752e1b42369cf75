// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Send window: packets in flight, loss detection. Timers are in `expire`, the congestion window in
//! `congested`.
//!
//! Every transmission, retransmissions included, has a number. A packet is suspected when a later
//! transmission, of a packet that was sent once, arrived before it. A suspect is declared lost when
//! it is too old, or at once if a transmission of its own lane arrived that is at least three
//! later, unless the path reordered packets within the last second. On a path that keeps order no
//! packet is suspected without a loss.
//!
//! An acknowledgement names 32 PSNs, as arrived or as missing; a NACK names 32 from anywhere in the
//! window. A packet that it does not name may have arrived all the same. Only packets that were
//! named as missing are therefore suspected. The lists of suspects are apart from the list of other
//! unacknowledged packets, see [`Membership`].

use super::super::bitmap::Bitmap;
use super::super::config::Config;
use super::super::seq::psn_diff;
use super::super::slab::{Slabs, Slots};
use super::super::wire::PdlHeader;
use super::congestion::{Congestion, Sample};
use super::content::Content;
use super::list::{List, Membership};
use super::rtt::Rtt;
use super::slot::SendSlot;

mod congested;
mod expire;

/// Distance in transmissions from a packet to a later one that arrived, from which on it is lost.
const REORDER: i32 = 3;

/// Number of lanes; a power of two.
const LANES: usize = 8;

/// Age, in transmissions, at which a lane's newest arrival is dropped, before the numbers wrap.
const LANE_MEMORY: i32 = 1 << 30;

/// Time in ns for which a path that reordered packets is expected to do so again.
const REORDER_MEMORY: u64 = 1_000_000_000;

/// Smallest window in which pure ACKs use new PSNs. They would fill a smaller one, and the peer
/// need not acknowledge them. There they carry an old PSN [proto 3.10, 3.11].
const PURE_ACK_WINDOW: u32 = 4;

/// Kind of a packet's acknowledgement fields [proto 3.2, 3.5].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckCheck {
    /// Older than an acknowledgement received before, or a NACK outside the window: ignored.
    Stale,
    /// Cumulative and selective acknowledgement.
    Ack,
    /// Selective acknowledgement only.
    Nack,
}

/// Why a packet is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Later packets were acknowledged.
    Evidence,
    /// The retransmission timer expired.
    Timeout,
    /// An ACK must be sent, and the window is full.
    FullWindow,
}

/// The peer does not acknowledge a packet [proto 3.14].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerDead;

/// Send window of a connection.
pub(crate) struct SendWindow<A: Slabs> {
    slots: Slots<A, SendSlot>,
    /// The specification's `acked_sbitmap`. Its base is `unacked_spsn`.
    acked: Bitmap<A>,
    next_spsn: u32,
    /// `max_spsn - unacked_spsn`: the lesser of `window_max` and the last RWIN [proto 3.7].
    window: u32,
    window_max: u32,
    /// The list `Membership::Sent`, in the order of transmission.
    sent: List,
    /// The list `Membership::Overtaken`, in the order in which its packets were suspected.
    overtaken: List,
    /// The list `Membership::Missing`, in the order in which its packets were suspected.
    missing: List,
    lost: List,
    next_transmission: u32,
    /// Highest number of a transmission that is known to have arrived.
    newest_arrived: Option<u32>,
    /// The same for the transmissions of each lane.
    newest_by_lane: [Option<u32>; LANES],
    /// Lane of new transmissions.
    lane: u8,
    /// Time in ns until which the path is expected to reorder packets.
    reorders_until: u64,
    /// Number of slots in the window with content.
    content_count: u32,
    /// Number of packets with content in flight: neither acknowledged nor lost. It is 0 without a
    /// congestion window.
    pipe: u32,
    congestion: Congestion,
    /// Number of retransmissions still allowed on the current event.
    rtx_budget: u32,
    /// Time in ns at which `unacked_spsn` last moved, or the peer's first packet was accepted.
    base_moved_at: u64,
    /// A packet of the peer was accepted. Before that the peer may not exist yet [proto 3.14].
    heard: bool,
    /// Time in ns from which the retransmission timer runs.
    timer_start: u64,
    /// Time in ns at which the retransmission timer expired last.
    expired_at: u64,
    /// End in ns of the grace after a late timer; `None` if none was late since the last progress.
    late_until: Option<u64>,
    /// The timer repeated a packet before the retransmission timeout; nothing has arrived since.
    tail_repeated: bool,
    /// Number of timer expiries without content in flight since the last progress.
    probes: u32,
    rtt: Rtt,
    rtx_max_pkts: u32,
    rtx_time_win: u64,
    max_rtx: u32,
    dead_time: u64,
}

impl<A: Slabs> SendWindow<A> {
    pub(crate) fn new(config: &Config, now: u64) -> Option<Self> {
        Some(Self {
            slots: Slots::new(config.pdl_window_size)?,
            acked: Bitmap::new(config.pdl_window_size, config.start_psn)?,
            next_spsn: config.start_psn,
            // Before the first RWIN. Many senders that start at once must not flood a receiver.
            window: config.receive_window(),
            window_max: config.pdl_window_size,
            sent: List::EMPTY,
            overtaken: List::EMPTY,
            missing: List::EMPTY,
            lost: List::EMPTY,
            next_transmission: 0,
            newest_arrived: None,
            newest_by_lane: [None; LANES],
            lane: 0,
            reorders_until: 0,
            content_count: 0,
            pipe: 0,
            congestion: Congestion::new(config),
            rtx_budget: 0,
            base_moved_at: now,
            heard: false,
            timer_start: now,
            expired_at: 0,
            late_until: None,
            tail_repeated: false,
            probes: 0,
            rtt: Rtt::new(config.pdl_retrans_time_out),
            rtx_max_pkts: config.pdl_rtx_max_pkts,
            rtx_time_win: config.pdl_rtx_time_win,
            max_rtx: config.pdl_max_rtx,
            dead_time: config.pdl_dead_time,
        })
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Index of the slot of `psn`, in this window and in any table of `slot_count` slots.
    pub(crate) fn slot(&self, psn: u32) -> usize {
        self.slots.index(psn).into()
    }

    /// Lowest PSN that is not acknowledged.
    pub(crate) fn unacked_spsn(&self) -> u32 {
        self.acked.base()
    }

    /// Next PSN to assign.
    pub(crate) fn next_spsn(&self) -> u32 {
        self.next_spsn
    }

    /// Number of PSNs from the base on that were assigned.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next_spsn.wrapping_sub(self.unacked_spsn())
    }

    /// Whether `psn` was assigned and is not acknowledged, neither cumulatively nor selectively.
    pub(crate) fn awaits(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.unacked_spsn()) < self.outstanding() && self.acked.bits(psn) & 1 == 0
    }

    /// Number of PSNs in the window with content.
    pub(crate) fn data_outstanding(&self) -> u32 {
        self.content_count
    }

    /// Records that a packet of the peer was accepted.
    pub(crate) fn hear(&mut self, now: u64) {
        if !self.heard {
            self.heard = true;
            self.base_moved_at = now;
        }
    }

    /// Whether a packet of the peer was accepted.
    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Whether a packet with this ACK PSN may use a new PSN.
    pub(crate) fn has_room(&self, ack_psn: u32) -> bool {
        self.free_slots(ack_psn) > 0
    }

    /// Number of packets with this ACK PSN that may use new PSNs.
    ///
    /// Only an ACK PSN newer than that of the packet at the base may use the last slot. Otherwise
    /// both ends could fill their windows and leave no space for an ACK [proto 3.11].
    pub(crate) fn free_slots(&self, ack_psn: u32) -> u32 {
        let outstanding = self.outstanding();
        let free = self.window.saturating_sub(outstanding);
        let regular = free.saturating_sub(1);
        if outstanding == 0 {
            return regular.max(1);
        }
        let base = self.slots.get(self.unacked_spsn());
        let last = free > 0 && base.is_some_and(|slot| psn_diff(ack_psn, slot.ack_psn) > 0);
        regular.saturating_add(last.into())
    }

    /// Whether a pure ACK with this ACK PSN may use a new PSN.
    pub(crate) fn has_ack_room(&self, ack_psn: u32) -> bool {
        self.window >= PURE_ACK_WINDOW && self.has_room(ack_psn)
    }

    /// Classifies acknowledgement fields. `Err`: they are of a packet never sent [proto 3.2].
    pub(crate) fn check_ack(&self, pdl: &PdlHeader) -> Result<AckCheck, ()> {
        let ahead = psn_diff(pdl.ack_psn, self.unacked_spsn());
        let sent = psn_diff(pdl.ack_psn, self.next_spsn) < 0;
        if pdl.is_nack() {
            return Ok(match ahead >= 0 && sent {
                true => AckCheck::Nack,
                false => AckCheck::Stale,
            });
        }
        match ahead {
            ..=-2 => Ok(AckCheck::Stale),
            _ if sent => Ok(AckCheck::Ack),
            _ => Err(()),
        }
    }

    /// Whether `acknowledge` would only set `window` and `rtx_budget`.
    pub(crate) fn is_redundant(&self, pdl: &PdlHeader) -> bool {
        self.unacked_spsn().wrapping_sub(1) == pdl.ack_psn && pdl.sack == 0 && !self.any_overtaken()
    }

    /// Processes acknowledgement fields of kind `check` [proto 3.4, 3.5]. Calls `acked` with the
    /// content of each PSN that the base passes.
    pub(crate) fn acknowledge(
        &mut self,
        now: u64,
        check: AckCheck,
        pdl: &PdlHeader,
        mut acked: impl FnMut(Content),
    ) {
        if check == AckCheck::Stale {
            return;
        }
        self.window = pdl.window.min(self.window_max);
        self.rtx_budget = self.rtx_max_pkts;
        // The common case for all but the first packet of a burst.
        if self.is_redundant(pdl) {
            return;
        }
        let mut news = AckNews::default();
        let pipe = self.pipe;
        let mut sack_base = pdl.ack_psn;
        if check == AckCheck::Ack {
            sack_base = sack_base.wrapping_add(1);
            let count = sack_base.wrapping_sub(self.unacked_spsn());
            for ahead in 0..count {
                let psn = self.unacked_spsn().wrapping_add(ahead);
                self.arrived(now, psn, &mut news);
                let Some(slot) = self.slots.get_mut(psn) else {
                    continue;
                };
                match core::mem::take(&mut slot.content) {
                    Content::None => {}
                    content => {
                        self.content_count = self.content_count.saturating_sub(1);
                        acked(content);
                    }
                }
            }
            self.acked.advance(count);
            if count > 0 {
                news.any = true;
                self.base_moved_at = now;
            }
        }

        // Bits beyond the last PSN sent are ignored.
        let sent = self.next_spsn.wrapping_sub(sack_base);
        let named = match 1u32.checked_shl(sent) {
            Some(bit) => bit.wrapping_sub(1),
            None => u32::MAX,
        };
        let mut new_bits = named & pdl.sack & !self.acked.bits(sack_base);
        self.acked.or(sack_base, new_bits);
        while new_bits != 0 {
            let psn = sack_base.wrapping_add(new_bits.trailing_zeros());
            new_bits &= new_bits.wrapping_sub(1);
            self.arrived(now, psn, &mut news);
        }

        let packets = pipe.saturating_sub(self.pipe);
        let newer = |newest| news.newest.is_some_and(|new| psn_diff(new, newest) > 0);
        if self.newest_arrived.is_none_or(newer) {
            self.newest_arrived = news.newest;
        }
        if self.any_overtaken() {
            let mut holes = named & !self.acked.bits(sack_base);
            while holes != 0 {
                let psn = sack_base.wrapping_add(holes.trailing_zeros());
                holes &= holes.wrapping_sub(1);
                self.named_missing(now, psn);
            }
        }
        match news.sample {
            Some((_, sample)) if !news.retransmitted => {
                self.rtt.measured(sample.age);
                if self.congestion.enabled() {
                    let deviation = self.rtt.rttvar();
                    let sample = Sample {
                        deviation,
                        ..sample
                    };
                    self.congestion.acknowledged(now, packets, sample, pipe);
                }
            }
            None if news.repaired => self.rtt.repaired(),
            _ => {}
        }
        if news.any {
            self.progress(now);
        }
    }

    /// Sets the lane of new transmissions.
    pub(crate) fn set_lane(&mut self, lane: u8) {
        self.lane = lane & (LANES as u8 - 1);
        let next = self.next_transmission;
        if let Some(newest) = self.newest_by_lane.get_mut(usize::from(self.lane)) {
            let recent = |&number: &u32| (0..LANE_MEMORY).contains(&psn_diff(next, number));
            *newest = newest.filter(recent);
        }
    }

    /// Restarts the retransmission timer: the peer sent what it could not send without having
    /// received a packet of this end.
    pub(crate) fn progress(&mut self, now: u64) {
        self.timer_start = now;
        self.late_until = None;
        self.tail_repeated = false;
        self.probes = 0;
    }

    /// Assigns the next PSN to a packet sent now. The caller has checked `has_room` and
    /// `congestion_room`. `eom`: the packet is the last of its request or answer.
    // Always inlined, in the loop that gives PSNs to a run.
    #[inline(always)]
    pub(crate) fn assign(&mut self, now: u64, content: Content, ack_psn: u32, eom: bool) -> Sent {
        let psn = self.next_spsn;
        self.next_spsn = psn.wrapping_add(1);
        let mut asks = false;
        if content != Content::None {
            if self.content_count == 0 {
                if self.congestion.enabled() {
                    self.rest(now);
                }
                self.timer_start = now;
            }
            self.content_count = self.content_count.saturating_add(1);
            asks = self.entered(now);
        }
        let transmission = self.next_transmission;
        self.next_transmission = transmission.wrapping_add(1);
        if let Some(slot) = self.slots.get_mut(psn) {
            *slot = SendSlot {
                first_sent: now,
                last_sent: now,
                content,
                transmission,
                ack_psn,
                member: Membership::Sent,
                prompt: asks || eom,
                lane: self.lane,
                ..SendSlot::default()
            };
        }
        let index = self.slots.index(psn);
        self.sent.push_back(&mut self.slots, index);
        Sent { psn, asks }
    }

    /// Returns the next packet to retransmit: PSN, content and cause.
    #[inline]
    pub(crate) fn next_lost(&mut self, now: u64) -> Option<(u32, Content, Cause)> {
        self.find_losses(now);
        if self.rtx_budget == 0 {
            return None;
        }
        let index = self.lost.head()?;
        let slot = self.slots.get(index.into())?;
        let cause = match slot.expired {
            true => Cause::Timeout,
            false => Cause::Evidence,
        };
        // The timer is slow enough. Only what has content is in the congestion window.
        let free = slot.expired || slot.content == Content::None;
        if !free && self.congestion_room(now) == 0 {
            return None;
        }
        Some((self.psn(index), slot.content, cause))
    }

    /// Whether no packet is lost or suspected to be.
    pub(crate) fn is_loss_free(&self) -> bool {
        self.lost.head().is_none() && self.next_by_age().is_none()
    }

    /// Returns the packet at the base if its acknowledgement is overdue. Its retransmission carries
    /// an ACK if the window is full [proto 3.11]; earlier a pure ACK with an old PSN does.
    pub(crate) fn overdue_base(&self, now: u64) -> Option<(u32, Content, Cause)> {
        let psn = self.unacked_spsn();
        let slot = self.slots.get(psn).filter(|_| self.outstanding() > 0)?;
        let overdue = slot.last_sent.saturating_add(self.rtt.base_rto());
        (overdue <= now).then_some((psn, slot.content, Cause::FullWindow))
    }

    /// Records a retransmission of `psn` now. Without `content` it is a pure ACK. Returns whether
    /// it is to ask for an acknowledgement.
    pub(crate) fn resend(
        &mut self,
        now: u64,
        psn: u32,
        content: Content,
        ack_psn: u32,
    ) -> Result<bool, PeerDead> {
        let Some(slot) = self.slots.get_mut(psn) else {
            return Ok(false);
        };
        // The wait behind retransmissions of earlier packets does not count.
        let since = slot.first_sent.max(self.base_moved_at);
        let old = since.saturating_add(self.dead_time) < now;
        if u32::from(slot.retransmits) > self.max_rtx && old && self.heard {
            return Err(PeerDead);
        }
        if slot.content != Content::None && content == Content::None {
            slot.content = content;
            if slot.member.in_flight() {
                self.pipe = self.pipe.saturating_sub(1);
            }
            self.content_count = self.content_count.saturating_sub(1);
            if self.content_count == 0 {
                // From now on the timer runs with the interval of probes.
                self.timer_start = now;
            }
        }
        if content == Content::None && slot.retransmits == 0 {
            // The age of a pure ACK counts from its first retransmission: nobody missed it before.
            slot.first_sent = now;
        }
        slot.retransmits = slot.retransmits.saturating_add(1);
        if slot.member == Membership::Lost {
            self.rtx_budget = self.rtx_budget.saturating_sub(1);
        }
        Ok(self.transmitted(now, psn, ack_psn))
    }

    /// Whether a later transmission arrived than that of an unacknowledged packet.
    fn any_overtaken(&self) -> bool {
        self.unlost_heads().into_iter().flatten().any(|index| {
            let slot = self.slots.get(index.into());
            slot.is_some_and(|slot| self.overtaken_by(slot) > 0)
        })
    }

    /// Head of each list of packets that are neither acknowledged nor lost.
    fn unlost_heads(&self) -> [Option<u16>; 3] {
        [self.missing.head(), self.overtaken.head(), self.sent.head()]
    }

    /// Distance in transmissions from that of `slot` to the newest one that arrived.
    fn overtaken_by(&self, slot: &SendSlot) -> i32 {
        self.newest_arrived
            .map_or(0, |newest| psn_diff(newest, slot.transmission))
    }

    /// Distance in transmissions from that of `slot` to the newest one of its lane that arrived.
    fn overtaken_by_lane(&self, slot: &SendSlot) -> i32 {
        let newest = self.newest_by_lane.get(usize::from(slot.lane));
        newest
            .copied()
            .flatten()
            .map_or(0, |newest| psn_diff(newest, slot.transmission))
    }

    /// Handles an acknowledgement that names `psn` as missing.
    fn named_missing(&mut self, now: u64, psn: u32) {
        let index = self.slots.index(psn);
        let Some(slot) = self.slots.get(psn) else {
            return;
        };
        if self.overtaken_by(slot) <= 0 {
            return;
        }
        let distance = self.overtaken_by_lane(slot);
        // A packet that was retransmitted is declared lost again only by its age [proto 3.12].
        let by_distance = slot.retransmits == 0 && now >= self.reorders_until;
        match slot.member {
            Membership::None | Membership::Lost => {}
            _ if by_distance && distance >= REORDER => {
                self.congestion.lost(now);
                self.set_lost(index, false, false);
            }
            Membership::Missing => {}
            _ if distance > 0 => self.suspect(index, Membership::Missing),
            Membership::Overtaken => {}
            Membership::Sent => self.suspect(index, Membership::Overtaken),
        }
    }

    /// Moves a slot to one of the lists of suspects.
    fn suspect(&mut self, index: u16, member: Membership) {
        self.remove(index);
        if let Some(slot) = self.slots.get_mut(index.into()) {
            slot.member = member;
            if self.congestion.enabled() && slot.content != Content::None {
                self.pipe = self.pipe.saturating_add(1);
            }
        }
        let list = match member {
            Membership::Overtaken => &mut self.overtaken,
            _ => &mut self.missing,
        };
        list.push_back(&mut self.slots, index);
    }

    /// Time in ns at which the first suspect becomes lost by its age, and its index.
    fn next_by_age(&self) -> Option<(u64, u16)> {
        match (self.missing.head(), self.overtaken.head()) {
            // The common case. This runs several times for each packet.
            (None, None) => None,
            _ => self.first_suspect(),
        }
    }

    #[cold]
    fn first_suspect(&self) -> Option<(u64, u16)> {
        let due = |list: &List, age: fn(&Rtt) -> u64| {
            let index = list.head()?;
            let slot = self.slots.get(index.into())?;
            Some((slot.last_sent.saturating_add(age(&self.rtt)), index))
        };
        let missing = due(&self.missing, Rtt::guard);
        // A whole lane is late if its CPU does not run. Arrivals of other lanes are no better
        // evidence than the timer.
        let overtaken = due(&self.overtaken, Rtt::base_rto);
        match (missing, overtaken) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Time in ns at which the first suspect becomes lost by its age.
    fn reorder_deadline(&self) -> Option<u64> {
        self.next_by_age().map(|(at, _)| at)
    }

    /// Declares lost all suspects that are too old.
    fn find_losses(&mut self, now: u64) {
        while let Some((_, index)) = self.next_by_age().filter(|&(at, _)| at <= now) {
            self.congestion.lost(now);
            self.set_lost(index, false, false);
        }
    }

    /// Records that the packet with `psn` arrived at the peer, unless that is known.
    fn arrived(&mut self, now: u64, psn: u32, news: &mut AckNews) {
        let index = self.slots.index(psn);
        let Some(&slot) = self.slots.get(psn) else {
            return;
        };
        if slot.member == Membership::None {
            return;
        }
        self.remove(index);
        news.any = true;
        if slot.retransmits > 0 {
            // Any of its transmissions may have arrived, so this is no evidence about others.
            news.retransmitted = true;
            let age = now.saturating_sub(slot.last_sent);
            news.repaired |= self.expired_at <= slot.last_sent && self.rtt.is_usual(age);
            return;
        }
        let was_missing = match slot.member {
            Membership::Missing => true,
            Membership::Lost => !slot.expired,
            Membership::None | Membership::Sent | Membership::Overtaken => false,
        };
        if was_missing && self.overtaken_by_lane(&slot) > 0 {
            // The packet was late, not lost: the path reorders.
            self.reorders_until = now.saturating_add(REORDER_MEMORY);
        }
        let newer = |newest| psn_diff(slot.transmission, newest) > 0;
        if let Some(newest) = self.newest_by_lane.get_mut(usize::from(slot.lane)) {
            if newest.is_none_or(newer) {
                *newest = Some(slot.transmission);
            }
        }
        if news.newest.is_none_or(newer) {
            news.newest = Some(slot.transmission);
        }
        if self.is_usable(&slot) && news.sample.is_none_or(|(other, _)| newer(other)) {
            let age = now.saturating_sub(slot.last_sent);
            let sample = Sample {
                age,
                prompt: slot.prompt,
                deviation: 0,
            };
            news.sample = Some((slot.transmission, sample));
        }
    }

    /// Whether the age of an acknowledged packet says something about the path.
    ///
    /// That of two kinds does not. The peer delays its ACK of a pure ACK. And the first ACK of a
    /// packet sent before the timer expired may be lost.
    #[inline]
    fn is_usable(&self, slot: &SendSlot) -> bool {
        slot.content != Content::None && slot.last_sent >= self.expired_at
    }

    /// Records that `psn` is transmitted again now. Returns whether it is to ask for an
    /// acknowledgement.
    fn transmitted(&mut self, now: u64, psn: u32, ack_psn: u32) -> bool {
        let index = self.slots.index(psn);
        self.remove(index);
        let (transmission, lane) = (self.next_transmission, self.lane);
        self.next_transmission = transmission.wrapping_add(1);
        let mut has_content = false;
        if let Some(slot) = self.slots.get_mut(psn) {
            has_content = slot.content != Content::None;
            slot.last_sent = now;
            slot.transmission = transmission;
            slot.ack_psn = ack_psn;
            slot.lane = lane;
            slot.expired = false;
            slot.member = Membership::Sent;
        }
        self.sent.push_back(&mut self.slots, index);
        has_content && self.entered(now)
    }

    /// Moves a slot to the list of lost packets, to its front if `first`, else to its end.
    fn set_lost(&mut self, index: u16, expired: bool, first: bool) {
        self.remove(index);
        if let Some(slot) = self.slots.get_mut(index.into()) {
            slot.member = Membership::Lost;
            slot.expired = expired;
        }
        // The window cannot move before the base is acknowledged, so the base goes first.
        if first || index == self.slots.index(self.unacked_spsn()) {
            self.lost.push_front(&mut self.slots, index);
        } else {
            self.lost.push_back(&mut self.slots, index);
        }
    }

    /// Removes a slot from its list.
    fn remove(&mut self, index: u16) {
        let Some(slot) = self.slots.get_mut(index.into()) else {
            return;
        };
        let counted = self.congestion.enabled() && slot.member.in_flight();
        if counted && slot.content != Content::None {
            self.pipe = self.pipe.saturating_sub(1);
        }
        match core::mem::take(&mut slot.member) {
            Membership::None => {}
            Membership::Sent => self.sent.unlink(&mut self.slots, index),
            Membership::Overtaken => self.overtaken.unlink(&mut self.slots, index),
            Membership::Missing => self.missing.unlink(&mut self.slots, index),
            Membership::Lost => self.lost.unlink(&mut self.slots, index),
        }
    }

    /// PSN in flight whose slot has this index.
    fn psn(&self, index: u16) -> u32 {
        let base = self.unacked_spsn();
        let ahead = self.slots.index(u32::from(index).wrapping_sub(base));
        base.wrapping_add(ahead.into())
    }
}

/// A packet that was given a PSN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) psn: u32,
    /// It is to ask for an acknowledgement [proto 7].
    pub(crate) asks: bool,
}

/// The news of one acknowledgement.
#[derive(Default)]
struct AckNews {
    /// A packet was acknowledged that was not before.
    any: bool,
    /// Highest transmission number of a packet that arrived, among those sent once.
    newest: Option<u32>,
    /// A retransmitted packet arrived. The others may have arrived long before it, and could be
    /// acknowledged only now, so they give no measurement.
    retransmitted: bool,
    /// A packet arrived that was retransmitted since the timer expired, a usual round trip ago.
    repaired: bool,
    /// Transmission number of the newest usable packet, and what it tells about the path.
    sample: Option<(u32, Sample)>,
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
