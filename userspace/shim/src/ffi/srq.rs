// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared receive queues.

use super::abi::*;
use super::context::Context;
use super::domain::{child, Pd};
use super::events::Event;
use super::{code, errno, give, lock};
use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use superp_verbs::{uapi, SharedReceive, SharedReceiveQueue};

/// `struct ibv_srq`.
#[repr(C)]
pub(super) struct Srq {
    public: UnsafeCell<ibv_srq>,
    pub(super) queue: Mutex<SharedReceiveQueue>,
    /// It was given a limit that has not been told of; changed with the queue locked.
    armed: AtomicBool,
    /// Events that the program got.
    given: AtomicU32,
    /// Each queue pair that uses it has one more.
    pub(super) users: Arc<()>,
    _of_pd: Arc<()>,
}

impl Srq {
    /// # Safety
    ///
    /// It is an own one, and outlives `'a`.
    pub(super) unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Self {
        // SAFETY: By the contract of this function.
        unsafe { &*srq.cast::<Self>() }
    }

    pub(super) fn context(&self) -> &Context {
        // SAFETY: An own context, which outlives its queues.
        unsafe { Context::of((*self.public.get()).context) }
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: An own domain, which outlives the queue.
        unsafe { child((*self.public.get()).pd) }
    }

    /// For queue pairs to be made with.
    pub(super) fn handle(&self) -> SharedReceive {
        lock(&self.queue).handle()
    }

    fn pointer(&self) -> SrqPointer {
        SrqPointer(self)
    }

    /// Has the router told of the queue.
    fn watch(&self) -> Result<(), c_int> {
        let router = &self.context().router;
        let mut watched = lock(&router.srqs);
        if !watched.contains(&self.pointer()) {
            let mut queue = lock(&self.queue);
            queue.set_event_fd(router.low()).map_err(errno)?;
            watched.push(self.pointer());
        }
        Ok(())
    }

    fn set_limit(&self, limit: u32) -> Result<(), c_int> {
        if limit > lock(&self.queue).entries() {
            return Err(libc::EINVAL);
        }
        if limit > 0 {
            self.watch()?;
        }
        let mut queue = lock(&self.queue);
        self.armed.store(limit > 0, Ordering::Relaxed);
        let below = queue.set_limit(limit);
        drop(queue);
        if below {
            if let Some(event) = self.pointer().low() {
                self.context().router.events().push(event);
            }
        }
        Ok(())
    }
}

/// A shared receive queue among those of its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SrqPointer(*const Srq);

// SAFETY: It is taken out of the lists, under their locks, before the queue ends.
unsafe impl Send for SrqPointer {}

impl SrqPointer {
    /// The event of its limit, if that is reached: once.
    pub(super) fn low(self) -> Option<Event> {
        // SAFETY: A queue in the list, or of who calls, has not ended.
        let srq = unsafe { &*self.0 };
        let queue = lock(&srq.queue);
        let reached = queue.limit() == 0 && srq.armed.swap(false, Ordering::Relaxed);
        reached.then_some(Event {
            kind: IBV_EVENT_SRQ_LIMIT_REACHED,
            srq: Some(self),
        })
    }

    /// For the program that gets an event of it.
    pub(super) fn give(self) -> *mut ibv_srq {
        // SAFETY: A queue that has an event has not ended.
        unsafe { &*self.0 }.given.fetch_add(1, Ordering::Relaxed);
        self.0.cast_mut().cast()
    }
}

/// # Safety
///
/// By the contract of verbs, with an own domain.
unsafe fn new_srq(pd: *mut ibv_pd, init: &mut ibv_srq_init_attr) -> Result<Srq, c_int> {
    let attr = &mut init.attr;
    if attr.max_wr > uapi::SUPERP_MAX_SRQ_ENTRIES || attr.max_sge > uapi::SUPERP_MAX_SEGMENTS {
        return Err(libc::EINVAL);
    }
    // SAFETY: An own domain, and its context.
    let (context, of_pd) = unsafe { ((*pd).context, (*pd.cast::<Pd>()).users.clone()) };
    // SAFETY: The context of an own domain.
    let own = unsafe { Context::of(context) };
    let queue = own
        .context
        .create_shared_receive_queue(attr.max_wr, attr.max_sge)
        .map_err(errno)?;
    attr.max_wr = queue.entries();
    attr.max_sge = queue.parts();
    Ok(Srq {
        public: UnsafeCell::new(ibv_srq {
            context,
            srq_context: init.srq_context,
            pd,
            ..Default::default()
        }),
        queue: Mutex::new(queue),
        armed: AtomicBool::new(false),
        given: AtomicU32::new(0),
        users: Arc::default(),
        _of_pd: of_pd,
    })
}

pub(super) unsafe fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: By the contract of verbs.
    give(unsafe { new_srq(pd, &mut *init) })
}

pub(super) unsafe fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: An own queue.
    let queue = lock(unsafe { &Srq::of(srq).queue });
    let found = ibv_srq_attr {
        max_wr: queue.entries(),
        max_sge: queue.parts(),
        srq_limit: queue.limit(),
    };
    // SAFETY: The caller's.
    unsafe { attr.write(found) };
    0
}

/// Its limit; its size stays.
pub(super) unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    if mask as u32 & !IBV_SRQ_LIMIT != 0 {
        return code(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: An own queue, and the caller's struct.
    let (object, limit) = unsafe { (Srq::of(srq), (*attr).srq_limit) };
    code(match mask {
        0 => Ok(()),
        _ => object.set_limit(limit),
    })
}

/// Waits until the program has acknowledged the events that it got: `ibv_ack_async_event()`, which is the
/// real library's, counts them in the queue.
///
/// # Safety
///
/// An own queue.
unsafe fn wait_acknowledged(srq: *mut ibv_srq, given: u32) {
    // SAFETY: By the contract of this function; the fields are for this.
    unsafe {
        let mutex = (&raw mut (*srq).mutex).cast();
        libc::pthread_mutex_lock(mutex);
        while (*srq).events_completed != given {
            libc::pthread_cond_wait((&raw mut (*srq).cond).cast(), mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}

pub(super) unsafe fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: An own queue.
    let object = unsafe { Srq::of(srq) };
    if Arc::strong_count(&object.users) > 1 {
        return code(Err(libc::EBUSY));
    }
    let router = &object.context().router;
    lock(&router.srqs).retain(|other| *other != object.pointer());
    router.events().forget(object.pointer());
    let given = object.given.load(Ordering::Relaxed);
    // SAFETY: An own queue.
    unsafe { wait_acknowledged(srq, given) };
    // SAFETY: From `create_srq`, and used no more.
    drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
    0
}
