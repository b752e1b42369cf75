// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Rules of the Packet Delivery Layer, and of a connection's life.

use super::*;
use crate::pair::{A, B};
use crate::{MS, SECOND, US};
use std::cell::Cell;
use superp_proto::{
    BrokenCause, Code, Connection, DropReason, Extensions, Heap, NewError, Request, Slabs, State,
    SubmitError, Transmit,
};

#[test]
fn first_packet_lost_alone_is_repaired() {
    let mut pair = Pair::clean(&Config::default());
    lose(&mut pair, A, |number| number == 0);
    write(&mut pair, A, 5 * 1452);
    pair.settle();
    let stats = pair.ends[A].conn.stats();
    // By the acknowledgements of the later packets, not by the timer.
    assert_eq!((stats.retransmits_fast, stats.timeouts), (1, 0));
}

#[test]
fn last_ack_lost_is_answered_again() {
    for ordered in [false, true] {
        let config = Config {
            ordered_tx: ordered,
            ordered_rx: ordered,
            ..Config::default()
        };
        let mut pair = Pair::clean(&config);
        lose(&mut pair, B, |number| number == 0);
        let token = write(&mut pair, A, 100);
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
        let (a, b) = (pair.ends[A].conn.stats(), pair.ends[B].conn.stats());
        assert_eq!((a.retransmits_timeout, b.duplicates, b.tx_acks), (1, 1, 2));
        assert_eq!(pair.ends[B].memory.placed[0], 1);
    }
}

#[test]
fn duplicate_in_the_window_is_answered_and_not_delivered() {
    let mut pair = Pair::clean(&Config {
        ordered_rx: false,
        ..Config::default()
    });
    let header = tal(Opcode::Write, true, 1, 0, 1);
    let none = u32::MAX;
    let first = inject(&mut pair, B, pdl(1, none), header, &write_op(BASE));
    let second = inject(&mut pair, B, pdl(1, none), header, &write_op(BASE));
    assert_eq!((first, second), (Received::Delivered, Received::Duplicate));
    assert_eq!(pair.ends[B].memory.placed[0], 1);
    assert_eq!(pair.ends[B].conn.stats().tx_acks, 2);
}

#[test]
fn pure_acks_and_their_duplicates_are_not_answered() {
    let mut pair = Pair::clean(&Config::default());
    let pure = TalHeader {
        ack_xid: u16::MAX,
        ..TalHeader::default()
    };
    for psn in [0, 1, 1, 0, 3, 3, 2] {
        let received = inject(&mut pair, B, pdl(psn, u32::MAX), pure, &[]);
        assert_eq!(received, Received::AckOnly);
    }
    let stats = pair.ends[B].conn.stats();
    // One for the hole at 2 that was filled.
    assert_eq!(
        (stats.tx_packets, stats.rx_acks, stats.duplicates),
        (1, 7, 0)
    );
    assert_eq!(pair.ends[B].conn.deadline(), None);
}

#[test]
fn half_a_window_of_pure_acks_is_answered() {
    let mut pair = Pair::clean(&Config::default());
    let pure = TalHeader {
        ack_xid: u16::MAX,
        ..TalHeader::default()
    };
    for psn in 0..32 {
        inject(&mut pair, B, pdl(psn, u32::MAX), pure, &[]);
    }
    assert_eq!(pair.ends[B].conn.stats().tx_packets, 2);
}

#[test]
fn ack_xid_restarts_the_timer_if_it_is_news() {
    let mut pair = Pair::clean(&Config::default());
    pair.filter = Some(Box::new(|_, _, _| true));
    for _ in 0..2 {
        write(&mut pair, A, 100);
    }
    pair.drive(A);
    // Both have arrived; A waits for ACK XID.
    let pure = |ack_xid| TalHeader {
        ack_xid,
        ..TalHeader::default()
    };
    inject(&mut pair, A, pdl(u32::MAX, 1), pure(u16::MAX), &[]);
    let due = pair.ends[A].conn.deadline().unwrap();
    pair.now = MS;
    inject(&mut pair, A, pdl(u32::MAX, 1), pure(u16::MAX), &[]);
    assert_eq!(pair.ends[A].conn.deadline(), Some(due));
    inject(&mut pair, A, pdl(u32::MAX, 1), pure(0), &[]);
    assert_eq!(pair.ends[A].conn.deadline(), Some(due + MS));
}

