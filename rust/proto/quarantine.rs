// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Quarantine: identifiers of removed connections that must not be chosen again yet.

use super::slab::Slabs;

/// Smallest number of slots.
const SLOTS_MIN: usize = 16;

/// The identifiers of a node's recently removed connections [proto 3.20].
///
/// The quarantine limits only what the node chooses. An administrator may name any identifier.
///
/// [`Self::make_room`] runs when a connection is created and allocates the slot that
/// [`Self::put`] uses at its removal. A removal therefore never fails for lack of memory.
#[derive(Default)]
pub struct Quarantine<A: Slabs> {
    /// The first `held` slots are in use, sorted by identifier.
    slots: Option<A::Slab<Held>>,
    held: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    cid: u16,
    /// Time in ns from which on the identifier may be chosen again.
    until: u64,
}

impl<A: Slabs> Quarantine<A> {
    /// Creates an empty quarantine. Does not allocate.
    pub const fn new() -> Self {
        Self {
            slots: None,
            held: 0,
        }
    }

    /// Drops identifiers whose time is over at `now` (ns), and provides slots for those of
    /// `connections` existing or new connections. Returns `None` if there is no memory.
    ///
    /// Allocates: process context in the module.
    pub fn make_room(&mut self, now: u64, connections: usize) -> Option<()> {
        self.expire(now);
        let needed = self.held.checked_add(connections)?.max(SLOTS_MIN);
        let size = needed.checked_next_power_of_two()?;
        if self.slots.as_ref().is_none_or(|slots| slots.len() != size) {
            let mut slots = A::slab(size)?;
            for (slot, held) in slots.iter_mut().zip(self.held()) {
                *slot = *held;
            }
            self.slots = Some(slots);
        }
        Some(())
    }

    /// Quarantines an identifier until the time `until`, in ns. Without a free slot the identifier
    /// is not stored; [`Self::make_room`] prevents that.
    pub fn put(&mut self, cid: u16, until: u64) {
        let Some(slots) = self.slots.as_deref_mut() else {
            return;
        };
        // Insertion keeps the order: entries with a greater identifier move up by one slot.
        let mut moved = Held { cid, until };
        for slot in slots.iter_mut().take(self.held) {
            if slot.cid == moved.cid {
                slot.until = slot.until.max(until);
                return;
            }
            if slot.cid > moved.cid {
                core::mem::swap(slot, &mut moved);
            }
        }
        if let Some(slot) = slots.get_mut(self.held) {
            *slot = moved;
            self.held = self.held.saturating_add(1);
        }
    }

    /// Returns the smallest identifier from 1 on that is neither in use nor quarantined.
    ///
    /// # Errors
    ///
    /// No identifier is free. The error is the time in ns at which the first one leaves quarantine,
    /// or `None` if all are in use.
    pub fn choose(&self, now: u64, in_use: impl Fn(u16) -> bool) -> Result<u16, Option<u64>> {
        let mut held = self.held().iter().peekable();
        let mut earliest = None;
        for cid in (1..=u16::MAX).filter(|&cid| !in_use(cid)) {
            while held.next_if(|held| held.cid < cid).is_some() {}
            match held
                .peek()
                .filter(|held| held.cid == cid && held.until > now)
            {
                None => return Ok(cid),
                Some(held) => earliest = Some(earliest.unwrap_or(u64::MAX).min(held.until)),
            }
        }
        Err(earliest)
    }

    /// The slots in use.
    fn held(&self) -> &[Held] {
        let slots = self.slots.as_deref();
        slots
            .and_then(|slots| slots.get(..self.held))
            .unwrap_or(&[])
    }

    /// Drops identifiers whose time is over.
    fn expire(&mut self, now: u64) {
        let Some(slots) = self.slots.as_deref_mut() else {
            return;
        };
        let mut len = 0usize;
        for at in 0..self.held {
            let Some(held) = slots.get(at).copied().filter(|held| held.until > now) else {
                continue;
            };
            if let Some(slot) = slots.get_mut(len) {
                *slot = held;
                len = len.saturating_add(1);
            }
        }
        self.held = len;
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::test::Heap;
    use super::*;

    fn quarantine(connections: usize) -> Quarantine<Heap> {
        let mut quarantine = Quarantine::new();
        quarantine.make_room(0, connections).unwrap();
        quarantine
    }

    fn slots(quarantine: &Quarantine<Heap>) -> usize {
        quarantine.slots.as_ref().map_or(0, |slots| slots.len())
    }

    #[test]
    fn removed_identifier_is_free_again_after_its_time() {
        let mut quarantine = quarantine(3);
        assert_eq!(quarantine.choose(0, |_| false), Ok(1));
        quarantine.put(2, 30);
        quarantine.put(1, 20);
        quarantine.put(4, 10);
        let in_use = |cid| cid == 3;
        assert_eq!(quarantine.choose(5, in_use), Ok(5));
        assert_eq!(quarantine.choose(10, in_use), Ok(4));
        assert_eq!(quarantine.choose(19, in_use), Ok(4));
        assert_eq!(quarantine.choose(20, in_use), Ok(1));
        // An administrator named identifier 1, and that connection was removed again.
        quarantine.put(1, 50);
        quarantine.put(2, 25);
        assert_eq!(quarantine.choose(29, in_use), Ok(4));
        assert_eq!(quarantine.choose(30, in_use), Ok(2));
        assert_eq!(quarantine.choose(50, in_use), Ok(1));
    }

    #[test]
    fn refusal_tells_when_the_first_is_free() {
        let mut quarantine = quarantine(usize::from(u16::MAX));
        for cid in (1..=u16::MAX).rev() {
            quarantine.put(cid, 1000 + u64::from(cid));
        }
        assert_eq!(quarantine.choose(0, |_| false), Err(Some(1001)));
        assert_eq!(quarantine.choose(0, |cid| cid < 9), Err(Some(1009)));
        assert_eq!(quarantine.choose(0, |_| true), Err(None));
        assert_eq!(quarantine.choose(1009, |cid| cid < 9), Ok(9));
    }

    #[test]
    fn memory_follows_what_is_held() {
        let mut quarantine = quarantine(1);
        assert_eq!(slots(&quarantine), SLOTS_MIN);
        for cid in 1..=1000 {
            let now = u64::from(cid);
            quarantine.make_room(now, 1).unwrap();
            quarantine.put(cid, now + 100);
            assert_eq!(
                quarantine.held,
                usize::from(cid.min(100)),
                "the last hundred"
            );
            assert!(slots(&quarantine) <= 128);
            assert!(quarantine.held().is_sorted_by_key(|held| held.cid));
        }
        quarantine.make_room(2000, 1).unwrap();
        assert_eq!((slots(&quarantine), quarantine.held), (SLOTS_MIN, 0));
        // Without free slots identifiers are not stored, and nothing breaks.
        for cid in 1..=20 {
            quarantine.put(cid, 3000);
        }
        assert_eq!(quarantine.choose(2000, |_| false), Ok(17));
    }
}
