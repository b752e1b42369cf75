// SPDX-License-Identifier: GPL-2.0

//! Netlink operations on the node.

use super::report_refusal;
use crate::{
    kapi::nl::{self, numbers::*, Request},
    params,
    region::Space,
};
use kernel::prelude::*;

/// node-get.
pub(crate) fn get(request: Request<'_>) -> Result {
    let node = request.node()?;
    let info = node.info();
    request.reply(|msg| {
        msg.put_u16(SUPERP_A_NODE_FAMILY, crate::kapi::params::family())?;
        msg.put_u32(SUPERP_A_NODE_UAPI_VERSION, SUPERP_UAPI_VERSION)?;
        msg.put_text(SUPERP_A_NODE_MODULE_VERSION, super::VERSION)?;
        msg.put_u16(SUPERP_A_NODE_ETHERTYPE, crate::kapi::params::ethertype())?;
        msg.put_u8(
            SUPERP_A_NODE_NEXT_HEADER,
            crate::kapi::params::next_header(),
        )?;
        // CAST: The ranges of the parameters fit.
        msg.put_u16(
            SUPERP_A_NODE_UDP_PORT,
            node.param_get(params::UDP_PORT) as u16,
        )?;
        msg.put_u8(
            SUPERP_A_NODE_CADDR_BITS,
            node.param_get(params::NUM_CADDR_BITS) as u8,
        )?;
        msg.put_u32(SUPERP_A_NODE_PORTS, info.ports)?;
        msg.put_u32(SUPERP_A_NODE_CONNS, info.conns)?;
        msg.put_u32(SUPERP_A_NODE_QPS, info.qps)?;
        msg.put_u32(SUPERP_A_NODE_REGIONS, info.regions)?;
        let mut from = 0;
        while let Some(port) = node.port_next(from) {
            for addr in nl::device_addresses(request.net(), port.ifindex) {
                msg.put(SUPERP_A_NODE_ADDRESS, &addr)?;
            }
            from = port.ifindex.saturating_add(1);
        }
        msg.put(SUPERP_A_NODE_CM_ADDRESS, &node.cm_address())?;
        let (forwarding, forwarded) = node.forwarding();
        msg.put_u8(SUPERP_A_NODE_FORWARDING, forwarding.into())?;
        msg.put_uint(SUPERP_A_NODE_FORWARDED, forwarded)?;
        let (base, size) = node
            .regions()
            .space()
            .map_or((0, 0), |space| space.extent());
        msg.put_uint(SUPERP_A_NODE_RMA_BASE, base)?;
        msg.put_uint(SUPERP_A_NODE_RMA_SIZE, size)
    })
}

/// The global address space that a request sets. `None`: it sets none.
fn parse_rma_space(request: Request<'_>) -> Result<Option<Space>> {
    let size = request.attr(SUPERP_A_NODE_RMA_SIZE);
    let bytes = size.map_or(Ok(0), |attr| attr.integer())?;
    let base = request.attr(SUPERP_A_NODE_RMA_BASE);
    match (base.map_or(Ok(0), |attr| attr.integer())?, bytes) {
        (0, 0) => Ok(None),
        (0, _) => {
            let text = c"rma-size needs an rma-base other than 0";
            Err(request.refuse(size, EINVAL, text))
        }
        (first, bytes) => Space::new(first, bytes)
            .map(Some)
            .map_err(|refusal| report_refusal(request, base, refusal)),
    }
}

/// node-set.
pub(crate) fn set(request: Request<'_>) -> Result {
    let node = request.node()?;
    let cm_address = request.attr(SUPERP_A_NODE_CM_ADDRESS);
    let forwarding = request.attr(SUPERP_A_NODE_FORWARDING);
    let base = request.attr(SUPERP_A_NODE_RMA_BASE);
    if cm_address.is_none() && forwarding.is_none() && base.is_none() {
        return Err(request.missing(
            SUPERP_A_NODE_CM_ADDRESS,
            c"nothing to set: cm-address, forwarding or rma-base is missing",
        ));
    }
    let space = parse_rma_space(request)?;
    let cm_address = cm_address.map(|attr| attr.array()).transpose()?;
    let forwarding = forwarding.map(|attr| attr.array()).transpose()?;
    if let Some(addr) = cm_address {
        node.set_cm_address(addr);
    }
    if let Some([on]) = forwarding {
        node.set_forwarding(on == 1);
    }
    if base.is_some() {
        node.regions().set_space(space);
    }
    Ok(())
}

/// stats-get.
pub(crate) fn stats(request: Request<'_>) -> Result {
    let node = request.node()?;
    request.reply(|msg| {
        for (name, value) in (0..).map_while(|i| node.drop_nth(i)) {
            msg.nest(SUPERP_A_STATS_DROP, |drop| {
                drop.put_text(SUPERP_A_COUNTER_NAME, name)?;
                drop.put_uint(SUPERP_A_COUNTER_VALUE, value)
            })?;
        }
        Ok(())
    })
}
