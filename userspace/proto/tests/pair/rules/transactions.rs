// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Rules of the Transaction Layer.

use super::*;
use crate::link::LinkConfig;
use crate::node::{BAD_KEY, BAD_QP, DRY_QP, MEMORY};
use crate::pair::{A, B};
use crate::{MS, SECOND};
use superp_proto::{Barrier, BrokenCause, Code, DropReason, Payload, Request, SubmitError};

#[test]
fn peer_that_never_completes_a_transaction_is_given_up() {
    let config = Config {
        tal_transaction_timeout: 500 * MS / 10,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    // B answers at the Packet Delivery Layer only: its replies are lost, its ACKs are not.
    pair.filter = Some(Box::new(|_, from, transmit| {
        from == B && matches!(transmit.payload, Payload::Reply(_))
    }));
    let token = pair.read(A, BASE, 100);
    pair.drive(A);
    while pair.ends[A].broken.is_none() {
        assert!(pair.step(SECOND));
    }
    let timeout = BrokenCause::TransactionTimeout { xid: 0 };
    assert_eq!(pair.ends[A].broken, Some(timeout));
    assert_eq!(pair.ends[A].completed[&token], Err(Code::ABORTED_TIMEOUT));
    assert!((500 * MS..510 * MS).contains(&pair.now));
}

#[test]
fn transaction_errors_of_the_initiator_are_dropped_and_reported() {
    let mut pair = Pair::clean(&Config::default());
    let mut psn = 0;
    let mut check = |tal: TalHeader, expected: Received| {
        let received = inject(&mut pair, B, pdl(psn, u32::MAX), tal, &write_op(BASE));
        psn += 1;
        assert_eq!(received, expected, "{tal:?}");
        let report = pair.ends[B].reports.pop().map(|report| report.reason);
        match expected {
            Received::Dropped(reason) => assert_eq!(report, Some(reason)),
            _ => assert_eq!(report, None),
        }
    };
    let write = |eom, seqno, xid| tal(Opcode::Write, eom, 1, seqno, xid);
    check(write(false, 2, 1), Received::Delivered);
    check(
        write(false, 2, 1),
        Received::Dropped(DropReason::SeqnoDuplicate),
    );
    check(
        write(true, 1, 1),
        Received::Dropped(DropReason::SeqnoBeyondEom),
    );
    let send = tal(Opcode::Send, false, 1, 0, 1);
    check(send, Received::Dropped(DropReason::OpcodeChanged));
    check(write(true, 3, 1), Received::Delivered);
    check(
        write(true, 0, 1),
        Received::Dropped(DropReason::EomDuplicate),
    );
    check(
        write(false, 4, 1),
        Received::Dropped(DropReason::SeqnoBeyondEom),
    );
    check(write(false, 0, 1), Received::Delivered);
    check(write(false, 1, 1), Received::Delivered);
    // 1 is complete and waits for 0.
    check(
        write(true, 0, 1),
        Received::Dropped(DropReason::XidCompleted),
    );
    check(write(true, 0, 0), Received::Delivered);
    check(
        write(true, 0, 1),
        Received::Dropped(DropReason::XidOutOfWindow),
    );
    assert_eq!(pair.ends[B].memory.completed, [1, 0]);
    assert_eq!(pair.ends[B].memory.placed[0], 5);
}

#[test]
fn request_with_too_many_packets_is_refused() {
    let small = Config {
        tal_max_pkt_per_trans: 4,
        ..Config::default()
    };
    let link = LinkConfig::default();
    let mut pair = Pair::new([Config::default(), small], link, 0);
    let long = write(&mut pair, A, 10_000);
    let short = write(&mut pair, A, 100);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&long], Err(Code::RESOURCES_PACKETS));
    assert_eq!(pair.ends[A].completed[&short], Ok(()));
    assert_eq!(pair.ends[B].memory.aborted, [0]);
}

#[test]
fn reply_with_too_many_packets_is_refused() {
    let small = Config {
        tal_max_pkt_per_trans: 4,
        ..Config::default()
    };
    let mut pair = Pair::new([Config::default(), small], LinkConfig::default(), 0);
    let token = pair.read(A, BASE, 10_000);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::RESOURCES_REPLY));
}

