// SPDX-License-Identifier: GPL-2.0

//! Memory regions and queue pairs, which sockets make.

use crate::kapi::nl::{self, numbers::*, Dump, Message};
use kernel::prelude::*;

fn put_pid(msg: &mut Message<'_>, attr: u32, pid: u32) -> Result {
    match nl::local_pid(pid) {
        0 => Ok(()),
        local => msg.put_u32(attr, local),
    }
}

/// region-get, all.
pub(crate) fn regions(dump: Dump<'_>) -> Result {
    let node = dump.request().node()?;
    dump.each(
        |from| {
            let (key, region) = node.region_next(u32::try_from(from).ok()?)?;
            Some((key.into(), region))
        },
        |msg, region| {
            let info = region.info();
            msg.put_u32(SUPERP_A_REGION_KEY, info.key)?;
            msg.put_uint(SUPERP_A_REGION_ADDR, info.addr)?;
            msg.put_uint(SUPERP_A_REGION_LENGTH, info.len)?;
            msg.put_uint(SUPERP_A_REGION_RMA_ADDR, info.rma_addr)?;
            msg.put_u32(SUPERP_A_REGION_ACCESS, info.access)?;
            msg.put_u32(SUPERP_A_REGION_PARTITION, info.partition)?;
            msg.put_u32(SUPERP_A_REGION_QPN, info.qpn)?;
            put_pid(msg, SUPERP_A_REGION_PID, info.pid)?;
            msg.put_uint(SUPERP_A_REGION_REMOTE_READS, info.remote_reads)?;
            msg.put_uint(SUPERP_A_REGION_REMOTE_WRITES, info.remote_writes)
        },
    )
}

/// qp-get, all.
pub(crate) fn qps(dump: Dump<'_>) -> Result {
    let node = dump.request().node()?;
    dump.each(
        |from| {
            let (qpn, qp) = node.qp_next(u32::try_from(from).ok()?)?;
            Some((qpn.into(), (qpn, qp)))
        },
        |msg, (qpn, qp)| {
            let info = qp.info();
            msg.put_u32(SUPERP_A_QP_QPN, *qpn)?;
            if info.connected {
                if let Some(cid) = info.cid.and_then(|cid| u16::try_from(cid).ok()) {
                    msg.put_u16(SUPERP_A_QP_LOCAL_CID, cid)?;
                }
                msg.put(SUPERP_A_QP_REMOTE_ADDR, &info.remote)?;
                msg.put_u32(SUPERP_A_QP_REMOTE_QPN, info.remote_qpn)?;
            }
            put_pid(msg, SUPERP_A_QP_PID, info.pid)?;
            msg.put_uint(SUPERP_A_QP_TX_MESSAGES, info.tx_messages)?;
            msg.put_uint(SUPERP_A_QP_RX_MESSAGES, info.rx_messages)?;
            msg.put_uint(SUPERP_A_QP_RX_QUEUED, info.rx_queued)?;
            msg.put_u32(SUPERP_A_QP_PENDING, info.pending)
        },
    )
}