#[test]
fn every_transmission_carries_fresh_acknowledgements() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    lose(&mut pair, A, |number| number == 0);
    write(&mut pair, A, 100);
    pair.drive(A);
    // Meanwhile B sends something.
    write(&mut pair, B, 100);
    pair.settle();
    let log: Vec<_> = pair.log.iter().filter(|entry| entry.1 == A).collect();
    let (first, again) = (
        log[0].2,
        log.iter().find(|entry| entry.2.retransmit).unwrap().2,
    );
    assert_eq!((first.psn, again.psn), (0, 0));
    assert_eq!((first.pdl.ack_psn, first.tal.ack_xid), (u32::MAX, u16::MAX));
    assert_eq!((again.pdl.ack_psn, again.tal.ack_xid), (0, 0));
    assert_eq!(first.payload, again.payload);
}

/// Lets an end hear of its peer, which has nothing to say.
fn hear(pair: &mut Pair, end: usize) {
    let pure = TalHeader {
        ack_xid: u16::MAX,
        ..TalHeader::default()
    };
    inject(pair, end, pdl(u32::MAX, u32::MAX), pure, &[]);
}

#[test]
fn peer_that_is_not_there_yet_is_waited_for() {
    let mut pair = Pair::clean(&Config::default());
    pair.filter = Some(Box::new(|now, _, _| now < 600 * SECOND));
    let write = write(&mut pair, A, 100);
    let read = pair.read(A, BASE, 100);
    pair.drive(A);
    while pair.step(599 * SECOND) {}
    assert_eq!(pair.ends[A].conn.state(), State::Open);
    assert!(!pair.ends[A].conn.heard());
    pair.settle();
    assert!(pair.ends[A].conn.heard());
    for token in [write, read] {
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
    }
}

#[test]
fn path_that_becomes_narrow_has_what_is_begun_later_in_shorter_packets() {
    const NARROW: u32 = 600;
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    // Sent again when the path is narrow: with the block that the first transmission had.
    pair.filter = Some(Box::new(|now, _, transmit| {
        now < MS && transmit.data_len() > 0 && transmit.psn % 3 == 1
    }));
    let mut tokens = vec![write(&mut pair, A, 40_000), pair.read(A, BASE, 40_000)];
    pair.drive(A);
    while pair.step(MS) {}
    for end in &mut pair.ends {
        end.conn.set_mtu(NARROW);
        assert_eq!(end.conn.mtu(), NARROW);
    }
    let started = pair.log.len();
    let longest = pair.ends[A]
        .conn
        .max_request_len(&ReqOp::Read { address: 0 });
    assert!(longest < 40_000);
    tokens.push(write(&mut pair, A, 10_000));
    tokens.push(pair.read(A, BASE, longest as u32));
    let later = pair.ends[A].conn.stats().transactions - 2;
    pair.settle();
    for token in tokens {
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
    }
    let len = |transmit: &Transmit| transmit.data_len() + PdlHeader::LEN + TalHeader::LEN + 8;
    let of_later = |transmit: &Transmit| u64::from(transmit.tal.xid) >= later;
    let log = &pair.log[started..];
    assert!(log
        .iter()
        .filter(|e| of_later(&e.2))
        .all(|e| len(&e.2) <= NARROW as usize));
    assert!(log
        .iter()
        .any(|e| e.2.retransmit && len(&e.2) > NARROW as usize));
    // Only the answering end knows: what the peer counted in longer packets is answered in these.
    pair.ends[A].conn.set_mtu(9000);
    let long = pair.read(A, BASE, 40_000);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&long], Ok(()));
    assert_eq!(pair.ends[A].conn.mtu(), Config::default().mtu);
}