#[test]
fn refused_operations_bear_their_code_and_leave_others_alone() {
    let config = ext();
    let end = BASE + MEMORY;
    let cases = [
        (ReqOp::Write { address: end - 8 }, Code::ACCESS_BOUNDS),
        (ReqOp::Write { address: 0 }, Code::ACCESS_KEY),
        (
            ReqOp::Send {
                key: BAD_KEY,
                offset: 0,
            },
            Code::ACCESS_KEY,
        ),
        (ReqOp::SendQp { qp: BAD_QP }, Code::NO_QUEUE_PAIR),
        (ReqOp::SendQp { qp: DRY_QP }, Code::NO_RECEIVE_BUFFER),
        (
            ReqOp::WriteExt {
                address: BASE,
                qp: DRY_QP,
                imm: Some(1),
                solicited: false,
            },
            Code::NO_RECEIVE_BUFFER,
        ),
    ];
    for (op, code) in cases {
        for len in [16, 5000] {
            let mut pair = Pair::clean(&config);
            let before = write(&mut pair, A, 5000);
            let refused = pair.submit(A, op, bytes(len));
            let after = write(&mut pair, A, 5000);
            pair.settle();
            let completed = &pair.ends[A].completed;
            assert_eq!(completed[&refused], Err(code), "{op:?}");
            assert_eq!((completed[&before], completed[&after]), (Ok(()), Ok(())));
            assert_eq!(pair.ends[A].conn.stats().failed, 1);
            assert_eq!(pair.ends[B].conn.stats().refused, 1);
            assert_eq!(pair.ends[B].memory.aborted, [1]);
            assert_eq!(pair.ends[B].memory.messages, []);
            assert_eq!(pair.retransmits(), 0);
        }
    }
}

#[test]
fn refused_read_bears_its_code() {
    let mut pair = Pair::clean(&Config::default());
    let token = pair.read(A, BASE + MEMORY - 10, 11);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::ACCESS_BOUNDS));
}

#[test]
fn error_names_the_operation_that_failed() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    let request = Request {
        op: ReqOp::Write { address: 0 },
        count: 20,
        len: 32,
        token: 0,
    };
    let addresses = (0..20)
        .map(|i| if i == 13 { 7 } else { BASE + 32 * i })
        .collect();
    let token = pair.try_submit(A, request, bytes(640), addresses).unwrap();
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::ACCESS_KEY));
    let errors: Vec<_> = pair
        .log
        .iter()
        .filter_map(|entry| match entry.2.payload {
            Payload::Error(op) => Some((entry.1, op.seqno, op.opnum)),
            _ => None,
        })
        .collect();
    assert_eq!(errors, [(B, 1, 5)]);
}

#[test]
fn error_names_no_operation_that_the_request_has_not() {
    // Eight operations in the first packet, four in the second.
    let cases = [
        ((0, 7), Some(7)),
        ((0, 8), None),
        ((1, 3), Some(11)),
        ((1, 4), None),
        ((2, 0), None),
    ];
    for ((seqno, opnum), named) in cases {
        let mut pair = Pair::clean(&Config::default());
        let request = Request {
            op: ReqOp::Write { address: 0 },
            count: 12,
            len: 16,
            token: 0,
        };
        let addresses = vec![BASE; 12];
        let token = pair.try_submit(A, request, bytes(192), addresses).unwrap();
        pair.drive(A);
        assert_eq!(pair.ends[A].conn.stats().tx_packets, 2);
        let header = tal(Opcode::TransactionError, true, 1, 0, 0);
        let error = [seqno, 0, opnum, 0, 3, 0, 1, 0];
        inject(&mut pair, A, pdl(0, u32::MAX), header, &error);
        assert!(pair.ends[A].completed[&token].is_err());
        assert_eq!(
            pair.ends[A].failed_op.get(&token).copied(),
            named,
            "{seqno} {opnum}"
        );
    }
}

/// Major 0 is success, to whoever looks at codes.
#[test]
fn error_without_a_code_is_malformed() {
    for (sent, told) in [
        ([0, 0], Code::MALFORMED_REPLY),
        ([0, 1], Code::MALFORMED_REPLY),
        ([3, 0], Code::ACCESS),
    ] {
        let mut pair = Pair::clean(&Config::default());
        let token = write(&mut pair, A, 100);
        pair.drive(A);
        let header = tal(Opcode::TransactionError, true, 1, 0, 0);
        let error = [0, 0, 0, 0, sent[0], 0, sent[1], 0];
        inject(&mut pair, A, pdl(0, u32::MAX), header, &error);
        assert_eq!(pair.ends[A].completed[&token], Err(told), "{sent:?}");
    }
}

