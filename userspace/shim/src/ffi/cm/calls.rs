// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The functions of rdma/rdma_cma.h, and those for queues of rdma/rdma_verbs.h. By the contract of RDMA CM, which
//! every `unsafe` here relies on, structs and memory that a program names are valid for the call, and it makes
//! one call at a time for an identifier.

// The dynamic linker reaches them.
#![allow(unreachable_pub)]

use super::super::abi::*;
use super::super::{minus_one, set_errno, tell, Failure};
use super::identifier::{any, Id, State};
use super::{names, queues, shared, ChannelPointer, EventPointer, IdPointer};
use crate::cm::{reason, Kind, Terms};
use crate::rules;
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::{ptr, slice};

#[no_mangle]
pub unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    let made = super::super::device::own_device()
        .and_then(|_| shared())
        .and_then(|shared| shared.lock().new_channel());
    match made {
        Ok(channel) => channel.0,
        Err(errno) => Failure::failure(errno),
    }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    let ended = shared().and_then(|shared| shared.lock().end_channel(ChannelPointer(channel)));
    if let Err(errno) = ended {
        set_errno(errno);
    }
}

/// A new identifier, or what was wrong.
pub(super) fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: rdma_port_space,
) -> Result<*mut rdma_cm_id, c_int> {
    if ps != RDMA_PS_TCP {
        tell("RDMA CM has no other port space than RDMA_PS_TCP, that of reliable connections");
        return Err(libc::EOPNOTSUPP);
    }
    super::super::device::own_device()?;
    let channel = (!channel.is_null()).then_some(ChannelPointer(channel));
    let mut manager = shared()?.lock();
    manager.new_id(channel, context).map(|id| id.public.0)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: rdma_port_space,
) -> c_int {
    if id.is_null() {
        return minus_one(Err(libc::EINVAL));
    }
    // SAFETY: The caller's place.
    minus_one(create(channel, context, ps).map(|made| unsafe { id.write(made) }))
}

/// Ends an identifier, when the program has acknowledged what it has of it.
pub(super) fn destroy(id: *mut rdma_cm_id) -> Result<(), c_int> {
    let shared = shared()?;
    let mut manager = shared.lock();
    let pointer = IdPointer(id);
    manager.id(id)?.end();
    manager.acknowledge_kept(pointer);
    if let Some(id) = manager.ids.remove(&pointer) {
        manager.take_back(&id);
        manager.ids.insert(pointer, id);
    }
    while manager
        .ids
        .get(&pointer)
        .is_some_and(|id| id.outstanding > 0)
    {
        manager = shared.wait(manager);
    }
    manager.forget(pointer);
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one(destroy(id))
}

pub(super) unsafe fn bind(id: *mut rdma_cm_id, name: *const sockaddr) -> Result<(), c_int> {
    // SAFETY: By the contract of RDMA CM.
    let name = unsafe { names::read(name) }?;
    let mut manager = shared()?.lock();
    let specific = match name.ip().is_unspecified() {
        true => None,
        false => Some(manager.open()?),
    };
    let id = manager.id(id)?;
    id.bind(name)?;
    if let Some(opened) = specific {
        id.set_device(&opened);
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { bind(id, addr) })
}

pub(super) unsafe fn resolve_address(
    pointer: *mut rdma_cm_id,
    source: *const sockaddr,
    destination: *const sockaddr,
) -> Result<(), c_int> {
    // SAFETY: By the contract of RDMA CM.
    let (to, from) = unsafe {
        let from = (!source.is_null()).then(|| names::read(source));
        (names::read(destination)?, from.transpose()?)
    };
    let mut manager = shared()?.lock();
    let opened = manager.open()?;
    let id = manager.id(pointer)?;
    match id.state {
        State::New => id.bind(from.unwrap_or(any(to.is_ipv6())))?,
        State::Bound => {}
        _ => return Err(libc::EINVAL),
    }
    let pending = match id.resolve(to, &opened) {
        Ok(()) => id.pending(RDMA_CM_EVENT_ADDR_RESOLVED, 0),
        Err(errno) => id.pending(RDMA_CM_EVENT_ADDR_ERROR, -errno),
    };
    manager.push(pending);
    drop(manager);
    complete(pointer)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { resolve_address(id, src_addr, dst_addr) })
}

