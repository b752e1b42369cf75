// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Two ends, and between them a link that does what the input says.

use crate::end::End;
use crate::input::{config, Input, MS, US};
use crate::layout::COUNTER;
use crate::lives::{Lives, Renewal};
use crate::memory::Message;
use crate::request::{content, Submitted};
use std::collections::HashMap;
use superp_proto::{Barrier, Code, Config, DropReason, ReqOp, Request};

/// Packets under way, beyond which a link loses what it is given.
const FLIGHTS_MAX: usize = 2048;

/// No packet lives longer, in ns.
const PACKET_LIFE: u64 = 2_000 * MS;

/// Life of a transaction of SUPERp-lite, in ns: none lives as long, whatever the input does with time.
const NEVER: u64 = 10 << 50;

/// Steps in which two ends must come to rest once the link is good.
const REST_MAX: u32 = 100_000;

/// A packet under way.
#[derive(Clone)]
struct Flight {
    to: usize,
    /// Of its sender, when it was sent.
    life: usize,
    sent: u64,
    bytes: Vec<u8>,
}

struct Pair {
    now: u64,
    ends: [End; 2],
    lives: Lives,
    /// In which life each end is.
    life: [usize; 2],
    /// In the order of sending.
    flights: Vec<Flight>,
    /// How many packets come together at rest.
    together: usize,
    /// Packets that were taken in runs, in all lives that are over.
    in_runs: usize,
}

/// Runs two ends of a connection against each other; the input submits requests, decides on the fate
/// of each packet and on the time, and resets or removes the connection and creates it again, one end
/// after the other. Then the link is good, and everything must come to rest: each request complete with
/// its right result, each byte and message delivered once, and in no life any of another.
///
/// A path of SUPERp-lite loses nothing, and keeps order. There both ends begin a life at the same time.
///
/// How many packets were taken in runs.
pub fn schedule(bytes: &[u8]) -> usize {
    let mut input = Input::new(bytes);
    let input = &mut input;
    let first = input.u8();
    let lite = first & 8 != 0;
    let base = config(input);
    // Losses are without limit here, and time passes in leaps: nobody may be taken for dead.
    let base = Config {
        pdl_dead_time: u64::MAX,
        lite,
        tal_transaction_timeout: if lite { NEVER / 10 } else { 0 },
        ..base
    };
    let configs = [0, 1].map(|end| Config {
        ordered_rx: first >> end & 1 != 0,
        ordered_tx: first >> (1 - end) & 1 != 0,
        ..base.clone()
    });
    let mut pair = Pair {
        now: 0,
        ends: [0, 1].map(|end| End::new(&configs[end], 0)),
        lives: Lives::new(configs),
        life: [0, 0],
        flights: Vec::new(),
        together: if first & 16 != 0 { 40 } else { 1 },
        in_runs: 0,
    };
    let shutdown = first & 4 != 0;
    while !input.is_empty() {
        pair.act(input, base.ext == superp_proto::Extensions::On);
    }
    pair.rest();
    for (who, end) in pair.ends.iter().enumerate() {
        verify(end, &pair.ends[1 - who]);
    }
    if shutdown {
        for who in 0..2 {
            let last = Submitted {
                xid: 0,
                request: Request {
                    op: ReqOp::LastNull,
                    count: 1,
                    len: 0,
                    token: 0,
                },
                addresses: Vec::new(),
                came: Vec::new(),
                expected: Ok(()),
                result: None,
                original: None,
            };
            assert!(pair.ends[who].submit(pair.now, last));
            pair.drain(who);
        }
        pair.rest();
        assert!(pair.ends.iter().all(|end| end.drained));
    }
    for who in 0..2 {
        pair.stop(who);
    }
    pair.in_runs
}

impl Pair {
    fn act(&mut self, input: &mut Input<'_>, ext: bool) {
        let action = input.u8();
        let who = usize::from(action >> 7);
        match action & 0x1f {
            0..=7 => {
                let end = &mut self.ends[who];
                let conn = &end.conn;
                let max = |op: &_| conn.max_request_len(op);
                if let Some(request) = end.places.request(input, ext, max) {
                    end.submit(self.now, request);
                }
            }
            // The oldest packet arrives, or several, each by itself or together.
            8..=13 => {
                let mut left = 1 << (action & 3);
                while left > 0 && !self.flights.is_empty() {
                    left -= self.arrive(0, false, if who == 1 { left } else { 1 });
                }
            }
            14..=17 => {
                let at = input.below(self.flights.len());
                let again = action & 0x1f > 15 && !self.lite();
                self.arrive(at, again, if who == 1 { 8 } else { 1 });
            }
            18..=20 => {
                let at = input.below(self.flights.len());
                if at < self.flights.len() && !self.lite() {
                    self.flights.remove(at);
                }
            }
            21 if !self.lite() => self.flights.clear(),
            22..=24 => {
                let deadline = self.ends[who].conn.deadline();
                let at = deadline.filter(|&at| at < NEVER);
                self.now = self.now.max(at.unwrap_or(0));
                self.expire();
            }
            25 | 26 => {
                self.now += US << input.below(18);
                self.expire();
            }
            27 => {
                // Late: this end did not run for a while.
                self.now += 50 * MS;
            }
            28 => {
                let barrier = input.pick([Barrier::All, Barrier::Writes]);
                self.ends[who].conn.barrier(barrier);
            }
            29 => {
                let limit = input.u8();
                self.ends[who]
                    .conn
                    .set_receive_limit(self.now, limit.into());
            }
            30 => {
                let renewal = match input.u8() {
                    0..128 => Renewal::Reset { distance: 0 },
                    128..192 => Renewal::Reset { distance: 1 << 28 },
                    _ if self.lite() => Renewal::Reset { distance: 0 },
                    _ => Renewal::Recreate,
                };
                self.renew(who, renewal, input.u16());
            }
            31 => {
                let memory = &mut self.ends[who].memory;
                memory.refuses_runs = !memory.refuses_runs;
            }
            _ => {}
        }
        // Not each end looks at once at what there is to send.
        if action & 0x20 == 0 {
            self.drain(0);
        }
        if action & 0x40 == 0 {
            self.drain(1);
        }
    }

