// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Random transactions, and what must have come of them.

use crate::node::{pattern, BAD_KEY, BAD_QP, BASE, DRY_QP, MEMORY};
use crate::pair::Pair;
use crate::rng::Rng;
use std::collections::HashMap;
use superp_proto::{Barrier, Code, ReqOp, Request, SubmitError};

/// First byte of the half of the memory that is written; the other half keeps its pattern.
const WRITABLE: u64 = 512 << 10;

/// What a transaction must come to.
#[derive(Clone, Debug)]
enum Expect {
    Done,
    Fail(Code),
}

#[derive(Clone, Debug)]
struct Expected {
    request: Request,
    data: Vec<u8>,
    addresses: Vec<u64>,
    expect: Expect,
}

/// Transactions of one end.
pub(crate) struct Work {
    who: usize,
    rng: Rng,
    left: u32,
    ext: bool,
    /// Part per thousand of transactions that must fail.
    failing: u64,
    next_address: u64,
    next_qp: u32,
    next_key: u32,
    expected: HashMap<u64, Expected>,
    pending: Option<Expected>,
    written: u64,
}

impl Work {
    pub(crate) fn new(who: usize, rng: Rng, count: u32, ext: bool, failing: u64) -> Self {
        Self {
            who,
            rng,
            left: count,
            ext,
            failing,
            next_address: BASE + WRITABLE,
            next_qp: 0x1000,
            next_key: 0x1000,
            expected: HashMap::new(),
            pending: None,
            written: 0,
        }
    }