pub(super) fn resolve_route(pointer: *mut rdma_cm_id) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(pointer)?;
    if id.state != State::AddressResolved {
        return Err(libc::EINVAL);
    }
    id.set_path();
    id.state = State::RouteResolved;
    let pending = id.pending(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    manager.push(pending);
    drop(manager);
    complete(pointer)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    minus_one(resolve_route(id))
}

/// What the program tells the peer, and its private data.
///
/// # Errors
///
/// EINVAL: no queue pair, more than the device has, or more private data than there is room for.
unsafe fn terms<'a>(
    id: &Id,
    kind: Kind,
    param: *const rdma_conn_param,
) -> Result<(Terms, &'a [u8]), c_int> {
    let qp = id.qp();
    // SAFETY: The caller's, or NULL.
    let Some(param) = (unsafe { param.as_ref() }) else {
        if qp.is_null() {
            return Err(libc::EINVAL);
        }
        let terms = Terms {
            // As of the one who asks, and what the device can.
            responder_resources: rules::MAX_READS,
            initiator_depth: rules::MAX_READS,
            retries: 7,
            rnr_retries: 7,
            // SAFETY: The queue pair of an identifier.
            shared: unsafe { !(*qp).srq.is_null() },
            // SAFETY: As above.
            queue_pair: unsafe { (*qp).qp_num },
            ..Terms::default()
        };
        return Ok((terms, &[]));
    };
    let limited = |wanted: u8| match u32::from(wanted) {
        // "As many as there are."
        RDMA_MAX_RESP_RES => Ok(rules::MAX_READS),
        _ if wanted <= rules::MAX_READS => Ok(wanted),
        _ => Err(libc::EINVAL),
    };
    let private = match (param.private_data.is_null(), param.private_data_len) {
        (_, 0) => &[],
        (true, _) => return Err(libc::EINVAL),
        // SAFETY: The caller's bytes.
        (false, len) => unsafe { slice::from_raw_parts(param.private_data.cast(), len.into()) },
    };
    if private.len() > kind.room() {
        return Err(libc::EINVAL);
    }
    let (queue_pair, srq) = match qp.is_null() {
        true => (param.qp_num, param.srq != 0),
        // SAFETY: As above.
        false => unsafe { ((*qp).qp_num, !(*qp).srq.is_null()) },
    };
    if queue_pair == 0 || queue_pair > superp_verbs::uapi::SUPERP_QPN_MAX {
        return Err(libc::EINVAL);
    }
    let terms = Terms {
        responder_resources: limited(param.responder_resources)?,
        initiator_depth: limited(param.initiator_depth)?,
        shared: srq,
        flow_control: param.flow_control != 0,
        retries: param.retry_count,
        rnr_retries: param.rnr_retry_count,
        queue_pair,
    };
    Ok((terms, private))
}

pub(super) unsafe fn connect(
    pointer: *mut rdma_cm_id,
    param: *const rdma_conn_param,
) -> Result<(), c_int> {
    let shared = shared()?;
    let mut manager = shared.lock();
    let id = manager.id(pointer)?;
    if id.state != State::RouteResolved {
        return Err(libc::EINVAL);
    }
    // SAFETY: By the contract of RDMA CM.
    let (ours, private) = unsafe { terms(id, Kind::Request, param) }?;
    id.ours = ours;
    id.state = State::Connecting;
    if let Some(pending) = id.ask(Kind::Request, private) {
        manager.push(pending);
    }
    drop(manager);
    shared.wake();
    complete(pointer)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_connect(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { connect(id, conn_param) })
}

