// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The partition of a job, which the environment of its programs names.

use crate::failure::Failure;
use std::net::IpAddr;
use superp_netlink::{Client, Conn, ConnState};

/// What the TaskProlog of Slurm sets, for one.
pub(crate) const VARIABLE: &str = "SUPERP_PARTITION";

/// The partition that the environment names; 0 is none.
pub(crate) fn wanted() -> Result<Option<u32>, Failure> {
    let Some(text) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    let number: u32 = number.ok_or_else(|| {
        Failure::new(format!("{VARIABLE} is {text:?}, which is no partition"))
            .hint("it is a number: superp fabric job token prints that of a job")
    })?;
    Ok((number != 0).then_some(number))
}

/// Local ids of the established connections to a peer, in the partition if the environment names one; the
/// lowest first.
pub(crate) fn conns_to(addr: IpAddr) -> Result<Vec<u16>, Failure> {
    let partition = wanted()?;
    let to_peer = |conn: &&Conn| {
        conn.remote_addr == addr
            && conn.state == ConnState::Established
            && partition.is_none_or(|partition| conn.partition == partition)
    };
    let conns = Client::open()?.conns(false)?;
    let conns = conns.iter().filter(to_peer);
    let mut cids: Vec<_> = conns.map(|conn| conn.local_cid).collect();
    cids.sort_unstable();
    Ok(cids)
}

/// The connection to a peer: the given one, or the lowest of the partition. `None`, where there is no
/// partition either, has the kernel choose.
pub(crate) fn conn_to(addr: IpAddr, cid: Option<u16>) -> Result<Option<u16>, Failure> {
    if cid.is_some() || wanted()?.is_none() {
        return Ok(cid);
    }
    let lowest = conns_to(addr)?.into_iter().next();
    // The number is not for everybody who sees this.
    lowest.map(Some).ok_or_else(|| {
        Failure::new(format!("no established connection to {addr} is in the partition that {VARIABLE} names"))
            .hint("is that node one of the job? superp conn lists the connections; --cid chooses another one")
    })
}