#[test]
fn timeout_backs_off_and_a_dead_peer_breaks_the_connection() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    lose(&mut pair, A, |_| true);
    hear(&mut pair, A);
    let token = write(&mut pair, A, 100);
    let other = pair.read(A, BASE, 100);
    pair.settle();
    let times: Vec<u64> = pair
        .log
        .iter()
        .filter(|e| e.2.psn == 0)
        .map(|e| e.0)
        .collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..4], [50 * MS, 100 * MS, 200 * MS, 200 * MS]);
    assert!(gaps[3..].iter().all(|&gap| gap == 200 * MS));
    let lived = times.last().unwrap() - times[0];
    let dead = Config::default().pdl_dead_time;
    assert!((dead - 200 * MS..=dead + 200 * MS).contains(&lived));
    let end = &pair.ends[A];
    assert_eq!(end.broken, Some(BrokenCause::PeerDead { psn: 0 }));
    assert_eq!(end.conn.state(), State::Broken);
    for token in [token, other] {
        assert_eq!(end.completed[&token], Err(Code::ABORTED_BROKEN));
    }
    let submit = Request {
        op: ReqOp::Noop,
        count: 1,
        len: 0,
        token: 0,
    };
    let refused = pair.try_submit(A, submit, Vec::new(), Vec::new());
    assert_eq!(refused, Err(SubmitError::Stopped));
    let received = inject(
        &mut pair,
        A,
        pdl(0, 0),
        tal(Opcode::Noop, true, 0, 0, 0),
        &[],
    );
    assert_eq!(received, Received::Dropped(DropReason::NotRunning));
}

/// One packet at a time may be repeated, by the timer alone.
fn timer_only() -> Config {
    Config {
        pdl_rtx_max_pkts: 0,
        ..Config::default()
    }
}

#[test]
fn repairs_answered_in_time_end_back_off() {
    let mut pair = Pair::clean(&timer_only());
    write(&mut pair, A, 100);
    pair.settle();
    // A flight is lost whole, and there is nothing new to send that could be measured.
    lose(&mut pair, A, |number| number < 20);
    let start = pair.now;
    let token = write(&mut pair, A, 20 * 1400);
    pair.run_until(SECOND, |pair| pair.ends[A].completed.contains_key(&token));
    let took = pair.now - start;
    assert_eq!(pair.ends[A].conn.stats().timeouts, 20);
    // 20 timeouts of about 10 ms each; at the limit of back-off it would be three seconds.
    assert!(took < 300 * MS, "{} ms", took / MS);
}

#[test]
fn round_trip_that_grew_is_learnt_though_repeated_packets_are_answered_in_time() {
    let mut pair = Pair::clean(&timer_only());
    write(&mut pair, A, 100);
    pair.settle();
    // So long that the answer to the first of two transmissions comes soon after the second.
    pair.link.config.delay = 5 * MS + 300_000;
    let before = pair.ends[A].conn.stats().retransmits_timeout;
    for _ in 0..500 {
        let token = write(&mut pair, A, 100);
        pair.run_until(SECOND, |pair| pair.ends[A].completed.contains_key(&token));
    }
    let repeated = pair.ends[A].conn.stats().retransmits_timeout - before;
    assert!((10..=100).contains(&repeated), "{repeated} in vain");
    assert!(pair.ends[A].conn.stats().rto > 11 * MS);
}

#[test]
fn path_that_passes_only_small_packets_breaks_the_connection() {
    let mut pair = Pair::clean(&Config::default());
    pair.filter = Some(Box::new(|_, _, transmit| transmit.data_len() > 500));
    write(&mut pair, A, 1000);
    for _ in 0..2000 {
        let until = pair.now + 5 * MS;
        while pair.step(until) {}
        if pair.ends[A].conn.inflight_transactions() < 20 && pair.ends[A].broken.is_none() {
            write(&mut pair, A, 100);
            pair.drive(A);
        }
    }
    assert_eq!(pair.ends[A].broken, Some(BrokenCause::PeerDead { psn: 0 }));
}

