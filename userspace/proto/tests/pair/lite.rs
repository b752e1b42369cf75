// SPDX-License-Identifier: GPL-2.0 OR MIT
//! SUPERp-lite [proto 6]. Random schedules are in random.rs.

use crate::node::{BAD_KEY, BASE};
use crate::pair::{Pair, A, B};
use crate::{MS, SECOND, US};
use superp_proto::wire::{Opcode, TalHeader};
use superp_proto::{BrokenCause, Code, Config, Connection, NewError, Payload, ReqOp, SubmitError};

fn config() -> Config {
    Config {
        lite: true,
        tal_transaction_timeout: 50 * MS / 10,
        ..Config::default()
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 256 + 1) as u8).collect()
}

fn write(pair: &mut Pair, len: usize) -> u64 {
    pair.submit(A, ReqOp::Write { address: BASE }, bytes(len))
}

#[test]
fn packets_begin_with_the_transaction_header() {
    let mut pair = Pair::clean(&config());
    pair.trace = true;
    write(&mut pair, 5000);
    pair.settle();
    assert_eq!(pair.ends[B].memory.bytes[..5000], bytes(5000));
    // 1484 bytes of which 8 are the Transaction header and 8 the write's.
    let sizes: Vec<usize> = pair.log.iter().map(|e| e.2.data_len()).collect();
    assert_eq!(sizes, [1464, 1464, 1464, 608, 0]);
    for (_, who, transmit) in &pair.log {
        assert!(transmit.lite);
        let mut head = [0; 64];
        let len = pair.ends[*who]
            .conn
            .emit(transmit, &mut head, |_| 0)
            .unwrap();
        let tal = TalHeader::parse(head.first_chunk().unwrap());
        assert_eq!(tal, transmit.tal);
        assert_eq!(len, if *who == A { 16 } else { 8 });
    }
}

#[test]
fn window_and_timeout_are_not_those_of_the_packet_layer() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        pdl_receive_win: 1,
        pdl_retrans_time_out: MS,
        ..config()
    });
    pair.trace = true;
    write(&mut pair, 30_000);
    pair.drive(A);
    assert_eq!(pair.log.len(), 21, "all of it at once");
    pair.settle();
    assert_eq!(pair.retransmits(), 0);
    assert_eq!(pair.log.len(), 22, "and one answer");
}

#[test]
fn transaction_window_holds_requests_back() {
    let mut pair = Pair::clean(&Config {
        tal_trans_window: 4,
        ..config()
    });
    for _ in 0..4 {
        write(&mut pair, 64);
    }
    let request = superp_proto::Request {
        op: ReqOp::Noop,
        count: 1,
        len: 0,
        token: 0,
    };
    let refused = pair.try_submit(A, request, Vec::new(), Vec::new());
    assert_eq!(refused, Err(SubmitError::WindowFull));
    pair.run_until(MS, |pair| pair.ends[A].writable == 1);
    assert!(pair.try_submit(A, request, Vec::new(), Vec::new()).is_ok());
    pair.settle();
}

#[test]
fn shortest_blocks_arrive_as_long_as_they_were_sent() {
    for (op, min) in [
        (ReqOp::Write { address: BASE }, 22),
        (ReqOp::Send { key: 1, offset: 0 }, 22),
        (ReqOp::SendQp { qp: 1 }, 26),
        (
            ReqOp::WriteExt {
                address: BASE,
                qp: 0,
                imm: None,
                solicited: false,
            },
            1,
        ),
    ] {
        let mut pair = Pair::clean(&Config {
            ext: true.into(),
            ..config()
        });
        assert_eq!(pair.ends[A].conn.min_request_len(&op), min);
        let request = superp_proto::Request {
            op,
            count: 1,
            len: min - 1,
            token: 0,
        };
        let short = pair.try_submit(A, request, bytes(min as usize - 1), Vec::new());
        assert_eq!(short, Err(SubmitError::TooShort { min }));
        pair.submit(A, op, bytes(min as usize));
        pair.settle();
        let memory = &pair.ends[B].memory;
        let count = min as usize;
        match op {
            ReqOp::Send { .. } => assert_eq!(memory.contexts[&1], bytes(count)),
            ReqOp::SendQp { .. } => assert_eq!(memory.messages[0].data, bytes(count)),
            _ => {
                assert_eq!(memory.bytes[..count], bytes(count));
                let next = crate::node::pattern(BASE + count as u64);
                assert_eq!(memory.bytes[count], next, "padding is not data");
            }
        }
    }
}

