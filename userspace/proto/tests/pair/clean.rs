// SPDX-License-Identifier: GPL-2.0 OR MIT
//! On a path that loses nothing and keeps order nothing is ever sent twice, however slow the ends are.

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{Cpu, Pair, A, B};
use crate::{MS, SECOND, US};
use superp_proto::{Config, ReqOp, Request, SubmitError};

fn write(pair: &mut Pair, from: usize, len: usize) -> Result<u64, SubmitError> {
    let request = Request {
        op: ReqOp::Write { address: BASE },
        count: 1,
        len: len as u32,
        token: 0,
    };
    let data = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    pair.try_submit(from, request, data, Vec::new())
}

fn read(pair: &mut Pair, from: usize, len: u32) -> Result<u64, SubmitError> {
    let request = Request {
        op: ReqOp::Read { address: BASE },
        count: 1,
        len,
        token: 0,
    };
    pair.try_submit(from, request, Vec::new(), Vec::new())
}

/// Keeps the windows of `from` full until `count` transactions are complete.
fn stream(
    pair: &mut Pair,
    from: &[usize],
    count: usize,
    submit: impl Fn(&mut Pair, usize) -> Result<u64, SubmitError>,
) {
    let mut left = from.iter().map(|&end| (end, count)).collect::<Vec<_>>();
    while left.iter().any(|&(_, n)| n > 0) || !pair.all_complete() {
        for (end, n) in &mut left {
            while *n > 0 && submit(pair, *end).is_ok() {
                *n -= 1;
            }
            pair.drive(*end);
        }
        assert!(pair.step(u64::MAX), "stuck: {}", pair.describe());
    }
    pair.settle();
}

fn assert_clean(pair: &Pair) {
    assert_eq!(pair.retransmits(), 0, "{}", pair.describe());
    for end in &pair.ends {
        let stats = end.conn.stats();
        assert_eq!((stats.timeouts, stats.probes, stats.duplicates), (0, 0, 0));
        assert_eq!(end.reports, []);
    }
}

fn config(mtu: u32) -> Config {
    Config {
        mtu,
        ..Config::default()
    }
}

#[test]
fn write_read_and_send_complete() {
    let mut pair = Pair::clean(&Config::default());
    let data: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    let address = BASE + 77;
    pair.submit(A, ReqOp::Write { address }, data.clone());
    pair.run_until(MS, Pair::all_complete);
    assert_eq!(pair.ends[B].memory.bytes[77..5077], data);
    let token = pair.read(A, address, 5000);
    pair.submit(A, ReqOp::SendQp { qp: 9 }, data.clone());
    pair.settle();
    let read = &pair.ends[A].memory.reads[&token];
    assert!(read
        .iter()
        .zip(&data)
        .all(|(got, want)| *got == Some(*want)));
    assert_eq!(pair.ends[B].memory.messages[0].data, data);
    assert_clean(&pair);
}

#[test]
fn streams_of_each_kind_are_clean_at_any_window() {
    for window in [16, 32, 100, 1024] {
        for ordered in [false, true] {
            let config = Config {
                pdl_window_size: window,
                pdl_receive_win: window,
                ordered_tx: ordered,
                ordered_rx: ordered,
                ..config(1484)
            };
            for from in [&[A][..], &[A, B]] {
                let mut pair = Pair::clean(&config);
                stream(&mut pair, from, 300, |pair, end| write(pair, end, 30_000));
                assert_clean(&pair);
                let mut pair = Pair::clean(&config);
                stream(&mut pair, from, 300, |pair, end| write(pair, end, 64));
                assert_clean(&pair);
                let mut pair = Pair::clean(&config);
                stream(&mut pair, from, 300, |pair, end| read(pair, end, 30_000));
                assert_clean(&pair);
                let mut pair = Pair::clean(&config);
                stream(&mut pair, from, 300, |pair, end| read(pair, end, 64));
                assert_clean(&pair);
            }
        }
    }
}

#[test]
fn slow_receivers_cause_no_retransmission() {
    // From a fast host to one whose every packet takes a millisecond, in batches of any size.
    for cost in [US, 50 * US, 300 * US, MS] {
        for batch in [1, 8, 64] {
            for (slow, from) in [(&[B][..], &[A][..]), (&[A, B], &[A]), (&[A, B], &[A, B])] {
                let mut pair = Pair::clean(&config(8992));
                for &end in slow {
                    pair.ends[end].cpu = Cpu { cost, batch };
                }
                stream(&mut pair, from, 12, |pair, end| write(pair, end, 100_000));
                assert_clean(&pair);
                stream(&mut pair, from, 12, |pair, end| read(pair, end, 100_000));
                assert_clean(&pair);
            }
        }
    }
}