    fn lite(&self) -> bool {
        self.lives.config(0, 0).lite
    }

    /// Begins the next life of an end; if the other has begun one before, that one.
    fn renew(&mut self, who: usize, renewal: Renewal, start_xid: u16) {
        let last = self.lives.last();
        if self.life == [last, last] {
            let used = self.ends.iter().map(|end| match self.lite() {
                true => end.conn.stats().transactions,
                false => end.conn.stats().tx_packets,
            });
            let used = used.max().unwrap_or(0);
            self.lives.choose(self.now, renewal, used, start_xid);
        }
        let both = self.lite();
        let behind = |&end: &usize| self.life[end] < self.lives.last();
        let ends: Vec<usize> = [who, 1 - who].into_iter().filter(behind).collect();
        for end in ends.into_iter().take(if both { 2 } else { 1 }) {
            self.stop(end);
            self.lives.left(self.now, self.life[end], end);
            self.life[end] += 1;
            let config = self.lives.config(self.life[end], end);
            self.ends[end] = End::new(config, self.now);
        }
    }

    /// Ends the life of an end, whatever is under way: of that nothing was done twice.
    fn stop(&mut self, who: usize) {
        let (lite, renewed) = (self.lite(), self.lives.last() > 0);
        let end = &mut self.ends[who];
        end.stop(self.now);
        self.in_runs += end.in_runs;
        assert!(end.memory.placed.iter().all(|&count| count <= 1));
        for submitted in &end.submitted {
            let stopped = submitted.result == Some(Err(Code::ABORTED_STOPPED));
            let right = submitted.result == Some(submitted.expected);
            assert!(right || stopped, "{:?}", submitted.request);
        }
        // A packet of another life is reported, when it is not taken for a late one of this.
        let expected: &[DropReason] = match (renewed, lite) {
            (false, _) => &[],
            (true, true) => &[DropReason::XidOutOfWindow],
            (true, false) => &[DropReason::OutOfWindow, DropReason::AckOutOfWindow],
        };
        for reason in &end.reports {
            assert!(expected.contains(reason), "an honest peer: {reason:?}");
        }
    }

    /// A packet arrives, together with those sent behind it, `most` in all; with `again` they will once more. How many
    /// there are.
    fn arrive(&mut self, mut at: usize, again: bool, most: usize) -> usize {
        let Some(to) = self.flights.get(at).map(|flight| flight.to) else {
            return 0;
        };
        if self.lite() {
            // Those before it come first.
            let first = self.flights.iter().position(|flight| flight.to == to);
            at = first.unwrap_or(at);
        }
        let sent_in = self.flights[at].life;
        // Nothing is waited for that an end sends which is left in its life for longer than a peer sends again.
        let late = |flight: &Flight| {
            let dies = flight.sent + PACKET_LIFE;
            let free_at = self.lives.free_at(flight.life, to);
            self.now > dies || free_at.is_some_and(|at| dies > at)
        };
        let is_late = late(&self.flights[at]);
        let alike =
            |flight: &&Flight| (flight.to, flight.life, late(flight)) == (to, sent_in, is_late);
        let behind = self.flights[at..].iter();
        let count = behind.take(most).take_while(alike).count();
        let flights: Vec<Flight> = match again {
            true => self.flights[at..at + count].to_vec(),
            false => self.flights.drain(at..at + count).collect(),
        };
        let packets: Vec<_> = flights.into_iter().map(|flight| flight.bytes).collect();
        let life = self.life[to];
        let known = self.lives.cid(sent_in, to) == self.lives.cid(life, to);
        if sent_in == life {
            self.ends[to].receive_all(self.now, &packets);
        } else if known && !is_late {
            let taken = self.ends[to].receive_all(self.now, &packets);
            assert!(!taken, "a packet of life {sent_in} in {life}");
        }
        count
    }

