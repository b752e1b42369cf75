// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets that are taken as one run do what each by itself would do: twins that get the same packets, one of them
//! in runs, place the same bytes, tell the same and send the same.

use crate::rng::Rng;
use crate::{seeds, MS, US};
use std::collections::VecDeque;
use std::fmt::Debug;
use superp_proto::wire::{PdlHeader, TalHeader, HEADERS_MAX};
use superp_proto::*;

type Subject = Connection<Heap>;

/// Memory from here on is not to be written.
const FORBIDDEN: u64 = 1 << 20;

/// A packet.
#[derive(Clone)]
struct Bytes {
    head: [u8; HEADERS_MAX],
    headers: usize,
    data: usize,
    /// Where its data is in that of all packets that came.
    source: usize,
}

/// Bytes that were placed.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Piece {
    /// What they go to: memory, or a read.
    space: u64,
    address: u64,
    /// Where they are in the data of all packets that came.
    source: usize,
    len: usize,
}

/// What an owner is asked for.
#[derive(Default, PartialEq, Debug)]
struct Deeds {
    placed: Vec<Piece>,
    others: Vec<String>,
}

/// An owner of packets whose data begins at `source` in the data of all.
struct Recorder<'a> {
    deeds: &'a mut Deeds,
    source: usize,
    headers: usize,
}

impl Recorder<'_> {
    /// What goes on where the last one ends is one with it.
    fn place(&mut self, space: u64, address: u64, data: Block) {
        let next = Piece {
            space,
            address,
            source: self.source + data.offset - self.headers,
            len: data.len,
        };
        match self.deeds.placed.last_mut() {
            Some(last)
                if last.space == space
                    && last.address + last.len as u64 == address
                    && last.source + last.len == next.source =>
            {
                last.len += next.len;
            }
            _ => self.deeds.placed.push(next),
        }
    }

    fn note(&mut self, what: String) {
        self.deeds.others.push(what);
    }
}

impl Owner for Recorder<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        if address + data.len as u64 > FORBIDDEN {
            return Err(Code::ACCESS_BOUNDS);
        }
        self.place(0, address, data);
        Ok(())
    }
    fn read(&mut self, _: u64, _: u32) -> Result<(), Code> {
        Ok(())
    }
    fn atomic(&mut self, _: Atomic) -> Result<u64, Code> {
        Ok(0)
    }
    fn message_to_context(&mut self, _: u16, _: u32, _: u32, _: Block) -> Result<(), Code> {
        Ok(())
    }
    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        let Some(ext) = segment.ext else {
            self.note(format!("{segment:?} {data:?}"));
            return Ok(());
        };
        if ext.offset + data.len as u32 > 25_000 {
            return Err(Code::RESOURCES);
        }
        let message = SegmentExt { offset: 0, ..ext };
        let what = format!("{} {} {message:?}", segment.xid, segment.qp);
        if self.deeds.others.last() != Some(&what) {
            self.note(what);
        }
        self.place(u64::MAX - u64::from(segment.xid), ext.offset.into(), data);
        Ok(())
    }
    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        self.note(format!("{immediate:?}"));
        Ok(())
    }
    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code> {
        self.note(format!("complete {xid} {opcode}"));
        match xid % 29 {
            0 => Err(Code::RESOURCES),
            _ => Ok(()),
        }
    }
    fn aborted(&mut self, xid: u16) {
        self.note(format!("aborted {xid}"));
    }
    fn reply(&mut self, _: u16, token: u64, _: u32, offset: u32, data: Block) -> Result<(), Code> {
        if offset + data.len as u32 > 20_000 {
            return Err(Code::ACCESS_BOUNDS);
        }
        self.place(1 + token, offset.into(), data);
        Ok(())
    }
}

/// A connection that takes runs, and one that takes every packet by itself.
struct Twins {
    runs: Subject,
    singly: Subject,
    held: Vec<Option<Bytes>>,
    deeds: [Deeds; 2],
    /// Bytes of data that came.
    came: usize,
    /// Packets that were taken in runs.
    together: usize,
}