#[test]
fn slow_wire_causes_no_retransmission() {
    // 9000 bytes at 100 Mbit/s take 0.7 ms; a window of them 23 ms.
    let link = LinkConfig {
        delay: 15 * MS,
        wire_time: 700 * US,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([config(8992), config(8992)], link, 0);
    stream(&mut pair, &[A, B], 40, |pair, end| {
        write(pair, end, 200_000)
    });
    assert_clean(&pair);
}

#[test]
fn path_longer_than_the_first_timeout_is_learned() {
    let link = LinkConfig {
        delay: 50 * MS,
        wire_time: 100 * US,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([config(8992), config(8992)], link, 0);
    stream(&mut pair, &[A, B], 5, |pair, end| write(pair, end, 200_000));
    let wasted = pair.retransmits();
    assert!(wasted < 50, "{}", pair.describe());
    stream(&mut pair, &[A, B], 40, |pair, end| {
        write(pair, end, 200_000)
    });
    assert_eq!(pair.retransmits(), wasted, "{}", pair.describe());
}

#[test]
fn path_that_becomes_longer_is_learned() {
    let mut pair = Pair::clean(&config(8992));
    stream(&mut pair, &[A, B], 20, |pair, end| {
        write(pair, end, 200_000)
    });
    assert_clean(&pair);
    pair.link.config.delay = 40 * MS;
    stream(&mut pair, &[A, B], 20, |pair, end| {
        write(pair, end, 200_000)
    });
    let wasted = pair.retransmits();
    assert!(wasted < 150, "{}", pair.describe());
    stream(&mut pair, &[A, B], 40, |pair, end| {
        write(pair, end, 200_000)
    });
    assert_eq!(pair.retransmits(), wasted, "{}", pair.describe());
}

#[test]
fn stall_of_the_own_cpu_causes_no_retransmission() {
    for length in [20 * MS, 100 * MS, SECOND] {
        let mut pair = Pair::clean(&config(8992));
        stream(&mut pair, &[A], 20, |pair, end| write(pair, end, 100_000));
        write(&mut pair, A, 100_000).unwrap();
        pair.drive(A);
        // The ACKs wait while A does not run, and A's timer looks before A receives.
        pair.ends[A].stalled_until = pair.now + length;
        pair.settle();
        assert_clean(&pair);
    }
}

#[test]
fn trickle_of_single_packets_is_clean() {
    let mut pair = Pair::clean(&config(1484));
    for i in 0..200 {
        let end = i % 2;
        write(&mut pair, end, 100).unwrap();
        pair.drive(end);
        let until = pair.now + [10 * US, 100 * US, 700 * US, 30 * MS][i % 4];
        while pair.step(until) {}
    }
    pair.settle();
    assert_clean(&pair);
}

#[test]
fn a_window_costs_few_acknowledgements() {
    let config = config(8992);
    let mut pair = Pair::clean(&config);
    stream(&mut pair, &[A], 20, |pair, end| write(pair, end, 32 * 8952));
    let sent = pair.ends[A].conn.stats().tx_packets;
    let acks = pair.ends[B].conn.stats().tx_packets;
    assert!(sent >= 640 && acks <= sent / 8 + 40, "{sent} {acks}");
    assert_clean(&pair);
}

#[test]
fn lone_packet_that_completes_nothing_is_acknowledged_within_the_delay() {
    let mut pair = Pair::clean(&config(8992));
    pair.trace = true;
    // A read's reply completes the read at once; its own acknowledgement may wait.
    pair.read(A, BASE, 100);
    pair.settle();
    let acks: Vec<_> = pair
        .log
        .iter()
        .filter(|entry| entry.2.tal.is_pure_ack())
        .collect();
    // A acknowledges the reply, upon which the read retires at B, and B tells ACK XID.
    assert_eq!(acks.len(), 2);
    assert_eq!((acks[0].1, acks[1].1), (A, B));
    assert_eq!(acks[1].2.tal.ack_xid, 0);
    assert_clean(&pair);
}
