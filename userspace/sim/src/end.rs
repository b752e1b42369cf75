// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One end of a connection, as its owner drives it.

use crate::invariant::{Check, Invariant};
use crate::memory::{Delivery, Memory};
use crate::sabotage::Sabotage;
use crate::timers::TimerWatch;
use crate::work::Work;
use superp_proto::wire::HEADERS_MAX;
use superp_proto::{
    BrokenCause, Config, Connection, DropReason, Event, Heap, Packet, Payload, Received, Report,
    Transmit,
};

/// One end of a connection.
pub(crate) struct End {
    /// Node that it is on.
    pub(crate) node: usize,
    /// Identifier of the connection at this end, and in its next life.
    pub(crate) cid: u16,
    pub(crate) next_cid: u16,
    /// Number of its life.
    pub(crate) life: usize,
    /// It has several lives, or will have: packets of another may come.
    pub(crate) renewed: bool,
    pub(crate) conn: Connection<Heap>,
    pub(crate) memory: Memory,
    pub(crate) work: Work,
    pub(crate) timers: TimerWatch,
    /// Last NULL is to be sent at the end, by both ends.
    pub(crate) shutdown: bool,
    pub(crate) drained: bool,
    pub(crate) broken: Option<BrokenCause>,
    /// Nothing on the way damages its packets, so that everything must come out right.
    pub(crate) trusted: bool,
    /// The peer or the way to it may die.
    pub(crate) mortal: bool,
    /// What chooses the path of an ordered connection.
    pub(crate) entropy: u64,
    pub(crate) armed: Option<u64>,
    /// When it does something for the first time, if nothing comes before.
    pub(crate) created_at: u64,
    pub(crate) resting_until: u64,
    pub(crate) sabotage: Sabotage,
    /// Packets in flight that both ends agreed on.
    pub(crate) window: u32,
    /// Greatest receive window that the peer has advertised; `None`: nothing has come yet.
    advertised: Option<u32>,
    next_psn: u32,
    held: Vec<Option<Vec<u8>>>,
    /// PSNs delivered, counted from the first.
    delivered: Vec<u64>,
    last_delivered: Option<u32>,
    received: u64,
    completions: u64,
}

impl End {
    pub(crate) fn new(node: usize, cid: u16, config: &Config, work: Work, entropy: u64) -> Self {
        let conn = Connection::new(config, 0).expect("a legal configuration");
        Self {
            node,
            cid,
            next_cid: cid,
            life: 0,
            renewed: false,
            held: vec![None; conn.psn_slots()],
            window: config.pdl_window_size,
            advertised: None,
            next_psn: config.start_psn,
            conn,
            memory: Memory::default(),
            work,
            timers: TimerWatch::default(),
            shutdown: false,
            drained: false,
            broken: None,
            trusted: true,
            mortal: false,
            entropy,
            armed: None,
            created_at: 0,
            resting_until: 0,
            sabotage: Sabotage::None,
            delivered: Vec::new(),
            last_delivered: None,
            received: 0,
            completions: 0,
        }
    }

    /// Begins its life number `life`; the connection was stopped.
    pub(crate) fn renew(&mut self, now: u64, config: &Config, life: usize) {
        self.conn = Connection::new(config, now).expect("a legal configuration");
        self.life = life;
        self.cid = self.next_cid;
        self.held = vec![None; self.conn.psn_slots()];
        self.advertised = None;
        self.next_psn = config.start_psn;
        self.delivered.clear();
        self.last_delivered = None;
        self.timers = TimerWatch::default();
        self.armed = None;
        self.memory.forget_unfinished();
    }