impl Twins {
    fn new(config: &Config) -> Self {
        let new = || Subject::new(config, 0).expect("a legal configuration");
        Self {
            held: vec![None; new().psn_slots()],
            runs: new(),
            singly: new(),
            deeds: Default::default(),
            came: 0,
            together: 0,
        }
    }

    fn both<T: PartialEq + Debug>(&mut self, call: impl Fn(&mut Subject) -> T) -> T {
        let result = call(&mut self.runs);
        assert_eq!(result, call(&mut self.singly));
        result
    }

    fn send(&mut self, now: u64) -> Option<Bytes> {
        let transmit = self.both(|conn| conn.poll_transmit(now))?;
        let mut head = [0; HEADERS_MAX];
        let address = u64::from(transmit.tal.xid) * 4096 % FORBIDDEN;
        let headers = self.singly.emit(&transmit, &mut head, |_| address)?;
        Some(Bytes {
            head,
            headers,
            data: transmit.data_len(),
            source: 0,
        })
    }

    /// Takes packets that came together, as a run if they are one.
    fn take(&mut self, now: u64, mut packets: Vec<Bytes>) {
        for bytes in &mut packets {
            bytes.source = self.came;
            self.came += bytes.data;
        }
        let whole = match packets.len() {
            2.. => self.take_run(now, &packets),
            _ => None,
        };
        let mut last = None;
        self.together += whole.map_or(0, |_| packets.len());
        for bytes in packets {
            if whole.is_none() {
                bytes.give(&mut self.runs, &mut self.deeds[0], now);
            }
            let received = bytes.give(&mut self.singly, &mut self.deeds[1], now);
            if let Some(Received::Held { slot }) = received {
                self.held[slot] = Some(bytes);
            }
            last = received;
            // Of a run nothing is held.
            while let Some(slot) = match whole {
                None => self.both(|conn| conn.next_release()),
                Some(_) => self.singly.next_release(),
            } {
                let bytes = self.held[slot].take().expect("it is held");
                bytes.release(&mut self.runs, &mut self.deeds[0], now);
                bytes.release(&mut self.singly, &mut self.deeds[1], now);
            }
        }
        assert_eq!(self.runs.next_release(), None);
        assert!(whole.is_none() || whole == last, "{whole:?} {last:?}");
        let [runs, singly] = std::mem::take(&mut self.deeds);
        assert_eq!(runs, singly);
    }

    fn take_run(&mut self, now: u64, packets: &[Bytes]) -> Option<Received> {
        let [Bytes {
            headers,
            data,
            source,
            ..
        }, ..] = packets[0..1]
        else {
            return None;
        };
        // As they lie in memory, each but the last is full.
        let full = packets[..packets.len() - 1]
            .iter()
            .all(|bytes| bytes.data == data);
        if !full || packets.iter().any(|bytes| bytes.headers != headers) {
            return None;
        }
        let all = packets.iter().flat_map(|bytes| &bytes.head[..headers]);
        let all: Vec<_> = all.copied().collect();
        let sum = packets.iter().map(|bytes| bytes.data).sum();
        let run = Run::parse(&all, packets.len(), data, sum)?;
        let deeds = &mut self.deeds[0];
        let mut owner = Recorder {
            deeds,
            source,
            headers,
        };
        self.runs.receive_run(now, &run, &mut owner)
    }
}

impl Bytes {
    fn with<T>(
        &self,
        deeds: &mut Deeds,
        call: impl FnOnce(&Packet<'_>, &mut Recorder<'_>) -> T,
    ) -> Option<T> {
        let packet = Packet::parse(&self.head, self.headers + self.data).ok()?;
        let (source, headers) = (self.source, Packet::headers_len(&self.head));
        Some(call(
            &packet,
            &mut Recorder {
                deeds,
                source,
                headers,
            },
        ))
    }

    /// `None`: it is no packet.
    fn give(&self, conn: &mut Subject, deeds: &mut Deeds, now: u64) -> Option<Received> {
        self.with(deeds, |packet, owner| conn.receive(now, packet, owner))
    }

