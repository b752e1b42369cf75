// SPDX-License-Identifier: GPL-2.0

//! Memory regions: pinned user memory that peers access by RMA address or key [proto 5].

mod local;
mod space;
mod table;

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    kapi::{
        pages::Pages,
        process::Process,
        sock::MrInfo,
        uaccess::{read_argument, write_argument},
    },
    proto::{Atomic as AtomicOp, Code},
};

pub(crate) use local::{LocalTable, Lookup};
pub(crate) use space::Space;
pub(crate) use table::{RegionCache, Table};

/// Peers may read.
pub(crate) const REMOTE_READ: u32 = 1 << 0;
/// Peers may write.
pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
/// The region may be the local buffer of a read, of an atomic operation or of a receive entry.
pub(crate) const LOCAL_WRITE: u32 = 1 << 2;
/// Peers may execute atomic operations.
pub(crate) const REMOTE_ATOMIC: u32 = 1 << 3;
/// Peers may send into the region by its key: it is a receive context [proto 4.9].
pub(crate) const RECEIVE: u32 = 1 << 4;
pub(crate) const ACCESS_MASK: u32 =
    REMOTE_READ | REMOTE_WRITE | LOCAL_WRITE | REMOTE_ATOMIC | RECEIVE;

/// An RMA address is the key, followed by this many low bits of the virtual address.
const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Keys have 24 bits. No region has key 0, so that the RMA address 0 is invalid.
const KEY_MAX: u32 = (1 << 24) - 1;

/// A type that can own regions.
pub(crate) trait Owner: Send + Sync + 'static {
    /// Number of the owner's queue pair, or 0 if it is not bound.
    fn qpn(&self) -> u32;
}

/// A registered region. Its memory stays pinned while anybody holds the `Arc`. Peers reach the
/// region only while it is in the table of its node.
pub(crate) struct Region<O> {
    key: u32,
    /// RMA address of the first byte.
    rma_addr: u64,
    addr: u64,
    len: u64,
    access: u32,
    partition: u32,
    process: Process,
    /// The queue pair of the socket that registered the region. `None`: a context registered it.
    /// The reference does not tie the region to the queue pair; the socket removes its regions when
    /// it is closed.
    owner: Option<Arc<O>>,
    pages: Pages,
    remote_reads: Atomic<u64>,
    remote_writes: Atomic<u64>,
}

/// Snapshot of a region for netlink and ioctl(). Lengths and counters are in bytes.
pub(crate) struct RegionInfo {
    pub(crate) key: u32,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) rma_addr: u64,
    pub(crate) access: u32,
    pub(crate) partition: u32,
    pub(crate) qpn: u32,
    pub(crate) remote_reads: u64,
    pub(crate) remote_writes: u64,
}

impl<O: Owner> Region<O> {
    /// The queue pair of the socket that registered the region. `None`: a context registered it.
    pub(crate) fn owner(&self) -> Option<&Arc<O>> {
        self.owner.as_ref()
    }

    /// Whether `owner` owns the region.
    pub(crate) fn is_of(&self, owner: &Arc<O>) -> bool {
        self.owner().is_some_and(|own| Arc::ptr_eq(own, owner))
    }

    /// The 24-bit key.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// The process that registered the region.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// The pinned memory.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Offset of the `len` bytes at the virtual address `addr`. `None` if they are not all in the
    /// region.
    pub(crate) fn local_offset(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.checked_sub(self.addr)?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }

    /// Whether the region grants all bits of `access`.
    pub(crate) fn grants(&self, access: u32) -> bool {
        self.access & access == access
    }

    /// Checks a Send of a peer of `len` bytes to `offset` of the receive context. Returns the
    /// offset [proto 4.9, 5]. Any context.
    ///
    /// # Errors
    ///
    /// `ACCESS_PARTITION`, `ACCESS_PERMISSION`, `ACCESS_BOUNDS`.
    pub(crate) fn context_offset(
        &self,
        offset: u32,
        len: u64,
        partition: u32,
    ) -> Result<u64, Code> {
        self.check_rights(RECEIVE, partition)?;
        self.check_bounds(offset.into(), len)
    }

