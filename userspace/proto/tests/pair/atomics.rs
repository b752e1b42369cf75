// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Atomics are carried out once, whatever the path does [proto 7].

use crate::link::LinkConfig;
use crate::node::{BASE, MEMORY};
use crate::pair::{Cpu, Pair, A, B};
use crate::rng::Rng;
use crate::{seeds, MS, SECOND, US};
use std::collections::HashMap;
use superp_proto::wire::{AtomicOp, AtomicResponseOp, Opcode, PdlHeader, TalHeader};
use superp_proto::{
    AtomicKind, Barrier, Code, Config, DropReason, Payload, Received, ReqOp, Request, SubmitError,
};

fn ext() -> Config {
    Config {
        ext: true.into(),
        ..Config::default()
    }
}

fn request(op: ReqOp) -> Request {
    Request {
        op,
        count: 1,
        len: 0,
        token: 0,
    }
}

fn atomic(address: u64, kind: AtomicKind, operand: u64, compare: u64) -> ReqOp {
    ReqOp::Atomic {
        address,
        kind,
        operand,
        compare,
    }
}

fn add(address: u64, operand: u64) -> ReqOp {
    atomic(address, AtomicKind::FetchAdd, operand, 0)
}

fn memory(pair: &Pair, end: usize, address: u64) -> u64 {
    let memory = &pair.ends[end].memory;
    let bytes = &memory.bytes[memory.range(address, 8).unwrap()];
    u64::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn each_kind_does_what_it_says_and_brings_the_original() {
    let mut pair = Pair::clean(&ext());
    let first = memory(&pair, B, BASE + 8);
    let steps = [
        (AtomicKind::Swap, 5, 99, first, 5),
        (AtomicKind::FetchAdd, 7, 99, 5, 12),
        (AtomicKind::CompareSwap, 100, 13, 12, 12),
        (AtomicKind::CompareSwap, u64::MAX, 12, 12, u64::MAX),
        (AtomicKind::FetchAdd, 3, 0, u64::MAX, 2),
    ];
    let neighbours = [memory(&pair, B, BASE), memory(&pair, B, BASE + 16)];
    for (kind, operand, compare, original, after) in steps {
        let token = pair.submit(A, atomic(BASE + 8, kind, operand, compare), Vec::new());
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
        assert_eq!(pair.ends[A].originals[&token], original);
        assert_eq!(memory(&pair, B, BASE + 8), after);
        assert_eq!(kind.apply(original, operand, compare), after);
    }
    assert_eq!(
        neighbours,
        [memory(&pair, B, BASE), memory(&pair, B, BASE + 16)]
    );
    // Others bring none.
    let token = pair.submit(A, ReqOp::Noop, Vec::new());
    pair.settle();
    assert_eq!(pair.ends[A].originals.get(&token), None);
    assert_eq!(pair.retransmits(), 0);
}

#[test]
fn lost_response_is_sent_again_with_the_value_of_the_one_execution() {
    let mut pair = Pair::clean(&ext());
    pair.trace = true;
    let original = memory(&pair, B, BASE);
    let mut number = 0;
    pair.filter = Some(Box::new(move |_, from, transmit| {
        let response = matches!(transmit.payload, Payload::AtomicResponse(_));
        number += u32::from(from == B && response);
        from == B && response && number <= 3
    }));
    let token = pair.submit(A, add(BASE, 1), Vec::new());
    pair.settle();
    assert_eq!(pair.ends[A].originals[&token], original);
    assert_eq!(memory(&pair, B, BASE), original.wrapping_add(1));
    assert_eq!(pair.ends[B].memory.atomics.len(), 1);
    let responses = pair.log.iter().filter_map(|entry| match entry.2.payload {
        Payload::AtomicResponse(op) => Some(op.original),
        _ => None,
    });
    assert_eq!(responses.collect::<Vec<_>>(), [original; 4]);
}

#[test]
fn ack_xid_waits_until_the_response_is_acknowledged() {
    let mut pair = Pair::clean(&ext());
    pair.filter = Some(Box::new(|now, from, transmit| {
        from == B && now < 30 * MS && matches!(transmit.payload, Payload::AtomicResponse(_))
    }));
    let token = pair.submit(A, add(BASE, 1), Vec::new());
    let after = pair.submit(A, ReqOp::Noop, Vec::new());
    let limit = 20 * MS;
    pair.drive(A);
    while pair.step(limit) {}
    assert!(!pair.ends[A].completed.contains_key(&token));
    assert!(!pair.ends[A].completed.contains_key(&after));
    assert_eq!(pair.ends[B].memory.atomics.len(), 1);
    pair.settle();
    assert!(pair.ends[A].originals.contains_key(&token));
    assert_eq!(pair.ends[A].completed[&after], Ok(()));
}

#[test]
fn ack_xid_alone_does_not_complete_an_atomic() {
    let mut pair = Pair::clean(&ext());
    let token = pair.submit(A, add(BASE, 1), Vec::new());
    pair.drive(A);
    let pdl = PdlHeader {
        window: 32,
        ..PdlHeader::default()
    };
    let bytes = [&pdl.bytes()[..], &TalHeader::default().bytes()].concat();
    assert_eq!(pair.ends[A].take(0, &bytes), Some(Received::AckOnly));
    pair.drive(A);
    assert_eq!(pair.ends[A].conn.unacked_psn(), 1);
    assert_eq!(pair.ends[A].completed.get(&token), None);
}

/// Gives `to` a packet as a peer could make it, with the same number for its PSN and its XID.
fn inject(pair: &mut Pair, to: usize, opcode: Opcode, xid: u16, rest: &[u8]) -> Option<Received> {
    let pdl = PdlHeader {
        psn: xid.into(),
        ack_psn: u32::MAX,
        window: 32,
        ..PdlHeader::default()
    };
    let tal = TalHeader {
        ext: false,
        ask: false,
        eom: true,
        num_ops: 1,
        opcode: opcode as u8,
        seqno: 0,
        xid,
        ack_xid: u16::MAX,
    };
    let bytes = [&pdl.bytes()[..], &tal.bytes(), rest].concat();
    let now = pair.now;
    let received = pair.ends[to].take(now, &bytes);
    pair.drive(to);
    received
}

#[test]
fn unknown_kinds_and_addresses_that_are_not_aligned_are_refused_by_name() {
    let mut pair = Pair::clean(&ext());
    pair.trace = true;
    let refused = Some(Received::Dropped(DropReason::TransactionFailed));
    for (xid, kind) in (0u16..).zip([0, 4, 5, 255]) {
        let op = AtomicOp {
            address: BASE,
            kind,
            operand: 1,
            compare: 0,
        };
        let received = inject(&mut pair, B, Opcode::Atomic, xid, &op.bytes());
        assert_eq!(received, refused);
    }
    let errors = pair.log.iter().filter_map(|entry| match entry.2.payload {
        Payload::Error(op) => Some((op.major, op.minor)),
        _ => None,
    });
    assert_eq!(errors.collect::<Vec<_>>(), [(1, 4); 4]);

    let mut pair = Pair::clean(&ext());
    for offset in 1..8 {
        let token = pair.submit(A, add(BASE + offset, 1), Vec::new());
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Err(Code::MALFORMED_ATOMIC));
    }
    for (address, code) in [(BASE + MEMORY, Code::ACCESS_BOUNDS), (8, Code::ACCESS_KEY)] {
        let token = pair.submit(A, add(address, 1), Vec::new());
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Err(code));
        assert_eq!(pair.ends[A].originals.get(&token), None);
    }
    assert_eq!(pair.ends[B].memory.atomics, []);
}

