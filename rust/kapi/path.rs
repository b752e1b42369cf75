// SPDX-License-Identifier: GPL-2.0

//! Transmission of packets.

use super::{
    bindings as c,
    net::Net,
    rx::UdpHeader,
    skb::{Burst, SkBuff},
};
use core::ptr::NonNull;
use kernel::{error::to_result, prelude::*};

/// Encapsulation of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encap {
    /// Frames: a network header of the caller behind the Ethernet header.
    Ether,
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
}

/// The network header of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetHeader {
    bytes: [u8; c::SUPERP_PATH_HEADER_MAX as usize],
    len: u8,
    entropy_offset: u8,
    entropy_mask: u16,
}

impl NetHeader {
    /// The header `bytes`. [`Path::transmit`] XORs those bits of its entropy that are in
    /// `entropy_mask` into the big-endian word at `entropy_offset`.
    pub(crate) fn new<const N: usize>(
        bytes: &[u8; N],
        entropy_offset: u8,
        entropy_mask: u16,
    ) -> Self {
        const {
            assert!(N <= c::SUPERP_PATH_HEADER_MAX as usize);
        }
        let mut own = [0; c::SUPERP_PATH_HEADER_MAX as usize];
        for (to, from) in own.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self {
            bytes: own,
            // CAST: At most SUPERP_PATH_HEADER_MAX.
            len: N as u8,
            entropy_offset,
            entropy_mask,
        }
    }
}

/// Configuration of a [`Path`]. Addresses are v4-mapped or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathConfig {
    /// Encapsulation.
    pub(crate) encap: Encap,
    /// Index of the device. Required for frames and for link-local addresses; otherwise 0 leaves
    /// the choice to the route.
    pub(crate) ifindex: u32,
    /// Source IP address. Over UDP, zero leaves the choice to the route.
    pub(crate) local: [u8; 16],
    /// Destination IP address. Frames go to the neighbour with this address, unless there is a
    /// `mac`.
    pub(crate) remote: [u8; 16],
    /// Network header of frames.
    pub(crate) header: NetHeader,
    /// Ethernet destination of frames.
    pub(crate) mac: Option<[u8; 6]>,
    /// IPv4 TOS, IPv6 Traffic Class.
    pub(crate) tclass: u8,
    /// IPv4 TTL, IPv6 Hop Limit. 0 is the default of the route or namespace.
    pub(crate) hop_limit: u8,
    /// IPv6 Flow Label, 20 bits.
    pub(crate) flow_label: u32,
    /// UDP source port, which also is the entropy of the flow.
    pub(crate) sport: u16,
    /// UDP destination port.
    pub(crate) dport: u16,
    /// EtherType of frames.
    pub(crate) ethertype: u16,
}

/// Route, encapsulation and neighbour of outgoing packets. Any context, unless a method says
/// otherwise.
///
/// A path with a device holds a reference to it. The owner drops the path when the device is
/// unregistered, because the kernel waits for that. A path that outlives its namespace sends
/// nothing.
///
/// # Invariants
///
/// The pointer is a `superp_path` that this type owns.
pub(crate) struct Path(NonNull<c::superp_path>);

// SAFETY: A path is not bound to a thread.
unsafe impl Send for Path {}

// SAFETY: The C half supports concurrent calls.
unsafe impl Sync for Path {}