#[test]
fn short_tails_are_lengthened_by_the_packets_before() {
    for len in 1469..1500 {
        let mut pair = Pair::clean(&config());
        pair.trace = true;
        write(&mut pair, len);
        pair.settle();
        assert_eq!(pair.ends[B].memory.bytes[..len], bytes(len));
        let sent = pair.log.iter().filter(|e| e.1 == A);
        assert!(sent.map(|e| e.2.data_len()).all(|len| len >= 22));
    }
}

#[test]
fn reads_of_every_short_length_give_what_was_asked_for() {
    let mut pair = Pair::clean(&config());
    for len in 0..64u32 {
        let token = pair.read(A, BASE + 5, len);
        pair.settle();
        let read: Option<Vec<u8>> = pair.ends[A].memory.reads[&token].iter().copied().collect();
        assert_eq!(
            read.unwrap(),
            pair.ends[B].memory.bytes[5..5 + len as usize]
        );
    }
}

#[test]
fn answers_are_acknowledged_without_being_asked_for() {
    let mut pair = Pair::clean(&config());
    for _ in 0..3 {
        pair.read(A, BASE, 100);
    }
    pair.settle();
    // The last reply cannot tell that it was sent: an ACK XID follows within the delay.
    assert_eq!(pair.ends[B].conn.stats().tx_acks, 1);
    assert!(pair.now < 2 * MS, "{}", pair.now);
}

#[test]
fn refused_write_does_not_complete_with_success() {
    let mut pair = Pair::clean(&config());
    let bad = pair.submit(
        A,
        ReqOp::Send {
            key: BAD_KEY,
            offset: 0,
        },
        bytes(5000),
    );
    let good = write(&mut pair, 5000);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&bad], Err(Code::ACCESS_KEY));
    assert_eq!(pair.ends[A].completed[&good], Ok(()));
}

#[test]
fn reply_that_cannot_be_fetched_becomes_an_error() {
    let mut pair = Pair::clean(&config());
    pair.ends[B].withdrawn = true;
    let token = pair.read(A, BASE, 5000);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Err(Code::ACCESS_KEY));
}

#[test]
fn lost_packet_is_fatal_when_the_transaction_times_out() {
    for lost in [Opcode::Write, Opcode::Noop] {
        let mut pair = Pair::clean(&config());
        pair.filter = Some(Box::new(move |_, _, transmit| {
            transmit.tal.opcode == lost as u8
        }));
        let token = write(&mut pair, 100);
        pair.drive(A);
        while pair.ends[A].broken.is_none() {
            assert!(pair.step(SECOND), "{}", pair.describe());
        }
        let cause = BrokenCause::TransactionTimeout { xid: 0 };
        assert_eq!(pair.ends[A].broken, Some(cause));
        assert_eq!(pair.ends[A].completed[&token], Err(Code::ABORTED_TIMEOUT));
        assert!((50 * MS..51 * MS).contains(&pair.now), "{}", pair.now);
    }
}

#[test]
fn acknowledgement_of_nothing_that_was_sent_is_dropped_and_reported() {
    let mut pair = Pair::clean(&config());
    let tal = TalHeader {
        ack_xid: 7,
        ..TalHeader::default()
    };
    let mut packet = tal.bytes().to_vec();
    packet.resize(38, 0);
    pair.ends[A].take(0, &packet);
    pair.drive(A);
    assert_eq!(pair.ends[A].conn.stats().out_of_window, 1);
    assert_eq!(pair.ends[A].reports.len(), 1);
    write(&mut pair, 100);
    pair.settle();
}

#[test]
fn shutdown_drains_both_ways() {
    let mut pair = Pair::clean(&config());
    write(&mut pair, 5000);
    for end in [A, B] {
        pair.submit(end, ReqOp::LastNull, Vec::new());
    }
    pair.settle();
    assert!(pair.ends.iter().all(|end| end.drained));
    assert!(pair.now < MS + 100 * US);
}

#[test]
fn connection_without_a_transaction_timer_is_refused() {
    let config = Config {
        tal_transaction_timeout: 0,
        ..config()
    };
    let Err(NewError::Config(error)) = Connection::<superp_proto::Heap>::new(&config, 0) else {
        panic!("taken");
    };
    assert_eq!((error.name, error.min), ("tal_transaction_timeout", 1));
}

#[test]
fn payload_of_an_acknowledgement_is_nothing() {
    let mut pair = Pair::clean(&config());
    pair.trace = true;
    write(&mut pair, 100);
    pair.settle();
    let last = pair.log.last().unwrap();
    assert!(matches!(last.2.payload, Payload::None) && last.2.tal.is_pure_ack());
}
