// SPDX-License-Identifier: GPL-2.0

//! Netlink operations on ports.

use super::report_refusal;
use crate::{
    conn::Port,
    event::port_state,
    kapi::{
        net::Net,
        nl::{self, numbers::*, Attr, Dump, Message, Request},
    },
    node::PortInfo,
};
use kernel::prelude::*;

/// Puts a port into `msg`.
fn put(msg: &mut Message<'_>, net: &Net, port: &PortInfo) -> Result {
    let sunh = if port.sunh { SUPERP_PORT_ENCAP_SUNH } else { 0 };
    let udp = if port.udp { SUPERP_PORT_ENCAP_UDP } else { 0 };
    msg.put_u32(SUPERP_A_PORT_IFINDEX, port.ifindex)?;
    nl::with_device_name(net, port.ifindex, |name| {
        msg.put_text(SUPERP_A_PORT_NAME, name)
    })
    .transpose()?;
    msg.put_u32(SUPERP_A_PORT_ENCAP, sunh | udp)?;
    msg.put_u32(SUPERP_A_PORT_STATE, port_state(port.up))?;
    msg.put_u32(SUPERP_A_PORT_MTU, port.mtu)?;
    msg.put_u32(SUPERP_A_PORT_CONNS, port.conns)?;
    for addr in nl::device_addresses(net, port.ifindex) {
        msg.put(SUPERP_A_PORT_ADDRESS, &addr)?;
    }
    Ok(())
}

/// The device of a request, with its attribute.
fn parse_ifindex(request: Request<'_>) -> Result<(Attr<'_>, u32)> {
    let attr = request
        .attr(SUPERP_A_PORT_IFINDEX)
        .ok_or_else(|| request.missing(SUPERP_A_PORT_IFINDEX, c"ifindex is missing"))?;
    Ok((attr, u32::from_ne_bytes(attr.array()?)))
}

/// port-get of one port.
pub(crate) fn get(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, ifindex) = parse_ifindex(request)?;
    let port = node
        .port_next(ifindex)
        .filter(|port| port.ifindex == ifindex)
        .ok_or_else(|| request.refuse(Some(at), ENOENT, c"the device is not a port"))?;
    request.reply(|msg| put(msg, request.net(), &port))
}

/// port-get of all ports.
pub(crate) fn dump(dump: Dump<'_>) -> Result {
    let request = dump.request();
    let node = request.node()?;
    dump.each(
        |from| {
            let port = node.port_next(u32::try_from(from).ok()?)?;
            Some((port.ifindex.into(), port))
        },
        |msg, port| put(msg, request.net(), port),
    )
}

/// port-new.
pub(crate) fn new(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, ifindex) = parse_ifindex(request)?;
    let encap = match request.attr(SUPERP_A_PORT_ENCAP) {
        Some(attr) => u32::from_ne_bytes(attr.array()?),
        None => SUPERP_PORT_ENCAP_SUNH | SUPERP_PORT_ENCAP_UDP,
    };
    let sunh = encap & SUPERP_PORT_ENCAP_SUNH != 0;
    let udp = encap & SUPERP_PORT_ENCAP_UDP != 0;
    node.port_new(Port::new(ifindex, sunh, udp))
        .map_err(|refusal| report_refusal(request, Some(at), refusal))
}

/// port-del.
pub(crate) fn del(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, ifindex) = parse_ifindex(request)?;
    node.port_del(ifindex)
        .map_err(|refusal| report_refusal(request, Some(at), refusal))
}
