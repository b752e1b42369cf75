// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compares the receive window with a model that stores everything in sets.

use super::super::super::prop;
use super::super::super::slab::test::Heap;
use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use proptest::prelude::*;

/// The model counts PSNs from 0, without wrap.
struct Model {
    window: u64,
    ordered: bool,
    received: BTreeSet<u64>,
    /// Packets with content of an ordered window that arrived and are not delivered.
    held: BTreeSet<u64>,
    next_deliver: u64,
    /// Packets with content that arrived and that no acknowledgement has named.
    unnamed: BTreeSet<u64>,
}

impl Model {
    fn base(&self) -> u64 {
        (0..).find(|psn| !self.received.contains(psn)).unwrap()
    }

    fn limit(&self) -> u64 {
        self.window
            + match self.ordered {
                true => self.next_deliver,
                false => self.base(),
            }
    }

    fn bits(&self, from: u64) -> u32 {
        (0..32)
            .filter(|bit| self.received.contains(&(from + bit)))
            .fold(0, |bits, bit| bits | 1 << bit)
    }

    fn accept(&mut self, psn: u64, content: bool) -> bool {
        let at_once = !self.ordered || psn == self.next_deliver;
        self.received.insert(psn);
        if content {
            self.unnamed.insert(psn);
        }
        if at_once {
            self.next_deliver = psn + 1;
        } else if content {
            self.held.insert(psn);
        }
        self.named();
        at_once
    }

    /// Removes from `unnamed` what the bitmap of an ordinary ACK names.
    fn named(&mut self) {
        let reach = self.base() + 32;
        self.unnamed.retain(|&psn| psn >= reach);
    }

    fn releases(&mut self) -> Vec<u64> {
        if !self.ordered {
            return Vec::new();
        }
        let base = self.base();
        let rest = self.held.split_off(&base);
        self.next_deliver = base;
        core::mem::replace(&mut self.held, rest)
            .into_iter()
            .collect()
    }
}

proptest! {
    #![proptest_config(prop::config())]

    /// Classes, acknowledgements, held packets and their release equal those of the model. NACKs
    /// name only packets that arrived, and in the end all that no ordinary ACK names
    /// [proto 3.4, 3.5, 3.8, 3.9].
    #[test]
    fn receive_window_is_that_of_the_model(
        window in prop_oneof![Just(16u32), Just(33), 34..200u32, Just(1024)],
        start in prop_oneof![Just(0u32), Just(u32::MAX - 40), Just((1u32 << 31) - 20), any::<u32>()],
        ordered: bool,
        arrivals in prop::collection(
            (prop_oneof![4 => 0..6i64, 2 => -3..300i64, 1 => -3..1100i64], any::<[bool; 2]>()), 1..150),
    ) {
        let mut subject = ReceiveWindow::<Heap>::new(window, start, ordered).unwrap();
        let mut model = Model {
            window: window.into(),
            ordered,
            received: BTreeSet::new(),
            held: BTreeSet::new(),
            next_deliver: 0,
            unnamed: BTreeSet::new(),
        };
        let wire = |psn: u64| start.wrapping_add(psn as u32);
        for (offset, [content, nack]) in arrivals {
            let base = model.base();
            let Some(psn) = base.checked_add_signed(offset) else { continue };
            let class = if psn < base || model.received.contains(&psn) {
                Arrival::Duplicate
            } else if psn >= model.limit() {
                Arrival::Beyond
            } else if psn == base {
                Arrival::InOrder
            } else {
                Arrival::AboveHole
            };
            prop_assert_eq!(subject.classify(wire(psn)), class);
            if matches!(class, Arrival::Duplicate | Arrival::Beyond) {
                continue;
            }
            prop_assert_eq!(subject.accept(wire(psn), content), model.accept(psn, content));
            let mut releases = Vec::new();
            while let Some(psn) = subject.next_release() {
                releases.push(psn);
            }
            let expected: Vec<u32> = model.releases().into_iter().map(wire).collect();
            prop_assert_eq!(releases, expected);
            let base = model.base();
            prop_assert_eq!(subject.next_acked_rpsn(), wire(base));
            prop_assert_eq!(subject.ack_psn(), wire(base).wrapping_sub(1));
            prop_assert_eq!(subject.sack(), model.bits(base));
            let above = model.received.range(base..).next().is_some();
            prop_assert_eq!(subject.any_hole(), above);
            prop_assert_eq!(subject.max_rpsn(), wire(model.limit()));

            prop_assert!(model.unnamed.is_empty() || subject.unnamed() > 0);
            if nack {
                let Some((psn, bits)) = subject.nack() else {
                    prop_assert!(model.unnamed.is_empty());
                    continue;
                };
                let psn = u64::from(psn.wrapping_sub(start));
                prop_assert!(psn >= base + 32 && bits & 1 != 0);
                prop_assert_eq!(bits, model.bits(psn));
                // The NACK skips no unnamed PSN.
                prop_assert!(model.unnamed.first().is_none_or(|&lowest| lowest >= psn));
                model.unnamed.retain(|&other| other >= psn + 32);
                subject.nack_sent(wire(psn));
            }
        }
        let mut nacks = 0;
        while let Some((psn, _)) = subject.nack() {
            let psn = u64::from(psn.wrapping_sub(start));
            model.unnamed.retain(|&other| !(psn..psn + 32).contains(&other));
            subject.nack_sent(wire(psn));
            nacks += 1;
            prop_assert!(nacks <= window / 32 + 1, "there is no end of NACKs");
        }
        prop_assert!(model.unnamed.is_empty());
    }
}
