// SPDX-License-Identifier: GPL-2.0

//! Packets come in: SUNH from every Ethernet device, and UDP.

use super::{bindings as c, net::Net, skb::Burst};
use crate::{
    node::{self, Node},
    proto::wire::UdpIp,
};
use core::ptr::NonNull;
use kernel::{ffi, prelude::*};

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
/// Dropped in process context, before the namespace's `node::net_exit` returns.
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

/// SUNH packets that came together.
///
/// # Safety
///
/// Called by the C half in a softirq, under RCU: `node` is a namespace's, `skb` is a list of packets
/// with a reference count of one, and is given up.
#[no_mangle]
unsafe extern "C" fn superp_rust_rx_sunh(
    node: *mut ffi::c_void,
    ifindex: u32,
    lite: bool,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract.
        let (node, packets) = unsafe { (&*node.cast::<Node>(), Burst::from_raw(skb)) };
        node::rx_sunh(node, ifindex, lite, packets);
    }
}

/// UDP packets that came together, all with one header.
///
/// # Safety
///
/// As [`superp_rust_rx_sunh`]; `header` is valid.
#[no_mangle]
unsafe extern "C" fn superp_rust_rx_udp(
    node: *mut ffi::c_void,
    ifindex: u32,
    header: *const c::superp_udp_ip,
    skb: *mut c::sk_buff,
) {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: By this function's contract.
        let (node, packets) = unsafe { (&*node.cast::<Node>(), Burst::from_raw(skb)) };
        // SAFETY: By this function's contract.
        let header = unsafe { &*header };
        let header = UdpIp {
            source: header.source,
            destination: header.destination,
            traffic_class: header.tclass,
            hop_limit: header.hop_limit,
            flow_label: header.flow_label,
            source_port: header.sport,
        };
        node::rx_udp(node, ifindex, &header, packets);
    }
}
