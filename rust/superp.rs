// SPDX-License-Identifier: GPL-2.0

//! SUPERp, the Scale-Up Ethernet protocol: root of the module. Parameters and the order of
//! initialisation; everything else is in the rooms (Documentation/architecture.md).

use kernel::prelude::*;

mod conn;
mod kapi;
mod netlink;
mod node;
mod params;
pub mod proto;
mod qp;
mod region;
mod socket;
mod work;

use kapi::uapi;

module! {
    type: Superp,
    name: "superp",
    authors: ["The SUPERp for Linux developers"],
    description: "SUPERp, the Scale-Up Ethernet protocol",
    license: "GPL",
    params: {
        family: u16 {
            default: 22,
            description: "Number of the address family (default 22, AF_SNA, which Linux never implemented)",
        },
        ethertype: u16 {
            default: 0x88b5,
            description: "EtherType of SUNH (default 0x88b5, IEEE local experimental 1)",
        },
        next_header: u8 {
            default: 253,
            description: "SUNH Next Header of SUPERp (default 253)",
        },
    },
}

/// Largest message, bytes.
const MAX_MESSAGE: u32 = uapi::SUPERP_MAX_MESSAGE;
/// Any connection to an address.
const CID_ANY: u32 = uapi::SUPERP_CID_ANY;

/// Number of the address family in force.
fn family() -> u16 {
    *module_parameters::family.value()
}

/// EtherType of SUNH in force.
fn ethertype() -> u16 {
    *module_parameters::ethertype.value()
}

/// Next Header of SUPERp in force.
fn next_header() -> u8 {
    *module_parameters::next_header.value()
}

/// Everything that is registered with the kernel. Fields are dropped in this order: users first,
/// then packets, then the namespaces' state.
struct Superp {
    _sockets: kapi::sock::Registration,
    _netlink: kapi::nl::Registration,
    _packets: kapi::rx::Registration,
    _namespaces: kapi::net::Registration,
}

impl kernel::Module for Superp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let namespaces = kapi::net::Registration::new()?;
        let packets = kapi::rx::Registration::new(ethertype())?;
        let netlink = kapi::nl::Registration::new()?;
        let sockets = kapi::sock::Registration::new(family().into())?;
        pr_info!(
            "family {}, EtherType {:#06x}, next header {}\n",
            family(),
            ethertype(),
            next_header()
        );
        Ok(Superp {
            _sockets: sockets,
            _netlink: netlink,
            _packets: packets,
            _namespaces: namespaces,
        })
    }
}
