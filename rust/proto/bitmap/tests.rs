// SPDX-License-Identifier: GPL-2.0 OR MIT
use super::super::slab::test::Heap;
use super::*;
use alloc::vec::Vec;

/// Set numbers of the window, relative to its base.
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
    seqnos.set(1, 99);
    seqnos.set(2, 0);
    assert!(seqnos.get(1, 99) && seqnos.get(2, 0));
    assert!(!seqnos.get(2, 99) && !seqnos.get(1, 0) && !seqnos.get(0, 99) && !seqnos.get(3, 0));
    seqnos.reset(1);
    assert!(!seqnos.get(1, 99) && seqnos.get(2, 0));
}
