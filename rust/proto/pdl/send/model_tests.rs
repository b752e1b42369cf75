// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compares the acknowledged part of the send window with a model that stores it in a set.

use super::super::super::prop;
use super::super::super::slab::test::Heap;
use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Sends this number of packets.
    Send(u32),
    /// Receives an ACK: ACK PSN relative to the lowest unacknowledged PSN, bitmap, window.
    Ack(i32, u32, u32),
    /// Retransmits lost packets after this time in ms.
    Resend(u64),
    /// Sets the lane.
    Lane(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let near = prop_oneof![6 => -3..40i32, 1 => -1100..1100i32, 1 => any::<i32>()];
    let sack = prop_oneof![
        Just(0),
        any::<u32>(),
        any::<u32>().prop_map(|bits| bits & 0x1_0002)
    ];
    let window = prop_oneof![3 => Just(65_536u32), 1 => 1..64u32];
    prop_oneof![
        2 => (1..80u32).prop_map(Step::Send),
        4 => (near, sack, window).prop_map(|(at, sack, window)| Step::Ack(at, sack, window)),
        1 => (0..100u64).prop_map(Step::Resend),
        1 => any::<u8>().prop_map(Step::Lane),
    ]
}

proptest! {
    #![proptest_config(prop::config())]

    /// ACKs and NACKs acknowledge the union of the packets that they name, as far as these were
    /// sent. The base follows the ACK PSN of ACKs only. Each content is acknowledged once, in
    /// order. No acknowledged packet is retransmitted [proto 3.2, 3.4, 3.5, 3.7].
    #[test]
    fn acknowledged_is_what_the_model_says(
        size in prop_oneof![Just(16u32), Just(33), Just(100), Just(1024)],
        start in prop_oneof![Just(0u32), Just(u32::MAX - 40), Just((1u32 << 31) - 20), any::<u32>()],
        steps in prop::collection(step(), 1..60),
    ) {
        let config = Config {
            pdl_window_size: size,
            pdl_receive_win: size,
            pdl_rtx_max_pkts: 64,
            pdl_dead_time: u64::MAX,
            start_psn: start,
            ..Config::default()
        };
        let mut subject = SendWindow::<Heap>::new(&config, 0).unwrap();
        let wire = |psn: u64| start.wrapping_add(psn as u32);
        let (mut base, mut next, mut window, mut now) = (0u64, 0u64, size, 0u64);
        let mut acked = BTreeSet::new();
        for step in steps {
            now += 1000;
            match step {
                Step::Send(count) => {
                    for _ in 0..count {
                        let room = window.saturating_sub((next - base) as u32);
                        // The ACK PSN never gets newer here, so the last slot stays free.
                        let expected = next == base || room >= 2;
                        prop_assert_eq!(subject.has_room(0), expected);
                        if !expected {
                            break;
                        }
                        let content = Content::Request { xid: next as u16, seqno: 7 };
                        prop_assert_eq!(subject.assign(now, content, 0, false).psn, wire(next));
                        next += 1;
                    }
                }
                Step::Ack(at, sack, rwin) => {
                    let ack_psn = wire(base).wrapping_add_signed(at);
                    let pdl = PdlHeader { ack_psn, sack, window: rwin, ..PdlHeader::default() };
                    let (at, sent) = (i64::from(at), (next - base) as i64);
                    let nack = sack & 1 != 0;
                    let expected = match at {
                        0.. if nack && at < sent => Ok(AckCheck::Nack),
                        _ if nack => Ok(AckCheck::Stale),
                        ..=-2 => Ok(AckCheck::Stale),
                        _ if at < sent => Ok(AckCheck::Ack),
                        _ => Err(()),
                    };
                    let check = subject.check_ack(&pdl);
                    prop_assert_eq!(check, expected);
                    let Ok(check) = check else { continue };
                    let mut contents = Vec::new();
                    subject.acknowledge(now, check, &pdl, |content| contents.push(content));
                    if check == AckCheck::Stale {
                        prop_assert!(contents.is_empty());
                        continue;
                    }
                    let ack = base.wrapping_add_signed(at);
                    let first = match check {
                        AckCheck::Nack => ack,
                        _ => ack.wrapping_add(1),
                    };
                    let named = (0..32).filter(|bit| sack >> bit & 1 != 0);
                    acked.extend(named.map(|bit| first + bit).filter(|&psn| psn < next));
                    let before = base;
                    if check == AckCheck::Ack {
                        base = first;
                    }
                    acked.retain(|&psn| psn >= base);
                    window = rwin.min(size);
                    let expected: Vec<Content> = (before..base)
                        .map(|psn| Content::Request { xid: psn as u16, seqno: 7 })
                        .collect();
                    prop_assert_eq!(contents, expected);
                }
                Step::Lane(lane) => subject.set_lane(lane),
                Step::Resend(ms) => {
                    now += ms * 1_000_000;
                    subject.expire(now, false, false);
                    let mut count = 0;
                    while let Some((psn, content, cause)) = subject.next_lost(now) {
                        let at = base + u64::from(psn.wrapping_sub(wire(base)));
                        // The timer retransmits even an acknowledged base, to ask for an ACK.
                        let asks = at == base && cause == Cause::Timeout;
                        prop_assert!(at < next && (asks || !acked.contains(&at)));
                        prop_assert_eq!(content, Content::Request { xid: at as u16, seqno: 7 });
                        prop_assert_eq!(subject.resend(now, psn, content, 0), Ok(false));
                        count += 1;
                        prop_assert!(count <= 65);
                    }
                }
            }
            prop_assert_eq!(subject.unacked_spsn(), wire(base));
            prop_assert_eq!(subject.next_spsn(), wire(next));
            prop_assert_eq!(subject.data_outstanding(), (next - base) as u32);
            for psn in base..next {
                prop_assert_eq!(subject.acked.get(wire(psn)), acked.contains(&psn));
            }
        }
    }
}
