// SPDX-License-Identifier: GPL-2.0

//! SUPERp, the Scale-Up Ethernet protocol: the root of the module. Documentation/architecture.md
//! describes the other files.

use kernel::prelude::*;

mod conn;
mod event;
mod kapi;
mod netlink;
mod node;
mod params;
pub mod proto;
mod qp;
mod region;
mod resources;
mod ring;
mod run;
mod slabs;
mod socket;

use kapi::params::{ethertype, family, next_header};

module! {
    type: Superp,
    name: "superp",
    authors: ["The SUPERp for Linux developers"],
    description: "SUPERp, the Scale-Up Ethernet protocol",
    license: "GPL",
}

/// Everything that the module registers. Fields are dropped in this order: first the interfaces to
/// programs, then the packet handlers, then the state of the namespaces. Initialisation is in the
/// reverse order.
struct Superp {
    _sockets: kapi::sock::Registration,
    _netlink: kapi::nl::Registration,
    _packets: kapi::rx::Registration,
    _namespaces: kapi::net::Registration<node::Node>,
}

impl kernel::Module for Superp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let namespaces = kapi::net::Registration::new()?;
        let packets = node::register()?;
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