#[test]
fn lost_acknowledgement_of_an_answered_transaction_is_asked_for() {
    // The write behind the read completes only when ACK XID passes the read, which the target tells
    // in a pure ACK that nobody acknowledges.
    let mut pair = Pair::clean(&Config::default());
    pair.filter = Some(Box::new(|now, from, transmit| {
        from == B && transmit.tal.is_pure_ack() && now < 40 * MS
    }));
    let tokens = [pair.read(A, BASE, 100), write(&mut pair, A, 100)];
    pair.settle();
    for token in tokens {
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
    }
    let stats = pair.ends[A].conn.stats();
    assert!(stats.probes > 0 && stats.probes < 10, "{stats:?}");
}

#[test]
fn window_of_lost_pure_acks_is_cleared_through_a_queue_of_two() {
    // A's window is full of pure ACKs, most of them lost. What it then sends at a time is more than the
    // way to B holds, which drops the same packets each time: all but the first two.
    let config = Config {
        pdl_rtx_max_pkts: 64,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    let mut acks = 0;
    pair.filter = Some(Box::new(move |_, from, transmit| {
        acks += u32::from(from == A && transmit.tal.is_pure_ack());
        from == A && acks % 8 != 0
    }));
    for _ in 0..60 {
        write(&mut pair, B, 3000);
        pair.settle();
    }
    assert!(pair.ends[A].conn.inflight_packets() >= 31);
    let (mut last, mut together) = (0, 0);
    pair.filter = Some(Box::new(move |now, from, _| {
        if from != A {
            return false;
        }
        if now != last {
            (last, together) = (now, 0);
        }
        together += 1;
        together > 2
    }));
    let token = write(&mut pair, A, 100);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
}

/// A pair of which A has 300 packets in flight, pure ACKs of which seven of eight are lost, and repeats
/// nothing but what the timer has to.
fn pure_acks_lost(ordered: bool) -> Pair {
    let config = Config {
        pdl_window_size: 1024,
        pdl_receive_win: 1024,
        pdl_rtx_max_pkts: 0,
        ordered_tx: ordered,
        ordered_rx: ordered,
        ..Config::default()
    };
    let mut pair = Pair::clean(&config);
    let mut acks = 0;
    pair.filter = Some(Box::new(move |_, from, transmit| {
        acks += u32::from(from == A && transmit.tal.is_pure_ack());
        from == A && acks % 8 != 0
    }));
    while pair.ends[A].conn.inflight_packets() < 300 {
        write(&mut pair, B, 3000);
        pair.settle();
    }
    pair
}

#[test]
fn timer_repeats_a_request_though_lost_pure_acks_come_before_it() {
    // Behind hundreds of lost pure ACKs, further than a SACK reaches; the timer is all there is. (In
    // order the request could not be delivered before all of them.)
    let mut pair = pure_acks_lost(false);
    let mut first = true;
    pair.filter = Some(Box::new(move |_, from, _| {
        from == A && core::mem::take(&mut first)
    }));
    let before = pair.ends[A].conn.stats().retransmits_timeout;
    write(&mut pair, A, 100);
    pair.run_until(100_000 * MS, Pair::all_complete);
    let repeated = pair.ends[A].conn.stats().retransmits_timeout - before;
    assert!(repeated <= 3, "{repeated} packets repeated");
}

#[test]
fn timer_repeats_several_lost_pure_acks_at_once() {
    // In order the request waits for every one of them, and each other one is lost again.
    let mut pair = pure_acks_lost(true);
    let mut acks = 0;
    pair.filter = Some(Box::new(move |_, from, transmit| {
        let pure = from == A && transmit.tal.is_pure_ack();
        acks += u32::from(pure);
        pure && acks % 2 == 0
    }));
    let before = pair.ends[A].conn.stats().timeouts;
    let token = write(&mut pair, A, 100);
    pair.run_until(100_000 * MS, Pair::all_complete);
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
    let timeouts = pair.ends[A].conn.stats().timeouts - before;
    assert!(timeouts <= 250, "{timeouts} timeouts");
}

#[test]
fn out_of_window_values_are_dropped_and_reported() {
    let mut pair = Pair::clean(&Config::default());
    write(&mut pair, B, 100);
    pair.drive(B);
    let header = tal(Opcode::Noop, true, 0, 0, 0);
    let late = tal(Opcode::Noop, true, 0, 0, 32);
    let ack_xid = TalHeader {
        ack_xid: 1,
        ..header
    };
    for (pdl, tal, reason, value) in [
        (pdl(32, u32::MAX), header, DropReason::OutOfWindow, 32),
        (pdl(0, 1), header, DropReason::AckOutOfWindow, 1),
        (pdl(0, 0), ack_xid, DropReason::AckXidOutOfWindow, 1),
        (pdl(0, u32::MAX), late, DropReason::XidOutOfWindow, 32),
    ] {
        let received = inject(&mut pair, B, pdl, tal, &[]);
        assert_eq!(received, Received::Dropped(reason));
        let report = pair.ends[B].reports.pop().unwrap();
        assert_eq!((report.reason, report.value), (reason, value));
    }
    // Nothing was acknowledged by the refused packets.
    assert_eq!(pair.ends[B].conn.inflight_packets(), 1);
    assert_eq!(pair.ends[B].conn.stats().out_of_window, 4);
}

#[test]
fn ordered_connection_delivers_in_order_of_psn() {
    let mut pair = Pair::clean(&Config::default());
    lose(&mut pair, A, |number| number % 3 == 0 && number < 30);
    for _ in 0..30 {
        write(&mut pair, A, 100);
    }
    pair.settle();
    assert_eq!(pair.ends[B].memory.completed, (0..30).collect::<Vec<u16>>());
}

#[test]
fn windows_of_one_packet_make_progress_and_come_to_rest() {
    for window in [1, 2, 3, 4, 5] {
        let config = Config {
            pdl_receive_win: window,
            pdl_window_size: 16,
            ..Config::default()
        };
        let mut pair = Pair::clean(&config);
        pair.link.config.loss = 20;
        for end in [A, B] {
            for _ in 0..10 {
                write(&mut pair, end, 3000);
                pair.read(end, BASE, 3000);
            }
        }
        pair.settle();
        let packets = pair.link.carried;
        assert!(packets < 1000, "{packets} packets at window {window}");
    }
}

#[test]
fn window_full_of_lost_pure_acks_is_cleared() {
    // B sends only ACKs, of which all are lost for a while; then B wants to send.
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        ordered_tx: false,
        ordered_rx: false,
        ..Config::default()
    });
    pair.filter = Some(Box::new(|now, from, _| from == B && now < 600 * MS));
    for _ in 0..12 {
        write(&mut pair, A, 100);
    }
    pair.drive(A);
    while pair.step(500 * MS) {}
    for _ in 0..12 {
        write(&mut pair, B, 100);
    }
    pair.settle();
    assert!(pair.all_complete());
}

