// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The packets of a transaction against a model that keeps their Seqnos in a set.

use super::super::super::prop;
use super::super::super::slab::test::Heap;
use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

proptest! {
    #![proptest_config(prop::config())]

    /// A packet is taken if its Seqno is new, below the limit and not beyond that of `eom`, and its `eom`
    /// is the first and not below a Seqno seen; the transaction is complete with all of 0 to that of
    /// `eom` [proto 4.1, 4.2].
    #[test]
    fn reception_is_that_of_the_model(
        max_packets in prop_oneof![1..12u32, Just(100), Just(4096)],
        packets in prop::collection(
            (prop_oneof![5 => 0..10u16, 1 => 0..5000u16, 1 => any::<u16>()], prop::weighted(0.15)), 1..40),
    ) {
        let mut seqnos = SeqnoBitmaps::<Heap>::new(2, max_packets).unwrap();
        let mut subject = Reception::default();
        let (mut seen, mut end) = (BTreeSet::new(), None);
        for (seqno, eom) in packets {
            let tal = TalHeader { eom, seqno, ..TalHeader::default() };
            let reason = if u32::from(seqno) >= max_packets {
                Some(DropReason::SeqnoTooLarge)
            } else if eom && end.is_some() {
                Some(DropReason::EomDuplicate)
            } else if end.is_some_and(|end| seqno > end)
                || eom && seen.last().is_some_and(|&last| last > seqno)
            {
                Some(DropReason::SeqnoBeyondEom)
            } else {
                seen.contains(&seqno).then_some(DropReason::SeqnoDuplicate)
            };
            let check = subject.check(&seqnos, 1, &tal, max_packets);
            prop_assert_eq!(check.err().map(|report| report.reason), reason);
            if let Err(report) = check {
                let high = end.map_or(max_packets, |end| u32::from(end) + 1);
                prop_assert_eq!((report.value, report.low, report.high), (seqno.into(), 0, high));
                continue;
            }
            subject.take(&mut seqnos, 1, &tal);
            seen.insert(seqno);
            if eom {
                end = Some(seqno);
            }
            let complete = end.is_some_and(|end| seen.len() == usize::from(end) + 1);
            prop_assert_eq!(subject.is_complete(), complete);
        }
        prop_assert!((0..max_packets.min(65_535) as u16).all(|seqno| !seqnos.get(0, seqno)));
    }
}
