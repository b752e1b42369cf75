// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What an end wants to do next.

use crate::rng::Rng;
use superp_proto::{Barrier, Config};

/// Kinds of request, without their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Noop,
    Read,
    Write,
    WriteExt,
    Send,
    SendQp,
    SendQpExt,
    Written,
    Atomic,
    LastNull,
}

/// A request that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    /// Operations.
    pub(crate) count: u16,
    /// Bytes of each.
    pub(crate) len: u32,
    pub(crate) imm: Option<u32>,
    /// It is to name something that does not exist.
    pub(crate) bad: bool,
    /// A barrier before it.
    pub(crate) barrier: Option<Barrier>,
}

/// The next step of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Wish(Wish),
    /// Nothing for so many ns.
    Rest(u64),
    /// Nothing until a request completes.
    Wait,
    /// Nothing any more.
    Done,
}

/// Where requests come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// All kinds and lengths.
    Random(Random),
    /// Equal writes.
    Stream(Stream),
}

impl Source {
    /// What to do next while `open` requests are open.
    pub(crate) fn next(&mut self, open: usize) -> Next {
        match self {
            Self::Random(random) => random.next(),
            Self::Stream(stream) => stream.next(open),
        }
    }
}

/// Writes of one length, so many at a time.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Writes still to come.
    pub(crate) left: u32,
    /// Bytes of each.
    pub(crate) len: u32,
    /// Most that are open at once.
    pub(crate) depth: usize,
}

impl Stream {
    fn next(&mut self, open: usize) -> Next {
        if self.left == 0 {
            return Next::Done;
        }
        if open >= self.depth {
            return Next::Wait;
        }
        self.left -= 1;
        Next::Wish(Wish {
            kind: Kind::Write,
            count: 1,
            len: self.len,
            imm: None,
            bad: false,
            barrier: None,
        })
    }
}

/// Random requests.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    rng: Rng,
    left: u32,
    mtu: u64,
    ext: bool,
    /// Parts of a thousand requests that must be refused.
    bad: u64,
    /// Longest rest in ns; 0 for none.
    rest: u64,
    shutdown: bool,
}

impl Random {
    /// `count` requests over a connection of this configuration, and a Last NULL after them.
    pub(crate) fn new(mut rng: Rng, config: &Config, count: u32, shutdown: bool) -> Self {
        Self {
            left: count,
            mtu: config.mtu.into(),
            ext: config.ext != superp_proto::Extensions::Off,
            bad: rng.pick(&[0, 0, 100]),
            rest: rng.pick(&[0, 10_000, 2_000_000, 50_000_000]),
            shutdown,
            rng,
        }
    }

    fn next(&mut self) -> Next {
        let rng = &mut self.rng;
        if self.left == 0 {
            if !std::mem::take(&mut self.shutdown) {
                return Next::Done;
            }
            return Next::Wish(Wish {
                kind: Kind::LastNull,
                count: 1,
                len: 0,
                imm: None,
                bad: false,
                barrier: None,
            });
        }
        if self.rest > 0 && rng.chance(150) {
            return Next::Rest(1 + rng.below(self.rest));
        }
        self.left -= 1;
        let kind = match rng.below(if self.ext { 12 } else { 7 }) {
            0 => Kind::Noop,
            1 | 2 => Kind::Read,
            3 | 4 => Kind::Write,
            5 => Kind::Send,
            6 => Kind::SendQp,
            7 => Kind::WriteExt,
            8 => Kind::Atomic,
            9 => Kind::Written,
            _ => Kind::SendQpExt,
        };
        let min = match kind {
            Kind::WriteExt => 1,
            Kind::Write | Kind::Send | Kind::SendQp => 16,
            _ => 0,
        };
        let (mut count, mut len) = (1, length(rng, min, self.mtu));
        if matches!(kind, Kind::Noop | Kind::Atomic | Kind::Written) {
            len = 0;
        } else if kind != Kind::SendQpExt && rng.chance(300) {
            if kind != Kind::Read || rng.chance(500) {
                len = rng.range(min.max(1), 80);
            }
            count = rng.range(2, if kind == Kind::Read { 4 } else { 20 });
        }
        Next::Wish(Wish {
            kind,
            count: count as u16,
            len: len as u32,
            imm: rng.chance(500).then(|| rng.bits() as u32),
            bad: rng.chance(self.bad),
            barrier: match rng.below(100) {
                0 => Some(Barrier::All),
                1 => Some(Barrier::Writes),
                _ => None,
            },
        })
    }
}

/// A length of `min` or more, often at an edge of what fits into packets.
fn length(rng: &mut Rng, min: u64, mtu: u64) -> u64 {
    let len = match rng.below(8) {
        0 => min,
        1 => min + 1,
        2 | 3 => rng.range(min, 64),
        4 => mtu - 32 + rng.below(40),
        5 => 2 * mtu - 64 + rng.below(40),
        6 => rng.range(min, 8 * mtu),
        _ => rng.range(min, 2 * mtu),
    };
    len.max(min)
}
