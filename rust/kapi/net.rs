// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and devices.

use super::bindings as c;
use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use kernel::{
    bindings,
    error::to_result,
    ffi,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Release},
        rcu, Arc, ArcBorrow,
    },
    types::Opaque,
};

/// A network namespace, `struct net`. A reference to it is valid for as long as it may be used: it
/// is that of a socket or request, or comes from [`NetHandle`].
#[repr(transparent)]
pub(crate) struct Net(Opaque<c::net>);

// SAFETY: A namespace is not bound to a thread.
unsafe impl Send for Net {}

// SAFETY: The kernel functions that take a namespace do their own locking.
unsafe impl Sync for Net {}

impl Net {
    /// Wraps a namespace of C.
    ///
    /// # Safety
    ///
    /// `net` is a namespace that is not taken down during `'a`: its pernet operations have not been
    /// exited, or RCU readers of this time are waited for before.
    pub(super) unsafe fn from_raw<'a>(net: NonNull<c::net>) -> &'a Self {
        // SAFETY: By this function's contract; `Net` is a transparent wrapper.
        unsafe { net.cast().as_ref() }
    }

    /// The pointer for C functions.
    pub(super) fn as_ptr(&self) -> *mut c::net {
        self.0.get()
    }
}

/// A counted reference to a namespace, which is not taken down meanwhile. Not for the state of the
/// namespace, which would keep it for ever: that has a [`NetHandle`].
///
/// # Invariants
///
/// The pointer owns a reference.
pub(crate) struct NetRef(NonNull<c::net>);

impl core::ops::Deref for NetRef {
    type Target = Net;

    fn deref(&self) -> &Net {
        // SAFETY: By the type invariant the namespace is not taken down as long as `self` exists.
        unsafe { Net::from_raw(self.0) }
    }
}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns a reference.
        unsafe { c::superp_net_put(self.0.as_ptr()) }
    }
}

/// The way from the state of a namespace to the namespace. It does not keep the namespace, and
/// finds none after [`PernetOps::exit`].
///
/// # Invariants
///
/// The pointer is null, or a namespace. It becomes null before a grace period, after which the
/// namespace may be taken down.
pub(crate) struct NetHandle(Atomic<*mut c::net>);

impl NetHandle {
    /// Calls `f` with the namespace under RCU. `f` must not sleep. `None` after
    /// [`PernetOps::exit`]. Any context up to softirq.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Net) -> R) -> Option<R> {
        let _rcu = rcu::read_lock();
        let net = NonNull::new(self.0.load(Acquire))?;
        // SAFETY: By the type invariant the namespace stays for as long as `_rcu` exists.
        Some(f(unsafe { Net::from_raw(net) }))
    }

    /// Takes a reference to the namespace, for what may sleep. `None` if the namespace is being
    /// taken down. Any context up to softirq.
    pub(crate) fn get(&self) -> Option<NetRef> {
        let _rcu = rcu::read_lock();
        let net = NonNull::new(self.0.load(Acquire))?;
        // SAFETY: By the type invariant the namespace is valid for as long as `_rcu` exists.
        // INVARIANT: If the function returns true, it has taken a reference.
        unsafe { c::superp_net_get(net.as_ptr()) }.then_some(NetRef(net))
    }
}

/// State of the module in one network namespace. [`pernet_ops`] registers the type that implements
/// this trait, as `register_pernet_subsys()` and `register_netdevice_notifier()` do in C.
pub(crate) trait PernetOps: Send + Sync + Sized + 'static {
    /// Creates the state of a new namespace. Process context.
    fn init(net: Arc<NetHandle>) -> Result<Arc<Self>>;

    /// Takes down everything that uses the namespace, which ends. References to the state may
    /// survive. Process context; may sleep.
    fn exit(&self);

    /// Handles an event of a device of the namespace. Process context; RTNL is held.
    fn device_event(this: ArcBorrow<'_, Self>, event: DeviceEvent);
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
pub(crate) fn state_of<T: Pernet>(net: &Net) -> Option<Arc<T>> {
    let _rcu = rcu::read_lock();
    // SAFETY: `net` is a valid namespace; the RCU read lock is held.
    let state = NonNull::new(unsafe { c::superp_pernet_state(net.as_ptr()) })?;
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
pub(crate) fn device_mtu(net: &Net, ifindex: u32) -> Option<u32> {
    device_info(net, ifindex).map(|info| info.mtu)
}

/// Whether a device can send and receive: it is running and has a carrier. `None` if there is no
/// such device. Any context.
pub(crate) fn device_up(net: &Net, ifindex: u32) -> Option<bool> {
    device_info(net, ifindex).map(|info| info.up)
}

/// Whether a bridge, bond, team or Open vSwitch takes all that a device receives. False if there is
/// no such device. Any context.
pub(crate) fn device_enslaved(net: &Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.enslaved)
}

/// Whether a device receives only IP (ipvlan). False if there is no such device. Any context.
pub(crate) fn device_ip_only(net: &Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.ip_only)
}

/// Whether a device is a loopback device. False if there is no such device. Any context.
pub(crate) fn device_loopback(net: &Net, ifindex: u32) -> bool {
    device_info(net, ifindex).is_some_and(|info| info.loopback)
}

