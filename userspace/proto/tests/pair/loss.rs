// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What loss, reordering and duplication cost.

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{Pair, A, B};
use crate::{MS, US};
use std::collections::HashMap;
use superp_proto::{Config, ReqOp, Request, Transmit};

/// Moves 16 MiB in writes over a link; the pair, and the time it took.
fn transfer(config: &Config, link: LinkConfig, seed: u64) -> (Pair, u64) {
    let mut pair = Pair::new([config.clone(), config.clone()], link, seed);
    let op = ReqOp::Write { address: BASE };
    let len = pair.ends[A].conn.max_request_len(&op) as u32;
    let request = Request {
        op,
        count: 1,
        len,
        token: 0,
    };
    let mut left = 16 << 20;
    while left > 0 || !pair.all_complete() {
        while left > 0 {
            let data = vec![left as u8; len as usize];
            if pair.try_submit(A, request, data, Vec::new()).is_err() {
                break;
            }
            left -= i64::from(len);
        }
        pair.drive(A);
        assert!(pair.step(u64::MAX), "stuck: {}", pair.describe());
    }
    let time = pair.now;
    pair.settle();
    (pair, time)
}

fn ten_gigabit() -> LinkConfig {
    LinkConfig {
        delay: 20 * US,
        wire_time: 7 * US,
        ..LinkConfig::default()
    }
}

fn config(ordered: bool) -> Config {
    Config {
        mtu: 8992,
        ordered_tx: ordered,
        ordered_rx: ordered,
        ..Config::default()
    }
}

/// Time of a transfer without loss.
const CLEAN: u64 = 13_500 * US;

#[test]
fn one_percent_of_loss_costs_about_one_percent_of_packets() {
    for ordered in [false, true] {
        for seed in 0..3 {
            let link = LinkConfig {
                loss: 10,
                ..ten_gigabit()
            };
            let (pair, time) = transfer(&config(ordered), link, seed);
            let lost = pair.link.lost;
            assert!(pair.retransmits() <= lost + 10, "{}", pair.describe());
            assert!(time < 4 * CLEAN, "{time} ns: {}", pair.describe());
        }
    }
}

#[test]
fn reordering_is_not_taken_for_loss() {
    // Packets overtake four others on the average, then all others.
    for (jitter, limit) in [(30 * US, 10), (MS, 60)] {
        let link = LinkConfig {
            jitter,
            ..ten_gigabit()
        };
        let (pair, _) = transfer(&config(false), link, 1);
        assert!(pair.retransmits() < limit, "{}", pair.describe());
    }
}

/// A CPU of the sender that stands still for a while, with packets in its queue.
#[test]
fn lane_that_is_late_is_not_taken_for_loss() {
    for ordered in [false, true] {
        let link = LinkConfig {
            second_lane: Some(5 * MS),
            ..ten_gigabit()
        };
        let (pair, _) = transfer(&config(ordered), link, 1);
        assert_eq!(pair.retransmits(), 0, "{}", pair.describe());
    }
}

#[test]
fn loss_among_two_lanes_costs_about_what_is_lost() {
    for seed in 0..3 {
        let link = LinkConfig {
            loss: 10,
            second_lane: Some(10 * US),
            ..ten_gigabit()
        };
        let (pair, time) = transfer(&config(true), link, seed);
        let lost = pair.link.lost;
        assert!(pair.retransmits() <= lost + 10, "{}", pair.describe());
        assert!(time < 4 * CLEAN, "{time} ns: {}", pair.describe());
    }
}

#[test]
fn duplication_causes_no_retransmission() {
    let link = LinkConfig {
        duplicate: 300,
        ..ten_gigabit()
    };
    let (pair, time) = transfer(&config(true), link, 1);
    assert_eq!(pair.retransmits(), 0);
    assert!(time < CLEAN);
}

#[test]
fn loss_reordering_and_duplication_together_leave_most_of_the_speed() {
    for seed in 0..3 {
        let link = LinkConfig {
            loss: 10,
            duplicate: 10,
            jitter: 100 * US,
            ..ten_gigabit()
        };
        let (pair, time) = transfer(&config(true), link, seed);
        assert!(pair.retransmits() < 100, "{}", pair.describe());
        assert!(time < 6 * CLEAN, "{time} ns: {}", pair.describe());
    }
}

#[test]
fn burst_that_takes_a_whole_window_is_repaired() {
    let mut pair = Pair::clean(&config(true));
    pair.filter = Some(Box::new(|now, from, _| from == A && now < MS));
    pair.submit(A, ReqOp::Write { address: BASE }, vec![1; 200_000]);
    pair.settle();
    let stats = pair.ends[A].conn.stats();
    // One timeout shows the way, new acknowledgements do the rest.
    assert!(stats.timeouts <= 3, "{stats:?}");
    assert!(pair.retransmits() <= 30, "{}", pair.describe());
}