#[test]
fn error_is_terminal_before_the_request_is_fully_sent() {
    let config = Config {
        tal_max_pkt_per_trans: 4096,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    let address = 0;
    let token = pair.submit(A, ReqOp::Write { address }, bytes(1_000_000));
    let next = write(&mut pair, A, 100);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::ACCESS_KEY));
    assert_eq!(pair.ends[A].completed[&next], Ok(()));
    // The rest was not sent.
    assert!(pair.ends[A].conn.stats().tx_packets < 100);
    assert_eq!(pair.ends[B].reports, []);
}

#[test]
fn lost_transaction_error_is_not_taken_for_success() {
    let mut pair = Pair::clean(&Config {
        ordered_tx: false,
        ordered_rx: false,
        ..Config::default()
    });
    pair.filter = Some(Box::new(|now, _, transmit| {
        matches!(transmit.payload, Payload::Error(_)) && now < 300 * MS
    }));
    let address = 0;
    let refused = pair.submit(A, ReqOp::Write { address }, bytes(100));
    let fine: Vec<u64> = (0..20).map(|_| write(&mut pair, A, 100)).collect();
    pair.settle();
    assert_eq!(pair.ends[A].completed[&refused], Err(Code::ACCESS_KEY));
    assert!(fine
        .iter()
        .all(|token| pair.ends[A].completed[token] == Ok(())));
}

#[test]
fn unknown_opcode_is_answered() {
    let mut pair = Pair::clean(&ext());
    pair.trace = true;
    let unknown = |opcode, xid| TalHeader {
        opcode,
        ..tal(Opcode::Noop, true, 3, 0, xid)
    };
    let refused = Received::Dropped(DropReason::UnknownOpcode);
    let none = u32::MAX;
    assert_eq!(
        inject(&mut pair, B, pdl(0, none), unknown(99, 0), &[0; 50]),
        refused
    );
    assert_eq!(
        inject(&mut pair, B, pdl(1, none), unknown(0xc4, 1), &[0; 50]),
        refused
    );
    assert_eq!(
        inject(&mut pair, B, pdl(2, none), unknown(3, 2), &[0; 50]),
        refused
    );
    assert_eq!(pair.ends[B].reports, []);
    let errors = pair.log.iter().filter_map(|entry| match entry.2.payload {
        Payload::Error(op) => Some((entry.2.tal.xid, op.major, op.minor)),
        _ => None,
    });
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [(0, 2, 0), (1, 2, 0), (2, 2, 0)]
    );
}

#[test]
fn extensions_are_refused_by_name_where_they_are_off() {
    let mut pair = Pair::clean(&Config::default());
    let request = Request {
        op: send_ext(16),
        count: 1,
        len: 16,
        token: 0,
    };
    let refused = pair.try_submit(A, request, bytes(16), Vec::new());
    assert_eq!(refused, Err(SubmitError::NeedsExt));

    let mut pair = Pair::new([ext(), Config::default()], LinkConfig::default(), 0);
    let message = pair.submit(A, send_ext(16), bytes(16));
    let op = ReqOp::WriteExt {
        address: BASE,
        qp: 0,
        imm: None,
        solicited: false,
    };
    let short = pair.submit(A, op, bytes(1));
    pair.settle();
    for token in [message, short] {
        let result = pair.ends[A].completed[&token];
        assert_eq!(result, Err(Code::EXTENSION_NOT_ENABLED));
    }
    assert_eq!(
        Code::EXTENSION_NOT_ENABLED.name(),
        "unknown opcode: extension not enabled"
    );
    assert_eq!(pair.ends[B].memory.placed[0], 0);
}

#[test]
fn short_block_is_answered_with_an_error_and_reported() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    let before = pair.ends[B].memory.bytes.clone();
    for (xid, len) in [(0u16, 15), (1, 0)] {
        let header = tal(Opcode::Write, true, 1, 0, xid);
        let op = &write_op(BASE)[..8 + len];
        let received = inject(&mut pair, B, pdl(xid.into(), u32::MAX), header, op);
        assert_eq!(received, Received::Dropped(DropReason::ShortBlock));
        let report = pair.ends[B].reports.pop().expect("a report");
        let reason = DropReason::ShortBlock;
        assert_eq!(
            (report.reason, report.value, report.low),
            (reason, len as u32, 16)
        );
    }
    let codes = pair.log.iter().filter_map(|entry| match entry.2.payload {
        Payload::Error(op) => Some((op.major, op.minor)),
        _ => None,
    });
    assert_eq!(codes.collect::<Vec<_>>(), [(1, 5); 2]);
    assert_eq!(pair.ends[B].memory.bytes, before);
}

