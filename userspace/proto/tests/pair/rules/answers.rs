// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When a target answers, and which answers an initiator takes.

use super::*;
use crate::node::{BAD_QP, DRY_QP};
use crate::pair::{A, B};
use crate::SECOND;
use superp_proto::{Code, DropReason, Payload, Request, SubmitError, Transmit};

/// Header and block of a Read response of 16 bytes.
fn response(offset: u32) -> Vec<u8> {
    let mut op = vec![0; 4];
    op.extend(offset.to_le_bytes());
    op.extend([0x66; 16]);
    op
}

fn unordered() -> Config {
    Config {
        ordered_tx: false,
        ordered_rx: false,
        ..Config::default()
    }
}

fn reason(pair: &mut Pair, end: usize) -> Option<DropReason> {
    pair.ends[end].reports.pop().map(|report| report.reason)
}

#[test]
fn request_is_answered_only_when_all_of_its_packets_are_there() {
    let mut pair = Pair::clean(&unordered());
    pair.trace = true;
    let mut read = BASE.to_le_bytes().to_vec();
    read.extend(16u32.to_le_bytes());
    let none = u32::MAX;
    for (psn, seqno) in [(0, 0), (1, 2)] {
        let header = tal(Opcode::Read, seqno == 2, 1, seqno, 0);
        inject(&mut pair, B, pdl(psn, none), header, &read);
    }
    let replies = |pair: &Pair| {
        let reply = |e: &&(u64, usize, superp_proto::Transmit)| {
            e.2.tal.opcode == Opcode::ReadResponse as u8
        };
        pair.log.iter().filter(reply).count()
    };
    assert_eq!(replies(&pair), 0);
    inject(
        &mut pair,
        B,
        pdl(2, none),
        tal(Opcode::Read, false, 1, 1, 0),
        &read,
    );
    assert_eq!(replies(&pair), 1);
}

/// What a target answers to one packet with reads of these lengths: reads and bytes of each, by packet.
fn replies_to(lengths: &[u32]) -> Vec<(u8, u32)> {
    let mut pair = Pair::clean(&unordered());
    pair.trace = true;
    let mut reads = Vec::new();
    for length in lengths {
        reads.extend(BASE.to_le_bytes());
        reads.extend(length.to_le_bytes());
    }
    let header = tal(Opcode::Read, true, lengths.len() as u8, 0, 0);
    inject(&mut pair, B, pdl(0, u32::MAX), header, &reads);
    let reply = |(_, _, transmit): &(u64, usize, Transmit)| match &transmit.payload {
        Payload::Reply(reply) => Some((transmit.tal.num_ops, reply.len)),
        _ => None,
    };
    pair.log.iter().filter_map(reply).collect()
}

#[test]
fn reads_that_share_a_reply_are_whole_and_of_one_length() {
    let one = |len| (1, len);
    assert_eq!(replies_to(&[100, 16, 16]), [one(100), (2, 16)]);
    // Not even with what is left of a longer one.
    let whole = replies_to(&[10_000])[0].1;
    let replies = replies_to(&[2 * whole + 100, 100, 100]);
    assert_eq!(replies, [one(whole), one(whole), one(100), (2, 100)]);
    // As many as a packet holds: its headers, and for each 8 bytes and its data.
    let room = Config::default().mtu - 24;
    let fit = room / (8 + 400);
    assert!((2..8).contains(&fit));
    let replies = replies_to(&[400; 8]);
    assert_eq!(replies[0], (fit as u8, 400));
    assert_eq!(replies.iter().map(|reply| reply.0).sum::<u8>(), 8);
}

