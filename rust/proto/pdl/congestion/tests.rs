// SPDX-License-Identifier: GPL-2.0 OR MIT
use super::*;
use crate::proto::Config;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Constants that make a calculation easy.
const TUNING: CongestionTuning = CongestionTuning {
    initial: 2,
    start: 1,
    allowance: 10_000,
    allowance_quarters: 2,
    scaling_quarters: 0,
    increase: 64,
    increase_part: 0,
    increase_small: 64,
    decrease: 256,
    decrease_lost: 32,
};

fn congestion(window: u32) -> Congestion {
    let config = Config {
        pdl_congestion: 1,
        pdl_window_size: 32,
        congestion_tuning: TUNING,
        ..Config::default()
    };
    let mut congestion = Congestion::new(&config);
    congestion.start();
    congestion.measured(0, 10 * US);
    congestion.window = window;
    congestion
}

/// `packets` packets of a full window are acknowledged at once after `delay`.
fn acknowledge(congestion: &mut Congestion, now: u64, packets: u32, delay: u64) {
    let sample = Sample {
        age: delay,
        prompt: true,
        deviation: 0,
    };
    congestion.acknowledged(now, packets, sample, 32);
}

#[test]
fn nothing_is_limited_unless_it_is_configured_and_the_peer_can_be_asked() {
    let mut off = Congestion::new(&Config {
        pdl_congestion: 0,
        ..Config::default()
    });
    off.start();
    let without_peer = Congestion::new(&Config {
        pdl_congestion: 1,
        ..Config::default()
    });
    for mut congestion in [off, without_peer] {
        congestion.lost(MS);
        congestion.timed_out(2 * MS);
        assert!(!congestion.enabled());
        assert_eq!(congestion.room(3 * MS, 1000), u32::MAX);
        assert_eq!(congestion.room_to_follow(1000), u32::MAX);
        assert_eq!(congestion.pause_end(0), None);
        assert_eq!(congestion.packets(), None);
        assert_eq!(congestion.scatter(MS), MS);
    }
}

#[test]
fn window_doubles_at_the_start_and_less_when_a_queue_grows() {
    let mut congestion = congestion(2 * PACKET);
    acknowledge(&mut congestion, MS, 2, 10 * US);
    assert_eq!(congestion.window, 4 * PACKET);
    // Half of what ends the start is used up.
    acknowledge(&mut congestion, 2 * MS, 4, 12_500);
    assert_eq!(congestion.window, 6 * PACKET);
    assert!(congestion.starting);
    // From here on it grows by one packet in a round trip.
    acknowledge(&mut congestion, 3 * MS, 6, 15 * US);
    assert!(!congestion.starting);
    assert_eq!(congestion.window / PACKET, 7);
    acknowledge(&mut congestion, 4 * MS, 7, 10 * US);
    assert_eq!(congestion.window.div_ceil(PACKET), 8);
}

#[test]
fn window_shrinks_in_proportion_and_once_in_a_round_trip() {
    let mut congestion = congestion(16 * PACKET);
    // The target is 20 us. A fifth of the delay is too much.
    acknowledge(&mut congestion, MS, 1, 25 * US);
    assert_eq!(congestion.window, 16 * PACKET - 16 * PACKET / 256 * 51);
    let window = congestion.window;
    acknowledge(&mut congestion, MS + 24 * US, 1, 40 * US);
    assert_eq!(congestion.window, window);
    // The shortest delay of the round trip counts.
    acknowledge(&mut congestion, MS + 25 * US, 1, 200 * US);
    assert_eq!(congestion.window, window - window / 256 * 128);
}

#[test]
fn one_packet_that_was_quick_keeps_the_window() {
    let mut congestion = congestion(16 * PACKET);
    congestion.starting = false;
    acknowledge(&mut congestion, MS, 1, 12 * US);
    let window = congestion.window;
    for now in [5, 10] {
        acknowledge(&mut congestion, MS + now * US, 1, 90 * US);
    }
    acknowledge(&mut congestion, MS + 11 * US, 1, 19 * US);
    acknowledge(&mut congestion, MS + 12 * US, 1, 90 * US);
    assert!(congestion.window >= window);
}

#[test]
fn delay_of_an_acknowledgement_is_none_of_the_path() {
    let late = |age| Sample {
        age,
        prompt: false,
        deviation: 0,
    };
    let mut congestion = congestion(4 * PACKET);
    for now in 1..9 {
        congestion.acknowledged(now * MS, 1, late(500 * US), 32);
        assert_eq!(congestion.window, 4 * PACKET);
    }
    // A short one counts, whoever acknowledged it.
    congestion.acknowledged(9 * MS, 1, late(11 * US), 32);
    assert!(congestion.window > 4 * PACKET);
}

#[test]
fn window_that_is_not_used_does_not_grow() {
    let sample = Sample {
        age: 10 * US,
        prompt: true,
        deviation: 0,
    };
    let mut congestion = congestion(16 * PACKET);
    congestion.acknowledged(MS, 1, sample, 7);
    assert_eq!(congestion.window, 16 * PACKET);
    congestion.acknowledged(MS, 1, sample, 8);
    assert_eq!(congestion.window, 17 * PACKET);
}

