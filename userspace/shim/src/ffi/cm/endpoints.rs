// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Endpoints: identifiers whose calls wait, and the names of peers that they are made of.

// The dynamic linker reaches them.
#![allow(unreachable_pub)]

use super::super::abi::*;
use super::super::{minus_one, tell};
use super::calls::{
    bind, create, create_queue_pair, destroy, next_event, resolve_address, resolve_route,
};
use super::{names, queues, shared, ChannelPointer, EventPointer, IdPointer};
use libc::{c_char, c_int};
use std::ptr;

/// Gives an identifier another channel, or one of its own.
fn migrate(pointer: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> Result<(), c_int> {
    let shared = shared()?;
    let mut manager = shared.lock();
    let id = manager.id(pointer)?;
    let (before, was_sync, key) = (id.channel, id.sync, id.public);
    let sync = channel.is_null();
    if sync && was_sync {
        return Err(libc::EINVAL);
    }
    let to = match sync {
        true => manager.new_channel()?,
        false if manager.channels.contains_key(&ChannelPointer(channel)) => ChannelPointer(channel),
        false => return Err(libc::EINVAL),
    };
    if was_sync {
        manager.acknowledge_kept(key);
    }
    let waiting = match manager.channels.get_mut(&before) {
        Some(from) => from.forget(key),
        None => Vec::new(),
    };
    if let Some(to) = manager.channels.get_mut(&to) {
        for pending in waiting {
            to.push(pending);
        }
    }
    if was_sync {
        manager.end_channel(before)?;
    }
    let id = manager.id(pointer)?;
    (id.channel, id.sync) = (to, sync);
    // SAFETY: A known identifier.
    unsafe { (*pointer).channel = to.0 };
    // What was got from the channel before is not to be mixed with what comes from this one.
    while manager.ids.get(&key).is_some_and(|id| id.outstanding > 0) {
        manager = shared.wait(manager);
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    minus_one(migrate(id, channel))
}

/// Ends an endpoint, without a word of what cannot be ended.
unsafe fn end(id: *mut rdma_cm_id) {
    // SAFETY: By the contract of RDMA CM.
    unsafe {
        let _ = queues::end_queue_pair(id);
        let _ = queues::end_shared_queue(id);
    }
    let _ = destroy(id);
}

unsafe fn create_endpoint(
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<*mut rdma_cm_id, c_int> {
    let space = rdma_port_space::try_from(info.ai_port_space).map_err(|_| libc::EINVAL)?;
    let id = create(ptr::null_mut(), ptr::null_mut(), space)?;
    // SAFETY: By the contract of RDMA CM.
    let made = unsafe {
        match info.ai_flags as u32 & RAI_PASSIVE {
            0 => active(id, info, pd, attr),
            _ => passive(id, info, pd, attr),
        }
    };
    match made {
        Ok(()) => Ok(id),
        Err(errno) => {
            // SAFETY: Made just now.
            unsafe { end(id) };
            Err(errno)
        }
    }
}

unsafe fn active(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), c_int> {
    // SAFETY: By the contract of RDMA CM.
    unsafe {
        resolve_address(id, info.ai_src_addr, info.ai_dst_addr)?;
        resolve_route(id)?;
        if let Some(attr) = attr.as_mut() {
            attr.qp_type = IBV_QPT_RC;
            create_queue_pair(id, pd, attr)?;
        }
    }
    Ok(())
}

unsafe fn passive(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), c_int> {
    // SAFETY: By the contract of RDMA CM.
    unsafe {
        bind(id, info.ai_src_addr)?;
        if !pd.is_null() {
            (*id).pd = pd;
        }
    }
    // SAFETY: The caller's struct, or NULL.
    let init = unsafe { attr.as_ref() }.map(|attr| ibv_qp_init_attr {
        qp_type: IBV_QPT_RC,
        ..*attr
    });
    shared()?.lock().id(id)?.init = init;
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: The caller's structs, or NULL.
    minus_one(unsafe {
        match (id.is_null(), res.as_ref()) {
            (false, Some(info)) => {
                create_endpoint(info, pd, qp_init_attr).map(|made| id.write(made))
            }
            _ => Err(libc::EINVAL),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: The same contract.
    unsafe { end(id) };
}

/// The identifier of the next request, with a queue pair if the listener was made with attributes of one.
unsafe fn request(listener: *mut rdma_cm_id) -> Result<*mut rdma_cm_id, c_int> {
    let (channel, init) = {
        let mut manager = shared()?.lock();
        let id = manager.id(listener)?;
        if !id.sync {
            return Err(libc::EINVAL);
        }
        let found = (id.channel, id.init);
        manager.acknowledge_kept(IdPointer(listener));
        found
    };
    let event = next_event(channel)?;
    // SAFETY: The event is not acknowledged; its identifiers have not ended.
    unsafe {
        let (id, kind) = ((*event).id, (*event).event);
        let made = match (kind, init) {
            (RDMA_CM_EVENT_CONNECT_REQUEST, Some(mut init)) => {
                create_queue_pair(id, (*listener).pd, &mut init)
            }
            (RDMA_CM_EVENT_CONNECT_REQUEST, None) => Ok(()),
            _ => Err(libc::EINVAL),
        };
        match made {
            Ok(()) => (*id).event = event,
            Err(errno) => {
                let _ = shared()?.lock().acknowledge(EventPointer(event));
                if kind == RDMA_CM_EVENT_CONNECT_REQUEST {
                    let _ = destroy(id);
                }
                return Err(errno);
            }
        }
        Ok(id)
    }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    if id.is_null() {
        return minus_one(Err(libc::EINVAL));
    }
    // SAFETY: The same contract; the caller's place.
    minus_one(unsafe { request(listen).map(|found| id.write(found)) })
}

/// `struct rdma_addrinfo`, with the addresses that it points to.
#[repr(C)]
struct Info {
    public: rdma_addrinfo,
    source: names::Place,
    destination: names::Place,
}

impl Info {
    fn new(flags: c_int) -> Box<Self> {
        Box::new(Self {
            public: rdma_addrinfo {
                ai_flags: flags,
                ai_qp_type: IBV_QPT_RC as c_int,
                ai_port_space: RDMA_PS_TCP as c_int,
                ..Default::default()
            },
            source: Default::default(),
            destination: Default::default(),
        })
    }

    /// Takes an address over; NULL is none.
    unsafe fn set(&mut self, passive: bool, name: *const sockaddr) -> Result<(), c_int> {
        if name.is_null() {
            return Ok(());
        }
        // SAFETY: By the contract of RDMA CM.
        let name = unsafe { names::read(name) }.map_err(|_| libc::EAI_FAMILY)?;
        let public = &mut self.public;
        let (place, to, len) = match passive {
            true => (
                &mut self.source,
                &mut public.ai_src_addr,
                &mut public.ai_src_len,
            ),
            false => (
                &mut self.destination,
                &mut public.ai_dst_addr,
                &mut public.ai_dst_len,
            ),
        };
        // SAFETY: Room for any address.
        unsafe { names::write(place.as_mut_ptr().cast(), name) };
        (*to, *len) = (place.as_mut_ptr().cast(), names::length(name) as socklen_t);
        public.ai_family = match name.is_ipv4() {
            true => libc::AF_INET,
            false => libc::AF_INET6,
        };
        Ok(())
    }
}

/// An error is one of getaddrinfo(3).
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
) -> Result<Box<Info>, c_int> {
    let flags = hints.map_or(0, |hints| hints.ai_flags as u32);
    let space = hints.map_or(0, |hints| hints.ai_port_space);
    if space != 0 && space != RDMA_PS_TCP as c_int {
        tell("RDMA CM has no other port space than RDMA_PS_TCP, that of reliable connections");
        return Err(libc::EAI_SERVICE);
    }
    let passive = flags & RAI_PASSIVE != 0;
    let mut info = Info::new(flags as c_int);
    if let Some(hints) = hints {
        // SAFETY: By the contract of RDMA CM.
        unsafe {
            info.set(true, hints.ai_src_addr)?;
            info.set(false, hints.ai_dst_addr)?;
        }
    }
    if node.is_null() && service.is_null() {
        return match hints {
            Some(_) => Ok(info),
            None => Err(libc::EAI_NONAME),
        };
    }
    // SAFETY: Zero is a valid value of every field.
    let mut wanted: libc::addrinfo = unsafe { std::mem::zeroed() };
    wanted.ai_socktype = libc::SOCK_STREAM;
    wanted.ai_family = hints.map_or(0, |hints| hints.ai_family);
    for (flag, own) in [
        (RAI_PASSIVE, libc::AI_PASSIVE),
        (RAI_NUMERICHOST, libc::AI_NUMERICHOST),
    ] {
        if flags & flag != 0 {
            wanted.ai_flags |= own;
        }
    }
    let mut found = ptr::null_mut();
    // SAFETY: The caller's texts, or NULL; the places are valid for the call.
    match unsafe { libc::getaddrinfo(node, service, &wanted, &mut found) } {
        0 => {}
        error => return Err(error),
    }
    // SAFETY: A list with at least one address, which is freed once.
    unsafe {
        let set = info.set(passive, (*found).ai_addr.cast());
        libc::freeaddrinfo(found);
        set?;
    }
    Ok(info)
}

#[no_mangle]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    if res.is_null() {
        return minus_one(Err(libc::EINVAL));
    }
    // SAFETY: The caller's texts and structs.
    unsafe {
        match look_up(node, service, hints.as_ref()) {
            Ok(info) => {
                res.write(Box::into_raw(info).cast());
                0
            }
            Err(error) => error,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    if !res.is_null() {
        // SAFETY: From `rdma_getaddrinfo`, and freed once.
        drop(unsafe { Box::from_raw(res.cast::<Info>()) });
    }
}