    /// Checks an access of a peer to `len` bytes at `rma_addr`. Returns the offset of the first
    /// byte [proto 5]. Any context.
    ///
    /// # Errors
    ///
    /// `ACCESS_PARTITION`, `ACCESS_PERMISSION`, `ACCESS_BOUNDS`.
    pub(crate) fn remote_offset(
        &self,
        rma_addr: u64,
        len: u64,
        access: u32,
        partition: u32,
    ) -> Result<u64, Code> {
        self.check_rights(access, partition)?;
        let offset = rma_addr
            .checked_sub(self.rma_addr)
            .ok_or(Code::ACCESS_BOUNDS)?;
        self.check_bounds(offset, len)
    }

    /// Whether the byte at `rma_addr` is in the region.
    fn contains(&self, rma_addr: u64) -> bool {
        let offset = rma_addr.checked_sub(self.rma_addr);
        offset.is_some_and(|offset| offset < self.len)
    }

    fn check_rights(&self, access: u32, partition: u32) -> Result<(), Code> {
        if self.partition != 0 && self.partition != partition {
            return Err(Code::ACCESS_PARTITION);
        }
        if !self.grants(access) {
            return Err(Code::ACCESS_PERMISSION);
        }
        Ok(())
    }

    fn check_bounds(&self, offset: u64, len: u64) -> Result<u64, Code> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(offset),
            _ => Err(Code::ACCESS_BOUNDS),
        }
    }

    /// Counts bytes that a peer has read.
    pub(crate) fn count_read(&self, bytes: u64) {
        self.remote_reads.fetch_add(bytes, Relaxed);
    }

    /// Executes an atomic operation at `offset` and returns the old value. Any context up to
    /// softirq.
    pub(crate) fn atomic(&self, offset: u64, op: &AtomicOp) -> Result<u64, Code> {
        let AtomicOp {
            kind,
            operand,
            compare,
            ..
        } = *op;
        // This cannot fail. The core has checked the alignment of the RMA address, which has the
        // same offset in its page as the virtual address. `remote_offset` has checked the range.
        self.pages
            .atomic(offset, kind as u8, operand, compare)
            .map_err(|_| Code::MALFORMED)
    }

    /// Counts bytes that a peer has written.
    pub(crate) fn count_write(&self, bytes: u64) {
        self.remote_writes.fetch_add(bytes, Relaxed);
    }

    /// A snapshot. Any context.
    pub(crate) fn info(&self) -> RegionInfo {
        RegionInfo {
            key: self.key,
            addr: self.addr,
            len: self.len,
            rma_addr: self.rma_addr,
            access: self.access,
            partition: self.partition,
            qpn: self.owner().map_or(0, |owner| owner.qpn()),
            remote_reads: self.remote_reads.load(Relaxed),
            remote_writes: self.remote_writes.load(Relaxed),
        }
    }
}

/// `SUPERP_IOC_MR_QUERY`. `find` looks a region up by its key. Process context.
///
/// # Errors
///
/// `EINVAL`: a reserved field is not 0. `EFAULT`. Others are those of `find`.
pub(crate) fn query<O: Owner>(
    arg: usize,
    find: impl FnOnce(u32) -> Result<Arc<Region<O>>>,
) -> Result {
    let query: MrInfo = read_argument(arg)?;
    if query.rsvd != 0 {
        return Err(EINVAL);
    }
    let info = find(query.key)?.info();
    let answer = MrInfo {
        key: info.key,
        access: info.access,
        partition: info.partition,
        rsvd: 0,
        addr: info.addr,
        length: info.len,
        rma_addr: info.rma_addr,
        remote_reads: info.remote_reads,
        remote_writes: info.remote_writes,
    };
    write_argument(arg, &answer)
}