/// A burst of 250 packets, all in the window, of which `lost` says what is lost: PSN, and how often it
/// was sent before. `nacks`: whether the receiver's NACKs arrive.
fn burst(batch: usize, nacks: bool, lost: impl Fn(u32, u32) -> bool + 'static) -> Pair {
    let config = Config {
        pdl_window_size: 256,
        pdl_receive_win: 256,
        ..config(false)
    };
    let mut pair = Pair::new([config.clone(), config], ten_gigabit(), 0);
    pair.trace = true;
    pair.ends[B].cpu.batch = batch;
    pair.ends[B].cpu.cost = US;
    let mut sent = HashMap::<u32, u32>::new();
    pair.filter = Some(Box::new(move |_, from, transmit| {
        if from == B {
            return !nacks && transmit.pdl.is_nack();
        }
        let before = sent.entry(transmit.psn).or_default();
        *before += 1;
        lost(transmit.psn, *before - 1)
    }));
    for _ in 0..10 {
        pair.submit(A, ReqOp::Write { address: BASE }, vec![1; 25 * 8952]);
    }
    pair.settle();
    pair
}

/// PSNs that `pair` sent more than once, each as often as it was repeated.
fn repeated(pair: &Pair) -> Vec<u32> {
    let again = |entry: &&(u64, usize, Transmit)| entry.1 == A && entry.2.retransmit;
    pair.log
        .iter()
        .filter(again)
        .map(|entry| entry.2.psn)
        .collect()
}

#[test]
fn early_hole_and_lost_end_of_a_burst_cost_what_was_lost() {
    // 3 is lost twice, so that its timer expires; 100 to 130 and the last ones are lost once.
    let lost = |psn, before| match psn {
        3 => before < 2,
        100..=130 | 240..=249 => before < 1,
        _ => false,
    };
    for batch in [1, 64] {
        let with = burst(batch, true, lost);
        let without = burst(batch, false, lost);
        let expected: Vec<u32> = [3].into_iter().chain(100..=130).chain(240..=249).collect();
        let mut psns = repeated(&with);
        let count = psns.len();
        psns.sort_unstable();
        psns.dedup();
        assert_eq!(psns, expected, "{}", with.describe());
        assert_eq!(count as u64, with.retransmits());
        // 3 again, and what went with a timeout that was told of too late.
        assert!(count <= expected.len() + 1, "{}", with.describe());
        assert!(
            repeated(&without).len() > count + 4,
            "{}",
            without.describe()
        );
        assert!(with.ends[B].conn.stats().tx_nacks > 0);
        assert!(with.ends[A].conn.stats().rx_nacks > 0);
    }
}

#[test]
fn what_a_nack_names_is_not_sent_again() {
    for batch in [1, 16, 64] {
        // Every third from 40 on is lost, the base three times.
        let pair = burst(batch, true, |psn, before| match psn {
            0 => before < 3,
            _ => psn >= 40 && psn % 3 == 0 && before == 0,
        });
        let mut named = HashMap::<u32, u64>::new();
        for (at, from, transmit) in &pair.log {
            if *from == A {
                let known = named.get(&transmit.psn).is_some_and(|since| since < at);
                assert!(!known, "{} again: {}", transmit.psn, pair.describe());
            } else if transmit.pdl.is_nack() {
                // When it has arrived.
                let since = at + ten_gigabit().delay + ten_gigabit().wire_time;
                for bit in (0..32).filter(|bit| transmit.pdl.sack >> bit & 1 != 0) {
                    named
                        .entry(transmit.pdl.ack_psn + bit)
                        .or_insert(since + 10 * US);
                }
            }
        }
        assert!(named.len() > 100, "{} named", named.len());
    }
}

#[test]
fn acknowledgements_beyond_a_hole_alternate() {
    let pair = burst(1, true, |psn, before| psn == 0 && before < 2);
    let sent = |entry: &&(u64, usize, Transmit)| entry.1 == B;
    let nacks: Vec<bool> = pair
        .log
        .iter()
        .filter(sent)
        .map(|e| e.2.pdl.is_nack())
        .collect();
    assert!(nacks.windows(2).all(|pair| pair != [true, true]));
    let count = nacks.iter().filter(|nack| **nack).count();
    assert!(count > 80, "{count} NACKs");
    // One acknowledgement for each packet above the hole, and few more.
    assert!(nacks.len() < 260, "{} acknowledgements", nacks.len());
}
