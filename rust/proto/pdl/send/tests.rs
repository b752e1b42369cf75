// SPDX-License-Identifier: GPL-2.0 OR MIT
use super::super::super::slab::test::Heap;
use super::*;
use alloc::vec::Vec;

const MS: u64 = 1_000_000;

fn config(window: u32, start_psn: u32) -> Config {
    Config {
        pdl_window_size: window,
        start_psn,
        ..Config::default()
    }
}

fn window(size: u32, start: u32) -> SendWindow<Heap> {
    SendWindow::new(&config(size, start), 0).unwrap()
}

fn request(xid: u16) -> Content {
    Content::Request { xid, seqno: 0 }
}

/// Sends `count` packets with content at `now`.
fn send(window: &mut SendWindow<Heap>, now: u64, count: u32) {
    for xid in 0..count {
        window.assign(now, request(xid as u16), u32::MAX, false);
    }
}

fn ack(ack_psn: u32, sack: &[u32]) -> PdlHeader {
    PdlHeader {
        ack_psn,
        sack: sack.iter().fold(0, |bits, bit| bits | 1 << bit),
        window: 65_536,
        ..PdlHeader::default()
    }
}

/// Processes an acknowledgement. Returns the number of PSNs that the base passed.
fn take(window: &mut SendWindow<Heap>, now: u64, pdl: &PdlHeader) -> usize {
    let mut count = 0;
    let check = window.check_ack(pdl).unwrap();
    window.acknowledge(now, check, pdl, |_| count += 1);
    count
}

/// The selectively acknowledged PSNs, relative to the base.
fn acked(window: &SendWindow<Heap>) -> Vec<u32> {
    let base = window.unacked_spsn();
    (0..window.outstanding())
        .filter(|&ahead| window.acked.get(base.wrapping_add(ahead)))
        .collect()
}

/// Retransmits everything that is due at `now`. Returns the PSNs.
fn retransmit(window: &mut SendWindow<Heap>, now: u64) -> Vec<u32> {
    let mut psns = Vec::new();
    while let Some((psn, content, _)) = window.next_lost(now) {
        window.resend(now, psn, content, u32::MAX).unwrap();
        psns.push(psn);
    }
    psns
}

#[test]
fn selective_acknowledgements_follow_the_vector_of_the_spec() {
    let mut window = window(64, 22);
    send(&mut window, 0, 60);
    let first = [2, 3, 4, 11, 12, 15, 20, 21];
    take(&mut window, MS, &ack(21, &first));
    assert_eq!(acked(&window), first);
    take(
        &mut window,
        MS,
        &ack(31, &[1, 2, 4, 5, 6, 7, 8, 10, 14, 17]),
    );
    assert_eq!(window.unacked_spsn(), 32);
    assert_eq!(acked(&window), [1, 2, 4, 5, 6, 7, 8, 10, 11, 14, 17]);
    take(&mut window, MS, &ack(45, &[0, 3, 27, 28]));
    assert_eq!(window.unacked_spsn(), 32);
    assert_eq!(
        acked(&window),
        [1, 2, 4, 5, 6, 7, 8, 10, 11, 13, 14, 16, 17, 40, 41]
    );
}

#[test]
fn ack_psn_is_valid_from_one_below_the_window_to_the_last_sent() {
    for start in [0, 22, u32::MAX - 3, 1 << 31] {
        let mut window = window(16, start);
        let psn = |offset: i32| start.wrapping_add(offset as u32);
        assert_eq!(window.check_ack(&ack(psn(-1), &[])), Ok(AckCheck::Ack));
        assert_eq!(window.check_ack(&ack(psn(0), &[])), Err(()));
        send(&mut window, 0, 8);
        take(&mut window, MS, &ack(psn(1), &[]));
        assert_eq!(window.check_ack(&ack(psn(0), &[])), Ok(AckCheck::Stale));
        assert_eq!(window.check_ack(&ack(psn(1), &[])), Ok(AckCheck::Ack));
        assert_eq!(window.check_ack(&ack(psn(7), &[])), Ok(AckCheck::Ack));
        assert_eq!(window.check_ack(&ack(psn(8), &[])), Err(()));
        // A NACK outside the window has no information.
        assert_eq!(window.check_ack(&ack(psn(1), &[0])), Ok(AckCheck::Stale));
        assert_eq!(window.check_ack(&ack(psn(2), &[0])), Ok(AckCheck::Nack));
        assert_eq!(window.check_ack(&ack(psn(7), &[0])), Ok(AckCheck::Nack));
        assert_eq!(window.check_ack(&ack(psn(8), &[0])), Ok(AckCheck::Stale));
    }
}