#[test]
fn idle_connection_has_no_timer_and_keeps_none() {
    let mut pair = Pair::clean(&Config::default());
    assert_eq!(pair.ends[A].conn.deadline(), None);
    assert!(pair.ends[A].conn.idle());
    write(&mut pair, A, 100);
    pair.settle();
    // The pure ACK of B is never acknowledged, and nobody waits for it.
    assert_eq!(pair.ends[B].conn.inflight_packets(), 1);
    pair.ends[B].conn.expire(100 * SECOND);
    assert_eq!(pair.ends[B].conn.poll_transmit(100 * SECOND), None);
}

#[test]
fn delayed_ack_is_sent_at_its_deadline() {
    let mut pair = Pair::clean(&Config::default());
    let header = tal(Opcode::Write, false, 1, 0, 0);
    inject(&mut pair, B, pdl(0, u32::MAX), header, &write_op(BASE));
    assert_eq!(pair.ends[B].conn.stats().tx_packets, 0);
    assert_eq!(pair.ends[B].conn.deadline(), Some(500 * US));
    pair.settle();
    assert_eq!(pair.ends[B].conn.stats().tx_acks, 1);
    assert_eq!(pair.now, 500 * US + 20 * US);
}

/// A quarter of the packets of one who sees none, and guesses PSN and ACK PSN.
#[test]
fn old_packet_with_an_old_ack_psn_is_answered_and_tells_nothing() {
    let mut pair = Pair::clean(&Config {
        ext: Extensions::Auto,
        ..Config::default()
    });
    let old = 0u32.wrapping_sub(1 << 20);
    for header in [
        tal(Opcode::Noop, true, 0, 0, 0),
        tal(Opcode::Noop, false, 0, 0, 0),
    ] {
        let received = inject(&mut pair, B, pdl(old, old), header, &[]);
        assert_eq!(received, Received::AckOnly);
    }
    let conn = &pair.ends[B].conn;
    assert_eq!((conn.heard(), conn.ext()), (false, None));
    // By the question about extensions, which is an acknowledgement, too. The pure ACK is not.
    let stats = conn.stats();
    assert_eq!((stats.duplicates, stats.probes, stats.tx_acks), (1, 1, 0));
    // The peer answers the question.
    pair.settle();
    let conn = &pair.ends[B].conn;
    assert_eq!((conn.heard(), conn.ext()), (true, Some(true)));
}