#[test]
fn atomics_are_refused_by_name_where_the_extension_is_off() {
    let mut pair = Pair::clean(&Config::default());
    let refused = pair.try_submit(A, request(add(BASE, 1)), Vec::new(), Vec::new());
    assert_eq!(refused, Err(SubmitError::NeedsExt));

    let mut pair = Pair::new([ext(), Config::default()], LinkConfig::default(), 0);
    let token = pair.submit(A, add(BASE, 1), Vec::new());
    pair.settle();
    let result = pair.ends[A].completed[&token];
    assert_eq!(result, Err(Code::EXTENSION_NOT_ENABLED));
    assert_eq!(pair.ends[B].memory.atomics, []);
}

#[test]
fn atomic_is_one_operation_without_a_length() {
    let mut pair = Pair::clean(&ext());
    let op = add(BASE, 1);
    assert_eq!(pair.ends[A].conn.max_request_len(&op), 0);
    let mut refused = |count, len| {
        let request = Request {
            count,
            len,
            ..request(op)
        };
        pair.try_submit(A, request, Vec::new(), Vec::new())
    };
    assert_eq!(refused(2, 0), Err(SubmitError::BadCount { max: 1 }));
    assert_eq!(refused(1, 8), Err(SubmitError::TooLong { max: 0 }));
}

#[test]
fn write_barrier_holds_atomics_back() {
    let mut pair = Pair::clean(&ext());
    pair.submit(A, ReqOp::Write { address: BASE }, vec![1; 64]);
    pair.ends[A].conn.barrier(Barrier::Writes);
    let held = pair.try_submit(A, request(add(BASE, 1)), Vec::new(), Vec::new());
    assert_eq!(held, Err(SubmitError::WindowFull));
    pair.settle();
    pair.submit(A, add(BASE, 1), Vec::new());
    pair.settle();
    assert_eq!(memory(&pair, B, BASE), 0x0101_0101_0101_0102);
}

