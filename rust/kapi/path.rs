// SPDX-License-Identifier: GPL-2.0

//! Packets go out.

use super::{
    bindings as c,
    net::Net,
    rx::UdpHeader,
    skb::{Burst, SkBuff},
};
use core::ptr::NonNull;
use kernel::{error::to_result, prelude::*};

/// What SUPERp packets are carried in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encap {
    /// A SUNH header behind the Ethernet header.
    Sunh,
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
}

/// How the packets of a connection leave. Addresses are IPv6 or v4-mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathConfig {
    /// What carries the packets.
    pub(crate) encap: Encap,
    /// The device. Required for SUNH and for link-local addresses; otherwise 0 is the route's.
    pub(crate) ifindex: u32,
    /// Our IP address; for UDP, zero is the kernel's choice.
    pub(crate) local: [u8; 16],
    /// The peer's IP address. SUNH sends to the neighbour who has it, unless there is a `mac`.
    pub(crate) remote: [u8; 16],
    /// The SUNH header, ready-made.
    pub(crate) sunh: [u8; 8],
    /// SUNH: a fixed Ethernet destination.
    pub(crate) mac: Option<[u8; 6]>,
    /// IPv4 TOS, IPv6 Traffic Class.
    pub(crate) tclass: u8,
    /// IPv4 TTL, IPv6 Hop Limit; 0 is the namespace's default.
    pub(crate) hop_limit: u8,
    /// IPv6 Flow Label, 20 bits.
    pub(crate) flow_label: u32,
    /// UDP source port: the flow's entropy.
    pub(crate) sport: u16,
    /// UDP destination port.
    pub(crate) dport: u16,
    /// EtherType of SUNH.
    pub(crate) ethertype: u16,
}

/// The way out for the packets of a connection.
///
/// It keeps its device, if it has one: it must be dropped when that is unregistered, and in any case
/// before [`PernetOps::exit`](super::net::PernetOps::exit) of its namespace returns. Any context.
///
/// # Invariants
///
/// The pointer is a `superp_path`, which this owns; its namespace has not been taken down.
pub(crate) struct Path(NonNull<c::superp_path>);

// SAFETY: A path is not bound to a thread.
unsafe impl Send for Path {}

// SAFETY: The C half allows all calls at once.
unsafe impl Sync for Path {}

