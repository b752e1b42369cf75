// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Bitmaps: one over a sliding window of PSNs, and one over the Seqnos of each transaction.

use super::slab::Slabs;

/// Number of bits in the SACK bitmap on the wire.
pub(super) const SACK_BITS: u32 = 32;

/// A bit for each number of a sliding window.
///
/// The position of a number's bit does not depend on the base. Sliding the window therefore clears
/// the bits that leave it, and shifts none. The bitmap has at least 32 bits more than the window
/// has numbers, so that [`Self::bits`] can read 32 bits from any number in the window.
///
/// # Invariants
///
/// Bits of numbers outside `base .. base + window` are clear.
pub(super) struct Bitmap<A: Slabs> {
    words: A::Slab<u64>,
    mask: u32,
    base: u32,
}

impl<A: Slabs> Bitmap<A> {
    /// Allocates a bitmap for `window` numbers from `base` on. All bits are clear.
    pub(super) fn new(window: u32, base: u32) -> Option<Self> {
        let bits = window
            .checked_add(SACK_BITS)?
            .checked_next_power_of_two()?
            .max(u64::BITS);
        Some(Self {
            words: A::slab((bits / u64::BITS) as usize)?,
            mask: bits.wrapping_sub(1),
            base,
        })
    }

    /// First number of the window.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// Whether the bit of `seq` is set.
    pub(super) fn get(&self, seq: u32) -> bool {
        (self.word(seq) >> (seq % u64::BITS)) & 1 != 0
    }

    /// Sets the bit of `seq`, which must be in the window.
    pub(super) fn set(&mut self, seq: u32) {
        if let Some(word) = self.word_mut(seq) {
            *word |= 1 << (seq % u64::BITS);
        }
    }

    /// Clears the bit of `seq`.
    pub(super) fn clear(&mut self, seq: u32) {
        if let Some(word) = self.word_mut(seq) {
            *word &= !(1 << (seq % u64::BITS));
        }
    }

    /// Returns the bits of the 32 numbers from `seq` on. Bit 0 is that of `seq`.
    pub(super) fn bits(&self, seq: u32) -> u32 {
        let shift = seq % u64::BITS;
        let low = self.word(seq) >> shift;
        let high = self
            .word(seq.wrapping_add(SACK_BITS))
            .checked_shl(u64::BITS.wrapping_sub(shift))
            .unwrap_or(0);
        // If one word has all 32 bits, `high` comes from that same word and must not be used.
        if shift > u64::BITS - SACK_BITS {
            (low | high) as u32
        } else {
            low as u32
        }
    }

    /// Sets the bit of `seq + i` for each bit `i` that is set in `bits`. All these numbers must be
    /// in the window.
    pub(super) fn or(&mut self, seq: u32, bits: u32) {
        let shift = seq % u64::BITS;
        let bits = u64::from(bits);
        if let Some(word) = self.word_mut(seq) {
            *word |= bits << shift;
        }
        if shift > u64::BITS - SACK_BITS {
            if let Some(word) = self.word_mut(seq.wrapping_add(SACK_BITS)) {
                *word |= bits >> u64::BITS.wrapping_sub(shift);
            }
        }
    }

    /// Number of consecutive set bits from `seq` on.
    pub(super) fn run(&self, seq: u32) -> u32 {
        let mut run = 0u32;
        while run <= self.mask {
            let at = seq.wrapping_add(run);
            let shift = at % u64::BITS;
            let ones = (self.word(at) >> shift).trailing_ones();
            run = run.wrapping_add(ones);
            if ones < u64::BITS.wrapping_sub(shift) {
                break;
            }
        }
        run
    }

    /// Slides the window by `n` numbers. No bit of the bitmap may be set.
    pub(super) fn advance_empty(&mut self, n: u32) {
        self.base = self.base.wrapping_add(n);
    }

    /// Slides the window by `n` numbers, at most its size, and clears their bits.
    pub(super) fn advance(&mut self, n: u32) {
        let mut remaining = n;
        while remaining > 0 {
            let shift = self.base % u64::BITS;
            let step = remaining.min(u64::BITS.wrapping_sub(shift));
            let ones = u64::MAX >> u64::BITS.wrapping_sub(step);
            let base = self.base;
            if let Some(word) = self.word_mut(base) {
                *word &= !(ones << shift);
            }
            self.base = base.wrapping_add(step);
            remaining = remaining.wrapping_sub(step);
        }
    }

    fn word(&self, seq: u32) -> u64 {
        let index = (seq & self.mask) / u64::BITS;
        self.words.get(index as usize).copied().unwrap_or(0)
    }

    fn word_mut(&mut self, seq: u32) -> Option<&mut u64> {
        let index = (seq & self.mask) / u64::BITS;
        self.words.get_mut(index as usize)
    }
}

/// Received Seqnos: a bitmap for each slot of a transaction window [proto 4.2].
pub(super) struct SeqnoBitmaps<A: Slabs> {
    words: A::Slab<u64>,
    words_per_slot: usize,
}

impl<A: Slabs> SeqnoBitmaps<A> {
    /// Allocates clear bitmaps for `slots` slots, each for Seqnos 0 to `max_packets - 1`.
    pub(super) fn new(slots: usize, max_packets: u32) -> Option<Self> {
        let words_per_slot = max_packets.div_ceil(u64::BITS) as usize;
        Some(Self {
            words: A::slab(slots.checked_mul(words_per_slot)?)?,
            words_per_slot,
        })
    }

    /// Whether `slot` received any of the `count` Seqnos from `seqno` on.
    pub(super) fn any(&self, slot: u16, seqno: u16, count: u16) -> bool {
        let bits = |word: usize| self.words.get(word).copied().unwrap_or(0);
        self.masks(slot, seqno, count)
            .any(|(word, mask)| bits(word) & mask != 0)
    }

    /// Records that `slot` received the `count` Seqnos from `seqno` on.
    pub(super) fn set(&mut self, slot: u16, seqno: u16, count: u16) {
        for (index, mask) in self.masks(slot, seqno, count) {
            if let Some(word) = self.words.get_mut(index) {
                *word |= mask;
            }
        }
    }

    /// The bits of the `count` Seqnos from `seqno` on, as pairs of a word's index and a mask.
    fn masks(&self, slot: u16, seqno: u16, count: u16) -> impl Iterator<Item = (usize, u64)> {
        let mut index = self.index(slot, seqno);
        let (mut shift, mut remaining) = (u32::from(seqno) % u64::BITS, u32::from(count));
        core::iter::from_fn(move || {
            let bits = remaining.min(u64::BITS.wrapping_sub(shift));
            // The shift by all 64 bits, when nothing remains, is `None` and ends the iteration.
            let ones = u64::MAX.checked_shr(u64::BITS.wrapping_sub(bits))?;
            let word = (index, ones << shift);
            remaining = remaining.wrapping_sub(bits);
            (index, shift) = (index.wrapping_add(1), 0);
            Some(word)
        })
    }

    /// Clears the bitmap of `slot`.
    pub(super) fn reset(&mut self, slot: u16) {
        let start = self.index(slot, 0);
        let end = start.saturating_add(self.words_per_slot);
        if let Some(words) = self.words.get_mut(start..end) {
            words.fill(0);
        }
    }

    fn index(&self, slot: u16, seqno: u16) -> usize {
        usize::from(slot)
            .saturating_mul(self.words_per_slot)
            .saturating_add(usize::from(seqno) / u64::BITS as usize)
    }
}

#[cfg(test)]
mod tests;