fn listen(id: *mut rdma_cm_id, backlog: c_int) -> Result<(), c_int> {
    /// As the kernel's connection manager has it.
    const MOST: usize = 1024;
    let mut manager = shared()?.lock();
    let id = manager.id(id)?;
    match id.state {
        State::New => id.bind(any(false))?,
        State::Bound => {}
        _ => return Err(libc::EINVAL),
    }
    id.backlog = match usize::try_from(backlog) {
        Ok(wanted @ 1..=MOST) => wanted,
        _ => MOST,
    };
    id.state = State::Listening;
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    minus_one(listen(id, backlog))
}

unsafe fn accept(pointer: *mut rdma_cm_id, param: *const rdma_conn_param) -> Result<(), c_int> {
    let shared = shared()?;
    let mut manager = shared.lock();
    let id = manager.id(pointer)?;
    if id.state == State::Responded {
        // The other end of the same agreement.
        drop(manager);
        return establish(pointer);
    }
    if id.state != State::Requested {
        return Err(libc::EINVAL);
    }
    // SAFETY: By the contract of RDMA CM.
    let (mut ours, private) = unsafe { terms(id, Kind::Reply, param) }?;
    if param.is_null() {
        ours.responder_resources = ours.responder_resources.min(id.theirs.initiator_depth);
        ours.initiator_depth = ours.initiator_depth.min(id.theirs.responder_resources);
    }
    // What the peer says of repeating holds for both.
    ours.retries = id.theirs.retries;
    id.ours = ours;
    queues::make_ready(id)?;
    id.state = State::Accepting;
    if let Some(pending) = id.ask(Kind::Reply, private) {
        manager.push(pending);
    }
    drop(manager);
    shared.wake();
    complete(pointer)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_accept(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { accept(id, conn_param) })
}

fn establish(id: *mut rdma_cm_id) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(id)?;
    if id.state != State::Responded {
        return Err(libc::EINVAL);
    }
    id.send(Kind::Ready, 0, &[])?;
    id.state = State::Connected;
    Ok(())
}

/// For a program that makes its queue pair itself.
#[no_mangle]
pub unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    minus_one(establish(id))
}

unsafe fn refuse(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(id)?;
    if !matches!(id.state, State::Requested | State::Responded) {
        return Err(libc::EINVAL);
    }
    if usize::from(len) > Kind::Reject.room() || (len > 0 && data.is_null()) {
        return Err(libc::EINVAL);
    }
    let private = match len {
        0 => &[],
        // SAFETY: The caller's bytes.
        _ => unsafe { slice::from_raw_parts(data.cast(), len.into()) },
    };
    id.state = State::Failed;
    id.send(Kind::Reject, reason::PROGRAM, private)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { refuse(id, private_data, private_data_len) })
}

/// There are no enhanced connections to be told of.
#[no_mangle]
pub unsafe extern "C" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { refuse(id, private_data, private_data_len) })
}

fn notify(id: *mut rdma_cm_id, event: ibv_event_type) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(id)?;
    // The peer sends already, so that it is ready.
    if event == IBV_EVENT_COMM_EST && id.state == State::Accepting {
        id.deadline = None;
        id.state = State::Connected;
        let pending = id.pending(RDMA_CM_EVENT_ESTABLISHED, 0);
        manager.push(pending);
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int {
    minus_one(notify(id, event))
}

fn disconnect(pointer: *mut rdma_cm_id) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(pointer)?;
    let connected = matches!(id.state, State::Connected | State::Accepting);
    if !connected && (id.state != State::Disconnected || (id.left && id.sync)) {
        return Err(libc::EINVAL);
    }
    queues::flush(id)?;
    let mut told = Vec::new();
    if connected {
        id.deadline = None;
        // A peer that is gone need not be told.
        let _ = id.send(Kind::Disconnect, 0, &[]);
        id.state = State::Disconnected;
        told.push(id.pending(RDMA_CM_EVENT_DISCONNECTED, 0));
    }
    if !id.left {
        id.left = true;
        told.push(id.pending(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0));
    }
    for pending in told {
        manager.push(pending);
    }
    drop(manager);
    complete(pointer)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    minus_one(disconnect(id))
}