    fn release(&self, conn: &mut Subject, deeds: &mut Deeds, now: u64) {
        self.with(deeds, |packet, owner| conn.release(now, packet, owner));
    }
}

fn request(rng: &mut Rng, longest: u64) -> Request {
    let len = rng.range(16, longest) as u32;
    let op = match rng.below(10) {
        0..=2 => ReqOp::Write { address: 0 },
        3..=5 => ReqOp::Read { address: 0 },
        6 => ReqOp::WriteExt {
            address: 0,
            qp: 7,
            imm: None,
            solicited: false,
        },
        7 => ReqOp::SendQp { qp: 7 },
        _ => ReqOp::SendQpExt {
            qp: 7,
            offset: 1000,
            // It may be the first transaction of several.
            message_len: 1000 + len + rng.pick(&[0, 1000]),
            imm: rng.chance(500).then_some(3),
            solicited: rng.chance(500),
            start: rng.chance(100),
        },
    };
    Request {
        op,
        count: 1,
        len,
        token: rng.below(1 << 40),
    }
}

/// The next packets, mostly as many as continue one another.
fn together(rng: &mut Rng, link: &mut VecDeque<Bytes>) -> Vec<Bytes> {
    let tal = |bytes: &Bytes| {
        let start = bytes.head[PdlHeader::LEN..].first_chunk();
        TalHeader::parse(start.expect("there is room for more"))
    };
    let most = rng.range(1, 9) as usize;
    let mut packets: Vec<Bytes> = Vec::new();
    while let Some(next) = link.front().filter(|_| packets.len() < most) {
        let continues = packets.last().is_none_or(|last| {
            let (last, next) = (tal(last), tal(next));
            (last.xid, last.seqno.wrapping_add(1)) == (next.xid, next.seqno)
        });
        if !continues && !rng.chance(100) {
            break;
        }
        packets.extend(link.pop_front());
    }
    packets
}

#[test]
fn run_does_what_each_packet_by_itself_would_do() {
    seeds(200, |seed| {
        let mut rng = Rng::new(seed);
        // Some wrap around at once.
        let (psn, xid) = (rng.next() as u32, rng.next() as u16);
        let start_psn = rng.pick(&[psn, u32::MAX - 50]);
        let start_xid = rng.pick(&[xid, u16::MAX - 5]);
        let config = Config {
            ext: true.into(),
            mtu: rng.pick(&[256, 600, 1500]),
            pdl_window_size: rng.pick(&[16, 32, 256]),
            pdl_receive_win: 32,
            pdl_congestion: rng.pick(&[0, 1]),
            start_psn,
            start_xid,
            ordered_tx: true,
            ordered_rx: rng.chance(500),
            ..Config::default()
        };
        let mut ends = [Twins::new(&config), Twins::new(&config)];
        let longest = ends[0]
            .singly
            .max_request_len(&ReqOp::SendQp { qp: 7 })
            .min(30_000);
        let mut links = [VecDeque::new(), VecDeque::new()];
        let (loss, broken, mut now) = (rng.pick(&[0, 0, 10, 100]), rng.pick(&[0, 0, 20]), 0);
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
                for _ in 0..rng.range(1, 40) {
                    let Some(mut bytes) = end.send(now) else {
                        break;
                    };
                    if rng.chance(broken) {
                        let at = rng.below(bytes.headers as u64) as usize;
                        bytes.head[at] ^= 1 << rng.below(8);
                    }
                    if !rng.chance(loss) {
                        links[who].push_back(bytes);
                    }
                }
                for _ in 0..rng.below(6) {
                    let packets = together(&mut rng, &mut links[1 - who]);
                    ends[who].take(now, packets);
                }
                let end = &mut ends[who];
                while end.both(|conn| conn.poll_event()).is_some() {}
                end.both(|conn| conn.stats());
                end.both(|conn| conn.deadline());
            }
        }
        let together: usize = ends.iter().map(|end| end.together).sum();
        // A congestion window makes runs short.
        let whole = loss == 0 && broken == 0 && config.pdl_congestion == 0;
        assert!(together > 10 || !whole, "{together}");
    });
}

