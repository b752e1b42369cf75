// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The congestion window between two ends [proto 3.22].

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{Pair, A, B};
use crate::{MS, US};
use superp_proto::{Config, Extensions, ReqOp};

fn config(on: bool, ext: Extensions) -> Config {
    Config {
        ext,
        pdl_congestion: on.into(),
        ..Config::default()
    }
}

/// Writes one after the other; the time from the first to the end of the last.
fn write(pair: &mut Pair, count: usize, len: usize) -> u64 {
    let start = pair.now;
    for number in 0..count {
        pair.submit(A, ReqOp::Write { address: BASE }, vec![number as u8; len]);
        pair.drive(A);
        while !pair.all_complete() {
            assert!(pair.step(u64::MAX), "stuck: {}", pair.describe());
        }
    }
    pair.now - start
}

/// Has the ends find out about each other.
fn meet(pair: &mut Pair) {
    for end in [A, B] {
        pair.drive(end);
    }
    pair.settle();
}

#[test]
fn lost_end_of_a_request_is_repeated_soon() {
    for (on, least, most) in [(true, 200 * US, 2 * MS), (false, 10 * MS, 30 * MS)] {
        let mut pair = Pair::clean(&config(on, Extensions::On));
        write(&mut pair, 4, 3000);
        let mut lost = false;
        pair.filter = Some(Box::new(move |_, from, transmit| {
            from == A && transmit.tal.eom && !std::mem::replace(&mut lost, true)
        }));
        let time = write(&mut pair, 1, 3000);
        assert!((least..most).contains(&time), "{time} ns");
        assert_eq!(pair.retransmits(), 1);
        assert_eq!(pair.ends[A].conn.stats().timeouts, u64::from(!on));
    }
}

#[test]
fn last_packet_of_a_window_is_not_left_to_a_delayed_acknowledgement() {
    // The first windows are smaller than what makes the peer acknowledge by itself.
    let mut pair = Pair::clean(&config(true, Extensions::Auto));
    meet(&mut pair);
    let time = write(&mut pair, 1, 20_000);
    assert!(time < 300 * US, "{time} ns");
    assert_eq!(pair.retransmits(), 0);
}

#[test]
fn slow_wire_is_kept_busy_and_its_queue_short() {
    let link = LinkConfig {
        delay: 20 * US,
        wire_time: 10 * US,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([true, true].map(|on| config(on, Extensions::Auto)), link, 1);
    meet(&mut pair);
    pair.trace = true;
    let start = pair.now;
    for number in 0..20 {
        pair.submit(A, ReqOp::Write { address: BASE }, vec![number; 40_000]);
    }
    pair.drive(A);
    while !pair.all_complete() {
        assert!(pair.step(u64::MAX), "stuck: {}", pair.describe());
    }
    let packets = pair.log.iter().filter(|(_, from, _)| *from == A).count() as u64;
    assert!(
        pair.now - start < packets * 11 * US,
        "{packets} in {} ns",
        pair.now - start
    );
    // Five packets are on the way and back. The target is twice that and a little.
    let window = pair.ends[A].conn.congestion_window();
    assert!(window.is_some_and(|packets| packets < 24), "{window:?}");
    assert_eq!(pair.retransmits(), 0);
}

#[test]
fn peer_of_version_0_4_sees_no_difference() {
    let [with, without] = [true, false].map(|on| {
        let configs = [config(on, Extensions::Auto), config(false, Extensions::Off)];
        let link = LinkConfig {
            delay: 20 * US,
            wire_time: US,
            loss: 20,
            ..LinkConfig::default()
        };
        let mut pair = Pair::new(configs, link, 7);
        meet(&mut pair);
        pair.trace = true;
        write(&mut pair, 30, 20_000);
        assert!(pair.retransmits() > 0);
        assert_eq!(pair.ends[A].conn.congestion_window(), None);
        assert!(pair.log.iter().all(|(_, _, transmit)| !transmit.tal.ask));
        pair.log
    });
    assert_eq!(with, without);
}

#[test]
fn rest_ends_with_a_small_window() {
    let mut pair = Pair::clean(&config(true, Extensions::On));
    write(&mut pair, 20, 40_000);
    let window = pair.ends[A].conn.congestion_window().unwrap();
    assert!(window > 8, "{window}");
    pair.now += 100 * MS;
    pair.submit(A, ReqOp::Write { address: BASE }, vec![1; 40_000]);
    pair.drive(A);
    assert!(pair.ends[A].conn.inflight_data() < window);
    pair.settle();
}

#[test]
fn path_that_loses_reorders_and_duplicates_does_not_close_the_window() {
    let link = LinkConfig {
        delay: 20 * US,
        jitter: 300 * US,
        wire_time: 7 * US,
        loss: 10,
        duplicate: 50,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([true, true].map(|on| config(on, Extensions::Auto)), link, 3);
    meet(&mut pair);
    // A window of a packet in 256 round trips would take seconds for each write.
    let time = write(&mut pair, 50, 40_000);
    assert!(time < 500 * MS, "{time} ns: {}", pair.describe());
}
