// SPDX-License-Identifier: GPL-2.0

//! The regions of a node, by key and by RMA address [proto 5].

use kernel::{
    page::PAGE_SHIFT,
    prelude::*,
    sync::{atomic::Atomic, new_mutex, Arc, Mutex},
};

use super::{
    space::{AddrReservation, Space},
    Owner, Region, ACCESS_MASK, KEY_MAX, LOCAL_WRITE, OFFSET_BITS, RECEIVE, REMOTE_ATOMIC,
    REMOTE_WRITE,
};
use crate::kapi::{
    errno::Refusal, map::RcuMap, net, pages::Pages, process::Process, range::Ranges,
};

/// See the module.
#[pin_data]
pub(crate) struct Table<O: Owner> {
    #[pin]
    by_key: RcuMap<Region<O>>,
    /// Keys of regions by RMA address, in pages.
    ranges: Ranges,
    /// Where the RMA addresses of new regions are; `None`: each has a key of its own in them.
    #[pin]
    space: Mutex<Option<Space>>,
}

impl<O: Owner> Table<O> {
    /// An empty table. Process context.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            by_key <- RcuMap::new(),
            ranges: Ranges::new()?,
            space <- new_mutex!(None, "superp_rma_space"),
        })
    }

    /// Takes all regions out. Process context, sleeps for a grace period.
    pub(crate) fn clear(&self) {
        self.by_key.clear();
    }

    /// Every region. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<Region<O>>)> + '_ {
        self.by_key.iter()
    }

    /// The region `key`. Any context.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.by_key.get(key)
    }

    /// The region with the lowest key from `from` on.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, Arc<Region<O>>)> {
        self.by_key.next(from)
    }

    /// Where the RMA addresses of new regions are; `None`: each has a key of its own in them.
    /// Process context.
    pub(crate) fn space(&self) -> Option<Space> {
        *self.space.lock()
    }

    /// Regions that there are keep their addresses. Process context.
    pub(crate) fn set_space(&self, space: Option<Space>) {
        *self.space.lock() = space;
    }

    /// A random key, if it is free.
    fn draw_key(&self) -> Option<u32> {
        let key = net::random() & KEY_MAX;
        (key != 0 && self.get(key).is_none()).then_some(key)
    }

    /// Pins `len` bytes at `addr` of the calling process and makes them reachable for peers. Process
    /// context, may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: length 0, unknown access bits, wraps, or, without a global address space, crosses a
    /// multiple of 2^40. `EFAULT`, `ENOMEM`: from pinning. `ENOSPC`: no free key was found, or the
    /// space is full.
    pub(crate) fn register(
        &self,
        addr: u64,
        len: u64,
        access: u32,
        partition: u32,
        owner: Option<Arc<O>>,
    ) -> Result<Arc<Region<O>>, Refusal> {
        if len == 0 {
            return Err(Refusal::new(
                EINVAL,
                c"length of a region must be at least 1 byte",
            ));
        }
        if access & !ACCESS_MASK != 0 {
            return Err(Refusal::new(EINVAL, c"unknown bits in the region's access"));
        }
        if access & RECEIVE != 0 && owner.is_none() {
            return Err(Refusal::new(
                EINVAL,
                c"a context with rings has no receive contexts",
            ));
        }
        if addr.checked_add(len.saturating_sub(1)).is_none() {
            return Err(Refusal::new(
                EINVAL,
                c"region wraps around the address space",
            ));
        }
        let writable = access & (REMOTE_WRITE | LOCAL_WRITE | REMOTE_ATOMIC | RECEIVE) != 0;
        let pages = Pages::pin(addr, len, writable)
            .map_err(|e| Refusal::new(e, c"memory of the region cannot be pinned"))?;

        let process = Process::current()
            .map_err(|e| Refusal::new(e, c"the process that registers a region has ended"))?;
        // Chosen and entered under one lock, so that nobody takes them between the two.
        let space = self.space.lock();
        let reservation =
            AddrReservation::choose(&self.ranges, || self.draw_key(), *space, addr, len)?;
        let region = Arc::new(
            Region {
                key: reservation.key,
                rma_addr: reservation.rma_addr,
                addr,
                len,
                access,
                partition,
                process,
                owner,
                pages,
                remote_reads: Atomic::new(0),
                remote_writes: Atomic::new(0),
            },
            GFP_KERNEL,
        )
        .map_err(|_| Refusal::new(ENOMEM, c"no memory for the region"))?;
        self.by_key
            .insert(reservation.key, region.clone())
            .map_err(|e| Refusal::new(e, c"no memory for the region"))?;
        reservation.commit();
        drop(space);
        Ok(region)
    }

    /// The region that an RMA address is in, or near: its bounds are to be checked still. Any context.
    pub(crate) fn at(&self, rma_addr: u64) -> Option<Arc<Region<O>>> {
        let key = (rma_addr >> OFFSET_BITS) as u32;
        let is_keyed =
            |region: &Arc<Region<O>>| region.rma_addr >> OFFSET_BITS == u64::from(region.key);
        let region = self.by_key.get(key).filter(is_keyed);
        if region
            .as_ref()
            .is_some_and(|region| region.contains(rma_addr))
        {
            return region;
        }
        // Keys are given out again: the region checks that the address is its own.
        let global = self.ranges.find(rma_addr >> PAGE_SHIFT);
        global.and_then(|key| self.by_key.get(key)).or(region)
    }

    /// Takes a region from the reach of peers; returns when none touches it any more. Process context,
    /// sleeps for a grace period: packets are processed with bottom halves off.
    pub(crate) fn remove(&self, region: &Region<O>) {
        if self.by_key.remove(region.key).is_some() {
            self.ranges.erase(region.rma_addr >> PAGE_SHIFT);
        }
    }

    /// As [`Table::remove`], of several at a time, which are in the tables; a grace period for
    /// all, and none if there are none.
    pub(crate) fn remove_each<I>(&self, regions: impl Fn() -> I)
    where
        I: Iterator<Item = Arc<Region<O>>>,
    {
        self.by_key.remove_each(regions().map(|region| region.key));
        for region in regions() {
            self.ranges.erase(region.rma_addr >> PAGE_SHIFT);
        }
    }
}

