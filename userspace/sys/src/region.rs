// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory regions.

use crate::{call, uapi, Memory};
use std::io::{Error, ErrorKind, Result};
use std::ops::BitOr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What may be done with a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Nothing but being the source of own writes.
    pub const NONE: Self = Self(0);
    /// Peers may read it.
    pub const REMOTE_READ: Self = Self(uapi::SUPERP_ACCESS_REMOTE_READ);
    /// Peers may write it.
    pub const REMOTE_WRITE: Self = Self(uapi::SUPERP_ACCESS_REMOTE_WRITE);
    /// Own reads may put their bytes there.
    pub const LOCAL_WRITE: Self = Self(uapi::SUPERP_ACCESS_LOCAL_WRITE);
    /// Peers may use atomic operations on it.
    pub const REMOTE_ATOMIC: Self = Self(uapi::SUPERP_ACCESS_REMOTE_ATOMIC);
    /// Peers may send into it by its key.
    pub const RECEIVE: Self = Self(uapi::SUPERP_ACCESS_RECEIVE);

    /// `SUPERP_ACCESS_*` bits; the kernel refuses those that it does not know.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Registered memory of any kind. Dropping it releases the region: afterwards no peer touches the
/// memory.
#[derive(Debug)]
pub struct Registration {
    key: u32,
    rma_addr: u64,
    addr: u64,
    len: usize,
    /// The socket that the region belongs to.
    fd: Arc<OwnedFd>,
}

impl Registration {
    pub(crate) fn new(
        fd: &Arc<OwnedFd>,
        addr: u64,
        len: usize,
        access: Access,
        partition: u32,
    ) -> Result<Self> {
        let mut reg = uapi::superp_mr_reg {
            addr,
            length: len as u64,
            access: access.bits(),
            partition,
            ..Default::default()
        };
        call::ioctl(fd.as_fd(), &mut reg)?;
        Ok(Self {
            key: reg.key,
            rma_addr: reg.rma_addr,
            addr,
            len,
            fd: fd.clone(),
        })
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// The RMA address of its first byte: what a peer reads from or writes to.
    pub fn rma_addr(&self) -> u64 {
        self.rma_addr
    }

    /// Bytes that peers have read and written.
    pub fn remote_bytes(&self) -> Result<(u64, u64)> {
        let mut info = uapi::superp_mr_info {
            key: self.key,
            ..Default::default()
        };
        call::ioctl(self.fd.as_fd(), &mut info)?;
        Ok((info.remote_reads, info.remote_writes))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut dereg = uapi::superp_mr_dereg {
            key: self.key,
            ..Default::default()
        };
        // It fails only for a key that is not of this socket.
        let _ = call::ioctl(self.fd.as_fd(), &mut dereg);
    }
}

/// Registered [`Memory`]. Dropping it releases the region: afterwards no peer touches the memory.
#[derive(Debug)]
pub struct Region {
    // Released before the memory is unmapped. What the kernel still has pinned it keeps.
    registration: Registration,
    memory: Memory,
}

impl Region {
    pub(crate) fn new(
        fd: &Arc<OwnedFd>,
        memory: Memory,
        access: Access,
        partition: u32,
    ) -> Result<Self> {
        let registration = Registration::new(fd, memory.addr(), memory.len(), access, partition)?;
        Ok(Self {
            registration,
            memory,
        })
    }

    /// Its key.
    pub fn key(&self) -> u32 {
        self.registration.key
    }

    /// The RMA address of its first byte: what a peer reads from or writes to.
    pub fn rma_addr(&self) -> u64 {
        self.registration.rma_addr
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Bytes that peers have read and written.
    pub fn remote_bytes(&self) -> Result<(u64, u64)> {
        self.registration.remote_bytes()
    }

    /// The address of `length` bytes at `offset`, as a request has it. `None`: they are not inside.
    #[inline]
    pub fn local_addr(&self, offset: usize, length: u32) -> Option<u64> {
        let end = offset.checked_add(length as usize)?;
        (end <= self.registration.len).then_some(self.registration.addr + offset as u64)
    }

    pub(crate) fn request(
        &self,
        op: u16,
        offset: usize,
        remote: u64,
        length: u32,
        token: u64,
    ) -> Result<uapi::superp_rma> {
        let outside = || Error::new(ErrorKind::InvalidInput, "outside of the region");
        Ok(uapi::superp_rma {
            op,
            key: self.key(),
            local_addr: self.local_addr(offset, length).ok_or_else(outside)?,
            remote_addr: remote,
            length,
            token,
            ..Default::default()
        })
    }
}
