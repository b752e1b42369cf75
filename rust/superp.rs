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

/// The module.
struct Superp {
    _registration: kapi::registration::Registration<node::Node>,
}

impl kernel::Module for Superp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let registration = kapi::registration::Registration::new(&node::numbers())?;
        pr_info!(
            "family {}, EtherType {:#06x}, next header {}\n",
            family(),
            ethertype(),
            next_header()
        );
        Ok(Superp {
            _registration: registration,
        })
    }
}
