// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Received packets.

use super::super::config::Extensions;
use super::super::pdl::{AckCheck, Arrival, Content};
use super::super::seq::is_late;
use super::super::tal::Step;
use super::super::wire::{Opcode, Packet, Run, BLOCK_MIN};
use super::super::{DropReason, Owner, Received, Report, Slabs};
use super::Connection;

impl<A: Slabs> Connection<A> {
    /// Processes a packet that arrived for this connection.
    ///
    /// After `Received::Delivered` the owner calls [`Self::next_release`] until it returns `None`,
    /// and passes the held packet of each slot to [`Self::release`].
    pub fn receive<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        if !self.running() {
            return Received::Dropped(DropReason::NotRunning);
        }
        if self.config.lite {
            return self.receive_lite(now, packet, owner);
        }
        // PSN, ACK PSN and ACK XID are checked before any state changes [proto 3.3].
        let (arrival, ack) = match self.judge(packet) {
            Ok(judged) => judged,
            Err(report) => {
                self.stats.out_of_window = self.stats.out_of_window.wrapping_add(1);
                self.report(report);
                return Received::Dropped(report.reason);
            }
        };
        let (psn, pure) = (packet.pdl().psn, packet.tal().is_pure_ack());
        if self.may_be_guess(packet, ack) {
            if !pure {
                self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
                self.ack.at_once(now);
            }
            return Received::AckOnly;
        }
        self.hear(now, packet);
        // Nothing was sent yet but the question whether there are extensions. This answers it.
        if let Some(at) = self.asked_at.take_if(|_| pure) {
            self.send.answered(now, now.saturating_sub(at));
        }
        self.acknowledged(now, packet, ack);

        match arrival {
            Arrival::InOrder => {}
            Arrival::AboveHole => {
                self.stats.out_of_order = self.stats.out_of_order.wrapping_add(1);
            }
            // The peer sends a pure ACK with an old PSN if its send window is full.
            Arrival::Duplicate | Arrival::Beyond if pure => {
                self.stats.rx_acks = self.stats.rx_acks.wrapping_add(1);
                return Received::AckOnly;
            }
            Arrival::Duplicate | Arrival::Beyond => {
                self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
                // The ACK for the first copy may be lost. Without another one the peer would
                // retransmit until the connection breaks [proto 3.8].
                self.ack.at_once(now);
                return Received::Duplicate;
            }
        }

