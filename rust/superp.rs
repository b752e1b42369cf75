// SPDX-License-Identifier: GPL-2.0

//! SUPERp, the Scale-Up Ethernet protocol, as a module: root of the crate.

use kernel::prelude::*;

mod kapi;

module! {
    type: Superp,
    name: "superp",
    authors: ["The SUPERp for Linux developers"],
    description: "SUPERp, the Scale-Up Ethernet protocol",
    license: "GPL",
}

struct Superp;

impl kernel::Module for Superp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        pr_info!(
            "SUPERp, UDP encapsulation {}\n",
            if kapi::udp_tunnel_available() {
                "available"
            } else {
                "not in this kernel"
            }
        );
        Ok(Superp)
    }
}
