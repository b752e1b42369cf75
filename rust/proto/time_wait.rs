// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Recently closed queue pairs.

use super::slab::Slabs;

/// Number of queue pairs in the list.
const SLOTS: usize = 256;

/// Time in ns for which a closed queue pair stays in the list. RDMA devices retransmit an
/// unanswered request for about as long.
const TIME_WAIT: u64 = 2_000_000_000;

/// The recently closed queue pairs of a node.
///
/// A program often closes its queue pair when it has all that it waited for, while the peer's last
/// messages are still under way. The peer must not see these messages fail. A message to a queue
/// pair in this list is refused with "no receive buffer", which the peer repeats, and not with "no
/// such queue pair". That gives the peer time to close its own end.
pub struct TimeWait<A: Slabs> {
    slots: A::Slab<Closed>,
    /// Slot that the next entry replaces: the oldest one.
    next: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    qpn: u32,
    /// Time in ns at which the entry expires. A slot that was never used has 0.
    until: u64,
}

impl<A: Slabs> TimeWait<A> {
    /// Creates an empty list. Returns `None` if there is no memory.
    ///
    /// Allocates: process context in the module.
    pub fn new() -> Option<Self> {
        let slots = A::slab(SLOTS)?;
        Some(Self { slots, next: 0 })
    }

    /// Adds queue pair `qpn`, which closes at `now` (ns), in place of the oldest entry.
    pub fn put(&mut self, qpn: u32, now: u64) {
        if let Some(slot) = self.slots.get_mut(self.next) {
            let until = now.saturating_add(TIME_WAIT);
            *slot = Closed { qpn, until };
        }
        self.next = self.next.wrapping_add(1) % SLOTS;
    }

    /// Whether queue pair `qpn` closed less than two seconds before `now`, in ns.
    pub fn contains(&self, qpn: u32, now: u64) -> bool {
        let matches = |slot: &Closed| slot.qpn == qpn && now < slot.until;
        self.slots.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::test::Heap;
    use super::*;

    #[test]
    fn queue_pair_is_remembered_for_a_time() {
        let mut time_wait = TimeWait::<Heap>::new().unwrap();
        assert!(!time_wait.contains(0, 0));
        time_wait.put(7, 1_000);
        assert!(time_wait.contains(7, 1_000));
        assert!(time_wait.contains(7, 999 + TIME_WAIT));
        assert!(!time_wait.contains(7, 1_000 + TIME_WAIT));
        assert!(!time_wait.contains(8, 1_000));
    }

    #[test]
    fn one_remembered_longest_gives_way() {
        let mut time_wait = TimeWait::<Heap>::new().unwrap();
        for qpn in 1..=257 {
            time_wait.put(qpn, 5);
        }
        assert!(!time_wait.contains(1, 5));
        assert!(time_wait.contains(2, 5) && time_wait.contains(257, 5));
    }
}
