// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Nodes on a fabric, on virtual time.

mod renew;

use crate::end::End;
use crate::event::{Event, Queue};
use crate::fabric::{Fabric, Packet};
use crate::invariant::{Check, Invariant, Violation};
use crate::judge;
use crate::node::{Cpu, Node};
use crate::rng::Rng;
use crate::sabotage::Sabotage;
use crate::trace::Trace;
use crate::work::Work;
use superp_proto::{Config, Payload, Transmit};

use renew::Life;
pub(crate) use renew::{Plan, Renewal};

/// Time in ns after which connections that damaged packets may have confused need not go on.
const CONFUSED_LIMIT: u64 = 60_000_000_000;

/// Events after which a run is taken never to end.
const EVENTS_MAX: u64 = 400_000_000;

/// Both ends of a connection to create: the node, the configuration, the work of each.
pub(crate) type Ends = [(usize, Config, Work); 2];

/// Counters of all connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Packets sent.
    pub(crate) tx_packets: u64,
    /// Of these, sent again.
    pub(crate) retransmits: u64,
    /// Expiries of retransmission timers.
    pub(crate) timeouts: u64,
    /// Packets that a full receive ring dropped.
    pub(crate) ring_drops: u64,
}

/// A fabric, its nodes, and their connections. Ends 2n and 2n + 1 are one connection.
pub(crate) struct Sim {
    now: u64,
    /// When something last happened that was not a timer without effect.
    pub(crate) active: u64,
    queue: Queue,
    pub(crate) fabric: Fabric,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ends: Vec<End>,
    /// The lives of each connection after its first.
    lives: Vec<Vec<Life>>,
    trace: Trace,
    rng: Rng,
    sabotage: Sabotage,
}

impl Sim {
    pub(crate) fn new(fabric: Fabric, cpus: Vec<Cpu>, mut rng: Rng, print: bool) -> Self {
        let nodes = cpus.into_iter().map(|cpu| Node::new(cpu, rng.fork()));
        Self {
            now: 0,
            active: 0,
            queue: Queue::default(),
            fabric,
            nodes: nodes.collect(),
            ends: Vec::new(),
            lives: Vec::new(),
            trace: Trace::new(print),
            rng,
            sabotage: Sabotage::None,
        }
    }

    /// Creates a connection between two nodes; the number of its first end.
    pub(crate) fn connect(&mut self, ends: Ends) -> usize {
        let first = self.ends.len();
        let cid = |index: usize| self.nodes[ends[index].0].ends.len() as u16;
        let cids = [cid(1), cid(0)];
        for ((node, config, work), remote_cid) in ends.into_iter().zip(cids) {
            let config = Config {
                remote_cid,
                ..config
            };
            let cid = self.nodes[node].ends.len() as u16;
            self.nodes[node].ends.insert(cid, self.ends.len());
            let entropy = self.rng.bits();
            self.ends.push(End::new(node, cid, &config, work, entropy));
        }
        self.lives.push(Vec::new());
        first
    }

    /// An end is created at `at`, unless a packet comes before, and submits nothing before `until`.
    pub(crate) fn rest(&mut self, end: usize, at: u64, until: u64) {
        self.ends[end].created_at = at;
        self.ends[end].resting_until = until;
        self.queue.push(until, Event::Kick { end });
    }

