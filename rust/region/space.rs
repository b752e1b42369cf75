// SPDX-License-Identifier: GPL-2.0

//! RMA addresses of a node: which region has which, and where new ones go [proto 5].

use kernel::{page::PAGE_SHIFT, page::PAGE_SIZE, prelude::*};

use super::{OFFSET_BITS, OFFSET_MASK};
use crate::kapi::{errno::Refusal, range::Ranges};

/// Draws of a random key before registration gives up: with 2^23 keys taken, one in 2^32 fails.
const KEY_DRAWS: u32 = 32;

const OFFSET_IN_PAGE: u64 = PAGE_SIZE as u64 - 1;

/// The part of a global address space that is the node's own, in pages; `last` is inclusive.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    first: u64,
    last: u64,
}

impl Space {
    /// `size` bytes from `base` on; 0: all that there are.
    ///
    /// # Errors
    ///
    /// `EINVAL`: one of them is no multiple of the page size. `ERANGE`: beyond 2^64.
    pub(crate) fn new(base: u64, size: u64) -> Result<Space, Refusal> {
        if base & OFFSET_IN_PAGE != 0 {
            return Err(Refusal::new(
                EINVAL,
                c"rma-base is not a multiple of the page size",
            ));
        }
        if size & OFFSET_IN_PAGE != 0 {
            return Err(Refusal::new(
                EINVAL,
                c"rma-size is not a multiple of the page size",
            ));
        }
        let last = match size.checked_sub(1) {
            None => Some(u64::MAX),
            Some(last) => base.checked_add(last),
        };
        let last = last.ok_or_else(|| {
            Refusal::new(ERANGE, c"rma-base and rma-size go beyond the last address")
        })?;
        Ok(Space {
            first: base >> PAGE_SHIFT,
            last: last >> PAGE_SHIFT,
        })
    }

    /// Base and size in bytes; the size is 0 if it is all.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let base = self.first << PAGE_SHIFT;
        let end = self.last.wrapping_add(1) << PAGE_SHIFT;
        match end {
            0 => (base, 0),
            end => (base, end.wrapping_sub(base)),
        }
    }
}

/// The key and the RMA address of a region that is being registered. Dropped, they are free again.
pub(super) struct AddrReservation<'a> {
    ranges: &'a Ranges,
    pub(super) key: u32,
    pub(super) rma_addr: u64,
    committed: bool,
}

impl<'a> AddrReservation<'a> {
    /// Chooses them for `len` bytes at `addr`, in `space` if there is one; `draw` gives a random key if
    /// it is free. The caller holds the lock of the space until the region is in the table. Process
    /// context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: without a space, the region crosses a multiple of 2^40. `ENOSPC`: no free key was
    /// found, or the space has no room. `ENOMEM`.
    pub(super) fn choose(
        ranges: &'a Ranges,
        draw_key: impl Fn() -> Option<u32>,
        space: Option<Space>,
        addr: u64,
        len: u64,
    ) -> Result<AddrReservation<'a>, Refusal> {
        let last = addr.saturating_add(len.saturating_sub(1));
        let no_key = || Refusal::new(ENOSPC, c"no free key for a region");
        let (key, first) = match space {
            Some(space) => {
                let key = (0..KEY_DRAWS).find_map(|_| draw_key()).ok_or_else(no_key)?;
                let pages = (last >> PAGE_SHIFT)
                    .wrapping_sub(addr >> PAGE_SHIFT)
                    .saturating_add(1);
                let first = ranges.place(space.first, space.last, pages, key);
                (key, first)
            }
            None if addr >> OFFSET_BITS != last >> OFFSET_BITS => {
                return Err(Refusal::new(
                    EINVAL,
                    c"a region must not cross a multiple of 2^40",
                ));
            }
            None => (0..KEY_DRAWS)
                .find_map(|_| {
                    let key = draw_key()?;
                    let page = |addr| keyed_addr(key, addr) >> PAGE_SHIFT;
                    match ranges.insert(page(addr), page(last), key) {
                        // Regions of a global space have these addresses.
                        Err(e) if e == EEXIST => None,
                        inserted => Some((key, inserted.map(|()| page(addr)))),
                    }
                })
                .ok_or_else(no_key)?,
        };
        let first = first.map_err(|e| match e {
            e if e == EBUSY => Refusal::new(ENOSPC, c"no room in the RMA address space"),
            e => Refusal::new(e, c"no memory for the region"),
        })?;
        Ok(AddrReservation {
            ranges,
            key,
            // Within a page it lies as in memory: what is aligned there is so here.
            rma_addr: first << PAGE_SHIFT | addr & OFFSET_IN_PAGE,
            committed: false,
        })
    }

    /// The region is in the table.
    pub(super) fn commit(mut self) {
        self.committed = true;
    }
}

impl Drop for AddrReservation<'_> {
    fn drop(&mut self) {
        if !self.committed {
            self.ranges.erase(self.rma_addr >> PAGE_SHIFT);
        }
    }
}

/// The RMA address of a byte of a region with a key of its own.
fn keyed_addr(key: u32, addr: u64) -> u64 {
    u64::from(key) << OFFSET_BITS | addr & OFFSET_MASK
}
