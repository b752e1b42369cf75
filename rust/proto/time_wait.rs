// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs that ended a moment ago.

use super::slab::Slabs;

/// How many are remembered.
const SLOTS: usize = 256;

/// How long one is remembered, ns: about as long as RDMA devices repeat what is not answered.
const REMEMBERED: u64 = 2_000_000_000;

/// The queue pairs of a node that ended lately.
///
/// Who has received all it waited for leaves, often before the other end has looked at its last
/// completions. Messages that come then are not received, but are not failures either, until the other
/// end has had time to leave, too.
pub struct TimeWait<A: Slabs> {
    slots: A::Slab<Gone>,
    next: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    qpn: u32,
    /// From then on it is forgotten, ns.
    until: u64,
}

impl<A: Slabs> TimeWait<A> {
    /// Nothing has ended. `None`: there is no memory.
    pub fn new() -> Option<Self> {
        let slots = A::slab(SLOTS)?;
        Some(Self { slots, next: 0 })
    }

    /// Queue pair `qpn` ends at `now`, in ns. The one remembered longest gives way.
    pub fn put(&mut self, qpn: u32, now: u64) {
        if let Some(slot) = self.slots.get_mut(self.next) {
            let until = now.saturating_add(REMEMBERED);
            *slot = Gone { qpn, until };
        }
        self.next = self.next.wrapping_add(1) % SLOTS;
    }

    /// Whether `qpn` ended a moment before `now`, in ns.
    pub fn contains(&self, qpn: u32, now: u64) -> bool {
        let gone = |slot: &Gone| slot.qpn == qpn && now < slot.until;
        self.slots.iter().any(gone)
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
        assert!(time_wait.contains(7, 999 + REMEMBERED));
        assert!(!time_wait.contains(7, 1_000 + REMEMBERED));
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
