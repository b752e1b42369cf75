// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Serial arithmetic on PSNs and XIDs [proto 3.1, 4.5].

/// Distance from PSN `b` to PSN `a`; negative if `a` is behind `b`.
pub(super) const fn psn_diff(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Distance from XID `b` to XID `a`; negative if `a` is behind `b`.
pub(super) const fn xid_diff(a: u16, b: u16) -> i16 {
    a.wrapping_sub(b) as i16
}

/// Largest age of an ACK PSN in a packet that was delayed, in packets: the largest window. The
/// bound makes an off-path attacker, who sends packets and sees none, guess the ACK PSN
/// [proto 3.2].
const ACK_AGE_MAX: i32 = 1024;

/// Whether `ack_psn`, which is older than the lowest unacknowledged PSN `unacked`, can come from a
/// packet that was delayed.
pub(super) fn is_late(ack_psn: u32, unacked: u32) -> bool {
    (-ACK_AGE_MAX..0).contains(&psn_diff(ack_psn, unacked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_packet_has_an_ack_psn_of_the_last_window() {
        for unacked in [0, 5, 1 << 31, u32::MAX] {
            let late = |distance: i32| is_late(unacked.wrapping_add_signed(distance), unacked);
            assert!(late(-1) && late(-1024));
            for distance in [0, 7, 1 << 20, i32::MAX, i32::MIN, -1025] {
                assert!(!late(distance), "{distance}");
            }
        }
    }

    /// All 2^32 pairs.
    #[test]
    fn xids_are_as_far_apart_as_one_was_counted_from_the_other() {
        for from in 0..=u16::MAX {
            let wrong = (i16::MIN..=i16::MAX)
                .filter(|&distance| xid_diff(from.wrapping_add_signed(distance), from) != distance);
            assert_eq!(wrong.count(), 0, "from {from}");
        }
    }

    #[test]
    fn psns_are_as_far_apart_as_one_was_counted_from_the_other() {
        let corners = [0, 1 << 16, 1 << 30, 1 << 31, 3 << 30, u32::MAX];
        let near =
            |corner: u32| (-40..40).map(move |distance| corner.wrapping_add_signed(distance));
        for from in corners.into_iter().flat_map(near) {
            for distance in corners.into_iter().flat_map(near) {
                let distance = distance as i32;
                assert_eq!(psn_diff(from.wrapping_add_signed(distance), from), distance);
            }
        }
        for from in 0..=u16::MAX {
            let from = u32::from(from).wrapping_mul(0x1_0001);
            assert_eq!(psn_diff(from.wrapping_add(1), from), 1);
            assert_eq!(psn_diff(from, from.wrapping_add(1)), -1);
        }
    }
}
