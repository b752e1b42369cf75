// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion channels and completion queues.

use super::abi::*;
use super::context::{event_fd, owned, Context};
use super::{code, errno, give, lock, minus_one};
use libc::{c_int, c_uint, c_void};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use superp_verbs::CompletionQueue;

/// `struct ibv_comp_channel`. The kernel has the events of a whole context, on one descriptor: who looks
/// for those of one channel passes the others on. The descriptor of the channel is an epoll instance of
/// both places where its events may be.
#[repr(C)]
struct Channel {
    public: ibv_comp_channel,
    passed: Mutex<Passed>,
    epoll: OwnedFd,
    /// Each completion queue of the channel has one more.
    users: Arc<()>,
    _of_context: Arc<()>,
}

/// Events that others found.
struct Passed {
    queues: VecDeque<CqPointer>,
    /// Readable while there are any.
    signal: OwnedFd,
}

/// A completion queue among those of its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct CqPointer(*mut Cq);

// SAFETY: It is taken out of the maps, under their locks, before the queue ends.
unsafe impl Send for CqPointer {}

impl Passed {
    fn push(&mut self, cq: CqPointer) {
        self.queues.push_back(cq);
        let one: u64 = 1;
        let from: *const u64 = &one;
        // It fails only if 2^64 events wait.
        // SAFETY: Eight bytes.
        unsafe { libc::write(self.signal.as_raw_fd(), from.cast(), 8) };
    }

    /// Keeps those of which `keep` says so.
    fn retain(&mut self, keep: impl FnMut(&CqPointer) -> bool) {
        let before = self.queues.len();
        self.queues.retain(keep);
        if before > 0 && self.queues.is_empty() {
            self.quiet();
        }
    }

    fn pop(&mut self) -> Option<CqPointer> {
        let first = self.queues.pop_front()?;
        if self.queues.is_empty() {
            self.quiet();
        }
        Some(first)
    }

    fn quiet(&mut self) {
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // It does not wait: the descriptor is readable.
        // SAFETY: Eight bytes.
        unsafe { libc::read(self.signal.as_raw_fd(), to.cast(), 8) };
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), c_int> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    let (epoll, fd) = (epoll.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: The event is valid for the call.
    match unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
    }
}

fn new_channel(context: *mut ibv_context, own: &Context) -> Result<Channel, c_int> {
    use std::os::fd::AsFd;
    // SAFETY: No pointers.
    let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    let signal = event_fd(libc::EFD_NONBLOCK)?;
    watch(&epoll, own.context.as_fd())?;
    watch(&epoll, signal.as_fd())?;
    Ok(Channel {
        public: ibv_comp_channel {
            context,
            fd: epoll.as_raw_fd(),
            refcnt: 0,
        },
        passed: Mutex::new(Passed {
            queues: VecDeque::new(),
            signal,
        }),
        epoll,
        users: Arc::default(),
        _of_context: own.users.clone(),
    })
}

pub(super) unsafe fn create_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: An own context.
    give(new_channel(context, unsafe { Context::of(context) }))
}

pub(super) unsafe fn destroy_channel(channel: *mut ibv_comp_channel) -> c_int {
    let channel: *mut Channel = channel.cast();
    // SAFETY: An own channel.
    if Arc::strong_count(unsafe { &(*channel).users }) > 1 {
        return code(Err(libc::EBUSY));
    }
    // SAFETY: From `create_channel`, and used no more.
    drop(unsafe { Box::from_raw(channel) });
    0
}

/// `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    public: ibv_cq,
    pub(super) queue: Mutex<CompletionQueue>,
    number: u32,
    events: Mutex<Events>,
    acked: Condvar,
    /// Each queue pair that uses it has one more.
    pub(super) users: Arc<()>,
    _of_channel: Option<Arc<()>>,
    _of_context: Arc<()>,
}

/// Events that the program got, and those of them that it has acknowledged.
#[derive(Default)]
struct Events {
    given: u32,
    acked: u32,
}

/// # Safety
///
/// By the contract of verbs, with an own context.
unsafe fn new_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Result<Cq, c_int> {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    let entries = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
    if entries == 0 || vector != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: A channel of the context, or NULL.
    let of_channel = unsafe { channel.cast::<Channel>().as_ref() };
    let queue = own
        .context
        .create_completion_queue(entries)
        .map_err(errno)?;
    Ok(Cq {
        public: ibv_cq {
            context,
            channel,
            cq_context,
            handle: queue.number(),
            cqe: queue.entries() as c_int,
            ..Default::default()
        },
        number: queue.number(),
        queue: Mutex::new(queue),
        events: Mutex::default(),
        acked: Condvar::new(),
        users: Arc::default(),
        _of_channel: of_channel.map(|channel| channel.users.clone()),
        _of_context: own.users.clone(),
    })
}

