// SPDX-License-Identifier: GPL-2.0

//! Dumps of memory regions and queue pairs, which programs create.

use crate::kapi::{
    nl::{numbers::*, Dump, Message},
    process::Process,
};
use kernel::prelude::*;

/// Puts the number and the command name of a process into `msg`. Puts nothing if the process has
/// ended, or is not visible in the pid namespace of the caller.
fn put_process(
    msg: &mut Message<'_>,
    pid_attr: u32,
    command_attr: u32,
    process: &Process,
) -> Result {
    process
        .look(|number, name| {
            msg.put_u32(pid_attr, number)?;
            msg.put_text(command_attr, name)
        })
        .unwrap_or(Ok(()))
}

/// region-get of all regions.
pub(crate) fn regions(dump: Dump<'_>) -> Result {
    let node = dump.request().node()?;
    dump.each(
        |from| {
            let (key, region) = node.regions().next(u32::try_from(from).ok()?)?;
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
            let process = region.process();
            put_process(msg, SUPERP_A_REGION_PID, SUPERP_A_REGION_COMMAND, process)?;
            msg.put_uint(SUPERP_A_REGION_REMOTE_READS, info.remote_reads)?;
            msg.put_uint(SUPERP_A_REGION_REMOTE_WRITES, info.remote_writes)
        },
    )
}

/// qp-get of all queue pairs.
pub(crate) fn qps(dump: Dump<'_>) -> Result {
    let node = dump.request().node()?;
    dump.each(
        |from| {
            let (qpn, qp) = node.qps().next(u32::try_from(from).ok()?)?;
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
            let process = qp.process();
            put_process(msg, SUPERP_A_QP_PID, SUPERP_A_QP_COMMAND, process)?;
            if info.inode != 0 {
                msg.put_uint(SUPERP_A_QP_INODE, info.inode)?;
            }
            msg.put_uint(SUPERP_A_QP_TX_MESSAGES, info.tx_messages)?;
            msg.put_uint(SUPERP_A_QP_RX_MESSAGES, info.rx_messages)?;
            msg.put_uint(SUPERP_A_QP_RX_QUEUED, info.rx_queued)?;
            msg.put_u32(SUPERP_A_QP_PENDING, info.pending)
        },
    )
}
