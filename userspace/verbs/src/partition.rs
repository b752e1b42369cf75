// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The partition of a job, which the environment of its programs names.

use std::ffi::OsString;
use std::net::IpAddr;
use std::{env, fmt};
use superp_netlink::{Client, ConnState};

/// The variable of the environment. The TaskProlog of Slurm sets it, for one.
pub const VARIABLE: &str = "SUPERP_PARTITION";

/// A value of [`VARIABLE`] that is no partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(OsString);

impl std::error::Error for Malformed {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VARIABLE} is {:?}, which is no partition: it is a number from 0, for none, to {}, and superp \
             fabric job token prints that of a job",
            self.0,
            u32::MAX
        )
    }
}

/// The partition that the environment names, if it names one; 0 is none.
///
/// # Errors
///
/// [`Malformed`].
pub fn wanted() -> Result<Option<u32>, Malformed> {
    env::var_os(VARIABLE).map_or(Ok(None), read)
}

pub(crate) fn read(value: OsString) -> Result<Option<u32>, Malformed> {
    match value.to_str().and_then(|text| text.parse().ok()) {
        Some(0) => Ok(None),
        Some(partition) => Ok(Some(partition)),
        None => Err(Malformed(value)),
    }
}

/// Local ids of the established connections to a peer, in a partition or in any; the lowest first.
///
/// # Errors
///
/// As of [`Client::conns`].
pub fn connections(
    client: &mut Client,
    peer: IpAddr,
    partition: Option<u32>,
) -> Result<Vec<u16>, superp_netlink::Error> {
    let peer = peer.to_canonical();
    let conns = client.conns(false)?.into_iter().filter(|conn| {
        conn.remote_addr == peer
            && conn.state == ConnState::Established
            && partition.is_none_or(|partition| conn.partition == partition)
    });
    let mut cids: Vec<_> = conns.map(|conn| conn.local_cid).collect();
    cids.sort_unstable();
    Ok(cids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_32_bits_is_a_partition_and_0_is_none() {
        for (value, partition) in [("0", None), ("7", Some(7)), ("4294967295", Some(u32::MAX))] {
            assert_eq!(read(value.into()), Ok(partition), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name_and_value() {
        for value in ["", "seven", "-1", "4294967296", "7 ", "0x7"] {
            let text = read(value.into()).unwrap_err().to_string();
            let start =
                format!("SUPERP_PARTITION is {value:?}, which is no partition: it is a number");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}