impl Path {
    /// Creates a path. Process context; may sleep.
    ///
    /// # Errors
    ///
    /// - `ENODEV`: there is no such device.
    /// - `EINVAL`: the device is not Ethernet, or the addresses do not fit the encapsulation.
    /// - `EAFNOSUPPORT`: the destination is IPv6, which is disabled.
    /// - `ENOMEM`
    pub(crate) fn new(net: &Net, config: &PathConfig) -> Result<Self> {
        let config = c::superp_path_config {
            local: config.local,
            remote: config.remote,
            ifindex: config.ifindex,
            flow_label: config.flow_label,
            sport: config.sport,
            dport: config.dport,
            ethertype: config.ethertype,
            encap: match config.encap {
                Encap::Ether => c::SUPERP_PATH_ETHER,
                Encap::Udp4 => c::SUPERP_PATH_UDP4,
                Encap::Udp6 => c::SUPERP_PATH_UDP6,
            } as u8,
            tclass: config.tclass,
            hop_limit: config.hop_limit,
            has_mac: config.mac.is_some(),
            mac: config.mac.unwrap_or_default(),
            header_len: config.header.len,
            entropy_offset: config.header.entropy_offset,
            entropy_mask: config.header.entropy_mask,
            header: config.header.bytes,
        };
        let mut err = 0;
        // SAFETY: `net` is a valid namespace. The C half has the path forget it when it is taken
        // down. `config` is readable and `err` is valid for writes.
        let path = unsafe { c::superp_path_new(net.as_ptr(), &config, &mut err) };
        // INVARIANT: `superp_path_new()` passes ownership of the path to the caller.
        NonNull::new(path)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Sends packets without headers of the path, at most as many as [`Path::burst`] returns. The
    /// packets are consumed in any case. `Ok` says only that the queue of the device took them:
    /// the device may still drop them.
    ///
    /// `entropy` is XORed into network header or UDP source port and flow label, so that the
    /// network sees another flow; 0 keeps the path's own flow.
    ///
    /// Process or softirq context, bottom halves off. Locks may be held: no packet is received
    /// inside of this call.
    ///
    /// # Errors
    ///
    /// - `EMSGSIZE`: longer than [`Path::mtu`]; over UDP, longer than an IP datagram can be.
    /// - `ENOBUFS`: the queue of the device was full.
    /// - `ENETDOWN`, `ENOMEM`, and over UDP those of a route lookup.
    pub(crate) fn transmit(&self, packets: Burst, entropy: u16) -> Result {
        if packets.is_empty() {
            return Ok(());
        }
        // SAFETY: By the type invariants the pointers are a path and a list of packets, which is
        // not empty. The callee takes ownership of the list.
        to_result(unsafe { c::superp_path_xmit(self.0.as_ptr(), packets.into_raw(), entropy) })
    }

    /// The most packets for one call of [`Path::transmit`], at least 1, and whether the device
    /// takes bursts without segmentation. Only then do runs save work. Process or softirq context,
    /// bottom halves off.
    pub(crate) fn burst(&self) -> (u32, bool) {
        let mut native = false;
        // SAFETY: By the type invariant the pointer is a path; `native` is valid for writes.
        let packets = unsafe { c::superp_path_burst(self.0.as_ptr(), &mut native) };
        (packets, native)
    }

    /// Forwards a received packet over a path of frames to its next hop. The packet's data begins
    /// behind the network header; `header` is the one to send, as long as that of the path, with
    /// traffic class `tclass`. Softirq.
    ///
    /// # Errors
    ///
    /// Those of [`Path::transmit`], and `EINVAL` for a burst or run.
    pub(crate) fn forward(
        &self,
        skb: SkBuff,
        ethertype: u16,
        tclass: u8,
        header: &NetHeader,
    ) -> Result {
        let header = header.bytes.as_ptr();
        // SAFETY: By the type invariants the pointers are a path and a packet, of which the callee
        // takes ownership. `header` has SUPERP_PATH_HEADER_MAX readable bytes, and that of the path
        // is not longer.
        to_result(unsafe {
            c::superp_path_forward(self.0.as_ptr(), skb.into_raw(), ethertype, tclass, header)
        })
    }

    /// Forwards a received packet over a UDP path. The packet's data begins behind the UDP header.
    /// `header` has the destination of the path; its source may be any address of the same family.
    /// Softirq.
    ///
    /// # Errors
    ///
    /// Those of [`Path::transmit`], and `EINVAL` for a burst or run.
    pub(crate) fn forward_udp(&self, skb: SkBuff, header: &UdpHeader) -> Result {
        // SAFETY: By the type invariants the pointers are a path and a packet, of which the callee
        // takes ownership. `header` is readable.
        to_result(unsafe { c::superp_path_forward_udp(self.0.as_ptr(), skb.into_raw(), header) })
    }

    /// Whether the device can send a packet of `len` bytes in one frame, or any packet if
    /// `len` is 0. Over UDP the length does not matter. True for a path without a device.
    pub(crate) fn up(&self, len: u32) -> bool {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_up(self.0.as_ptr(), len) }
    }

    /// Starts to resolve the neighbour, so that the first packets need not wait. Process or softirq
    /// context; does not wait for the answer.
    pub(crate) fn resolve(&self) {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_resolve(self.0.as_ptr()) }
    }

    /// Probes the neighbour, because the peer does not answer. Process or softirq context; does not
    /// wait for the answer.
    pub(crate) fn suspect(&self) {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_suspect(self.0.as_ptr()) }
    }

    /// Confirms the neighbour, because the peer has acknowledged something.
    pub(crate) fn confirm(&self) {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_confirm(self.0.as_ptr()) }
    }

    /// The longest packet without the headers of the path, in bytes: the MTU less all headers. Over
    /// UDP the MTU is the known path MTU, at most that of the device. 0 without a route. Process or
    /// softirq context.
    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_mtu(self.0.as_ptr()) }
    }

    /// Whether a packet longer than [`Self::mtu`] was sent in IP fragments since the last call (UDP
    /// only). Not concurrently with [`Self::transmit`].
    pub(crate) fn was_narrow(&self) -> bool {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_was_narrow(self.0.as_ptr()) }
    }

    /// Headroom for [`SkBuff::alloc`], in bytes. With less, sending copies the linear data.
    pub(crate) fn headroom(&self) -> usize {
        // SAFETY: By the type invariant the pointer is a path.
        unsafe { c::superp_path_headroom(self.0.as_ptr()) as usize }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns the path, which nobody uses afterwards.
        unsafe { c::superp_path_free(self.0.as_ptr()) }
    }
}
