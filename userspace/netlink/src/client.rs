// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests, one method each.

use crate::codec::{Attrs, Writer};
use crate::object::{octets, Object};
use crate::transport::Transport;
use crate::uapi::{cmd, conn, node, param, port, qp, region, route, stats, Attr};
use crate::{
    Conn, ConnSpec, Counters, Error, Node, Param, Port, PortEncap, Qp, Region, Result, Route, Via,
};
use std::net::IpAddr;

/// A client of the family in one network namespace.
#[derive(Debug)]
pub struct Client(Transport);

impl Client {
    /// Opens a socket in the current network namespace.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`]; [`Error::Io`].
    pub fn open() -> Result<Self> {
        Transport::open().map(Self)
    }

    fn change(&mut self, command: u8, set: &[Attr], fill: impl FnOnce(&mut Writer)) -> Result<()> {
        self.0.request(command, set, fill, |_| Ok(()))
    }

    fn get<T>(
        &mut self,
        command: u8,
        set: &[Attr],
        fill: impl FnOnce(&mut Writer),
        read: impl Fn(Attrs<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut got = None;
        self.0.request(command, set, fill, |attrs| {
            got = Some(read(attrs)?);
            Ok(())
        })?;
        got.ok_or(Error::Answer("no reply"))
    }

    fn all<T>(
        &mut self,
        command: u8,
        set: &[Attr],
        fill: impl FnOnce(&mut Writer),
        read: impl Fn(Object<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.0.dump(command, set, fill, |attrs| {
            all.push(read(Object(attrs))?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The node.
    pub fn node(&mut self) -> Result<Node> {
        let read = |attrs: Attrs<'_>| Node::read(Object(attrs));
        self.get(cmd::NODE_GET, node::ATTRS, |_| {}, read)
    }

    /// Sets the address of the connection manager; the unspecified address for none.
    pub fn set_cm_address(&mut self, addr: IpAddr) -> Result<()> {
        self.change(cmd::NODE_SET, node::ATTRS, |to| {
            to.put(node::CM_ADDRESS, &octets(addr));
        })
    }

    /// Turns forwarding on or off, of SUNH frames and between SUNH and UDP.
    pub fn set_forwarding(&mut self, on: bool) -> Result<()> {
        self.change(cmd::NODE_SET, node::ATTRS, |to| {
            to.put_u8(node::FORWARDING, on.into());
        })
    }

    /// Gives the node `size` bytes from `base` on of a global RMA address space, both multiples of the
    /// page size; a size of 0 stands for all that follow. A base of 0: regions get keys instead.
    pub fn set_rma_space(&mut self, base: u64, size: u64) -> Result<()> {
        self.change(cmd::NODE_SET, node::ATTRS, |to| {
            to.put_uint(node::RMA_BASE, base);
            to.put_uint(node::RMA_SIZE, size);
        })
    }

    /// All routes of SUNH: an entry for each next hop.
    pub fn routes(&mut self) -> Result<Vec<Route>> {
        self.all(cmd::ROUTE_GET, route::ATTRS, |_| {}, Route::read)
    }

    /// Adds a next hop to a SUNH address.
    pub fn add_route(&mut self, address: u16, ifindex: u32, via: Via) -> Result<()> {
        self.change(cmd::ROUTE_NEW, route::ATTRS, |to| {
            to.put_u16(route::ADDRESS, address);
            to.put_u32(route::IFINDEX, ifindex);
            match via {
                Via::Via(addr) => to.put(route::VIA, &octets(addr)),
                Via::Lladdr(mac) => to.put(route::LLADDR, &mac.0),
                Via::Prefix(prefix) => {
                    to.put(route::PREFIX, &octets(prefix.addr));
                    to.put_u8(route::PREFIX_LEN, prefix.len);
                }
            }
        })
    }

    /// Removes the next hops of a SUNH address, or those on one device.
    pub fn del_route(&mut self, address: u16, ifindex: Option<u32>) -> Result<()> {
        self.change(cmd::ROUTE_DEL, route::ATTRS, |to| {
            to.put_u16(route::ADDRESS, address);
            if let Some(ifindex) = ifindex {
                to.put_u32(route::IFINDEX, ifindex);
            }
        })
    }

    /// All ports.
    pub fn ports(&mut self) -> Result<Vec<Port>> {
        self.all(cmd::PORT_GET, port::ATTRS, |_| {}, Port::read)
    }

    /// The port on a device.
    pub fn port(&mut self, ifindex: u32) -> Result<Port> {
        let read = |attrs: Attrs<'_>| Port::read(Object(attrs));
        let fill = |to: &mut Writer| to.put_u32(port::IFINDEX, ifindex);
        self.get(cmd::PORT_GET, port::ATTRS, fill, read)
    }

    /// Makes a device a port.
    pub fn add_port(&mut self, ifindex: u32, encap: PortEncap) -> Result<()> {
        self.change(cmd::PORT_NEW, port::ATTRS, |to| {
            to.put_u32(port::IFINDEX, ifindex);
            to.put_u32(port::ENCAP, encap.bits());
        })
    }

    /// Removes a port.
    pub fn del_port(&mut self, ifindex: u32) -> Result<()> {
        self.change(cmd::PORT_DEL, port::ATTRS, |to| {
            to.put_u32(port::IFINDEX, ifindex);
        })
    }

    /// All connections, with their counters if `counters`.
    pub fn conns(&mut self, counters: bool) -> Result<Vec<Conn>> {
        let fill = |to: &mut Writer| want(to, counters);
        self.all(cmd::CONN_GET, conn::ATTRS, fill, Conn::read)
    }

    /// The connection of this local id.
    pub fn conn(&mut self, local_cid: u16, counters: bool) -> Result<Conn> {
        let read = |attrs: Attrs<'_>| Conn::read(Object(attrs));
        let fill = |to: &mut Writer| {
            to.put_u16(conn::LOCAL_CID, local_cid);
            want(to, counters);
        };
        self.get(cmd::CONN_GET, conn::ATTRS, fill, read)
    }

    /// Creates a connection; gives its local id.
    pub fn add_conn(&mut self, spec: &ConnSpec) -> Result<u16> {
        let read = |attrs: Attrs<'_>| {
            let cid = Object(attrs).int(conn::LOCAL_CID);
            cid.ok_or(Error::Answer("new connection without local-cid"))
        };
        let fill = |to: &mut Writer| spec.write(to);
        self.get(cmd::CONN_NEW, conn::ATTRS, fill, read)
    }

    /// Deletes a connection.
    pub fn del_conn(&mut self, local_cid: u16) -> Result<()> {
        self.by_cid(cmd::CONN_DEL, local_cid)
    }

    /// Starts a connection.
    pub fn start_conn(&mut self, local_cid: u16) -> Result<()> {
        self.by_cid(cmd::CONN_START, local_cid)
    }

    /// Begins the soft shutdown of a connection.
    pub fn stop_conn(&mut self, local_cid: u16) -> Result<()> {
        self.by_cid(cmd::CONN_STOP, local_cid)
    }

    /// Returns a connection to the state it was created in, with these start values if they are given.
    pub fn reset_conn(
        &mut self,
        local_cid: u16,
        start_psn: Option<u32>,
        start_xid: Option<u16>,
    ) -> Result<()> {
        self.change(cmd::CONN_RESET, conn::ATTRS, |to| {
            to.put_u16(conn::LOCAL_CID, local_cid);
            if let Some(psn) = start_psn {
                to.put_u32(conn::START_PSN, psn);
            }
            if let Some(xid) = start_xid {
                to.put_u16(conn::START_XID, xid);
            }
        })
    }

    fn by_cid(&mut self, command: u8, local_cid: u16) -> Result<()> {
        self.change(command, conn::ATTRS, |to| {
            to.put_u16(conn::LOCAL_CID, local_cid);
        })
    }

    /// All parameters of the node.
    pub fn params(&mut self) -> Result<Vec<Param>> {
        self.all(cmd::PARAM_GET, param::ATTRS, |_| {}, Param::read)
    }

    /// One parameter of the node.
    pub fn param(&mut self, name: &str) -> Result<Param> {
        let read = |attrs: Attrs<'_>| Param::read(Object(attrs));
        let fill = |to: &mut Writer| to.put_text(param::NAME, name);
        self.get(cmd::PARAM_GET, param::ATTRS, fill, read)
    }

    /// Sets a parameter of the node.
    pub fn set_param(&mut self, name: &str, value: u64) -> Result<()> {
        self.change(cmd::PARAM_SET, param::ATTRS, |to| {
            to.put_text(param::NAME, name);
            to.put_uint(param::VALUE, value);
        })
    }

    /// All memory regions. Needs `CAP_NET_ADMIN`.
    pub fn regions(&mut self) -> Result<Vec<Region>> {
        self.all(cmd::REGION_GET, region::ATTRS, |_| {}, Region::read)
    }

    /// All bound queue pairs.
    pub fn qps(&mut self) -> Result<Vec<Qp>> {
        self.all(cmd::QP_GET, qp::ATTRS, |_| {}, Qp::read)
    }

    /// The node's counters: dropped packets by reason.
    pub fn stats(&mut self) -> Result<Counters> {
        let read = |attrs: Attrs<'_>| Ok(Counters::from_stats(attrs));
        self.get(cmd::STATS_GET, stats::ATTRS, |_| {}, read)
    }
}

fn want(to: &mut Writer, counters: bool) {
    if counters {
        to.put_flag(conn::WANT_STATS);
    }
}