#[test]
fn blocks_of_different_packets_may_differ_in_length() {
    let mut pair = Pair::clean(&unordered());
    for (seqno, len) in [(0u16, 40), (1, 16), (2, 100)] {
        let mut op = (BASE + 1000 * u64::from(seqno)).to_le_bytes().to_vec();
        op.extend(vec![seqno as u8 + 1; len]);
        let header = tal(Opcode::Write, seqno == 2, 1, seqno, 0);
        let received = inject(&mut pair, B, pdl(seqno.into(), u32::MAX), header, &op);
        assert_eq!(received, Received::Delivered);
        let start = 1000 * usize::from(seqno);
        let memory = &pair.ends[B].memory;
        assert_eq!(memory.bytes[start..start + len], vec![seqno as u8 + 1; len]);
        assert_eq!(memory.placed[start + len], 0);
        assert_eq!(memory.completed.len(), usize::from(seqno == 2));
    }
}

#[test]
fn ack_xid_moves_over_what_is_retired_without_a_gap() {
    let mut pair = Pair::clean(&unordered());
    pair.trace = true;
    let steps = [(2, u16::MAX), (1, u16::MAX), (0, 2), (4, 2), (3, 4)];
    for (psn, (xid, expected)) in (0..).zip(steps) {
        inject(
            &mut pair,
            B,
            pdl(psn, u32::MAX),
            tal(Opcode::Noop, true, 0, 0, xid),
            &[],
        );
        assert_eq!(pair.log.last().unwrap().2.tal.ack_xid, expected);
    }
}

#[test]
fn wrong_seqnos_of_a_reply_are_dropped_and_reported() {
    let mut pair = Pair::clean(&unordered());
    let token = pair.read(A, BASE, 64);
    pair.drive(A);
    let mut psn = 0;
    let mut answer = |pair: &mut Pair, seqno: u16, eom: bool, offset: u32| {
        let header = tal(Opcode::ReadResponse, eom, 1, seqno, 0);
        let received = inject(pair, A, pdl(psn, u32::MAX), header, &response(offset));
        psn += 1;
        let expected = reason(pair, A).map_or(Received::Delivered, Received::Dropped);
        assert_eq!(received, expected);
        received
    };
    let dropped = Received::Dropped;
    assert_eq!(answer(&mut pair, 3, true, 48), Received::Delivered);
    assert_eq!(
        answer(&mut pair, 2, true, 32),
        dropped(DropReason::EomDuplicate)
    );
    assert_eq!(answer(&mut pair, 0, false, 0), Received::Delivered);
    assert_eq!(
        answer(&mut pair, 0, false, 0),
        dropped(DropReason::SeqnoDuplicate)
    );
    assert_eq!(
        answer(&mut pair, 4, false, 32),
        dropped(DropReason::SeqnoBeyondEom)
    );
    assert_eq!(answer(&mut pair, 1, false, 16), Received::Delivered);
    assert!(!pair.ends[A].completed.contains_key(&token));
    assert_eq!(answer(&mut pair, 2, false, 32), Received::Delivered);
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
    assert!(!pair.ends[A].memory.read_twice);
}

#[test]
fn answers_outside_the_initiator_window_are_dropped_and_reported() {
    let mut pair = Pair::clean(&unordered());
    let tokens = [pair.read(A, BASE, 16), pair.read(A, BASE, 16)];
    pair.drive(A);
    let header = |xid| tal(Opcode::ReadResponse, true, 1, 0, xid);
    let cases = [
        (2, Some(DropReason::XidOutOfWindow)),
        (u16::MAX, Some(DropReason::XidOutOfWindow)),
        (1, None),
        // Complete, and behind an open one.
        (1, Some(DropReason::XidCompleted)),
    ];
    for (psn, (xid, expected)) in (0..).zip(cases) {
        let received = inject(&mut pair, A, pdl(psn, 1), header(xid), &response(0));
        let wanted = expected.map_or(Received::Delivered, Received::Dropped);
        assert_eq!((received, reason(&mut pair, A)), (wanted, expected));
    }
    assert_eq!(pair.ends[A].order, tokens[1..]);
}

