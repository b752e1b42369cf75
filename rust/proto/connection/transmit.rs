// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets to send.

use super::super::bitmap::SACK_BITS;
use super::super::config::Extensions;
use super::super::pdl::{Cause, Content, Sent};
use super::super::wire::{PdlHeader, TalHeader};
use super::super::{BrokenCause, Code, DropReason, Payload, Report, Slabs, Transmit};
use super::Connection;

impl<A: Slabs> Connection<A> {
    /// Returns the next packet to send. A packet that was returned counts as sent.
    ///
    /// The order is:
    ///
    /// 1. a probe,
    /// 2. retransmissions,
    /// 3. new packets, of requests and answers in turn,
    /// 4. an acknowledgement, if one is due and no other packet carried it.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Transmit> {
        if !self.running() {
            return None;
        }
        self.target.release_refusals(now);
        if self.config.lite {
            return self.poll_transmit_lite(now);
        }
        // A probe goes first. At the end of a burst the same full queue could drop it every time.
        if self.probe_due {
            return self.send_probe(now);
        }
        if let Some(lost) = self.send.next_lost(now) {
            return self.retransmit(now, lost);
        }
        let ack_psn = self.receive.ack_psn();
        self.held_back = false;
        if self.target.has_packet() || self.initiator.has_packet() {
            if self.send.has_room(ack_psn) {
                self.unblock(now);
                if self.send.congestion_room(now) > 0 {
                    let content = self.next_content()?;
                    return self.send_new(now, content);
                }
                self.held_back = true;
            } else if self.blocked_since.is_none() {
                if !self.waiting() && self.send.data_outstanding() == 0 {
                    self.send.progress(now);
                }
                self.blocked_since = Some(now);
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

    /// Replaces `transmit`, the packet that was returned last, by the next packet to send, and
    /// returns true. If there is none, it returns false and does not change `transmit`.
    ///
    /// The packets are those of [`Self::poll_transmit`]. The next packet of a long request or reply
    /// is derived from the one before it, which costs about a third.
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

    /// Sends up to `max` packets that continue the request or reply of `transmit`, which must be
    /// the packet that was returned last. Returns their number.
    ///
    /// The packets are those that as many calls of [`Self::next_transmit`] would return, at little
    /// more than the cost of one. Afterwards `transmit` is the last of them; [`Transmit::nth`]
    /// returns the others.
    pub fn follow(&mut self, now: u64, transmit: &mut Transmit, max: u16) -> u16 {
        // The common case of a small request: the packet was its only one.
        let last = transmit.tal.eom || matches!(transmit.payload, Payload::None);
        // Those that follow a packet that asks would ask, too: they have its Transaction header.
        if last
            || transmit.tal.ask
            || !self.running()
            || self.config.lite
            || self.probe_due
            || !self.send.is_loss_free()
        {
            return 0;
        }
        let free = self.send.room_to_follow(self.receive.ack_psn());
        // `Transmit::nth` derives several packets from one. Their PSNs must be consecutive, which
        // fails after a retransmission. Their acknowledgement fields must be equal, which fails
        // while ACKs alternate with NACKs.
        let consecutive = transmit.psn.wrapping_add(1) == self.send.next_spsn();
        let max = match consecutive && self.receive.unnamed() == 0 {
            true => max,
            false => max.min(1),
        };
        let max = u16::try_from(free).unwrap_or(u16::MAX).min(max);
        let (xid, seqno) = (transmit.tal.xid, transmit.tal.seqno);
        let first = seqno.wrapping_add(1);
        let (count, bytes) = match &mut transmit.payload {
            Payload::Request(request) if !self.target.has_packet() => {
                let (count, bytes) = self.initiator.follow(&mut transmit.tal, request, max);
                for n in 0..count {
                    let seqno = first.wrapping_add(n);
                    let eom = transmit.tal.eom && n.wrapping_add(1) == count;
                    transmit.psn = self.assign(now, Content::Request { xid, seqno }, eom).psn;
                }
                (count, bytes)
            }
            Payload::Reply(reply) if !self.initiator.has_packet() => {
                let (read, block, mut offset) = (reply.read, reply.len, reply.offset);
                let (count, bytes) = self.target.follow(&mut transmit.tal, reply, max);
                for n in 0..count {
                    offset = offset.saturating_add(block);
                    let content = Content::Reply {
                        xid,
                        seqno: first.wrapping_add(n),
                        read,
                        count: 1,
                        offset,
                    };
                    let eom = transmit.tal.eom && n.wrapping_add(1) == count;
                    transmit.psn = self.assign(now, content, eom).psn;
                }
                (count, bytes)
            }
            _ => (0, 0),
        };
        if count > 0 {
            self.last_was_answer = matches!(transmit.payload, Payload::Reply(_));
            self.unblock(now);
            self.stats.tx_bytes = self.stats.tx_bytes.wrapping_add(bytes.into());
            self.stats.tx_operations = self.stats.tx_operations.wrapping_add(count.into());
            transmit.retransmit = false;
            (transmit.pdl, transmit.tal.ack_xid) = self.headers(now, transmit.psn, count);
        }
        count
    }

    /// Checks a packet that was returned earlier, and that the owner could not send because its
    /// device queue was full [proto 3.21]. The owner sends the result before it asks for the next
    /// packet.
    ///
    /// The result is the packet itself; the packet without its payload, if the request has ended
    /// meanwhile; or `None`, if the packet need not be sent any more.
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

    /// Ends the wait for the send window, if there was one, and adds its time to the counter.
    fn unblock(&mut self, now: u64) {
        if let Some(since) = self.blocked_since.take() {
            let time = now.saturating_sub(since);
            self.stats.window_full_ns = self.stats.window_full_ns.wrapping_add(time);
        }
    }

    /// Dequeues the next packet of a request or an answer, in turn.
    pub(super) fn next_content(&mut self) -> Option<Content> {
        let answer =
            self.target.has_packet() && !(self.last_was_answer && self.initiator.has_packet());
        self.last_was_answer = answer;
        if answer {
            self.target.next_packet()
        } else {
            self.initiator.next_packet()
        }
    }

    /// Sends a new packet.
    fn send_new(&mut self, now: u64, content: Content) -> Option<Transmit> {
        let (tal, payload) = self.build(content).unwrap_or_default();
        let Sent { psn, asks } = self.assign(now, content, tal.eom);
        self.count_new(&tal, &payload);
        let tal = TalHeader { ask: asks, ..tal };
        Some(self.transmit(now, psn, false, tal, payload))
    }

    /// Assigns a PSN to a new packet.
    #[inline(always)]
    fn assign(&mut self, now: u64, content: Content, eom: bool) -> Sent {
        let ack_psn = self.receive.ack_psn();
        let sent = self.send.assign(now, content, ack_psn, eom);
        let psn = sent.psn;
        if self.reuse.assign(psn, now) {
            self.report(Report {
                reason: DropReason::PsnReused,
                value: psn,
                low: 0,
                high: 0,
            });
        }
        sent
    }

    /// Counts the content of a packet that is sent for the first time.
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

    /// Retransmits a packet. If its content is not needed any more, a pure ACK fills the PSN.
    /// Returns `None` if the peer is dead; then the connection is broken.
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
                // A Transaction Error has replaced the answer. This packet of the answer counts as
                // acknowledged, because it will not be sent again.
                if self.target.acknowledged(xid) {
                    self.ack.soon(now);
                }
                Content::None
            }
            (None, _) => Content::None,
        };
        let ack_psn = self.receive.ack_psn();
        let Ok(ask) = self.send.resend(now, psn, content, ack_psn) else {
            self.break_down(BrokenCause::PeerDead { psn }, Code::ABORTED_BROKEN);
            return None;
        };
        let stats = &mut self.stats;
        let counter = match cause {
            Cause::Evidence => &mut stats.retransmits_fast,
            Cause::Timeout => &mut stats.retransmits_timeout,
            Cause::FullWindow => &mut stats.retransmits_full_window,
        };
        *counter = counter.wrapping_add(1);
        // The peer does not answer a pure ACK, but the window cannot move before this PSN is
        // acknowledged.
        self.probe_due |= cause == Cause::Timeout && content == Content::None && self.may_probe;
        let (tal, payload) = built.unwrap_or_default();
        let tal = TalHeader { ask, ..tal };
        Some(self.transmit(now, psn, true, tal, payload))
    }

    /// Sends a probe, which asks the peer for an acknowledgement: a packet with an old PSN that is
    /// not a pure ACK is answered and not delivered [proto 3.8]. Returns `None` if the peer is
    /// dead; then the connection is broken.
    fn send_probe(&mut self, now: u64) -> Option<Transmit> {
        (self.probe_due, self.may_probe) = (false, false);
        let (count, since) = self.unanswered_probes;
        let since = if count == 0 { now } else { since };
        // An answer to a second question would not tell which of them it answers.
        self.asked_at = (self.ext.is_none() && count == 0).then_some(now);
        let dead = now.saturating_sub(since) > self.config.pdl_dead_time;
        if count > self.config.pdl_max_rtx && dead && self.send.heard() {
            let psn = self.send.unacked_spsn();
            self.break_down(BrokenCause::PeerDead { psn }, Code::ABORTED_BROKEN);
            return None;
        }
        self.unanswered_probes = (count.saturating_add(1), since);
        self.stats.probes = self.stats.probes.wrapping_add(1);
        Some(self.unnumbered(now, true))
    }

    /// Builds a packet that uses no new PSN, but the last acknowledged one: a probe, which is a
    /// No-op with `eom`, or a pure ACK.
    fn unnumbered(&mut self, now: u64, is_probe: bool) -> Transmit {
        let psn = self.send.unacked_spsn().wrapping_sub(1);
        let tal = TalHeader {
            eom: is_probe,
            ..TalHeader::default()
        };
        if !is_probe {
            self.stats.tx_acks = self.stats.tx_acks.wrapping_add(1);
        }
        self.transmit(now, psn, false, tal, Payload::None)
    }

    /// Builds Transaction header and payload of `content`. Returns `None` if the content is not
    /// needed any more.
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

    /// Returns ACK PSN and SACK bitmap for a packet sent now. While packets arrived that neither an
    /// ACK nor a NACK has named, every second packet carries a NACK [proto 3.5].
    fn ack_fields(&mut self, now: u64) -> (u32, u32) {
        let ack = (self.receive.ack_psn(), self.receive.sack());
        // The common case: an ordinary ACK names every packet that arrived.
        if self.receive.unnamed() == 0 {
            self.ack.sent();
            (self.last_was_nack, self.last_ack) = (false, ack);
            return ack;
        }
        let nack = match self.last_was_nack {
            true => None,
            false => self.receive.nack(),
        };
        self.ack.sent();
        self.last_was_nack = nack.is_some();
        if let Some((psn, _)) = nack {
            self.stats.tx_nacks = self.stats.tx_nacks.wrapping_add(1);
            self.receive.nack_sent(psn);
        } else {
            self.last_ack = ack;
        }
        // This packet could not name all that arrived. The next one is due at once if the ordinary
        // ACK has news, or if the remaining PSNs fill a whole NACK; otherwise within the delay.
        match self.receive.unnamed() {
            _ if self.last_ack != ack => self.ack.at_once(now),
            0 => {}
            1..SACK_BITS => self.ack.soon(now),
            _ => self.ack.at_once(now),
        }
        nack.unwrap_or(ack)
    }

    /// Builds a packet with current acknowledgement fields [proto 3.12].
    // Always inlined: a call would copy the large `Transmit` several times.
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

    /// Counts `count` packets as sent, and returns the Packet Delivery header and the ACK XID of
    /// the last of them.
    fn headers(&mut self, now: u64, psn: u32, count: u16) -> (PdlHeader, u16) {
        self.stats.tx_packets = self.stats.tx_packets.wrapping_add(count.into());
        let (ack_psn, sack) = self.ack_fields(now);
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
