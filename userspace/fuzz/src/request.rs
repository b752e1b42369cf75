// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests, and what must come of them.

use crate::input::Input;
use crate::layout::{BAD, BASE, COUNTER, END, READABLE, WRITABLE};
use superp_proto::{AtomicKind, Code, ReqOp, Request};

/// Most bytes of an operation, so that many requests find room in the memory.
const LEN_MAX: u32 = 3000;

/// A request that a connection took.
pub(crate) struct Submitted {
    pub(crate) xid: u16,
    pub(crate) request: Request,
    /// Addresses of its operations, if there are several.
    pub(crate) addresses: Vec<u64>,
    /// Of a read: how often each byte came, and what came.
    pub(crate) came: Vec<(u8, u8)>,
    /// What it must come to when the peer is honest.
    pub(crate) expected: Result<(), Code>,
    pub(crate) result: Option<Result<(), Code>>,
    pub(crate) original: Option<u64>,
}

/// Place of a byte of operation `op` in all the data of a request.
pub(crate) fn data(request: &Request, op: u32, offset: u32) -> usize {
    op as usize * request.len as usize + offset as usize
}

/// Byte `at` of a request's data.
pub(crate) fn content(token: u64, at: usize) -> u8 {
    (token as u8).wrapping_mul(31) ^ (at as u8) ^ (at >> 8) as u8
}

/// Where the next requests of an end go: no two write to the same place.
pub(crate) struct Places {
    address: u64,
    number: u32,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self {
            address: COUNTER + 8,
            number: 0x1000,
        }
    }

    /// The next request; `None` when memory is used up. `max`: most bytes that a request may have.
    pub(crate) fn request(
        &mut self,
        input: &mut Input<'_>,
        ext: bool,
        max: impl Fn(&ReqOp) -> u64,
    ) -> Option<Submitted> {
        let number = self.number;
        self.number += 1;
        let imm = input.bit().then_some(number);
        let bad = input.below(16) == 0;
        let (address, qp) = match bad {
            true => (END, BAD + number),
            false => (BASE, number),
        };
        let kinds = if ext { 9 } else { 5 };
        let mut op = match input.below(kinds) {
            0 => ReqOp::Read { address },
            1 => ReqOp::Write { address },
            2 => ReqOp::Noop,
            3 => ReqOp::Send { key: qp, offset: 0 },
            4 => ReqOp::SendQp { qp },
            5 => ReqOp::WriteExt {
                address,
                qp: number,
                imm,
                solicited: false,
            },
            6 => ReqOp::SendQpExt {
                qp,
                offset: 0,
                message_len: u32::MAX,
                imm,
                solicited: true,
                start: bad,
            },
            7 => ReqOp::Written {
                qp,
                write_len: number.wrapping_mul(0x101),
                imm: number,
                solicited: true,
                start: bad,
            },
            _ => ReqOp::Atomic {
                address: if bad { END } else { COUNTER },
                kind: AtomicKind::FetchAdd,
                operand: 1,
                compare: 0,
            },
        };
        let min = match op {
            ReqOp::Read { .. } | ReqOp::SendQpExt { .. } | ReqOp::Written { .. } => 0,
            ReqOp::WriteExt { .. } => 1,
            _ => 16,
        };
        let most = max(&op).min(LEN_MAX.into()) as usize;
        let mut len = (min + input.below(most.max(min) - min + 1)) as u32;
        let mut count = 1;
        match &mut op {
            ReqOp::Noop | ReqOp::Atomic { .. } | ReqOp::Written { .. } => len = 0,
            ReqOp::SendQpExt { message_len, .. } => *message_len = len,
            _ if input.below(4) == 0 && !bad => {
                count = 2 + input.below(15) as u16;
                len = match op {
                    ReqOp::Read { .. } => len.max(1),
                    _ => len.clamp(1, 80),
                };
            }
            _ => {}
        }
        let mut addresses = Vec::new();
        for index in 0..u64::from(count) {
            addresses.push(match op {
                _ if bad => END,
                ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                    let address = self.address;
                    self.address += u64::from(len);
                    if self.address > COUNTER + WRITABLE {
                        return None;
                    }
                    address
                }
                ReqOp::Send { key, .. } => u64::from(key) << 32 | index * u64::from(len),
                _ => BASE + input.below((READABLE - u64::from(len)) as usize) as u64,
            });
        }
        match &mut op {
            ReqOp::Read { address } | ReqOp::Write { address } => *address = addresses[0],
            ReqOp::WriteExt { address, .. } => *address = addresses[0],
            _ => {}
        }
        let refused = match op {
            _ if !bad => None,
            ReqOp::Noop => None,
            ReqOp::Read { .. } if len == 0 => None,
            ReqOp::Send { .. } => Some(Code::ACCESS_KEY),
            ReqOp::SendQp { .. } | ReqOp::SendQpExt { .. } | ReqOp::Written { .. } => {
                Some(Code::NO_QUEUE_PAIR)
            }
            _ => Some(Code::ACCESS_BOUNDS),
        };
        let came = match op {
            ReqOp::Read { .. } => vec![(0, 0); len as usize * usize::from(count)],
            _ => Vec::new(),
        };
        Some(Submitted {
            xid: 0,
            request: Request {
                op,
                count,
                len,
                token: 0,
            },
            addresses,
            came,
            expected: refused.map_or(Ok(()), Err),
            result: None,
            original: None,
        })
    }
}
