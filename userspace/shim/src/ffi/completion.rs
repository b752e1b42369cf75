// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion channels and completion queues: how programs make them, wait for their events and end
//! them.

use super::abi::*;
use super::context::Context;
use super::cq::{Channel, Cq, CqPointer, Events};
use super::{code, errno, give, lock, minus_one, polling};
use libc::{c_int, c_uint, c_void};
use std::cell::UnsafeCell;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Attributes of a queue that change nothing here: completions never find their queue full.
const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

pub(super) unsafe fn create_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    give(Channel::new(context, own.users.clone()))
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
        events: Mutex::new(Events::default()),
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
unsafe fn create<T>(
    context: *mut ibv_context,
    attr: Result<&ibv_cq_init_attr_ex, c_int>,
) -> *mut T {
    // SAFETY: By the contract of this function.
    let made = attr.and_then(|attr| unsafe { new_cq(context, attr) });
    let cq: *mut Cq = give(made);
    if !cq.is_null() {
        // SAFETY: An own context; the queue was made just now.
        let (own, number) = unsafe { (Context::of(context), (*cq).number) };
        lock(&own.router.queues).insert(number, CqPointer::new(cq.cast()));
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

pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: The caller's struct.
    let attr = unsafe { &*attr };
    // SAFETY: An own context.
    unsafe { create(context, allowed(attr).map(|()| attr)) }
}

/// Whether the device has what is asked for.
fn allowed(attr: &ibv_cq_init_attr_ex) -> Result<(), c_int> {
    let mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    let has_flags = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
    if attr.comp_mask & !mask != 0 || has_flags && attr.flags & !FLAGS != 0 {
        return Err(libc::EINVAL);
    }
    match attr.wc_flags & !u64::from(IBV_WC_STANDARD_FLAGS) {
        0 => Ok(()),
        _ => Err(libc::EOPNOTSUPP),
    }
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
        lock(&channel.waiting).forget(CqPointer::new(cq));
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
            lock(&unsafe { found.get() }.events).given += 1;
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
            *cq = found.public();
            *cq_context = (*found.get().public.get()).cq_context;
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
