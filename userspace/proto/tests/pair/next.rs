// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A packet that is made from the one before it is the one that would be made anew: twins that get the same
//! packets and requests send the same.

use crate::rng::Rng;
use crate::sink::Sink;
use crate::{seeds, MS, SECOND, US};
use std::collections::VecDeque;
use std::fmt::Debug;
use superp_proto::wire::HEADERS_MAX;
use superp_proto::*;

type Subject = Connection<Heap>;

#[derive(Clone)]
struct Bytes {
    head: [u8; HEADERS_MAX],
    len: usize,
}

/// A connection that makes packets from those before them, and one that does not.
struct Twins {
    follows: Subject,
    anew: Subject,
    transmit: Transmit,
    /// Packets that were made together with one that was sent, and are still to be.
    made: VecDeque<Transmit>,
    held: Vec<Option<Bytes>>,
    /// Packets that continue their request or answer.
    continued: u32,
}

impl Twins {
    fn new(config: &Config) -> Self {
        let new = || Subject::new(config, 0).expect("a legal configuration");
        Self {
            held: vec![None; new().psn_slots()],
            follows: new(),
            anew: new(),
            transmit: Transmit::default(),
            made: VecDeque::new(),
            continued: 0,
        }
    }

    fn both<T: PartialEq + Debug>(&mut self, call: impl Fn(&mut Subject) -> T) -> T {
        let result = call(&mut self.follows);
        assert_eq!(result, call(&mut self.anew));
        result
    }

    /// The next packet.
    fn send(&mut self, now: u64, rng: &mut Rng) -> Option<Bytes> {
        let anew = self.anew.poll_transmit(now);
        assert_eq!(self.follow(now, rng), anew);
        let mut transmit = anew?;
        let alone = self.made.is_empty();
        if alone && matches!(transmit.payload, Payload::Reply(_)) && rng.chance(5) {
            self.both(|conn| conn.refuse_reply(transmit.tal.xid, Code::ACCESS_KEY));
            transmit = transmit.without_payload();
        }
        let mut head = [0; HEADERS_MAX];
        let len = self.anew.emit(&transmit, &mut head, |_| 0)?;
        let len = len + transmit.data_len();
        Some(Bytes { head, len })
    }

    /// The next packet, made from the one before it if that goes on, sometimes with others after it.
    fn follow(&mut self, now: u64, rng: &mut Rng) -> Option<Transmit> {
        if let Some(made) = self.made.pop_front() {
            return Some(made);
        }
        let before = (self.transmit.tal.xid, self.transmit.tal.seqno);
        if !self.follows.next_transmit(now, &mut self.transmit) {
            return None;
        }
        let first = self.transmit;
        let after = (first.tal.xid, first.tal.seqno);
        self.continued += u32::from(after == (before.0, before.1 + 1));
        let most = rng.pick(&[0, 0, 1, 3, 20]);
        let count = self.follows.follow(now, &mut self.transmit, most);
        assert!(count <= most);
        self.made
            .extend((1..count).map(|n| first.nth(n, &self.transmit)));
        self.made.extend((count > 0).then_some(self.transmit));
        self.continued += u32::from(count);
        Some(first)
    }

    fn take(&mut self, now: u64, bytes: &Bytes) {
        let packet = Packet::parse(&bytes.head, bytes.len).expect("it was made here");
        let received = self.both(|conn| conn.receive(now, &packet, &mut Sink));
        if let Received::Held { slot } = received {
            self.held[slot] = Some(bytes.clone());
        }
        while let Some(slot) = self.both(|conn| conn.next_release()) {
            let bytes = self.held[slot].take().expect("it is held");
            let packet = Packet::parse(&bytes.head, bytes.len).expect("it was made here");
            self.both(|conn| conn.release(now, &packet, &mut Sink));
        }
    }
}

fn request(rng: &mut Rng, longest: u64) -> Request {
    let address = rng.next() & !7;
    let len = rng.range(16, longest) as u32;
    let op = match rng.below(6) {
        0 | 1 => ReqOp::Write { address },
        2 | 3 => ReqOp::Read { address },
        4 => ReqOp::SendQp { qp: 7 },
        _ => ReqOp::SendQpExt {
            qp: 7,
            offset: 0,
            message_len: len,
            imm: None,
            solicited: false,
            start: false,
        },
    };
    let (count, len) = match op {
        ReqOp::Write { .. } | ReqOp::Read { .. } if rng.chance(200) => (3, 32),
        _ => (1, len),
    };
    Request {
        op,
        count,
        len,
        token: rng.next(),
    }
}

