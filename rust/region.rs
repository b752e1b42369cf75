// SPDX-License-Identifier: GPL-2.0

//! Memory regions: pinned user memory that peers may read and write by key [proto 5].

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

/// The peer may read.
pub(crate) const REMOTE_READ: u32 = 1 << 0;
/// The peer may write.
pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
/// Replies to own reads may be placed here.
pub(crate) const LOCAL_WRITE: u32 = 1 << 2;
/// The peer may use atomic operations.
pub(crate) const REMOTE_ATOMIC: u32 = 1 << 3;
/// The peer may send into it by its key: it is a receive context [proto 4.9].
pub(crate) const RECEIVE: u32 = 1 << 4;
/// All access bits.
pub(crate) const ACCESS_MASK: u32 =
    REMOTE_READ | REMOTE_WRITE | LOCAL_WRITE | REMOTE_ATOMIC | RECEIVE;

/// Bits of an RMA address below the key.
const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Keys are 24 bits; 0 is never given out, so that a null address reaches nothing.
const KEY_MAX: u32 = (1 << 24) - 1;

/// Who can own a region.
pub(crate) trait Owner: Send + Sync + 'static {
    /// The number of its queue pair; 0: none.
    fn qpn(&self) -> u32;
}

/// A registered region. Its memory stays pinned while anybody holds the `Arc`; peers reach it
/// only while it is in its node's table.
pub(crate) struct Region<O> {
    key: u32,
    /// Of its first byte.
    rma_addr: u64,
    addr: u64,
    len: u64,
    access: u32,
    partition: u32,
    process: Process,
    /// If it is a socket; this does not make the region go with it.
    owner: Option<Arc<O>>,
    pages: Pages,
    remote_reads: Atomic<u64>,
    remote_writes: Atomic<u64>,
}

/// What netlink and ioctl tell of a region. Addresses and lengths in bytes.
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
    /// The queue pair of its owner, if that is a socket.
    pub(crate) fn owner(&self) -> Option<&Arc<O>> {
        self.owner.as_ref()
    }

    /// Whether it belongs to `owner`.
    pub(crate) fn is_of(&self, owner: &Arc<O>) -> bool {
        self.owner().is_some_and(|own| Arc::ptr_eq(own, owner))
    }

    /// The 24-bit key.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// The process that registered it.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// The pinned memory.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Offset of the local range, or `None` where it is not wholly inside the region.
    pub(crate) fn local_offset(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.checked_sub(self.addr)?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }

    /// Whether the region grants every bit of `access`.
    pub(crate) fn grants(&self, access: u32) -> bool {
        self.access & access == access
    }

    /// Checks a Send of a peer to `offset` of the receive context [proto 4.9, 5].
    pub(crate) fn context_offset(
        &self,
        offset: u32,
        len: u64,
        partition: u32,
    ) -> Result<u64, Code> {
        self.check_rights(RECEIVE, partition)?;
        self.check_bounds(offset.into(), len)
    }

    /// Checks a remote operation and gives the offset of its first byte [proto 5].
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

    /// Whether the RMA address is in the region.
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

    /// Carries out an atomic operation at `offset`; gives what was there before.
    pub(crate) fn atomic(&self, offset: u64, op: &AtomicOp) -> Result<u64, Code> {
        let AtomicOp {
            kind,
            operand,
            compare,
            ..
        } = *op;
        // The core has checked the alignment; the range has been checked for this offset.
        self.pages
            .atomic(offset, kind as u8, operand, compare)
            .map_err(|_| Code::MALFORMED)
    }

    /// Counts bytes that a peer has written.
    pub(crate) fn count_write(&self, bytes: u64) {
        self.remote_writes.fetch_add(bytes, Relaxed);
    }

    /// What there is to tell.
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

/// `SUPERP_IOC_MR_QUERY`, where `find` knows the regions. Process context.
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
