// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Random schedules keep every invariant, a seed determines them, and the invariants can fail.

use superp_sim::{check, Invariant, Sabotage};

#[test]
fn every_schedule_keeps_every_invariant() {
    let (mut retransmits, mut broken) = (0, 0);
    for seed in 0..400 {
        match check::run(seed, Sabotage::None, false) {
            Ok(outcome) => {
                retransmits += outcome.retransmits;
                broken += outcome.broken;
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(retransmits > 1000, "schedules without trouble prove little");
    assert!(broken > 0, "no node died");
}

#[test]
fn seed_determines_everything() {
    for seed in 0..40 {
        let first = check::run(seed, Sabotage::None, false).expect("a good run");
        let again = check::run(seed, Sabotage::None, false).expect("a good run");
        assert_eq!(first, again, "seed {seed}");
        let other = check::run(seed + 1000, Sabotage::None, false).expect("a good run");
        assert_ne!(first.hash, other.hash, "seed {seed}");
    }
}

/// Invariants that a fault of the simulator breaks in some of the first schedules.
fn found(sabotage: Sabotage) -> Vec<Invariant> {
    let runs = (0..60).filter_map(|seed| check::run(seed, sabotage, false).err());
    let mut found: Vec<_> = runs.map(|violation| violation.invariant).collect();
    found.sort_unstable();
    found.dedup();
    found
}

macro_rules! caught {
    ($($name:ident: $sabotage:ident is $($invariant:ident),+;)+) => {
        $(
            #[test]
            fn $name() {
                let found = found(Sabotage::$sabotage);
                $(assert!(found.contains(&Invariant::$invariant), "{found:?}");)+
            }
        )+
    };
}

caught! {
    lost_delivery_is_caught: DropDelivery is ExactlyOnce;
    repeated_delivery_is_caught: RepeatDelivery is ExactlyOnce;
    damaged_delivery_is_caught: DamageDelivery is Memory;
    wrong_order_of_release_is_caught: WrongRelease is Order;
    lost_completion_is_caught: LoseCompletion is Deadlock;
    repeated_completion_is_caught: RepeatCompletion is Completion;
    dead_timer_is_caught: NoTimer is Deadlock, Quiescence;
    timer_storm_is_caught: TimerStorm is TimerStorm;
    too_wide_window_is_caught: WideWindow is Window;
    missing_barrier_is_caught: NoBarrier is Barrier;
    forged_acknowledgement_is_caught: ForgeAck is Peer;
}
