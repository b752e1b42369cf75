// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Links, the queues of the ports before them, and what goes wrong on them.
//!
//! A link is one direction, with the port that feeds it: a first-in first-out queue of so many bytes.
//! The time at which the port is free again says how much is in the queue, so the queue itself needs
//! no events.

use crate::rng::Rng;

/// Bytes on the wire besides what the core builds: Ethernet with preamble, FCS and gap, IPv4, UDP.
const OVERHEAD: u64 = 66;

/// Time in ns that no packet outlives on one link.
pub(crate) const LIFE: u64 = 500_000_000;

/// Most links from one node to another.
const HOPS_MAX: usize = 4;

/// What a link is. Chances are in parts of a thousand packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkConfig {
    /// Speed in Mbit/s; 0 for no limit.
    pub(crate) mbps: u64,
    /// Time of flight in ns.
    pub(crate) delay: u64,
    /// Added to it, evenly distributed, in ns: packets overtake each other.
    pub(crate) jitter: u64,
    /// Bytes that the port holds; what does not fit is dropped. 0 for no limit.
    pub(crate) queue: u64,
    /// Packets lost.
    pub(crate) loss: u64,
    /// Packets that arrive twice.
    pub(crate) duplicate: u64,
    /// Packets of which another copy arrives much later, within [`LIFE`].
    pub(crate) late: u64,
    /// Packets that arrive damaged where nothing checks them: a bit of the headers or the data.
    pub(crate) damage: u64,
}

/// How nodes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// A link from each node to each.
    Mesh,
    /// One switch.
    Star,
    /// Switches of `leaf` nodes each, all connected to each of `spines` switches.
    LeafSpine {
        /// Nodes at a leaf.
        leaf: usize,
        /// Spines.
        spines: usize,
    },
}

impl Topology {
    fn leaves(self, nodes: usize) -> usize {
        match self {
            Self::LeafSpine { leaf, .. } => nodes.div_ceil(leaf),
            _ => 0,
        }
    }

    fn links(self, nodes: usize) -> usize {
        match self {
            Self::Mesh => nodes * nodes,
            Self::Star => 2 * nodes,
            Self::LeafSpine { spines, .. } => 2 * nodes + 2 * self.leaves(nodes) * spines,
        }
    }
}

/// A packet under way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// From the Packet Delivery header to the end.
    pub(crate) bytes: Vec<u8>,
    /// End that sent it.
    pub(crate) from: usize,
    /// Node that it goes to.
    pub(crate) to: usize,
    /// It may be damaged.
    pub(crate) unchecked: bool,
    path: [u32; HOPS_MAX],
    hops: u8,
    hop: u8,
}

impl Packet {
    /// The link that it enters next; `None`: it has arrived at the node.
    pub(crate) fn next_link(&self) -> Option<usize> {
        let link = self.path[..self.hops.into()].get(usize::from(self.hop))?;
        Some(*link as usize)
    }
}

#[derive(Clone, Debug, Default)]
struct Link {
    config: LinkConfig,
    free_at: u64,
    /// Times in which nothing passes.
    cuts: Vec<(u64, u64)>,
}

/// What became of packets, over all links.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    /// Packets that entered a link, once for each link.
    pub(crate) packets: u64,
    /// Dropped by a full queue.
    pub(crate) tail_drops: u64,
    /// Lost on a link, by chance or by a cut.
    pub(crate) lost: u64,
}

/// All links.
#[derive(Debug)]
pub(crate) struct Fabric {
    topology: Topology,
    nodes: usize,
    links: Vec<Link>,
    rng: Rng,
    /// What became of packets so far.
    pub(crate) carried: Carried,
}

impl Fabric {
    /// A fabric for `nodes` nodes. `host` is the links that start at nodes, `switch` the others.
    pub(crate) fn new(
        topology: Topology,
        nodes: usize,
        host: &LinkConfig,
        switch: &LinkConfig,
        rng: Rng,
    ) -> Self {
        let hosts = match topology {
            Topology::Mesh => nodes * nodes,
            _ => nodes,
        };
        let link = |index| Link {
            config: if index < hosts { host } else { switch }.clone(),
            ..Link::default()
        };
        Self {
            topology,
            nodes,
            links: (0..topology.links(nodes)).map(link).collect(),
            rng,
            carried: Carried::default(),
        }
    }

