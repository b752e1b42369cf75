// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Send window: what is in flight, what of it is lost, when to look again.
//!
//! Loss is inferred from evidence. Every transmission, retransmissions included, has a number. When a
//! packet that was sent once is acknowledged and a transmission with a lower number is not, the latter
//! is lost if it is older than a guard time, or if three others were made after it by the same lane, unless
//! the path has lately been seen to reorder. On a path that keeps order there is no such evidence without
//! a loss.
//!
//! An acknowledgement names 32 packets, a NACK those from any place in the window. So what is told of
//! one packet says nothing of another outside those 32, which may have arrived unnamed: only packets
//! that an acknowledgement names as missing are suspected. They are in a list of their own; the others
//! that are unacknowledged are listed in the order of transmission.

use super::super::bitmap::Bitmap;
use super::super::config::Config;
use super::super::seq::psn_diff;
use super::super::slab::{Slabs, Slots};
use super::super::wire::PdlHeader;
use super::content::Content;
use super::list::{Link, List, Membership};
use super::rtt::Rtt;

/// Number of later transmissions, the last of them acknowledged, that make a packet lost.
const REORDER: i32 = 3;

/// Lanes that are told apart; a power of two.
const LANES: usize = 8;

/// Transmissions after which what arrived by a lane says nothing any more: their numbers wrap.
const LANE_MEMORY: i32 = 1 << 30;

/// Time in ns for which a path that was seen to reorder is expected to.
const REORDER_MEMORY: u64 = 1_000_000_000;

/// Smallest window in which pure ACKs take PSNs. In a smaller one they would leave no room for what
/// they are not asked to be acknowledged by; there they re-use an old PSN [proto 3.10, 3.11].
const PURE_ACK_WINDOW: u32 = 4;

/// Packets from the base on among which lost pure ACKs are repeated together when the timer expires.
const PURE_ACKS_PER_TIMEOUT: u32 = 8;

/// State of one PSN in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendSlot {
    first_sent: u64,
    last_sent: u64,
    content: Content,
    /// Number of the last transmission.
    transmission: u32,
    /// ACK PSN that the last transmission carried.
    ack_psn: u32,
    pub(super) link: Link,
    member: Membership,
    /// Lane of the last transmission.
    lane: u8,
    retransmits: u8,
    /// Taken for lost by the timer, not by evidence.
    expired: bool,
}

/// What the acknowledgement fields of a packet are [proto 3.2, 3.5].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckCheck {
    /// Older than what is known: without information.
    Stale,
    /// Cumulative and selective acknowledgement.
    Ack,
    /// Selective acknowledgement only.
    Nack,
}

/// Why a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Later packets were acknowledged.
    Evidence,
    /// The timer expired.
    Timeout,
    /// To carry an ACK for which the window has no room.
    FullWindow,
}

/// The peer does not acknowledge [proto 3.14].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerDead;

/// Send window of a connection.
pub(crate) struct SendWindow<A: Slabs> {
    slots: Slots<A, SendSlot>,
    /// `acked_sbitmap`; its base is `unacked_spsn`.
    acked: Bitmap<A>,
    next_spsn: u32,
    /// `max_spsn - unacked_spsn`: the least of the own limit and the last RWIN [proto 3.7].
    window: u32,
    window_max: u32,
    /// Unacknowledged slots that are not suspected, in the order of transmission.
    sent: List,
    /// Slots named as missing when a later transmission had arrived, but none of their lane, in the order of
    /// being named.
    overtaken: List,
    /// Slots named as missing when a later transmission of their lane had arrived, in that order.
    missing: List,
    lost: List,
    next_transmission: u32,
    /// Highest transmission that is known to have arrived.
    newest: Option<u32>,
    /// The same for each lane.
    newest_by: [Option<u32>; LANES],
    /// Lane of the transmissions made now.
    lane: u8,
    /// Until then the path is expected to reorder.
    reorders_until: u64,
    /// Slots in the window with content.
    data: u32,
    /// Retransmissions still allowed on this event.
    budget: u32,
    /// When `unacked_spsn` last moved, or the peer was heard for the first time.
    advanced: u64,
    /// A packet of the peer has come. Until then it is not dead: it may not be there yet [proto 3.14].
    heard: bool,
    /// Start of the retransmission timer.
    timer_start: u64,
    /// When it expired last.
    expired_at: u64,
    /// The timer was late, for the first time since the last progress, and waits until then.
    late_until: Option<u64>,
    /// Timer expiries without anything in flight since the last progress.
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
            // Until the peer says more: many that begin at the same time must not be too many.
            window: config.receive_window(),
            window_max: config.pdl_window_size,
            sent: List::EMPTY,
            overtaken: List::EMPTY,
            missing: List::EMPTY,
            lost: List::EMPTY,
            next_transmission: 0,
            newest: None,
            newest_by: [None; LANES],
            lane: 0,
            reorders_until: 0,
            data: 0,
            budget: 0,
            advanced: now,
            heard: false,
            timer_start: now,
            expired_at: 0,
            late_until: None,
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