#[test]
fn stale_ack_changes_nothing_and_one_below_the_window_counts() {
    let mut window = window(16, 0);
    send(&mut window, 0, 8);
    take(&mut window, MS, &ack(3, &[]));
    let stale = PdlHeader {
        window: 1,
        ..ack(1, &[1, 2])
    };
    take(&mut window, MS, &stale);
    assert_eq!((acked(&window), window.window), (Vec::new(), 16));
    let lost_first = PdlHeader {
        window: 5,
        ..ack(3, &[1])
    };
    take(&mut window, MS, &lost_first);
    assert_eq!((acked(&window), window.window), (Vec::from([1]), 5));
}

#[test]
fn bits_for_packets_never_sent_are_ignored() {
    let mut window = window(16, 0);
    send(&mut window, 0, 4);
    take(&mut window, MS, &ack(u32::MAX, &[2, 3, 4, 5, 31]));
    assert_eq!(acked(&window), [2, 3]);
    send(&mut window, MS, 4);
    assert_eq!(acked(&window), [2, 3]);
    take(&mut window, MS, &ack(7, &[0, 1, 31]));
    assert_eq!(acked(&window), [2, 3, 7]);
}

#[test]
fn contents_are_acknowledged_once_and_only_cumulatively() {
    let mut window = window(16, u32::MAX - 1);
    send(&mut window, 0, 6);
    assert_eq!(take(&mut window, MS, &ack(u32::MAX - 2, &[1, 3])), 0);
    assert_eq!(take(&mut window, MS, &ack(0, &[])), 3);
    assert_eq!(take(&mut window, MS, &ack(3, &[])), 3);
    assert_eq!((window.outstanding(), window.data_outstanding()), (0, 0));
}

#[test]
fn received_window_limits_new_packets_only() {
    let mut window = window(32, 0);
    send(&mut window, 0, 10);
    let small = PdlHeader {
        window: 4,
        ..ack(1, &[])
    };
    take(&mut window, MS, &small);
    assert_eq!(window.outstanding(), 8);
    assert!(!window.has_room(5));
    take(
        &mut window,
        MS,
        &PdlHeader {
            ack_psn: 7,
            ..small
        },
    );
    assert_eq!(window.outstanding(), 2);
    assert!(window.has_room(5));
    // The local window limits that of the peer.
    take(&mut window, MS, &ack(9, &[]));
    assert_eq!(window.window, 32);
}

#[test]
fn last_slot_is_for_news_only() {
    let mut window = window(16, 0);
    for _ in 0..15 {
        assert!(window.has_room(7));
        window.assign(0, request(0), 7, false);
    }
    assert!(!window.has_room(7));
    assert!(!window.has_room(6));
    assert!(window.has_room(8));
    window.assign(0, Content::None, 8, false);
    assert!(!window.has_room(9));
}

#[test]
fn last_slot_rule_does_not_apply_to_an_empty_window_of_one() {
    let mut window = window(16, 0);
    let one = PdlHeader {
        window: 1,
        ..ack(u32::MAX, &[])
    };
    take(&mut window, 0, &one);
    assert!(window.has_room(u32::MAX));
    window.assign(0, request(0), u32::MAX, false);
    assert!(!window.has_room(5));
}

#[test]
fn hole_is_resent_when_three_later_packets_arrived() {
    let mut window = window(32, 0);
    send(&mut window, 0, 10);
    take(&mut window, MS, &ack(0, &[1]));
    take(&mut window, MS, &ack(0, &[1, 2]));
    assert_eq!(retransmit(&mut window, MS), []);
    take(&mut window, MS, &ack(0, &[1, 2, 3]));
    assert_eq!(retransmit(&mut window, MS), [1]);
    // More evidence does not retransmit it again.
    take(&mut window, MS, &ack(0, &[1, 2, 3, 4, 5]));
    assert_eq!(retransmit(&mut window, MS), []);
}

