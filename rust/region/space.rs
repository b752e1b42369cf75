// SPDX-License-Identifier: GPL-2.0

//! RMA addresses of a node: how new regions get them [proto 5].

use kernel::{page::PAGE_SHIFT, page::PAGE_SIZE, prelude::*};

use super::{OFFSET_BITS, OFFSET_MASK};
use crate::kapi::{errno::Refusal, range::Ranges};

/// Random keys that are tried before a registration fails. If half of the keys are taken, this
/// fails once in 2^32 registrations.
const KEY_DRAWS: u32 = 32;

const OFFSET_IN_PAGE: u64 = PAGE_SIZE as u64 - 1;

/// The node's part of a global address space, in pages. `last` is inclusive.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    first: u64,
    last: u64,
}

impl Space {
    /// The part of `size` bytes from `base`. A `size` of 0 means up to the end of the address
    /// space.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `base` or `size` is not a multiple of the page size. `ERANGE`: the part exceeds
    /// 2^64.
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

    /// Base and size in bytes. The size is 0 if the part reaches the end of the address space.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let base = self.first << PAGE_SHIFT;
        let end = self.last.wrapping_add(1) << PAGE_SHIFT;
        match end {
            0 => (base, 0),
            end => (base, end.wrapping_sub(base)),
        }
    }
}

/// A key and an RMA address range that are reserved for a region. A drop releases the range, unless
/// [`AddrReservation::commit`] was called.
pub(super) struct AddrReservation<'a> {
    ranges: &'a Ranges,
    pub(super) key: u32,
    pub(super) rma_addr: u64,
    committed: bool,
}

impl<'a> AddrReservation<'a> {
    /// Chooses a key, and the range for `len` bytes at the virtual address `addr`. The range is in
    /// `space` if there is one, else it follows from key and `addr`. `draw_key` returns a random
    /// key if that is free. Process context. The caller holds the lock `Table::space` until the
    /// region is in the table, so that nobody else uses the key.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no space, and the region crosses a multiple of 2^40. `ENOSPC`: no free
    /// key was found, or the space has no free range of this size. `ENOMEM`.
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
                        // A region of a global address space has these addresses. Try another key.
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
            // The offset in the page is that of the virtual address, so that alignment is kept.
            rma_addr: first << PAGE_SHIFT | addr & OFFSET_IN_PAGE,
            committed: false,
        })
    }

    /// Keeps the range: the region is in the table.
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

/// RMA address of the byte at the virtual address `addr`, outside of a global address space.
fn keyed_addr(key: u32, addr: u64) -> u64 {
    u64::from(key) << OFFSET_BITS | addr & OFFSET_MASK
}
