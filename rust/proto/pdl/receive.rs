// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Receive window: which PSNs have come, and in what order they are delivered.

use super::super::bitmap::{Bitmap, SACK_BITS};
use super::super::seq::psn_diff;
use super::super::slab::Slabs;

/// Where a PSN lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Acknowledged before, or received above a hole before [proto 3.8].
    Duplicate,
    /// The next one.
    InOrder,
    /// In the window above a hole.
    AboveHole,
    /// Beyond the window.
    Beyond,
}

/// Receive window of a connection.
///
/// Invariants: `next_deliver` is not ahead of `received.base()`; `held` has bits only for PSNs from
/// `next_deliver` on that are received.
pub(crate) struct ReceiveWindow<A: Slabs> {
    /// `acked_rbitmap`; its base is `next_acked_rpsn`.
    received: Bitmap<A>,
    /// PSNs whose packets the owner keeps.
    held: Bitmap<A>,
    /// How many PSNs have come that are above a hole.
    above: u32,
    /// Next PSN to deliver; behind `next_acked_rpsn` only while held packets are being released.
    next_deliver: u32,
    window: u32,
    ordered: bool,
    /// Lowest and highest PSN with content that came 32 or more beyond the base, where no SACK bitmap
    /// reaches, and that no NACK has named.
    unnamed: Option<(u32, u32)>,
}

impl<A: Slabs> ReceiveWindow<A> {
    pub(crate) fn new(window: u32, start: u32, ordered: bool) -> Option<Self> {
        Some(Self {
            received: Bitmap::new(window, start)?,
            held: Bitmap::new(window, start)?,
            above: 0,
            next_deliver: start,
            window,
            ordered,
            unnamed: None,
        })
    }

    /// Lowest PSN that has not come.
    pub(crate) fn next_acked_rpsn(&self) -> u32 {
        self.received.base()
    }

    /// First PSN beyond the window. Counted from what is delivered, so that a held packet's slot is
    /// never taken by another.
    pub(crate) fn max_rpsn(&self) -> u32 {
        self.next_deliver.wrapping_add(self.window)
    }

    /// The ACK PSN to send.
    pub(crate) fn ack_psn(&self) -> u32 {
        self.next_acked_rpsn().wrapping_sub(1)
    }

    /// The SACK bitmap to send. Bit 0 is that of `next_acked_rpsn` and hence clear [proto 3.4].
    pub(crate) fn sack(&self) -> u32 {
        self.received.bits(self.next_acked_rpsn())
    }

    /// Whether anything has come that is above a hole.
    pub(crate) fn any_hole(&self) -> bool {
        self.above > 0
    }

    /// ACK PSN and bitmap of the NACK to send, if one is due [proto 3.5]: the lowest PSN that nothing
    /// else would name, and the 31 after it.
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

    /// A NACK from `psn` on is sent.
    pub(crate) fn nacked(&mut self, psn: u32) {
        let low = psn.wrapping_add(SACK_BITS);
        self.unnamed = self.unnamed.map(|(_, high)| (low, high));
        self.forget_named();
    }

    /// Number of PSNs among which some are to be named by a NACK; 0 for none.
    pub(crate) fn unnamed(&self) -> u32 {
        self.unnamed
            .map_or(0, |(low, high)| high.wrapping_sub(low).saturating_add(1))
    }

    /// First PSN beyond those that the SACK bitmap names.
    fn sack_end(&self) -> u32 {
        self.next_acked_rpsn().wrapping_add(SACK_BITS)
    }

    /// Keeps of `unnamed` what a SACK bitmap does not reach.
    fn forget_named(&mut self) {
        let reach = self.sack_end();
        self.unnamed = self.unnamed.and_then(|(low, high)| {
            let low = if psn_diff(low, reach) < 0 { reach } else { low };
            (psn_diff(high, low) >= 0).then_some((low, high))
        });
    }

    /// Where `psn` lies. Changes nothing.
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

    /// Whether a packet of this PSN would have to be held.
    pub(crate) fn would_hold(&self, psn: u32) -> bool {
        self.ordered && psn != self.next_deliver
    }

    /// Takes a PSN that is `InOrder` or `AboveHole`; whether its packet is to be delivered at once.
    /// If not, and `content` is set, the owner must hold the packet [proto 3.9].
    pub(crate) fn accept(&mut self, psn: u32, content: bool) -> bool {
        // As nearly always: nothing came before its turn.
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
        self.above = self.above.saturating_add(1).saturating_sub(run);
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

    /// Whether a PSN is in its turn, with nothing above a hole: then each after it is in its turn behind the one before.
    pub(crate) fn is_next(&self, psn: u32) -> bool {
        psn == self.received.base() && psn == self.next_deliver && !self.any_hole()
    }

    /// Takes so many PSNs, of which the first [`Self::is_next`].
    pub(crate) fn accept_next(&mut self, count: u32) {
        self.received.pass(count);
        self.next_deliver = self.received.base();
    }

    /// The next held PSN that is in order now. The window takes it as delivered.
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
        // Not for packets that ask for nothing.
        window.accept(psn(40), false);
        assert_eq!(window.nack(), None);
        window.accept(psn(50), true);
        window.accept(psn(45), true);
        window.accept(psn(90), true);
        assert_eq!(window.nack(), Some((psn(45), 1 | 1 << 5)));
        assert_eq!(window.unnamed(), 46);
        window.nacked(psn(45));
        assert_eq!(window.nack(), Some((psn(90), 1)));
        window.nacked(psn(90));
        assert_eq!((window.nack(), window.unnamed()), (None, 0));
        // One that fills a gap is news, and those beside it go along.
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
                let told = window.would_hold(psn(offset));
                assert_eq!(told, ordered && offset > 1);
                assert_eq!(window.accept(psn(offset), true), !told);
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