        let base = self.receive.next_acked_rpsn();
        let at_once = self.receive.accept(psn, !pure);
        let advance = self.receive.next_acked_rpsn().wrapping_sub(base);
        self.stats.rx_packets = self.stats.rx_packets.wrapping_add(1);
        if pure {
            self.stats.rx_acks = self.stats.rx_acks.wrapping_add(1);
            self.ack.pure_ack(now);
        } else {
            self.ack.packets(now, 1);
            self.asked(now, packet);
        }
        // The sender needs to know at once of a new hole, and of a hole that was filled. A pure ACK
        // above a hole gets no ACK: two ends would answer each other's pure ACKs for ever.
        let holes =
            self.receive.any_hole() && (self.receive.sack() != 0 || self.receive.unnamed() > 0);
        if advance > 1 || (!pure && holes) {
            self.ack.at_once(now);
        }
        if pure {
            return Received::AckOnly;
        }
        if !at_once {
            return Received::Held {
                slot: self.send.slot(psn),
            };
        }
        self.deliver(now, packet, owner)
    }

    /// Processes all packets of a run at once, and returns what [`Self::receive`] would return for
    /// the last of them. The effect is that of [`Self::receive`] for each packet, except that a
    /// single call of the owner places the data of all.
    ///
    /// Returns `None` if the fast path does not apply. The owner must then pass each packet to
    /// [`Self::receive`].
    pub fn receive_run<O: Owner>(
        &mut self,
        now: u64,
        run: &Run<'_>,
        owner: &mut O,
    ) -> Option<Received> {
        let (first, count) = (run.first(), u32::from(run.count()));
        let next = self.running() && self.receive.is_next(first.pdl().psn);
        if self.config.lite || !next {
            return None;
        }
        // All packets of a run carry the same acknowledgement fields, so these are processed once.
        // If this returns `None` below, `receive` processes them again, which changes nothing.
        let (_, ack) = self.judge(first).ok()?;
        if ack == AckCheck::Nack {
            return None;
        }
        self.hear(now, first);
        self.acknowledged(now, first, ack);
        if ack != AckCheck::Stale && !self.send.is_redundant(first.pdl()) {
            return None;
        }
        let step = match Opcode::is_reply(first.tal().opcode) {
            false => self.target.receive_run(run, owner, &mut self.stats),
            true => self.initiator.receive_run(run, owner, &mut self.stats),
        };
        let step = step?;
        self.receive.accept_next(count);
        self.stats.rx_packets = self.stats.rx_packets.wrapping_add(count.into());
        self.ack.packets(now, count);
        self.asked(now, first);
        Some(self.finish_delivery(now, first, Ok(step)))
    }

    /// Whether [`Self::receive`] would return `Held` for a packet with this PSN, if the packet is
    /// valid otherwise.
    pub fn would_hold(&self, psn: u32) -> bool {
        !self.config.lite && self.receive.would_hold(psn)
    }

    /// Returns the slot of the next held packet whose turn has come. The owner passes the packet to
    /// [`Self::release`].
    pub fn next_release(&mut self) -> Option<usize> {
        let psn = self.receive.next_release()?;
        Some(self.send.slot(psn))
    }

    /// Delivers a packet that was held, see [`Self::next_release`].
    pub fn release<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        if !self.running() {
            return Received::Dropped(DropReason::NotRunning);
        }
        self.deliver(now, packet, owner)
    }

    /// Records that a packet of the peer was accepted. The first one tells whether the peer has the
    /// extensions.
    fn hear(&mut self, now: u64, packet: &Packet<'_>) {
        self.unanswered_probes = (0, 0);
        if self.ext.is_none() {
            self.ext = Some(packet.tal().ext);
            self.probe_due = false;
            if packet.tal().ext {
                self.send.start_congestion();
            }
        }
        self.send.hear(now);
    }

    /// Acknowledges at once what asks for it, if the extensions are in use [proto 7].
    fn asked(&mut self, now: u64, packet: &Packet<'_>) {
        if packet.tal().ask && self.config.ext != Extensions::Off {
            self.ack.at_once(now);
        }
    }

    /// Classifies the packet's PSN and acknowledgement fields. Changes no state.
    ///
    /// # Errors
    ///
    /// PSN, ACK PSN or ACK XID is outside its window, and the packet must be dropped
    /// [proto 3.2, 3.3].
    fn judge(&self, packet: &Packet<'_>) -> Result<(Arrival, AckCheck), Report> {
        let pdl = packet.pdl();
        let arrival = self.receive.classify(pdl.psn);
        if arrival == Arrival::Beyond {
            return Err(Report {
                reason: DropReason::OutOfWindow,
                value: pdl.psn,
                low: self.receive.next_acked_rpsn(),
                high: self.receive.max_rpsn(),
            });
        }
        // An ACK PSN that is too old for a delayed packet may be a guess of an attacker. A
        // duplicate is not delivered, so it may have any old ACK PSN: it may come from an earlier
        // life of the peer's connection, which must get an answer [proto 3.2, 3.8].
        let is_plausible =
            |ack: &AckCheck| arrival == Arrival::Duplicate || !self.may_be_guess(packet, *ack);
        let Some(ack) = self.send.check_ack(pdl).ok().filter(is_plausible) else {
            return Err(Report {
                reason: DropReason::AckOutOfWindow,
                value: pdl.ack_psn,
                low: self.send.unacked_spsn().wrapping_sub(1),
                high: self.send.next_spsn(),
            });
        };
        // ACK XID is as old as ACK PSN. If that is stale, ACK XID may be too old for serial
        // arithmetic on 16 bits, and is ignored.
        if ack != AckCheck::Stale {
            self.initiator.check_ack(packet.tal().ack_xid)?;
        }
        Ok((arrival, ack))
    }

    /// Whether the ACK PSN is too old for a delayed packet. A quarter of all packets whose PSN and
    /// ACK PSN are guesses are such duplicates. They are answered, and tell nothing: neither that
    /// the peer is there, nor what it can, nor which path it uses [proto 3.2].
    fn may_be_guess(&self, packet: &Packet<'_>, ack: AckCheck) -> bool {
        ack == AckCheck::Stale && !is_late(packet.pdl().ack_psn, self.send.unacked_spsn())
    }

    /// Processes the acknowledgement fields of both layers.
    fn acknowledged(&mut self, now: u64, packet: &Packet<'_>, ack: AckCheck) {
        if ack == AckCheck::Stale {
            return;
        }
        if ack == AckCheck::Nack {
            self.stats.rx_nacks = self.stats.rx_nacks.wrapping_add(1);
        }
        let mut retired = false;
        let target = &mut self.target;
        self.send
            .acknowledge(now, ack, packet.pdl(), |content| match content {
                Content::Reply { xid, .. }
                | Content::AtomicResponse { xid }
                | Content::Error { xid } => {
                    retired |= target.acknowledged(xid);
                }
                Content::None | Content::Request { .. } => {}
            });
        if retired {
            // The local ACK XID moved, and the peer's packet may ask for no ACK.
            self.ack.soon(now);
        }
        if self.initiator.acknowledge(packet.tal().ack_xid) {
            self.send.progress(now);
        }
    }

    /// Delivers a packet to the Transaction Layer.
    pub(super) fn deliver<O: Owner>(
        &mut self,
        now: u64,
        packet: &Packet<'_>,
        owner: &mut O,
    ) -> Received {
        let step = match Opcode::is_reply(packet.tal().opcode) {
            false => self.target.receive(packet, owner, &mut self.stats),
            true => self.initiator.receive(packet, owner, &mut self.stats),
        };
        self.finish_delivery(now, packet, step)
    }

    /// Schedules acknowledgements, reports and counts according to what the Transaction Layer did
    /// with a packet.
    fn finish_delivery(
        &mut self,
        now: u64,
        packet: &Packet<'_>,
        step: Result<Step, Report>,
    ) -> Received {
        match step {
            Ok(Step::Partial) => {}
            Ok(Step::Complete) => self.ack.at_once(now),
            Ok(Step::Refused(reason)) => {
                if reason == DropReason::ShortBlock {
                    self.report(Report {
                        reason,
                        value: packet.block_len() as u32,
                        low: BLOCK_MIN,
                        high: u32::MAX,
                    });
                }
                return Received::Dropped(reason);
            }
            Ok(Step::Discarded) => return Received::Dropped(DropReason::TransactionFailed),
            Err(report) => {
                let counter = match report.reason {
                    DropReason::XidOutOfWindow => &mut self.stats.out_of_window,
                    _ => &mut self.stats.protocol_errors,
                };
                *counter = counter.wrapping_add(1);
                self.report(report);
                return Received::Dropped(report.reason);
            }
        }
        if Opcode::is_reply(packet.tal().opcode) && self.send.data_outstanding() == 0 {
            self.send.progress(now);
        }
        Received::Delivered
    }
}
