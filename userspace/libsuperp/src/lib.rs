// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The C library: `include/superp/verbs.h` says what each function does. It is a thin layer over
//! `superp-verbs`; what is unsafe here is the pointers of C.
//!
//! Pointers that a function is given are, by the contract of the header, valid objects of this library
//! that are not destroyed meanwhile; strings, arrays and lists are valid for the call.

// The header documents all functions.
#![allow(clippy::missing_safety_doc, missing_docs, unreachable_pub)]

#[doc(hidden)]
pub mod attr;
mod post;
mod queue;

use attr::{Mr, PortAttr};
use libc::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use superp_sys::Registration;
use superp_verbs::{Access, Context, Error};

/// A lock. What it guards is whole also after a panic: one would have ended the process.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_errno(errno: c_int) {
    // SAFETY: The place is the thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Whoever set the environment is told what is wrong with it, which no number does.
fn told(error: Error) -> Error {
    if let Error::Partition(malformed) = &error {
        // A program without standard error is not told.
        let _ = writeln!(std::io::stderr(), "libsuperp: {malformed}");
    }
    error
}

/// A new object, or NULL and errno.
fn give<T>(result: Result<T, Error>) -> *mut T {
    match result {
        Ok(object) => Box::into_raw(Box::new(object)),
        Err(error) => {
            set_errno(error.errno());
            ptr::null_mut()
        }
    }
}

/// A device of the list.
pub struct Device {
    name: CString,
    ports: Vec<superp_verbs::Port>,
}

#[no_mangle]
pub unsafe extern "C" fn superp_get_device_list(num_devices: *mut c_int) -> *mut *mut Device {
    let devices = match superp_verbs::devices() {
        Ok(devices) => devices,
        Err(error) => {
            set_errno(error.errno());
            return ptr::null_mut();
        }
    };
    // SAFETY: The caller's, or NULL.
    if let Some(place) = unsafe { num_devices.as_mut() } {
        *place = devices.len() as c_int;
    }
    let list = devices.into_iter().map(|device| {
        Box::into_raw(Box::new(Device {
            name: CString::new(device.name()).unwrap_or_default(),
            ports: device.ports().to_vec(),
        }))
    });
    let list: Box<[_]> = list.chain([ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

#[no_mangle]
pub unsafe extern "C" fn superp_free_device_list(list: *mut *mut Device) {
    if list.is_null() {
        return;
    }
    let mut len = 0;
    // SAFETY: A list of superp_get_device_list(), which ends with NULL and is freed once.
    unsafe {
        while !(*list.add(len)).is_null() {
            drop(Box::from_raw(*list.add(len)));
            len += 1;
        }
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(list, len + 1)));
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_get_device_name(device: *const Device) -> *const c_char {
    // SAFETY: By the contract of the header.
    unsafe { (*device).name.as_ptr() }
}

#[no_mangle]
pub unsafe extern "C" fn superp_device_port_count(device: *const Device) -> c_int {
    // SAFETY: By the contract of the header.
    unsafe { &(*device).ports }.len() as c_int
}

#[no_mangle]
pub unsafe extern "C" fn superp_query_port(
    device: *const Device,
    port: c_int,
    attr: *mut PortAttr,
) -> c_int {
    // SAFETY: By the contract of the header.
    let ports = unsafe { &(*device).ports };
    let port = usize::try_from(port).ok().and_then(|port| ports.get(port));
    let Some(port) = port else {
        return libc::EINVAL;
    };
    // SAFETY: The caller's place.
    unsafe { attr.write(PortAttr::new(port)) };
    0
}

/// A context, and what is left in it.
pub struct ContextObject {
    context: Context,
    /// Regions and queues.
    objects: AtomicUsize,
    /// Completion queues by their number, for events.
    cqs: Mutex<HashMap<u32, CqPointer>>,
}

/// The handle of a completion queue, which is only given back.
#[derive(Clone, Copy)]
struct CqPointer(*mut queue::Cq);

// SAFETY: It is not followed under the lock that guards it, but by the function that gives it to the
// program, which may not destroy the queue meanwhile.
unsafe impl Send for CqPointer {}

impl ContextObject {
    /// One more object; says so again when it is dropped.
    fn count(self: &Arc<Self>) -> Counted {
        self.objects.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

/// An object of a context.
struct Counted(Arc<ContextObject>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.objects.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a program has: a pointer to one is `struct superp_context *`.
type ContextHandle = Arc<ContextObject>;

#[no_mangle]
pub unsafe extern "C" fn superp_open_device(_device: *const Device) -> *mut ContextHandle {
    give(Context::open().map(|context| {
        Arc::new(ContextObject {
            context,
            objects: AtomicUsize::new(0),
            cqs: Mutex::default(),
        })
    }))
}

#[no_mangle]
pub unsafe extern "C" fn superp_close_device(context: *mut ContextHandle) -> c_int {
    // SAFETY: By the contract of the header.
    if unsafe { &*context }.objects.load(Ordering::Relaxed) > 0 {
        return libc::EBUSY;
    }
    // SAFETY: From superp_open_device(), and used no more.
    drop(unsafe { Box::from_raw(context) });
    0
}

#[no_mangle]
pub unsafe extern "C" fn superp_context_fd(context: *const ContextHandle) -> c_int {
    // SAFETY: By the contract of the header.
    unsafe { &*context }.context.as_raw_fd()
}

/// A region: what the header shows of it, and the rest.
#[repr(C)]
pub struct MrObject {
    shown: Mr,
    // Released before it is counted out.
    registration: Registration,
    counted: Counted,
}

#[no_mangle]
pub unsafe extern "C" fn superp_reg_mr(
    context: *mut ContextHandle,
    addr: *mut c_void,
    length: usize,
    access: u32,
) -> *mut MrObject {
    // SAFETY: By the contract of the header.
    match unsafe { &*context }.context.partition() {
        // SAFETY: As here.
        Ok(partition) => unsafe {
            superp_reg_mr_partition(context, addr, length, access, partition)
        },
        Err(error) => give(Err(told(error))),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_reg_mr_partition(
    context: *mut ContextHandle,
    addr: *mut c_void,
    length: usize,
    access: u32,
    partition: u32,
) -> *mut MrObject {
    // SAFETY: By the contract of the header.
    let object = unsafe { &*context };
    let access = Access::from_bits(access);
    // SAFETY: The memory is the program's, in which C has no references.
    let registered = unsafe {
        object
            .context
            .socket()
            .register_raw(addr.cast(), length, access, partition)
    };
    give(
        registered
            .map_err(Error::from)
            .map(|registration| MrObject {
                shown: Mr {
                    context: context.cast(),
                    addr,
                    length,
                    rma_addr: registration.rma_addr(),
                    lkey: registration.key(),
                },
                registration,
                counted: object.count(),
            }),
    )
}

#[no_mangle]
pub unsafe extern "C" fn superp_dereg_mr(mr: *mut MrObject) -> c_int {
    // SAFETY: From superp_reg_mr(), and used no more.
    drop(unsafe { Box::from_raw(mr) });
    0
}