#[test]
fn response_that_does_not_match_is_refused() {
    let response = |seqno, opnum| AtomicResponseOp {
        seqno,
        opnum,
        original: 7,
    };
    for (op, result) in [
        (response(0, 1), Err(Code::MALFORMED_REPLY)),
        (response(1, 0), Err(Code::MALFORMED_REPLY)),
        (response(0, 0), Ok(())),
    ] {
        let mut pair = Pair::clean(&ext());
        let noop = pair.submit(A, ReqOp::Noop, Vec::new());
        let token = pair.submit(A, add(BASE, 1), Vec::new());
        pair.drive(A);
        for xid in [0, 1] {
            let received = inject(&mut pair, A, Opcode::AtomicResponse, xid, &op.bytes());
            // The first transaction asked for none.
            let mismatch = xid == 0 || result.is_err();
            let dropped = Received::Dropped(DropReason::ReplyMismatch);
            assert_eq!(received == Some(dropped), mismatch, "{received:?}");
        }
        assert_eq!(pair.ends[A].completed.get(&token), Some(&result));
        assert_eq!(pair.ends[A].completed.get(&noop), None);
    }
}

/// Two ends that add to, swap and compare the same few words of each other, over a bad link.
fn schedule(seed: u64) {
    let mut rng = Rng::new(seed);
    let ordered = rng.chance(500);
    let config = Config {
        ordered_tx: ordered,
        ordered_rx: ordered,
        start_psn: rng.pick(&[0, u32::MAX - 5]),
        start_xid: rng.pick(&[0, u16::MAX - 3]),
        pdl_window_size: rng.pick(&[16, 64]),
        pdl_ack_every: rng.pick(&[1, 8]),
        pdl_dead_time: 60 * SECOND,
        tal_trans_window: rng.pick(&[1, 3, 32]),
        ..ext()
    };
    let link = LinkConfig {
        delay: rng.pick(&[0, 50 * US]),
        jitter: rng.pick(&[0, 100 * US, 5 * MS]),
        loss: rng.pick(&[0, 50, 300]),
        duplicate: rng.pick(&[100, 500]),
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([config.clone(), config], link, rng.next());
    for end in &mut pair.ends {
        end.cpu = Cpu {
            cost: rng.pick(&[0, US]),
            batch: rng.pick(&[1, 16]),
        };
    }
    let words = 3;
    let before: Vec<u64> = (0..2 * words)
        .map(|i| memory(&pair, (i / words) as usize, BASE + 8 * (i % words)))
        .collect();
    let mut requests = [HashMap::new(), HashMap::new()];
    let mut left = [20u64, 20];
    while left != [0, 0] || !pair.all_complete() {
        for end in [A, B] {
            while left[end] > 0 && !rng.chance(200) {
                // The operand is another for each, so that what was carried out can be recognised.
                let operand = left[end] << 32 | 1;
                let kind = rng.pick(&[
                    AtomicKind::FetchAdd,
                    AtomicKind::CompareSwap,
                    AtomicKind::Swap,
                ]);
                let address = BASE + 8 * rng.below(words);
                let op = atomic(
                    address,
                    kind,
                    operand,
                    before[rng.below(2 * words) as usize],
                );
                match pair.try_submit(end, request(op), Vec::new(), Vec::new()) {
                    Ok(token) => requests[end].insert(operand, (token, op)),
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => panic!("{error:?}"),
                };
                left[end] -= 1;
            }
            pair.drive(end);
        }
        // An end that submits nothing now does so in another turn.
        let stuck = !pair.step(u64::MAX) && left == [0, 0] && !pair.all_complete();
        assert!(!stuck, "{}", pair.describe());
    }
    pair.settle();
    for (end, peer) in [(A, B), (B, A)] {
        let memory_of = &pair.ends[peer].memory;
        assert_eq!(memory_of.atomics.len(), requests[end].len());
        let mut values: Vec<u64> = (0..words)
            .map(|i| before[peer * words as usize + i as usize])
            .collect();
        for (done, original) in &memory_of.atomics {
            let (token, op) = requests[end].remove(&done.operand).expect("once");
            let same = atomic(done.address, done.kind, done.operand, done.compare);
            assert_eq!(op, same);
            let value = &mut values[(done.address - BASE) as usize / 8];
            assert_eq!(*value, *original);
            *value = done.kind.apply(*value, done.operand, done.compare);
            assert_eq!(pair.ends[end].completed[&token], Ok(()));
            assert_eq!(pair.ends[end].originals[&token], *original);
        }
        for (i, value) in (0..).zip(values) {
            assert_eq!(memory(&pair, peer, BASE + 8 * i), value);
        }
        assert_eq!(pair.ends[end].reports, []);
    }
}

#[test]
fn every_schedule_carries_out_each_atomic_once() {
    seeds(3000, schedule);
}
