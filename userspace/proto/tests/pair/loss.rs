// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What loss, reordering and duplication cost.

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{Pair, A};
use crate::{MS, US};
use superp_proto::{Config, ReqOp, Request};

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
