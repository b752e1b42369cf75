// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Receive window: the PSNs that arrived, and the order of delivery.

use super::super::bitmap::{Bitmap, SACK_BITS};
use super::super::seq::psn_diff;
use super::super::slab::Slabs;

/// Position of a PSN relative to the receive window. A *hole* is a PSN that did not arrive while a
/// later one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Received before, in order or above a hole [proto 3.8].
    Duplicate,
    /// The lowest PSN that did not arrive yet.
    InOrder,
    /// In the window, above a hole, and not received before.
    AboveHole,
    /// Beyond the window.
    Beyond,
}

/// Receive window of a connection.
///
/// # Invariants
///
/// `next_deliver` is not ahead of `received.base()`. `held` has bits only for received PSNs from
/// `next_deliver` on.
pub(crate) struct ReceiveWindow<A: Slabs> {
    /// The specification's `acked_rbitmap`. Its base is `next_acked_rpsn`.
    received: Bitmap<A>,
    /// PSNs whose packets the owner holds.
    held: Bitmap<A>,
    /// Number of received PSNs above a hole.
    above_hole: u32,
    /// Next PSN to deliver. Behind `next_acked_rpsn` only while held packets are being released.
    next_deliver: u32,
    /// Size of the window, in packets.
    window: u32,
    /// Packets are delivered in the order of their PSNs.
    ordered: bool,
    /// Lowest and highest PSN that needs a NACK: its packet has content, arrived 32 or more beyond
    /// the base, where no ordinary ACK can name it, and no NACK has named it.
    unnamed: Option<(u32, u32)>,
}

impl<A: Slabs> ReceiveWindow<A> {
    pub(crate) fn new(window: u32, start: u32, ordered: bool) -> Option<Self> {
        Some(Self {
            received: Bitmap::new(window, start)?,
            held: Bitmap::new(window, start)?,
            above_hole: 0,
            next_deliver: start,
            window,
            ordered,
            unnamed: None,
        })
    }

    /// Lowest PSN that did not arrive.
    pub(crate) fn next_acked_rpsn(&self) -> u32 {
        self.received.base()
    }

    /// First PSN beyond the window. The window starts at the next PSN to deliver, so that no two
    /// held packets need the same slot.
    pub(crate) fn max_rpsn(&self) -> u32 {
        self.next_deliver.wrapping_add(self.window)
    }

    /// The ACK PSN of an ordinary ACK.
    pub(crate) fn ack_psn(&self) -> u32 {
        self.next_acked_rpsn().wrapping_sub(1)
    }

    /// The SACK bitmap of an ordinary ACK. Bit 0 stands for `next_acked_rpsn`, so it is clear
    /// [proto 3.4].
    pub(crate) fn sack(&self) -> u32 {
        self.received.bits(self.next_acked_rpsn())
    }

    /// Whether a packet arrived above a hole.
    pub(crate) fn any_hole(&self) -> bool {
        self.above_hole > 0
    }

    /// Returns ACK PSN and bitmap of the next NACK [proto 3.5]: the lowest PSN in `unnamed` that
    /// arrived, and the bits of the 32 PSNs from there on. `None` if no PSN needs a NACK.
    pub(crate) fn nack(&self) -> Option<(u32, u32)> {
        let (mut psn, high) = self.unnamed?;
        while psn_diff(high, psn) >= 0 {
            let bits = self.received.bits(psn);
            if bits != 0 {
                psn = psn.wrapping_add(bits.trailing_zeros());
                return Some((psn, self.received.bits(psn)));
            }
            psn = psn.wrapping_add(SACK_BITS);
        }
        None
    }

    /// Records that a NACK with ACK PSN `psn` was sent.
    pub(crate) fn nack_sent(&mut self, psn: u32) {
        let low = psn.wrapping_add(SACK_BITS);
        self.unnamed = self.unnamed.map(|(_, high)| (low, high));
        self.forget_named();
    }

    /// Size of the range of PSNs that needs NACKs; 0 if no PSN needs one.
    pub(crate) fn unnamed(&self) -> u32 {
        self.unnamed
            .map_or(0, |(low, high)| high.wrapping_sub(low).saturating_add(1))
    }

