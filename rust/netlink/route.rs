// SPDX-License-Identifier: GPL-2.0

//! Netlink operations on SUNH routes.

use super::{
    conn::{parse_address, parse_mac},
    report_refusal,
};
use crate::{
    kapi::nl::{self, numbers::*, Attr, Dump, Request},
    node::{Via, HOPS_MAX},
    params,
    proto::wire::Prefix,
};
use kernel::prelude::*;

/// The SUNH address of a request, with its attribute.
fn parse_sunh_address<'a>(request: Request<'a>) -> Result<(Attr<'a>, u16)> {
    let attr = request
        .attr(SUPERP_A_ROUTE_ADDRESS)
        .ok_or_else(|| request.missing(SUPERP_A_ROUTE_ADDRESS, c"address is missing"))?;
    let address = u16::from_ne_bytes(attr.array()?);
    let bits = request.node()?.param_get(params::NUM_CADDR_BITS);
    let beyond = u64::from(address).checked_shr(bits as u32).unwrap_or(0);
    if address == 0 || beyond != 0 {
        return Err(request.refuse_fmt(
            Some(attr),
            ERANGE,
            fmt!("address {address} is not a SUNH address of {bits} bits other than 0"),
        ));
    }
    Ok((attr, address))
}

/// The device of a request, or `None` if it has none.
fn parse_ifindex(request: Request<'_>) -> Result<Option<u32>> {
    let attr = request.attr(SUPERP_A_ROUTE_IFINDEX);
    Ok(attr
        .map(|attr| attr.array())
        .transpose()?
        .map(u32::from_ne_bytes))
}

/// The prefix that makes an IP address of a SUNH address. `None`: the next hop speaks SUNH.
fn parse_prefix(request: Request<'_>) -> Result<Option<Prefix>> {
    let Some(base) = parse_address(request, SUPERP_A_ROUTE_PREFIX)? else {
        return Ok(None);
    };
    let attr = request
        .attr(SUPERP_A_ROUTE_PREFIX_LEN)
        .ok_or_else(|| request.missing(SUPERP_A_ROUTE_PREFIX_LEN, c"prefix-len is missing"))?;
    let [len] = attr.array()?;
    let prefix = Prefix::new(base, len.into()).ok_or_else(|| {
        request.refuse(
            Some(attr),
            EINVAL,
            c"prefix-len does not leave 1 to 16 bits for the host part, or prefix has bits in it",
        )
    })?;
    let bits = request.node()?.param_get(params::NUM_CADDR_BITS);
    if u64::from(prefix.host_bits()) < bits {
        return Err(request.refuse_fmt(
            Some(attr),
            ERANGE,
            fmt!(
                "prefix-len {len} does not leave {bits} bits, nh_num_caddr_bits, for the host part"
            ),
        ));
    }
    Ok(Some(prefix))
}

/// route-new.
pub(crate) fn new(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, to) = parse_sunh_address(request)?;
    let ifindex = parse_ifindex(request)?
        .ok_or_else(|| request.missing(SUPERP_A_ROUTE_IFINDEX, c"ifindex is missing"))?;
    let ip = parse_address(request, SUPERP_A_ROUTE_VIA)?;
    let mac = parse_mac(request, SUPERP_A_ROUTE_LLADDR)?;
    let via = match (ip, mac, parse_prefix(request)?) {
        (Some(ip), None, None) => Via::Ip(ip),
        (None, Some(mac), None) => Via::Mac(mac),
        (None, None, Some(prefix)) => Via::Udp(prefix),
        _ => {
            let text = c"a next hop has one of via, lladdr and prefix";
            return Err(request.refuse(Some(at), EINVAL, text));
        }
    };
    node.route_new(to, ifindex, via)
        .map_err(|refusal| report_refusal(request, Some(at), refusal))
}

/// route-del.
pub(crate) fn del(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, to) = parse_sunh_address(request)?;
    node.route_del(to, parse_ifindex(request)?)
        .map_err(|refusal| report_refusal(request, Some(at), refusal))
}

/// route-get of all routes: one message for each next hop. The position in the dump is the address
/// times [`HOPS_MAX`] plus the number of the next hop.
pub(crate) fn dump(dump: Dump<'_>) -> Result {
    let request = dump.request();
    let node = request.node()?;
    let hops = HOPS_MAX as u64;
    dump.each(
        |from| {
            let (mut address, mut hop) = (from / hops, from % hops);
            loop {
                let (found, route) = node.route_next(u32::try_from(address).ok()?)?;
                if u64::from(found) != address {
                    (address, hop) = (found.into(), 0);
                }
                if let Some(next_hop) = route.hop(hop as usize) {
                    return Some((
                        address.saturating_mul(hops).saturating_add(hop),
                        (found, next_hop.clone()),
                    ));
                }
                (address, hop) = (address.checked_add(1)?, 0);
            }
        },
        |msg, (address, hop)| {
            msg.put_u16(SUPERP_A_ROUTE_ADDRESS, *address as u16)?;
            msg.put_u32(SUPERP_A_ROUTE_IFINDEX, hop.port.ifindex)?;
            nl::with_device_name(request.net(), hop.port.ifindex, |name| {
                msg.put_text(SUPERP_A_ROUTE_IFNAME, name)
            })
            .transpose()?;
            match hop.via {
                Via::Ip(addr) => msg.put(SUPERP_A_ROUTE_VIA, &addr)?,
                Via::Mac(mac) => msg.put(SUPERP_A_ROUTE_LLADDR, &mac)?,
                Via::Udp(prefix) => {
                    msg.put(SUPERP_A_ROUTE_PREFIX, &prefix.base())?;
                    // CAST: A prefix has at most 127 bits.
                    msg.put_u8(SUPERP_A_ROUTE_PREFIX_LEN, prefix.bits() as u8)?;
                }
            }
            msg.put_uint(SUPERP_A_ROUTE_PACKETS, hop.packets())
        },
    )
}
