// SPDX-License-Identifier: GPL-2.0 OR MIT
//! SUPERp-lite: transactions without the Packet Delivery Layer [proto 6].
//!
//! SUPERp-lite needs a path that loses nothing and keeps order, so every packet sent arrives in
//! order. The transaction window limits what is under way. If the path does lose a packet, the
//! transaction timeout expires and breaks the connection.

use super::super::config::Extensions;
use super::super::pdl::Content;
use super::super::wire::{Packet, PdlHeader, TalHeader};
use super::super::{Owner, Payload, Received, Slabs, Transmit};
use super::Connection;

impl<A: Slabs> Connection<A> {
    /// The next packet to send, see [`Self::poll_transmit`].
    pub(super) fn poll_transmit_lite(&mut self, now: u64) -> Option<Transmit> {
        // An answer counts as delivered when it is sent. The previous answer is acknowledged only
        // in this call, because since the last one the owner could still refuse it
        // (`refuse_reply`).
        if let Some(xid) = self.lite_answer.take() {
            if self.target.acknowledged(xid) {
                self.ack.soon(now);
            }
        }
        if self.target.has_packet() || self.initiator.has_packet() {
            let content = self.next_content()?;
            if let Content::Reply { xid, .. }
            | Content::AtomicResponse { xid }
            | Content::Error { xid } = content
            {
                self.lite_answer = Some(xid);
            }
            let (tal, payload) = self.build(content).unwrap_or_default();
            return Some(self.transmit_lite(tal, payload));
        }
        self.ack.due().filter(|&at| at <= now)?;
        Some(self.transmit_lite(TalHeader::default(), Payload::None))
    }

    /// Counts a packet and adds the acknowledgement field.
    fn transmit_lite(&mut self, tal: TalHeader, payload: Payload) -> Transmit {
        self.count_new(&tal, &payload);
        self.stats.tx_packets = self.stats.tx_packets.wrapping_add(1);
        self.ack.sent();
        Transmit {
            psn: 0,
            retransmit: false,
            lite: true,
            pdl: PdlHeader::default(),
            tal: TalHeader {
                ext: self.config.ext == Extensions::On,
                ack_xid: self.target.ack_xid(),
                ..tal
            },
            payload,
        }
    }

    /// Processes a received packet, see [`Self::receive`].
    pub(super) fn receive_lite<O: Owner>(
        &mut self,
        now: u64,
        packet: &Packet<'_>,
        owner: &mut O,
    ) -> Received {
        if let Err(report) = self.initiator.check_ack(packet.tal().ack_xid) {
            self.stats.out_of_window = self.stats.out_of_window.wrapping_add(1);
            self.report(report);
            return Received::Dropped(report.reason);
        }
        self.stats.rx_packets = self.stats.rx_packets.wrapping_add(1);
        self.initiator.acknowledge(packet.tal().ack_xid);
        if packet.tal().is_pure_ack() {
            self.stats.rx_acks = self.stats.rx_acks.wrapping_add(1);
            return Received::AckOnly;
        }
        self.deliver(now, packet, owner)
    }
}