    pub(crate) fn done(&self) -> bool {
        self.left == 0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.next() as u8).collect()
    }

    /// A length from `min` to `max`, often at an edge.
    fn len(&mut self, min: u64, max: u64, mtu: u64) -> u64 {
        let len = match self.rng.below(8) {
            0 => min,
            1 => min + 1,
            2 => self.rng.range(min, 64),
            3 => mtu - 32 + self.rng.below(40),
            4 => 2 * mtu - 64 + self.rng.below(40),
            5 => max,
            _ => self.rng.range(min, max),
        };
        // Large ones are rare, to keep memory and time within bounds.
        let cap = if self.rng.chance(100) {
            max
        } else {
            max.min(4 * mtu)
        };
        len.clamp(min, cap.max(min))
    }

    fn generate(&mut self, pair: &Pair) -> Expected {
        let conn = &pair.ends[self.who].conn;
        let mtu = u64::from(conn.config().mtu);
        let fail = self.rng.chance(self.failing);
        let kind = self.rng.below(if self.ext { 11 } else { 7 });
        let imm = self.rng.chance(500).then(|| self.rng.next() as u32);
        let mut expect = Expect::Done;
        let mut op = match kind {
            0 => ReqOp::Noop,
            1 | 2 => ReqOp::Read { address: BASE },
            3 | 4 => ReqOp::Write { address: BASE },
            5 => ReqOp::Send {
                key: self.next_key,
                offset: 0,
            },
            6 => ReqOp::SendQp { qp: self.next_qp },
            7 => ReqOp::WriteExt {
                address: BASE,
                qp: self.next_qp,
                imm,
                solicited: false,
            },
            8 => ReqOp::Written {
                qp: self.next_qp,
                write_len: self.next_qp.wrapping_mul(0x101),
                imm: self.next_key,
                solicited: true,
                start: false,
            },
            _ => ReqOp::SendQpExt {
                qp: self.next_qp,
                offset: 0,
                message_len: u32::MAX,
                imm,
                solicited: true,
                start: false,
            },
        };
        self.next_key += 1;
        self.next_qp += 1;

        let max = conn.max_request_len(&op).min(100_000);
        let several = self.rng.chance(300);
        let data = op.opcode().has_data();
        let min = match op {
            // Of an empty message.
            ReqOp::SendQpExt { .. } => 0,
            _ => conn.min_request_len(&op).into(),
        };
        let mut count = 1u16;
        let mut len = self.len(min, max, mtu);
        if matches!(op, ReqOp::Noop | ReqOp::Written { .. }) {
            len = 0;
        } else if several && !matches!(op, ReqOp::SendQpExt { .. }) {
            len = self.rng.range(min.max(1), 80);
            count = match op {
                ReqOp::Read { .. } => self.rng.range(2, 4),
                _ => self.rng.range(2, 20),
            } as u16;
        }
        let total = len * u64::from(count);
        let addresses: Vec<u64> = (0..count)
            .map(|_| match op {
                ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                    let address = self.next_address;
                    self.next_address += len;
                    if self.next_address > BASE + MEMORY {
                        self.next_address = BASE + WRITABLE;
                        return self.next_address;
                    }
                    address
                }
                _ => BASE + self.rng.below(WRITABLE - len),
            })
            .collect();
        match &mut op {
            ReqOp::Read { address } | ReqOp::Write { address } => *address = addresses[0],
            ReqOp::WriteExt { address, .. } => *address = addresses[0],
            ReqOp::SendQpExt { message_len, .. } => *message_len = len as u32,
            _ => {}
        }
        if fail {
            match &mut op {
                ReqOp::Read { address } | ReqOp::Write { address } if count == 1 && len > 0 => {
                    *address = BASE + MEMORY - 1;
                    expect = Expect::Fail(Code::ACCESS_BOUNDS);
                    if len == 1 {
                        *address = 0;
                        expect = Expect::Fail(Code::ACCESS_KEY);
                    }
                }
                ReqOp::Send { key, .. } if count == 1 => {
                    *key = BAD_KEY;
                    expect = Expect::Fail(Code::ACCESS_KEY);
                }
                ReqOp::SendQp { qp } => {
                    *qp = BAD_QP;
                    expect = Expect::Fail(Code::NO_QUEUE_PAIR);
                }
                ReqOp::SendQpExt { qp, .. } | ReqOp::Written { qp, .. } => {
                    *qp |= DRY_QP;
                    expect = Expect::Fail(Code::NO_RECEIVE_BUFFER);
                }
                _ => {}
            }
        }
        let addresses = match op {
            ReqOp::Send { key, .. } => (0..u64::from(count))
                .map(|i| (u64::from(key) << 32) | (i * len))
                .collect(),
            _ => addresses,
        };
        let data = if data {
            self.bytes(total as usize)
        } else {
            Vec::new()
        };
        Expected {
            request: Request {
                op,
                count,
                len: len as u32,
                token: 0,
            },
            data,
            addresses,
            expect,
        }
    }

    /// Submits what there is room for, and sometimes less.
    pub(crate) fn submit(&mut self, pair: &mut Pair) {
        while self.left > 0 && !self.rng.chance(200) {
            if self.rng.chance(20) {
                let kind = self.rng.pick(&[Barrier::All, Barrier::Writes]);
                pair.ends[self.who].conn.barrier(kind);
            }
            let next = match self.pending.take() {
                Some(pending) => pending,
                None => self.generate(pair),
            };
            let (data, addresses) = (next.data.clone(), next.addresses.clone());
            match pair.try_submit(self.who, next.request, data, addresses) {
                Ok(token) => {
                    self.left -= 1;
                    if next.request.op.opcode().has_data() {
                        self.written += next.data.len() as u64;
                    }
                    self.expected.insert(token, next);
                }
                Err(SubmitError::WindowFull) => {
                    self.pending = Some(next);
                    return;
                }
                // More than the limits of this connection allow: another one.
                Err(SubmitError::BadCount { .. } | SubmitError::TooLong { .. }) => {}
                Err(error) => panic!("{error:?} for {:?}", next.request),
            }
        }
    }

    /// Checks everything that was submitted, once it is complete.
    pub(crate) fn verify(&self, pair: &Pair) {
        let (here, there) = (&pair.ends[self.who], &pair.ends[1 - self.who]);
        let mut messages: HashMap<u32, _> = HashMap::new();
        for message in &there.memory.messages {
            let twice = messages.insert(message.qp, message);
            assert!(twice.is_none(), "message to {:#x} came twice", message.qp);
        }
        let mut immediates = HashMap::new();
        for immediate in &there.memory.immediates {
            let twice = immediates.insert(immediate.qp, immediate);
            assert!(
                twice.is_none(),
                "immediate to {:#x} came twice",
                immediate.qp
            );
        }
        assert!(!here.memory.read_twice);
        let mut placed = 0;
        let (mut sent_messages, mut sent_immediates) = (0, 0);
        for (token, expected) in &self.expected {
            let result = here.completed[token];
            let request = &expected.request;
            match expected.expect {
                Expect::Fail(code) => {
                    assert_eq!(result, Err(code), "{request:?}");
                    continue;
                }
                Expect::Done => assert_eq!(result, Ok(()), "{request:?}"),
            }
            match request.op {
                ReqOp::Noop | ReqOp::LastNull => {}
                ReqOp::Atomic { .. } => unreachable!("tested by themselves"),
                ReqOp::Read { .. } => {
                    let came = &here.memory.reads[token];
                    for (i, byte) in came.iter().enumerate() {
                        let (op, offset) = match request.len as usize {
                            0 => unreachable!("no bytes"),
                            len => (i / len, i % len),
                        };
                        let address = expected.addresses[op] + offset as u64;
                        assert_eq!(*byte, Some(pattern(address)), "{request:?} byte {i}");
                    }
                }
                ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                    placed += expected.data.len() as u64;
                    if let ReqOp::WriteExt {
                        qp, imm: Some(imm), ..
                    } = request.op
                    {
                        sent_immediates += 1;
                        let came = immediates[&qp];
                        assert_eq!((came.imm, came.len as usize), (imm, expected.data.len()));
                    }
                }
                ReqOp::Written {
                    qp, write_len, imm, ..
                } => {
                    sent_immediates += 1;
                    let came = immediates[&qp];
                    assert_eq!((came.imm, came.len), (imm, write_len));
                }
                ReqOp::Send { key, .. } => {
                    assert_eq!(there.memory.contexts[&key], expected.data);
                }
                ReqOp::SendQp { qp } => {
                    sent_messages += 1;
                    assert_eq!(messages[&qp].data, expected.data);
                }
                ReqOp::SendQpExt {
                    qp,
                    message_len,
                    imm,
                    ..
                } => {
                    sent_messages += 1;
                    let message = messages[&qp];
                    assert_eq!(message.data, expected.data);
                    assert_eq!((message.part, message.imm), (Some((0, message_len)), imm));
                }
            }
        }
        assert_eq!(there.memory.messages.len(), sent_messages);
        assert_eq!(there.memory.immediates.len(), sent_immediates);
        let count: u64 = there.memory.placed.iter().map(|&n| u64::from(n)).sum();
        // A write that fails half-way may have placed some of it before.
        let failing = self
            .expected
            .values()
            .any(|e| matches!(e.expect, Expect::Fail(_)));
        assert!(
            count == placed || (failing && count > placed),
            "bytes placed twice or not at all"
        );
        self.verify_memory(pair);
    }

    /// Every byte that was written once holds what was written.
    fn verify_memory(&self, pair: &Pair) {
        let memory = &pair.ends[1 - self.who].memory;
        for expected in self.expected.values() {
            if !matches!(expected.expect, Expect::Done)
                || !matches!(
                    expected.request.op,
                    ReqOp::Write { .. } | ReqOp::WriteExt { .. }
                )
            {
                continue;
            }
            let len = expected.request.len as usize;
            for (op, &address) in expected.addresses.iter().enumerate() {
                let range = memory.range(address, len).expect("a legal address");
                let data = &expected.data[op * len..(op + 1) * len];
                for (at, byte) in range.zip(data) {
                    if memory.placed[at] == 1 {
                        assert_eq!(memory.bytes[at], *byte, "{:?}", expected.request);
                    }
                }
            }
        }
    }
}
