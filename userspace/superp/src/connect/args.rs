// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line of `superp connect`.

use crate::host;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

#[derive(Args)]
pub(crate) struct Connect {
    /// Address or host name of the peer.
    #[arg(value_parser = host::any)]
    pub(crate) peer: IpAddr,
    /// What packets are carried in: sunh or udp. If left out, what suits.
    #[arg(long, value_enum, hide_possible_values = true)]
    pub(crate) encap: Option<Kind>,
    /// The device; by route if left out.
    #[arg(long)]
    pub(crate) dev: Option<String>,
    /// The own address; the one that suits the device or the route if left out.
    #[arg(long, value_parser = host::any)]
    pub(crate) local: Option<IpAddr>,
    /// How long to wait for the peer: seconds, or a time such as 2m; until interrupted if left out.
    #[arg(short = 'W', long, value_parser = superp_units::seconds)]
    pub(crate) timeout: Option<f64>,
    /// The TCP port where the ends meet, at both alike.
    #[arg(long, default_value_t = 7777)]
    pub(crate) port: u16,
}

/// What packets are carried in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Directly on Ethernet.
    Sunh,
    /// In UDP, over IPv4 or IPv6 as the peer's address is.
    Udp,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sunh => "sunh",
            Self::Udp => "udp",
        })
    }
}
