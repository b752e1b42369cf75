// SPDX-License-Identifier: GPL-2.0

//! The SUPERp instance of one network namespace: its connections, ports and routes, and what its
//! connections share ([`Resources`]).

mod conns;
mod frame;
mod gateway;
mod ports;
mod routes;
mod rx;

use core::ops::Deref;

use kernel::{
    prelude::*,
    sync::{atomic::Atomic, new_mutex, Arc, ArcBorrow, Mutex},
    workqueue::{new_work, Work},
};

use crate::{
    conn::{Conn, Port},
    kapi::{
        errno::Refusal,
        map::RcuMap,
        net::{pernet_ops, DeviceEvent, NetHandle, PernetOps},
        rx::{packet_ops, PacketOps, UdpHeader, UdpPort},
        skb::Burst,
    },
    params::{self, ParamId},
    proto::Quarantine,
    qp::Qp,
    resources::Resources,
    slabs::Kernel,
};

pub(crate) use frame::numbers;
pub(crate) use ports::PortInfo;
use routes::Route;
pub(crate) use routes::{Via, HOPS_MAX};

/// Numbers of objects of a node.
#[derive(Default)]
pub(crate) struct NodeInfo {
    pub(crate) ports: u32,
    pub(crate) conns: u32,
    pub(crate) qps: u32,
    pub(crate) regions: u32,
}

/// Configuration that `Node::config` protects. That mutex is taken inside `Context::config` and
/// outside `Conn::inner`; the whole order is in Documentation/architecture.md. Who holds RTNL does
/// not take it.
pub(crate) struct Settings {
    /// Socket that receives on UDP. `None`: no port serves UDP.
    udp: Option<UdpPort>,
    /// IPv6 or v4-mapped address of the connection manager; `::` for none.
    cm_address: [u8; 16],
    /// Ids of removed connections, which are not chosen again for a while [proto 3.20].
    quarantine: Quarantine<Kernel>,
    /// The namespace or the module goes away. Nothing is created any more.
    exiting: bool,
}

/// The SUPERp instance of one network namespace.
#[pin_data]
pub(crate) struct Node {
    resources: Arc<Resources>,
    #[pin]
    config: Mutex<Settings>,
    /// Runs `follow_devices()` on the module's workqueue.
    #[pin]
    devices_work: Work<Node>,
    /// Keyed by ifindex.
    #[pin]
    ports: RcuMap<Port>,
    /// Keyed by local connection id.
    #[pin]
    conns: RcuMap<Conn>,
    /// SUPERp-lite connections, keyed by the peer's SUNH address: packets carry no connection id
    /// [proto 6].
    #[pin]
    lite: RcuMap<Conn>,
    /// Keyed by SUNH address.
    #[pin]
    routes: RcuMap<Route>,
    /// Whether the node forwards.
    forwarding: Atomic<bool>,
    /// Packets forwarded so far.
    forwarded: Atomic<u64>,
}

impl Node {
    /// Creates a node without ports. Process context.
    pub(crate) fn new(net: Arc<NetHandle>) -> Result<Arc<Node>> {
        Arc::pin_init(
            try_pin_init!(Node {
                resources: Resources::new(net)?,
                config <- new_mutex!(Settings {
                    udp: None,
                    cm_address: [0; 16],
                    quarantine: Quarantine::new(),
                    exiting: false,
                }, "superp_node"),
                devices_work <- new_work!("superp_node_devices"),
                ports <- RcuMap::new(),
                conns <- RcuMap::new(),
                lite <- RcuMap::new(),
                routes <- RcuMap::new(),
                forwarding: Atomic::new(false),
                forwarded: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Removes everything of the node: the namespace goes away, or the module. Process context;
    /// sleeps.
    pub(crate) fn exit(&self) {
        let udp = {
            let mut config = self.config.lock();
            config.exiting = true;
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

    /// Address of the connection manager, IPv6 or v4-mapped; `::` for none. Process context.
    pub(crate) fn cm_address(&self) -> [u8; 16] {
        self.config.lock().cm_address
    }

    pub(crate) fn set_cm_address(&self, addr: [u8; 16]) {
        self.config.lock().cm_address = addr;
    }

    /// Sets a parameter, whose range the caller has checked. Process context.
    ///
    /// # Errors
    ///
    /// `EBUSY`: the parameter cannot change while there are ports that serve UDP (`nh_udp_port`) or
    /// connections (`nh_num_caddr_bits`).
    pub(crate) fn param_set(&self, id: ParamId, value: u64) -> Result<(), Refusal> {
        let mut config = self.config.lock();
        // The last port that serves UDP may be gone, and what follows from that not done yet.
        self.close_unused_udp(&mut config);
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

    /// Unbinds `qp`, so that peers cannot reach it. A packet that has found the queue pair before
    /// may still use it. Process context.
    pub(crate) fn qp_unbind(&self, qp: &Qp) {
        if let Some(qpn) = self.qps().unbind(qp) {
            self.drop_partials(qpn);
        }
    }

    /// Unbinds several queue pairs, so that peers cannot reach them. Process context; sleeps for a
    /// grace period, which many queue pairs share.
    pub(crate) fn qp_unbind_each(&self, qps: impl Iterator<Item = Arc<Qp>>) {
        self.qps().unbind_each(qps, |qpn| self.drop_partials(qpn));
    }
}

impl Deref for Node {
    type Target = Resources;

    fn deref(&self) -> &Resources {
        &self.resources
    }
}

/// Counts items. `Iterator::count` would panic on overflow.
fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    items.fold(0, |n, _| n.saturating_add(1))
}

impl PernetOps for Node {
    fn init(net: Arc<NetHandle>) -> Result<Arc<Node>> {
        Node::new(net)
    }

    fn exit(&self) {
        Node::exit(self);
    }

    fn device_event(this: ArcBorrow<'_, Node>, event: DeviceEvent) {
        Node::device_event(this, event);
    }
}

impl PacketOps for Node {
    fn rx_frames(&self, ifindex: u32, ethertype: u16, frames: Burst) {
        let lite = ethertype == frame::ethertype_of(true);
        Node::rx_sunh(self, ifindex, lite, frames);
    }

    fn rx_udp(&self, ifindex: u32, header: &UdpHeader, datagrams: Burst) {
        Node::rx_udp(self, ifindex, &header.into(), datagrams);
    }
}

pernet_ops!(Node);
packet_ops!(Node);