    fn drain(&mut self, who: usize) {
        for bytes in self.ends[who].drain(self.now) {
            if self.flights.len() < FLIGHTS_MAX || self.lite() {
                self.flights.push(Flight {
                    to: 1 - who,
                    life: self.life[who],
                    sent: self.now,
                    bytes,
                });
            }
        }
    }

    fn expire(&mut self) {
        for end in &mut self.ends {
            end.expire(self.now);
        }
    }

    /// Delivers everything until nothing happens any more.
    fn rest(&mut self) {
        while self.life[0] != self.life[1] {
            self.renew(0, Renewal::Recreate, 0);
        }
        for _ in 0..REST_MAX {
            self.drain(0);
            self.drain(1);
            if !self.flights.is_empty() {
                self.arrive(0, false, self.together);
                continue;
            }
            let deadlines = self.ends.iter().filter_map(|end| end.conn.deadline());
            let Some(at) = deadlines.min() else {
                for end in &self.ends {
                    assert!(end.conn.idle() && !end.broken);
                    assert_eq!((end.open(), end.held(), end.memory.unfinished()), (0, 0, 0));
                }
                return;
            };
            self.now = self.now.max(at);
            self.expire();
        }
        panic!("there is no end of it: {:?}", self.ends[0].conn.stats());
    }
}

/// Checks what has come of the requests of `end` at its `peer`.
fn verify(end: &End, peer: &End) {
    let mut messages: HashMap<u32, &Message> = HashMap::new();
    for message in &peer.memory.messages {
        let before = messages.insert(message.first.qp, message);
        assert!(before.is_none(), "a message came twice");
    }
    let mut immediates = HashMap::new();
    for immediate in &peer.memory.immediates {
        let before = immediates.insert(immediate.qp, immediate);
        assert!(before.is_none(), "an immediate came twice");
    }
    let (mut written, mut sent, mut atomics) = (0, 0, Vec::new());
    for (token, submitted) in (0u64..).zip(&end.submitted) {
        let request = &submitted.request;
        assert_eq!(submitted.result, Some(submitted.expected), "{request:?}");
        let refused = submitted.expected.is_err();
        assert_eq!(refused, peer.memory.aborted.contains(&submitted.xid));
        if refused {
            continue;
        }
        let len = request.len as usize;
        let total = len * usize::from(request.count);
        let is = |bytes: &[u8]| {
            bytes.len() == total
                && (0..)
                    .zip(bytes)
                    .all(|(at, &byte)| byte == content(token, at))
        };
        match request.op {
            ReqOp::Noop | ReqOp::LastNull => {}
            ReqOp::Read { .. } => {
                for (op, came) in submitted.came.chunks(len.max(1)).enumerate() {
                    let source = peer.memory.get(submitted.addresses[op], len);
                    let came = came
                        .iter()
                        .map(|&(count, byte)| (count == 1).then_some(byte));
                    assert!(came.eq(source.expect("legal").iter().copied().map(Some)));
                }
            }
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                written += total;
                for (op, &address) in submitted.addresses.iter().enumerate() {
                    let bytes = peer.memory.get(address, len).expect("legal");
                    let expected = (op * len..).map(|at| content(token, at));
                    assert!(bytes.iter().copied().eq(expected.take(len)));
                    let start = (address - COUNTER) as usize;
                    assert!(peer.memory.placed[start..start + len]
                        .iter()
                        .all(|&n| n == 1));
                }
                if let ReqOp::WriteExt {
                    qp, imm: Some(imm), ..
                } = request.op
                {
                    let came = immediates.remove(&qp).expect("its immediate");
                    assert_eq!((came.imm, came.len as usize), (imm, total));
                }
            }
            ReqOp::Send { key, .. } => {
                for at in 0..total {
                    let byte = peer.memory.contexts[&(key, at as u32)];
                    assert_eq!(byte, content(token, at));
                }
                sent += total;
            }
            ReqOp::SendQp { qp } => {
                assert!(is(&messages.remove(&qp).expect("its message").data));
            }
            ReqOp::SendQpExt {
                qp,
                message_len,
                imm,
                ..
            } => {
                let message = messages.remove(&qp).expect("its message");
                let ext = message.first.ext.expect("its place");
                assert!(is(&message.data));
                assert_eq!((ext.message_len, ext.imm), (message_len, imm));
            }
            ReqOp::Written {
                qp, write_len, imm, ..
            } => {
                let came = immediates.remove(&qp).expect("its immediate");
                assert_eq!((came.imm, came.len), (imm, write_len));
            }
            ReqOp::Atomic { .. } => atomics.push(submitted.original.expect("a value")),
        }
    }
    assert!(messages.is_empty() && immediates.is_empty());
    assert_eq!(sent, peer.memory.contexts.len());
    let placed: usize = peer.memory.placed.iter().map(|&n| usize::from(n)).sum();
    assert_eq!(placed, written);
    atomics.sort_unstable();
    assert_eq!(atomics.len() as u64, peer.memory.atomics);
    assert!(atomics.into_iter().eq(0..peer.memory.atomics));
}
