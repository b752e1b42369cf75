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
/// This type does not count a reference. It is for the state of the namespace and for what that
/// owns, which [`PernetOps::exit`] takes down. No copy may be used after `exit` has returned.
///
/// # Invariants
///
/// The pointer is a namespace whose [`PernetOps::exit`] has not returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net(NonNull<c::net>);

// SAFETY: A namespace is not bound to a thread.
unsafe impl Send for Net {}

// SAFETY: The kernel functions that take a namespace do their own locking.
unsafe impl Sync for Net {}

impl Net {
    /// Wraps a namespace of C.
    ///
    /// # Safety
    ///
    /// `net` is a valid namespace for as long as the result and its copies are used.
    pub(super) unsafe fn from_raw(net: NonNull<c::net>) -> Self {
        // INVARIANT: By this function's contract.
        Self(net)
    }

    /// The pointer for C functions.
    pub(super) fn as_ptr(self) -> *mut c::net {
        self.0.as_ptr()
    }
}

/// State of the module in one network namespace. [`pernet_ops`] registers the type that implements
/// this trait, as `register_pernet_subsys()` and `register_netdevice_notifier()` do in C.
pub(crate) trait PernetOps: Send + Sync + Sized + 'static {
    /// Creates the state of a new namespace. Process context.
    fn init(net: Net) -> Result<Arc<Self>>;

    /// Takes down everything that uses the namespace, which ends. References to the state may
    /// survive. Process context; may sleep.
    fn exit(&self);

    /// Handles an event of a device of the namespace. Process context; RTNL is held.
    fn device_event(&self, event: DeviceEvent);
}

/// Marks the type that [`pernet_ops`] registers.
///
/// # Safety
///
/// Only [`pernet_ops`] implements this trait. The macro defines symbols, so the linker refuses a
/// second type.
pub(crate) unsafe trait Pernet: PernetOps {}

/// The state of a namespace. `None` only while the namespace is being set up or taken down. Any
/// context.
pub(crate) fn state_of<T: Pernet>(net: Net) -> Option<Arc<T>> {
    let _rcu = rcu::read_lock();
    // SAFETY: By the type invariant `net` is a valid namespace; the RCU read lock is held.
    let state = NonNull::new(unsafe { c::superp_net_node(net.as_ptr()) })?;
    // SAFETY: The C half owns a reference until a grace period after `exit`, and the RCU read lock
    // is held. `T: Pernet`, so the state is a `T`. `ManuallyDrop` keeps the C half's reference.
    let state = ManuallyDrop::new(unsafe { Arc::from_raw(state.as_ptr().cast::<T>()) });
    Some(Arc::clone(&state))
}

/// 32 random bits. Any context.
pub(crate) fn random() -> u32 {
    // SAFETY: `get_random_u32()` has no requirements.
    unsafe { bindings::get_random_u32() }
}

/// An event of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceEvent {
    /// Index of the device in its namespace.
    pub(crate) ifindex: u32,
    /// What has happened.
    pub(crate) kind: DeviceEventKind,
}

/// Events of network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceEventKind {
    /// The device is up (`NETDEV_UP`).
    Up,
    /// The device is going down (`NETDEV_GOING_DOWN`).
    Down,
    /// The device is being unregistered, or moves to another namespace (`NETDEV_UNREGISTER`). The
    /// kernel waits until all references to it have been dropped.
    Unregister,
    /// The MTU has changed.
    MtuChange,
    /// The link-layer address has changed.
    AddrChange,
    /// The carrier or the flags have changed (`NETDEV_CHANGE`).
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

/// MTU of a device, in bytes behind the Ethernet header. `None` if there is no such device. Any
/// context.
pub(crate) fn device_mtu(net: Net, ifindex: u32) -> Option<u32> {
    device_info(net, ifindex).map(|info| info.mtu)
}

/// Whether a device can send and receive: it is running and has a carrier. `None` if there is no
/// such device. Any context.
pub(crate) fn device_up(net: Net, ifindex: u32) -> Option<bool> {
    device_info(net, ifindex).map(|info| info.up)
}

/// Whether a bridge, bond, team or Open vSwitch takes all that a device receives. False if there is
/// no such device. Any context.
pub(crate) fn device_enslaved(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.enslaved)
}

/// Whether a device receives only IP (ipvlan). False if there is no such device. Any context.
pub(crate) fn device_ip_only(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.ip_only)
}

/// Whether a device is a loopback device. False if there is no such device. Any context.
pub(crate) fn device_loopback(net: Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.loopback)
}

fn device_info(net: Net, ifindex: u32) -> Option<c::superp_device_info> {
    let mut info = c::superp_device_info::default();
    // SAFETY: By the type invariant `net` is a valid namespace; `info` is valid for writes.
    unsafe { c::superp_device_info(net.as_ptr(), ifindex, &mut info) }.then_some(info)
}

/// Whether `addr` (v4-mapped or IPv6) is one of the namespace's own unicast addresses. Any context.
pub(crate) fn is_local_address(net: Net, addr: &[u8; 16]) -> bool {
    // SAFETY: By the type invariant `net` is a valid namespace; `addr` is 16 readable bytes.
    unsafe { c::superp_is_local_address(net.as_ptr(), addr.as_ptr()) }
}

