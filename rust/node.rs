// SPDX-License-Identifier: GPL-2.0

//! The SUPERp instance of one network namespace: its tables, ports, parameters and counters.

mod conns;
mod gateway;
mod ports;
mod routes;
mod rx;

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        new_mutex, Arc, Mutex,
    },
};

use crate::{
    conn::{Conn, Kernel},
    kapi::{
        lock::{new_spinlock_bh, SpinLockBh},
        map::RcuMap,
        net::{pernet_ops, DeviceEvent, Net, PernetOps},
        range::Ranges,
        rx::{packet_ops, PacketOps, UdpHeader, UdpPort},
        skb::Burst,
    },
    netlink::ReportLimit,
    params::{self, ParamId},
    proto::{Activity, Config, Departed, DropReason, Partition, Quarantine, ReceiveBudget},
    qp::Qp,
    region::{Region, Space},
};

pub(crate) use ports::{Port, PortInfo};
use routes::Route;
pub(crate) use routes::{mixed, Via, HOPS_MAX};

/// A refused request: the errno, and a sentence for the person who made it.
pub(crate) struct Refusal {
    pub(crate) errno: Error,
    pub(crate) msg: &'static CStr,
    /// When it can be expected to succeed: so many ms from now.
    pub(crate) retry_ms: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(errno: Error, msg: &'static CStr) -> Refusal {
        Refusal {
            errno,
            msg,
            retry_ms: None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.errno
    }
}

/// What counts as recent activity of a connection, ns.
pub(crate) const BUDGET_PERIOD: u64 = 1_000_000;

const DROPS: usize = DropReason::ALL.len();

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
    rma_space: Option<Space>,
    /// Connection ids that are not chosen yet.
    quarantine: Quarantine<Kernel>,
    /// The namespace is going away.
    gone: bool,
}

impl Settings {
    /// See [`Node::rma_space`].
    pub(crate) fn rma_space(&self) -> Option<Space> {
        self.rma_space
    }
}

/// See the module.
#[pin_data]
pub(crate) struct Node {
    net: Net,
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
    /// By key.
    #[pin]
    regions: RcuMap<Region>,
    /// Keys of regions by RMA address, in pages.
    ranges: Ranges,
    #[pin]
    qps: RcuMap<Qp>,
    /// Under the lock of at most one connection.
    #[pin]
    departed: SpinLockBh<Departed<Kernel>>,
    /// By SUNH address.
    #[pin]
    routes: RcuMap<Route>,
    forwarding: Atomic<bool>,
    forwarded: Atomic<u64>,
    /// Under the lock of at most one connection.
    #[pin]
    budget: SpinLockBh<ReceiveBudget>,
    params: params::Values,
    drops: [Atomic<u64>; DROPS],
    #[pin]
    report_limit: ReportLimit,
}

impl Node {
    /// A node without ports. Process context.
    pub(crate) fn new(net: Net) -> Result<Arc<Node>> {
        Arc::pin_init(
            try_pin_init!(Node {
                net,
                config <- new_mutex!(Settings {
                    udp: None,
                    cm_address: [0; 16],
                    rma_space: None,
                    quarantine: Quarantine::new(),
                    gone: false,
                }, "superp_node"),
                ports <- RcuMap::new(),
                conns <- RcuMap::new(),
                lite <- RcuMap::new(),
                regions <- RcuMap::new(),
                ranges: Ranges::new()?,
                qps <- RcuMap::new(),
                departed <- new_spinlock_bh!(Departed::new().ok_or(ENOMEM)?, "superp_departed"),
                routes <- RcuMap::new(),
                forwarding: Atomic::new(false),
                forwarded: Atomic::new(0),
                budget <- new_spinlock_bh!(
                    ReceiveBudget::new(0, Partition::Dynamic, BUDGET_PERIOD),
                    "superp_budget"
                ),
                params: params::Values::new(),
                drops: core::array::from_fn(|_| Atomic::new(0)),
                report_limit <- ReportLimit::new(),
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
        self.regions.clear();
        self.qps.clear();
    }

    pub(crate) fn net(&self) -> Net {
        self.net
    }

    pub(crate) fn config(&self) -> &Mutex<Settings> {
        &self.config
    }

    pub(crate) fn regions(&self) -> &RcuMap<Region> {
        &self.regions
    }

    pub(crate) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    pub(crate) fn qps(&self) -> &RcuMap<Qp> {
        &self.qps
    }

    pub(crate) fn departed(&self) -> &SpinLockBh<Departed<Kernel>> {
        &self.departed
    }

    pub(crate) fn report_limit(&self) -> &ReportLimit {
        &self.report_limit
    }

    /// The region with the lowest key from `from` on.
    pub(crate) fn region_next(&self, from: u32) -> Option<(u32, Arc<Region>)> {
        self.regions.next(from)
    }

    /// Counts the node's objects.
    pub(crate) fn info(&self) -> NodeInfo {
        NodeInfo {
            ports: count(self.ports.iter()),
            conns: count(self.conns.iter()),
            qps: count(self.qps.iter()),
            regions: count(self.regions.iter()),
        }
    }

    /// Address of the connection manager; `::` for none.
    pub(crate) fn cm_address(&self) -> [u8; 16] {
        self.config.lock().cm_address
    }

    pub(crate) fn set_cm_address(&self, addr: [u8; 16]) {
        self.config.lock().cm_address = addr;
    }

    /// Where the RMA addresses of new regions are; `None`: each has a key of its own in them.
    pub(crate) fn rma_space(&self) -> Option<Space> {
        self.config.lock().rma_space
    }

    /// Regions that there are keep their addresses.
    pub(crate) fn set_rma_space(&self, space: Option<Space>) {
        self.config.lock().rma_space = space;
    }

    pub(crate) fn param_get(&self, id: ParamId) -> u64 {
        self.params.get(id)
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
        self.params.set(id, value);
        if id == params::RECEIVE_BUDGET || id == params::BUDGET_STATIC {
            let partition = match self.params.get(params::BUDGET_STATIC) {
                0 => Partition::Dynamic,
                _ => Partition::Static,
            };
            // CAST: the parameter's range.
            let packets = self.params.get(params::RECEIVE_BUDGET) as u32;
            self.budget.lock().configure(packets, partition);
        }
        Ok(())
    }

    /// What a connection, which has just received something, may be sent, in packets; `None`
    /// without limit. Any context up to softirq.
    pub(crate) fn receive_share(&self, now: u64, activity: &mut Activity) -> Option<u32> {
        if self.params.get(params::RECEIVE_BUDGET) == 0 {
            return None;
        }
        let mut budget = self.budget.lock();
        budget.received(now, activity);
        Some(budget.share(now, *activity))
    }

    /// Configuration that a new connection starts from.
    pub(crate) fn conn_defaults(&self) -> Config {
        self.params.config()
    }

    // ---- counters -------------------------------------------------------------------------

    /// Counts a packet that was thrown away. Any context.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// The `i`th drop counter with its name.
    pub(crate) fn drop_nth(&self, i: usize) -> Option<(&'static str, u64)> {
        Some((
            DropReason::ALL.get(i)?.name(),
            self.drops.get(i)?.load(Relaxed),
        ))
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