#[test]
fn initiator_window_waits_for_its_lowest_transaction() {
    let mut pair = Pair::clean(&Config {
        tal_trans_window: 3,
        ..unordered()
    });
    let tokens = [(); 3].map(|()| pair.read(A, BASE, 16));
    pair.drive(A);
    let noop = Request {
        op: ReqOp::Noop,
        count: 1,
        len: 0,
        token: 0,
    };
    let mut psn = 0;
    for xid in [2, 1] {
        let header = tal(Opcode::ReadResponse, true, 1, 0, xid);
        inject(&mut pair, A, pdl(psn, 2), header, &response(0));
        psn += 1;
        let full = pair.try_submit(A, noop, Vec::new(), Vec::new());
        assert_eq!(full, Err(SubmitError::WindowFull));
    }
    let header = TalHeader {
        ack_xid: 2,
        ..tal(Opcode::ReadResponse, true, 1, 0, 0)
    };
    inject(&mut pair, A, pdl(psn, 2), header, &response(0));
    assert_eq!(pair.ends[A].order, [tokens[2], tokens[1], tokens[0]]);
    for _ in 0..3 {
        pair.try_submit(A, noop, Vec::new(), Vec::new()).unwrap();
    }
    assert!(pair.now < SECOND);
}

#[test]
fn block_that_was_not_asked_for_ends_the_request() {
    // Of four operations of 16 bytes in one packet.
    let cases = [
        ((0, 3, 0), true),
        ((0, 4, 0), false),
        ((1, 0, 0), false),
        ((0, 0, 15), true),
        ((0, 0, 16), false),
        ((0, 0, 17), false),
    ];
    for ((seqno, opnum, offset), asked) in cases {
        let mut pair = Pair::clean(&Config::default());
        let request = Request {
            op: ReqOp::Read { address: BASE },
            count: 4,
            len: 16,
            token: 0,
        };
        let addresses = vec![BASE; 4];
        let token = pair.try_submit(A, request, Vec::new(), addresses).unwrap();
        pair.drive(A);
        let mut block = vec![seqno, 0, opnum, 0, offset, 0, 0, 0];
        block.extend([0x66; 16]);
        let header = tal(Opcode::ReadResponse, false, 1, 0, 0);
        let received = inject(&mut pair, A, pdl(0, 0), header, &block);
        let completed = pair.ends[A].completed.get(&token).copied();
        let expected = match asked {
            true => (Received::Delivered, None),
            false => (
                Received::Dropped(DropReason::ReplyMismatch),
                Some(Err(Code::MALFORMED_REPLY)),
            ),
        };
        assert_eq!((received, completed), expected, "{seqno} {opnum} {offset}");
    }
}

#[test]
fn requests_outside_the_target_window_are_dropped_and_reported() {
    let mut pair = Pair::clean(&unordered());
    let window = pair.ends[B].conn.config().tal_trans_window;
    for (psn, xid) in (0..).zip([window as u16, 0x7fff, 0xffff]) {
        let header = tal(Opcode::Write, true, 1, 0, xid);
        let received = inject(&mut pair, B, pdl(psn, u32::MAX), header, &write_op(BASE));
        assert_eq!(received, Received::Dropped(DropReason::XidOutOfWindow));
        let report = pair.ends[B].reports.pop().unwrap();
        assert_eq!(
            (report.value, report.low, report.high),
            (xid.into(), 0, window)
        );
    }
}

/// The initiator knows that its request has failed, and a packet that it sent before comes late.
#[test]
fn late_packet_of_a_request_that_failed_is_no_violation() {
    let mut pair = Pair::clean(&unordered());
    let packet = |seqno, xid| tal(Opcode::Write, seqno == 2, 1, seqno, xid);
    let refused = inject(&mut pair, B, pdl(0, u32::MAX), packet(0, 0), &write_op(0));
    assert_eq!(refused, Received::Dropped(DropReason::TransactionFailed));
    // Until then its packets are held to the rules.
    let mut read = BASE.to_le_bytes().to_vec();
    read.extend(16u32.to_le_bytes());
    let other = tal(Opcode::Read, false, 1, 1, 0);
    let changed = inject(&mut pair, B, pdl(1, u32::MAX), other, &read);
    assert_eq!(changed, Received::Dropped(DropReason::OpcodeChanged));
    assert_eq!(reason(&mut pair, B), Some(DropReason::OpcodeChanged));
    // Acknowledges the error.
    inject(&mut pair, B, pdl(2, 0), packet(2, 0), &write_op(BASE));
    let late = inject(&mut pair, B, pdl(3, 0), packet(1, 0), &write_op(BASE));
    assert_eq!(late, Received::Dropped(DropReason::TransactionFailed));
    assert_eq!(pair.ends[B].reports, []);
    // One whose place that was, long ago, is another matter.
    let slots = pair.ends[B].conn.config().tal_trans_window as u16;
    let header = packet(1, 0u16.wrapping_sub(slots));
    let stale = inject(&mut pair, B, pdl(4, 0), header, &write_op(BASE));
    assert_eq!(stale, Received::Dropped(DropReason::XidOutOfWindow));
    assert_eq!(reason(&mut pair, B), Some(DropReason::XidOutOfWindow));
}

