// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The exported functions: own objects go to own functions, others to the real library, which the dynamic
//! linker finds behind this one.

// The dynamic linker reaches them.
#![allow(unreachable_pub)]

use super::abi::*;
use super::completion::{
    ack_events, create_channel, create_cq, destroy_channel, destroy_cq, get_event,
};
use super::context::get_async_event;
use super::device::{device_guid, device_name, Devices};
use super::domain::{alloc_pd, dealloc_pd, dereg_mr, reg_mr, reg_mr_iova};
use super::open::{close_device, open_device};
use super::query::{
    query_device, query_gid, query_gid_ex, query_gid_table, query_gid_type, query_pkey,
    query_port_old, PKEY,
};
use super::queue::{create_qp, destroy_qp, modify_qp, query_qp, to_extended};
use super::shared::{create_srq, destroy_srq, modify_srq, query_srq};
use super::{context, device, errno_now, set_errno, Failure};
use libc::{c_char, c_int, c_uint, c_void, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The function of this name behind this library, or NULL. Looked up once.
fn next(name: &CStr, place: &AtomicPtr<c_void>) -> *mut c_void {
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: The name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    place.store(found, Ordering::Relaxed);
    found
}

/// Calls the real function; `None` if there is none.
macro_rules! real {
    ($name:ident($($arg:expr => $type:ty),*) -> $ret:ty) => {{
        static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        let name = concat!(stringify!($name), "\0").as_bytes();
        let name = CStr::from_bytes_with_nul(name).unwrap_or_default();
        let found = next(name, &PLACE);
        if found.is_null() {
            None
        } else {
            type Function = unsafe extern "C" fn($($type),*) -> $ret;
            // SAFETY: The function of this name has this type, by infiniband/verbs.h.
            let function = unsafe { std::mem::transmute::<*mut c_void, Function>(found) };
            // SAFETY: The caller's arguments, by the contract of verbs.
            Some(unsafe { function($($arg),*) })
        }
    }};
}

/// Whether an object is of the own device.
trait Owned: Copy {
    /// # Safety
    ///
    /// It is an object of verbs.
    unsafe fn own(self) -> bool;
}

impl Owned for *mut ibv_device {
    unsafe fn own(self) -> bool {
        device::is_own(self)
    }
}

impl Owned for *mut ibv_context {
    unsafe fn own(self) -> bool {
        // SAFETY: By the contract of this function.
        unsafe { context::is_own(self) }
    }
}

macro_rules! owned {
    ($($object:ty)*) => {
        $(impl Owned for *mut $object {
            unsafe fn own(self) -> bool {
                // SAFETY: By the contract of this function.
                unsafe { (*self).context.own() }
            }
        })*
    };
}

owned! { ibv_pd ibv_mr ibv_cq ibv_srq ibv_qp ibv_comp_channel }

/// Functions with their own part: a function of the same arguments, or `refused`, with `EOPNOTSUPP`.
macro_rules! functions {
    ($(fn $name:ident($first:ident: $first_type:ty $(, $arg:ident: $type:ty)*) -> $ret:ty = $own:ident;)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name($first: $first_type $(, $arg: $type)*) -> $ret {
                // SAFETY: By the contract of verbs.
                if unsafe { $first.own() } {
                    return functions!(@own $own $first $($arg)*);
                }
                real!($name($first => $first_type $(, $arg => $type)*) -> $ret)
                    .unwrap_or_else(|| Failure::failure(libc::ENOSYS))
            }
        )*
    };
    (@own refused $($arg:ident)*) => {{
        $(let _ = $arg;)*
        Failure::failure(libc::EOPNOTSUPP)
    }};
    (@own $own:ident $($arg:ident)*) => {
        // SAFETY: The first argument is own; by the contract of verbs.
        unsafe { $own($($arg),*) }
    };
}

/// As [`Failure`] of the one function that returns nothing.
impl Failure for () {
    fn failure(errno: c_int) {
        set_errno(errno);
    }
}

impl Failure for u64 {
    fn failure(errno: c_int) -> Self {
        set_errno(errno);
        0
    }
}

impl Failure for ssize_t {
    fn failure(errno: c_int) -> Self {
        -(errno as Self)
    }
}

impl Failure for *const c_char {
    fn failure(errno: c_int) -> Self {
        set_errno(errno);
        std::ptr::null()
    }
}

