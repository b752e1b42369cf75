// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Contexts: the sockets that completion queues and queue pairs belong to, with their doorbell and
//! their events.

use crate::mapping::Mapping;
use crate::socket::{family, milliseconds};
use crate::uapi::{self, superp_ctx_page};
use crate::{call, Access, Memory, Region, Registration};
use std::io::{ErrorKind, Result};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// What a doorbell did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// All entries were taken in.
    Done,
    /// Some were left: a completion queue has no room. [`Cq::poll`](crate::Cq::poll) rings again.
    NoRoom,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) family: u16,
    page: Mapping,
    /// Entries were left at the last doorbell.
    pub(crate) left: AtomicBool,
    /// Entries were put in for which nobody has rung: the kernel looks soon.
    pub(crate) waits: AtomicBool,
}

impl Inner {
    /// A bit of the context page: its word and its mask.
    pub(crate) fn bit(&self, bitmap: usize, number: u32) -> (&AtomicU64, u64) {
        let offset = bitmap + number as usize / 64 * 8;
        let word = self.page.long(offset).expect("numbers are below 1024");
        (word, 1 << (number % 64))
    }

    /// Says that a queue pair has something for the kernel; `true`: that was said already, and nobody has
    /// rung since.
    pub(crate) fn set_bell(&self, qp: u32) -> bool {
        let (word, mask) = self.bit(offset_of!(superp_ctx_page, bell), qp);
        word.fetch_or(mask, Ordering::Release) & mask != 0
    }

    /// `more`: what follows may wait.
    pub(crate) fn ring(&self, more: bool) -> Result<Doorbell> {
        // Before the call: what another thread leaves meanwhile must not be forgotten.
        self.left.store(false, Ordering::Relaxed);
        self.waits.store(false, Ordering::Relaxed);
        self.all_taken(call::doorbell(self.fd.as_fd(), more))
    }

    /// Rings for entries that wait, if there are any; `more` as of [`ring`](Self::ring).
    pub(crate) fn ring_waiting(&self, more: bool) -> Result<bool> {
        let any = self.waits.load(Ordering::Relaxed);
        if any {
            self.ring(more)?;
        }
        Ok(any)
    }

    pub(crate) fn before_waiting(&self) {
        // Without, the kernel looks later, and says what there is to be said.
        let _ = self.ring_waiting(false);
    }

    /// What a call says of the entries that it was to take in.
    fn all_taken(&self, result: Result<()>) -> Result<Doorbell> {
        match result {
            Ok(()) => Ok(Doorbell::Done),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.left.store(true, Ordering::Relaxed);
                Ok(Doorbell::NoRoom)
            }
            Err(error) => Err(error),
        }
    }
}

/// A context. Clones are the same context, which ends with the last of them, its regions and queues.
#[derive(Clone, Debug)]
pub struct ContextSocket(pub(crate) Arc<Inner>);

impl ContextSocket {
    /// A new context in the current network namespace.
    ///
    /// # Errors
    ///
    /// `NotFound`: the module is not loaded. What socket(2) and mmap(2) say.
    pub fn open() -> Result<Self> {
        let family = family()?;
        let fd = call::socket(family, libc::SOCK_RDM)?;
        let page = Mapping::new(fd.as_fd(), 0, size_of::<superp_ctx_page>() as u64)?;
        Ok(Self(Arc::new(Inner {
            fd: Arc::new(fd),
            family,
            page,
            left: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        })))
    }

    /// Registers memory as a region, in a partition (0: any).
    ///
    /// # Errors
    ///
    /// ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: no free key.
    pub fn register(&self, memory: Memory, access: Access, partition: u32) -> Result<Region> {
        Region::new(&self.0.fd, memory, access, partition)
    }

    /// Registers memory that belongs to someone else. Errors as of [`register`](Self::register).
    ///
    /// # Safety
    ///
    /// Until the registration is dropped and the requests that use it are complete, the kernel and,
    /// with rights to, peers read and write the memory at any time: no reference to it may exist that
    /// they would break.
    pub unsafe fn register_raw(
        &self,
        start: *mut u8,
        len: usize,
        access: Access,
        partition: u32,
    ) -> Result<Registration> {
        Registration::new(&self.0.fd, start as u64, len, access, partition)
    }

    /// Lets the kernel take in what was put into rings of the context since it was called last.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    pub fn doorbell(&self) -> Result<Doorbell> {
        self.0.ring(false)
    }

    /// Lends the kernel this thread for `time`, at most a second: it takes in what is put into rings of the
    /// context as it comes, and nobody needs to ring. It does not sleep meanwhile. Also returns when a
    /// signal came.
    ///
    /// # Errors
    ///
    /// EBUSY: another thread does it.
    pub fn serve(&self, time: Duration) -> Result<Doorbell> {
        let usec = time.as_micros().clamp(1, uapi::SUPERP_MAX_SERVE.into()) as u32;
        match call::serve(self.as_fd(), usec) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                // It may have left some, too.
                self.0.left.store(true, Ordering::Relaxed);
                Ok(Doorbell::Done)
            }
            result => self.0.all_taken(result),
        }
    }

    /// Rings for entries that wait for the next ones ([`SendRing::submit`](crate::SendRing::submit)):
    /// to be called before waiting for what they do, by other means than those of this crate.
    pub fn before_waiting(&self) {
        self.0.before_waiting();
    }

    /// Waits until a completion queue that was armed has an event, at most `timeout`. Also returns,
    /// with `false`, when a signal came.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        self.before_waiting();
        readable(self.as_fd(), timeout)
    }

    /// Takes an event: the number of a completion queue that was armed and got a completion.
    pub fn take_event(&self) -> Option<u32> {
        (0..uapi::SUPERP_MAX_RING_CQS)
            .step_by(64)
            .find_map(|first| {
                let (word, _) = self.0.bit(offset_of!(superp_ctx_page, events), first);
                let mut bits = word.load(Ordering::Relaxed);
                while bits != 0 {
                    let lowest = bits & bits.wrapping_neg();
                    bits = word.fetch_and(!lowest, Ordering::AcqRel);
                    // Another thread may have taken it.
                    if bits & lowest != 0 {
                        return Some(first + lowest.trailing_zeros());
                    }
                }
                None
            })
    }
}

impl AsFd for ContextSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl AsRawFd for ContextSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd.as_raw_fd()
    }
}

/// Waits until there is something to read, at most `timeout`; `false` also when a signal came.
pub(crate) fn readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool> {
    Ok(call::poll(fd, libc::POLLIN, milliseconds(timeout))? & libc::POLLIN != 0)
}
