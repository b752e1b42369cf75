// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Two ends, and between them a link that does what the input says.

use crate::end::End;
use crate::input::{config, Input, MS, US};
use crate::memory::{Message, COUNTER};
use crate::request::{content, Submitted};
use std::collections::HashMap;
use superp_proto::{Barrier, Config, ReqOp, Request};

/// Packets under way, beyond which a link loses what it is given.
const FLIGHTS_MAX: usize = 2048;

/// Steps in which two ends must come to rest once the link is good.
const REST_MAX: u32 = 100_000;

struct Pair {
    now: u64,
    ends: [End; 2],
    /// Receiver and bytes, in the order of sending.
    flights: Vec<(usize, Vec<u8>)>,
}

/// Runs two connections against each other; the input submits requests and decides on the fate of each
/// packet and on the time. Then the link is good, and everything must come to rest: each request
/// complete with its right result, each byte and message delivered once.
pub fn schedule(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let input = &mut input;
    let ordered = input.u8();
    let base = config(input);
    // Losses are without limit here, and time passes in leaps: nobody may be taken for dead.
    let base = Config {
        pdl_dead_time: u64::MAX,
        ..base
    };
    let mut pair = Pair {
        now: 0,
        ends: [0, 1].map(|end| {
            let config = Config {
                ordered_rx: ordered >> end & 1 != 0,
                ordered_tx: ordered >> (1 - end) & 1 != 0,
                ..base.clone()
            };
            End::new(&config, 0)
        }),
        flights: Vec::new(),
    };
    let shutdown = ordered & 4 != 0;
    while !input.is_empty() {
        pair.act(input, base.ext);
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
    for end in &mut pair.ends {
        assert_eq!(end.reports, 0, "an honest peer was reported");
        end.stop(pair.now);
    }
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
            // The oldest packet arrives, or several.
            8..=13 => {
                for _ in 0..1 << (action & 3) {
                    self.arrive(0, false);
                }
            }
            14 | 15 => {
                let at = input.below(self.flights.len());
                self.arrive(at, false);
            }
            16 | 17 => {
                let at = input.below(self.flights.len());
                self.arrive(at, true);
            }
            18..=20 => {
                let at = input.below(self.flights.len());
                if at < self.flights.len() {
                    self.flights.remove(at);
                }
            }
            21 => self.flights.clear(),
            22..=24 => {
                if let Some(at) = self.ends[who].conn.deadline() {
                    self.now = self.now.max(at);
                }
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

    /// A packet arrives; with `again` it will once more.
    fn arrive(&mut self, at: usize, again: bool) {
        if at >= self.flights.len() {
            return;
        }
        let (to, bytes) = match again {
            true => self.flights[at].clone(),
            false => self.flights.remove(at),
        };
        self.ends[to].receive(self.now, &bytes);
    }

    fn drain(&mut self, who: usize) {
        for packet in self.ends[who].drain(self.now) {
            if self.flights.len() < FLIGHTS_MAX {
                self.flights.push((1 - who, packet));
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
        for _ in 0..REST_MAX {
            self.drain(0);
            self.drain(1);
            if !self.flights.is_empty() {
                self.arrive(0, false);
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