#[test]
fn acknowledgements_of_a_stale_packet_are_ignored_at_both_layers() {
    let mut pair = Pair::clean(&Config {
        ordered_rx: false,
        ..Config::default()
    });
    for _ in 0..4 {
        write(&mut pair, B, 100);
    }
    pair.drive(B);
    let header = TalHeader {
        ack_xid: 0,
        ..tal(Opcode::Noop, true, 0, 0, 0)
    };
    inject(&mut pair, B, pdl(0, 1), header, &[]);
    assert_eq!(pair.ends[B].order, [1]);
    // So old that its ACK XID has come round: to what is in the window, or to what is not.
    for (psn, ack_xid) in [(1, 2), (2, 20_000)] {
        let old = TalHeader {
            xid: 1,
            ack_xid,
            ..header
        };
        let received = inject(&mut pair, B, pdl(psn, u32::MAX), old, &[]);
        assert!(!matches!(
            received,
            Received::Dropped(DropReason::AckXidOutOfWindow)
        ));
        assert_eq!(pair.ends[B].order, [1]);
    }
}

#[test]
fn answer_behind_lost_pure_acks_is_not_kept_waiting() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        ordered_tx: false,
        ordered_rx: false,
        ..Config::default()
    });
    // B's window is full of pure ACKs that A never saw; B has nothing else in flight.
    pair.filter = Some(Box::new(|now, from, _| from == B && now < 100 * MS));
    for _ in 0..20 {
        write(&mut pair, A, 100);
    }
    pair.drive(A);
    while pair.step(90 * MS) {}
    assert!(pair.ends[B].conn.inflight_packets() >= 15);
    pair.read(A, BASE, 100);
    pair.settle();
    assert!(pair.now < SECOND, "{}", pair.describe());
}