    /// Has all owners do something wrong.
    pub(crate) fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = sabotage;
        for end in &mut self.ends {
            end.sabotage = sabotage;
            end.memory.sabotage = sabotage;
            end.work.no_barrier = sabotage == Sabotage::NoBarrier;
        }
    }

    /// A node's CPU stands still.
    pub(crate) fn pause(&mut self, node: usize, at: u64, until: u64) {
        self.queue.push(at, Event::Pause { node, until });
    }

    /// What happened.
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Counters of all connections.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for end in &self.ends {
            let stats = end.conn.stats();
            totals.tx_packets += stats.tx_packets;
            totals.retransmits +=
                stats.retransmits_fast + stats.retransmits_timeout + stats.retransmits_full_window;
            totals.timeouts += stats.timeouts;
        }
        totals.ring_drops = self.nodes.iter().map(|node| node.drops).sum();
        totals
    }

    /// Runs until nothing happens any more, or until `limit`; then looks at everything.
    pub(crate) fn run(&mut self, limit: u64) -> Result<(), Violation> {
        for end in 0..self.ends.len() {
            match self.ends[end].created_at {
                0 => self.drive(end)?,
                at => self.queue.push(at, Event::Kick { end }),
            }
        }
        while let Some((at, event)) = self.queue.pop() {
            if at > CONFUSED_LIMIT && self.over() {
                break;
            }
            if at > limit {
                let text = "something goes on for ever".to_owned();
                return self.violated(0, (Invariant::Deadlock, text));
            }
            self.now = self.now.max(at);
            self.event(event)?;
            if self.trace.events() > EVENTS_MAX {
                let text = "more events than any run should need".to_owned();
                return self.violated(0, (Invariant::TimerStorm, text));
            }
        }
        self.finish()
    }

    /// Whether only connections still go on that damaged packets may have confused, or whose peer died before it was
    /// ever heard: they wait for it until somebody removes them [proto 3.14].
    fn over(&self) -> bool {
        let goes_on = |end: &End| {
            // A request may wait for room that an acknowledgement under way brings.
            let wants = !(end.work.done() || end.mortal || end.broken.is_some());
            wants || end.work.open() > 0 || end.conn.deadline().is_some()
        };
        let ends = self.ends.iter();
        !ends.filter(|end| comes_to_rest(end)).any(goes_on)
    }

    fn stop(&mut self, end: usize) -> Result<(), Violation> {
        self.ends[end].conn.stop();
        self.drive(end)
    }

    fn event(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Arrive(packet) => self.arrive(packet),
            Event::Run { node } => self.run_node(node)?,
            Event::Timer { end } => self.timer(end)?,
            Event::Kick { end } => self.drive(end)?,
            Event::Renew { end, life } => self.renew_end(end, life)?,
            Event::Pause { node, until } => {
                self.trace.note(self.now, "pause", node, &[]);
                let stalled = &mut self.nodes[node].stalled_until;
                *stalled = until.max(*stalled);
            }
        }
        Ok(())
    }

    /// A packet has crossed a link.
    fn arrive(&mut self, packet: Box<Packet>) {
        self.active = self.now;
        if packet.next_link().is_some() {
            return self.forward(packet);
        }
        self.trace
            .note(self.now, "arrive", packet.from, &packet.bytes);
        let node = packet.to;
        if let Some(at) = self.nodes[node].arrive(self.now, packet) {
            self.queue.push(at, Event::Run { node });
        }
    }

    fn forward(&mut self, packet: Box<Packet>) {
        let queue = &mut self.queue;
        self.fabric.forward(self.now, packet, |at, packet| {
            queue.push(at, Event::Arrive(packet));
        });
    }

    /// A node's CPU takes a packet.
    fn run_node(&mut self, node: usize) -> Result<(), Violation> {
        let state = &mut self.nodes[node];
        if state.stalled_until > self.now {
            self.queue.push(state.stalled_until, Event::Run { node });
            return Ok(());
        }
        let (packet, batch_over) = state.take();
        if let Some(packet) = packet {
            // As an owner does: it knows the identifier, and the source address fits.
            let dcid = u16::from_le_bytes([packet.bytes[0], packet.bytes[1]]);
            let source = self.ends[packet.from].node;
            let found = state
                .ends
                .get(&dcid)
                .copied()
                .filter(|&end| self.ends[end].cid == dcid && self.ends[end ^ 1].node == source);
            match found {
                Some(end) if end == packet.from ^ 1 || self.ends[end].renewed => {
                    state.touch(end);
                    let taken = self.ends[end].take(self.now, packet.bytes);
                    self.judge(end, taken)?;
                }
                // That life is over, or has not begun here.
                _ if self.ends[packet.from].renewed => {
                    self.trace.note(self.now, "stranger", packet.from, &[]);
                }
                _ => {
                    let text = format!("DCID {dcid} is not the connection's");
                    return self.violated(packet.from, (Invariant::Contract, text));
                }
            }
        }
        if batch_over {
            for end in self.nodes[node].touched() {
                self.drive(end)?;
            }
        }
        if let Some(at) = self.nodes[node].next_run(self.now) {
            self.queue.push(at, Event::Run { node });
        }
        Ok(())
    }

    fn timer(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.now;
        let state = &mut self.ends[end];
        if state.armed != Some(now) {
            return Ok(());
        }
        state.armed = None;
        let stalled = self.nodes[state.node].stalled_until;
        if stalled > now {
            state.armed = Some(stalled);
            self.queue.push(stalled, Event::Timer { end });
            return Ok(());
        }
        if self.sabotage == Sabotage::NoTimer {
            return Ok(());
        }
        let due = state.conn.deadline().is_some_and(|at| at <= now);
        if !due && self.sabotage != Sabotage::TimerStorm {
            self.arm(end);
            return Ok(());
        }
        self.active = now;
        self.trace.note(now, "timer", end, &[]);
        state.timers.expired();
        state.conn.expire(now);
        self.drive(end)?;
        if self.ends[end].conn.deadline().is_some_and(|at| at <= now) {
            let text = "a deadline that has passed, and nothing to do".to_owned();
            return self.violated(end, (Invariant::TimerStorm, text));
        }
        Ok(())
    }

    /// Sends what an end has to send, fetches what it has to tell, gives it work, sets its timer.
    fn drive(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.now;
        let stalled = self.nodes[self.ends[end].node].stalled_until;
        if stalled > now {
            self.queue.push(stalled, Event::Kick { end });
            return Ok(());
        }
        loop {
            self.transmit(end)?;
            let (state, peer) = pair(&mut self.ends, end);
            let told = state.events(now, &mut peer.memory);
            self.judge(end, told)?;
            let (state, peer) = pair(&mut self.ends, end);
            if now < state.resting_until || state.work.done() {
                break;
            }
            let (here, there) = (&mut state.memory, &mut peer.memory);
            let looked = match state.work.submit(now, &mut state.conn, here, there) {
                Ok(looked) => looked,
                Err(wrong) => return self.violated(end, wrong),
            };
            if let Some(rest) = looked.rest {
                state.resting_until = now + rest;
                self.queue.push(now + rest, Event::Kick { end });
            }
            if !looked.any {
                break;
            }
        }
        let stepped = judge::step(&mut self.ends[end], now);
        self.judge(end, stepped)?;
        self.arm(end);
        Ok(())
    }

    fn transmit(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.now;
        let mut transmit = Transmit::default();
        while self.ends[end].conn.next_transmit(now, &mut transmit) {
            self.active = now;
            let state = &mut self.ends[end];
            let judged = state.sending(&transmit);
            self.judge(end, judged)?;
            let to = self.ends[end ^ 1].node;
            let state = &mut self.ends[end];
            let bytes = match state.packet(&transmit) {
                Some(bytes) => bytes,
                None if state.trusted => {
                    let text = format!("{transmit:?} cannot be built");
                    return self.violated(end, (Invariant::Contract, text));
                }
                // A damaged read that was checked when it came is served; of a request nothing is
                // ever damaged here. What remains is a reply to what is no longer known.
                None => {
                    if let Payload::Reply(reply) = &transmit.payload {
                        state
                            .conn
                            .refuse_reply(reply.xid, superp_proto::Code::ACCESS);
                    }
                    match state.packet(&transmit.without_payload()) {
                        Some(bytes) => bytes,
                        None => continue,
                    }
                }
            };
            self.trace.note(now, "send", end, &bytes);
            let ordered = state.conn.config().ordered_tx;
            let node = state.node;
            let entropy = match ordered {
                true => state.entropy,
                false => self.nodes[node].rng.bits(),
            };
            let unchecked = !self.ends[end].trusted;
            let packet = self.fabric.packet(node, to, entropy, end, unchecked, bytes);
            self.forward(Box::new(packet));
            let stepped = judge::step(&mut self.ends[end], now);
            self.judge(end, stepped)?;
        }
        Ok(())
    }

    /// Sets the timer event of an end, unless an earlier one comes anyway.
    fn arm(&mut self, end: usize) {
        let state = &mut self.ends[end];
        let Some(mut at) = state.conn.deadline() else {
            return;
        };
        if self.sabotage == Sabotage::TimerStorm {
            at = self.now + 1;
        }
        // After a pause it may have passed.
        let at = at.max(self.now);
        if state.armed.is_none_or(|armed| at < armed) {
            state.armed = Some(at);
            self.queue.push(at, Event::Timer { end });
        }
    }

    /// Nothing happens any more: looks at everything.
    fn finish(&mut self) -> Result<(), Violation> {
        for end in 0..self.ends.len() {
            if !comes_to_rest(&self.ends[end]) {
                self.stop(end)?;
                let state = &self.ends[end];
                if state.work.open() > 0 || state.conn.deadline().is_some() {
                    let text = "requests are open after stop".to_owned();
                    return self.violated(end, (Invariant::Completion, text));
                }
                continue;
            }
            let rested = judge::rest(&self.ends[end]);
            self.judge(end, rested)?;
        }
        for end in (0..self.ends.len()).filter(|&end| comes_to_rest(&self.ends[end])) {
            let (here, peer) = (&self.ends[end], &self.ends[end ^ 1]);
            // What was under way when a connection broke may have been carried out in part.
            if here.broken.is_none() && peer.broken.is_none() {
                let verified = here.work.verify(&here.memory, &peer.memory);
                self.judge(end, verified)?;
            }
        }
        Ok(())
    }

    fn judge(&self, end: usize, check: Check) -> Result<(), Violation> {
        match check {
            Ok(()) => Ok(()),
            Err(wrong) => self.violated(end, wrong),
        }
    }

    fn violated<T>(&self, end: usize, wrong: (Invariant, String)) -> Result<T, Violation> {
        Err(Violation {
            invariant: wrong.0,
            at: self.now,
            end,
            detail: wrong.1,
        })
    }
}

/// An end and its peer.
fn pair(ends: &mut [End], end: usize) -> (&mut End, &mut End) {
    let first = end & !1;
    let (a, b) = ends.split_at_mut(first + 1);
    match end == first {
        true => (&mut a[first], &mut b[0]),
        false => (&mut b[0], &mut a[first]),
    }
}

/// Whether an end has nothing left to do sooner or later, by itself.
fn comes_to_rest(end: &End) -> bool {
    end.trusted && (end.conn.heard() || !end.mortal || end.broken.is_some())
}
