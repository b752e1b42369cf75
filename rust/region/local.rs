// SPDX-License-Identifier: GPL-2.0

//! The regions of one context.

use kernel::{prelude::*, sync::Arc};

use super::{Owner, Region, LOCAL_WRITE};
use crate::{kapi::map::RcuMap, proto::Code};

/// The regions of one context by key. Lookups take no lock, because softirqs look up the buffers of
/// received messages.
#[pin_data]
pub(crate) struct LocalTable<O: Owner> {
    #[pin]
    table: RcuMap<Region<O>>,
}

/// Looks up regions and caches the last one, because entries that are fetched together mostly use
/// one region.
pub(crate) struct Lookup<'a, O: Owner> {
    regions: &'a LocalTable<O>,
    /// The region that was found last.
    last: Option<Arc<Region<O>>>,
}

impl<O: Owner> Lookup<'_, O> {
    /// Finds the `len` bytes at the virtual address `addr` in the region `key`. Returns the region
    /// and the offset in it. `write`: the bytes will be written. Any context.
    ///
    /// # Errors
    ///
    /// `ACCESS_KEY`: there is no such region. `ACCESS_BOUNDS`: not all bytes are in the region.
    /// `ACCESS_PERMISSION`: `write` is set and the region does not grant `LOCAL_WRITE`.
    pub(crate) fn find(
        &mut self,
        key: u32,
        addr: u64,
        len: u32,
        write: bool,
    ) -> Result<(Arc<Region<O>>, u64), Code> {
        if self.last.as_ref().is_none_or(|last| last.key() != key) {
            self.last = self.regions.table.get(key);
        }
        let region = self.last.clone().ok_or(Code::ACCESS_KEY)?;
        let offset = region
            .local_offset(addr, len.into())
            .ok_or(Code::ACCESS_BOUNDS)?;
        if write && !region.grants(LOCAL_WRITE) {
            return Err(Code::ACCESS_PERMISSION);
        }
        Ok((region, offset))
    }

    /// Offset of the `len` bytes at `addr` in the region of the last [`Lookup::find`], for an
    /// access of the same kind. `None` if they are not all in that region. Any context.
    pub(crate) fn offset_in_last(&self, addr: u64, len: u32) -> Option<u64> {
        self.last.as_ref()?.local_offset(addr, len.into())
    }
}

impl<O: Owner> LocalTable<O> {
    /// Returns an empty table. Process context.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { table <- RcuMap::new() }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Starts lookups for entries that the program has already put in. Because of the cache, a
    /// region that is released meanwhile may still be found. Any context.
    pub(crate) fn lookup(&self) -> Lookup<'_, O> {
        Lookup {
            regions: self,
            last: None,
        }
    }

    /// Adds a region. Process context.
    pub(crate) fn insert(&self, region: Arc<Region<O>>) -> Result {
        self.table.insert(region.key(), region)
    }

    /// Removes the region `key`. Process context, sleeps for a grace period.
    pub(crate) fn remove(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.table.remove(key)
    }

    /// The region `key`. Any context.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.table.get(key)
    }

    /// All regions. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Region<O>>> + '_ {
        self.table.iter().map(|(_, region)| region)
    }
}
