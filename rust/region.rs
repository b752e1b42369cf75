// SPDX-License-Identifier: GPL-2.0

//! Memory regions: pinned user memory that peers may read and write by key [proto 5].

mod space;

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    kapi::{pages::Pages, process::Process},
    node::{Node, Refusal},
    proto::{Atomic as AtomicOp, Code},
    qp::Qp,
};

use space::Place;
pub(crate) use space::{Nearby, Space};

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

/// A registered region. Its memory stays pinned while anybody holds the `Arc`; peers reach it
/// only while it is in its node's table.
pub(crate) struct Region {
    key: u32,
    /// Of its first byte.
    rma_addr: u64,
    addr: u64,
    len: u64,
    access: u32,
    partition: u32,
    process: Process,
    /// The owner's, if it is a socket; it does not own the region.
    qp: Option<Arc<Qp>>,
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

impl Region {
    /// Pins `len` bytes at `addr` of the calling process and makes them reachable for peers of
    /// `node`. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: length 0, unknown access bits, wraps, or, without a global address space, crosses a
    /// multiple of 2^40. `EFAULT`, `ENOMEM`: from pinning. `ENOSPC`: no free key was found, or the
    /// space is full.
    pub(crate) fn register(
        node: &Node,
        addr: u64,
        len: u64,
        access: u32,
        partition: u32,
        qp: Option<Arc<Qp>>,
    ) -> Result<Arc<Region>, Refusal> {
        if len == 0 {
            return Err(Refusal::new(
                EINVAL,
                c"length of a region must be at least 1 byte",
            ));
        }
        if access & !ACCESS_MASK != 0 {
            return Err(Refusal::new(EINVAL, c"unknown bits in the region's access"));
        }
        if access & RECEIVE != 0 && qp.is_none() {
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
        let config = node.config().lock();
        let place = Place::choose(node, config.rma_space(), addr, len)?;
        let region = Arc::new(
            Region {
                key: place.key,
                rma_addr: place.rma_addr,
                addr,
                len,
                access,
                partition,
                process,
                qp,
                pages,
                remote_reads: Atomic::new(0),
                remote_writes: Atomic::new(0),
            },
            GFP_KERNEL,
        )
        .map_err(|_| Refusal::new(ENOMEM, c"no memory for the region"))?;
        node.regions()
            .insert(place.key, region.clone())
            .map_err(|e| Refusal::new(e, c"no memory for the region"))?;
        place.keep();
        drop(config);
        Ok(region)
    }

    /// Takes the region from the reach of peers; returns when none touches it any more. Process
    /// context, sleeps for a grace period: packets are processed with bottom halves off.
    pub(crate) fn release(&self, node: &Node) {
        node.remove_region(self);
    }

    /// The queue pair of its owner, if that is a socket.
    pub(crate) fn qp(&self) -> Option<&Arc<Qp>> {
        self.qp.as_ref()
    }

    /// Whether it belongs to the socket of this queue pair.
    pub(crate) fn is_of(&self, qp: &Arc<Qp>) -> bool {
        self.qp().is_some_and(|own| Arc::ptr_eq(own, qp))
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
    fn has(&self, rma_addr: u64) -> bool {
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
            qpn: self.qp().map_or(0, |qp| qp.qpn()),
            remote_reads: self.remote_reads.load(Relaxed),
            remote_writes: self.remote_writes.load(Relaxed),
        }
    }
}