impl Path {
    /// Makes a path. Process context.
    ///
    /// Errors: `ENODEV` if there is no such device, `EINVAL` if SUNH cannot go over it or
    /// the addresses do not suit the encapsulation, `EAFNOSUPPORT` without IPv6, `ENOMEM`.
    pub(crate) fn new(net: Net, config: &PathConfig) -> Result<Self> {
        let config = c::superp_path_config {
            local: config.local,
            remote: config.remote,
            ifindex: config.ifindex,
            flow_label: config.flow_label,
            sport: config.sport,
            dport: config.dport,
            ethertype: config.ethertype,
            encap: match config.encap {
                Encap::Sunh => c::SUPERP_PATH_SUNH,
                Encap::Udp4 => c::SUPERP_PATH_UDP4,
                Encap::Udp6 => c::SUPERP_PATH_UDP6,
            } as u8,
            tclass: config.tclass,
            hop_limit: config.hop_limit,
            has_mac: config.mac.is_some(),
            mac: config.mac.unwrap_or_default(),
            sunh: config.sunh,
        };
        let mut err = 0;
        // SAFETY: By the type invariant of `net`; the others are valid for the call.
        let path = unsafe { c::superp_path_new(net.as_ptr(), &config, &mut err) };
        // INVARIANT: It is new.
        NonNull::new(path)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Sends packets that begin with their PDL headers, at most as many as [`Path::burst`] allows.
    /// Process or softirq context, bottom halves off; locks may be held: no packet is ever received
    /// inside of this call.
    ///
    /// `entropy` changes the flow that the network sees, its label or source port; 0 is the path's own.
    ///
    /// `Ok` is as much as is known: a device or queue may still drop them. The packets are gone in
    /// any case. Errors, for all of them: `EMSGSIZE` over [`Path::mtu`], `ENETDOWN`, those of a route
    /// lookup (UDP), `ENOMEM`, `ENOBUFS` if the device's queue had no room.
    pub(crate) fn transmit(&self, packets: Burst, entropy: u16) -> Result {
        if packets.is_empty() {
            return Ok(());
        }
        // SAFETY: By the type invariants; there are packets, which are given up.
        to_result(unsafe { c::superp_path_xmit(self.0.as_ptr(), packets.into_raw(), entropy) })
    }

    /// Packets that can be sent at a go, at least 1, and whether the device takes them as they are made, so
    /// that runs pay. Process or softirq context, bottom halves off.
    pub(crate) fn burst(&self) -> (u32, bool) {
        let mut whole = false;
        // SAFETY: By the type invariant; `whole` is valid for the call.
        let packets = unsafe { c::superp_path_burst(self.0.as_ptr(), &mut whole) };
        (packets, whole)
    }

    /// Sends a received packet, which begins behind its network header, to the next hop with the
    /// SUNH header `sunh` and the EtherType of SUNH or, for `lite`, of SUPERp-lite. The path is a
    /// SUNH path. Softirq; errors as [`Path::transmit`], and `EINVAL`
    /// for a packet that stands for several.
    pub(crate) fn forward(&self, skb: SkBuff, lite: bool, sunh: &[u8; 8]) -> Result {
        let ethertype = match lite {
            true => super::params::lite_ethertype(),
            false => super::params::ethertype(),
        };
        // SAFETY: By the type invariants; the packet is given up, `sunh` is valid for the call.
        to_result(unsafe {
            c::superp_path_forward(self.0.as_ptr(), skb.into_raw(), ethertype, sunh.as_ptr())
        })
    }

    /// Sends a received packet, which begins with its PDL header, over UDP with these headers. The
    /// path is a UDP path, and `header` has its destination; the source may be any address of the
    /// path's family. Softirq; errors as [`Path::forward`].
    pub(crate) fn forward_udp(&self, skb: SkBuff, header: &UdpHeader) -> Result {
        // SAFETY: By the type invariants; the packet is given up, `header` is valid for the call.
        to_result(unsafe { c::superp_path_forward_udp(self.0.as_ptr(), skb.into_raw(), header) })
    }

    /// Whether its device can now send a packet of `len` bytes from the PDL header on; 0 for any.
    /// True also without a device of its own. Any context.
    pub(crate) fn up(&self, len: u32) -> bool {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_up(self.0.as_ptr(), len) }
    }

    /// Begins to find the peer's Ethernet address, so that the first packets need not wait for it.
    /// Process context or softirq; does not wait for the answer.
    pub(crate) fn resolve(&self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_resolve(self.0.as_ptr()) }
    }

    /// The peer has been silent for a while: its Ethernet address is asked for again. Process context
    /// or softirq; does not wait for the answer.
    pub(crate) fn suspect(&self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_suspect(self.0.as_ptr()) }
    }

    /// The peer has acknowledged something: its Ethernet address needs no probing for a while. Any
    /// context.
    pub(crate) fn confirm(&self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_confirm(self.0.as_ptr()) }
    }

    /// The longest packet now, in bytes from its PDL header on: the device's MTU, or for UDP the
    /// path MTU as far as known and at most the device's, less the headers below. 0 without a
    /// device or route. Process or softirq context.
    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_mtu(self.0.as_ptr()) }
    }

    /// Whether a packet was longer than [`Self::mtu`] since this was asked last, and so went in fragments of IP
    /// (UDP only). Any context, not beside [`Self::transmit`].
    pub(crate) fn was_narrow(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_was_narrow(self.0.as_ptr()) }
    }

    /// Bytes that [`SkBuff::alloc`] should leave for the headers below. With fewer, sending has to
    /// copy the linear part. Any context.
    pub(crate) fn headroom(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { c::superp_path_headroom(self.0.as_ptr()) as usize }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_path_free(self.0.as_ptr()) }
    }
}
