// SPDX-License-Identifier: GPL-2.0

//! Packets come in: SUNH from every Ethernet device, and UDP.

use super::{
    bindings as c,
    net::{Net, Pernet},
    skb::Burst,
};
use core::ptr::NonNull;
use kernel::{ffi, prelude::*};

pub(crate) use c::superp_udp_ip as UdpHeader;

/// What a namespace's state does with packets; [`packet_ops`] registers the type. Softirq, under RCU.
pub(crate) trait PacketOps: Pernet {
    /// SUNH frames that came together, data at the SUNH header. `lite`: of the second EtherType.
    fn rx_sunh(&self, ifindex: u32, lite: bool, frames: Burst);

    /// Datagrams that came together, data behind the UDP header, all with these headers.
    fn rx_udp(&self, ifindex: u32, header: &UdpHeader, datagrams: Burst);
}

/// Stands for the handlers of SUNH frames, of all devices of all namespaces.
///
/// # Invariants
///
/// The handler is registered, and this is the only value of this type.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the handler for the EtherTypes of SUNH and of SUNH with SUPERp-lite. Process
    /// context; once, when the module is loaded, after the namespaces are
    /// ([`super::net::Registration`]).
    ///
    /// Errors: `EINVAL` if the numbers are the same, or one is a length or below (under 0x600).
    pub(crate) fn new(ethertype: u16, lite: u16) -> Result<Self> {
        if ethertype < 0x600 || lite < 0x600 || ethertype == lite {
            return Err(EINVAL);
        }
        // SAFETY: Called once.
        unsafe { c::superp_rx_register(ethertype, lite) };
        // INVARIANT: It was registered just now.
        Ok(Self(()))
    }
}

impl Drop for Registration {
    /// No frame is being handled any more when this returns.
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_rx_unregister() }
    }
}

/// A UDP port on which a namespace's packets come in, over IPv4 and, where there is IPv6, IPv6.
/// Dropped in process context, before the namespace's
/// [`PernetOps::exit`](super::net::PernetOps::exit) returns.
///
/// # Invariants
///
/// The pointer is a `superp_udp_port`, which this owns.
pub(crate) struct UdpPort(NonNull<c::superp_udp_port>);

// SAFETY: A kernel socket is not bound to a thread.
unsafe impl Send for UdpPort {}

// SAFETY: There is nothing to do with a reference.
unsafe impl Sync for UdpPort {}

impl UdpPort {
    /// Opens the port on every address. Process context.
    ///
    /// Errors: `EADDRINUSE`, `ENOMEM`, `EINVAL` for port 0.
    pub(crate) fn open(net: Net, port: u16) -> Result<Self> {
        let mut err = 0;
        // SAFETY: By the type invariant of `net`; `err` is valid for the call.
        let udp = unsafe { c::superp_udp_port_open(net.as_ptr(), port, &mut err) };
        // INVARIANT: It is new.
        NonNull::new(udp)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }
}

impl Drop for UdpPort {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_udp_port_close(self.0.as_ptr()) }
    }
}

/// [`PacketOps::rx_sunh`] for the C half.
///
/// # Safety
///
/// In a softirq, under RCU; `state` is a namespace's; `skb` is a list of packets with a reference
/// count of one, and is given up.
pub(crate) unsafe fn sunh<T: PacketOps>(
    state: *mut ffi::c_void,
    ifindex: u32,
    lite: bool,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract.
        let (state, packets) = unsafe { (&*state.cast::<T>(), Burst::from_raw(skb)) };
        state.rx_sunh(ifindex, lite, packets);
    }
}

/// [`PacketOps::rx_udp`] for the C half.
///
/// # Safety
///
/// As [`sunh`]; `header` is valid.
pub(crate) unsafe fn udp<T: PacketOps>(
    state: *mut ffi::c_void,
    ifindex: u32,
    header: *const UdpHeader,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract.
        let (state, packets) = unsafe { (&*state.cast::<T>(), Burst::from_raw(skb)) };
        // SAFETY: By this function's contract.
        state.rx_udp(ifindex, unsafe { &*header }, packets);
    }
}

/// Hands packets to a type that implements [`PacketOps`]. Once in a module.
macro_rules! packet_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::c_void;
            use $crate::kapi::{bindings, rx};

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// As [`rx::sunh`].
                fn superp_rust_rx_sunh(
                    state: *mut c_void,
                    ifindex: u32,
                    lite: bool,
                    skb: *mut bindings::sk_buff,
                ) {
                    // SAFETY: By this function's contract.
                    unsafe { rx::sunh::<$state>(state, ifindex, lite, skb) }
                }

                /// # Safety
                ///
                /// As [`rx::udp`].
                fn superp_rust_rx_udp(
                    state: *mut c_void,
                    ifindex: u32,
                    header: *const rx::UdpHeader,
                    skb: *mut bindings::sk_buff,
                ) {
                    // SAFETY: By this function's contract.
                    unsafe { rx::udp::<$state>(state, ifindex, header, skb) }
                }
            }
        };
    };
}

pub(crate) use packet_ops;
