// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion queues, whose rings are shared memory.

use crate::call;
use crate::context::{readable, ContextSocket, Inner};
use crate::mapping::Mapping;
use crate::ring::{Consumer, Flags};
use crate::uapi::{self, superp_cqe, superp_ctx_page};
use std::fs::File;
use std::io::{Read, Result};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

impl ContextSocket {
    /// Makes a completion queue of `entries`, a power of two.
    ///
    /// # Errors
    ///
    /// EINVAL: `entries`. ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: too many.
    pub fn create_cq(&self, entries: u32) -> Result<Cq> {
        let mut create = uapi::superp_cq_create {
            entries,
            ..Default::default()
        };
        call::ioctl(self.0.fd.as_fd(), &mut create)?;
        // It ends again if it cannot be mapped.
        let inner = Arc::new(CqInner {
            context: self.0.clone(),
            number: create.cq,
            users: Mutex::default(),
        });
        let mapping = Mapping::new(self.0.fd.as_fd(), create.offset, create.size)?;
        let ring = Consumer::new(Arc::new(mapping), &create.ring)?;
        Ok(Cq {
            inner,
            ring,
            eventfd: None,
        })
    }
}

#[derive(Debug)]
pub(crate) struct CqInner {
    pub(crate) context: Arc<Inner>,
    pub(crate) number: u32,
    /// Queue pairs that complete here, with the flags of their submission rings.
    users: Mutex<Vec<(u32, Flags)>>,
}

impl CqInner {
    pub(crate) fn with_users<T>(&self, work: impl FnOnce(&mut Vec<(u32, Flags)>) -> T) -> T {
        work(&mut self.users.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the kernel look at all queue pairs in the error state that complete here; whether there are any.
    fn set_bells(&self) -> bool {
        self.with_users(|users| {
            let mut any = false;
            for (number, _) in users.iter().filter(|(_, flags)| flags.failed()) {
                self.context.set_bell(*number);
                any = true;
            }
            any
        })
    }
}

impl Drop for CqInner {
    fn drop(&mut self) {
        // The queue pairs that used it are gone: each holds it.
        let fd = self.context.fd.as_fd();
        let _ = call::destroy(fd, uapi::SUPERP_IOC_CQ_DESTROY, self.number);
    }
}

/// A completion queue. The kernel keeps it until the queue pairs that use it are gone.
#[derive(Debug)]
pub struct Cq {
    pub(crate) inner: Arc<CqInner>,
    ring: Consumer<superp_cqe>,
    /// Where its events go instead of the context's page.
    eventfd: Option<File>,
}

impl Cq {
    /// Its number in the context.
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// Completions that it holds at most.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Takes at most `most` completions; gives how many those were. Goes on with what the kernel left
    /// because there was no room.
    ///
    /// # Errors
    ///
    /// What the doorbell says.
    pub fn poll(&mut self, most: u32, mut each: impl FnMut(superp_cqe)) -> Result<u32> {
        let was_full = self.ring.waiting() == self.ring.entries();
        let mut failed = false;
        let mut take = |entry: superp_cqe| {
            failed |= entry.major != 0;
            each(entry);
        };
        let context = &self.inner.context;
        let mut count = self.ring.pop(most, &mut take);
        if count < most && context.ring_waiting(true)? {
            count += self.ring.pop(most - count, &mut take);
        }
        // Receive entries of a queue pair that failed may wait for room.
        let flush = count > 0 && (was_full || failed) && self.inner.set_bells();
        if flush || context.left.load(Ordering::Relaxed) {
            context.ring(false)?;
        }
        Ok(count)
    }

    /// Has the next completion wake those who wait for the context. `false`: completions wait already.
    pub fn arm(&mut self) -> bool {
        self.inner.context.before_waiting();
        self.ring.arm(uapi::SUPERP_CQ_ARMED)
    }

    /// As [`arm`](Self::arm), for the next completion that is solicited by the peer, or failed.
    pub fn arm_solicited(&mut self) -> bool {
        self.inner.context.before_waiting();
        self.ring.arm_weakly(uapi::SUPERP_CQ_ARMED_SOLICITED)
    }

    /// Whether entries were left at the last doorbell: they may go on without an event.
    pub fn left(&self) -> bool {
        self.inner.context.left.load(Ordering::Relaxed)
    }

    /// Has its events go to an eventfd from now on: each adds one, and the context tells nothing of them.
    ///
    /// # Errors
    ///
    /// EBUSY: they go to one already. EINVAL: it is none. EMFILE.
    pub fn set_eventfd(&mut self, fd: BorrowedFd<'_>) -> Result<()> {
        let own = fd.try_clone_to_owned()?;
        let mut choice = uapi::superp_cq_eventfd {
            cq: self.inner.number,
            fd: fd.as_raw_fd(),
        };
        call::ioctl(self.inner.context.fd.as_fd(), &mut choice)?;
        self.eventfd = Some(own.into());
        Ok(())
    }

    /// Waits until there is an event, at most `timeout`: of this queue if it has an eventfd, else of any
    /// of the context. Also returns, with `false`, when a signal came.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        self.inner.context.before_waiting();
        let fd = match &self.eventfd {
            Some(eventfd) => eventfd.as_fd(),
            None => self.inner.context.fd.as_fd(),
        };
        readable(fd, timeout)
    }

    /// Takes the own event, if there is one; of an eventfd all that it has counted.
    pub fn take_event(&mut self) -> bool {
        if let Some(mut eventfd) = self.eventfd.as_ref() {
            // It need not be one that does not block.
            return readable(eventfd.as_fd(), Some(Duration::ZERO)).unwrap_or(false)
                && eventfd.read(&mut [0; 8]).is_ok();
        }
        let context = &self.inner.context;
        let (word, mask) = context.bit(offset_of!(superp_ctx_page, events), self.inner.number);
        word.load(Ordering::Relaxed) & mask != 0
            && word.fetch_and(!mask, Ordering::AcqRel) & mask != 0
    }
}