/// The region that was found last: packets that come or go together are of the same one, as a rule.
///
/// It lives as long as a section with bottom halves off, for which a release waits.
pub(crate) struct RegionCache<O: Owner> {
    region: Option<Arc<Region<O>>>,
    /// Bytes that a peer has written to it, and that are not counted yet.
    written: u64,
}

impl<O: Owner> RegionCache<O> {
    /// Nothing was found yet.
    pub(crate) const fn new() -> Self {
        Self {
            region: None,
            written: 0,
        }
    }

    /// As [`Table::at`]. No two regions have the same address.
    #[inline]
    pub(crate) fn at(&mut self, table: &Table<O>, rma_addr: u64) -> Option<&Region<O>> {
        if !self
            .region
            .as_ref()
            .is_some_and(|last| last.contains(rma_addr))
        {
            self.look_up(table, rma_addr);
        }
        self.region.as_deref()
    }

    #[cold]
    fn look_up(&mut self, table: &Table<O>, rma_addr: u64) {
        self.flush_written();
        self.region = table.at(rma_addr);
    }

    /// Bytes that a peer has written to the region that was found last. They are counted when this is dropped,
    /// or finds another.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written = self.written.wrapping_add(bytes);
    }

    fn flush_written(&mut self) {
        let bytes = core::mem::take(&mut self.written);
        if let (Some(region), 1..) = (&self.region, bytes) {
            region.count_write(bytes);
        }
    }
}

impl<O: Owner> Drop for RegionCache<O> {
    fn drop(&mut self) {
        self.flush_written();
    }
}
