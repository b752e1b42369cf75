// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compares the reception of a transaction's packets with a model that stores their Seqnos in a
//! set.

use super::super::super::prop;
use super::super::super::slab::test::Heap;
use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

proptest! {
    #![proptest_config(prop::config())]

    /// Consecutive packets, of which the last may have `eom`, are accepted if their Seqnos are new,
    /// below the limit and not beyond that of `eom`. Their `eom` must be the first and not below a
    /// received Seqno. The transaction is complete with all Seqnos from 0 to that of `eom`
    /// [proto 4.1, 4.2].
    #[test]
    fn reception_is_that_of_the_model(
        max_packets in prop_oneof![1..12u32, Just(100), Just(4096)],
        packets in prop::collection(
            (
                prop_oneof![5 => 0..10u16, 1 => 0..5000u16, 1 => any::<u16>()],
                prop_oneof![3 => Just(1u16), 1 => 1..5u16, 1 => 1..200u16],
                prop::weighted(0.15),
            ), 1..40),
    ) {
        let mut seqnos = SeqnoBitmaps::<Heap>::new(2, max_packets).unwrap();
        let mut subject = Reception::default();
        let (mut seen, mut end) = (BTreeSet::new(), None);
        for (seqno, count, eom) in packets {
            let tal = TalHeader { eom, seqno, ..TalHeader::default() };
            let last = u32::from(seqno) + u32::from(count) - 1;
            let reason = if last >= max_packets {
                Some(DropReason::SeqnoTooLarge)
            } else if eom && end.is_some() {
                Some(DropReason::EomDuplicate)
            } else if end.is_some_and(|end| last > end)
                || eom && seen.last().is_some_and(|&seen| seen > last)
            {
                Some(DropReason::SeqnoBeyondEom)
            } else {
                let any = seen.range(u32::from(seqno)..=last).next();
                any.map(|_| DropReason::SeqnoDuplicate)
            };
            let check = subject.check(&seqnos, 1, &tal, count, max_packets);
            prop_assert_eq!(check.err().map(|report| report.reason), reason);
            if let Err(report) = check {
                let high = end.map_or(max_packets, |end| end + 1);
                prop_assert_eq!((report.value, report.low, report.high), (seqno.into(), 0, high));
                continue;
            }
            subject.take(&mut seqnos, 1, &tal, count);
            seen.extend(u32::from(seqno)..=last);
            if eom {
                end = Some(last);
            }
            let complete = end.is_some_and(|end| seen.len() == end as usize + 1);
            prop_assert_eq!(subject.is_complete(), complete);
        }
        prop_assert!(!seqnos.any(0, 0, max_packets.min(65_535) as u16));
    }
}
