// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Registered memory.

use crate::{Error, Memory, Result};
use superp_sys::uapi::superp_segment;
use superp_sys::Region;

/// Registered [`Memory`]. Dropping it releases the region: afterwards no peer touches the memory.
#[derive(Debug)]
pub struct MemoryRegion(pub(crate) Region);

impl MemoryRegion {
    /// Its key, by which requests of the own context name it.
    #[inline]
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
    #[inline]
    pub fn part(&self, offset: usize, length: u32) -> Result<Part> {
        let key = self.0.key();
        match self.0.local_addr(offset, length) {
            Some(addr) => Ok(Part { key, addr, length }),
            None => Err(Error::OutOfBounds),
        }
    }
}

/// Local bytes of a request. The kernel looks the key up when it takes the request in: one whose
/// region is gone by then, or is of another context, fails.
///
/// It has the shape of `struct ibv_sge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub key: u32,
}

impl Part {
    /// No bytes.
    pub const NONE: Self = Self {
        addr: 0,
        length: 0,
        key: 0,
    };
}

impl From<&Part> for superp_segment {
    fn from(part: &Part) -> Self {
        let &Part { addr, length, key } = part;
        Self { addr, length, key }
    }
}

/// Local bytes of a request: one part, or several whose bytes are one behind the other. What one call
/// reads or writes in memory that is in pieces is made of several. A queue pair takes as many as it was
/// made for ([`QueuePairOptions`](crate::QueuePairOptions)).
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The only part, or no bytes.
    pub(crate) one: Part,
    /// Two or more; otherwise empty.
    pub(crate) list: &'a [Part],
}

impl Parts<'_> {
    /// Bytes.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        match self.list {
            [] => self.one.length,
            // The kernel refuses a list that is longer than it says.
            list => list
                .iter()
                .fold(0, |sum: u32, part| sum.saturating_add(part.length)),
        }
    }
}

impl From<Part> for Parts<'_> {
    #[inline]
    fn from(one: Part) -> Self {
        Self { one, list: &[] }
    }
}

impl<'a> From<&'a [Part]> for Parts<'a> {
    fn from(list: &'a [Part]) -> Self {
        match list {
            [] => Part::NONE.into(),
            [one] => (*one).into(),
            _ => Self {
                one: Part::NONE,
                list,
            },
        }
    }
}

impl<'a, const N: usize> From<&'a [Part; N]> for Parts<'a> {
    fn from(list: &'a [Part; N]) -> Self {
        Self::from(list.as_slice())
    }
}
