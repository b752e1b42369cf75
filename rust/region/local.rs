// SPDX-License-Identifier: GPL-2.0

//! The regions of one context.

use kernel::{prelude::*, sync::Arc};

use super::{Owner, Region, LOCAL_WRITE};
use crate::{kapi::map::RcuMap, proto::Code};

/// Regions by key, found without a lock: messages that arrive look for the buffers of theirs.
#[pin_data]
pub(crate) struct LocalTable<O: Owner> {
    #[pin]
    table: RcuMap<Region<O>>,
}

/// Entries that are taken in together are of the same region, as a rule.
pub(crate) struct Lookup<'a, O: Owner> {
    regions: &'a LocalTable<O>,
    /// What was found last.
    last: Option<Arc<Region<O>>>,
}

impl<O: Owner> Lookup<'_, O> {
    /// Local memory: the region `key`, and the offset of `addr` in it. Any context.
    ///
    /// # Errors
    ///
    /// `ACCESS_KEY`: no such region. `ACCESS_BOUNDS`: not all of the bytes are inside.
    /// `ACCESS_PERMISSION`: they are to be written, and may not.
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

    /// As [`Lookup::find`], in the region that was found last, with the same access: the offset.
    pub(crate) fn offset_in_last(&self, addr: u64, len: u32) -> Option<u64> {
        self.last.as_ref()?.local_offset(addr, len.into())
    }
}

impl<O: Owner> LocalTable<O> {
    /// None. Process context.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(pin_init!(Self { table <- RcuMap::new() }), GFP_KERNEL)
    }

    /// Begins to look regions up, for entries that have been put in already: a region that is released
    /// meanwhile may be found still. Any context.
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

    /// Takes the region `key` out. Process context, sleeps for a grace period.
    pub(crate) fn remove(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.table.remove(key)
    }

    /// The region `key`. Any context.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<Region<O>>> {
        self.table.get(key)
    }

    /// Every region. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Region<O>>> + '_ {
        self.table.iter().map(|(_, region)| region)
    }
}