fn device_info(net: &Net, ifindex: u32) -> Option<c::superp_device_info> {
    let mut info = c::superp_device_info::default();
    // SAFETY: `net` is a valid namespace; `info` is valid for writes.
    unsafe { c::superp_device_info(net.as_ptr(), ifindex, &mut info) }.then_some(info)
}

/// Whether `addr` (v4-mapped or IPv6) is one of the namespace's own unicast addresses. Any context.
pub(crate) fn is_local_address(net: &Net, addr: &[u8; 16]) -> bool {
    // SAFETY: `net` is a valid namespace; `addr` is 16 readable bytes.
    unsafe { c::superp_is_local_address(net.as_ptr(), addr.as_ptr()) }
}

/// The source address that the namespace chooses for packets to `remote` (v4-mapped or IPv6) over
/// device `ifindex`, or over the device of the route if `ifindex` is 0. `None` without a route.
/// Process context.
pub(crate) fn local_address(net: &Net, ifindex: u32, remote: &[u8; 16]) -> Option<[u8; 16]> {
    let mut local = [0; 16];
    // SAFETY: `net` is a valid namespace; both addresses are 16 bytes.
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
    /// [`PernetOps::device_event`] for each existing device that is up. Process context.
    ///
    /// # Safety
    ///
    /// There is no other value of this type.
    pub(super) unsafe fn new() -> Result<Self> {
        // SAFETY: By this function's contract the operations are not registered.
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

/// Calls [`PernetOps::init`] for the C half. Returns the state and the handle of the namespace, or
/// null and the error in `err`.
///
/// # Safety
///
/// `net` is a valid namespace. It is taken down only after [`exit`] and then a grace period.
/// `handle` and `err` are valid for writes.
pub(crate) unsafe fn init<T: Pernet>(
    net: *mut c::net,
    handle: *mut *mut ffi::c_void,
    err: *mut ffi::c_int,
) -> *mut ffi::c_void {
    // INVARIANT: `exit` clears the pointer. By this function's contract a grace period follows.
    let result = Arc::new(NetHandle(Atomic::new(net)), GFP_KERNEL)
        .map_err(Error::from)
        .and_then(|own| Ok((T::init(own.clone())?, own)));
    match result {
        Ok((state, own)) => {
            // SAFETY: By this function's contract `handle` is valid for writes.
            unsafe { *handle = Arc::into_raw(own).cast_mut().cast() };
            Arc::into_raw(state).cast_mut().cast()
        }
        Err(error) => {
            // SAFETY: By this function's contract `err` is valid for writes.
            unsafe { *err = error.to_errno() };
            core::ptr::null_mut()
        }
    }
}

/// Calls [`PernetOps::exit`] for the C half, and clears the handle.
///
/// # Safety
///
/// `state` and `handle` were returned by one call of [`init`] and not passed to [`free`] yet.
pub(crate) unsafe fn exit<T: Pernet>(state: *mut ffi::c_void, handle: *mut ffi::c_void) {
    // SAFETY: By this function's contract the C half's references exist.
    let (state, handle) = unsafe { (&*state.cast::<T>(), &*handle.cast::<NetHandle>()) };
    state.exit();
    handle.0.store(core::ptr::null_mut(), Release);
}

/// Drops the C half's references to the state and the handle of a namespace.
///
/// # Safety
///
/// `state` and `handle` were returned by one call of [`init`], and nobody uses these references
/// afterwards.
pub(crate) unsafe fn free<T: Pernet>(state: *mut ffi::c_void, handle: *mut ffi::c_void) {
    // SAFETY: `init` returned the pointers from `Arc::into_raw`; each reference is dropped once.
    drop(unsafe { Arc::from_raw(state.cast::<T>().cast_const()) });
    // SAFETY: As for the state.
    drop(unsafe { Arc::from_raw(handle.cast::<NetHandle>().cast_const()) });
}

/// Calls [`PernetOps::device_event`] for the C half. RTNL is held.
///
/// # Safety
///
/// `state` was returned by [`init`] and not passed to [`free`] yet.
pub(crate) unsafe fn device_event<T: Pernet>(state: *mut ffi::c_void, ifindex: u32, event: u32) {
    if let Some(kind) = DeviceEventKind::from_c(event) {
        // SAFETY: `init` returned `state` from `Arc::into_raw`. By this function's contract the C
        // half's reference to the `T` exists.
        let this = unsafe { ArcBorrow::from_raw(state.cast::<T>().cast_const()) };
        T::device_event(this, DeviceEvent { ifindex, kind });
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
                fn superp_rust_net_init(
                    net: *mut bindings::net,
                    handle: *mut *mut c_void,
                    err: *mut c_int,
                ) -> *mut c_void {
                    // SAFETY: The caller meets the requirements of `net::init`.
                    unsafe { net::init::<$state>(net, handle, err) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`net::exit`].
                fn superp_rust_net_exit(state: *mut c_void, handle: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `net::exit`.
                    unsafe { net::exit::<$state>(state, handle) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`net::free`].
                fn superp_rust_net_free(state: *mut c_void, handle: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `net::free`.
                    unsafe { net::free::<$state>(state, handle) }
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
