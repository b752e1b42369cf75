// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and devices.

use super::bindings as c;
use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use kernel::{
    bindings,
    error::to_result,
    ffi,
    prelude::*,
    sync::{rcu, Arc},
};

/// A network namespace.
///
/// A copy of this does not keep the namespace. It is for the namespace's state and for what belongs
/// to that, which [`PernetOps::exit`] takes down. Nothing may use it after `exit` has returned.
///
/// # Invariants
///
/// The pointer is a namespace whose [`PernetOps::exit`] has not returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net(NonNull<c::net>);

// SAFETY: A namespace is not bound to a thread.
unsafe impl Send for Net {}

// SAFETY: Everything done with it is serialised by the kernel.
unsafe impl Sync for Net {}

impl Net {
    /// The namespace of a C pointer.
    ///
    /// # Safety
    ///
    /// It is valid, and so for as long as the result and its copies are used.
    pub(super) unsafe fn from_raw(net: NonNull<c::net>) -> Self {
        // INVARIANT: By this function's contract.
        Self(net)
    }

    /// The namespace for C.
    pub(super) fn as_ptr(self) -> *mut c::net {
        self.0.as_ptr()
    }
}

/// State that the module has once in each network namespace; [`pernet_ops`] registers the type.
pub(crate) trait PernetOps: Send + Sync + Sized + 'static {
    /// Makes the state of a new namespace. Process context.
    fn init(net: Net) -> Result<Arc<Self>>;

    /// The namespace ends: takes down everything that uses it. References to the state may live
    /// on. Process context.
    fn exit(&self);

    /// Something happened to a device of the namespace. Process context, RTNL is held.
    fn device_event(&self, event: DeviceEvent);
}

/// The type that [`pernet_ops`] names.
///
/// # Safety
///
/// Only that macro implements it. It defines symbols, so that the linker refuses a second type.
pub(crate) unsafe trait Pernet: PernetOps {}

/// The state of a namespace. `None` only while the namespace is being set up or taken down. Any
/// context.
pub(crate) fn state_of<T: Pernet>(net: Net) -> Option<Arc<T>> {
    let _rcu = rcu::read_lock();
    // SAFETY: By the type invariant of `net`; the read lock is held.
    let state = NonNull::new(unsafe { c::superp_net_node(net.as_ptr()) })?;
    // SAFETY: The C half's reference is alive while the read lock is held, and there is no other
    // type; `ManuallyDrop` keeps the reference the C half's.
    let state = ManuallyDrop::new(unsafe { Arc::from_raw(state.as_ptr().cast::<T>()) });
    Some(Arc::clone(&state))
}

/// 32 random bits. Any context.
pub(crate) fn random() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u32() }
}

/// Something that happened to a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceEvent {
    /// Which device, by its index in the namespace.
    pub(crate) ifindex: u32,
    /// What happened.
    pub(crate) kind: DeviceEventKind,
}

/// What can happen to a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceEventKind {
    /// It was brought up.
    Up,
    /// It is being taken down.
    Down,
    /// It is going away, out of the namespace or altogether. The kernel waits until the last
    /// reference to it has been dropped.
    Unregister,
    /// Its MTU has changed.
    MtuChange,
    /// Its link-layer address has changed.
    AddrChange,
    /// Its carrier came or went, or its flags changed.
    CarrierChange,
}

impl DeviceEventKind {
    fn from_c(kind: u32) -> Option<Self> {
        Some(match kind {
            c::SUPERP_DEV_UP => Self::Up,
            c::SUPERP_DEV_DOWN => Self::Down,
            c::SUPERP_DEV_UNREGISTER => Self::Unregister,
            c::SUPERP_DEV_MTU => Self::MtuChange,
            c::SUPERP_DEV_ADDR => Self::AddrChange,
            c::SUPERP_DEV_CARRIER => Self::CarrierChange,
            _ => return None,
        })
    }
}

/// The MTU of a device now: the most bytes behind an Ethernet header. `None` if there is no such
/// device. Any context.
pub(crate) fn device_mtu(net: Net, ifindex: u32) -> Option<u32> {
    device_info(net, ifindex).map(|info| info.mtu)
}

/// Whether a device can send and receive now: it is up and has a carrier. `None` if there is no such device. Any context.
pub(crate) fn device_up(net: Net, ifindex: u32) -> Option<bool> {
    device_info(net, ifindex).map(|info| info.up)
}

/// Whether a bridge, bond or team takes all that a device receives. Any context.
pub(crate) fn device_enslaved(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.enslaved)
}

/// Whether a device receives nothing but IP. Any context.
pub(crate) fn device_ip_only(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.ip_only)
}

/// Whether what a device sends comes back to this node. Any context.
pub(crate) fn device_loopback(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.loopback)
}

fn device_info(net: Net, ifindex: u32) -> Option<c::superp_device_info> {
    let mut info = c::superp_device_info::default();
    // SAFETY: By the type invariant of `net`; `info` is valid for the call.
    unsafe { c::superp_device_info(net.as_ptr(), ifindex, &mut info) }.then_some(info)
}

