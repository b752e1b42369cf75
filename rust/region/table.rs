// SPDX-License-Identifier: GPL-2.0

//! The regions of a node by key and by RMA address [proto 5].

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

/// The regions of one node.
#[pin_data]
pub(crate) struct Table<O: Owner> {
    #[pin]
    by_key: RcuMap<Region<O>>,
    /// Key of the region at an RMA address, in pages.
    ranges: Ranges,
    /// The global address space for new regions. `None`: the RMA address is made of key and virtual
    /// address. The lock also keeps two registrations from choosing the same key.
    #[pin]
    space: Mutex<Option<Space>>,
}

impl<O: Owner> Table<O> {
    /// Returns an empty table. Process context.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            by_key <- RcuMap::new(),
            ranges: Ranges::new()?,
            space <- new_mutex!(None, "superp_rma_space"),
        })
    }

    /// Removes all regions. Process context, sleeps for a grace period.
    pub(crate) fn clear(&self) {
        self.by_key.clear();
    }

    /// All regions with their keys. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<Region<O>>)> + '_ {
        self.by_key.iter()
    }

    /// The region `key`. Any context.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.by_key.get(key)
    }

    /// The region with the lowest key that is `from` or above. Any context.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, Arc<Region<O>>)> {
        self.by_key.next(from)
    }

    /// The global address space for new regions. `None`: the RMA address is made of key and virtual
    /// address. Process context.
    pub(crate) fn space(&self) -> Option<Space> {
        *self.space.lock()
    }

    /// Sets the address space of new regions. Existing regions keep their RMA addresses. Process
    /// context.
    pub(crate) fn set_space(&self, space: Option<Space>) {
        *self.space.lock() = space;
    }

    /// Returns a random key, or `None` if that is 0 or in use.
    fn draw_key(&self) -> Option<u32> {
        let key = net::random() & KEY_MAX;
        (key != 0 && self.get(key).is_none()).then_some(key)
    }

    /// Pins `len` bytes at `addr` of the calling process and makes them reachable for peers.
    /// Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `len` is 0; unknown access bits; `RECEIVE` without an owner; the range wraps; or,
    /// without a global address space, it crosses a multiple of 2^40. `EFAULT`, `EOPNOTSUPP`,
    /// `E2BIG`: the memory cannot be pinned. `ENOMEM`: out of memory, or over RLIMIT_MEMLOCK.
    /// `ESRCH`: the process has ended. `ENOSPC`: no free key was found, or the global address space
    /// is full.
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
        // The key stays free while this is held: it is taken when the region is inserted below.
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
            GFP_KERNEL_ACCOUNT,
        )
        .map_err(|_| Refusal::new(ENOMEM, c"no memory for the region"))?;
        self.by_key
            .insert(reservation.key, region.clone())
            .map_err(|e| Refusal::new(e, c"no memory for the region"))?;
        reservation.commit();
        drop(space);
        Ok(region)
    }

    /// The region that may contain the byte at `rma_addr`. The caller checks the bounds. Any
    /// context.
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
        // Outside of all ranges this returns the region of the key, so that the refusal is
        // `ACCESS_BOUNDS` and not `ACCESS_KEY`. A key that was found may be reused meanwhile; the
        // bounds check of its new region refuses the address then.
        let global = self.ranges.find(rma_addr >> PAGE_SHIFT);
        global.and_then(|key| self.by_key.get(key)).or(region)
    }

    /// Makes a region unreachable. When this returns, no peer accesses its memory any more, because
    /// packets are processed with bottom halves off. Process context, sleeps for a grace period.
    pub(crate) fn remove(&self, region: &Region<O>) {
        if self.by_key.remove(region.key).is_some() {
            self.ranges.erase(region.rma_addr >> PAGE_SHIFT);
        }
    }

    /// Makes the regions that `regions` returns unreachable, like [`Table::remove`]. Process
    /// context. Sleeps for a grace period for about 1000 of them together, and not at all if there
    /// are none.
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

/// Caches the region that was found last, because consecutive packets mostly access one region.
///
/// It must not outlive a section with bottom halves off: [`Table::remove`] waits for those only.
pub(crate) struct RegionCache<O: Owner> {
    /// The region that was found last.
    region: Option<Arc<Region<O>>>,
    /// Bytes that peers have written to `region` and that it has not counted yet.
    written: u64,
}

impl<O: Owner> RegionCache<O> {
    /// Returns an empty cache.
    pub(crate) const fn new() -> Self {
        Self {
            region: None,
            written: 0,
        }
    }

    /// Like [`Table::at`]. No two regions have the same address. The caller has bottom halves off.
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

    /// Counts bytes that a peer has written to the region that was found last. The counter of the
    /// region changes when another region is looked up, or when the cache is dropped.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written = self.written.wrapping_add(bytes);
    }

    /// Adds `written` to the counter of the region.
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