thread_local! {
    /// Slabs that can still be had.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

struct Scarce;

impl Slabs for Scarce {
    type Slab<T> = Vec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<Vec<T>> {
        let left = LEFT.get().checked_sub(1)?;
        LEFT.set(left);
        Heap::slab(n)
    }
}

#[test]
fn connection_without_memory_for_any_of_its_windows_is_not_created() {
    let create = |slabs| {
        LEFT.set(slabs);
        Connection::<Scarce>::new(&Config::default(), 0).err()
    };
    let needed = (0..100).find(|&slabs| create(slabs).is_none()).unwrap();
    assert!(needed > 5);
    for slabs in 0..needed {
        assert_eq!(create(slabs), Some(NewError::NoMemory));
    }
}

#[test]
fn parameter_out_of_range_is_named() {
    let config = Config {
        pdl_window_size: 8,
        ..Config::default()
    };
    let Err(NewError::Config(error)) = Connection::<Heap>::new(&config, 0) else {
        panic!("created");
    };
    assert_eq!((error.name, error.value), ("pdl_window_size", 8));
}

/// Windows that `from` advertised since the log was last emptied.
fn advertised(pair: &mut Pair, from: usize) -> Vec<u32> {
    let log = std::mem::take(&mut pair.log);
    let sent = log.into_iter().filter(|entry| entry.1 == from);
    sent.map(|entry| entry.2.pdl.window).collect()
}

#[test]
fn limited_receive_window_is_advertised_between_one_and_what_was_configured() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 64,
        pdl_receive_win: 100,
        ..Config::default()
    });
    pair.trace = true;
    for (limit, window) in [(0, 1), (1, 1), (7, 7), (64, 64), (65, 64), (u32::MAX, 64)] {
        let now = pair.now;
        pair.ends[B].conn.set_receive_limit(now, limit);
        write(&mut pair, A, 30 * 1448);
        pair.settle();
        let windows = advertised(&mut pair, B);
        assert!(windows.iter().all(|w| *w == window), "{limit}: {windows:?}");
        assert!(!windows.is_empty());
    }
    assert_eq!(pair.retransmits(), 0);
}

#[test]
fn limited_sender_keeps_to_the_window_and_is_not_slowed_by_delayed_acks() {
    for limit in [1, 2, 3, 5, 16] {
        let mut pair = Pair::clean(&Config::default());
        pair.ends[B].conn.set_receive_limit(0, limit);
        // A learns it from the first acknowledgement.
        write(&mut pair, A, 100);
        pair.settle();
        let start = pair.now;
        write(&mut pair, A, 30 * 1452);
        let mut most = 0;
        pair.run_until(SECOND, |pair| {
            most = most.max(pair.ends[A].conn.inflight_packets());
            pair.all_complete()
        });
        assert!(most <= limit, "{most} in flight");
        // A round trip for each window, and none of the delay of an acknowledgement.
        let trips = u64::from(30u32.div_ceil(limit)) + 1;
        assert!(
            pair.now - start <= 2 * trips * 41 * US,
            "{limit}: {}",
            pair.now - start
        );
        pair.settle();
        assert_eq!(pair.retransmits(), 0);
    }
}

#[test]
fn packets_sent_before_the_limit_was_heard_of_are_accepted() {
    for ordered in [false, true] {
        let mut pair = Pair::clean(&Config {
            ordered_rx: ordered,
            ordered_tx: ordered,
            ..Config::default()
        });
        // The first is lost, so that the others lie above a hole.
        lose(&mut pair, A, |number| number == 0);
        let token = write(&mut pair, A, 32 * 1448);
        pair.drive(A);
        assert!(pair.ends[A].conn.inflight_packets() >= 31);
        pair.ends[B].conn.set_receive_limit(0, 1);
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
        let stats = pair.ends[B].conn.stats();
        assert_eq!((pair.retransmits(), stats.out_of_window), (1, 0));
    }
}

#[test]
fn window_that_grows_much_is_told_within_the_delay_and_little_growth_is_not() {
    let mut pair = Pair::clean(&Config::default());
    pair.trace = true;
    pair.ends[B].conn.set_receive_limit(0, 4);
    write(&mut pair, A, 100);
    pair.settle();
    advertised(&mut pair, B);
    let start = pair.now;
    pair.ends[B].conn.set_receive_limit(start, 7);
    pair.settle();
    assert_eq!(advertised(&mut pair, B), []);
    let start = pair.now;
    pair.ends[B].conn.set_receive_limit(start, 8);
    assert_eq!(pair.ends[B].conn.deadline(), Some(start + 500 * US));
    pair.settle();
    assert_eq!(advertised(&mut pair, B), [8]);
    // Once is enough.
    let now = pair.now;
    pair.ends[B].conn.set_receive_limit(now, 8);
    pair.settle();
    assert_eq!(advertised(&mut pair, B), []);
}
