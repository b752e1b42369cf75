// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets out.

use super::super::bitmap::SACK_BITS;
use super::super::config::Extensions;
use super::super::pdl::{Cause, Content};
use super::super::wire::{PdlHeader, TalHeader};
use super::super::{BrokenCause, Code, DropReason, Payload, Report, Slabs, Transmit};
use super::Connection;

impl<A: Slabs> Connection<A> {
    /// The next packet to send. Once returned it counts as sent.
    ///
    /// Order: a probe, then what is lost, then new packets, requests and answers in turn, then an
    /// acknowledgement if one is due and nothing else carried it.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Transmit> {
        if !self.running() {
            return None;
        }
        if self.config.lite {
            return self.poll_transmit_lite(now);
        }
        // Behind many packets it could be lost each time, always by the same full queue.
        if self.probe {
            return self.send_probe(now);
        }
        if let Some(lost) = self.send.next_lost(now) {
            return self.retransmit(now, lost);
        }
        let ack_psn = self.receive.ack_psn();
        if self.target.has_packet() || self.initiator.has_packet() {
            if self.send.has_room(ack_psn) {
                self.unblock(now);
                let content = self.next_content()?;
                return self.send_new(now, content);
            }
            if self.blocked.is_none() {
                if !self.waiting() && self.send.data_outstanding() == 0 {
                    self.send.progress(now);
                }
                self.blocked = Some(now);
            }
        } else {
            self.unblock(now);
        }
        if self.ack.due().is_none_or(|at| at > now) {
            return None;
        }
        if self.send.has_ack_room(ack_psn) {
            return self.send_new(now, Content::None);
        }
        match self.send.overdue_base(now) {
            Some(base) => self.retransmit(now, base),
            None => Some(self.unnumbered(now, false)),
        }
    }

    /// As [`Self::poll_transmit`], with what it gave last in `transmit`: the next packet of a long request
    /// or answer is made from the one before it, at a third of the cost. Whether there is one; otherwise `transmit`
    /// is what it was.
    pub fn next_transmit(&mut self, now: u64, transmit: &mut Transmit) -> bool {
        if self.follow(now, transmit, 1) == 1 {
            return true;
        }
        match self.poll_transmit(now) {
            Some(next) => {
                *transmit = next;
                true
            }
            None => false,
        }
    }

    /// Makes up to `most` packets of a packet's request or answer that come after it, if they come next: as
    /// [`Self::next_transmit`] would, one after the other, at the cost of little more than one. Gives how many;
    /// `transmit` is the last of them, and [`Transmit::nth`] gives the others.
    pub fn follow(&mut self, now: u64, transmit: &mut Transmit, most: u16) -> u16 {
        // As nearly always with small ones: it was the only packet.
        let last = transmit.tal.eom || matches!(transmit.payload, Payload::None);
        if last || !self.running() || self.config.lite || self.probe || !self.send.is_calm() {
            return 0;
        }
        let room = self.send.room(self.receive.ack_psn());
        // Several have to be alike: their PSNs go on, which they do not behind one that is sent again, and their
        // acknowledgements do not take turns with NACKs.
        let goes_on = transmit.psn.wrapping_add(1) == self.send.next_spsn();
        let most = match goes_on && self.receive.unnamed() == 0 {
            true => most,
            false => most.min(1),
        };
        let most = u16::try_from(room).unwrap_or(u16::MAX).min(most);
        let (xid, seqno) = (transmit.tal.xid, transmit.tal.seqno);
        let first = seqno.wrapping_add(1);
        let (made, bytes) = match &mut transmit.payload {
            Payload::Request(request) if !self.target.has_packet() => {
                let (made, bytes) = self.initiator.follow(&mut transmit.tal, request, most);
                for n in 0..made {
                    let seqno = first.wrapping_add(n);
                    transmit.psn = self.assign(now, Content::Request { xid, seqno });
                }
                (made, bytes)
            }
            Payload::Reply(reply) if !self.initiator.has_packet() => {
                let (read, block, mut offset) = (reply.read, reply.len, reply.offset);
                let (made, bytes) = self.target.follow(&mut transmit.tal, reply, most);
                for n in 0..made {
                    offset = offset.saturating_add(block);
                    let content = Content::Reply {
                        xid,
                        seqno: first.wrapping_add(n),
                        read,
                        count: 1,
                        offset,
                    };
                    transmit.psn = self.assign(now, content);
                }
                (made, bytes)
            }
            _ => (0, 0),
        };
        if made > 0 {
            self.answered_last = matches!(transmit.payload, Payload::Reply(_));
            self.unblock(now);
            self.stats.tx_bytes = self.stats.tx_bytes.wrapping_add(bytes.into());
            self.stats.tx_operations = self.stats.tx_operations.wrapping_add(made.into());
            transmit.retransmit = false;
            (transmit.pdl, transmit.tal.ack_xid) = self.headers(now, transmit.psn, made);
        }
        made
    }

    /// What is left to send of a packet that was given out and has not been sent: the packet as it was,
    /// or without a payload that nobody waits for any more, or nothing. For an owner whose device had
    /// no room, and who sends it before it asks for the next one.
    pub fn recheck(&self, transmit: &Transmit) -> Option<Transmit> {
        if !self.running() {
            return None;
        }
        if transmit.payload == Payload::None {
            return Some(*transmit);
        }
        if !self.config.lite && !self.send.awaits(transmit.psn) {
            return None;
        }
        let Payload::Request(request) = &transmit.payload else {
            return Some(*transmit);
        };
        match self.initiator.packet(request.xid, transmit.tal.seqno) {
            Some((_, now)) if now.token == request.token => Some(*transmit),
            _ if self.config.lite => None,
            _ => Some(transmit.without_payload()),
        }
    }

    /// Ends the time in which the window is too full for what there is to send.
    fn unblock(&mut self, now: u64) {
        if let Some(since) = self.blocked.take() {
            let time = now.saturating_sub(since);
            self.stats.window_full_ns = self.stats.window_full_ns.wrapping_add(time);
        }
    }

    /// Takes the next packet of a request or an answer.
    pub(super) fn next_content(&mut self) -> Option<Content> {
        let answer =
            self.target.has_packet() && !(self.answered_last && self.initiator.has_packet());
        self.answered_last = answer;
        if answer {
            self.target.next_packet()
        } else {
            self.initiator.next_packet()
        }
    }

    fn send_new(&mut self, now: u64, content: Content) -> Option<Transmit> {
        let (tal, payload) = self.build(content).unwrap_or_default();
        let psn = self.assign(now, content);
        self.count_new(&tal, &payload);
        Some(self.transmit(now, psn, false, tal, payload))
    }

    /// Gives a new packet its PSN.
    fn assign(&mut self, now: u64, content: Content) -> u32 {
        let psn = self.send.assign(now, content, self.receive.ack_psn());
        if self.reuse.assign(psn, now) {
            self.report(Report {
                reason: DropReason::PsnReused,
                value: psn,
                low: 0,
                high: 0,
            });
        }
        psn
    }

    /// Counts what a packet carries that was never sent before.
    pub(super) fn count_new(&mut self, tal: &TalHeader, payload: &Payload) {
        let stats = &mut self.stats;
        match payload {
            Payload::None => stats.tx_acks = stats.tx_acks.wrapping_add(1),
            Payload::Request(request) => {
                let bytes = match request.has_data {
                    true => u64::from(request.len).saturating_mul(tal.num_ops.into()),
                    false => 0,
                };
                stats.tx_bytes = stats.tx_bytes.wrapping_add(bytes);
                stats.tx_operations = stats.tx_operations.wrapping_add(tal.num_ops.into());
            }
            Payload::Reply(reply) => {
                let bytes = u64::from(reply.len).saturating_mul(tal.num_ops.into());
                stats.tx_bytes = stats.tx_bytes.wrapping_add(bytes);
                stats.tx_operations = stats.tx_operations.wrapping_add(tal.num_ops.into());
            }
            Payload::AtomicResponse(_) => {
                stats.tx_operations = stats.tx_operations.wrapping_add(1);
            }
            Payload::Error(_) => {}
        }
    }

    fn retransmit(
        &mut self,
        now: u64,
        (psn, content, cause): (u32, Content, Cause),
    ) -> Option<Transmit> {
        let built = self.build(content);
        let content = match (&built, content) {
            (Some(_), content) => content,
            (
                None,
                Content::Reply { xid, .. }
                | Content::AtomicResponse { xid }
                | Content::Error { xid },
            ) => {
                // An error has taken the place of the answer: nobody waits for this packet any more.
                if self.target.acknowledged(xid) {
                    self.ack.soon(now);
                }
                Content::None
            }
            (None, _) => Content::None,
        };
        let ack_psn = self.receive.ack_psn();
        if self.send.resend(now, psn, content, ack_psn).is_err() {
            self.break_down(BrokenCause::PeerDead { psn }, Code::ABORTED_BROKEN);
            return None;
        }
        let stats = &mut self.stats;
        let counter = match cause {
            Cause::Evidence => &mut stats.retransmits_fast,
            Cause::Timeout => &mut stats.retransmits_timeout,
            Cause::FullWindow => &mut stats.retransmits_full_window,
        };
        *counter = counter.wrapping_add(1);
        // Nobody answers a pure ACK, and the window waits for this PSN.
        self.probe |= cause == Cause::Timeout && content == Content::None && self.may_probe;
        let (tal, payload) = built.unwrap_or_default();
        Some(self.transmit(now, psn, true, tal, payload))
    }

    /// Asks the peer for an acknowledgement: a packet with an old PSN that is no pure ACK is not
    /// delivered but answered [proto 3.8].
    fn send_probe(&mut self, now: u64) -> Option<Transmit> {
        (self.probe, self.may_probe) = (false, false);
        let (count, since) = self.unanswered;
        let since = if count == 0 { now } else { since };
        let dead = now.saturating_sub(since) > self.config.pdl_dead_time;
        if count > self.config.pdl_max_rtx && dead && self.send.heard() {
            let psn = self.send.unacked_spsn();
            self.break_down(BrokenCause::PeerDead { psn }, Code::ABORTED_BROKEN);
            return None;
        }
        self.unanswered = (count.saturating_add(1), since);
        self.stats.probes = self.stats.probes.wrapping_add(1);
        Some(self.unnumbered(now, true))
    }

    /// A packet that takes no PSN: it carries the last one that is acknowledged. A No-op of one
    /// packet, or without `ask` a pure ACK.
    fn unnumbered(&mut self, now: u64, ask: bool) -> Transmit {
        let psn = self.send.unacked_spsn().wrapping_sub(1);
        let tal = TalHeader {
            eom: ask,
            ..TalHeader::default()
        };
        if !ask {
            self.stats.tx_acks = self.stats.tx_acks.wrapping_add(1);
        }
        self.transmit(now, psn, false, tal, Payload::None)
    }

    /// Header and content of what a PSN carries; `None` when it is not needed any more.
    pub(super) fn build(&self, content: Content) -> Option<(TalHeader, Payload)> {
        match content {
            Content::None => None,
            Content::Request { xid, seqno } => self
                .initiator
                .packet(xid, seqno)
                .map(|(tal, request)| (tal, Payload::Request(request))),
            Content::Reply { .. } | Content::AtomicResponse { .. } | Content::Error { .. } => {
                self.target.packet(content)
            }
        }
    }

    /// ACK PSN and SACK bitmap of a packet sent now: every other packet's are a NACK while there are
    /// packets that nothing else names [proto 3.5].
    fn acknowledgement(&mut self, now: u64) -> (u32, u32) {
        let ack = (self.receive.ack_psn(), self.receive.sack());
        // As nearly always: it names all that has come.
        if self.receive.unnamed() == 0 {
            self.ack.sent();
            (self.nacked, self.told) = (false, ack);
            return ack;
        }
        let nack = match self.nacked {
            true => None,
            false => self.receive.nack(),
        };
        self.ack.sent();
        self.nacked = nack.is_some();
        if let Some((psn, _)) = nack {
            self.stats.tx_nacks = self.stats.tx_nacks.wrapping_add(1);
            self.receive.nacked(psn);
        } else {
            self.told = ack;
        }
        // What did not fit into this one follows, as soon as it fills another.
        match self.receive.unnamed() {
            _ if self.told != ack => self.ack.at_once(now),
            0 => {}
            1..SACK_BITS => self.ack.soon(now),
            _ => self.ack.at_once(now),
        }
        nack.unwrap_or(ack)
    }

    /// A packet with the latest acknowledgement fields [proto 3.12].
    // Not called: what it gives would be copied from place to place.
    #[inline(always)]
    fn transmit(
        &mut self,
        now: u64,
        psn: u32,
        retransmit: bool,
        tal: TalHeader,
        payload: Payload,
    ) -> Transmit {
        let (pdl, ack_xid) = self.headers(now, psn, 1);
        Transmit {
            psn,
            retransmit,
            lite: false,
            pdl,
            tal: TalHeader {
                ext: self.config.ext != Extensions::Off,
                ack_xid,
                ..tal
            },
            payload,
        }
    }

    /// Packet Delivery header and ACK XID of the last of `count` packets that are sent now.
    fn headers(&mut self, now: u64, psn: u32, count: u16) -> (PdlHeader, u16) {
        self.stats.tx_packets = self.stats.tx_packets.wrapping_add(count.into());
        let (ack_psn, sack) = self.acknowledgement(now);
        self.advertised = self.receive_window;
        let pdl = PdlHeader {
            dcid: self.config.remote_cid,
            window: self.receive_window,
            psn,
            ack_psn,
            sack,
        };
        (pdl, self.target.ack_xid())
    }
}
