// SPDX-License-Identifier: GPL-2.0

//! Parameters of a node [proto 8]: defaults of its connections, which each connection may override,
//! and the node's own.

use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

use crate::proto::{Config, Param, PARAMS};

/// What a parameter applies to.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Connections. The node's value is the default of those that are created later.
    Conn,
    /// The node itself.
    Node,
}

/// A parameter: its index in [`PARAMS`].
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct ParamId(usize);

const COUNT: usize = PARAMS.len();

/// The parameter `name`. An unknown name gives an index past the end, which the assertions below
/// refuse at build time.
const fn id_of(name: &str) -> ParamId {
    let mut i = 0;
    while i < COUNT && !bytes_eq(PARAMS[i].name.as_bytes(), name.as_bytes()) {
        i += 1;
    }
    ParamId(i)
}

const fn bytes_eq(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

pub(crate) const CONNS_PER_XPU: ParamId = id_of("pdl_conns_per_xpu");
pub(crate) const RECEIVE_BUDGET: ParamId = id_of("pdl_receive_budget");
pub(crate) const BUDGET_STATIC: ParamId = id_of("pdl_budget_static");
pub(crate) const UDP_PORT: ParamId = id_of("nh_udp_port");
pub(crate) const NUM_CADDR_BITS: ParamId = id_of("nh_num_caddr_bits");
pub(crate) const HOP_LIMIT: ParamId = id_of("nh_hop_limit");
pub(crate) const SNDBUF_PER_USER: ParamId = id_of("tal_sndbuf_per_user");
pub(crate) const RCVBUF_PER_CONN: ParamId = id_of("tal_rcvbuf_per_conn");
pub(crate) const ERROR_DETAIL: ParamId = id_of("tal_error_detail");

static_assert!(CONNS_PER_XPU.0 < COUNT && UDP_PORT.0 < COUNT);
static_assert!(RECEIVE_BUDGET.0 < COUNT && BUDGET_STATIC.0 < COUNT);
static_assert!(NUM_CADDR_BITS.0 < COUNT && HOP_LIMIT.0 < COUNT);
static_assert!(SNDBUF_PER_USER.0 < COUNT && RCVBUF_PER_CONN.0 < COUNT);
static_assert!(ERROR_DETAIL.0 < COUNT);

/// The parameter at index `i` of [`PARAMS`].
pub(crate) fn nth(i: usize) -> Option<ParamId> {
    (i < COUNT).then_some(ParamId(i))
}

/// The parameter `name`.
pub(crate) fn by_name(name: &[u8]) -> Option<ParamId> {
    PARAMS
        .iter()
        .position(|p| p.name.as_bytes() == name)
        .map(ParamId)
}

impl ParamId {
    /// Name, range, default, unit and description.
    pub(crate) fn spec(self) -> &'static Param {
        // This file makes all ids, and each is in range. The compiler does not know that, so the
        // first parameter stands in.
        PARAMS.get(self.0).unwrap_or(&PARAMS[0])
    }

    /// What the parameter applies to.
    pub(crate) fn scope(self) -> Scope {
        match Config::default().param(self.0) {
            Some(_) => Scope::Conn,
            None => Scope::Node,
        }
    }
}

/// The values that are in force in a node. Any context.
pub(crate) struct Values([Atomic<u64>; COUNT]);

impl Values {
    /// Every parameter at its default.
    pub(crate) fn new() -> Values {
        Values(core::array::from_fn(|i| {
            Atomic::new(ParamId(i).spec().default)
        }))
    }

    pub(crate) fn get(&self, id: ParamId) -> u64 {
        self.0.get(id.0).map_or(0, |v| v.load(Relaxed))
    }

    pub(crate) fn set(&self, id: ParamId, value: u64) {
        if let Some(v) = self.0.get(id.0) {
            v.store(value, Relaxed);
        }
    }

    /// The configuration of a new connection that overrides nothing.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        for i in 0..COUNT {
            config.set_param(i, self.get(ParamId(i)));
        }
        config
    }
}

/// Sets a parameter of one connection, whose range the caller has checked. Returns `false` if it is
/// no parameter of connections.
pub(crate) fn config_set(config: &mut Config, id: ParamId, value: u64) -> bool {
    config.set_param(id.0, value)
}

/// The value of a parameter of one connection. `None` if it is no parameter of connections.
pub(crate) fn config_get(config: &Config, id: ParamId) -> Option<u64> {
    config.param(id.0)
}