functions! {
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char = device_name;
    fn ibv_get_device_guid(device: *mut ibv_device) -> u64 = device_guid;
    fn ibv_get_device_index(device: *mut ibv_device) -> c_int = no_index;
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context = open_device;
    fn ibv_close_device(context: *mut ibv_context) -> c_int = close_device;
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int = get_async_event;
    fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int = query_device;
    fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int = query_port_old;
    fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int = query_gid;
    fn ibv_query_gid_type(context: *mut ibv_context, port: u8, index: c_uint, kind: *mut c_uint) -> c_int = query_gid_type;
    fn _ibv_query_gid_ex(context: *mut ibv_context, port: u32, index: u32, entry: *mut ibv_gid_entry, flags: u32, size: size_t) -> c_int = query_gid_ex;
    fn _ibv_query_gid_table(context: *mut ibv_context, entries: *mut ibv_gid_entry, most: size_t, flags: u32, size: size_t) -> ssize_t = query_gid_table;
    fn ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int, pkey: *mut u16) -> c_int = query_pkey;
    fn ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int = pkey_index;
    fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd = refused;
    fn ibv_import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm = refused;
    fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr = refused;

    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd = alloc_pd;
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int = dealloc_pd;
    fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: size_t, access: c_int) -> *mut ibv_mr = reg_mr;
    fn ibv_reg_mr_iova(pd: *mut ibv_pd, addr: *mut c_void, length: size_t, iova: u64, access: c_int) -> *mut ibv_mr = reg_mr_iova;
    fn ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: size_t, iova: u64, access: c_uint) -> *mut ibv_mr = reg_mr_iova2;
    fn ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: size_t, iova: u64, fd: c_int, access: c_int) -> *mut ibv_mr = refused;
    fn ibv_rereg_mr(mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, length: size_t, access: c_int) -> c_int = no_change;
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int = dereg_mr;

    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel = create_channel;
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int = destroy_channel;
    fn ibv_create_cq(context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq = create_cq;
    fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int = refused;
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int = destroy_cq;
    fn ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void) -> c_int = get_event;
    fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) -> () = ack_events;

    fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp = create_qp;
    fn ibv_query_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int, init: *mut ibv_qp_init_attr) -> c_int = query_qp;
    fn ibv_query_qp_data_in_order(qp: *mut ibv_qp, opcode: c_uint, flags: u32) -> c_int = no_promise;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int = modify_qp;
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int = destroy_qp;
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex = to_extended;
    fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int = refused;
    fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int = refused;
    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int = refused;
    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int = refused;

    fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq = create_srq;
    fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int = modify_srq;
    fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int = query_srq;
    fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int = destroy_srq;
    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah = refused;
    fn ibv_create_ah_from_wc(pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh, port: u8) -> *mut ibv_ah = refused;
    fn ibv_init_ah_from_wc(context: *mut ibv_context, port: u8, wc: *mut ibv_wc, grh: *mut ibv_grh, attr: *mut ibv_ah_attr) -> c_int = refused;
    fn ibv_resolve_eth_l2_from_gid(context: *mut ibv_context, attr: *mut ibv_ah_attr, mac: *mut u8, vid: *mut u16) -> c_int = refused;
}

/// The device has no index: -1.
unsafe fn no_index(_device: *mut ibv_device) -> c_int {
    -1
}

/// The bytes of a write need not become visible in the order of their addresses.
unsafe fn no_promise(_qp: *mut ibv_qp, _opcode: c_uint, _flags: u32) -> c_int {
    0
}

/// A region stays as it is.
unsafe fn no_change(
    _mr: *mut ibv_mr,
    _flags: c_int,
    _pd: *mut ibv_pd,
    _addr: *mut c_void,
    _length: size_t,
    _access: c_int,
) -> c_int {
    set_errno(libc::EOPNOTSUPP);
    IBV_REREG_MR_ERR_INPUT
}

/// There is one partition key.
unsafe fn pkey_index(_context: *mut ibv_context, _port: u8, pkey: u16) -> c_int {
    match pkey {
        PKEY => 0,
        _ => {
            set_errno(libc::EINVAL);
            -1
        }
    }
}

unsafe fn reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: The same contract.
    unsafe { reg_mr_iova(pd, addr, length, iova, access as c_int) }
}

/// The own device, if the node has SUPERp, and those of the real library.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let mut number = 0;
    let before = errno_now();
    let place: *mut c_int = &mut number;
    let real = real!(ibv_get_device_list(place => *mut c_int) -> *mut *mut ibv_device);
    // It knows no kernel with RDMA, or no device: neither is a failure while there is the own one.
    let others = real.unwrap_or(std::ptr::null_mut());
    // SAFETY: By the contract of verbs.
    let devices = match unsafe { Devices::new(others) } {
        Ok(devices) => devices,
        Err(errno) => return Failure::failure(errno),
    };
    // SAFETY: The caller's, or NULL.
    if let Some(place) = unsafe { count.as_mut() } {
        *place = devices.len();
    }
    set_errno(before);
    devices.into_raw()
}

#[no_mangle]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    // SAFETY: A list of `ibv_get_device_list()`, which is freed once.
    let others = unsafe { Devices::free(list) };
    if !others.is_null() {
        real!(ibv_free_device_list(others => *mut *mut ibv_device) -> ());
    }
}
