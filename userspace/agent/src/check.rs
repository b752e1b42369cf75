// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Whether a configuration makes sense on this node. All of it is looked at before anything is
//! written, and every mistake is told.

use crate::kernel::Snapshot;
use crate::plan::effective;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::net::IpAddr;
use superp_control::{Configuration, Connection, Encap, Fault, Port, PortEncap};
use superp_netlink::Mac;

/// Largest Hop Limit and Flow Labels of the headers, smallest packet, most paths.
const SUNH_HOP_LIMIT_MAX: u8 = 15;
const SUNH_FLOW_LABEL_MAX: u32 = 0xfff;
const FLOW_LABEL_MAX: u32 = 0xf_ffff;
const MTU_MIN: u32 = 128;
const PATHS_MAX: usize = 4;
const FABRIC_MAX: usize = 64;

struct Check<'a> {
    config: &'a Configuration,
    kernel: &'a Snapshot,
    faults: Vec<Fault>,
}

/// The mistakes in a configuration; none if it makes sense.
pub(crate) fn faults(config: &Configuration, kernel: &Snapshot) -> Vec<Fault> {
    let mut check = Check {
        config,
        kernel,
        faults: Vec::new(),
    };
    check.node();
    check.ports();
    check.connections();
    check.faults
}

impl Check<'_> {
    fn fault(&mut self, pointer: impl Display, detail: impl Into<String>) {
        self.faults.push(Fault {
            pointer: format!("/configuration/{pointer}"),
            detail: detail.into(),
        });
    }

    fn node(&mut self) {
        let config = self.config;
        if config.fabric.is_empty() || config.fabric.len() > FABRIC_MAX {
            self.fault(
                "fabric",
                format!("a name of 1 to {FABRIC_MAX} bytes is wanted"),
            );
        }
        if config.generation == 0 || i64::try_from(config.generation).is_err() {
            let text = format!("generations are numbered from 1 to {}", i64::MAX);
            self.fault("generation", text);
        }
        self.parameters("node/parameters", &config.node.parameters, false);
        let mut seen = HashSet::new();
        for (i, partition) in config.node.partitions.iter().enumerate() {
            if *partition == 0 {
                self.fault(
                    format!("node/partitions/{i}"),
                    "0 is no partition: leave it out",
                );
            } else if !seen.insert(partition) {
                self.fault(
                    format!("node/partitions/{i}"),
                    format!("{partition} is there twice"),
                );
            }
        }
        self.rma_space();
    }

    fn rma_space(&mut self) {
        let Some(space) = self.config.node.rma else {
            return;
        };
        // It is below 2^32 everywhere.
        let page = rustix::param::page_size() as u64;
        for (member, value) in [("base", space.base), ("size", space.size)] {
            let wrong = match value {
                0 => "0 is none: leave rma out for addresses that begin with the regions' keys"
                    .into(),
                value if value % page != 0 => {
                    format!("{value:#x} is no multiple of the page size here, {page:#x}")
                }
                _ => continue,
            };
            self.fault(format!("node/rma/{member}"), wrong);
        }
        if space.size != 0 && space.last().is_none() {
            let text = format!("{space} go beyond the last address, {:#x}", u64::MAX);
            self.fault("node/rma/size", text);
        }
    }

    fn parameters(&mut self, at: &str, given: &BTreeMap<String, u64>, of_conn: bool) {
        for (name, value) in given {
            let pointer = format!("{at}/{name}");
            let Some(param) = self.kernel.param(name) else {
                self.fault(
                    pointer,
                    "there is no such parameter; GET /v1/capabilities lists them",
                );
                continue;
            };
            if of_conn && !param.per_conn {
                let text = "a parameter of the node: a connection has no value of its own";
                self.fault(pointer, text);
            } else if !(param.min..=param.max).contains(value) {
                let text = format!("{value} is out of range: {} to {}", param.min, param.max);
                self.fault(pointer, text);
            }
        }
    }

    fn ports(&mut self) {
        let (config, kernel) = (self.config, self.kernel);
        let mut seen = HashSet::new();
        for (i, port) in config.ports.iter().enumerate() {
            let known = |device: &str| device == port.device;
            let names = || kernel.devices.iter().map(|device| device.device.as_str());
            // The loopback device is listed only while it is a port.
            if port.device != "lo" && !names().any(known) {
                let names: Vec<_> = names().collect();
                let text = format!(
                    "there is no device {}: there are {}",
                    port.device,
                    names.join(", ")
                );
                self.fault(format!("ports/{i}/device"), text);
            }
            if !seen.insert(&port.device) {
                let text = format!("device {} is there twice", port.device);
                self.fault(format!("ports/{i}/device"), text);
            }
            if port.encap.is_empty() {
                let text = "a port receives sunh, udp or both; leave encap out for both";
                self.fault(format!("ports/{i}/encap"), text);
            }
        }
    }

    fn port_for(&self, device: &str) -> Option<&Port> {
        self.config.ports.iter().find(|port| port.device == device)
    }

    fn serving(&self, encap: PortEncap) -> usize {
        let ports = self.config.ports.iter();
        ports.filter(|port| port.encap.contains(&encap)).count()
    }

    fn connections(&mut self) {
        let config = self.config;
        let most = effective(config, self.kernel, "pdl_conns_per_xpu");
        if config.connections.len() as u64 > most {
            let text = format!(
                "{} connections are more than pdl_conns_per_xpu allows, {most}",
                config.connections.len()
            );
            self.fault("connections", text);
        }
        let (mut cids, mut peers) = (HashSet::new(), HashSet::new());
        for (i, conn) in config.connections.iter().enumerate() {
            let at = format!("connections/{i}");
            if !cids.insert(conn.cid) {
                self.fault(format!("{at}/cid"), format!("{} is there twice", conn.cid));
            }
            if !peers.insert((conn.peer, conn.peer_cid, conn.lite)) {
                let text = format!(
                    "connection {} of {} is the other end of another one already",
                    conn.peer_cid, conn.peer
                );
                self.fault(format!("{at}/peer_cid"), text);
            }
            self.connection(&at, conn);
        }
    }

    fn connection(&mut self, at: &str, conn: &Connection) {
        self.addresses(at, conn.encap, Some(conn.peer), conn.local);
        self.way(at, conn);
        self.numbers(at, conn);
        self.parameters(&format!("{at}/parameters"), &conn.parameters, true);
        if conn.spray && conn.ordered_tx {
            self.fault(
                format!("{at}/spray"),
                "spraying loses the order: it needs ordered_tx false",
            );
        }
        if conn.partition != 0 && !self.config.node.partitions.contains(&conn.partition) {
            let text = format!(
                "{} is no partition of this node: /configuration/node/partitions has {:?}",
                conn.partition, self.config.node.partitions
            );
            self.fault(format!("{at}/partition"), text);
        }
        if conn.lite {
            self.lite(at, conn);
        }
    }

    fn addresses(&mut self, at: &str, encap: Encap, peer: Option<IpAddr>, local: Option<IpAddr>) {
        for (member, addr) in [("peer", peer), ("local", local)] {
            let Some(addr) = addr else { continue };
            let fits = match encap {
                Encap::Sunh => true,
                Encap::Udp4 => addr.is_ipv4(),
                Encap::Udp6 => addr.is_ipv6(),
            };
            if !fits {
                let text = format!("{addr} is not of the family of the encapsulation");
                self.fault(format!("{at}/{member}"), text);
            } else if addr.is_unspecified() || addr.is_multicast() {
                self.fault(
                    format!("{at}/{member}"),
                    format!("{addr} is no address of a node"),
                );
            }
        }
        if let (Some(peer), Some(local)) = (peer, local) {
            if peer.is_ipv4() != local.is_ipv4() {
                let text = format!("{local} and the peer's {peer} are of different families");
                self.fault(format!("{at}/local"), text);
            }
        }
    }

    /// Devices, paths, and Ethernet addresses.
    fn way(&mut self, at: &str, conn: &Connection) {
        let wanted = match conn.encap {
            Encap::Sunh => PortEncap::Sunh,
            Encap::Udp4 | Encap::Udp6 => PortEncap::Udp,
        };
        if conn.paths.is_empty() {
            match &conn.device {
                Some(device) => self.device(&format!("{at}/device"), device, wanted),
                None if conn.encap == Encap::Sunh && self.serving(wanted) != 1 => {
                    let text = format!(
                        "a device is wanted: {} ports receive SUNH frames, not one",
                        self.serving(wanted)
                    );
                    self.fault(format!("{at}/device"), text);
                }
                None if self.serving(wanted) == 0 => {
                    self.fault(format!("{at}/encap"), "no port receives UDP");
                }
                None => {}
            }
            self.lladdr(at, conn.encap, conn.lladdr.as_deref());
            return;
        }
        if conn.device.is_some() || conn.lladdr.is_some() {
            self.fault(
                format!("{at}/paths"),
                "device and lladdr belong into the paths",
            );
        }
        if conn.paths.len() > PATHS_MAX {
            let text = format!("{} paths are too many: 1 to {PATHS_MAX}", conn.paths.len());
            self.fault(format!("{at}/paths"), text);
        }
        let mut seen = HashSet::new();
        for (j, path) in conn.paths.iter().enumerate() {
            let at = format!("{at}/paths/{j}");
            self.device(&format!("{at}/device"), &path.device, wanted);
            let (peer, local) = (path.peer.or(Some(conn.peer)), path.local.or(conn.local));
            self.addresses(&at, conn.encap, peer, local);
            self.lladdr(&at, conn.encap, path.lladdr.as_deref());
            if !seen.insert((&path.device, local, peer)) {
                self.fault(at, "two paths are the same");
            }
        }
    }

    fn device(&mut self, pointer: &str, device: &str, wanted: PortEncap) {
        let text = match self.port_for(device) {
            None => format!("{device} is none of the ports: add it to /configuration/ports"),
            Some(port) if !port.encap.contains(&wanted) => {
                format!("port {device} does not receive this encapsulation")
            }
            Some(_) => return,
        };
        self.fault(pointer, text);
    }

    fn lladdr(&mut self, at: &str, encap: Encap, lladdr: Option<&str>) {
        let Some(lladdr) = lladdr else { return };
        if encap != Encap::Sunh {
            self.fault(
                format!("{at}/lladdr"),
                "only SUNH needs an Ethernet address: leave it out",
            );
        } else if let Err(text) = lladdr.parse::<Mac>() {
            self.fault(format!("{at}/lladdr"), format!("{lladdr:?} is {text}"));
        }
    }

    fn numbers(&mut self, at: &str, conn: &Connection) {
        let sunh = conn.encap == Encap::Sunh;
        let most = if sunh { SUNH_HOP_LIMIT_MAX } else { u8::MAX };
        if let Some(limit) = conn.hop_limit.filter(|limit| !(1..=most).contains(limit)) {
            let text = format!("{limit} is out of range: 1 to {most}");
            self.fault(format!("{at}/hop_limit"), text);
        }
        let most = if sunh {
            SUNH_FLOW_LABEL_MAX
        } else {
            FLOW_LABEL_MAX
        };
        if let Some(label) = conn.flow_label.filter(|label| *label > most) {
            self.fault(
                format!("{at}/flow_label"),
                format!("{label} is out of range: 0 to {most}"),
            );
        }
        if let Some(mtu) = conn.mtu.filter(|mtu| !(MTU_MIN..=65_535).contains(mtu)) {
            self.fault(
                format!("{at}/mtu"),
                format!("{mtu} is out of range: {MTU_MIN} to 65535"),
            );
        }
    }

    fn lite(&mut self, at: &str, conn: &Connection) {
        if conn.encap != Encap::Sunh || conn.paths.len() > 1 {
            self.fault(
                format!("{at}/lite"),
                "a lite connection has one path, over SUNH",
            );
        }
        if conn.peer_cid != 0 {
            let text = "packets of a lite connection carry no id: peer_cid must be 0";
            self.fault(format!("{at}/peer_cid"), text);
        }
        let name = "tal_transaction_timeout";
        let own = conn.parameters.get(name).copied();
        if own.unwrap_or_else(|| effective(self.config, self.kernel, name)) == 0 {
            let text = format!("lite needs {name}: nothing else finds out that a packet is lost");
            self.fault(format!("{at}/parameters/{name}"), text);
        }
    }
}
