// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One end: a connection with its owner, and what must hold whatever its peer sends.

use crate::memory::{Delivery, Memory};
use crate::request::{content, data, Places, Submitted};
use crate::run::{Joined, RunDelivery};
use std::collections::HashSet;
use superp_proto::wire::{Malformed, PdlHeader, HEADERS_MAX};
use superp_proto::{
    Config, Connection, DropReason, Event, Heap, Packet, Payload, Received, State, SubmitError,
    Transmit,
};

/// Events other than completions that can be waiting: reports, and one each of the others.
const EVENTS_MAX: usize = 4 + 3;

pub(crate) struct End {
    pub(crate) conn: Connection<Heap>,
    pub(crate) memory: Memory,
    pub(crate) submitted: Vec<Submitted>,
    pub(crate) places: Places,
    pub(crate) broken: bool,
    pub(crate) drained: bool,
    /// Reads of the peer that were answered by data: their XIDs.
    pub(crate) answered: Vec<u16>,
    /// Why packets were reported.
    pub(crate) reports: Vec<DropReason>,
    held: Vec<Option<Vec<u8>>>,
    /// PSNs that were delivered or held.
    taken: HashSet<u32>,
    /// PSN delivered last.
    delivered: Option<u32>,
    /// Highest PSN sent.
    pub(crate) last_psn: u32,
    /// ACK PSN and ACK XID sent last.
    pub(crate) ack_psn: u32,
    pub(crate) ack_xid: u16,
    open: usize,
    /// Packets that were taken in runs.
    pub(crate) in_runs: usize,
    /// When the connection last did what was due.
    expired: Option<u64>,
}

fn parse(lite: bool, bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
    let head = &bytes[..bytes.len().min(HEADERS_MAX)];
    match lite {
        true => Packet::parse_lite(head, bytes.len()),
        false => Packet::parse(head, bytes.len()),
    }
}

impl End {
    pub(crate) fn new(config: &Config, now: u64) -> Self {
        let conn = Connection::new(config, now).expect("a legal configuration");
        Self {
            memory: Memory::new(),
            submitted: Vec::new(),
            places: Places::new(),
            broken: false,
            drained: false,
            answered: Vec::new(),
            reports: Vec::new(),
            held: vec![None; conn.psn_slots()],
            taken: HashSet::new(),
            delivered: None,
            last_psn: config.start_psn.wrapping_sub(1),
            ack_psn: config.start_psn.wrapping_sub(1),
            ack_xid: config.start_xid.wrapping_sub(1),
            open: 0,
            in_runs: 0,
            expired: None,
            conn,
        }
    }

    /// Submits a request if the connection takes it; whether it did.
    pub(crate) fn submit(&mut self, now: u64, mut submitted: Submitted) -> bool {
        submitted.request.token = self.submitted.len() as u64;
        let stopped = !matches!(self.conn.state(), State::Open);
        match self.conn.submit(now, submitted.request) {
            Ok(xid) => {
                assert!(!stopped);
                submitted.xid = xid;
                self.submitted.push(submitted);
                self.open += 1;
                let window = self.conn.config().tal_trans_window;
                assert!(self.conn.inflight_transactions() <= window);
                true
            }
            Err(SubmitError::Stopped) => {
                assert!(stopped);
                false
            }
            Err(_) => false,
        }
    }

    /// Requests that are not complete.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Gives packets that came together to the connection, those in runs as such; whether it took the content of any.
    pub(crate) fn receive_all(&mut self, now: u64, mut packets: &[Vec<u8>]) -> bool {
        let mut taken = false;
        while !packets.is_empty() {
            let count = match self.conn.config().lite {
                true => 1,
                false => Joined::count(packets),
            };
            let (joined, rest) = packets.split_at(count);
            if count > 1 && self.receive_run(now, joined) {
                taken = true;
            } else {
                for bytes in joined {
                    taken |= self.receive(now, bytes);
                }
            }
            packets = rest;
        }
        taken
    }

    /// Gives the packets of a run to the connection at once; whether it took them so.
    fn receive_run(&mut self, now: u64, packets: &[Vec<u8>]) -> bool {
        let joined = Joined::new(packets).expect("they are alike");
        let run = joined.run().expect("they continue one another");
        let running = matches!(self.conn.state(), State::Open | State::ShuttingDown);
        let before = self.conn.stats().rx_packets;
        let mut owner = RunDelivery::new(&mut self.memory, &mut self.submitted, packets);
        let received = self.conn.receive_run(now, &run, &mut owner);
        let came = self.conn.stats().rx_packets - before;
        let Some(received) = received else {
            assert!(owner.is_untouched(), "a run is refused, and taken");
            assert_eq!(came, 0);
            return false;
        };
        assert!(running && owner.is_placed());
        assert_eq!(came, packets.len() as u64);
        self.in_runs += packets.len();
        // At its end the request may fail.
        assert!(matches!(
            received,
            Received::Delivered | Received::Dropped(DropReason::TransactionFailed)
        ));
        for bytes in packets {
            let pdl = PdlHeader::parse(bytes.first_chunk().expect("it parsed before"));
            assert!(self.taken.insert(pdl.psn), "{pdl:?} delivered twice");
            self.deliver(&pdl);
        }
        // Packets that wait would be before these in a run.
        assert_eq!(self.conn.next_release(), None);
        true
    }