/// While a transaction before it is open, one that has ended keeps its place.
#[test]
fn late_packet_of_a_request_that_was_answered_is_a_violation_of_one_that_failed_is_none() {
    let mut pair = Pair::clean(&unordered());
    let mut read = BASE.to_le_bytes().to_vec();
    read.extend(16u32.to_le_bytes());
    let packet = |opcode, xid| tal(opcode, true, 1, 0, xid);
    inject(
        &mut pair,
        B,
        pdl(0, u32::MAX),
        packet(Opcode::Read, 1),
        &read,
    );
    let failed = inject(
        &mut pair,
        B,
        pdl(1, u32::MAX),
        packet(Opcode::Write, 2),
        &write_op(0),
    );
    assert_eq!(failed, Received::Dropped(DropReason::TransactionFailed));
    // Acknowledges the answer and the error.
    let first = tal(Opcode::Write, false, 1, 0, 0);
    inject(&mut pair, B, pdl(2, 1), first, &write_op(BASE));
    assert_eq!(pair.ends[B].reports, []);

    let late = tal(Opcode::Write, false, 1, 1, 2);
    inject(&mut pair, B, pdl(3, 1), late, &write_op(BASE));
    assert_eq!(pair.ends[B].reports, []);
    inject(&mut pair, B, pdl(4, 1), packet(Opcode::Read, 1), &read);
    assert_eq!(reason(&mut pair, B), Some(DropReason::XidCompleted));
}

/// One who tries queue pair numbers learns as slowly which there are as one who tries keys.
#[test]
fn refusals_of_guesses_are_limited_in_rate() {
    let write = || ReqOp::Write { address: 0 };
    let send = || ReqOp::SendQp { qp: BAD_QP };
    for (op, code) in [
        (write as fn() -> ReqOp, Code::ACCESS_KEY),
        (send, Code::NO_QUEUE_PAIR),
    ] {
        let mut pair = Pair::clean(&Config {
            tal_refusal_rate: 100,
            ..Config::default()
        });
        for n in 0..1101 {
            let token = pair.submit(A, op(), bytes(16));
            pair.run_until(SECOND, |pair| pair.all_complete());
            assert_eq!(pair.ends[A].completed[&token], Err(code), "{n}");
        }
        assert!(
            pair.now >= SECOND,
            "{code}: 1101 guesses in {} ns",
            pair.now
        );
        assert_eq!(pair.ends[B].conn.refusals(), 1101);
    }
}

/// A receiver that has no buffer now asks for its messages later. Nobody has guessed anything.
#[test]
fn refusals_for_want_of_a_buffer_are_not_limited() {
    let mut pair = Pair::clean(&Config {
        tal_refusal_rate: 1,
        ..ext()
    });
    for _ in 0..1101 {
        let op = ReqOp::SendQpExt {
            qp: DRY_QP,
            offset: 0,
            message_len: 16,
            imm: None,
            solicited: false,
            start: false,
        };
        pair.submit(A, op, bytes(16));
        pair.run_until(SECOND, |pair| pair.all_complete());
    }
    assert!(pair.now < SECOND, "{} ns", pair.now);
    assert_eq!(pair.ends[B].conn.refusals(), 0);
}