    /// Number of links.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// So many of a thousand packets have a late copy, on every link.
    pub(crate) fn late(&mut self, parts: u64) {
        for link in &mut self.links {
            link.config.late = parts;
        }
    }

    /// Nothing passes a link from `from` to `until`.
    pub(crate) fn cut(&mut self, link: usize, from: u64, until: u64) {
        self.links[link].cuts.push((from, until));
    }

    /// Cuts a node off, both ways.
    pub(crate) fn cut_off(&mut self, node: usize, from: u64, until: u64) {
        for link in 0..self.links.len() {
            let ends_here = match self.topology {
                Topology::Mesh => link / self.nodes == node || link % self.nodes == node,
                _ => link == node || link == self.nodes + node,
            };
            if ends_here {
                self.cut(link, from, until);
            }
        }
    }

    /// A packet from node `source` to node `to`. `entropy` chooses among equal paths.
    pub(crate) fn packet(
        &self,
        source: usize,
        to: usize,
        entropy: u64,
        from: usize,
        unchecked: bool,
        bytes: Vec<u8>,
    ) -> Packet {
        let n = self.nodes;
        let mut path = [0; HOPS_MAX];
        let mut hops = 0;
        let mut add = |link: usize| {
            path[hops] = link as u32;
            hops += 1;
        };
        match self.topology {
            Topology::Mesh => add(source * n + to),
            Topology::Star => {
                add(source);
                add(n + to);
            }
            Topology::LeafSpine { leaf, spines } => {
                add(source);
                let (up, down) = (source / leaf, to / leaf);
                if up != down {
                    let leaves = self.topology.leaves(n);
                    let spine = (entropy % spines as u64) as usize;
                    add(2 * n + up * spines + spine);
                    add(2 * n + leaves * spines + spine * leaves + down);
                }
                add(n + to);
            }
        }
        Packet {
            bytes,
            from,
            to,
            unchecked,
            path,
            hops: hops as u8,
            hop: 0,
        }
    }

    /// Puts a packet on its next link, which must exist. `arrive` gets each copy that comes out at the
    /// other end, and when.
    pub(crate) fn forward(
        &mut self,
        now: u64,
        mut packet: Box<Packet>,
        mut arrive: impl FnMut(u64, Box<Packet>),
    ) {
        let Some(link) = packet.next_link().map(|link| &mut self.links[link]) else {
            return;
        };
        let config = &link.config;
        self.carried.packets += 1;
        let len = packet.bytes.len() as u64 + OVERHEAD;
        let waiting = link.free_at.saturating_sub(now);
        let queued = waiting * config.mbps / 8000;
        if config.queue > 0 && waiting > 0 && queued + len > config.queue {
            self.carried.tail_drops += 1;
            return;
        }
        let wire_time = (len * 8000).checked_div(config.mbps).unwrap_or(0);
        link.free_at = now + waiting + wire_time;
        let departs = link.free_at;
        let cut = |&(from, until): &(u64, u64)| from <= departs && departs < until;
        if link.cuts.iter().any(cut) || self.rng.chance(config.loss) {
            self.carried.lost += 1;
            return;
        }
        packet.hop += 1;
        if packet.unchecked && self.rng.chance(config.damage) {
            // The DCID stays: whose packet it is the network layer's checks decide.
            let at = self.rng.range(2, packet.bytes.len() as u64 - 1) as usize;
            packet.bytes[at] ^= 1 << self.rng.below(8);
        }
        if self.rng.chance(config.duplicate) {
            let late = departs + config.delay + self.rng.below(config.jitter);
            arrive(late, packet.clone());
        }
        if self.rng.chance(config.late) {
            arrive(departs + self.rng.below(LIFE), packet.clone());
        }
        let at = departs + config.delay + self.rng.below(config.jitter);
        arrive(at, packet);
    }
}
