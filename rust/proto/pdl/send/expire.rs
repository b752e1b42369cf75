// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Timers of the send window: retransmission, probes, and the age of suspects.

use super::super::super::seq::psn_diff;
use super::super::super::slab::Slabs;
use super::super::content::Content;
use super::super::list::Membership;
use super::SendWindow;

/// Number of PSNs, from the base on, whose pure ACKs one timeout may retransmit [proto 3.12].
const PURE_ACKS_PER_TIMEOUT: u32 = 8;

impl<A: Slabs> SendWindow<A> {
    /// Time in ns at which `expire` has work. `waiting`: this end waits for the peer, even if no
    /// content is in flight.
    #[inline]
    pub(crate) fn deadline(&self, waiting: bool) -> Option<u64> {
        let timer = self.timer(waiting);
        match (timer, self.reorder_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Time in ns at which the congestion window lets a packet leave that waits for nothing else;
    /// `None` if there is none. `waits`: a new packet with this ACK PSN waits.
    pub(crate) fn pause_end(&self, waits: bool, ack_psn: u32) -> Option<u64> {
        let at = self.congestion.pause_end(self.pipe)?;
        let lost = self.lost.head().is_some() && self.rtx_budget > 0;
        (lost || (waits && self.has_room(ack_psn))).then_some(at)
    }

    /// Handles the timers that are due at `now`. Returns true if the retransmission timer expired.
    /// `blocked`: packets wait for the window.
    pub(crate) fn expire(&mut self, now: u64, waiting: bool, blocked: bool) -> bool {
        if self.reorder_deadline().is_some_and(|at| at <= now) {
            self.rtx_budget = self.rtx_max_pkts;
        }
        let Some(at) = self.timer(waiting).filter(|&at| at <= now) else {
            return false;
        };
        // A timer this late means that this CPU did not run. ACKs may wait in the receive queue, so
        // the timer waits for them once more.
        let grace = self.rtt.grace();
        if self.late_until.is_none() && now.saturating_sub(at) > grace {
            self.late_until = Some(now.saturating_add(grace));
            return false;
        }
        if self.repeats_tail() {
            self.repeat_tail(now);
            return false;
        }
        self.timer_start = now;
        self.expired_at = now;
        if self.content_count == 0 {
            self.probes = self.probes.saturating_add(1);
        } else {
            self.rtt.back_off();
            self.congestion.timed_out(now);
        }
        // A lost pure ACK matters only if packets wait for the window.
        if self.content_count > 0 || blocked {
            self.expire_packets();
        }
        true
    }

    /// Whether the timer repeats one packet before it counts as a timeout [proto 3.22]. The peer
    /// acknowledges at once then, so a round trip of silence is most likely a loss.
    fn repeats_tail(&self) -> bool {
        let silent = self.content_count > 0 && !self.tail_repeated;
        silent && self.congestion.enabled() && self.rtt.srtt() > 0
    }

    /// Declares the packet lost that was sent last, before the retransmission timeout. The peer's
    /// answer names what else is missing.
    fn repeat_tail(&mut self, now: u64) {
        self.tail_repeated = true;
        self.timer_start = now;
        let has_content = |index: &u16| {
            let slot = self.slots.get((*index).into());
            slot.is_some_and(|slot| slot.content != Content::None)
        };
        let last = self.sent.tail().filter(has_content);
        self.congestion.lost(now);
        self.rtx_budget = self.rtx_budget.max(1);
        let base = self.slots.index(self.unacked_spsn());
        self.set_lost(last.unwrap_or(base), true, true);
    }

    /// Declares lost the packet at `unacked_spsn`, and packets sent about the same time.
    fn expire_packets(&mut self) {
        if self.outstanding() == 0 {
            return;
        }
        self.rtx_budget = self.rtx_max_pkts.saturating_add(1);
        let base = self.unacked_spsn();
        let (sent_at, content) = self
            .slots
            .get(base)
            .map_or((0, Content::None), |slot| (slot.last_sent, slot.content));
        let sent_with = sent_at.saturating_add(self.rtx_time_win);
        if content == Content::None {
            // Several pure ACKs at once: one timeout for each would take long if many are lost.
            for ahead in (1..PURE_ACKS_PER_TIMEOUT.min(self.outstanding())).rev() {
                let psn = base.wrapping_add(ahead);
                let lost = self.slots.get(psn).is_some_and(|slot| {
                    let unknown = slot.member != Membership::None;
                    unknown && slot.content == Content::None && slot.last_sent <= sent_with
                });
                if lost {
                    self.rtx_budget = self.rtx_budget.saturating_add(1);
                    self.set_lost(self.slots.index(psn), true, true);
                }
            }
            // The peer waits for the content behind the pure ACKs, which may be beyond what a SACK
            // can name. The oldest packet with content is retransmitted, too.
            if let Some(index) = self.oldest_data() {
                self.rtx_budget = self.rtx_budget.saturating_add(1);
                self.set_lost(index, true, true);
            }
        }
        self.set_lost(self.slots.index(base), true, true);
        for _ in 0..self.rtx_max_pkts {
            let mut heads = self.unlost_heads().into_iter().flatten();
            match heads.find(|&index| self.sent_by(index, sent_with)) {
                Some(index) => self.set_lost(index, true, false),
                None => return,
            }
        }
    }

    /// Index of the unacknowledged packet with content whose last transmission is the oldest.
    fn oldest_data(&self) -> Option<u16> {
        let mut oldest: Option<(u16, u32)> = None;
        for ahead in 0..self.outstanding() {
            let psn = self.unacked_spsn().wrapping_add(ahead);
            let Some(slot) = self.slots.get(psn) else {
                continue;
            };
            let older = oldest.is_none_or(|(_, other)| psn_diff(slot.transmission, other) < 0);
            if slot.member != Membership::None && slot.content != Content::None && older {
                oldest = Some((self.slots.index(psn), slot.transmission));
            }
        }
        oldest.map(|(index, _)| index)
    }

    /// Whether the slot's last transmission was at `time` or before.
    fn sent_by(&self, index: u16, time: u64) -> bool {
        let slot = self.slots.get(index.into());
        slot.is_some_and(|slot| slot.last_sent <= time)
    }

    /// Expiry of the retransmission timer. It does not run for pure ACKs alone [proto 3.10].
    fn timer(&self, waiting: bool) -> Option<u64> {
        let interval = match self.content_count {
            0 if !waiting => return None,
            0 => self.rtt.probe_interval(self.probes),
            _ if self.repeats_tail() => self.rtt.tail_timeout(),
            // Senders that a full queue stopped at the same time do not begin again together.
            _ => self.congestion.scatter(self.rtt.rto()),
        };
        let at = self.timer_start.saturating_add(interval);
        Some(at.max(self.late_until.unwrap_or(0)))
    }
}