#[test]
fn last_packet_of_a_small_window_asks() {
    let mut small = congestion(3 * PACKET);
    assert_eq!(
        [1, 2, 3].map(|pipe| small.sent(0, pipe)),
        [false, false, true]
    );
    // It goes alone, because the packets of a run have equal headers.
    assert_eq!([0, 1, 2, 3].map(|pipe| small.room(0, pipe)), [3, 2, 1, 0]);
    assert_eq!(
        [0, 1, 2, 3].map(|pipe| small.room_to_follow(pipe)),
        [2, 1, 0, 0]
    );
    let largest = congestion(32 * PACKET);
    assert!(!largest.asks());
    assert_eq!(largest.room_to_follow(0), 32);
}

#[test]
fn less_than_a_packet_is_a_pause() {
    let mut congestion = congestion(PACKET / 4);
    congestion.delay = 20 * US;
    assert_eq!(congestion.room(MS, 0), 1);
    assert!(congestion.sent(MS, 1));
    assert_eq!(congestion.room(2 * MS, 1), 0);
    assert_eq!(congestion.pause_end(1), None);
    // It was acknowledged.
    assert_eq!(congestion.pause_end(0), Some(MS + 80 * US));
    assert_eq!(congestion.room(MS + 79 * US, 0), 0);
    assert_eq!(congestion.room(MS + 80 * US, 0), 1);
    assert_eq!(congestion.room_to_follow(0), 0);
}

#[test]
fn loss_costs_half_if_there_was_a_queue_and_little_otherwise() {
    let mut quick = congestion(16 * PACKET);
    quick.delay = 12 * US;
    quick.lost(MS);
    quick.lost(MS);
    assert_eq!(quick.window, 14 * PACKET);
    let mut queued = congestion(16 * PACKET);
    queued.delay = 40 * US;
    queued.lost(MS);
    assert_eq!(queued.window, 8 * PACKET);
    // A timeout always does, however soon it comes.
    queued.timed_out(MS + 1);
    assert_eq!(queued.window, 4 * PACKET);
}

#[test]
fn shortest_delay_is_forgotten_when_the_path_becomes_longer() {
    let mut congestion = congestion(PACKET);
    for second in 1..4u64 {
        congestion.measured(second * BASE_PERIOD, 50 * US);
    }
    assert_eq!(congestion.base(), 50 * US);
    congestion.measured(4 * BASE_PERIOD, 9 * US);
    assert_eq!(congestion.base(), 9 * US);
}

#[test]
fn rest_begins_again_with_a_small_window() {
    let mut large = congestion(32 * PACKET);
    large.starting = false;
    large.rested();
    assert_eq!((large.window, large.starting), (2 * PACKET, true));
    let mut small = congestion(PACKET / 8);
    small.rested();
    assert_eq!(small.window, PACKET / 8);
}

#[test]
fn no_peer_makes_the_window_0_or_the_pause_endless() {
    let mut random = 1u64;
    let mut next = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 33
    };
    for tuning in [TUNING, CongestionTuning::DEFAULT] {
        let mut congestion = Congestion {
            tuning,
            ..congestion(PACKET)
        };
        let mut now = 0u64;
        for _ in 0..100_000 {
            now += next() % (10 * MS);
            let delay = [0, 1, 1000, 10 * MS, 100_000 * MS, u64::MAX][next() as usize % 6];
            match next() % 5 {
                0 => congestion.lost(now),
                1 => congestion.timed_out(now),
                _ => acknowledge(&mut congestion, now, 1 + next() as u32 % 40, delay),
            }
            if congestion.asks() {
                congestion.sent(now, 1);
            }
            let window = congestion.packets().unwrap();
            assert!((1..=32).contains(&window));
            let start = congestion.pause_end(0).unwrap_or(now);
            assert!(start <= now + PAUSE_MAX && congestion.room(start, 0) > 0);
        }
    }
}

#[test]
fn timeouts_of_neighbours_differ() {
    let scattered = [1, 2, 3, 4].map(|remote_cid| {
        let mut congestion = Congestion::new(&Config {
            remote_cid,
            pdl_congestion: 1,
            ..Config::default()
        });
        congestion.start();
        congestion.scatter(10 * MS)
    });
    for (index, timeout) in scattered.iter().enumerate() {
        assert!((10 * MS..15 * MS).contains(timeout));
        let others = scattered.iter().skip(index + 1);
        assert!(others
            .into_iter()
            .all(|other| other.abs_diff(*timeout) > MS / 10));
    }
}

#[test]
fn variation_that_lasts_widens_the_target_and_a_passing_one_does_not() {
    let mut congestion = congestion(16 * PACKET);
    let sample = |deviation| Sample {
        age: 15 * US,
        prompt: true,
        deviation,
    };
    congestion.acknowledged(MS, 1, sample(50 * US), 32);
    let passing = congestion.target();
    congestion.acknowledged(2 * MS, 1, sample(0), 32);
    assert_eq!([passing, congestion.target()], [20 * US; 2]);
    for now in 3..50 {
        congestion.acknowledged(now * MS, 1, sample(50 * US), 32);
    }
    assert!(congestion.target() > 100 * US);
}