    /// First PSN beyond those that the bitmap of an ordinary ACK names.
    fn sack_end(&self) -> u32 {
        self.next_acked_rpsn().wrapping_add(SACK_BITS)
    }

    /// Removes from `unnamed` what the bitmap of an ordinary ACK names.
    fn forget_named(&mut self) {
        let reach = self.sack_end();
        self.unnamed = self.unnamed.and_then(|(low, high)| {
            let low = if psn_diff(low, reach) < 0 { reach } else { low };
            (psn_diff(high, low) >= 0).then_some((low, high))
        });
    }

    /// Classifies `psn`. Changes no state.
    pub(crate) fn classify(&self, psn: u32) -> Arrival {
        let ahead = psn_diff(psn, self.next_acked_rpsn());
        if ahead < 0 {
            Arrival::Duplicate
        } else if psn_diff(psn, self.max_rpsn()) >= 0 {
            Arrival::Beyond
        } else if ahead == 0 {
            Arrival::InOrder
        } else if self.received.get(psn) {
            Arrival::Duplicate
        } else {
            Arrival::AboveHole
        }
    }

    /// Whether a packet with this PSN, if it is new, must be held.
    pub(crate) fn would_hold(&self, psn: u32) -> bool {
        self.ordered && psn != self.next_deliver
    }

    /// Marks as received a PSN that is `InOrder` or `AboveHole`. Returns true if its packet is to
    /// be delivered at once. Otherwise the owner must hold the packet, if it has `content`
    /// [proto 3.9].
    pub(crate) fn accept(&mut self, psn: u32, content: bool) -> bool {
        // The common case: no packet arrived out of order.
        if self.is_next(psn) {
            self.accept_next(1);
            return true;
        }
        let at_once = !self.would_hold(psn);
        self.received.set(psn);
        if content && !at_once {
            self.held.set(psn);
        }
        let run = self.received.run(self.received.base());
        self.received.advance(run);
        self.above_hole = self.above_hole.saturating_add(1).saturating_sub(run);
        if content && psn_diff(psn, self.sack_end()) >= 0 {
            let (mut low, mut high) = self.unnamed.unwrap_or((psn, psn));
            if psn_diff(psn, low) < 0 {
                low = psn;
            }
            if psn_diff(psn, high) > 0 {
                high = psn;
            }
            self.unnamed = Some((low, high));
        }
        self.forget_named();
        if !self.ordered {
            self.next_deliver = self.received.base();
        } else if at_once {
            self.next_deliver = psn.wrapping_add(1);
        }
        at_once
    }

    /// Whether `psn` is the next PSN to receive and to deliver, and no packet is above a hole. Then
    /// each following PSN is next after the one before it.
    pub(crate) fn is_next(&self, psn: u32) -> bool {
        psn == self.received.base() && psn == self.next_deliver && !self.any_hole()
    }

    /// Marks `count` consecutive PSNs as received and delivered. The first one must satisfy
    /// [`Self::is_next`].
    pub(crate) fn accept_next(&mut self, count: u32) {
        self.received.advance_empty(count);
        self.next_deliver = self.received.base();
    }

