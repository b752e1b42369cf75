// SPDX-License-Identifier: GPL-2.0 OR MIT

use crate::link::{Link, LinkConfig};
use crate::node::{Delivery, Memory, MEMORY};
use crate::rng::Rng;
use crate::MS;
use std::collections::{HashMap, VecDeque};
use superp_proto::wire::HEADERS_MAX;
use superp_proto::{
    BrokenCause, Code, Config, Connection, DropReason, Event, Heap, Packet, Payload, Received,
    Report, ReqOp, Request, SubmitError, Transmit,
};

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// How an end's CPU treats arriving packets.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    /// Time to process one packet.
    pub(crate) cost: u64,
    /// Packets processed before anything is sent.
    pub(crate) batch: usize,
}

/// What an end has submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) xid: u16,
    pub(crate) data: Vec<u8>,
    /// Addresses of the operations when there are several.
    pub(crate) addresses: Vec<u64>,
}

pub(crate) struct End {
    pub(crate) conn: Connection<Heap>,
    pub(crate) memory: Memory,
    pub(crate) submitted: HashMap<u64, Submitted>,
    pub(crate) completed: HashMap<u64, Result<(), Code>>,
    /// What atomics brought.
    pub(crate) originals: HashMap<u64, u64>,
    /// The operation of several that was refused.
    pub(crate) failed_op: HashMap<u64, u32>,
    /// Tokens in the order of completion.
    pub(crate) order: Vec<u64>,
    pub(crate) reports: Vec<Report>,
    pub(crate) broken: Option<BrokenCause>,
    pub(crate) drained: bool,
    pub(crate) writable: u32,
    pub(crate) drops: HashMap<DropReason, u32>,
    pub(crate) cpu: Cpu,
    /// The data of replies can no longer be fetched.
    pub(crate) withdrawn: bool,
    /// Replies that were withdrawn.
    pub(crate) withdrawals: u32,
    /// Nothing runs on this end before this time.
    pub(crate) stalled_until: u64,
    held: Vec<Option<Vec<u8>>>,
    queue: VecDeque<Vec<u8>>,
    busy_until: u64,
    in_batch: usize,
    last_psn: u32,
    next_token: u64,
}

impl End {
    fn new(config: &Config, memory: usize) -> Self {
        let conn = Connection::new(config, 0).expect("a legal configuration");
        assert!(conn.xid_slots() >= config.tal_trans_window as usize);
        let held = vec![None; conn.psn_slots()];
        Self {
            conn,
            memory: Memory::new(memory),
            submitted: HashMap::new(),
            completed: HashMap::new(),
            originals: HashMap::new(),
            failed_op: HashMap::new(),
            order: Vec::new(),
            reports: Vec::new(),
            broken: None,
            drained: false,
            writable: 0,
            drops: HashMap::new(),
            cpu: Cpu { cost: 0, batch: 1 },
            withdrawn: false,
            withdrawals: 0,
            stalled_until: 0,
            held,
            queue: VecDeque::new(),
            busy_until: 0,
            in_batch: 0,
            last_psn: config.start_psn.wrapping_sub(1),
            next_token: 1,
        }
    }

    /// The bytes of a packet to send.
    pub(crate) fn packet(&self, transmit: &Transmit) -> Vec<u8> {
        let mut bytes = vec![0; HEADERS_MAX];
        let address = |index: u32| match &transmit.payload {
            Payload::Request(request) => self.submitted[&request.token].addresses[index as usize],
            _ => unreachable!("addresses are of requests"),
        };
        let len = self
            .conn
            .emit(transmit, &mut bytes, address)
            .expect("room for headers");
        bytes.truncate(len);
        for index in 0..usize::from(transmit.tal.num_ops) {
            match &transmit.payload {
                Payload::Request(request) if request.has_data => {
                    let data = &self.submitted[&request.token].data;
                    let op = request.first_op as usize + index;
                    let start = op * request.len as usize + request.offset as usize;
                    bytes.extend_from_slice(&data[start..start + request.len as usize]);
                    bytes.resize(bytes.len() + usize::from(request.pad), 0);
                }
                Payload::Reply(reply) => {
                    let address = self.conn.reply_reads(reply).nth(index).unwrap().address;
                    let range = self.memory.range(address, reply.len as usize).unwrap();
                    bytes.extend_from_slice(&self.memory.bytes[range]);
                    bytes.resize(bytes.len() + usize::from(reply.pad), 0);
                }
                _ => {}
            }
        }
        assert_eq!(bytes.len(), len + transmit.data_len());
        if transmit.lite {
            // As Ethernet does, where the SUNH header is before it.
            bytes.resize(bytes.len().max(46 - 8), 0);
        }
        assert!(bytes.len() <= self.conn.config().mtu as usize);
        bytes
    }