    /// Gives a packet to the connection, as its owner would; whether its content was taken.
    pub(crate) fn receive(&mut self, now: u64, bytes: &[u8]) -> bool {
        let lite = self.conn.config().lite;
        let Ok(packet) = parse(lite, bytes) else {
            return false;
        };
        let running = matches!(self.conn.state(), State::Open | State::ShuttingDown);
        let mut owner = Delivery::new(&mut self.memory, &mut self.submitted, &packet, bytes, lite);
        let psn = packet.pdl().psn;
        let would_hold = self.conn.would_hold(psn);
        let received = self.conn.receive(now, &packet, &mut owner);
        match received {
            Received::Delivered if lite => {}
            Received::Delivered => {
                assert!(self.taken.insert(psn), "PSN {psn} delivered twice");
                self.deliver(packet.pdl());
            }
            Received::Held { slot } => {
                assert!(!lite && self.conn.config().ordered_rx && would_hold);
                assert!(self.taken.insert(psn), "PSN {psn} held twice");
                assert_eq!(slot, psn as usize % self.held.len());
                let free = self.held[slot].replace(bytes.to_vec()).is_none();
                assert!(free, "slot {slot} is in use");
            }
            Received::Dropped(DropReason::NotRunning) => assert!(!running),
            Received::Duplicate | Received::AckOnly | Received::Dropped(_) => {}
        }
        assert!(running || received == Received::Dropped(DropReason::NotRunning));
        while let Some(slot) = self.conn.next_release() {
            let bytes = self.held[slot].take().expect("a packet is held there");
            let packet = parse(lite, &bytes).expect("it parsed before");
            let mut owner =
                Delivery::new(&mut self.memory, &mut self.submitted, &packet, &bytes, lite);
            let released = self.conn.release(now, &packet, &mut owner);
            assert!(matches!(
                released,
                Received::Delivered | Received::Dropped(_)
            ));
            self.deliver(packet.pdl());
        }
        matches!(received, Received::Delivered | Received::Held { .. })
    }

    /// Checks the order of what is delivered, and that it acknowledges only what was sent.
    fn deliver(&mut self, pdl: &PdlHeader) {
        let psn = pdl.psn;
        let acked = pdl.ack_psn.wrapping_sub(self.last_psn) as i32;
        assert!(acked <= 0 || pdl.is_nack(), "{pdl:?}: none of it was sent");
        if self.conn.config().ordered_rx {
            let ahead = |last: u32| psn.wrapping_sub(last) as i32 > 0;
            assert!(
                self.delivered.is_none_or(ahead),
                "PSN {psn} is out of order"
            );
        }
        self.delivered = Some(psn);
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self, now: u64) {
        self.conn.expire(now);
        self.expired = Some(now);
    }

    /// Fetches what there is to send, and the events.
    pub(crate) fn drain(&mut self, now: u64) -> Vec<Vec<u8>> {
        let config = self.conn.config();
        // Everything in the window once, new or again, and what takes no PSN.
        let window = match config.lite {
            true => config.tal_trans_window * config.tal_max_pkt_per_trans,
            false => config.pdl_window_size,
        };
        let most = 2 * window as usize + 8;
        let mut packets = Vec::new();
        // From one time to another, by one CPU or another.
        self.conn.set_lane((now >> 16) as u8);
        let mut transmit = Transmit::default();
        while self.conn.next_transmit(now, &mut transmit) {
            let first = transmit;
            packets.push(self.packet(&first));
            let count = self.conn.follow(now, &mut transmit, 5);
            for n in 1..count {
                packets.push(self.packet(&first.nth(n, &transmit)));
            }
            if count > 0 {
                packets.push(self.packet(&transmit));
            }
            assert!(packets.len() <= most, "there is no end of packets");
        }
        self.events();
        let over = self.conn.deadline().is_some_and(|at| at <= now);
        assert!(
            !over || self.expired != Some(now),
            "a deadline that is over, and nothing was done"
        );
        packets
    }

    /// Checks a packet that is to be sent; its bytes.
    fn packet(&mut self, transmit: &Transmit) -> Vec<u8> {
        let config = self.conn.config();
        let Transmit { pdl, tal, .. } = transmit;
        assert_eq!(transmit.lite, config.lite);
        if config.lite {
            let numbers = (transmit.psn, transmit.retransmit, *pdl);
            assert_eq!(numbers, (0, false, PdlHeader::default()));
        } else {
            self.check_numbers(transmit);
        }
        assert!(tal.ack_xid.wrapping_sub(self.ack_xid) as i16 >= 0);
        self.ack_xid = tal.ack_xid;
        self.bytes(transmit)
    }

