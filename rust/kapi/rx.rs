// SPDX-License-Identifier: GPL-2.0

//! Reception of packets: frames from all Ethernet devices, and UDP.

use super::{
    bindings as c,
    net::{Net, Pernet},
    skb::Burst,
};
use core::ptr::NonNull;
use kernel::{ffi, prelude::*};

pub(crate) use c::superp_udp_ip as UdpHeader;

/// Reception of packets by the state of a namespace. [`packet_ops`] registers the type that
/// implements this trait, as `dev_add_pack()` and `encap_rcv` do in C. Softirq, under RCU.
pub(crate) trait PacketOps: Pernet {
    /// Handles frames that were received together by device `ifindex` with one EtherType. Their
    /// data begins with the network header.
    fn rx_frames(&self, ifindex: u32, ethertype: u16, frames: Burst);

    /// Handles datagrams that were received together by device `ifindex`. Their data begins behind
    /// the UDP header; `header` is that of all of them.
    fn rx_udp(&self, ifindex: u32, header: &UdpHeader, datagrams: Burst);
}

/// The registration of the packet handlers, for all devices of all namespaces.
///
/// # Invariants
///
/// The handlers are registered, and this is the only value of this type.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the handlers of frames with these EtherTypes, whose network header has
    /// `header_len` bytes. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the numbers are equal, or one is below 0x600 and so no EtherType but a length.
    ///
    /// # Safety
    ///
    /// There is no other value of this type. A [`super::net::Registration`] exists, and is dropped
    /// after the result.
    pub(super) unsafe fn new(ethertypes: [u16; 2], header_len: u32) -> Result<Self> {
        let [first, second] = ethertypes;
        if first < 0x600 || second < 0x600 || first == second {
            return Err(EINVAL);
        }
        // SAFETY: By this function's contract the handlers are not registered.
        unsafe { c::superp_rx_register(ethertypes.as_ptr(), header_len) };
        // INVARIANT: `superp_rx_register()` has registered the handlers.
        Ok(Self(()))
    }
}

impl Drop for Registration {
    /// Process context; sleeps until all CPUs have left the handlers.
    fn drop(&mut self) {
        // SAFETY: By the type invariant the handlers are registered.
        unsafe { c::superp_rx_unregister() }
    }
}

/// A UDP port on which a namespace receives packets, over IPv4 and, if enabled, IPv6. It is dropped
/// in process context. A port that outlives its namespace receives nothing.
///
/// # Invariants
///
/// The pointer is a `superp_udp_port` that this type owns.
pub(crate) struct UdpPort(NonNull<c::superp_udp_port>);

// SAFETY: A kernel socket is not bound to a thread.
unsafe impl Send for UdpPort {}

// SAFETY: There is no operation on a shared reference.
unsafe impl Sync for UdpPort {}

impl UdpPort {
    /// Opens the port on all local addresses. Process context; may sleep.
    ///
    /// # Errors
    ///
    /// - `EADDRINUSE`: the port is in use.
    /// - `EINVAL`: the port is 0.
    /// - `ENOMEM`
    pub(crate) fn open(net: &Net, port: u16) -> Result<Self> {
        let mut err = 0;
        // SAFETY: `net` is a valid namespace. The C half stops the port when the namespace is taken
        // down. `err` is valid for writes.
        let udp = unsafe { c::superp_udp_port_open(net.as_ptr(), port, &mut err) };
        // INVARIANT: `superp_udp_port_open()` passes ownership of the port to the caller.
        NonNull::new(udp)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }
}

impl Drop for UdpPort {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns the port, which nobody uses afterwards.
        unsafe { c::superp_udp_port_close(self.0.as_ptr()) }
    }
}

/// Calls [`PacketOps::rx_frames`] for the C half.
///
/// # Safety
///
/// Softirq, under RCU. `state` is a `T` that [`super::net::init`] returned, and RCU protects it.
/// `skb` is a list of sk_buffs with a reference count of one; this function takes ownership of it.
pub(crate) unsafe fn frames<T: PacketOps>(
    state: *mut ffi::c_void,
    ifindex: u32,
    ethertype: u16,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract `state` is a `T`, and the caller passes ownership of
        // the list.
        let (state, packets) = unsafe { (&*state.cast::<T>(), Burst::from_raw(skb)) };
        state.rx_frames(ifindex, ethertype, packets);
    }
}

/// Calls [`PacketOps::rx_udp`] for the C half.
///
/// # Safety
///
/// The requirements are those of [`frames`]; `header` is valid for reads.
pub(crate) unsafe fn udp<T: PacketOps>(
    state: *mut ffi::c_void,
    ifindex: u32,
    header: *const UdpHeader,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract `state` is a `T`, and the caller passes ownership of
        // the list.
        let (state, packets) = unsafe { (&*state.cast::<T>(), Burst::from_raw(skb)) };
        // SAFETY: By this function's contract `header` is valid for reads.
        state.rx_udp(ifindex, unsafe { &*header }, packets);
    }
}

/// Registers a type that implements [`PacketOps`] as the receiver of packets. Used once in a
/// module.
macro_rules! packet_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::c_void;
            use $crate::kapi::{bindings, rx};

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// The requirements are those of [`rx::frames`].
                fn superp_rust_rx_frames(
                    state: *mut c_void,
                    ifindex: u32,
                    ethertype: u16,
                    skb: *mut bindings::sk_buff,
                ) {
                    // SAFETY: The caller meets the requirements of `rx::frames`.
                    unsafe { rx::frames::<$state>(state, ifindex, ethertype, skb) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`rx::udp`].
                fn superp_rust_rx_udp(
                    state: *mut c_void,
                    ifindex: u32,
                    header: *const rx::UdpHeader,
                    skb: *mut bindings::sk_buff,
                ) {
                    // SAFETY: The caller meets the requirements of `rx::udp`.
                    unsafe { rx::udp::<$state>(state, ifindex, header, skb) }
                }
            }
        };
    };
}

pub(crate) use packet_ops;