    /// Delivers a packet as its owner would.
    pub(crate) fn take(&mut self, now: u64, bytes: &[u8]) -> Option<Received> {
        let head = &bytes[..bytes.len().min(HEADERS_MAX)];
        let parsed = match self.conn.config().lite {
            true => Packet::parse_lite(head, bytes.len()),
            false => Packet::parse(head, bytes.len()),
        };
        let packet = match parsed {
            Ok(packet) => packet,
            Err(malformed) => {
                *self.drops.entry(malformed.into()).or_default() += 1;
                return None;
            }
        };
        let mut owner = Delivery {
            memory: &mut self.memory,
            packet: bytes,
        };
        let received = self.conn.receive(now, &packet, &mut owner);
        match received {
            Received::Held { slot } => {
                assert!(self.held[slot].is_none(), "slot in use");
                self.held[slot] = Some(bytes.to_vec());
            }
            Received::Dropped(reason) => *self.drops.entry(reason).or_default() += 1,
            _ => {}
        }
        while let Some(slot) = self.conn.next_release() {
            let bytes = self.held[slot].take().expect("a held packet");
            let head = &bytes[..bytes.len().min(HEADERS_MAX)];
            let packet = Packet::parse(head, bytes.len()).expect("parsed before");
            let mut owner = Delivery {
                memory: &mut self.memory,
                packet: &bytes,
            };
            if let Received::Dropped(reason) = self.conn.release(now, &packet, &mut owner) {
                *self.drops.entry(reason).or_default() += 1;
            }
        }
        Some(received)
    }

    pub(crate) fn held(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// Fetches the events.
    pub(crate) fn events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Completed {
                    xid,
                    token,
                    result,
                    original,
                    failed_op,
                } => {
                    self.failed_op.extend(failed_op.map(|op| (token, op)));
                    self.originals.extend(original.map(|value| (token, value)));
                    assert_eq!(self.submitted[&token].xid, xid);
                    let before = self.completed.insert(token, result);
                    assert!(before.is_none(), "{token} completed twice");
                    self.order.push(token);
                }
                Event::Writable => self.writable += 1,
                Event::Report(report) => self.reports.push(report),
                Event::Broken(cause) => {
                    assert!(self.broken.is_none());
                    self.broken = Some(cause);
                }
                Event::Drained => {
                    assert!(!self.drained);
                    self.drained = true;
                }
            }
        }
    }
}

/// Of a time, a sender and a packet.
pub(crate) type Filter = dyn FnMut(u64, usize, &Transmit) -> bool;

pub(crate) struct Pair {
    pub(crate) now: u64,
    pub(crate) ends: [End; 2],
    pub(crate) link: Link,
    /// Packets sent, if `trace` is set: time, sender, packet.
    pub(crate) log: Vec<(u64, usize, Transmit)>,
    pub(crate) trace: bool,
    /// A packet for which this says `true` is lost.
    pub(crate) filter: Option<Box<Filter>>,
}

impl Pair {
    pub(crate) fn new(configs: [Config; 2], link: LinkConfig, seed: u64) -> Self {
        Self {
            now: 0,
            ends: configs.map(|config| End::new(&config, MEMORY as usize)),
            link: Link::new(link, Rng::new(seed)),
            log: Vec::new(),
            trace: false,
            filter: None,
        }
    }

    /// Two ends of the same configuration, 20 us apart on a perfect link.
    pub(crate) fn clean(config: &Config) -> Self {
        let link = LinkConfig {
            delay: 20_000,
            ..LinkConfig::default()
        };
        Self::new([config.clone(), config.clone()], link, 0)
    }

    pub(crate) fn try_submit(
        &mut self,
        end: usize,
        request: Request,
        data: Vec<u8>,
        addresses: Vec<u64>,
    ) -> Result<u64, SubmitError> {
        let now = self.now;
        let end = &mut self.ends[end];
        let token = end.next_token;
        let request = Request { token, ..request };
        let xid = end.conn.submit(now, request)?;
        end.next_token += 1;
        if let ReqOp::Read { .. } = request.op {
            let bytes = request.len as usize * usize::from(request.count);
            end.memory.reads.insert(token, vec![None; bytes]);
            end.memory.read_len.insert(token, request.len);
        }
        let submitted = Submitted {
            xid,
            data,
            addresses,
        };
        end.submitted.insert(token, submitted);
        Ok(token)
    }

    pub(crate) fn submit(&mut self, end: usize, op: ReqOp, data: Vec<u8>) -> u64 {
        let request = Request {
            op,
            count: 1,
            len: data.len() as u32,
            token: 0,
        };
        self.try_submit(end, request, data, Vec::new()).unwrap()
    }

    pub(crate) fn read(&mut self, end: usize, address: u64, len: u32) -> u64 {
        let request = Request {
            op: ReqOp::Read { address },
            count: 1,
            len,
            token: 0,
        };
        self.try_submit(end, request, Vec::new(), Vec::new())
            .unwrap()
    }

    /// Sends a packet.
    pub(crate) fn transmit(&mut self, who: usize, transmit: Transmit) {
        let end = &mut self.ends[who];
        let ahead = transmit.psn.wrapping_sub(end.last_psn) as i32;
        assert!(ahead <= 1, "PSN skipped");
        if ahead == 1 {
            end.last_psn = transmit.psn;
            assert!(!transmit.retransmit);
        }
        assert!(end.conn.inflight_packets() <= end.conn.config().pdl_window_size);
        let bytes = end.packet(&transmit);
        if self.trace {
            self.log.push((self.now, who, transmit));
        }
        let lost = match &mut self.filter {
            Some(filter) => filter(self.now, who, &transmit),
            None => false,
        };
        if !lost {
            self.link.send(self.now, 1 - who, bytes);
        }
    }