#[test]
fn packet_made_from_the_one_before_is_the_one_made_anew() {
    seeds(200, |seed| {
        let mut rng = Rng::new(seed);
        let config = Config {
            ext: true.into(),
            mtu: rng.pick(&[256, 600, 1500]),
            pdl_window_size: rng.pick(&[16, 32, 256]),
            pdl_receive_win: 16,
            pdl_congestion: rng.pick(&[0, 1]),
            start_psn: rng.next() as u32,
            start_xid: rng.next() as u16,
            ordered_tx: true,
            ordered_rx: rng.chance(500),
            ..Config::default()
        };
        let mut ends = [Twins::new(&config), Twins::new(&config)];
        let longest = ends[0].anew.max_request_len(&ReqOp::SendQp { qp: 7 });
        let mut links = [VecDeque::new(), VecDeque::new()];
        let (loss, mut now) = (rng.pick(&[0, 0, 10, 100]), 0);
        for step in 0..600 {
            now += if rng.chance(5) {
                20 * MS
            } else {
                rng.below(50 * US)
            };
            for who in [0, 1] {
                let end = &mut ends[who];
                if step < 400 && rng.chance(400) {
                    let request = request(&mut rng, longest);
                    let _ = end.both(|conn| conn.submit(now, request));
                }
                end.both(|conn| conn.expire(now));
                let mut left = rng.range(1, 40);
                while left > 0 || !end.made.is_empty() {
                    left = left.saturating_sub(1);
                    let Some(bytes) = end.send(now, &mut rng) else {
                        break;
                    };
                    if !rng.chance(loss) {
                        links[who].push_back(bytes);
                    }
                }
                for _ in 0..rng.below(20) {
                    let Some(bytes) = links[1 - who].pop_front() else {
                        break;
                    };
                    ends[who].take(now, &bytes);
                }
                let end = &mut ends[who];
                while end.both(|conn| conn.poll_event()).is_some() {}
                end.both(|conn| conn.stats());
                end.both(|conn| conn.deadline());
            }
        }
        let continued: u32 = ends.iter().map(|end| end.continued).sum();
        assert!(continued > 10, "{continued}");
    });
}

/// What a packet looks like to the peer.
fn emitted(conn: &Subject, transmit: &Transmit) -> Bytes {
    let mut head = [0; HEADERS_MAX];
    let len = conn
        .emit(transmit, &mut head, |_| 0)
        .expect("there is room");
    let len = len + transmit.data_len();
    Bytes { head, len }
}

fn give(conn: &mut Subject, now: u64, bytes: &Bytes) {
    let packet = Packet::parse(&bytes.head, bytes.len).expect("it was made here");
    conn.receive(now, &packet, &mut Sink);
    while conn.poll_event().is_some() {}
}

#[test]
fn packets_after_one_that_is_sent_again_have_their_own_psns() {
    let config = Config::default();
    let new = || Subject::new(&config, 0).expect("a legal configuration");
    let (mut here, mut there) = (new(), new());
    let request = |op, len| Request {
        op,
        count: 1,
        len,
        token: 1,
    };
    let address = 0x1000;
    here.submit(0, request(ReqOp::Write { address }, 5000))
        .unwrap();
    let lost = here.poll_transmit(0).expect("the write begins");

    // The answer to a read of the peer takes the PSN after it, and arrives.
    there
        .submit(0, request(ReqOp::Read { address }, 16))
        .unwrap();
    let read = there.poll_transmit(0).expect("the read");
    give(&mut here, 1, &emitted(&there, &read));
    let answer = here.poll_transmit(1).expect("the answer");
    assert!(matches!(answer.payload, Payload::Reply(_)));
    assert_eq!(answer.psn, lost.psn.wrapping_add(1));
    give(&mut there, 2, &emitted(&here, &answer));
    let ack = there.poll_transmit(2).expect("the hole is told of");
    give(&mut here, 3, &emitted(&there, &ack));

    here.expire(SECOND);
    let mut transmit = here.poll_transmit(SECOND).expect("the write begins again");
    assert_eq!((transmit.psn, transmit.retransmit), (lost.psn, true));
    assert_eq!(here.follow(SECOND, &mut transmit, 3), 1);
    assert_eq!(
        (transmit.psn, transmit.tal.seqno),
        (lost.psn.wrapping_add(2), 1)
    );
    assert!(!transmit.retransmit);
    assert_eq!(here.follow(SECOND, &mut transmit, 3), 2);
    assert_eq!(
        (transmit.psn, transmit.tal.seqno),
        (lost.psn.wrapping_add(4), 3)
    );
}
