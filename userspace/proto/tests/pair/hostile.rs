// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A peer that sends anything at all.
//!
//! Overflow checks are on in tests, so that surviving is proof of arithmetic too.

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{End, Pair, A, B};
use crate::rng::Rng;
use crate::work::Work;
use crate::{seeds, MS, US};
use superp_proto::wire::{PdlHeader, TalHeader, HEADERS_MAX};
use superp_proto::{Code, Config, Extensions, Payload};

const OPCODES: [u8; 14] = [0, 0, 1, 2, 8, 9, 10, 11, 12, 0xc0, 0xc1, 0xc2, 0xc3, 77];

fn config(rng: &mut Rng) -> Config {
    Config {
        mtu: rng.pick(&[128, 568, 1484]),
        ordered_tx: rng.chance(500),
        ordered_rx: rng.chance(500),
        ext: rng.chance(700).into(),
        start_psn: rng.pick(&[0, u32::MAX - 3]),
        start_xid: rng.pick(&[0, u16::MAX - 3]),
        pdl_window_size: rng.pick(&[16, 33, 1024]),
        tal_trans_window: rng.pick(&[1, 8, 32]),
        tal_max_pkt_per_trans: rng.pick(&[1, 5, 32]),
        tal_max_ops_per_pkt: rng.pick(&[1, 8, 15]),
        tal_transaction_timeout: rng.pick(&[0, 50 * MS]),
        ..Config::default()
    }
}

/// A number at, near or far from one that means something.
fn near(rng: &mut Rng, value: u64) -> u64 {
    match rng.below(8) {
        0 => rng.next(),
        1 => value.wrapping_sub(rng.below(40)),
        2 => value.wrapping_add(rng.below(1100)),
        3 => value.wrapping_add(1 << rng.below(33)),
        _ => value.wrapping_add(rng.below(4)),
    }
}

/// A packet that is mostly well-formed and mostly close to what `end` expects.
fn packet(rng: &mut Rng, last: &PdlHeader, tal: &TalHeader, sent: &PdlHeader) -> Vec<u8> {
    let pdl = PdlHeader {
        dcid: 0,
        window: rng.pick(&[1, 2, 32, 65_536]),
        psn: near(rng, last.psn.into()) as u32,
        ack_psn: near(rng, sent.psn.into()) as u32,
        sack: rng.pick(&[0, 0, 0x0000_ff00, 1, u32::MAX]) & rng.next() as u32,
    };
    let opcode = rng.pick(&OPCODES);
    let num_ops = match opcode {
        0 | 1 => u8::from(rng.chance(10)),
        2 => 1,
        _ => rng.pick(&[1, 1, 1, 2, 8, 15, 0]),
    };
    let tal = TalHeader {
        ext: false,
        ask: false,
        eom: rng.chance(500),
        num_ops,
        opcode,
        seqno: rng.pick(&[0, 0, 1, 2, 5, 31, 32, 4095, u16::MAX]),
        xid: near(rng, tal.xid.into()) as u16,
        ack_xid: near(rng, tal.ack_xid.into()) as u16,
    };
    let mut bytes = pdl.bytes().to_vec();
    bytes.extend(tal.bytes());
    let header = match opcode {
        8 => 12,
        12 => 4,
        0xc0..=0xc3 => 16,
        0 | 1 => 0,
        _ => 8,
    };
    for _ in 0..num_ops {
        let address = near(rng, BASE).to_le_bytes();
        let mut op: Vec<u8> = (0..header)
            .map(|_| rng.pick(&[0, 0, 0, 1, 16, 0xff]))
            .collect();
        if matches!(opcode, 8 | 9 | 0xc0 | 0xc2) && rng.chance(900) {
            op[..8].copy_from_slice(&address);
        }
        bytes.extend(op);
    }
    let block = rng.pick(&[0, 16, 16, 17, 64, 15]);
    bytes.resize(bytes.len() + block * usize::from(num_ops), 7);
    if rng.chance(20) {
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

/// Everything that was submitted is told once, whatever the peer did.
fn finish(pair: &mut Pair, end: usize) {
    pair.ends[end].conn.stop();
    pair.drive(end);
    let End {
        completed,
        submitted,
        conn,
        ..
    } = &pair.ends[end];
    assert_eq!(completed.len(), submitted.len());
    assert!(conn.idle());
    assert_eq!(conn.deadline(), None);
}

fn survive(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = config(&mut rng);
    let mut pair = Pair::new(
        [config.clone(), config.clone()],
        LinkConfig::default(),
        seed,
    );
    let mut work = Work::new(
        A,
        Rng::new(rng.next()),
        1000,
        config.ext == Extensions::On,
        0,
    );
    let mut expected = PdlHeader {
        psn: config.start_psn,
        ..PdlHeader::default()
    };
    let mut tal = TalHeader {
        xid: config.start_xid,
        ack_xid: config.start_xid.wrapping_sub(1),
        ..TalHeader::default()
    };
    let mut sent = PdlHeader {
        psn: config.start_psn.wrapping_sub(1),
        ..PdlHeader::default()
    };
    for _ in 0..400 {
        if rng.chance(300) && pair.ends[A].broken.is_none() {
            work.submit(&mut pair);
        }
        if rng.chance(100) {
            pair.now += rng.below(100 * MS);
        }
        for _ in 0..rng.below(4) {
            let bytes = packet(&mut rng, &expected, &tal, &sent);
            let now = pair.now;
            pair.ends[A].take(now, &bytes);
        }
        pair.now += rng.below(200 * US);
        let now = pair.now;
        pair.ends[A].conn.expire(now);
        let mut packets = 0;
        while let Some(transmit) = pair.ends[A].conn.poll_transmit(pair.now) {
            if matches!(transmit.payload, Payload::Reply(_)) && rng.chance(50) {
                pair.ends[A]
                    .conn
                    .refuse_reply(transmit.tal.xid, Code::ACCESS);
            }
            let mut out = [0; HEADERS_MAX];
            assert!(pair.ends[A].conn.emit(&transmit, &mut out, |_| 0).is_some());
            assert!(transmit.data_len() <= config.mtu as usize);
            if !transmit.retransmit {
                sent.psn = transmit.psn;
            }
            expected.psn = transmit.pdl.ack_psn.wrapping_add(1);
            // XIDs of the peer and of this end are close to each other here.
            tal.xid = rng.pick(&[transmit.tal.xid, transmit.tal.ack_xid.wrapping_add(1)]);
            packets += 1;
            assert!(packets < 5000, "transmits for ever");
        }
        pair.drive(A);
    }
    finish(&mut pair, A);
}

#[test]
fn connection_survives_any_packets() {
    seeds(400, survive);
}

fn corrupted(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = Config {
        ordered_tx: true,
        ordered_rx: true,
        ..config(&mut rng)
    };
    let link = LinkConfig {
        delay: 20 * US,
        loss: 20,
        duplicate: 20,
        corrupt: 100,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([config.clone(), config.clone()], link, seed);
    let mut work =
        [A, B].map(|end| Work::new(end, Rng::new(seed), 40, config.ext == Extensions::On, 0));
    for _ in 0..2000 {
        for (end, work) in [A, B].into_iter().zip(&mut work) {
            if pair.ends[end].broken.is_none() {
                work.submit(&mut pair);
            }
            pair.drive(end);
        }
        let until = pair.now + 10 * MS;
        pair.step(until);
    }
    finish(&mut pair, A);
    finish(&mut pair, B);
}

#[test]
fn corrupted_packets_do_no_harm_beyond_their_connection() {
    seeds(60, corrupted);
}
