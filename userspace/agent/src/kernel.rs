// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the agent reads from the kernel, and writes to it.

use crate::device;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use superp_control::{Device, RmaSpace};
use superp_netlink::{Client, Conn, ConnSpec, Error, Node, Param, Port, PortEncap, Qp, Region};

/// The node as the kernel has it.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) node: Node,
    pub(crate) params: Vec<Param>,
    pub(crate) ports: Vec<Port>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) devices: Vec<Device>,
}

impl Snapshot {
    /// Reads it, with the connections' counters if `counters`.
    pub(crate) fn read(client: &mut Client, counters: bool) -> Result<Self, Error> {
        let ports = client.ports()?;
        Ok(Self {
            node: client.node()?,
            params: client.params()?,
            conns: client.conns(counters)?,
            devices: device::devices(&ports)?,
            ports,
        })
    }

    pub(crate) fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The node's part of a global address space of RMA.
    pub(crate) fn rma_space(&self) -> Option<RmaSpace> {
        let (base, size) = (self.node.rma_base, self.node.rma_size);
        // The kernel's size of 0 stands for all that follow.
        let size = if size == 0 { base.wrapping_neg() } else { size };
        (base != 0).then_some(RmaSpace { base, size })
    }

    pub(crate) fn port(&self, device: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.name == device)
    }

    pub(crate) fn conn(&self, cid: u16) -> Option<&Conn> {
        self.conns.iter().find(|conn| conn.local_cid == cid)
    }
}

/// The requests that change the kernel's configuration.
pub(crate) trait Kernel {
    /// Sets a parameter of the node.
    fn set_param(&mut self, name: &str, value: u64) -> Result<(), Error>;
    /// Sets the address of the manager.
    fn set_manager(&mut self, addr: Option<IpAddr>) -> Result<(), Error>;
    /// Sets the node's part of a global address space of RMA.
    fn set_rma_space(&mut self, space: Option<RmaSpace>) -> Result<(), Error>;
    /// Makes a device a port.
    fn add_port(&mut self, ifindex: u32, encap: PortEncap) -> Result<(), Error>;
    /// Removes a port.
    fn del_port(&mut self, ifindex: u32) -> Result<(), Error>;
    /// Creates a connection.
    fn add_conn(&mut self, spec: &ConnSpec) -> Result<(), Error>;
    /// Deletes a connection.
    fn del_conn(&mut self, cid: u16) -> Result<(), Error>;
}

impl Kernel for Client {
    fn set_param(&mut self, name: &str, value: u64) -> Result<(), Error> {
        Client::set_param(self, name, value)
    }

    fn set_manager(&mut self, addr: Option<IpAddr>) -> Result<(), Error> {
        self.set_cm_address(addr.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }

    fn set_rma_space(&mut self, space: Option<RmaSpace>) -> Result<(), Error> {
        let (base, size) = space.map_or((0, 0), |space| (space.base, space.size));
        Client::set_rma_space(self, base, size)
    }

    fn add_port(&mut self, ifindex: u32, encap: PortEncap) -> Result<(), Error> {
        Client::add_port(self, ifindex, encap)
    }

    fn del_port(&mut self, ifindex: u32) -> Result<(), Error> {
        Client::del_port(self, ifindex)
    }

    fn add_conn(&mut self, spec: &ConnSpec) -> Result<(), Error> {
        Client::add_conn(self, spec).map(drop)
    }

    fn del_conn(&mut self, cid: u16) -> Result<(), Error> {
        Client::del_conn(self, cid)
    }
}

/// The processes that have queue pairs or regions, as far as this pid namespace knows them.
pub(crate) fn owners(client: &mut Client) -> Result<BTreeSet<u32>, Error> {
    let of_qps = client.qps()?.into_iter().filter_map(|qp: Qp| qp.pid);
    let of_regions = client.regions()?.into_iter();
    let of_regions = of_regions.filter_map(|region: Region| region.pid);
    Ok(of_qps.chain(of_regions).collect())
}