    /// Packets held above a hole.
    pub(crate) fn held(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// The bytes of a packet to send; `None`: what it carries cannot be fetched.
    pub(crate) fn packet(&self, transmit: &Transmit) -> Option<Vec<u8>> {
        let mut bytes = vec![0; HEADERS_MAX];
        let job = match &transmit.payload {
            Payload::Request(request) => Some(self.work.job(request.token)?),
            _ => None,
        };
        let address = |index: u32| {
            let place = job.and_then(|job| job.addresses.get(index as usize));
            place.copied().unwrap_or(0)
        };
        let headers = self.conn.emit(transmit, &mut bytes, address)?;
        bytes.truncate(headers);
        bytes.reserve(transmit.data_len());
        for index in 0..usize::from(transmit.tal.num_ops) {
            let (data, pad) = match &transmit.payload {
                Payload::Request(request) if request.has_data => {
                    let op = request.first_op as usize + index;
                    let start = op * request.len as usize + request.offset as usize;
                    let range = start..start + request.len as usize;
                    (job?.data.get(range)?, request.pad)
                }
                Payload::Reply(reply) => {
                    let address = self.conn.reply_reads(reply).nth(index)?.address;
                    (self.memory.at(address, reply.len as usize)?.0, reply.pad)
                }
                _ => continue,
            };
            bytes.extend_from_slice(data);
            bytes.resize(bytes.len() + usize::from(pad), 0);
        }
        let whole = bytes.len() == headers + transmit.data_len();
        (whole && bytes.len() <= self.conn.config().mtu as usize).then_some(bytes)
    }

    /// Judges a packet that the connection wants sent, before it is.
    pub(crate) fn sending(&mut self, transmit: &Transmit) -> Check {
        self.timers.packet();
        if transmit.tal.ask && self.conn.ext() != Some(true) {
            let text = format!("PSN {} asks a peer without extensions", transmit.psn);
            return Err((Invariant::Contract, text));
        }
        let ahead = transmit.psn.wrapping_sub(self.next_psn) as i32;
        if ahead < 0 {
            return Ok(());
        }
        self.next_psn = transmit.psn.wrapping_add(1);
        let inflight = self.conn.inflight_packets();
        // One packet may always be in flight.
        let over = |window| self.trusted && inflight > window;
        let beyond = self.advertised.is_some_and(over);
        let (data, most) = (
            self.conn.inflight_data(),
            self.conn.congestion_window().unwrap_or(u32::MAX),
        );
        if transmit.payload != Payload::None && data > most {
            let text = format!("{data} packets in a congestion window of {most}");
            return Err((Invariant::Window, text));
        }
        if ahead > 0 || transmit.retransmit || beyond {
            let text = format!(
                "new PSN {} with {inflight} packets in flight, {:?} advertised, {ahead} skipped",
                transmit.psn, self.advertised
            );
            return Err((Invariant::Window, text));
        }
        Ok(())
    }

    /// Takes a packet from the network.
    pub(crate) fn take(&mut self, now: u64, mut bytes: Vec<u8>) -> Check {
        self.received += 1;
        self.timers.packet();
        if self.sabotage == Sabotage::ForgeAck && self.received % 5 == 0 {
            bytes[11] ^= 0x40;
        }
        let Ok(packet) = Packet::parse(&bytes, bytes.len()) else {
            return match self.trusted {
                true => Err((Invariant::Contract, "malformed packet".to_owned())),
                false => Ok(()),
            };
        };
        let psn = packet.pdl().psn;
        self.advertised = self.advertised.max(Some(packet.pdl().window));
        let mut owner = Delivery {
            memory: &mut self.memory,
            packet: &bytes,
        };
        match self.conn.receive(now, &packet, &mut owner) {
            Received::Held { slot } => {
                if self.held[slot].replace(bytes).is_some() {
                    return Err((Invariant::Contract, format!("slot {slot} is in use")));
                }
            }
            Received::Delivered => self.delivered(psn)?,
            _ => {}
        }
        self.release(now)
    }

    fn release(&mut self, now: u64) -> Check {
        while let Some(mut slot) = self.conn.next_release() {
            if self.sabotage == Sabotage::WrongRelease {
                let last = self.held.iter().rposition(Option::is_some);
                slot = last.unwrap_or(slot);
            }
            let Some(bytes) = self.held[slot].take() else {
                let text = format!("release of slot {slot}, which is empty");
                return Err((Invariant::Contract, text));
            };
            let Ok(packet) = Packet::parse(&bytes, bytes.len()) else {
                continue;
            };
            let mut owner = Delivery {
                memory: &mut self.memory,
                packet: &bytes,
            };
            self.conn.release(now, &packet, &mut owner);
            self.delivered(packet.pdl().psn)?;
        }
        Ok(())
    }

    /// Notes that a packet went to the transaction layer.
    fn delivered(&mut self, psn: u32) -> Check {
        if !self.trusted {
            return Ok(());
        }
        let ordered = self.conn.config().ordered_rx;
        if let Some(last) = self.last_delivered.replace(psn).filter(|_| ordered) {
            if (psn.wrapping_sub(last) as i32) <= 0 {
                let text = format!("PSN {psn} delivered after {last}");
                return Err((Invariant::Order, text));
            }
            if let Some(xid) = self.memory.out_of_order {
                let text = format!("transaction {xid} completed below an earlier one");
                return Err((Invariant::Order, text));
            }
        }
        let at = psn.wrapping_sub(self.conn.config().start_psn) as usize;
        let (word, bit) = (at / 64, 1 << (at % 64));
        if word >= 1 << 20 {
            return Err((Invariant::Window, format!("PSN {psn} is far away")));
        }
        if self.delivered.len() <= word {
            self.delivered.resize(word + 1, 0);
        }
        if self.delivered[word] & bit != 0 {
            let text = format!("PSN {psn} delivered twice");
            return Err((Invariant::ExactlyOnce, text));
        }
        self.delivered[word] |= bit;
        Ok(())
    }

    /// Fetches what there is to know.
    pub(crate) fn events(&mut self, now: u64, peer: &mut Memory) -> Check {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Completed {
                    xid,
                    token,
                    result,
                    original,
                    ..
                } => {
                    self.completions += 1;
                    let fifth = self.completions % 5 == 0;
                    let times = match self.sabotage {
                        Sabotage::LoseCompletion if fifth => 0,
                        Sabotage::RepeatCompletion if fifth => 2,
                        _ => 1,
                    };
                    let told = (xid, token, result, original);
                    let (trusted, here) = (self.trusted, &mut self.memory);
                    for _ in 0..times {
                        self.work.completed(now, told, trusted, here, peer)?;
                    }
                }
                Event::Report(report) => self.report(report)?,
                Event::Broken(cause) => {
                    if self.trusted && !self.mortal {
                        return Err((Invariant::Peer, format!("{cause:?} of a live peer")));
                    }
                    self.broken = Some(cause);
                }
                Event::Drained if self.drained => {
                    let text = "drained twice".to_owned();
                    return Err((Invariant::Completion, text));
                }
                Event::Drained => self.drained = true,
                Event::Writable => {}
            }
        }
        Ok(())
    }

    fn report(&self, report: Report) -> Check {
        // What was under way when an error became known may come when the error is forgotten.
        let late = report.reason == DropReason::XidOutOfWindow;
        // What belongs to another life must be nothing of this one.
        let ghost = matches!(
            report.reason,
            DropReason::OutOfWindow | DropReason::AckOutOfWindow
        );
        if !self.trusted || late || (self.renewed && ghost) {
            return Ok(());
        }
        Err((Invariant::Peer, format!("{report:?}")))
    }
}