#[test]
fn short_block_of_a_reply_fails_the_read() {
    let mut pair = Pair::clean(&Config::default());
    let token = pair.read(A, BASE, 8);
    pair.drive(A);
    let header = tal(Opcode::ReadResponse, true, 1, 0, 0);
    let received = inject(&mut pair, A, pdl(0, 0), header, &[0; 8 + 15]);
    assert_eq!(received, Received::Dropped(DropReason::ReplyMismatch));
    assert_eq!(pair.ends[A].completed[&token], Err(Code::MALFORMED_REPLY));
}

#[test]
fn short_writes_and_immediates_arrive_exactly() {
    let mut pair = Pair::clean(&ext());
    let mut address = BASE;
    for len in [1, 2, 15, 16, 17, 1452, 1500, 9000] {
        let op = ReqOp::WriteExt {
            address,
            qp: 3,
            imm: Some(len as u32),
            solicited: true,
        };
        pair.submit(A, op, bytes(len));
        pair.settle();
        let memory = &pair.ends[B].memory;
        let start = (address - BASE) as usize;
        assert_eq!(memory.bytes[start..start + len], bytes(len));
        assert_eq!(memory.placed[start + len], 0, "byte after {len} written");
        let immediate = memory.immediates.last().unwrap();
        assert_eq!((immediate.imm, immediate.len), (len as u32, len as u32));
        assert!(immediate.solicited);
        address += len as u64 + 1;
    }
    assert_eq!(pair.ends[B].memory.immediates.len(), 8);
}

fn write_with_immediate(qp: u32) -> ReqOp {
    ReqOp::WriteExt {
        address: BASE,
        qp,
        imm: Some(7),
        solicited: false,
    }
}

#[test]
fn immediate_waits_for_all_packets_of_its_write() {
    let mut pair = Pair::clean(&Config {
        ordered_tx: false,
        ordered_rx: false,
        ..ext()
    });
    // Of several packets the second is lost; the last one carries the immediate.
    lose(&mut pair, A, |number| number == 1);
    let token = pair.submit(A, write_with_immediate(3), bytes(5000));
    let mut waited = false;
    pair.run_until(SECOND, |pair| {
        let memory = &pair.ends[B].memory;
        let whole = memory.placed[..5000].iter().all(|times| *times > 0);
        assert_eq!(memory.immediates.is_empty(), !whole);
        waited |= memory.placed[4999] > 0 && !whole;
        whole
    });
    assert!(waited);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
    assert_eq!(pair.ends[B].memory.immediates.len(), 1);
}

#[test]
fn refused_immediate_leaves_all_bytes_of_its_write_in_place() {
    for len in [1, 16, 5000] {
        let mut pair = Pair::clean(&ext());
        let token = pair.submit(A, write_with_immediate(DRY_QP), bytes(len));
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Err(Code::NO_RECEIVE_BUFFER));
        assert_eq!(pair.ends[B].memory.bytes[..len], bytes(len));
        assert_eq!(pair.ends[B].memory.immediates, []);
    }
}

#[test]
fn write_that_is_in_place_is_told_of_alone() {
    let mut pair = Pair::clean(&ext());
    for (start, write_len) in [(false, 0), (true, 3_000_000), (false, u32::MAX)] {
        let written = ReqOp::Written {
            qp: 3,
            write_len,
            imm: 7,
            solicited: start,
            start,
        };
        let token = pair.submit(A, written, Vec::new());
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
        let memory = &pair.ends[B].memory;
        let came = memory.immediates.last().unwrap();
        assert_eq!((came.qp, came.imm), (3, 7));
        assert_eq!((came.len, came.start), (write_len, start));
        assert_eq!(came.solicited, start);
        assert!(memory.messages.is_empty());
    }
    assert_eq!(pair.ends[B].memory.immediates.len(), 3);
    let refused = ReqOp::Written {
        qp: DRY_QP,
        write_len: 1,
        imm: 7,
        solicited: false,
        start: false,
    };
    let token = pair.submit(A, refused, Vec::new());
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::NO_RECEIVE_BUFFER));
    assert_eq!(pair.ends[B].memory.immediates.len(), 3);
}

#[test]
fn read_of_any_length_is_trimmed() {
    let mut pair = Pair::clean(&Config::default());
    for len in [0, 1, 15, 16, 17, 1452, 1453, 1461, 40_000] {
        let token = pair.read(A, BASE + 5, len);
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()), "{len}");
        let read = &pair.ends[A].memory.reads[&token];
        let memory = &pair.ends[B].memory.bytes;
        let same = read
            .iter()
            .zip(&memory[5..])
            .all(|(got, want)| *got == Some(*want));
        assert!(same && read.len() == len as usize);
    }
}

