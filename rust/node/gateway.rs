// SPDX-License-Identifier: GPL-2.0

//! The gateway between SUNH and UDP/IP [proto 2.7]: a node that forwards and has routes of both
//! kinds.
//!
//! A packet is forwarded only if its source has a route back, over the device and by the
//! encapsulation that the packet arrived with. So no node of one side can send in the name of one
//! of the other side. The gateway reads and changes nothing but the network headers. Everything
//! here runs in softirq.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

use super::{
    conns::sunh_of,
    routes::{forward_frame, Route, Via},
    Node,
};
use crate::{
    kapi::{params::next_header, rx::UdpHeader, skb::SkBuff},
    params,
    proto::{
        wire::{Prefix, Sunh, UdpIp, FIXED_LEN},
        DropReason,
    },
};

/// A datagram to forward: the SUNH header that stands for its UDP/IP headers, and its route.
pub(super) struct Compressed {
    pub(super) header: Sunh,
    pub(super) route: Arc<Route>,
}

/// Refuses a packet without the fixed headers. Padding could make it look like one of SUPERp.
fn check_length(skb: &SkBuff) -> Result<(), DropReason> {
    match skb.len() {
        0..FIXED_LEN => Err(DropReason::TooShort),
        _ => Ok(()),
    }
}

impl From<&UdpHeader> for UdpIp {
    fn from(header: &UdpHeader) -> UdpIp {
        UdpIp {
            source: header.source,
            destination: header.destination,
            traffic_class: header.tclass,
            hop_limit: header.hop_limit,
            flow_label: header.flow_label,
            source_port: header.sport,
        }
    }
}

impl From<&UdpIp> for UdpHeader {
    fn from(header: &UdpIp) -> UdpHeader {
        UdpHeader {
            source: header.source,
            destination: header.destination,
            flow_label: header.flow_label,
            sport: header.source_port,
            tclass: header.traffic_class,
            hop_limit: header.hop_limit,
        }
    }
}

impl Node {
    /// The UDP/IP headers for a SUNH frame that arrived on a device and goes to a node beyond SUNH.
    /// `skb` has what follows the SUNH header.
    pub(super) fn expand(
        &self,
        ifindex: u32,
        header: &Sunh,
        prefix: &Prefix,
        skb: &SkBuff,
    ) -> Result<UdpIp, DropReason> {
        if header.next_header != next_header() {
            return Err(DropReason::NextHeader);
        }
        check_length(skb)?;
        let return_route = self.routes.get(header.source.into());
        let by_sunh = |via: &Via| !matches!(via, Via::Udp(_));
        if !return_route.is_some_and(|route| route.vias(ifindex).any(by_sunh)) {
            return Err(DropReason::WrongSource);
        }
        header.to_udp_ip(prefix).ok_or(DropReason::WrongSource)
    }

    /// The SUNH header and the route of a datagram that arrived on a device. `None`: it is not for
    /// a SUNH node to which this one forwards.
    pub(super) fn compress(&self, ifindex: u32, udp: &UdpIp) -> Option<Compressed> {
        if !self.forwarding.load(Relaxed) {
            return None;
        }
        let bits = self.param_get(params::NUM_CADDR_BITS);
        let source = sunh_of(&udp.source, bits);
        let return_route = self.routes.get(source.into())?;
        let header = return_route.vias(ifindex).find_map(|via| match via {
            Via::Udp(prefix) => Sunh::from_udp_ip(udp, prefix, next_header()),
            Via::Ip(_) | Via::Mac(_) => None,
        });
        let header = header.filter(|header| header.source == source)?;
        let route = self.routes.get(header.destination.into())?;
        Some(Compressed { header, route })
    }

    /// Forwards a datagram, which begins with its PDL header.
    pub(super) fn forward_compressed(
        &self,
        to: &Compressed,
        skb: SkBuff,
    ) -> Result<(), DropReason> {
        check_length(&skb)?;
        let header = to.header.forwarded().ok_or(DropReason::HopLimit)?;
        let hop = to
            .route
            .select_hop(&header)
            .ok_or(DropReason::NotForwarded)?;
        if matches!(hop.via, Via::Udp(_)) {
            // From UDP to UDP, IP forwards.
            return Err(DropReason::NotForwarded);
        }
        self.count_forwarded(hop, forward_frame(hop, skb, false, &header))
    }
}