/// The next event of a channel; waits for one unless the program has made the descriptor one that does not wait.
pub(super) fn next_event(channel: ChannelPointer) -> Result<*mut rdma_cm_event, c_int> {
    loop {
        let mut manager = shared()?.lock();
        if let Some(event) = manager.take(channel)? {
            return Ok(event.0);
        }
        drop(manager);
        // SAFETY: A channel that the program waits on does not end.
        let fd = unsafe { (*channel.0).fd };
        crate::ffi::wait_readable(fd)?;
    }
}

/// Of an identifier with its own channel: waits for what the call leads to.
pub(super) fn complete(id: *mut rdma_cm_id) -> Result<(), c_int> {
    let channel = {
        let mut manager = shared()?.lock();
        let known = manager.id(id)?;
        if !known.sync {
            return Ok(());
        }
        let channel = known.channel;
        manager.acknowledge_kept(IdPointer(id));
        channel
    };
    let event = next_event(channel)?;
    // SAFETY: The event is the program's until it is acknowledged; the identifier is one.
    let (kind, status) = unsafe {
        (*id).event = event;
        ((*event).event, (*event).status)
    };
    match status {
        0 => Ok(()),
        _ if kind == RDMA_CM_EVENT_REJECTED => Err(libc::ECONNREFUSED),
        status => Err(status.abs()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    if event.is_null() {
        return minus_one(Err(libc::EINVAL));
    }
    // SAFETY: The caller's place.
    minus_one(next_event(ChannelPointer(channel)).map(|found| unsafe { event.write(found) }))
}

fn acknowledge(event: *mut rdma_cm_event) -> Result<(), c_int> {
    let shared = shared()?;
    shared.lock().acknowledge(EventPointer(event))?;
    shared.acked.notify_all();
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    minus_one(acknowledge(event))
}

fn port(id: *mut rdma_cm_id, of: impl FnOnce(*mut rdma_addr) -> *const sockaddr) -> u16 {
    if queues::known(id).is_err() {
        return 0;
    }
    // SAFETY: A known identifier.
    let name = unsafe { names::read(of(&raw mut (*id).route.addr)) };
    name.map_or(0, |name| name.port().to_be())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: A place in the struct.
    port(id, |addr| unsafe {
        (&raw const (*addr).__bindgen_anon_1).cast()
    })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: A place in the struct.
    port(id, |addr| unsafe {
        (&raw const (*addr).__bindgen_anon_2).cast()
    })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    let opened = match shared().and_then(|shared| shared.lock().open()) {
        Ok(opened) => opened,
        Err(errno) => return Failure::failure(errno),
    };
    // SAFETY: The caller's, or NULL.
    if let Some(place) = unsafe { num_devices.as_mut() } {
        *place = 1;
    }
    Box::into_raw(Box::new([opened.context, ptr::null_mut()])).cast()
}

#[no_mangle]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    if !list.is_null() {
        // SAFETY: From `rdma_get_devices`, and freed once.
        drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_context; 2]>()) });
    }
}

macro_rules! event_names {
    ($($name:ident)*) => {
        fn event_name(event: rdma_cm_event_type) -> &'static [u8] {
            match event {
                $($name => concat!(stringify!($name), "\0").as_bytes(),)*
                _ => b"UNKNOWN EVENT\0",
            }
        }
    };
}

