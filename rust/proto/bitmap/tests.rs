// SPDX-License-Identifier: GPL-2.0 OR MIT
use super::super::slab::test::Heap;
use super::*;
use alloc::vec::Vec;

/// The numbers whose bits are set, relative to the base of the window.
fn offsets(bitmap: &Bitmap<Heap>, window: u32) -> Vec<u32> {
    (0..window)
        .filter(|&offset| bitmap.get(bitmap.base().wrapping_add(offset)))
        .collect()
}

fn bits(offsets: &[u32]) -> u32 {
    offsets.iter().fold(0, |bits, offset| bits | 1 << offset)
}

#[test]
fn follows_a_model_through_sets_ors_and_slides() {
    for window in [16u32, 32, 33, 64, 100, 1000, 1024] {
        for start in [0u32, 5, u32::MAX - 40] {
            let mut bitmap = Bitmap::<Heap>::new(window, start).unwrap();
            let mut model: Vec<bool> = alloc::vec![false; window as usize];
            let mut state = window ^ start | 1;
            let mut random = |below: u32| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) % below
            };
            for _ in 0..2000 {
                let base = bitmap.base();
                match random(3) {
                    0 => {
                        let offset = random(window);
                        bitmap.set(base.wrapping_add(offset));
                        model[offset as usize] = true;
                    }
                    1 => {
                        let offset = random(window);
                        let sack = random(u32::MAX) & random(u32::MAX);
                        let sack = match window - offset {
                            room @ 0..=31 => sack & ((1 << room) - 1),
                            _ => sack,
                        };
                        bitmap.or(base.wrapping_add(offset), sack);
                        for bit in 0..32 {
                            if sack >> bit & 1 != 0 {
                                model[(offset + bit) as usize] = true;
                            }
                        }
                    }
                    _ => {
                        let n = random(window + 1).min(random(window + 1));
                        bitmap.advance(n);
                        model.drain(..n as usize);
                        model.resize(window as usize, false);
                    }
                }
                let base = bitmap.base();
                let expected: Vec<u32> = (0..window).filter(|&i| model[i as usize]).collect();
                assert_eq!(offsets(&bitmap, window), expected);
                let from = random(window);
                let run = model[from as usize..]
                    .iter()
                    .take_while(|&&bit| bit)
                    .count();
                assert_eq!(bitmap.run(base.wrapping_add(from)), run as u32);
                let seen = (0..32)
                    .filter(|bit| model.get((from + bit) as usize).copied().unwrap_or(false));
                assert_eq!(
                    bitmap.bits(base.wrapping_add(from)),
                    bits(&seen.collect::<Vec<_>>())
                );
            }
        }
    }
}

#[test]
fn full_window_runs_to_its_end() {
    let mut bitmap = Bitmap::<Heap>::new(1024, 7).unwrap();
    for offset in 0..1024 {
        bitmap.set(7 + offset);
    }
    assert_eq!(bitmap.run(7), 1024);
    bitmap.advance(1024);
    assert_eq!(bitmap.base(), 1031);
    assert_eq!(bitmap.run(1031), 0);
    assert_eq!(offsets(&bitmap, 1024), []);
}

#[test]
fn seqno_bitmaps_of_slots_are_separate() {
    let mut seqnos = SeqnoBitmaps::<Heap>::new(4, 100).unwrap();
    seqnos.set(1, 99, 1);
    seqnos.set(2, 0, 1);
    assert!(seqnos.any(1, 99, 1) && seqnos.any(2, 0, 1));
    assert!(
        !seqnos.any(2, 99, 1)
            && !seqnos.any(1, 0, 1)
            && !seqnos.any(0, 99, 1)
            && !seqnos.any(3, 0, 1)
    );
    seqnos.reset(1);
    assert!(!seqnos.any(1, 99, 1) && seqnos.any(2, 0, 1));
}

/// A bitmap with base `base` in which the bits of the offsets that satisfy `set` are set.
fn with(window: u32, base: u32, set: impl Fn(u32) -> bool) -> Bitmap<Heap> {
    let mut bitmap = Bitmap::<Heap>::new(window, base).unwrap();
    for offset in (0..window).filter(|&offset| set(offset)) {
        bitmap.set(base.wrapping_add(offset));
    }
    bitmap
}

#[test]
fn slides_of_every_length_from_every_place_keep_what_remains_and_clear_the_rest() {
    for window in [16, 33, 64, 130] {
        for base in (0..192u32).map(|place| place.wrapping_sub(64)) {
            for n in 0..=window {
                let set = |offset: u32| offset % 3 != 1;
                let mut bitmap = with(window, base, set);
                bitmap.advance(n);
                assert_eq!(bitmap.base(), base.wrapping_add(n));
                for offset in 0..window {
                    let expected = offset + n < window && set(offset + n);
                    assert_eq!(bitmap.get(bitmap.base().wrapping_add(offset)), expected);
                }
                // No bit outside the window is set.
                let ones: u32 = bitmap.words.iter().map(|word| word.count_ones()).sum();
                assert_eq!(
                    ones,
                    (n..window).filter(|&offset| set(offset)).count() as u32
                );
            }
        }
    }
}

#[test]
fn thirty_two_bits_are_set_and_read_at_every_place() {
    let patterns = [u32::MAX, 0x8000_0001, 0x5a5a_1234];
    let single = (0..32).map(|bit| 1 << bit);
    for pattern in patterns.into_iter().chain(single) {
        for base in [0, u32::MAX - 30, 63] {
            for offset in 0..=68 {
                let mut bitmap = Bitmap::<Heap>::new(100, base).unwrap();
                let at = base.wrapping_add(offset);
                bitmap.or(at, pattern);
                assert_eq!(bitmap.bits(at), pattern);
                let set: Vec<u32> = (0..32)
                    .filter(|bit| pattern >> bit & 1 != 0)
                    .map(|bit| offset + bit)
                    .collect();
                assert_eq!(offsets(&bitmap, 100), set);
            }
        }
    }
}

#[test]
fn runs_of_every_length_at_every_place() {
    for window in [16, 64, 130] {
        for base in [0, 1, 62, 63, u32::MAX - 5] {
            for start in 0..window {
                for len in 0..=window - start {
                    let set = |offset| (start..start + len).contains(&offset);
                    let bitmap = with(window, base, set);
                    assert_eq!(bitmap.run(base.wrapping_add(start)), len);
                    if len > 0 {
                        bitmap_cleared_at(bitmap, base, start, len / 2);
                    }
                }
            }
        }
    }
}

/// Checks that a run of set bits ends at a bit that was cleared.
fn bitmap_cleared_at(mut bitmap: Bitmap<Heap>, base: u32, start: u32, at: u32) {
    bitmap.clear(base.wrapping_add(start + at));
    assert_eq!(bitmap.run(base.wrapping_add(start)), at);
}

#[test]
fn every_seqno_of_every_slot_is_a_bit_of_its_own() {
    for max_packets in [1, 32, 64, 65, 200] {
        for slot in 0..3 {
            for seqno in 0..max_packets as u16 {
                let mut seqnos = SeqnoBitmaps::<Heap>::new(3, max_packets).unwrap();
                seqnos.set(slot, seqno, 1);
                let found: Vec<(u16, u16)> = (0..3)
                    .flat_map(|slot| (0..max_packets as u16).map(move |seqno| (slot, seqno)))
                    .filter(|&(slot, seqno)| seqnos.any(slot, seqno, 1))
                    .collect();
                assert_eq!(found, [(slot, seqno)]);
                seqnos.reset(slot);
                assert!(seqnos.words.iter().all(|&word| word == 0));
            }
        }
    }
}