/// The source address that the namespace chooses for packets to `remote` (v4-mapped or IPv6) over
/// device `ifindex`, or over the device of the route if `ifindex` is 0. `None` without a route.
/// Process context.
pub(crate) fn local_address(net: Net, ifindex: u32, remote: &[u8; 16]) -> Option<[u8; 16]> {
    let mut local = [0; 16];
    // SAFETY: By the type invariant `net` is a valid namespace; both addresses are 16 bytes.
    let found = unsafe {
        c::superp_local_address(net.as_ptr(), ifindex, remote.as_ptr(), local.as_mut_ptr())
    };
    found.then_some(local)
}

/// The registration of `T` as the module's state in all network namespaces, and of the netdevice
/// notifier. It is created before, and dropped after, everything that looks up the state. Dropping
/// it runs the last [`PernetOps::exit`].
///
/// # Invariants
///
/// The operations are registered, and this is the only value of this type.
pub(crate) struct Registration<T: Pernet>(PhantomData<T>);

impl<T: Pernet> Registration<T> {
    /// Registers the operations. This calls [`PernetOps::init`] for each existing namespace and
    /// [`PernetOps::device_event`] for each existing device that is up. Process context; called
    /// once, when the module is loaded.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module calls this function once.
        to_result(unsafe { c::superp_net_register() })?;
        // INVARIANT: `superp_net_register()` has registered the operations.
        Ok(Self(PhantomData))
    }
}

impl<T: Pernet> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the operations are registered.
        unsafe { c::superp_net_unregister() }
    }
}

/// Calls [`PernetOps::init`] for the C half. Returns the state, or null and the error in `err`.
///
/// # Safety
///
/// `net` is a valid namespace, and stays valid until [`exit`] has returned. `err` is valid for
/// writes.
pub(crate) unsafe fn init<T: Pernet>(net: *mut c::net, err: *mut ffi::c_int) -> *mut ffi::c_void {
    let result = NonNull::new(net).ok_or(EINVAL).and_then(|net| {
        // SAFETY: By this function's contract `net` is valid until `exit` has returned.
        T::init(unsafe { Net::from_raw(net) })
    });
    match result {
        Ok(state) => Arc::into_raw(state).cast_mut().cast(),
        Err(error) => {
            // SAFETY: By this function's contract `err` is valid for writes.
            unsafe { *err = error.to_errno() };
            core::ptr::null_mut()
        }
    }
}

/// Calls [`PernetOps::exit`] for the C half.
///
/// # Safety
///
/// `state` was returned by [`init`] and not passed to [`free`] yet.
pub(crate) unsafe fn exit<T: Pernet>(state: *mut ffi::c_void) {
    // SAFETY: By this function's contract the C half's reference to the `T` exists.
    unsafe { &*state.cast::<T>() }.exit();
}

/// Drops the C half's reference to the state of a namespace.
///
/// # Safety
///
/// `state` was returned by [`init`], and nobody uses this reference afterwards.
pub(crate) unsafe fn free<T: Pernet>(state: *mut ffi::c_void) {
    // SAFETY: `init` returned the pointer from `Arc::into_raw`; the reference is dropped once.
    drop(unsafe { Arc::from_raw(state.cast::<T>().cast_const()) });
}

/// Calls [`PernetOps::device_event`] for the C half. RTNL is held.
///
/// # Safety
///
/// `state` was returned by [`init`] and not passed to [`free`] yet.
pub(crate) unsafe fn device_event<T: Pernet>(state: *mut ffi::c_void, ifindex: u32, event: u32) {
    if let Some(kind) = DeviceEventKind::from_c(event) {
        // SAFETY: By this function's contract the C half's reference to the `T` exists.
        unsafe { &*state.cast::<T>() }.device_event(DeviceEvent { ifindex, kind });
    }
}

/// Registers a type that implements [`PernetOps`] as the module's state in network namespaces. Used
/// once in a module.
macro_rules! pernet_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::{c_int, c_void};
            use $crate::kapi::{bindings, net};

            // SAFETY: This is the macro that may implement the trait.
            unsafe impl net::Pernet for $state {}

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// The requirements are those of [`net::init`].
                fn superp_rust_net_init(net: *mut bindings::net, err: *mut c_int) -> *mut c_void {
                    // SAFETY: The caller meets the requirements of `net::init`.
                    unsafe { net::init::<$state>(net, err) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`net::exit`].
                fn superp_rust_net_exit(state: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `net::exit`.
                    unsafe { net::exit::<$state>(state) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`net::free`].
                fn superp_rust_net_free(state: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `net::free`.
                    unsafe { net::free::<$state>(state) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`net::device_event`].
                fn superp_rust_device_event(state: *mut c_void, ifindex: u32, event: u32) {
                    // SAFETY: The caller meets the requirements of `net::device_event`.
                    unsafe { net::device_event::<$state>(state, ifindex, event) }
                }
            }
        };
    };
}

pub(crate) use pernet_ops;