pub(super) unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: By the contract of verbs.
    let made = unsafe { new_cq(context, cqe, cq_context, channel, vector) };
    let cq: *mut ibv_cq = give(made);
    if !cq.is_null() {
        let pointer: *mut Cq = cq.cast();
        // SAFETY: An own context; the queue was made just now.
        let (own, number) = unsafe { (Context::of(context), (*pointer).number) };
        lock(&own.cqs).insert(number, CqPointer(pointer));
    }
    cq
}

pub(super) unsafe fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    let pointer: *mut Cq = cq.cast();
    // SAFETY: An own queue, and its context.
    let (own, object) = unsafe { (Context::of((*cq).context), &*pointer) };
    if Arc::strong_count(&object.users) > 1 {
        return code(Err(libc::EBUSY));
    }
    lock(&own.cqs).remove(&object.number);
    // SAFETY: The channel outlives the queue.
    if let Some(channel) = unsafe { object.public.channel.cast::<Channel>().as_ref() } {
        lock(&channel.passed).retain(|other| *other != CqPointer(pointer));
    }
    // Who got an event may still look at the queue until the event is acknowledged.
    let mut events = lock(&object.events);
    while events.given != events.acked {
        events = object
            .acked
            .wait(events)
            .unwrap_or_else(PoisonError::into_inner);
    }
    drop(events);
    // SAFETY: From `create_cq`, and used no more.
    drop(unsafe { Box::from_raw(pointer) });
    0
}

pub(super) unsafe extern "C" fn request_notify(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    if solicited != 0 {
        return code(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: An own queue.
    let queue = unsafe { &(*cq.cast::<Cq>()).queue };
    // Also if completions are there already: the next one tells, and whoever asks polls afterwards.
    lock(queue).request_notify();
    0
}

/// The next event of a channel, if there is one now.
fn take_event(own: &Context, channel: &Channel) -> Option<CqPointer> {
    let queues = lock(&own.cqs);
    let mut found = lock(&channel.passed).pop();
    while found.is_none() {
        let number = own.context.socket().take_event()?;
        // The event of one that was destroyed is nobody's.
        let Some(cq) = queues.get(&number).copied() else {
            continue;
        };
        // SAFETY: A queue in the map has not ended, nor has its channel.
        let whose = unsafe { (*cq.0).public.channel.cast::<Channel>().as_ref() };
        match whose {
            Some(whose) if ptr::eq(whose, channel) => found = Some(cq),
            Some(whose) => lock(&whose.passed).push(cq),
            // Armed, but without a channel: nobody is told.
            None => {}
        }
    }
    let found = found?;
    // SAFETY: As above; `destroy_cq` waits for the acknowledgement.
    lock(unsafe { &(*found.0).events }).given += 1;
    Some(found)
}

fn wait_event(own: &Context, channel: &Channel) -> Result<CqPointer, c_int> {
    let failed = || {
        let error = std::io::Error::last_os_error();
        error.raw_os_error().unwrap_or(libc::EIO)
    };
    let fd = channel.epoll.as_raw_fd();
    loop {
        if let Some(found) = take_event(own, channel) {
            return Ok(found);
        }
        // SAFETY: No pointers.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags & libc::O_NONBLOCK != 0 {
            return Err(libc::EAGAIN);
        }
        let mut one = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: One descriptor, valid for the call.
        if unsafe { libc::poll(&mut one, 1, -1) } < 0 {
            return Err(failed());
        }
    }
}

pub(super) unsafe fn get_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: An own channel, and its context.
    let (own, object) = unsafe { (Context::of((*channel).context), &*channel.cast::<Channel>()) };
    minus_one(wait_event(own, object).map(|found| {
        // SAFETY: The queue does not end before the event is acknowledged; the places are the caller's.
        unsafe {
            *cq = found.0.cast();
            *cq_context = (*found.0).public.cq_context;
        }
    }))
}

pub(super) unsafe fn ack_events(cq: *mut ibv_cq, events: c_uint) {
    // SAFETY: An own queue.
    let object = unsafe { &*cq.cast::<Cq>() };
    let mut counts = lock(&object.events);
    counts.acked = counts.acked.wrapping_add(events);
    object.acked.notify_all();
}
