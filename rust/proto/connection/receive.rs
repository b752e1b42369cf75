// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets in.

use super::super::pdl::{AckCheck, Arrival, Content};
use super::super::seq::is_late;
use super::super::tal::Step;
use super::super::wire::{Opcode, Packet, Run, BLOCK_MIN};
use super::super::{DropReason, Owner, Received, Report, Slabs};
use super::Connection;

impl<A: Slabs> Connection<A> {
    /// Takes a packet that came for this connection.
    ///
    /// After `Delivered`, call [`Self::next_release`] until it gives `None`.
    pub fn receive<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        if !self.running() {
            return Received::Dropped(DropReason::NotRunning);
        }
        if self.config.lite {
            return self.receive_lite(now, packet, owner);
        }
        // Everything is judged before anything changes [proto 3.3].
        let (arrival, ack) = match self.judge(packet) {
            Ok(judged) => judged,
            Err(report) => {
                self.stats.out_of_window = self.stats.out_of_window.wrapping_add(1);
                self.report(report);
                return Received::Dropped(report.reason);
            }
        };
        self.hear(now, packet);
        self.acknowledged(now, packet, ack);

        let (psn, pure) = (packet.pdl().psn, packet.tal().is_pure_ack());
        match arrival {
            Arrival::InOrder => {}
            Arrival::AboveHole => {
                self.stats.out_of_order = self.stats.out_of_order.wrapping_add(1);
            }
            // A pure ACK re-uses an old PSN when the window has no room for it.
            Arrival::Duplicate | Arrival::Beyond if pure => {
                self.stats.rx_acks = self.stats.rx_acks.wrapping_add(1);
                return Received::AckOnly;
            }
            Arrival::Duplicate | Arrival::Beyond => {
                self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
                // The ACK for the first copy may have been lost [proto 3.8].
                self.ack.at_once(now);
                return Received::Duplicate;
            }
        }

        let expected = self.receive.next_acked_rpsn();
        let at_once = self.receive.accept(psn, !pure);
        let filled = self.receive.next_acked_rpsn().wrapping_sub(expected);
        self.stats.rx_packets = self.stats.rx_packets.wrapping_add(1);
        if pure {
            self.stats.rx_acks = self.stats.rx_acks.wrapping_add(1);
            self.ack.pure_ack(now);
        } else {
            self.ack.packets(now, 1);
        }
        // The sender should learn at once of a hole, and that it is filled. Holes among pure ACKs are of
        // no interest, and telling of them would be answered in kind for ever.
        let holes =
            self.receive.any_hole() && (self.receive.sack() != 0 || self.receive.unnamed() > 0);
        if filled > 1 || (!pure && holes) {
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

    /// Takes packets that continue one another, with the data of all at once; gives what [`Self::receive`] would give
    /// of the last one. To the peer and to the owner it is as if that had taken them in turn, but for the calls of the
    /// owner that place data: it is one.
    ///
    /// `None` if anything is out of the ordinary; then [`Self::receive`] has to take each by itself.
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
        // All have the same acknowledgements, and these do nothing twice.
        let (_, ack) = self.judge(first).ok()?;
        self.hear(now, first);
        self.acknowledged(now, first, ack);
        if ack != AckCheck::Stale && !self.send.is_known(first.pdl()) {
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
        Some(self.stepped(now, first, Ok(step)))
    }

    /// Whether [`Self::receive`] would have a packet of this PSN held, unless something else is wrong with it.
    pub fn would_hold(&self, psn: u32) -> bool {
        !self.config.lite && self.receive.would_hold(psn)
    }

    /// The slot of the next held packet that is in order now; give it to [`Self::release`].
    pub fn next_release(&mut self) -> Option<usize> {
        let psn = self.receive.next_release()?;
        Some(self.send.slot(psn))
    }

    /// Delivers a packet that was held.
    pub fn release<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        if !self.running() {
            return Received::Dropped(DropReason::NotRunning);
        }
        self.deliver(now, packet, owner)
    }

    /// Notes that the peer is there, and, from its first packet, whether it has the extensions.
    fn hear(&mut self, now: u64, packet: &Packet<'_>) {
        self.unanswered = (0, 0);
        if self.ext.is_none() {
            self.ext = Some(packet.tal().ext);
            self.probe = false;
        }
        self.send.hear(now);
    }

    /// Where the packet's PSN lies and what its acknowledgement fields are. Changes nothing.
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
        // A packet that is not delivered may be of an earlier life, and be answered.
        let believed = |ack: &AckCheck| {
            *ack != AckCheck::Stale
                || arrival == Arrival::Duplicate
                || is_late(pdl.ack_psn, self.send.unacked_spsn())
        };
        let Some(ack) = self.send.check_ack(pdl).ok().filter(believed) else {
            return Err(Report {
                reason: DropReason::AckOutOfWindow,
                value: pdl.ack_psn,
                low: self.send.unacked_spsn().wrapping_sub(1),
                high: self.send.next_spsn(),
            });
        };
        // ACK XID is as old as ACK PSN. With a stale one it may be so old that serial arithmetic on
        // its 16 bits fails.
        if ack != AckCheck::Stale {
            self.initiator.check_ack(packet.tal().ack_xid)?;
        }
        Ok((arrival, ack))
    }

    /// Takes the acknowledgement fields of both layers.
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
            // ACK XID moved without a packet from the peer that asks for an acknowledgement.
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
        self.stepped(now, packet, step)
    }

    /// What follows of what the Transaction Layer did with a packet.
    fn stepped(&mut self, now: u64, packet: &Packet<'_>, step: Result<Step, Report>) -> Received {
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
            Ok(Step::Swallowed) => return Received::Dropped(DropReason::TransactionFailed),
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
