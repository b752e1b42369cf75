// SPDX-License-Identifier: GPL-2.0

//! What the connections of a node share: queue pairs, regions, the receive budget, parameters, drop
//! counters, and the limit of events.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    event::{self, Event, ReportLimit},
    kapi::{
        lock::{new_spinlock_bh, SpinLockBh},
        net::NetHandle,
    },
    params::{self, ParamId},
    proto::{Activity, Code, Config, DropReason, Partition, ReceiveBudget},
    qp::{self, Qp, Regions, Senders},
};

/// A connection that received something during the last period or two is active, for the receive
/// budget. In ns.
pub(crate) const BUDGET_PERIOD: u64 = 1_000_000;

const DROPS: usize = DropReason::ALL.len();

/// The shared objects of one node.
#[pin_data]
pub(crate) struct Resources {
    net: Arc<NetHandle>,
    #[pin]
    regions: Regions,
    #[pin]
    qps: qp::Table,
    senders: Arc<Senders>,
    /// The lock is taken inside the lock of at most one connection.
    #[pin]
    budget: SpinLockBh<ReceiveBudget>,
    params: params::Values,
    drops: [Atomic<u64>; DROPS],
    report_limit: ReportLimit,
}

impl Resources {
    /// Returns the resources of a new node. Process context.
    pub(crate) fn new(net: Arc<NetHandle>) -> Result<Arc<Resources>> {
        Arc::pin_init(
            try_pin_init!(Resources {
                net,
                regions <- Regions::new(),
                qps <- qp::Table::new(),
                senders: Senders::new()?,
                budget <- new_spinlock_bh!(
                    ReceiveBudget::new(0, Partition::Dynamic, BUDGET_PERIOD),
                    "superp_budget"
                ),
                params: params::Values::new(),
                drops: core::array::from_fn(|_| Atomic::new(0)),
                report_limit: ReportLimit::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Removes all regions and queue pairs. Process context, sleeps for grace periods.
    pub(crate) fn clear(&self) {
        self.regions.clear();
        self.qps.clear();
    }

    /// The network namespace. Any context.
    pub(crate) fn net(&self) -> &NetHandle {
        &self.net
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    pub(crate) fn qps(&self) -> &qp::Table {
        &self.qps
    }

    /// The users that have sockets in the node.
    pub(crate) fn senders(&self) -> &Arc<Senders> {
        &self.senders
    }

    /// The queue pair `qpn`. Any context.
    pub(crate) fn qp(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qps.get(qpn)
    }

    /// Code that refuses a message to `qpn`, see `Table::missing_code`. Any context up to softirq.
    /// A connection's lock may be held.
    pub(crate) fn qp_missing(&self, qpn: u32) -> Code {
        self.qps.missing_code(qpn)
    }

    /// Sends an event to those who listen. Any context up to softirq. A connection's lock may be
    /// held.
    pub(crate) fn notify(&self, event: Event) {
        // Nobody listens in a namespace that is gone.
        let _ = self
            .net
            .with(|net| event::notify(net, &self.report_limit, event));
    }

    /// Counts one more connection that shares the receive budget. Process context.
    pub(crate) fn join_budget(&self) {
        self.budget.lock().join();
    }

    /// Counts one connection less that shares the receive budget. Process context.
    pub(crate) fn leave_budget(&self, activity: Activity) {
        self.budget.lock().leave(activity);
    }

    /// Value of a parameter. Any context.
    pub(crate) fn param_get(&self, id: ParamId) -> u64 {
        self.params.get(id)
    }

    /// The code of which a peer is told that an access to memory was refused with `code`. Unless
    /// `tal_error_detail` is set it does not say why: a peer that guesses addresses would learn
    /// which keys there are. Any context.
    pub(crate) fn told_to_peer(&self, code: Code) -> Code {
        let hidden = code.major == Code::ACCESS.major && self.params.get(params::ERROR_DETAIL) == 0;
        if hidden {
            Code::ACCESS
        } else {
            code
        }
    }

    /// Sets a parameter. The caller has checked the range and holds `Node::config`. Process
    /// context.
    pub(crate) fn param_set(&self, id: ParamId, value: u64) {
        self.params.set(id, value);
        if id == params::RECEIVE_BUDGET || id == params::BUDGET_STATIC {
            let partition = match self.params.get(params::BUDGET_STATIC) {
                0 => Partition::Dynamic,
                _ => Partition::Static,
            };
            // CAST: The range of the parameter fits.
            let packets = self.params.get(params::RECEIVE_BUDGET) as u32;
            self.budget.lock().configure(packets, partition);
        }
    }

    /// Number of packets that a connection may be sent from now on, after it received one. `None`:
    /// there is no limit. Any context up to softirq. The connection's lock may be held.
    pub(crate) fn receive_share(&self, now: u64, activity: &mut Activity) -> Option<u32> {
        if self.params.get(params::RECEIVE_BUDGET) == 0 {
            return None;
        }
        let mut budget = self.budget.lock();
        budget.received(now, activity);
        Some(budget.share(now, *activity))
    }

    /// Configuration that a new connection starts with.
    pub(crate) fn conn_defaults(&self) -> Config {
        self.params.config()
    }

    /// Counts a dropped packet. Any context.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Name and value of the `i`th drop counter.
    pub(crate) fn drop_nth(&self, i: usize) -> Option<(&'static str, u64)> {
        Some((
            DropReason::ALL.get(i)?.name(),
            self.drops.get(i)?.load(Relaxed),
        ))
    }
}