event_names! {
    RDMA_CM_EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_ERROR RDMA_CM_EVENT_ROUTE_RESOLVED RDMA_CM_EVENT_ROUTE_ERROR
    RDMA_CM_EVENT_CONNECT_REQUEST RDMA_CM_EVENT_CONNECT_RESPONSE RDMA_CM_EVENT_CONNECT_ERROR
    RDMA_CM_EVENT_UNREACHABLE RDMA_CM_EVENT_REJECTED RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED
    RDMA_CM_EVENT_DEVICE_REMOVAL RDMA_CM_EVENT_MULTICAST_JOIN RDMA_CM_EVENT_MULTICAST_ERROR
    RDMA_CM_EVENT_ADDR_CHANGE RDMA_CM_EVENT_TIMEWAIT_EXIT
}

#[no_mangle]
pub unsafe extern "C" fn rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
    let name = CStr::from_bytes_with_nul(event_name(event));
    name.unwrap_or_default().as_ptr()
}

unsafe fn set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: size_t,
) -> Result<(), c_int> {
    let mut manager = shared()?.lock();
    let id = manager.id(id)?;
    let known = [
        (RDMA_OPTION_ID_TOS, 1),
        (RDMA_OPTION_ID_REUSEADDR, 4),
        (RDMA_OPTION_ID_AFONLY, 4),
        (RDMA_OPTION_ID_ACK_TIMEOUT, 1),
    ];
    let of = known.iter().find(|(option, _)| *option as c_int == name);
    let Some((option, size)) = of.filter(|_| level == RDMA_OPTION_ID as c_int) else {
        return Err(libc::ENOSYS);
    };
    if value.is_null() || len != *size {
        return Err(libc::EINVAL);
    }
    // The others mean nothing here.
    if *option == RDMA_OPTION_ID_ACK_TIMEOUT {
        // SAFETY: The caller's value has one byte.
        id.ack_timeout = Some(unsafe { value.cast::<u8>().read() });
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: size_t,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { set_option(id, level, optname, optval, optlen) })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    // SAFETY: The same contract.
    unsafe { queues::put_attributes(id, qp_attr, qp_attr_mask) }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    // SAFETY: The caller's struct, or NULL; the same contract.
    minus_one(unsafe {
        let attr = attr.as_mut().ok_or(libc::EINVAL);
        attr.and_then(|attr| queues::make_queue_pair(id, attr))
    })
}

pub(super) unsafe fn create_queue_pair(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), c_int> {
    // SAFETY: The caller's struct, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
    let mut long = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD,
        pd,
        ..Default::default()
    };
    // SAFETY: The same contract.
    unsafe { queues::make_queue_pair(id, &mut long) }?;
    (attr.send_cq, attr.recv_cq) = (long.send_cq, long.recv_cq);
    (attr.srq, attr.cap) = (long.srq, long.cap);
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { create_queue_pair(id, pd, qp_init_attr) })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: The same contract.
    if let Err(errno) = unsafe { queues::end_queue_pair(id) } {
        set_errno(errno);
    }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: The same contract.
    minus_one(unsafe { queues::make_shared_queue(id, pd, attr) })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    // SAFETY: The same contract.
    if let Err(errno) = unsafe { queues::end_shared_queue(id) } {
        set_errno(errno);
    }
}

/// Functions that are refused with EOPNOTSUPP.
macro_rules! refused {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                $(let _ = $arg;)*
                minus_one(Err(libc::EOPNOTSUPP))
            }
        )*
    };
}

refused! {
    fn rdma_join_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr, context: *mut c_void);
    fn rdma_join_multicast_ex(id: *mut rdma_cm_id, attr: *mut rdma_cm_join_mc_attr_ex, context: *mut c_void);
    fn rdma_leave_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr);
    fn rdma_create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex);
    fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece);
    fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece);
}

/// The sockets of librdmacm reach into its own identifiers, which these are not.
#[no_mangle]
pub unsafe extern "C" fn rsocket(_domain: c_int, _kind: c_int, _protocol: c_int) -> c_int {
    tell("the sockets of librdmacm (rsocket) are not possible; an ordinary socket is");
    minus_one(Err(libc::EOPNOTSUPP))
}
