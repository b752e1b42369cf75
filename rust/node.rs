// SPDX-License-Identifier: GPL-2.0

//! The SUPERp instance of one network namespace: its connections, ports and routes, and what
//! connections share ([`Resources`]).

mod conns;
mod gateway;
mod ports;
mod routes;
mod rx;

use core::ops::Deref;

use kernel::{
    prelude::*,
    sync::{atomic::Atomic, new_mutex, Arc, Mutex},
};

use crate::{
    conn::Conn,
    kapi::{
        errno::Refusal,
        map::RcuMap,
        net::{pernet_ops, DeviceEvent, Net, PernetOps},
        rx::{packet_ops, PacketOps, UdpHeader, UdpPort},
        skb::Burst,
    },
    params::{self, ParamId},
    proto::Quarantine,
    qp::Qp,
    resources::Resources,
    slabs::Kernel,
};

pub(crate) use ports::{Port, PortInfo};
use routes::Route;
pub(crate) use routes::{Via, HOPS_MAX};

/// How many objects a node has.
#[derive(Default)]
pub(crate) struct NodeInfo {
    pub(crate) ports: u32,
    pub(crate) conns: u32,
    pub(crate) qps: u32,
    pub(crate) regions: u32,
}

/// What changes by configuration, under the node's mutex.
pub(crate) struct Settings {
    udp: Option<UdpPort>,
    cm_address: [u8; 16],
    /// Connection ids that are not chosen yet.
    quarantine: Quarantine<Kernel>,
    /// The namespace is going away.
    gone: bool,
}

/// See the module.
#[pin_data]
pub(crate) struct Node {
    resources: Arc<Resources>,
    #[pin]
    config: Mutex<Settings>,
    /// By ifindex.
    #[pin]
    ports: RcuMap<Port>,
    /// By local connection id.
    #[pin]
    conns: RcuMap<Conn>,
    /// SUPERp-lite, which has no ids in packets: by the peer's SUNH address [proto 6].
    #[pin]
    lite: RcuMap<Conn>,
    /// By SUNH address.
    #[pin]
    routes: RcuMap<Route>,
    forwarding: Atomic<bool>,
    forwarded: Atomic<u64>,
}

impl Node {
    /// A node without ports. Process context.
    pub(crate) fn new(net: Net) -> Result<Arc<Node>> {
        Arc::pin_init(
            try_pin_init!(Node {
                resources: Resources::new(net)?,
                config <- new_mutex!(Settings {
                    udp: None,
                    cm_address: [0; 16],
                    quarantine: Quarantine::new(),
                    gone: false,
                }, "superp_node"),
                ports <- RcuMap::new(),
                conns <- RcuMap::new(),
                lite <- RcuMap::new(),
                routes <- RcuMap::new(),
                forwarding: Atomic::new(false),
                forwarded: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends everything: the namespace goes away, or the module. Process context.
    pub(crate) fn exit(&self) {
        let udp = {
            let mut config = self.config.lock();
            config.gone = true;
            config.udp.take()
        };
        drop(udp);
        for (_, conn) in self.conns.iter() {
            conn.stop();
            conn.close_paths();
        }
        self.conns.clear();
        self.lite.clear();
        self.routes.clear();
        self.ports.clear();
        self.resources.clear();
    }

    /// Counts the node's objects.
    pub(crate) fn info(&self) -> NodeInfo {
        NodeInfo {
            ports: count(self.ports.iter()),
            conns: count(self.conns.iter()),
            qps: count(self.qps().iter()),
            regions: count(self.regions().iter()),
        }
    }

    /// Address of the connection manager; `::` for none.
    pub(crate) fn cm_address(&self) -> [u8; 16] {
        self.config.lock().cm_address
    }

    pub(crate) fn set_cm_address(&self, addr: [u8; 16]) {
        self.config.lock().cm_address = addr;
    }

    /// Sets a parameter, whose range the caller has checked.
    pub(crate) fn param_set(&self, id: ParamId, value: u64) -> Result<(), Refusal> {
        let config = self.config.lock();
        if id == params::UDP_PORT && config.udp.is_some() {
            return Err(Refusal::new(
                EBUSY,
                c"nh_udp_port is in use: remove the ports that serve UDP first",
            ));
        }
        if id == params::NUM_CADDR_BITS && self.conns.next(0).is_some() {
            return Err(Refusal::new(
                EBUSY,
                c"nh_num_caddr_bits is in use: remove the connections first",
            ));
        }
        self.resources.param_set(id, value);
        Ok(())
    }

    /// Takes `qp` from the reach of peers; a packet that has found it already may still ask it.
    /// Process context.
    pub(crate) fn qp_unbind(&self, qp: &Qp) {
        if let Some(qpn) = self.qps().unbind(qp) {
            self.forget_partials(qpn);
        }
    }

    /// Takes several queue pairs from the reach of peers. Process context, sleeps for a grace period,
    /// once.
    pub(crate) fn qp_unbind_each(&self, qps: impl Iterator<Item = Arc<Qp>>) {
        self.qps().unbind_each(qps, |qpn| self.forget_partials(qpn));
    }
}

impl Deref for Node {
    type Target = Resources;

    fn deref(&self) -> &Resources {
        &self.resources
    }
}

/// How many there are: `Iterator::count` can panic.
fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    items.fold(0, |n, _| n.saturating_add(1))
}

impl PernetOps for Node {
    fn init(net: Net) -> Result<Arc<Node>> {
        Node::new(net)
    }

    fn exit(&self) {
        Node::exit(self);
    }

    fn device_event(&self, event: DeviceEvent) {
        Node::device_event(self, event);
    }
}

impl PacketOps for Node {
    fn rx_sunh(&self, ifindex: u32, lite: bool, frames: Burst) {
        Node::rx_sunh(self, ifindex, lite, frames);
    }

    fn rx_udp(&self, ifindex: u32, header: &UdpHeader, datagrams: Burst) {
        Node::rx_udp(self, ifindex, &header.into(), datagrams);
    }
}

pernet_ops!(Node);
packet_ops!(Node);
