// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared receive queues, whose rings are shared memory.

use crate::call;
use crate::context::{ContextSocket, Inner};
use crate::mapping::Mapping;
use crate::ring::{Producer, RingSize};
use crate::uapi::{self, superp_rqe, superp_segment};
use std::io::Result;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

impl ContextSocket {
    /// Makes a shared receive queue.
    ///
    /// # Errors
    ///
    /// EINVAL: its size. ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: too many.
    pub fn create_srq(&self, size: RingSize) -> Result<SharedReceiveRing> {
        let mut create = uapi::superp_srq_create {
            entries: size.entries,
            segments: size.segments,
            ..Default::default()
        };
        call::ioctl(self.0.fd.as_fd(), &mut create)?;
        // It ends again if it cannot be mapped.
        let srq = Srq(Arc::new(SrqInner {
            context: self.0.clone(),
            number: create.srq,
        }));
        let mapping = Mapping::new(self.0.fd.as_fd(), create.offset, create.size)?;
        let ring = Producer::new(Arc::new(mapping), &create.ring, size.segments)?;
        Ok(SharedReceiveRing { srq, ring })
    }
}

#[derive(Debug)]
pub(crate) struct SrqInner {
    pub(crate) context: Arc<Inner>,
    pub(crate) number: u32,
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        // The queue pairs that used it are gone: each holds it.
        let fd = self.context.fd.as_fd();
        let _ = call::destroy(fd, uapi::SUPERP_IOC_SRQ_DESTROY, self.number);
    }
}

/// A shared receive queue, for queue pairs to be made with. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct Srq(pub(crate) Arc<SrqInner>);

/// The ring of a shared receive queue. The kernel keeps the queue until the queue pairs that use it are
/// gone.
#[derive(Debug)]
pub struct SharedReceiveRing {
    srq: Srq,
    ring: Producer<superp_rqe>,
}

impl SharedReceiveRing {
    /// The queue.
    pub fn srq(&self) -> &Srq {
        &self.srq
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Segments that an entry may have.
    pub fn segments(&self) -> u32 {
        self.ring.per_entry()
    }

    /// How many entries can be put in now.
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }

    /// Puts an entry in, with its segments, as far as it may have them. `false`: the ring is full.
    pub fn push(
        &mut self,
        entry: superp_rqe,
        segments: impl IntoIterator<Item = superp_segment>,
    ) -> bool {
        self.ring.push(entry, segments)
    }

    /// Shows the kernel what was put in.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// Has an eventfd told when fewer entries are left than the limit: each time adds one.
    ///
    /// # Errors
    ///
    /// EBUSY: it has one. EINVAL: it is none.
    pub fn set_eventfd(&mut self, fd: BorrowedFd<'_>) -> Result<()> {
        let mut choice = uapi::superp_srq_eventfd {
            srq: self.srq.0.number,
            fd: fd.as_raw_fd(),
        };
        call::ioctl(self.srq.0.context.fd.as_fd(), &mut choice)
    }

    /// Has the eventfd told, once, when fewer than `limit` entries are left; 0: not any more. `true`: fewer
    /// are left already, of which the eventfd is not told.
    pub fn set_limit(&mut self, limit: u32) -> bool {
        self.ring.set_limit(limit)
    }

    /// The limit; 0: there is none, or it has been told.
    pub fn limit(&self) -> u32 {
        self.ring.limit()
    }
}
