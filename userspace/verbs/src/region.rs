// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Registered memory.

use crate::{Error, Memory, Result};
use superp_sys::Region;

/// Registered [`Memory`]. Dropping it releases the region: afterwards no peer touches the memory.
#[derive(Debug)]
pub struct MemoryRegion(pub(crate) Region);

impl MemoryRegion {
    /// Its key, by which requests of the own context name it.
    pub fn key(&self) -> u32 {
        self.0.key()
    }

    /// The RMA address of its first byte: what a peer needs to reach it.
    pub fn rma_addr(&self) -> u64 {
        self.0.rma_addr()
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        self.0.memory()
    }

    /// Bytes that peers have read and written.
    ///
    /// # Errors
    ///
    /// What ioctl(2) says.
    pub fn remote_bytes(&self) -> Result<(u64, u64)> {
        Ok(self.0.remote_bytes()?)
    }

    /// `length` bytes of it from `offset`, for a request.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`].
    pub fn part(&self, offset: usize, length: u32) -> Result<Part> {
        let addr = self
            .0
            .local_addr(offset, length)
            .ok_or(Error::OutOfBounds)?;
        let key = self.0.key();
        Ok(Part { key, addr, length })
    }
}

/// Local bytes of a request. The kernel looks the key up when it takes the request in: one whose
/// region is gone by then, or is of another context, fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Key of the region.
    pub key: u32,
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
}