/// Whether an address (IPv6 or v4-mapped) is one of the namespace's own unicast addresses. Any
/// context.
pub(crate) fn is_local_address(net: Net, addr: &[u8; 16]) -> bool {
    // SAFETY: By the type invariant of `net`; the address is valid for the call.
    unsafe { c::superp_is_local_address(net.as_ptr(), addr.as_ptr()) }
}

/// The source address that the namespace would choose for packets to `remote` (IPv6 or v4-mapped)
/// out of a device, or out of the route's if `ifindex` is 0. `None` without a route. Process
/// context.
pub(crate) fn local_address(net: Net, ifindex: u32, remote: &[u8; 16]) -> Option<[u8; 16]> {
    let mut local = [0; 16];
    // SAFETY: By the type invariant of `net`; the addresses are valid for the call.
    let found = unsafe {
        c::superp_local_address(net.as_ptr(), ifindex, remote.as_ptr(), local.as_mut_ptr())
    };
    found.then_some(local)
}

/// Stands for the module's state `T` in every network namespace, and for its device notifier. Made
/// before, and dropped after, everything that looks the state up; when it is dropped, the last
/// [`PernetOps::exit`] run.
///
/// # Invariants
///
/// The registrations are in effect, and this is the only value of this type.
pub(crate) struct Registration<T: Pernet>(PhantomData<T>);

impl<T: Pernet> Registration<T> {
    /// Registers: calls [`PernetOps::init`] for each namespace there is, and
    /// [`PernetOps::device_event`] for each device. Process context; once, when the module is
    /// loaded.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once.
        to_result(unsafe { c::superp_net_register() })?;
        // INVARIANT: It was registered just now.
        Ok(Self(PhantomData))
    }
}

impl<T: Pernet> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_net_unregister() }
    }
}

/// [`PernetOps::init`] for the C half.
///
/// # Safety
///
/// `net` is a valid namespace, for which [`exit`] has not yet been called, and `err` is valid.
pub(crate) unsafe fn init<T: Pernet>(net: *mut c::net, err: *mut ffi::c_int) -> *mut ffi::c_void {
    let made = NonNull::new(net).ok_or(EINVAL).and_then(|net| {
        // SAFETY: It is valid, and no longer used after `exit`.
        T::init(unsafe { Net::from_raw(net) })
    });
    match made {
        Ok(state) => Arc::into_raw(state).cast_mut().cast(),
        Err(error) => {
            // SAFETY: By this function's contract.
            unsafe { *err = error.to_errno() };
            core::ptr::null_mut()
        }
    }
}

/// [`PernetOps::exit`] for the C half.
///
/// # Safety
///
/// `state` is from [`init`].
pub(crate) unsafe fn exit<T: Pernet>(state: *mut ffi::c_void) {
    // SAFETY: The C half's reference is alive until `free`.
    unsafe { &*state.cast::<T>() }.exit();
}

/// Gives up the C half's reference to a namespace's state.
///
/// # Safety
///
/// `state` is from [`init`], and not used afterwards.
pub(crate) unsafe fn free<T: Pernet>(state: *mut ffi::c_void) {
    // SAFETY: The pointer is from `Arc::into_raw`, and not used afterwards.
    drop(unsafe { Arc::from_raw(state.cast::<T>().cast_const()) });
}

/// [`PernetOps::device_event`] for the C half. RTNL is held.
///
/// # Safety
///
/// `state` is from [`init`], and not given up.
pub(crate) unsafe fn device_event<T: Pernet>(state: *mut ffi::c_void, ifindex: u32, event: u32) {
    if let Some(kind) = DeviceEventKind::from_c(event) {
        // SAFETY: The C half's reference is alive until `free`.
        unsafe { &*state.cast::<T>() }.device_event(DeviceEvent { ifindex, kind });
    }
}

/// Makes a type that implements [`PernetOps`] the module's state in network namespaces. Once in a
/// module.
macro_rules! pernet_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::{c_int, c_void};
            use $crate::kapi::{bindings, net};

            // SAFETY: This is the macro.
            unsafe impl net::Pernet for $state {}

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// As [`net::init`].
                fn superp_rust_net_init(net: *mut bindings::net, err: *mut c_int) -> *mut c_void {
                    // SAFETY: By this function's contract.
                    unsafe { net::init::<$state>(net, err) }
                }

                /// # Safety
                ///
                /// As [`net::exit`].
                fn superp_rust_net_exit(state: *mut c_void) {
                    // SAFETY: By this function's contract.
                    unsafe { net::exit::<$state>(state) }
                }

                /// # Safety
                ///
                /// As [`net::free`].
                fn superp_rust_net_free(state: *mut c_void) {
                    // SAFETY: By this function's contract.
                    unsafe { net::free::<$state>(state) }
                }

                /// # Safety
                ///
                /// As [`net::device_event`].
                fn superp_rust_device_event(state: *mut c_void, ifindex: u32, event: u32) {
                    // SAFETY: By this function's contract.
                    unsafe { net::device_event::<$state>(state, ifindex, event) }
                }
            }
        };
    };
}

pub(crate) use pernet_ops;
