// SPDX-License-Identifier: GPL-2.0

//! What the connections of a node share: queue pairs, regions, the receive budget, parameters,
//! counters, and the way to those who listen to events.

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
        net::Net,
    },
    params::{self, ParamId},
    proto::{Activity, Code, Config, DropReason, Partition, ReceiveBudget},
    qp::{self, Qp, Regions},
};

/// What counts as recent activity of a connection, ns.
pub(crate) const BUDGET_PERIOD: u64 = 1_000_000;

const DROPS: usize = DropReason::ALL.len();

/// See the module.
#[pin_data]
pub(crate) struct Resources {
    net: Net,
    #[pin]
    regions: Regions,
    #[pin]
    qps: qp::Table,
    /// Under the lock of at most one connection.
    #[pin]
    budget: SpinLockBh<ReceiveBudget>,
    params: params::Values,
    drops: [Atomic<u64>; DROPS],
    report_limit: ReportLimit,
}

impl Resources {
    /// Those of a new node. Process context.
    pub(crate) fn new(net: Net) -> Result<Arc<Resources>> {
        Arc::pin_init(
            try_pin_init!(Resources {
                net,
                regions <- Regions::new(),
                qps <- qp::Table::new(),
                budget <- new_spinlock_bh!(
                    ReceiveBudget::new(0, Partition::Dynamic, BUDGET_PERIOD),
                    "superp_budget"
                ),
                params: params::Values::new(),
                drops: core::array::from_fn(|_| Atomic::new(0)),
                report_limit: ReportLimit::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes everything out. Process context, sleeps for grace periods.
    pub(crate) fn clear(&self) {
        self.regions.clear();
        self.qps.clear();
    }

    /// The namespace.
    pub(crate) fn net(&self) -> Net {
        self.net
    }

    /// Memory regions.
    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Queue pairs.
    pub(crate) fn qps(&self) -> &qp::Table {
        &self.qps
    }

    /// The queue pair `qpn`. Any context.
    pub(crate) fn qp(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qps.get(qpn)
    }

    /// Why there is no queue pair `qpn`, or why it takes nothing in. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn qp_missing(&self, qpn: u32) -> Code {
        self.qps.missing_code(qpn)
    }

    /// Tells an event to those who listen. Any context, also with a connection locked.
    pub(crate) fn notify(&self, event: Event) {
        event::notify(self.net, &self.report_limit, event);
    }

    /// A connection shares the receive budget from now on. Process context.
    pub(crate) fn join_budget(&self) {
        self.budget.lock().join();
    }

    /// It does not any more.
    pub(crate) fn leave_budget(&self, activity: Activity) {
        self.budget.lock().leave(activity);
    }

    /// Value of a parameter. Any context.
    pub(crate) fn param_get(&self, id: ParamId) -> u64 {
        self.params.get(id)
    }

    /// Sets a parameter, whose range the caller has checked. Process context; the caller serialises.
    pub(crate) fn param_set(&self, id: ParamId, value: u64) {
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
