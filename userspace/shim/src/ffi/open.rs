// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Opening and closing the device, and the functions that a context has for programs.

use super::abi::*;
use super::completion::{create_cq_ex, request_notify};
use super::context::Context;
use super::domain::alloc_parent_domain;
use super::give;
use super::polling::poll_cq;
use super::post::{post_receive, post_send, post_shared_receive};
use super::query::{query_device_ex, query_port};
use super::queue::create_qp_ex;
use libc::c_int;
use std::ptr;
use std::sync::Arc;

/// The functions that programs call by the struct of a context, and not by their names.
fn functions() -> verbs_context {
    let mut public = verbs_context {
        query_port: Some(query_port),
        query_device_ex: Some(query_device_ex),
        create_qp_ex: Some(create_qp_ex),
        create_cq_ex: Some(create_cq_ex),
        alloc_parent_domain: Some(alloc_parent_domain),
        sz: size_of::<verbs_context>(),
        ..Default::default()
    };
    public.context.ops.poll_cq = Some(poll_cq);
    public.context.ops.req_notify_cq = Some(request_notify);
    public.context.ops.post_send = Some(post_send);
    public.context.ops.post_recv = Some(post_receive);
    public.context.ops.post_srq_recv = Some(post_shared_receive);
    public
}

pub(super) unsafe fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    let context: *mut Context = give(Context::open(device, functions()));
    match context.is_null() {
        true => ptr::null_mut(),
        // SAFETY: Made just now.
        false => unsafe { Context::public(context) },
    }
}

pub(super) unsafe fn close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    // What is left of its objects goes on, as with other devices, until the program ends.
    if Arc::strong_count(&own.users) > 1 {
        return 0;
    }
    own.router.stop();
    let own: *const Context = own;
    // SAFETY: From `open_device`, and used no more.
    drop(unsafe { Box::from_raw(own.cast_mut()) });
    0
}
