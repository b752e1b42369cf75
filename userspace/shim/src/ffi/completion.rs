// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion channels and completion queues.

use super::abi::*;
use super::context::{event_fd, Context};
use super::events::AsyncEvents;
use super::srq::SrqPointer;
use super::{code, errno, give, lock, minus_one, polling};
use libc::{c_int, c_uint, c_void};
use std::cell::UnsafeCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use superp_verbs::CompletionQueue;

/// `struct ibv_comp_channel`.
#[repr(C)]
struct Channel {
    public: ibv_comp_channel,
    waiting: Mutex<Waiting>,
    /// Each completion queue of the channel has one more.
    users: Arc<()>,
    _of_context: Arc<()>,
}

/// Events of a channel.
struct Waiting {
    queues: VecDeque<CqPointer>,
    /// The descriptor of the channel: readable while there are any.
    signal: OwnedFd,
}

/// A completion queue among those of its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct CqPointer(*mut Cq);

// SAFETY: It is taken out of the maps, under their locks, before the queue ends.
unsafe impl Send for CqPointer {}

impl Waiting {
    fn push(&mut self, cq: CqPointer) {
        self.queues.push_back(cq);
        add_one(&self.signal);
    }

    /// Takes all of a queue away.
    fn forget(&mut self, cq: CqPointer) {
        let before = self.queues.len();
        self.queues.retain(|other| *other != cq);
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

/// Gives the events of a context to its channels: the kernel has those of all completion queues on one
/// descriptor, but programs wait for those of one channel by its own. Those of the port it notices itself.
pub(super) struct Router {
    context: superp_verbs::Context,
    events: AsyncEvents,
    /// Completion queues by their numbers in the context.
    queues: Mutex<HashMap<u32, CqPointer>>,
    /// Shared receive queues that were given a limit, which tell here when they have come below it.
    pub(super) srqs: Mutex<Vec<SrqPointer>>,
    low: OwnedFd,
    /// Readable when the thread is to end.
    stop: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that has the thread: one that it forks has the memory, and no thread.
    process: u32,
}

impl Router {
    /// Starts its thread.
    pub(super) fn new(context: superp_verbs::Context) -> Result<Arc<Self>, c_int> {
        let router = Arc::new(Self {
            context,
            events: AsyncEvents::new()?,
            queues: Mutex::default(),
            srqs: Mutex::default(),
            low: event_fd(libc::EFD_NONBLOCK)?,
            stop: event_fd(0)?,
            thread: Mutex::default(),
            process: std::process::id(),
        });
        let runs = router.clone();
        let builder = std::thread::Builder::new().name("superp-events".into());
        let started = without_signals(|| builder.spawn(move || runs.run()));
        let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EAGAIN);
        *lock(&router.thread) = Some(started.map_err(failed)?);
        Ok(router)
    }

    pub(super) fn events(&self) -> &AsyncEvents {
        &self.events
    }

    /// Where shared receive queues tell that they run low.
    pub(super) fn low(&self) -> BorrowedFd<'_> {
        self.low.as_fd()
    }

    fn look_for_low(&self) {
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // SAFETY: Eight bytes; it does not wait.
        unsafe { libc::read(self.low.as_raw_fd(), to.cast(), 8) };
        for srq in lock(&self.srqs).iter() {
            if let Some(event) = srq.low() {
                self.events.push(event);
            }
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        if self.process != std::process::id() {
            // Nobody to wait for; and the descriptors are those of the process that goes on.
            return std::mem::forget(thread);
        }
        add_one(&self.stop);
        // It does not panic; what would be done about it?
        let _ = thread.join();
    }

    fn run(&self) {
        let readable = |fd: c_int| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let (stop, context) = (self.stop.as_raw_fd(), self.context.as_raw_fd());
        let low = self.low.as_raw_fd();
        let mut any = [stop, context, self.events.changes(), low].map(readable);
        loop {
            // SAFETY: Four descriptors, valid for the call.
            let ready = unsafe { libc::poll(any.as_mut_ptr(), 4, -1) };
            if ready > 0 && any[0].revents != 0 {
                return;
            }
            if ready > 0 && any[2].revents != 0 {
                self.events.look();
            }
            if ready > 0 && any[3].revents != 0 {
                self.look_for_low();
            }
            while let Some(number) = self.context.socket().take_event() {
                self.give(number);
            }
        }
    }

    fn give(&self, number: u32) {
        let queues = lock(&self.queues);
        // The event of one that was destroyed is nobody's.
        if let Some(cq) = queues.get(&number) {
            // SAFETY: A queue in the map has not ended.
            let queue = unsafe { &*cq.0 };
            // Armed, but without a channel: nobody is told.
            if let Some(channel) = queue.channel() {
                lock(&channel.waiting).push(*cq);
            }
        }
    }
}

/// Runs something with all signals blocked, which a thread inherits: those of the program are not for it.
pub(super) fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: Zero is a valid set, which is filled before it is used.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: Both sets are valid for the calls.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let result = run();
    // SAFETY: As above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    result
}