/// All packets that a connection has to send.
fn all(conn: &mut Subject) -> Vec<Bytes> {
    let mut packets = Vec::new();
    while let Some(transmit) = conn.poll_transmit(0) {
        let mut head = [0; HEADERS_MAX];
        let headers = conn
            .emit(&transmit, &mut head, |_| 0)
            .expect("there is room");
        let data = transmit.data_len();
        packets.push(Bytes {
            head,
            headers,
            data,
            source: 0,
        });
    }
    packets
}

fn fresh(config: &Config) -> Subject {
    Subject::new(config, 0).expect("a legal configuration")
}

#[test]
fn run_of_an_operation_that_is_off_is_refused() {
    let mut sender = fresh(&Config {
        ext: true.into(),
        ..Config::default()
    });
    let op = ReqOp::WriteExt {
        address: 0,
        qp: 7,
        imm: None,
        solicited: false,
    };
    let request = Request {
        op,
        count: 1,
        len: 5000,
        token: 1,
    };
    sender.submit(0, request).expect("it is one transaction");
    let packets = all(&mut sender);
    assert!(packets.len() > 2);
    let mut target = Twins::new(&Config {
        ext: false.into(),
        ..Config::default()
    });
    target.take(0, packets);
    assert_eq!((target.together, target.singly.stats().refused), (0, 1));
}

#[test]
fn run_that_answers_more_than_was_asked_for_fails_the_read() {
    let config = Config::default();
    let (mut asks, mut answers) = (Twins::new(&config), fresh(&config));
    let op = ReqOp::Read { address: 0 };
    let request = Request {
        op,
        count: 1,
        len: 2000,
        token: 1,
    };
    asks.both(|conn| conn.submit(0, request))
        .expect("there is room");
    let mut read = asks.send(0).expect("the request");
    // Behind the address is how much is to be read.
    let length = read.headers - 4;
    assert_eq!(read.head[length..read.headers], 2000u32.to_le_bytes());
    read.head[length..read.headers].copy_from_slice(&6000u32.to_le_bytes());
    read.give(&mut answers, &mut Deeds::default(), 0);
    let packets = all(&mut answers);
    assert!(packets.len() > 3);
    asks.take(0, packets);
    assert_eq!(asks.together, 0);
    let result = loop {
        let event = asks.both(|conn| conn.poll_event()).expect("it is over");
        if let Event::Completed { result, .. } = event {
            break result;
        }
    };
    assert_eq!(result, Err(Code::MALFORMED_REPLY));
}

#[test]
fn run_that_tells_of_a_hole_is_taken_one_by_one() {
    let config = Config::default();
    let (mut hears, mut tells) = (Twins::new(&config), fresh(&config));
    let write = Request {
        op: ReqOp::Write { address: 0 },
        count: 1,
        len: 6000,
        token: 1,
    };
    hears
        .both(|conn| conn.submit(0, write))
        .expect("there is room");
    let sent: Vec<_> = std::iter::from_fn(|| hears.send(0)).collect();
    assert!(sent.len() > 3);
    for bytes in &sent[1..] {
        bytes.give(&mut tells, &mut Deeds::default(), 0);
    }
    tells.submit(0, write).expect("there is room");
    let packets = all(&mut tells);
    assert!(packets.len() > 3 && packets.iter().all(|bytes| bytes.data > 0));
    hears.take(MS, packets);
    assert_eq!(hears.together, 0);
    // What is lost is sent again, and then an acknowledgement is as in any run.
    let again = hears.send(MS).expect("the one that was lost");
    assert_eq!(again.head[4..8], sent[0].head[4..8]);
    again.give(&mut tells, &mut Deeds::default(), MS);
    tells.submit(MS, write).expect("there is room");
    let packets = all(&mut tells);
    let count = packets.len();
    hears.take(MS, packets);
    assert_eq!(hears.together, count);
}