    /// Checks the numbers of the Packet Delivery header.
    fn check_numbers(&mut self, transmit: &Transmit) {
        let config = self.conn.config();
        let Transmit { psn, pdl, .. } = transmit;
        let ahead = psn.wrapping_sub(self.last_psn) as i32;
        let base = self.conn.unacked_psn();
        let above = psn.wrapping_sub(base) as i32;
        if ahead == 1 {
            self.last_psn = *psn;
            assert!(!transmit.retransmit && (above as u32) < config.pdl_window_size);
        } else if transmit.retransmit {
            assert!(ahead <= 0 && above >= 0);
        } else {
            assert_eq!((above, transmit.payload), (-1, Payload::None));
        }
        assert!(self.conn.inflight_packets() <= config.pdl_window_size);
        assert_eq!(*psn, pdl.psn);
        let window = config.pdl_receive_win.min(config.pdl_window_size);
        assert!((1..=window).contains(&pdl.window));
        if !pdl.is_nack() {
            assert!(pdl.ack_psn.wrapping_sub(self.ack_psn) as i32 >= 0);
            self.ack_psn = pdl.ack_psn;
        }
    }

    /// Lays a packet out.
    fn bytes(&mut self, transmit: &Transmit) -> Vec<u8> {
        let Transmit { pdl, tal, .. } = transmit;
        let config = self.conn.config();
        let mut bytes = vec![0; HEADERS_MAX];
        let address = |index: u32| match &transmit.payload {
            Payload::Request(request) => {
                self.submitted[request.token as usize].addresses[index as usize]
            }
            payload => panic!("{payload:?} has no addresses"),
        };
        let len = self
            .conn
            .emit(transmit, &mut bytes, address)
            .expect("it fits");
        bytes.truncate(len);
        for index in 0..u32::from(tal.num_ops) {
            match &transmit.payload {
                Payload::Request(part) if part.has_data => {
                    let request = &self.submitted[part.token as usize].request;
                    let start = data(request, part.first_op + index, part.offset);
                    let end = start + part.len as usize;
                    assert!(end <= request.len as usize * usize::from(request.count));
                    bytes.extend((start..end).map(|at| content(part.token, at)));
                    bytes.resize(bytes.len() + usize::from(part.pad), 0);
                }
                Payload::Reply(reply) => {
                    let read = self.conn.reply_reads(reply).nth(index as usize);
                    let read = read.expect("one for each block");
                    let place = (reply.xid, read.seqno, read.opnum);
                    self.memory
                        .check_grant(place, reply.offset, read.address, reply.len);
                    let source = self.memory.get(read.address, reply.len as usize);
                    bytes.extend_from_slice(source.expect("what was granted"));
                    bytes.resize(bytes.len() + usize::from(reply.pad), 0);
                    self.answered.push(reply.xid);
                }
                _ => {}
            }
        }
        assert_eq!(bytes.len(), len + transmit.data_len());
        if config.lite {
            // As Ethernet does, where the SUNH header is before it.
            bytes.resize(bytes.len().max(46 - 8), 0);
        }
        assert!(bytes.len() <= config.mtu as usize);
        let parsed = parse(config.lite, &bytes).expect("it is well formed");
        assert_eq!((parsed.pdl(), parsed.tal()), (pdl, tal));
        bytes
    }

    pub(crate) fn events(&mut self) {
        let mut others = 0;
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Completed {
                    xid,
                    token,
                    result,
                    original,
                    failed_op,
                } => {
                    let count = u32::from(self.submitted[token as usize].request.count);
                    assert!(failed_op.is_none_or(|op| result.is_err() && count > 1 && op < count));
                    let submitted = &mut self.submitted[token as usize];
                    assert_eq!(submitted.xid, xid);
                    let before = submitted.result.replace(result);
                    assert!(before.is_none(), "{token} completed twice");
                    submitted.original = original;
                    self.open -= 1;
                    continue;
                }
                Event::Writable => {}
                Event::Report(report) => self.reports.push(report.reason),
                Event::Broken(_) => {
                    assert!(!self.broken);
                    self.broken = true;
                    assert_eq!(self.conn.state(), State::Broken);
                }
                Event::Drained => {
                    assert!(!self.drained);
                    self.drained = true;
                }
            }
            others += 1;
            assert!(others <= EVENTS_MAX, "there is no end of events");
        }
        assert!(self.conn.inflight_transactions() as usize <= self.open);
    }

    /// Packets that are held.
    pub(crate) fn held(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// Stops the connection: all of its requests complete, and nothing happens any more.
    pub(crate) fn stop(&mut self, now: u64) {
        self.conn.stop();
        self.events();
        assert_eq!(self.open, 0, "requests without completion");
        assert_eq!(self.conn.poll_transmit(now), None);
        assert_eq!(self.conn.deadline(), None);
        self.conn.expire(now);
        assert_eq!(self.conn.poll_event(), None);
    }
}
