// SPDX-License-Identifier: GPL-2.0

//! The regions of a context.

use kernel::{prelude::*, sync::Arc};

use crate::{
    kapi::{
        map::RcuMap,
        sock::{MrDereg, MrReg},
    },
    node::Node,
    proto::Code,
    region::{self, Region},
    socket::{query_region, read_argument, write_argument},
};

/// Regions by key, found without a lock: messages that arrive look for the buffers of theirs.
#[pin_data]
pub(crate) struct Regions {
    #[pin]
    table: RcuMap<Region>,
}

/// Entries that are taken in together are of the same region, as a rule.
pub(super) struct Lookup<'a> {
    regions: &'a Regions,
    /// What was found last.
    last: Option<Arc<Region>>,
}

impl Lookup<'_> {
    /// Local memory: the region `key`, and the offset of `addr` in it. Any context.
    ///
    /// # Errors
    ///
    /// `ACCESS_KEY`: no such region. `ACCESS_BOUNDS`: not all of the bytes are inside.
    /// `ACCESS_PERMISSION`: they are to be written, and may not.
    pub(super) fn local(
        &mut self,
        key: u32,
        addr: u64,
        len: u32,
        write: bool,
    ) -> Result<(Arc<Region>, u64), Code> {
        if self.last.as_ref().is_none_or(|last| last.key() != key) {
            self.last = self.regions.table.get(key);
        }
        let region = self.last.clone().ok_or(Code::ACCESS_KEY)?;
        let offset = region
            .local_offset(addr, len.into())
            .ok_or(Code::ACCESS_BOUNDS)?;
        if write && !region.grants(region::LOCAL_WRITE) {
            return Err(Code::ACCESS_PERMISSION);
        }
        Ok((region, offset))
    }

    /// As [`Lookup::local`], in the region that was found last, with the same access: the offset.
    pub(super) fn again(&self, addr: u64, len: u32) -> Option<u64> {
        self.last.as_ref()?.local_offset(addr, len.into())
    }
}

impl Regions {
    /// None. Process context.
    pub(super) fn new() -> Result<Arc<Regions>> {
        Arc::pin_init(pin_init!(Regions { table <- RcuMap::new() }), GFP_KERNEL)
    }

    /// Begins to look regions up, for entries that have been put in already: a region that is released
    /// meanwhile may be found still. Any context.
    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup {
            regions: self,
            last: None,
        }
    }

    /// `SUPERP_IOC_MR_REG`. Process context.
    pub(super) fn register(&self, node: &Node, arg: usize) -> Result {
        let mut reg: MrReg = read_argument(arg)?;
        if reg.rsvd != 0 {
            return Err(EINVAL);
        }
        let MrReg { addr, length, .. } = reg;
        let region = Region::register(node, addr, length, reg.access, reg.partition, None)?;
        reg.key = region.key();
        reg.rma_addr = region.info().rma_addr;
        let told = self
            .table
            .insert(reg.key, region.clone())
            .and_then(|()| write_argument(arg, &reg));
        told.inspect_err(|_| {
            // Nobody has learnt of it.
            self.table.remove(reg.key);
            region.release(node);
        })
    }

    /// `SUPERP_IOC_MR_QUERY`. Process context.
    pub(super) fn query(&self, arg: usize) -> Result {
        query_region(arg, |key| self.table.get(key).ok_or(ENOENT))
    }

    /// `SUPERP_IOC_MR_DEREG`. Process context, sleeps for two grace periods.
    pub(super) fn deregister(&self, node: &Node, arg: usize) -> Result {
        let dereg: MrDereg = read_argument(arg)?;
        if dereg.rsvd != 0 {
            return Err(EINVAL);
        }
        let region = self.table.remove(dereg.key).ok_or(ENOENT)?;
        region.release(node);
        Ok(())
    }

    /// Takes all from the reach of peers. Process context, sleeps for a grace period.
    pub(super) fn release(&self, node: &Node) {
        node.remove_regions(|| self.table.iter().map(|(_, region)| region));
    }
}
