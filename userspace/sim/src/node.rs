// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A node: a receive ring and a CPU that takes packets from it in batches.

use crate::fabric::Packet;
use crate::rng::Rng;
use std::collections::{BTreeMap, VecDeque};
use superp_proto::{Heap, Quarantine};

/// How a node's CPU treats packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// Time to take one packet, in ns.
    pub(crate) cost: u64,
    /// Packets taken before anything is sent.
    pub(crate) batch: usize,
    /// Packets that the receive ring holds.
    pub(crate) ring: usize,
}

/// A node.
pub(crate) struct Node {
    cpu: Cpu,
    ring: VecDeque<Box<Packet>>,
    /// Packets are being taken.
    running: bool,
    in_batch: usize,
    /// Ends that took packets in this batch.
    touched: Vec<usize>,
    /// Ends on this node by connection identifier.
    pub(crate) ends: BTreeMap<u16, usize>,
    /// Identifiers that are not chosen yet.
    pub(crate) quarantine: Quarantine<Heap>,
    /// The CPU stands still until then.
    pub(crate) stalled_until: u64,
    /// Packets that did not fit into the ring.
    pub(crate) drops: u64,
    /// Path of each packet of unordered connections.
    pub(crate) rng: Rng,
}

impl Node {
    pub(crate) fn new(cpu: Cpu, rng: Rng) -> Self {
        Self {
            cpu,
            ring: VecDeque::new(),
            running: false,
            in_batch: 0,
            touched: Vec::new(),
            ends: BTreeMap::new(),
            quarantine: Quarantine::new(),
            stalled_until: 0,
            drops: 0,
            rng,
        }
    }

    /// Puts a packet into the ring; when the CPU is to be started, if it is idle.
    pub(crate) fn arrive(&mut self, now: u64, packet: Box<Packet>) -> Option<u64> {
        if self.ring.len() >= self.cpu.ring {
            self.drops += 1;
            return None;
        }
        self.ring.push_back(packet);
        if self.running {
            return None;
        }
        self.running = true;
        Some(now.max(self.stalled_until) + self.cpu.cost)
    }

    /// The next packet, and whether a batch ends with it.
    pub(crate) fn take(&mut self) -> (Option<Box<Packet>>, bool) {
        let packet = self.ring.pop_front();
        self.in_batch += 1;
        let over = self.ring.is_empty() || self.in_batch >= self.cpu.batch;
        if over {
            self.in_batch = 0;
        }
        (packet, over)
    }

    /// Notes that an end took a packet.
    pub(crate) fn touch(&mut self, end: usize) {
        if !self.touched.contains(&end) {
            self.touched.push(end);
        }
    }

    /// The ends that took packets since this was last asked.
    pub(crate) fn touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    /// When the next packet is taken; `None`: the ring is empty, and the CPU rests.
    pub(crate) fn next_run(&mut self, now: u64) -> Option<u64> {
        self.running = !self.ring.is_empty();
        self.running.then_some(now + self.cpu.cost)
    }
}
