// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections and regions in the partition of a job, which the environment of its programs names.

use crate::failure::Failure;
use std::net::IpAddr;
use superp_netlink::Client;
use superp_verbs::partition::{connections, wanted, Malformed, VARIABLE};

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::new(malformed.to_string())
    }
}

/// The partition of a region: the given one, or that of the environment; 0 for any.
pub(crate) fn of_region(partition: Option<u32>) -> Result<u32, Failure> {
    match partition {
        Some(partition) => Ok(partition),
        None => Ok(wanted()?.unwrap_or(0)),
    }
}

/// Local ids of the established connections to a peer, in the partition if the environment names one; the
/// lowest first.
pub(crate) fn conns_to(addr: IpAddr) -> Result<Vec<u16>, Failure> {
    let partition = wanted()?;
    Ok(connections(&mut Client::open()?, addr, partition)?)
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