#[test]
fn equal_short_reads_share_a_reply() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    let request = Request {
        op: ReqOp::Read { address: 0 },
        count: 8,
        len: 10,
        token: 0,
    };
    let addresses: Vec<u64> = (0..8).map(|i| BASE + 100 * i).collect();
    let token = pair
        .try_submit(A, request, Vec::new(), addresses.clone())
        .unwrap();
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
    let read = &pair.ends[A].memory.reads[&token];
    for (op, address) in addresses.iter().enumerate() {
        for i in 0..10 {
            let expected = crate::node::pattern(address + i as u64);
            assert_eq!(read[10 * op + i], Some(expected));
        }
    }
    let replies = pair
        .log
        .iter()
        .filter(|entry| matches!(entry.2.payload, Payload::Reply(_)));
    assert_eq!(replies.count(), 1);
}

#[test]
fn reply_that_cannot_be_fetched_becomes_an_error() {
    for sent_before in [0, 3] {
        let mut pair = Pair::clean(&Config::default());
        pair.read(A, BASE, 10_000);
        let other = pair.read(A, BASE, 100);
        pair.drive(A);
        let mut replies = 0;
        while replies < sent_before + 1 {
            assert!(pair.link.next_arrival().is_some());
            let flight = pair.link.pop(u64::MAX).unwrap();
            pair.now = MS;
            pair.ends[flight.to].take(MS, &flight.bytes);
            while let Some(transmit) = pair.ends[B].conn.poll_transmit(MS) {
                match transmit.payload {
                    Payload::Reply(reply) if replies == sent_before => {
                        pair.ends[B].conn.refuse_reply(reply.xid, Code::ACCESS_KEY);
                        // The first reason counts.
                        pair.ends[B].conn.refuse_reply(reply.xid, Code::RESOURCES);
                        pair.transmit(B, transmit.without_payload());
                        replies += 1;
                        break;
                    }
                    Payload::Reply(_) => replies += 1,
                    _ => {}
                }
                pair.transmit(B, transmit);
            }
        }
        pair.settle();
        let completed = &pair.ends[A].completed;
        assert_eq!(completed[&1], Err(Code::ACCESS_KEY));
        assert_eq!(completed[&other], Ok(()));
    }
}

#[test]
fn reply_that_is_withdrawn_while_packets_of_it_are_lost_still_ends() {
    let mut pair = Pair::clean(&Config::default());
    lose(&mut pair, B, |number| (2..6).contains(&number));
    let read = pair.read(A, BASE, 10_000);
    pair.run_until(SECOND, |pair| pair.ends[B].conn.stats().tx_bytes >= 10_000);
    pair.ends[B].withdrawn = true;
    pair.settle();
    // What was lost is not asked for any more.
    assert_eq!(pair.ends[B].withdrawals, 1);
    assert_eq!(pair.ends[A].completed[&read], Err(Code::ACCESS_KEY));
    // The target's window goes on: more transactions than fit into it.
    for _ in 0..100 {
        let write = write(&mut pair, A, 100);
        pair.settle();
        assert_eq!(pair.ends[A].completed[&write], Ok(()));
    }
}

#[test]
fn write_behind_an_unfinished_lower_one_waits_for_its_ack_xid() {
    let mut pair = Pair::clean(&Config {
        ordered_tx: false,
        ordered_rx: false,
        ..Config::default()
    });
    lose(&mut pair, A, |number| number == 0);
    let first = write(&mut pair, A, 100);
    let second = write(&mut pair, A, 100);
    pair.settle();
    // Unordered: the second was placed first, and completed after the first.
    assert_eq!(pair.ends[B].memory.completed, [1, 0]);
    assert_eq!(pair.ends[A].order, [first, second]);
}

