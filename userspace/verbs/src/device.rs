// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Devices, as the kernel's configuration interface tells of them.

use crate::{Context, Error, Result};
use std::net::IpAddr;
use superp_netlink::{Client, Node, PortState};

/// The SUPERp node of a network namespace.
#[derive(Clone, Debug)]
pub struct Device {
    node: Node,
    ports: Vec<Port>,
}

/// A network device that carries SUPERp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Index of the network device.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Whether it can send and receive.
    pub up: bool,
    /// Bytes.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// All devices of the current network namespace: one if the module is loaded, else none.
///
/// # Errors
///
/// [`Error::Netlink`].
pub fn devices() -> Result<Vec<Device>> {
    match Device::current() {
        Ok(device) => Ok(vec![device]),
        Err(Error::NotLoaded) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

impl Device {
    /// The device of the current network namespace.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], [`Error::Netlink`].
    pub fn current() -> Result<Self> {
        let mut client = Client::open()?;
        let node = client.node()?;
        let ports = client.ports()?.into_iter().map(|port| Port {
            ifindex: port.ifindex,
            up: port.state == PortState::Up,
            mtu: port.mtu,
            addresses: port.addresses,
            name: port.name,
        });
        Ok(Self {
            node,
            ports: ports.collect(),
        })
    }

    /// Its name: there is one in a network namespace.
    pub fn name(&self) -> &'static str {
        "superp"
    }

    /// Version of the module.
    pub fn module_version(&self) -> &str {
        &self.node.module_version
    }

    /// Its ports, as they were when the device was looked up.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Its addresses: those of all ports.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.node.addresses
    }

    /// Opens a context. It is of the network namespace in which it is opened.
    ///
    /// # Errors
    ///
    /// As of [`Context::open`].
    pub fn open(&self) -> Result<Context> {
        Context::open()
    }
}
