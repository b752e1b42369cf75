// SPDX-License-Identifier: GPL-2.0

//! The generic netlink family. Requests and dumps become calls of the node. Refusals become
//! sentences in the extended acknowledgement.
//!
//! Handlers run in process context and in parallel; the node locks for itself. The numbers, the
//! policies and the table of operations are generated from
//! `Documentation/netlink/specs/superp.yaml`.

pub(crate) mod conn;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod param;
pub(crate) mod port;
pub(crate) mod route;

use crate::{
    kapi::{
        errno::Refusal,
        net::state_of,
        nl::{operations, Attr, Request},
    },
    node::Node,
};
use kernel::{prelude::*, sync::Arc};

/// Version of the module. Only people read it.
const VERSION: &str = "0.1.0";

impl Request<'_> {
    /// The node of the namespace that sent the request. `ENODEV`: it is being set up or taken down.
    fn node(self) -> Result<Arc<Node>> {
        state_of(self.net()).ok_or(ENODEV)
    }
}

/// Reports a refusal to the sender of the request, and returns its error. `at` is the offending
/// attribute.
fn report_refusal(request: Request<'_>, at: Option<Attr<'_>>, refusal: Refusal) -> Error {
    match refusal.retry_ms {
        None => request.refuse(at, refusal.errno, refusal.msg),
        Some(ms) => request.refuse_fmt(
            at,
            refusal.errno,
            fmt!("{}: try again in {ms} ms", refusal.msg),
        ),
    }
}

operations! {
    do {
        superp_nl_node_get_doit => node::get,
        superp_nl_node_set_doit => node::set,
        superp_nl_port_get_doit => port::get,
        superp_nl_port_new_doit => port::new,
        superp_nl_port_del_doit => port::del,
        superp_nl_conn_get_doit => conn::get,
        superp_nl_conn_new_doit => conn::new,
        superp_nl_conn_del_doit => conn::del,
        superp_nl_conn_start_doit => conn::start,
        superp_nl_conn_reset_doit => conn::reset,
        superp_nl_conn_stop_doit => conn::stop,
        superp_nl_route_new_doit => route::new,
        superp_nl_route_del_doit => route::del,
        superp_nl_param_get_doit => param::get,
        superp_nl_param_set_doit => param::set,
        superp_nl_stats_get_doit => node::stats,
    }
    dump {
        superp_nl_port_get_dumpit => port::dump,
        superp_nl_conn_get_dumpit => conn::dump,
        superp_nl_param_get_dumpit => param::dump,
        superp_nl_region_get_dumpit => object::regions,
        superp_nl_qp_get_dumpit => object::qps,
        superp_nl_route_get_dumpit => route::dump,
    }
}