    /// Sends what there is to send and fetches the events.
    pub(crate) fn drive(&mut self, who: usize) {
        let lane = self.link.lane(self.now);
        self.ends[who].conn.set_lane(lane);
        let mut transmit = Transmit::default();
        while self.ends[who].conn.next_transmit(self.now, &mut transmit) {
            let end = &mut self.ends[who];
            if end.withdrawn && matches!(transmit.payload, Payload::Reply(_)) {
                end.conn.refuse_reply(transmit.tal.xid, Code::ACCESS_KEY);
                end.withdrawals += 1;
                transmit = transmit.without_payload();
            }
            self.transmit(who, transmit);
        }
        let end = &mut self.ends[who];
        end.events();
        let late = end.conn.deadline().is_some_and(|at| at <= self.now);
        assert!(
            !late,
            "a timer in the past with nothing to do at {}: {}",
            self.now,
            self.describe()
        );
    }

    fn next_time(&self, who: usize) -> Option<u64> {
        let end = &self.ends[who];
        let work = (!end.queue.is_empty()).then_some(end.busy_until);
        let times = [work, end.conn.deadline()];
        let at = times.into_iter().flatten().min()?;
        Some(at.max(end.stalled_until))
    }

    /// Goes to the next thing that happens, no later than `limit`. `false`: nothing will.
    pub(crate) fn step(&mut self, limit: u64) -> bool {
        let times = [
            self.link.next_arrival(),
            self.next_time(A),
            self.next_time(B),
        ];
        let Some(next) = times.into_iter().flatten().min() else {
            return false;
        };
        if next > limit {
            self.now = limit;
            return false;
        }
        self.now = self.now.max(next);
        while let Some(flight) = self.link.pop(self.now) {
            let end = &mut self.ends[flight.to];
            if end.queue.is_empty() {
                end.busy_until = end.busy_until.max(self.now + end.cpu.cost);
            }
            end.queue.push_back(flight.bytes);
        }
        for who in [A, B] {
            self.run(who);
        }
        true
    }

    fn run(&mut self, who: usize) {
        let end = &mut self.ends[who];
        if self.now < end.stalled_until {
            return;
        }
        // Timers first: the hard case for a CPU that did not run for a while.
        if end.conn.deadline().is_some_and(|at| at <= self.now) {
            end.conn.expire(self.now);
            self.drive(who);
        }
        loop {
            let end = &mut self.ends[who];
            if end.busy_until > self.now {
                return;
            }
            let Some(bytes) = end.queue.pop_front() else {
                return;
            };
            end.take(self.now, &bytes);
            end.busy_until += end.cpu.cost;
            end.in_batch += 1;
            if end.queue.is_empty() || end.in_batch >= end.cpu.batch {
                end.in_batch = 0;
                self.drive(who);
            }
        }
    }

    /// Runs until `done`; panics when that takes longer than `limit` of virtual time.
    pub(crate) fn run_until(&mut self, limit: u64, mut done: impl FnMut(&Self) -> bool) {
        let limit = self.now + limit;
        self.drive(A);
        self.drive(B);
        while !done(self) {
            assert!(
                self.step(limit),
                "stuck at {} ns: {}",
                self.now,
                self.describe()
            );
        }
    }

    /// Runs until nothing happens any more, and checks that nothing is left.
    pub(crate) fn settle(&mut self) {
        let limit = self.now + 100_000 * MS;
        self.drive(A);
        self.drive(B);
        while self.step(limit) {}
        for end in &self.ends {
            assert_eq!(end.conn.deadline(), None, "{}", self.describe());
            if end.broken.is_none() {
                assert!(end.conn.idle(), "{}", self.describe());
                assert_eq!(end.held(), 0);
                assert_eq!(
                    end.completed.len(),
                    end.submitted.len(),
                    "{}",
                    self.describe()
                );
            }
        }
    }

    pub(crate) fn all_complete(&self) -> bool {
        self.ends
            .iter()
            .all(|end| end.completed.len() == end.submitted.len())
    }

    /// Packets sent again by both ends, for any reason.
    pub(crate) fn retransmits(&self) -> u64 {
        self.ends
            .iter()
            .map(|end| {
                let stats = end.conn.stats();
                stats.retransmits_fast + stats.retransmits_timeout + stats.retransmits_full_window
            })
            .sum()
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for end in &self.ends {
            text += &format!(
                "\n{} of {} complete, {} in flight, state {:?}, deadline {:?}, {:?}, reports {:?}",
                end.completed.len(),
                end.submitted.len(),
                end.conn.inflight_packets(),
                end.conn.state(),
                end.conn.deadline(),
                end.conn.stats(),
                &end.reports[..end.reports.len().min(4)],
            );
        }
        text
    }
}
