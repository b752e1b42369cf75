// SPDX-License-Identifier: GPL-2.0

//! RMA addresses of a node: which region has which, and where new ones go [proto 5].

use kernel::{page::PAGE_SHIFT, page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{Region, KEY_MAX, OFFSET_BITS, OFFSET_MASK};
use crate::{
    kapi::range::Ranges,
    node::{Node, Refusal},
};

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
pub(super) struct Place<'a> {
    ranges: &'a Ranges,
    pub(super) key: u32,
    pub(super) rma_addr: u64,
    kept: bool,
}

impl<'a> Place<'a> {
    /// Chooses them for `len` bytes at `addr`. The caller holds the node's configuration, whose space
    /// is `space`, until the region is in the table. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: without a space, the region crosses a multiple of 2^40. `ENOSPC`: no free key was
    /// found, or the space has no room. `ENOMEM`.
    pub(super) fn choose(
        node: &'a Node,
        space: Option<Space>,
        addr: u64,
        len: u64,
    ) -> Result<Place<'a>, Refusal> {
        let ranges = node.ranges();
        let last = addr.saturating_add(len.saturating_sub(1));
        let no_key = || Refusal::new(ENOSPC, c"no free key for a region");
        let (key, first) = match space {
            Some(space) => {
                let key = (0..KEY_DRAWS).find_map(|_| draw(node)).ok_or_else(no_key)?;
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
                    let key = draw(node)?;
                    let page = |addr| keyed(key, addr) >> PAGE_SHIFT;
                    match ranges.insert(page(addr), page(last), key) {
                        // Regions of a global space have these addresses.
                        Err(e) if e == EEXIST => None,
                        done => Some((key, done.map(|()| page(addr)))),
                    }
                })
                .ok_or_else(no_key)?,
        };
        let first = first.map_err(|e| match e {
            e if e == EBUSY => Refusal::new(ENOSPC, c"no room in the RMA address space"),
            e => Refusal::new(e, c"no memory for the region"),
        })?;
        Ok(Place {
            ranges,
            key,
            // Within a page it lies as in memory: what is aligned there is so here.
            rma_addr: first << PAGE_SHIFT | addr & OFFSET_IN_PAGE,
            kept: false,
        })
    }

    /// The region is in the table.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.ranges.erase(self.rma_addr >> PAGE_SHIFT);
        }
    }
}

/// A free key, if the first that comes is.
fn draw(node: &Node) -> Option<u32> {
    let key = crate::kapi::net::random() & KEY_MAX;
    (key != 0 && node.regions().get(key).is_none()).then_some(key)
}

/// The RMA address of a byte of a region with a key of its own.
fn keyed(key: u32, addr: u64) -> u64 {
    u64::from(key) << OFFSET_BITS | addr & OFFSET_MASK
}

/// The region that was found last: packets that come or go together are of the same one, as a rule.
///
/// It lives as long as a section with bottom halves off, for which a release waits.
pub(crate) struct Nearby {
    region: Option<Arc<Region>>,
    /// Bytes that a peer has written to it, and that are not counted yet.
    written: u64,
}

impl Nearby {
    /// Nothing was found yet.
    pub(crate) const fn new() -> Self {
        Self {
            region: None,
            written: 0,
        }
    }

    /// As [`Node::region_at`]. No two regions have the same address.
    #[inline]
    pub(crate) fn at(&mut self, node: &Node, rma_addr: u64) -> Option<&Region> {
        if !self.region.as_ref().is_some_and(|last| last.has(rma_addr)) {
            self.find(node, rma_addr);
        }
        self.region.as_deref()
    }

    #[cold]
    fn find(&mut self, node: &Node, rma_addr: u64) {
        self.count();
        self.region = node.region_at(rma_addr);
    }

    /// Bytes that a peer has written to the region that was found last. They are counted when this is dropped,
    /// or finds another.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written = self.written.wrapping_add(bytes);
    }

    fn count(&mut self) {
        let bytes = core::mem::take(&mut self.written);
        if let (Some(region), 1..) = (&self.region, bytes) {
            region.count_write(bytes);
        }
    }
}

impl Drop for Nearby {
    fn drop(&mut self) {
        self.count();
    }
}

impl Node {
    /// The region that an RMA address is in, or near: its bounds are to be checked still. Any context.
    pub(crate) fn region_at(&self, rma_addr: u64) -> Option<Arc<Region>> {
        let key = (rma_addr >> OFFSET_BITS) as u32;
        let own = |region: &Arc<Region>| region.rma_addr >> OFFSET_BITS == u64::from(region.key);
        let region = self.regions().get(key).filter(own);
        if region.as_ref().is_some_and(|region| region.has(rma_addr)) {
            return region;
        }
        // Keys are given out again: the region checks that the address is its own.
        let global = self.ranges().find(rma_addr >> PAGE_SHIFT);
        global.and_then(|key| self.regions().get(key)).or(region)
    }

    /// Takes a region out of the tables; returns when no packet finds it any more. Process context,
    /// sleeps for a grace period.
    pub(super) fn remove_region(&self, region: &Region) {
        if self.regions().remove(region.key).is_some() {
            self.ranges().erase(region.rma_addr >> PAGE_SHIFT);
        }
    }

    /// As [`Node::remove_region`], of several at a time, which are in the tables; a grace period for
    /// all, and none if there are none.
    pub(crate) fn remove_regions<I>(&self, regions: impl Fn() -> I)
    where
        I: Iterator<Item = Arc<Region>>,
    {
        self.regions()
            .remove_each(regions().map(|region| region.key));
        for region in regions() {
            self.ranges().erase(region.rma_addr >> PAGE_SHIFT);
        }
    }
}
