// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Random transactions both ways over random links, in random configurations.

use crate::link::LinkConfig;
use crate::pair::{Cpu, Pair, A, B};
use crate::rng::Rng;
use crate::work::Work;
use crate::{seeds, MS, SECOND, US};
use superp_proto::{Config, DropReason, Extensions};

fn config(rng: &mut Rng) -> Config {
    let window = rng.pick(&[16, 32, 33, 100, 1024]);
    Config {
        remote_cid: rng.next() as u16,
        mtu: rng.pick(&[528, 568, 1452, 1484, 4056, 8992]),
        ordered_tx: false,
        ordered_rx: false,
        ext: rng.pick(&[Extensions::Off, Extensions::On, Extensions::Auto]),
        start_psn: rng.pick(&[0, u32::MAX - 20, 1 << 31, u32::MAX]),
        start_xid: rng.pick(&[0, u16::MAX - 5, 1 << 15]),
        pdl_window_size: window,
        pdl_receive_win: rng.pick(&[window, window, window / 2, 4]),
        pdl_ack_every: rng.pick(&[1, 8, 1000]),
        pdl_delayed_ack_time: rng.pick(&[100, 500 * US, 100 * MS]),
        pdl_rtx_max_pkts: rng.pick(&[8, 8, 8, 0, 64]),
        pdl_rtx_time_win: rng.pick(&[0, 0, MS]),
        // Loss is heavy here and must not break connections.
        pdl_dead_time: 60 * SECOND,
        tal_trans_window: rng.pick(&[1, 7, 32, 1024]),
        tal_max_pkt_per_trans: rng.pick(&[32, 32, 5, 100]),
        tal_max_ops_per_pkt: rng.pick(&[8, 4, 15]),
        pdl_congestion: rng.pick(&[0, 1]),
        ..Config::default()
    }
}

fn link(rng: &mut Rng) -> LinkConfig {
    let loss = rng.pick(&[0, 1, 10, 50, 200, 400]);
    LinkConfig {
        delay: rng.pick(&[0, 5 * US, 50 * US, 5 * MS]),
        jitter: rng.pick(&[0, 0, 10 * US, 500 * US, 10 * MS]),
        loss,
        duplicate: rng.pick(&[0, 10, 300]),
        corrupt: 0,
        wire_time: rng.pick(&[0, US, 10 * US]),
        second_lane: rng.pick(&[None, None, Some(0), Some(5 * MS), Some(50 * MS)]),
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let base = config(&mut rng);
    let link = link(&mut rng);
    schedule(rng, base, link);
}

/// SUPERp-lite over what it is for: slow ends, a slow wire, but nothing lost and nothing overtaken.
fn run_lite(seed: u64) {
    let mut rng = Rng::new(seed);
    let base = Config {
        lite: true,
        ext: rng.chance(500).into(),
        start_psn: 0,
        tal_transaction_timeout: SECOND / 10,
        ..config(&mut rng)
    };
    let link = LinkConfig {
        jitter: 0,
        loss: 0,
        duplicate: 0,
        second_lane: None,
        ..link(&mut rng)
    };
    schedule(rng, base, link);
}

fn schedule(mut rng: Rng, base: Config, link: LinkConfig) {
    let ordered = [rng.chance(500), rng.chance(500)];
    let configs = [0, 1].map(|end: usize| Config {
        ordered_tx: ordered[end],
        ordered_rx: ordered[1 - end],
        ..base.clone()
    });
    let heavy = link.loss >= 200;
    let mut pair = Pair::new(configs, link, rng.next());
    for end in &mut pair.ends {
        end.cpu = Cpu {
            cost: rng.pick(&[0, 0, US, 50 * US]),
            batch: rng.pick(&[1, 16, 64]),
        };
    }
    let count = if heavy { 15 } else { 60 };
    let failing = rng.pick(&[0, 100]);
    let mut work = [A, B].map(|end| {
        Work::new(
            end,
            Rng::new(rng.next()),
            count,
            base.ext != Extensions::Off,
            failing,
        )
    });
    let limit = 3600 * SECOND;
    loop {
        for work in &mut work {
            work.submit(&mut pair);
        }
        pair.drive(A);
        pair.drive(B);
        if !pair.step(limit) {
            // Nothing under way any more: what is left is refused for other reasons than room.
            let done = work.iter().all(Work::done);
            if done {
                break;
            }
        }
        assert!(
            pair.ends.iter().all(|end| end.broken.is_none()),
            "{}",
            pair.describe()
        );
        assert!(pair.now < limit, "{}", pair.describe());
    }
    pair.settle();
    for (work, other) in [(&work[A], B), (&work[B], A)] {
        work.verify(&pair);
        for report in &pair.ends[other].reports {
            // What was under way when an error became known may come when the error is forgotten.
            let late = failing > 0 && report.reason == DropReason::XidOutOfWindow;
            assert!(late, "{}", pair.describe());
        }
    }
}

#[test]
fn lite_delivers_everything_once() {
    seeds(400, run_lite);
}

#[test]
fn every_schedule_delivers_everything_once() {
    seeds(400, run);
}
