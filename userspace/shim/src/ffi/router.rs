// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The thread that takes the events of a context and gives them to the channels of the program.

use super::cq::CqPointer;
use super::eventfd::{add_one, event_fd};
use super::events::{AsyncEvents, Event};
use super::lock;
use super::srq::SrqPointer;
use libc::c_int;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Gives the events of a context to its channels: the kernel has those of all completion queues on one
/// descriptor, but programs wait for those of one channel by its own. Those of the port it notices itself.
pub(super) struct Router {
    context: superp_verbs::Context,
    events: AsyncEvents,
    /// Completion queues by their numbers in the context.
    pub(super) queues: Mutex<HashMap<u32, CqPointer>>,
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
            if srq.is_low() {
                self.events.push(Event::low(*srq));
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
            let queue = unsafe { cq.get() };
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