#[test]
fn barrier_holds_until_all_before_are_complete() {
    let mut pair = Pair::clean(&Config::default());
    // The write is complete long before the read.
    pair.filter = Some(Box::new(|now, _, sent| {
        now < 10 * MS && matches!(sent.payload, Payload::Reply(_))
    }));
    write(&mut pair, A, 20_000);
    pair.ends[A].conn.barrier(Barrier::Writes);
    let request = |op, len| Request {
        op,
        count: 1,
        len,
        token: 0,
    };
    let read = request(ReqOp::Read { address: BASE }, 100);
    let next = request(ReqOp::Write { address: BASE }, 100);
    let held = pair.try_submit(A, next, bytes(100), Vec::new());
    assert_eq!(held, Err(SubmitError::WindowFull));
    pair.try_submit(A, read, Vec::new(), Vec::new()).unwrap();
    pair.ends[A].conn.barrier(Barrier::All);
    let held = pair.try_submit(A, read, Vec::new(), Vec::new());
    assert_eq!(held, Err(SubmitError::WindowFull));
    pair.run_until(SECOND, |pair| pair.ends[A].completed.len() == 1);
    let held = pair.try_submit(A, read, Vec::new(), Vec::new());
    assert_eq!(held, Err(SubmitError::WindowFull));
    assert_eq!(pair.ends[A].writable, 0);
    pair.run_until(SECOND, |pair| pair.ends[A].writable > 0);
    assert_eq!(pair.ends[A].completed.len(), 2);
    pair.try_submit(A, next, bytes(100), Vec::new()).unwrap();
    pair.settle();
}

#[test]
fn full_transaction_window_is_told_when_it_opens() {
    let config = Config {
        tal_trans_window: 3,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    for _ in 0..3 {
        pair.read(A, BASE, 100);
    }
    let request = Request {
        op: ReqOp::Noop,
        count: 1,
        len: 0,
        token: 0,
    };
    let full = pair.try_submit(A, request, Vec::new(), Vec::new());
    assert_eq!(full, Err(SubmitError::WindowFull));
    pair.run_until(SECOND, |pair| pair.ends[A].writable == 1);
    pair.try_submit(A, request, Vec::new(), Vec::new()).unwrap();
    pair.settle();
    assert_eq!(pair.ends[A].writable, 1);
}

#[test]
fn early_and_mismatched_replies_are_refused() {
    let config = Config {
        pdl_window_size: 16,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    let token = pair.read(A, BASE, 100);
    // Not sent yet.
    let reply = |offset: u32| {
        let mut op = vec![0, 0, 0, 0];
        op.extend(offset.to_le_bytes());
        op.extend([3; 16]);
        op
    };
    let header = TalHeader {
        ack_xid: u16::MAX,
        ..tal(Opcode::ReadResponse, true, 1, 0, 0)
    };
    let bytes: Vec<u8> = [&pdl(0, u32::MAX).bytes()[..], &header.bytes(), &reply(0)].concat();
    let early = pair.ends[A].take(0, &bytes);
    assert_eq!(early, Some(Received::Dropped(DropReason::EarlyReply)));
    pair.drive(A);
    let beyond = inject(&mut pair, A, pdl(1, 0), header, &reply(100));
    assert_eq!(beyond, Received::Dropped(DropReason::ReplyMismatch));
    assert_eq!(pair.ends[A].completed[&token], Err(Code::MALFORMED_REPLY));
    let write = write(&mut pair, A, 100);
    pair.drive(A);
    let other = TalHeader { xid: 1, ..header };
    let mismatch = inject(&mut pair, A, pdl(2, 0), other, &reply(0));
    assert_eq!(mismatch, Received::Dropped(DropReason::ReplyMismatch));
    assert!(!pair.ends[A].completed.contains_key(&write));
    assert_eq!(pair.ends[A].reports.len(), 3);
}

#[test]
fn short_reply_is_not_taken_for_success() {
    let mut pair = Pair::clean(&Config::default());
    let token = pair.read(A, BASE, 100);
    pair.drive(A);
    let header = tal(Opcode::ReadResponse, true, 1, 0, 0);
    let mut op = vec![0; 8];
    op.extend([3; 16]);
    let received = inject(&mut pair, A, pdl(0, 0), header, &op);
    assert_eq!(received, Received::Delivered);
    assert_eq!(pair.ends[A].completed[&token], Err(Code::MALFORMED_REPLY));
}

#[test]
fn error_for_a_request_that_was_not_sent_is_refused() {
    let mut pair = Pair::clean(&Config::default());
    let token = write(&mut pair, A, 100);
    let header = tal(Opcode::TransactionError, true, 1, 0, 0);
    let bytes = [&pdl(0, u32::MAX).bytes()[..], &header.bytes(), &[0; 8]].concat();
    let early = pair.ends[A].take(0, &bytes);
    assert_eq!(early, Some(Received::Dropped(DropReason::EarlyReply)));
    pair.drive(A);
    assert!(!pair.ends[A].completed.contains_key(&token));
}
