// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Contexts: sockets with completion queues and many queue pairs, whose rings are shared memory.

use crate::mapping::Mapping;
use crate::pace::Pace;
use crate::queue_pair::{Flags, Qp, ReceiveRing, SendRing};
use crate::ring::{Consumer, Producer};
use crate::socket::{family, milliseconds};
use crate::uapi::{self, superp_cqe, superp_ctx_page, superp_rqe, superp_segment};
use crate::{call, Access, Memory, Region, Registration};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a doorbell did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// All entries were taken in.
    Done,
    /// Some were left: a completion queue has no room. [`Cq::poll`] rings again.
    NoRoom,
}

/// How large a ring is.
#[derive(Clone, Copy, Debug)]
pub struct RingSize {
    /// Entries, a power of two.
    pub entries: u32,
    /// Segments that an entry may have, 0 to 16.
    pub segments: u32,
}

impl RingSize {
    /// No ring.
    pub const NONE: Self = Self {
        entries: 0,
        segments: 0,
    };
}

/// Where a queue pair takes its receive entries from.
#[derive(Clone, Copy, Debug)]
pub enum Receive<'a> {
    /// A ring of its own; without entries it receives nothing.
    Own(RingSize),
    /// A queue that it shares with others.
    Shared(&'a Srq),
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) family: u16,
    page: Mapping,
    /// Entries were left at the last doorbell.
    left: AtomicBool,
    /// Entries were put in for which nobody has rung: the kernel looks soon.
    pub(crate) waits: AtomicBool,
}

impl Inner {
    /// A bit of the context page: its word and its mask.
    fn bit(&self, bitmap: usize, number: u32) -> (&AtomicU64, u64) {
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

    fn before_waiting(&self) {
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

    /// Makes a queue pair with these rings. `qpn` is its number in the node, 0 for any.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: queues of another context. EINVAL: the size of a ring. EADDRINUSE: `qpn` is taken. ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: too many.
    pub fn create_qp(
        &self,
        send_cq: &Cq,
        recv_cq: &Cq,
        send: RingSize,
        receive: Receive<'_>,
        qpn: u32,
    ) -> Result<(SendRing, Option<ReceiveRing>)> {
        let (size, srq) = match receive {
            Receive::Own(size) => (size, None),
            Receive::Shared(srq) => (RingSize::NONE, Some(srq)),
        };
        let others = [&send_cq.inner.context, &recv_cq.inner.context];
        let mut contexts = others.into_iter().chain(srq.map(|srq| &srq.0.context));
        if !contexts.all(|context| Arc::ptr_eq(context, &self.0)) {
            let text = "a queue of another context";
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        let mut create = uapi::superp_rqp_create {
            send_cq: send_cq.inner.number,
            recv_cq: recv_cq.inner.number,
            sq_entries: send.entries,
            rq_entries: size.entries,
            sq_segments: send.segments,
            rq_segments: size.segments,
            flags: srq.map_or(0, |_| uapi::SUPERP_RQP_SRQ),
            srq: srq.map_or(0, |srq| srq.0.number),
            qpn,
            ..Default::default()
        };
        call::ioctl(self.0.fd.as_fd(), &mut create)?;
        let qp = Arc::new(Qp {
            context: self.0.clone(),
            number: create.qp,
            qpn: create.qpn,
            connected: AtomicBool::new(false),
            cqs: [send_cq.inner.clone(), recv_cq.inner.clone()],
            _srq: srq.cloned(),
        });
        let mapping = Mapping::new(self.0.fd.as_fd(), create.offset, create.size)?;
        let mapping = Arc::new(mapping);
        for cq in &qp.cqs {
            let flags = Flags::new(mapping.clone(), &create.sq)?;
            cq.with_users(|users| users.push((create.qp, flags)));
        }
        let ring = Producer::new(mapping.clone(), &create.sq, send.segments)?;
        let receive = match size.entries {
            0 => None,
            _ => Some(ReceiveRing {
                qp: qp.clone(),
                flags: Flags::new(mapping.clone(), &create.sq)?,
                ring: Producer::new(mapping, &create.rq, size.segments)?,
            }),
        };
        let pace = Pace::new();
        Ok((SendRing { qp, ring, pace }, receive))
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

    /// Rings for entries that wait for the next ones ([`SendRing::submit`]): to be called before waiting for what
    /// they do, by other means than those of this crate.
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
fn readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool> {
    Ok(call::poll(fd, libc::POLLIN, milliseconds(timeout))? & libc::POLLIN != 0)
}

#[derive(Debug)]
struct SrqInner {
    context: Arc<Inner>,
    number: u32,
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
pub struct Srq(Arc<SrqInner>);

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

#[derive(Debug)]
pub(crate) struct CqInner {
    context: Arc<Inner>,
    number: u32,
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
    inner: Arc<CqInner>,
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
