// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared receive queues: how programs make, change and end them.

use super::abi::*;
use super::context::Context;
use super::domain::{child, Pd};
use super::events::Event;
use super::router::Router;
use super::srq::Srq;
use super::{code, errno, give, lock};
use libc::c_int;
use std::sync::Arc;
use superp_verbs::uapi;

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
    let public = ibv_srq {
        context,
        srq_context: init.srq_context,
        pd,
        ..Default::default()
    };
    // SAFETY: An own domain.
    Ok(Srq::new(public, unsafe { child(pd) }, queue, of_pd))
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

/// Has the router told of the queue.
fn watch(object: &Srq, router: &Router) -> Result<(), c_int> {
    let mut watched = lock(&router.srqs);
    if !watched.contains(&object.pointer()) {
        let mut queue = lock(&object.queue);
        queue.set_event_fd(router.low()).map_err(errno)?;
        watched.push(object.pointer());
    }
    Ok(())
}

fn set_limit(object: &Srq, router: &Router, limit: u32) -> Result<(), c_int> {
    if limit > lock(&object.queue).entries() {
        return Err(libc::EINVAL);
    }
    if limit > 0 {
        watch(object, router)?;
    }
    if object.set_limit(limit) {
        router.events().push(Event::low(object.pointer()));
    }
    Ok(())
}

/// Its limit; its size stays.
pub(super) unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    if mask as u32 & !IBV_SRQ_LIMIT != 0 {
        return code(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: An own queue, its context, and the caller's struct.
    let (object, own, limit) =
        unsafe { (Srq::of(srq), Context::of((*srq).context), (*attr).srq_limit) };
    code(match mask {
        0 => Ok(()),
        _ => set_limit(object, &own.router, limit),
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
    // SAFETY: An own queue, and its context.
    let (object, own) = unsafe { (Srq::of(srq), Context::of((*srq).context)) };
    if Arc::strong_count(&object.users) > 1 {
        return code(Err(libc::EBUSY));
    }
    let router = &own.router;
    lock(&router.srqs).retain(|other| *other != object.pointer());
    router.events().forget(object.pointer());
    let given = object.given();
    // SAFETY: An own queue.
    unsafe { wait_acknowledged(srq, given) };
    // SAFETY: From `create_srq`, and used no more.
    drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
    0
}
