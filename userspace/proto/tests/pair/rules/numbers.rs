// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How packets are numbered and marked, and what order each direction keeps.

use super::*;
use crate::pair::{A, B};
use crate::MS;
use superp_proto::{DropReason, Payload, Transmit};

#[test]
fn psns_count_from_zero_and_retransmissions_take_none() {
    let mut pair = Pair::clean(&Config {
        remote_cid: 0x2b47,
        ..Config::default()
    });
    pair.trace = true;
    lose(&mut pair, A, |number| number % 5 == 1 && number < 40);
    for _ in 0..20 {
        write(&mut pair, A, 3000);
    }
    pair.settle();
    let sent: Vec<_> = pair.log.iter().filter(|e| e.1 == A).map(|e| e.2).collect();
    assert!(sent.iter().all(|packet| packet.pdl.dcid == 0x2b47));
    let (again, new): (Vec<Transmit>, Vec<Transmit>) =
        sent.iter().partition(|packet| packet.retransmit);
    let psns: Vec<u32> = new.iter().map(|packet| packet.pdl.psn).collect();
    // Probes carry an old PSN; there is nothing to probe here.
    assert_eq!(psns, (0..psns.len() as u32).collect::<Vec<_>>());
    assert!(!again.is_empty());
    for packet in again {
        let first = new[packet.pdl.psn as usize];
        assert_eq!(packet.payload, first.payload);
    }
}

#[test]
fn packets_of_requests_and_replies_are_numbered_and_the_last_is_marked() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    write(&mut pair, A, 5000);
    pair.read(A, BASE, 5000);
    write(&mut pair, A, 100);
    pair.settle();
    let of = |end, opcode: Opcode| -> Vec<_> {
        let fits = |e: &&(u64, usize, Transmit)| {
            e.1 == end && e.2.payload != Payload::None && e.2.tal.opcode == opcode as u8
        };
        let tals = pair.log.iter().filter(fits).map(|e| e.2.tal);
        tals.map(|tal| (tal.xid, tal.seqno, tal.eom)).collect()
    };
    let first = [(0, 0, false), (0, 1, false), (0, 2, false), (0, 3, true)];
    let writes = [&first[..], &[(2, 0, true)]].concat();
    assert_eq!(of(A, Opcode::Write), writes);
    assert_eq!(of(A, Opcode::Read), [(1, 0, true)]);
    let replies = first.map(|(_, seqno, eom)| (1, seqno, eom));
    assert_eq!(of(B, Opcode::ReadResponse), replies);
}

#[test]
fn each_direction_has_its_own_order() {
    let a = Config {
        ordered_tx: true,
        ordered_rx: false,
        ..Config::default()
    };
    let b = Config {
        ordered_tx: false,
        ordered_rx: true,
        ..Config::default()
    };
    let mut pair = Pair::new([a, b], crate::link::LinkConfig::default(), 0);
    pair.filter = Some(Box::new(|now, _, transmit| now == 0 && transmit.psn == 0));
    for end in [A, B] {
        for _ in 0..3 {
            write(&mut pair, end, 100);
        }
    }
    pair.drive(A);
    pair.drive(B);
    pair.settle();
    assert_eq!(pair.ends[B].memory.completed, [0, 1, 2]);
    assert_eq!(pair.ends[A].memory.completed, [1, 2, 0]);
}

#[test]
fn packets_beyond_the_window_wait_until_it_opens() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        ..Config::default()
    });
    write(&mut pair, A, 40_000);
    pair.read(A, BASE, 40_000);
    pair.drive(A);
    let sent = pair.ends[A].conn.inflight_packets();
    assert!((15..=16).contains(&sent), "{sent}");
    pair.run_until(100 * MS, |pair| pair.all_complete());
    pair.settle();
    assert_eq!(pair.retransmits(), 0);
}

#[test]
fn acknowledgements_of_an_old_psn_count() {
    let mut pair = Pair::clean(&Config::default());
    inject(
        &mut pair,
        B,
        pdl(0, u32::MAX),
        tal(Opcode::Noop, true, 0, 0, 0),
        &[],
    );
    let token = write(&mut pair, B, 100);
    pair.drive(B);
    let ack_psn = pair.ends[B].conn.inflight_packets() - 1;
    let old = TalHeader {
        ack_xid: 0,
        ..tal(Opcode::Noop, true, 0, 0, 0)
    };
    assert_eq!(
        inject(&mut pair, B, pdl(0, ack_psn), old, &[]),
        Received::Duplicate
    );
    assert_eq!(pair.ends[B].completed[&token], Ok(()));
}

/// The place of a transaction that failed half sent is given to a later one, before anything else is sent.
#[test]
fn xids_are_sent_in_their_order_though_a_failure_made_room() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        tal_trans_window: 2,
        tal_max_pkt_per_trans: 4096,
        ..Config::default()
    });
    pair.trace = true;
    pair.submit(A, ReqOp::Write { address: 0 }, bytes(1_000_000));
    write(&mut pair, A, 100);
    pair.drive(A);
    let sent = pair.log.len() as u32;
    assert!(sent < 20);
    let failed = tal(Opcode::TransactionError, true, 1, 0, 0);
    let retired = TalHeader {
        ack_xid: 0,
        ..tal(Opcode::Write, true, 1, 0, 0)
    };
    let error = vec![0, 0, 0, 0, 3, 0, 1, 0];
    let swallowed = Received::Dropped(DropReason::TransactionFailed);
    let answers = [
        (failed, error.clone(), Received::Delivered),
        (failed, error, swallowed),
        (retired, write_op(BASE), Received::Delivered),
    ];
    for (psn, (header, op, expected)) in (0..).zip(answers) {
        let packet = [&pdl(psn, sent - 1).bytes()[..], &header.bytes(), &op].concat();
        assert_eq!(pair.ends[A].take(0, &packet), Some(expected));
        pair.ends[A].events();
    }
    assert_eq!(pair.ends[A].reports, []);
    write(&mut pair, A, 100);
    let before = pair.log.len();
    pair.drive(A);
    let xids: Vec<_> = pair.log[before..]
        .iter()
        .map(|sent| sent.2.tal.xid)
        .collect();
    assert_eq!(xids, [1, 2]);
}