#[test]
fn hole_is_resent_by_age_when_fewer_arrived() {
    let mut window = window(32, 0);
    send(&mut window, 0, 3);
    take(&mut window, MS, &ack(0, &[1]));
    assert_eq!(retransmit(&mut window, MS), []);
    let guard = window.rtt.guard();
    assert_eq!(window.deadline(true), Some(guard));
    assert!(!window.expire(guard, true, false));
    assert_eq!(retransmit(&mut window, guard), [1]);
}

#[test]
fn resent_hole_is_resent_again_by_age_only() {
    let mut window = window(32, 0);
    send(&mut window, 0, 8);
    take(&mut window, MS, &ack(0, &[1, 2, 3]));
    assert_eq!(retransmit(&mut window, MS), [1]);
    send(&mut window, MS, 5);
    take(
        &mut window,
        2 * MS,
        &ack(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    );
    assert_eq!(retransmit(&mut window, 2 * MS), []);
    let guard = MS + window.rtt.guard();
    window.expire(guard, true, false);
    assert_eq!(retransmit(&mut window, guard), [1]);
}

#[test]
fn at_most_the_configured_number_is_resent_on_one_event() {
    for (max, expected) in [(0, 0), (3, 3), (64, 21)] {
        let mut config = config(64, 0);
        config.pdl_rtx_max_pkts = max;
        let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
        send(&mut window, 0, 24);
        take(&mut window, MS, &ack(u32::MAX, &[21, 22, 23]));
        let resent = retransmit(&mut window, MS);
        assert_eq!(resent, (0..expected).collect::<Vec<_>>());
    }
}

#[test]
fn where_reordering_was_seen_only_age_counts() {
    let mut window = window(64, 0);
    send(&mut window, 0, 30);
    take(&mut window, MS, &ack(u32::MAX, &[1, 2]));
    // 0 was late, not lost.
    take(&mut window, MS, &ack(2, &[]));
    take(&mut window, MS, &ack(2, &[10, 11, 12]));
    assert_eq!(retransmit(&mut window, MS), []);
    let guard = window.rtt.guard();
    assert_eq!(window.deadline(true), Some(guard));
    window.expire(guard, true, false);
    assert_eq!(retransmit(&mut window, guard), [3, 4, 5, 6, 7, 8, 9, 10]);
    // After REORDER_MEMORY the path counts as in order again.
    take(&mut window, 2 * MS, &ack(29, &[]));
    let later = 3 * REORDER_MEMORY;
    send(&mut window, later, 10);
    take(&mut window, later + MS, &ack(29, &[3, 4]));
    assert_eq!(retransmit(&mut window, later + MS), [30, 31]);
}

#[test]
fn what_another_lane_brought_earlier_is_evidence_by_age_only() {
    let mut window = window(64, 0);
    send(&mut window, 0, 8);
    window.set_lane(1);
    send(&mut window, 0, 8);
    let later: Vec<u32> = (8..16).collect();
    take(&mut window, MS, &ack(u32::MAX, &later));
    assert_eq!(retransmit(&mut window, MS), []);
    let rto = window.rtt.base_rto();
    assert_eq!(window.deadline(true), Some(rto));
    // 5 overtook the packets before it in its own lane. Its own lateness is no reordering in that
    // lane.
    let later: Vec<u32> = [5].into_iter().chain(8..16).collect();
    take(&mut window, MS, &ack(u32::MAX, &later));
    assert_eq!(retransmit(&mut window, MS), [0, 1, 2]);
    assert_eq!(window.reorders_until, 0);
    let guard = window.rtt.guard();
    assert_eq!(window.deadline(true), Some(guard));
    window.expire(guard, true, false);
    assert_eq!(retransmit(&mut window, guard), [3, 4]);
    let rto = window.rtt.base_rto();
    window.expire(rto, true, false);
    assert_eq!(retransmit(&mut window, rto), [6, 7]);
}

#[test]
fn lanes_are_told_apart_by_their_low_three_bits() {
    for (lane, resent) in [(7, &[][..]), (8, &[0]), (15, &[]), (248, &[0])] {
        let mut window = window(64, 0);
        send(&mut window, 0, 1);
        window.set_lane(lane);
        send(&mut window, 0, 3);
        take(&mut window, MS, &ack(u32::MAX, &[1, 2, 3]));
        assert_eq!(retransmit(&mut window, MS), resent, "{lane}");
        // A loss in lane 7 is detected, too.
        send(&mut window, MS, 4);
        take(&mut window, 2 * MS, &ack(u32::MAX, &[1, 2, 3, 5, 6, 7]));
        assert_eq!(retransmit(&mut window, 2 * MS), [4], "{lane}");
    }
}

#[test]
fn what_a_lane_brought_long_ago_is_no_evidence_though_numbers_wrap() {
    let mut window = window(64, 0);
    send(&mut window, 0, 8);
    take(&mut window, MS, &ack(7, &[]));
    window.set_lane(1);
    for (psn, number) in [(8, 1 << 30), (9, 2 << 30), (10, 3 << 30)] {
        window.next_transmission = number;
        send(&mut window, MS, 1);
        take(&mut window, MS, &ack(psn, &[]));
    }
    window.set_lane(0);
    send(&mut window, MS, 1);
    window.set_lane(1);
    send(&mut window, MS, 1);
    take(&mut window, 2 * MS, &ack(10, &[1]));
    assert_eq!(retransmit(&mut window, 2 * MS), []);
}

#[test]
fn late_arrival_of_what_was_lost_tells_of_reordering_unless_the_timer_took_it_for_lost() {
    for (timer, resent) in [(false, &[][..]), (true, &[4])] {
        let mut window = window(64, 0);
        for now in 0..10 {
            send(&mut window, now, 1);
        }
        let mut now = MS;
        if timer {
            now = window.deadline(false).unwrap();
            assert!(window.expire(now, false, false));
        } else {
            take(&mut window, now, &ack(u32::MAX, &[1, 2, 3]));
        }
        // The ACK arrives before the retransmission.
        take(&mut window, now + 1, &ack(3, &[]));
        take(&mut window, now + 2, &ack(3, &[1, 2, 3]));
        assert_eq!(retransmit(&mut window, now + 2), resent);
    }
}

#[test]
fn full_window_has_no_holes_beyond_its_end() {
    let mut window = window(64, 0);
    send(&mut window, 0, 64);
    // 60 and 62 arrived. The NACK says nothing about the packets before 60.
    let mut resent = Vec::new();
    for now in 1..10 {
        take(&mut window, now * MS, &ack(60, &[0, 2]));
        resent.extend(retransmit(&mut window, now * MS));
    }
    resent.dedup();
    assert_eq!(resent, [61]);
}

#[test]
fn nothing_is_inferred_about_what_the_bitmap_cannot_name() {
    let mut window = window(128, 0);
    send(&mut window, 0, 100);
    // 0 and 1 are lost, the rest arrives. A SACK can name only 31 of the rest.
    let all: Vec<u32> = (2..32).collect();
    take(&mut window, MS, &ack(u32::MAX, &all));
    assert_eq!(retransmit(&mut window, MS), [0, 1]);
    take(
        &mut window,
        2 * MS,
        &ack(
            0,
            &all.iter()
                .map(|bit| bit - 1)
                .chain([31])
                .collect::<Vec<_>>(),
        ),
    );
    assert_eq!(retransmit(&mut window, 2 * MS), []);
    take(&mut window, 3 * MS, &ack(99, &[]));
    assert_eq!(window.outstanding(), 0);
}

#[test]
fn nack_tells_of_holes_among_what_it_names_and_of_nothing_else() {
    let mut window = window(256, u32::MAX - 50);
    let psn = |offset: u32| (u32::MAX - 50).wrapping_add(offset);
    send(&mut window, 0, 200);
    let after_hole: Vec<u32> = (1..32).collect();
    // 100 and 103 arrived, and all from 160 on. Nothing names the others in between.
    take(
        &mut window,
        MS,
        &ack(psn(160), &[&[0], &after_hole[..]].concat()),
    );
    assert_eq!(retransmit(&mut window, MS), []);
    take(&mut window, MS, &ack(psn(100), &[0, 3]));
    let missing: Vec<u32> = [1, 2]
        .into_iter()
        .chain(4..32)
        .map(|i| psn(100 + i))
        .collect();
    let mut resent = retransmit(&mut window, MS);
    assert_eq!(resent, missing[..8]);
    while !retransmit(&mut window, MS).is_empty() {}
    take(&mut window, 2 * MS, &ack(psn(100), &[0, 3]));
    resent.extend(retransmit(&mut window, 2 * MS));
    assert_eq!(resent, missing[..16]);
    // The base is lost, because an ordinary ACK names it as missing.
    take(&mut window, 3 * MS, &ack(psn(u32::MAX), &after_hole));
    assert_eq!(retransmit(&mut window, 3 * MS)[0], psn(0));
}

#[test]
fn what_a_nack_named_as_received_does_not_go_with_a_timeout() {
    let mut config = config(256, 0);
    config.pdl_rtx_time_win = 1000 * MS;
    config.pdl_rtx_max_pkts = 64;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    send(&mut window, 0, 70);
    let all: Vec<u32> = (0..32).collect();
    take(&mut window, MS, &ack(32, &all));
    let at = window.deadline(false).unwrap();
    assert!(window.expire(at, false, false));
    let expected: Vec<u32> = (0..32).chain(64..70).collect();
    assert_eq!(retransmit(&mut window, at), expected);
}

#[test]
fn timeout_resends_the_base_and_what_was_sent_with_it() {
    let mut config = config(64, 0);
    config.pdl_rtx_time_win = 5;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    for now in [10, 12, 15, 16] {
        send(&mut window, now, 1);
    }
    let at = window.deadline(false).unwrap();
    assert_eq!(at, 10 + window.rtt.rto());
    assert!(!window.expire(at - 1, false, false));
    assert!(window.expire(at, false, false));
    assert_eq!(retransmit(&mut window, at), [0, 1, 2]);
    assert_eq!(window.deadline(false), Some(at + window.rtt.rto()));
}

#[test]
fn timeout_of_a_pure_ack_resends_the_request_that_was_sent_the_longest_ago() {
    let mut window = window(64, 0);
    window.assign(0, Content::None, 0, false);
    for now in [1, 2] {
        send(&mut window, now * MS, 1);
    }
    // The second time 1 is retransmitted because it was sent together with the pure ACK.
    for resent in [&[0, 1][..], &[0, 2, 1]] {
        let at = window.deadline(false).unwrap();
        assert!(window.expire(at, false, false));
        assert_eq!(retransmit(&mut window, at), resent);
    }
}

#[test]
fn probes_back_off_and_resend_pure_acks_only_for_what_waits_for_their_room() {
    let mut window = window(64, 0);
    window.assign(0, Content::None, 0, false);
    let mut at = 0;
    for doublings in 0..3 {
        let next = window.deadline(true).unwrap();
        assert_eq!(next - at, window.rtt.rto() << doublings);
        at = next;
        assert!(window.expire(at, true, false));
        assert_eq!(retransmit(&mut window, at), []);
    }
    at = window.deadline(true).unwrap();
    assert!(window.expire(at, true, true));
    assert_eq!(retransmit(&mut window, at), [0]);
}

#[test]
fn suspects_whose_time_has_come_are_resent_though_an_event_before_had_its_number() {
    let mut window = window(64, 0);
    send(&mut window, 0, 14);
    // Nine holes below three packets, and one below the last.
    take(&mut window, MS, &ack(u32::MAX, &[9, 10, 11, 13]));
    let at = window.deadline(false).unwrap();
    assert_eq!(retransmit(&mut window, MS), (0..8).collect::<Vec<_>>());
    assert!(!window.expire(at, false, false));
    assert_eq!(retransmit(&mut window, at), [8, 12]);
}

#[test]
fn timer_runs_for_content_only() {
    let mut window = window(64, 0);
    window.assign(0, Content::None, 0, false);
    window.assign(0, Content::None, 1, false);
    assert_eq!(window.deadline(false), None);
    assert!(window.deadline(true).is_some());
    send(&mut window, 5 * MS, 1);
    assert_eq!(window.deadline(false), Some(5 * MS + window.rtt.rto()));
    take(&mut window, 6 * MS, &ack(2, &[]));
    assert_eq!(window.deadline(false), None);
}

#[test]
fn progress_restarts_the_timer() {
    let mut window = window(64, 0);
    send(&mut window, 0, 10);
    take(&mut window, 30 * MS, &ack(4, &[]));
    let at = window.deadline(false).unwrap();
    assert_eq!(at, 30 * MS + window.rtt.rto());
    // An ACK without news does not restart it.
    take(&mut window, 35 * MS, &ack(4, &[]));
    assert_eq!(window.deadline(false), Some(at));
}

#[test]
fn late_timer_waits_once_more() {
    let mut window = window(64, 0);
    send(&mut window, 0, 1);
    let now = window.deadline(false).unwrap() + 500 * MS;
    assert!(!window.expire(now, false, false));
    let again = window.deadline(false).unwrap();
    assert!(again > now && again < now + 20 * MS);
    assert!(window.expire(again + 500 * MS, false, false));
}

#[test]
fn round_trip_is_measured_on_packets_sent_once_that_ask_for_an_answer() {
    let mut window = window(64, 0);
    window.assign(0, Content::None, 0, false);
    take(&mut window, 900 * MS, &ack(0, &[]));
    assert_eq!(window.rtt.srtt(), 0);
    send(&mut window, 900 * MS, 1);
    let at = window.deadline(false).unwrap();
    assert!(window.expire(at, false, false));
    assert_eq!(retransmit(&mut window, at), [1]);
    take(&mut window, at + MS, &ack(1, &[]));
    assert_eq!(window.rtt.srtt(), 0);
    send(&mut window, 2000 * MS, 2);
    take(&mut window, 2003 * MS, &ack(3, &[]));
    assert_eq!(window.rtt.srtt(), 3 * MS);
}

#[test]
fn packets_that_only_a_filled_hole_lets_be_acknowledged_are_not_measured() {
    let mut window = window(128, 0);
    send(&mut window, 0, 60);
    let all: Vec<u32> = (1..32).collect();
    take(&mut window, MS, &ack(u32::MAX, &all));
    assert_eq!(retransmit(&mut window, MS), [0]);
    // 32 to 59 arrived long ago, but no ACK could name them.
    take(&mut window, 40 * MS, &ack(59, &[]));
    assert_eq!(window.rtt.srtt(), MS);
}

#[test]
fn back_off_ends_with_a_repair_that_took_as_long_as_usual() {
    for (took, resent, ends) in [(MS, 1, true), (MS, 2, true), (9 * MS, 2, false)] {
        let mut window = window(64, 0);
        send(&mut window, 0, 1);
        take(&mut window, MS, &ack(0, &[]));
        let rto = window.rtt.rto();
        send(&mut window, MS, resent);
        let at = window.deadline(false).unwrap();
        assert!(window.expire(at, false, false));
        assert_eq!(retransmit(&mut window, at).len(), resent as usize);
        assert_eq!(window.rtt.rto(), 2 * rto);
        take(&mut window, at + took, &ack(resent, &[]));
        let expected = if ends { rto } else { 2 * rto };
        assert_eq!(window.rtt.rto(), expected, "{took} ns, {resent}");
    }
}

#[test]
fn connection_breaks_only_after_many_retransmissions_and_a_long_time() {
    let mut config = config(64, 0);
    config.pdl_max_rtx = 2;
    config.pdl_dead_time = 100 * MS;
    let mut quick = SendWindow::<Heap>::new(&config, 0).unwrap();
    quick.hear(0);
    send(&mut quick, 0, 1);
    for now in 1..50 {
        assert_eq!(quick.resend(now, 0, request(0), 0), Ok(false));
    }
    let mut slow = SendWindow::<Heap>::new(&config, 0).unwrap();
    slow.hear(0);
    send(&mut slow, 0, 1);
    for now in [1000, 2000, 3000] {
        assert_eq!(slow.resend(now * MS, 0, request(0), 0), Ok(false));
    }
    assert_eq!(slow.resend(4000 * MS, 0, request(0), 0), Err(PeerDead));
    assert_eq!(quick.resend(200 * MS, 0, request(0), 0), Err(PeerDead));
}

#[test]
fn time_of_a_peer_that_was_never_heard_counts_from_its_first_packet() {
    let mut config = config(64, 0);
    config.pdl_max_rtx = 2;
    config.pdl_dead_time = 100 * MS;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    send(&mut window, 0, 1);
    for now in 1..1000 {
        assert_eq!(window.resend(now * MS, 0, request(0), 0), Ok(false));
    }
    window.hear(1000 * MS);
    window.hear(1050 * MS);
    assert_eq!(window.resend(1100 * MS, 0, request(0), 0), Ok(false));
    assert_eq!(window.resend(1101 * MS, 0, request(0), 0), Err(PeerDead));
}

#[test]
fn first_flight_supposes_a_peer_with_the_own_receive_window() {
    let mut config = config(64, 0);
    config.pdl_receive_win = 2;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    send(&mut window, 0, 1);
    assert!(window.has_room(0));
    send(&mut window, 0, 1);
    assert!(!window.has_room(0));
    take(&mut window, 1, &ack(0, &[]));
    assert!(window.has_room(0));
}

#[test]
fn packet_whose_turn_comes_late_does_not_break_the_connection() {
    let mut config = config(64, 0);
    config.pdl_max_rtx = 1;
    config.pdl_dead_time = 100 * MS;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    window.hear(0);
    send(&mut window, 0, 2);
    take(&mut window, 1000 * MS, &ack(0, &[]));
    for _ in 0..5 {
        assert_eq!(window.resend(1100 * MS, 1, request(1), 0), Ok(false));
    }
    assert_eq!(window.resend(1101 * MS, 1, request(1), 0), Err(PeerDead));
}

#[test]
fn age_of_a_pure_ack_counts_from_when_it_is_missed() {
    let mut config = config(64, 0);
    config.pdl_max_rtx = 1;
    config.pdl_dead_time = 100 * MS;
    let mut window = SendWindow::<Heap>::new(&config, 0).unwrap();
    window.hear(0);
    window.assign(0, Content::None, 0, false);
    for now in 1000..1100 {
        assert_eq!(window.resend(now * MS, 0, Content::None, 0), Ok(false));
    }
    let dead = window.resend(1101 * MS, 0, Content::None, 0);
    assert_eq!(dead, Err(PeerDead));
}

#[test]
fn packet_that_is_not_needed_any_more_stops_the_timer() {
    let mut window = window(64, 0);
    send(&mut window, 0, 1);
    let at = window.deadline(false).unwrap();
    assert!(window.expire(at, false, false));
    let (psn, content, cause) = window.next_lost(at).unwrap();
    assert_eq!((psn, content, cause), (0, request(0), Cause::Timeout));
    window.resend(at, psn, Content::None, 0).unwrap();
    assert_eq!(window.deadline(false), None);
}

#[test]
fn last_packet_that_is_not_needed_any_more_starts_the_interval_of_probes() {
    let mut window = window(64, 0);
    send(&mut window, 0, 2);
    let at = window.deadline(true).unwrap();
    window.resend(MS, 0, Content::None, 0).unwrap();
    assert_eq!(window.deadline(true), Some(at));
    window.resend(2 * MS, 1, Content::None, 0).unwrap();
    assert_eq!(window.deadline(true), Some(2 * MS + at));
}

#[test]
fn base_carries_an_ack_only_when_its_own_is_overdue() {
    let mut window = window(16, 0);
    assert_eq!(window.overdue_base(u64::MAX), None);
    send(&mut window, 7, 16);
    let at = 7 + window.rtt.base_rto();
    assert_eq!(window.overdue_base(at - 1), None);
    let expected = (0, request(0), Cause::FullWindow);
    assert_eq!(window.overdue_base(at), Some(expected));
}

#[test]
fn pure_acks_take_no_psn_in_the_smallest_windows() {
    for (size, expected) in [(3, false), (4, true)] {
        let mut window = window(16, 0);
        let pdl = PdlHeader {
            window: size,
            ..ack(u32::MAX, &[])
        };
        take(&mut window, 0, &pdl);
        assert_eq!(window.has_ack_room(0), expected);
        assert!(window.has_room(0));
    }
}