    /// Returns the next held PSN whose turn has come, and marks it as delivered.
    pub(crate) fn next_release(&mut self) -> Option<u32> {
        while self.next_deliver != self.received.base() {
            let psn = self.next_deliver;
            self.next_deliver = psn.wrapping_add(1);
            if self.held.get(psn) {
                self.held.clear(psn);
                return Some(psn);
            }
        }
        None
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests {
    use super::super::super::slab::test::Heap;
    use super::*;

    const START: u32 = u32::MAX - 2;

    fn psn(offset: u32) -> u32 {
        START.wrapping_add(offset)
    }

    #[test]
    fn classifies_around_the_window_across_wrap() {
        let mut window = ReceiveWindow::<Heap>::new(16, START, false).unwrap();
        assert_eq!(window.classify(psn(u32::MAX)), Arrival::Duplicate);
        assert_eq!(window.classify(psn(0)), Arrival::InOrder);
        assert_eq!(window.classify(psn(15)), Arrival::AboveHole);
        assert_eq!(window.classify(psn(16)), Arrival::Beyond);
        assert!(window.accept(psn(15), true));
        assert_eq!(window.classify(psn(15)), Arrival::Duplicate);
        assert!(window.accept(psn(0), true));
        assert_eq!(window.classify(psn(16)), Arrival::AboveHole);
    }

    #[test]
    fn ack_fields_follow_holes() {
        let mut window = ReceiveWindow::<Heap>::new(64, START, false).unwrap();
        assert_eq!((window.ack_psn(), window.sack()), (psn(u32::MAX), 0));
        for offset in [1, 3, 31, 32] {
            window.accept(psn(offset), true);
        }
        assert_eq!(
            (window.ack_psn(), window.sack()),
            (psn(u32::MAX), 1 << 1 | 1 << 3 | 1 << 31)
        );
        window.accept(psn(0), true);
        assert_eq!(
            (window.ack_psn(), window.sack()),
            (psn(1), 1 << 1 | 1 << 29 | 1 << 30)
        );
    }

    #[test]
    fn nack_names_once_what_no_bitmap_reaches() {
        let mut window = ReceiveWindow::<Heap>::new(256, START, false).unwrap();
        window.accept(psn(31), true);
        assert_eq!((window.nack(), window.unnamed()), (None, 0));
        // A pure ACK needs no NACK.
        window.accept(psn(40), false);
        assert_eq!(window.nack(), None);
        window.accept(psn(50), true);
        window.accept(psn(45), true);
        window.accept(psn(90), true);
        assert_eq!(window.nack(), Some((psn(45), 1 | 1 << 5)));
        assert_eq!(window.unnamed(), 46);
        window.nack_sent(psn(45));
        assert_eq!(window.nack(), Some((psn(90), 1)));
        window.nack_sent(psn(90));
        assert_eq!((window.nack(), window.unnamed()), (None, 0));
        // A packet that fills a gap between named ones needs a NACK, which also names those after
        // it.
        window.accept(psn(49), true);
        assert_eq!(window.nack(), Some((psn(49), 1 | 1 << 1)));
    }

    #[test]
    fn nack_is_forgotten_when_the_base_comes_near() {
        let mut window = ReceiveWindow::<Heap>::new(256, START, false).unwrap();
        for offset in 20..60 {
            window.accept(psn(offset), true);
        }
        assert_eq!(window.nack(), Some((psn(32), (1 << 28) - 1)));
        for offset in 0..20 {
            window.accept(psn(offset), true);
        }
        assert_eq!(window.ack_psn(), psn(59));
        assert_eq!((window.nack(), window.unnamed()), (None, 0));
    }

    #[test]
    fn ordered_window_releases_in_order_and_skips_pure_acks() {
        let mut window = ReceiveWindow::<Heap>::new(16, START, true).unwrap();
        assert!(!window.accept(psn(2), true));
        assert!(!window.accept(psn(1), false));
        assert!(!window.accept(psn(4), true));
        assert_eq!(window.next_release(), None);
        assert!(window.accept(psn(0), true));
        assert_eq!(window.next_release(), Some(psn(2)));
        assert_eq!(window.next_release(), None);
        assert!(window.accept(psn(3), true));
        assert_eq!(window.next_release(), Some(psn(4)));
        assert_eq!(window.next_release(), None);
        assert_eq!(window.ack_psn(), psn(4));
    }

    #[test]
    fn tells_beforehand_which_packet_would_be_held() {
        for ordered in [true, false] {
            let mut window = ReceiveWindow::<Heap>::new(16, START, ordered).unwrap();
            for offset in [2, 0, 3, 1] {
                let held = window.would_hold(psn(offset));
                assert_eq!(held, ordered && offset > 1);
                assert_eq!(window.accept(psn(offset), true), !held);
            }
        }
    }

    #[test]
    fn packet_behind_unreleased_ones_is_held() {
        let mut window = ReceiveWindow::<Heap>::new(16, START, true).unwrap();
        assert!(!window.accept(psn(1), true));
        assert!(window.accept(psn(0), true));
        assert!(!window.accept(psn(2), true));
        assert_eq!(window.classify(psn(17)), Arrival::Beyond);
        assert_eq!(window.next_release(), Some(psn(1)));
        assert_eq!(window.next_release(), Some(psn(2)));
        assert_eq!(window.next_release(), None);
        assert_eq!(window.classify(psn(17)), Arrival::AboveHole);
    }
}