/// Makes an eventfd readable.
pub(super) fn add_one(fd: &OwnedFd) {
    let one: u64 = 1;
    let from: *const u64 = &one;
    // It fails only if 2^64 - 1 events wait.
    // SAFETY: Eight bytes.
    unsafe { libc::write(fd.as_raw_fd(), from.cast(), 8) };
}

fn new_channel(context: *mut ibv_context, own: &Context) -> Result<Channel, c_int> {
    let signal = event_fd(0)?;
    Ok(Channel {
        public: ibv_comp_channel {
            context,
            fd: signal.as_raw_fd(),
            refcnt: 0,
        },
        waiting: Mutex::new(Waiting {
            queues: VecDeque::new(),
            signal,
        }),
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

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    public: UnsafeCell<ibv_cq_ex>,
    /// What the extended interface reads from.
    pub(super) current: UnsafeCell<ibv_wc>,
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

impl Cq {
    /// The channel that its events go to.
    fn channel(&self) -> Option<&Channel> {
        // SAFETY: It does not change; and a channel outlives its queues.
        unsafe { (*self.public.get()).channel.cast::<Channel>().as_ref() }
    }
}

/// # Safety
///
/// By the contract of verbs, with an own context.
unsafe fn new_cq(context: *mut ibv_context, attr: &ibv_cq_init_attr_ex) -> Result<Cq, c_int> {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    if attr.cqe == 0 || attr.comp_vector != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: A channel of the context, or NULL.
    let of_channel = unsafe { attr.channel.cast::<Channel>().as_ref() };
    let queue = own
        .context
        .create_completion_queue(attr.cqe)
        .map_err(errno)?;
    let mut public = ibv_cq_ex {
        context,
        channel: attr.channel,
        cq_context: attr.cq_context,
        handle: queue.number(),
        cqe: queue.entries() as c_int,
        ..Default::default()
    };
    polling::set_functions(&mut public);
    Ok(Cq {
        public: UnsafeCell::new(public),
        current: UnsafeCell::default(),
        number: queue.number(),
        queue: Mutex::new(queue),
        events: Mutex::default(),
        acked: Condvar::new(),
        users: Arc::default(),
        _of_channel: of_channel.map(|channel| channel.users.clone()),
        _of_context: own.users.clone(),
    })
}

/// A completion queue, whose events are told from now on.
///
/// # Safety
///
/// By the contract of verbs, with an own context.
pub(super) unsafe fn create<T>(
    context: *mut ibv_context,
    attr: Result<&ibv_cq_init_attr_ex, c_int>,
) -> *mut T {
    // SAFETY: By the contract of this function.
    let made = attr.and_then(|attr| unsafe { new_cq(context, attr) });
    let cq: *mut Cq = give(made);
    if !cq.is_null() {
        // SAFETY: An own context; the queue was made just now.
        let (own, number) = unsafe { (Context::of(context), (*cq).number) };
        lock(&own.router.queues).insert(number, CqPointer(cq));
    }
    cq.cast()
}

pub(super) unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let attr = ibv_cq_init_attr_ex {
        // Of what is negative nothing is left, and a vector that is not 0.
        cqe: u32::try_from(cqe).unwrap_or(0),
        comp_vector: vector as u32,
        cq_context,
        channel,
        ..Default::default()
    };
    // SAFETY: By the contract of verbs.
    unsafe { create(context, Ok(&attr)) }
}

pub(super) unsafe fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    let pointer: *mut Cq = cq.cast();
    // SAFETY: An own queue, and its context.
    let (own, object) = unsafe { (Context::of((*cq).context), &*pointer) };
    if Arc::strong_count(&object.users) > 1 {
        return code(Err(libc::EBUSY));
    }
    lock(&own.router.queues).remove(&object.number);
    if let Some(channel) = object.channel() {
        lock(&channel.waiting).forget(CqPointer(pointer));
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
    // SAFETY: An own queue.
    let queue = unsafe { &(*cq.cast::<Cq>()).queue };
    // Also if completions are there already: the next one tells, and whoever asks polls afterwards.
    match solicited {
        0 => lock(queue).request_notify(),
        _ => lock(queue).request_notify_solicited(),
    };
    0
}

fn wait_event(channel: &Channel) -> Result<CqPointer, c_int> {
    let fd = channel.public.fd;
    loop {
        if let Some(found) = lock(&channel.waiting).pop() {
            // SAFETY: What waits has not ended; `destroy_cq` waits for the acknowledgement.
            lock(unsafe { &(*found.0).events }).given += 1;
            return Ok(found);
        }
        super::wait_readable(fd)?;
    }
}

pub(super) unsafe fn get_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: An own channel.
    let object = unsafe { &*channel.cast::<Channel>() };
    // SAFETY: The context of an own channel.
    let own = unsafe { Context::of(object.public.context) };
    own.context.socket().before_waiting();
    minus_one(wait_event(object).map(|found| {
        // SAFETY: The queue does not end before the event is acknowledged; the places are the caller's.
        unsafe {
            *cq = found.0.cast();
            *cq_context = (*(*found.0).public.get()).cq_context;
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