    /// Index of the slot of `psn`, of this and of any table of `slot_count` slots.
    pub(crate) fn slot(&self, psn: u32) -> usize {
        self.slots.index(psn).into()
    }

    /// Lowest PSN that is not acknowledged.
    pub(crate) fn unacked_spsn(&self) -> u32 {
        self.acked.base()
    }

    /// Next PSN to use.
    pub(crate) fn next_spsn(&self) -> u32 {
        self.next_spsn
    }

    /// PSNs in the window.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next_spsn.wrapping_sub(self.unacked_spsn())
    }

    /// Whether a PSN has been assigned and not acknowledged, not even selectively.
    pub(crate) fn awaits(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.unacked_spsn()) < self.outstanding() && self.acked.bits(psn) & 1 == 0
    }

    /// PSNs in the window that carry something.
    pub(crate) fn data_outstanding(&self) -> u32 {
        self.data
    }

    /// Notes that a packet of the peer has come, whatever is in it.
    pub(crate) fn hear(&mut self, now: u64) {
        if !self.heard {
            self.heard = true;
            self.advanced = now;
        }
    }

    /// Whether a packet of the peer has come.
    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Whether a packet that carries `ack_psn` may take a new PSN.
    pub(crate) fn has_room(&self, ack_psn: u32) -> bool {
        self.room(ack_psn) > 0
    }

    /// How many packets that carry `ack_psn` may take new PSNs, one after the other.
    ///
    /// The last slot is used only for news to the peer, so that both ends can never fill their windows
    /// and leave no room for an ACK [proto 3.11].
    pub(crate) fn room(&self, ack_psn: u32) -> u32 {
        let outstanding = self.outstanding();
        let left = self.window.saturating_sub(outstanding);
        let others = left.saturating_sub(1);
        if outstanding == 0 {
            return others.max(1);
        }
        let base = self.slots.get(self.unacked_spsn());
        let news = left > 0 && base.is_some_and(|slot| psn_diff(ack_psn, slot.ack_psn) > 0);
        others.saturating_add(news.into())
    }

    /// Whether a pure ACK that carries `ack_psn` may take a new PSN.
    pub(crate) fn has_ack_room(&self, ack_psn: u32) -> bool {
        self.window >= PURE_ACK_WINDOW && self.has_room(ack_psn)
    }

    /// Judges acknowledgement fields. Changes nothing. `Err`: of a packet never sent [proto 3.2].
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

    /// Whether acknowledgement fields tell nothing that is not known.
    pub(crate) fn is_known(&self, pdl: &PdlHeader) -> bool {
        self.unacked_spsn().wrapping_sub(1) == pdl.ack_psn && pdl.sack == 0 && !self.any_overtaken()
    }

    /// Takes acknowledgement fields judged `check` [proto 3.4, 3.5]. `acked` gets the content of each PSN that is
    /// acknowledged for good, once.
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
        self.budget = self.rtx_max_pkts;
        // As nearly always with packets that come together.
        if self.is_known(pdl) {
            return;
        }
        let mut seen = Seen::default();
        let mut sack_base = pdl.ack_psn;
        if check == AckCheck::Ack {
            sack_base = sack_base.wrapping_add(1);
            let count = sack_base.wrapping_sub(self.unacked_spsn());
            for ahead in 0..count {
                let psn = self.unacked_spsn().wrapping_add(ahead);
                self.arrived(now, psn, &mut seen);
                let Some(slot) = self.slots.get_mut(psn) else {
                    continue;
                };
                match core::mem::take(&mut slot.content) {
                    Content::None => {}
                    content => {
                        self.data = self.data.saturating_sub(1);
                        acked(content);
                    }
                }
            }
            self.acked.advance(count);
            if count > 0 {
                seen.any = true;
                self.advanced = now;
            }
        }

        // Bits beyond what was ever sent are of no PSN in flight.
        let sent = self.next_spsn.wrapping_sub(sack_base);
        let named = match 1u32.checked_shl(sent) {
            Some(bit) => bit.wrapping_sub(1),
            None => u32::MAX,
        };
        let mut news = named & pdl.sack & !self.acked.bits(sack_base);
        self.acked.or(sack_base, news);
        while news != 0 {
            let psn = sack_base.wrapping_add(news.trailing_zeros());
            news &= news.wrapping_sub(1);
            self.arrived(now, psn, &mut seen);
        }

        let newer = |newest| seen.newest.is_some_and(|news| psn_diff(news, newest) > 0);
        if self.newest.is_none_or(newer) {
            self.newest = seen.newest;
        }
        if self.any_overtaken() {
            let mut holes = named & !self.acked.bits(sack_base);
            while holes != 0 {
                let psn = sack_base.wrapping_add(holes.trailing_zeros());
                holes &= holes.wrapping_sub(1);
                self.named_missing(now, psn);
            }
        }
        match seen.sample {
            Some((_, rtt)) if !seen.retransmitted => self.rtt.measured(rtt),
            None if seen.repaired => self.rtt.repaired(),
            _ => {}
        }
        if seen.any {
            self.progress(now);
        }
    }

    /// Transmissions from now on are made by `lane`.
    pub(crate) fn set_lane(&mut self, lane: u8) {
        self.lane = lane & (LANES as u8 - 1);
        let next = self.next_transmission;
        if let Some(newest) = self.newest_by.get_mut(usize::from(self.lane)) {
            let fresh = |&of: &u32| (0..LANE_MEMORY).contains(&psn_diff(next, of));
            *newest = newest.filter(fresh);
        }
    }

    /// Something came from the peer that it would not have sent without having heard of us: the
    /// retransmission timer starts again.
    pub(crate) fn progress(&mut self, now: u64) {
        self.timer_start = now;
        self.late_until = None;
        self.probes = 0;
    }

    /// Assigns the next PSN to a packet sent now; the caller has checked `has_room`.
    pub(crate) fn assign(&mut self, now: u64, content: Content, ack_psn: u32) -> u32 {
        let psn = self.next_spsn;
        self.next_spsn = psn.wrapping_add(1);
        if content != Content::None {
            if self.data == 0 {
                self.timer_start = now;
            }
            self.data = self.data.saturating_add(1);
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
                lane: self.lane,
                ..SendSlot::default()
            };
        }
        let index = self.slots.index(psn);
        self.sent.push_back(&mut self.slots, index);
        psn
    }

    /// The next PSN to retransmit, with its content.
    pub(crate) fn next_lost(&mut self, now: u64) -> Option<(u32, Content, Cause)> {
        self.find_losses(now);
        if self.budget == 0 {
            return None;
        }
        let index = self.lost.head()?;
        let slot = self.slots.get(index.into())?;
        let cause = match slot.expired {
            true => Cause::Timeout,
            false => Cause::Evidence,
        };
        Some((self.psn(index), slot.content, cause))
    }

    /// Nothing is lost, nor suspected to be.
    pub(crate) fn is_calm(&self) -> bool {
        self.lost.head().is_none() && self.next_by_age().is_none()
    }

    /// The packet to carry an ACK for which the window has no room [proto 3.11], once its own
    /// acknowledgement is overdue. Before, an ACK is better sent alone with an old PSN.
    pub(crate) fn overdue_base(&self, now: u64) -> Option<(u32, Content, Cause)> {
        let psn = self.unacked_spsn();
        let slot = self.slots.get(psn).filter(|_| self.outstanding() > 0)?;
        let overdue = slot.last_sent.saturating_add(self.rtt.overdue());
        (overdue <= now).then_some((psn, slot.content, Cause::FullWindow))
    }

    /// Counts a retransmission of `psn` made now. With `content` gone, what is sent is a pure ACK.
    pub(crate) fn resend(
        &mut self,
        now: u64,
        psn: u32,
        content: Content,
        ack_psn: u32,
    ) -> Result<(), PeerDead> {
        let Some(slot) = self.slots.get_mut(psn) else {
            return Ok(());
        };
        // A packet behind others that have to be repeated first is not the peer's fault.
        let since = slot.first_sent.max(self.advanced);
        let old = since.saturating_add(self.dead_time) < now;
        if u32::from(slot.retransmits) > self.max_rtx && old && self.heard {
            return Err(PeerDead);
        }
        if slot.content != Content::None && content == Content::None {
            slot.content = content;
            self.data = self.data.saturating_sub(1);
            if self.data == 0 {
                // From now on the timer has the interval of probes.
                self.timer_start = now;
            }
        }
        if content == Content::None && slot.retransmits == 0 {
            // Nobody was waiting for this packet until now.
            slot.first_sent = now;
        }
        slot.retransmits = slot.retransmits.saturating_add(1);
        if slot.member == Membership::Lost {
            self.budget = self.budget.saturating_sub(1);
        }
        self.transmitted(now, psn, ack_psn);
        Ok(())
    }

    /// When `expire` has something to do. `waiting`: the peer owes an answer though nothing that asks
    /// for an ACK may be in flight.
    pub(crate) fn deadline(&self, waiting: bool) -> Option<u64> {
        let timer = self.timer(waiting);
        match (timer, self.reorder_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does what is due at `now`; whether the retransmission timer expired. `blocked`: something waits
    /// for room in the window.
    pub(crate) fn expire(&mut self, now: u64, waiting: bool, blocked: bool) -> bool {
        if self.reorder_deadline().is_some_and(|at| at <= now) {
            self.budget = self.rtx_max_pkts;
        }
        let Some(at) = self.timer(waiting).filter(|&at| at <= now) else {
            return false;
        };
        // A timer this late means that this CPU did not run, so ACKs may be waiting to be received.
        let grace = self.rtt.grace();
        if self.late_until.is_none() && now.saturating_sub(at) > grace {
            self.late_until = Some(now.saturating_add(grace));
            return false;
        }
        self.timer_start = now;
        self.expired_at = now;
        if self.data == 0 {
            self.probes = self.probes.saturating_add(1);
        } else {
            self.rtt.back_off();
        }
        // The fate of pure ACKs matters only where something waits for what they occupy.
        if self.data > 0 || blocked {
            self.expire_packets();
        }
        true
    }

    /// Takes the packet at `unacked_spsn` for lost, and those sent with it.
    fn expire_packets(&mut self) {
        if self.outstanding() == 0 {
            return;
        }
        self.budget = self.rtx_max_pkts.saturating_add(1);
        let base = self.unacked_spsn();
        let (sent_at, content) = self
            .slots
            .get(base)
            .map_or((0, Content::None), |slot| (slot.last_sent, slot.content));
        let sent_with = sent_at.saturating_add(self.rtx_time_win);
        if content == Content::None {
            // Pure ACKs are small, and a timeout for each would be long where many are lost.
            for ahead in (1..PURE_ACKS_PER_TIMEOUT.min(self.outstanding())).rev() {
                let psn = base.wrapping_add(ahead);
                let lost = self.slots.get(psn).is_some_and(|slot| {
                    let unknown = slot.member != Membership::None;
                    unknown && slot.content == Content::None && slot.last_sent <= sent_with
                });
                if lost {
                    self.budget = self.budget.saturating_add(1);
                    self.set_lost(self.slots.index(psn), true, true);
                }
            }
            // The window waits for the base, the peer for what comes behind it, maybe further than an
            // acknowledgement can name, and behind many that it names and does not wait for.
            if let Some(index) = self.oldest_data() {
                self.budget = self.budget.saturating_add(1);
                self.set_lost(index, true, true);
            }
        }
        self.set_lost(self.slots.index(base), true, true);
        for _ in 0..self.rtx_max_pkts {
            let mut with_it = self.unlost().into_iter().flatten();
            match with_it.find(|&index| self.sent_by(index, sent_with)) {
                Some(index) => self.set_lost(index, true, false),
                None => return,
            }
        }
    }

    /// The unacknowledged packet with content whose last transmission is the oldest.
    fn oldest_data(&self) -> Option<u16> {
        let mut oldest: Option<(u16, u32)> = None;
        for ahead in 0..self.outstanding() {
            let psn = self.unacked_spsn().wrapping_add(ahead);
            let Some(slot) = self.slots.get(psn) else {
                continue;
            };
            let older = oldest.is_none_or(|(_, than)| psn_diff(slot.transmission, than) < 0);
            if slot.member != Membership::None && slot.content != Content::None && older {
                oldest = Some((self.slots.index(psn), slot.transmission));
            }
        }
        oldest.map(|(index, _)| index)
    }

    /// Whether the slot's last transmission was not after `time`.
    fn sent_by(&self, index: u16, time: u64) -> bool {
        let slot = self.slots.get(index.into());
        slot.is_some_and(|slot| slot.last_sent <= time)
    }

    /// When the retransmission timer expires. Pure ACKs alone do not make it run [proto 3.10].
    fn timer(&self, waiting: bool) -> Option<u64> {
        let interval = match self.data {
            0 if !waiting => return None,
            0 => self.rtt.probe_interval(self.probes),
            _ => self.rtt.rto(),
        };
        let at = self.timer_start.saturating_add(interval);
        Some(at.max(self.late_until.unwrap_or(0)))
    }

    /// Whether a transmission that has not arrived is older than one that has.
    fn any_overtaken(&self) -> bool {
        self.unlost().into_iter().flatten().any(|index| {
            let slot = self.slots.get(index.into());
            slot.is_some_and(|slot| self.later(slot) > 0)
        })
    }

    /// The first of each list of what is neither acknowledged nor taken for lost.
    fn unlost(&self) -> [Option<u16>; 3] {
        [self.missing.head(), self.overtaken.head(), self.sent.head()]
    }

    /// How many transmissions after that of `slot` the newest is that has arrived.
    fn later(&self, slot: &SendSlot) -> i32 {
        self.newest
            .map_or(0, |newest| psn_diff(newest, slot.transmission))
    }

    /// The same among those made by the lane of `slot`.
    fn later_by_lane(&self, slot: &SendSlot) -> i32 {
        let newest = self.newest_by.get(usize::from(slot.lane));
        newest
            .copied()
            .flatten()
            .map_or(0, |newest| psn_diff(newest, slot.transmission))
    }

    /// An acknowledgement that could have named `psn` as arrived does not.
    fn named_missing(&mut self, now: u64, psn: u32) {
        let index = self.slots.index(psn);
        let Some(slot) = self.slots.get(psn) else {
            return;
        };
        if self.later(slot) <= 0 {
            return;
        }
        let later = self.later_by_lane(slot);
        // What was re-sent once is re-sent again by age only [proto 3.12].
        let counts = slot.retransmits == 0 && now >= self.reorders_until;
        match slot.member {
            Membership::None | Membership::Lost => {}
            _ if counts && later >= REORDER => self.set_lost(index, false, false),
            Membership::Missing => {}
            _ if later > 0 => self.suspect(index, Membership::Missing),
            Membership::Overtaken => {}
            Membership::Sent => self.suspect(index, Membership::Overtaken),
        }
    }

    /// Puts a slot on one of the lists of suspects.
    fn suspect(&mut self, index: u16, member: Membership) {
        self.remove(index);
        if let Some(slot) = self.slots.get_mut(index.into()) {
            slot.member = member;
        }
        let list = match member {
            Membership::Overtaken => &mut self.overtaken,
            _ => &mut self.missing,
        };
        list.push_back(&mut self.slots, index);
    }

    /// When the first suspect is lost by its age, and its index.
    fn next_by_age(&self) -> Option<(u64, u16)> {
        match (self.missing.head(), self.overtaken.head()) {
            // As nearly always: for each packet this is asked several times.
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
        // A lane is late as a whole when its CPU does not run: the evidence is not better than the timer's.
        let overtaken = due(&self.overtaken, Rtt::overdue);
        match (missing, overtaken) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the first suspect is lost by its age.
    fn reorder_deadline(&self) -> Option<u64> {
        self.next_by_age().map(|(at, _)| at)
    }

    /// Takes suspects for lost that are too old.
    fn find_losses(&mut self, now: u64) {
        while let Some((_, index)) = self.next_by_age().filter(|&(at, _)| at <= now) {
            self.set_lost(index, false, false);
        }
    }

    /// Notes that the packet with `psn` has arrived at the peer, if that is news.
    fn arrived(&mut self, now: u64, psn: u32, seen: &mut Seen) {
        let index = self.slots.index(psn);
        let Some(&slot) = self.slots.get(psn) else {
            return;
        };
        if slot.member == Membership::None {
            return;
        }
        self.remove(index);
        seen.any = true;
        if slot.retransmits > 0 {
            // Which of its transmissions arrived is not known: that is evidence of nothing.
            seen.retransmitted = true;
            let age = now.saturating_sub(slot.last_sent);
            seen.repaired |= self.expired_at <= slot.last_sent && self.rtt.is_usual(age);
            return;
        }
        let was_missing = match slot.member {
            Membership::Missing => true,
            Membership::Lost => !slot.expired,
            Membership::None | Membership::Sent | Membership::Overtaken => false,
        };
        if was_missing && self.later_by_lane(&slot) > 0 {
            // It was late, not lost.
            self.reorders_until = now.saturating_add(REORDER_MEMORY);
        }
        let newer = |newest| psn_diff(slot.transmission, newest) > 0;
        if let Some(newest) = self.newest_by.get_mut(usize::from(slot.lane)) {
            if newest.is_none_or(newer) {
                *newest = Some(slot.transmission);
            }
        }
        if seen.newest.is_none_or(newer) {
            seen.newest = Some(slot.transmission);
        }
        // Nobody hurries to acknowledge a pure ACK, and what was sent before the timer expired was
        // perhaps acknowledged in vain before: their age says nothing about the path.
        let usable = slot.content != Content::None && slot.last_sent >= self.expired_at;
        if usable && seen.sample.is_none_or(|(other, _)| newer(other)) {
            let age = now.saturating_sub(slot.last_sent);
            seen.sample = Some((slot.transmission, age));
        }
    }

    /// Notes a transmission of `psn` made now.
    fn transmitted(&mut self, now: u64, psn: u32, ack_psn: u32) {
        let index = self.slots.index(psn);
        self.remove(index);
        let (transmission, lane) = (self.next_transmission, self.lane);
        self.next_transmission = transmission.wrapping_add(1);
        if let Some(slot) = self.slots.get_mut(psn) {
            slot.last_sent = now;
            slot.transmission = transmission;
            slot.ack_psn = ack_psn;
            slot.lane = lane;
            slot.expired = false;
            slot.member = Membership::Sent;
        }
        self.sent.push_back(&mut self.slots, index);
    }

    /// Puts a slot on the list of those to retransmit, at its end or `first`.
    fn set_lost(&mut self, index: u16, expired: bool, first: bool) {
        self.remove(index);
        if let Some(slot) = self.slots.get_mut(index.into()) {
            slot.member = Membership::Lost;
            slot.expired = expired;
        }
        // The base is what the window waits for.
        if first || index == self.slots.index(self.unacked_spsn()) {
            self.lost.push_front(&mut self.slots, index);
        } else {
            self.lost.push_back(&mut self.slots, index);
        }
    }

    /// Takes a slot out of the list it is in.
    fn remove(&mut self, index: u16) {
        let Some(slot) = self.slots.get_mut(index.into()) else {
            return;
        };
        match core::mem::take(&mut slot.member) {
            Membership::None => {}
            Membership::Sent => self.sent.unlink(&mut self.slots, index),
            Membership::Overtaken => self.overtaken.unlink(&mut self.slots, index),
            Membership::Missing => self.missing.unlink(&mut self.slots, index),
            Membership::Lost => self.lost.unlink(&mut self.slots, index),
        }
    }

    /// The PSN in flight whose slot has this index.
    fn psn(&self, index: u16) -> u32 {
        let base = self.unacked_spsn();
        let ahead = self.slots.index(u32::from(index).wrapping_sub(base));
        base.wrapping_add(ahead.into())
    }
}

/// What one acknowledgement told.
#[derive(Default)]
struct Seen {
    /// It was news.
    any: bool,
    /// Highest transmission number among what arrived.
    newest: Option<u32>,
    /// A retransmitted packet was among what arrived: the others may have arrived long before it, and
    /// only now could be acknowledged.
    retransmitted: bool,
    /// Such a packet, sent again since the timer expired, as long ago as a round trip takes.
    repaired: bool,
    /// Transmission number and round trip of the newest packet sent once.
    sample: Option<(u32, u64)>,
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
