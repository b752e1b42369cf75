// SPDX-License-Identifier: GPL-2.0

//! Parameters of a node [proto 8]: those of connections, which a connection may override, and the
//! node's own.

use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

use crate::proto::{Config, Param, PARAMS};

/// Whom a parameter is for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Default of connections made later.
    Conn,
    /// The node.
    Node,
}

/// A parameter, by its place in [`PARAMS`].
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct ParamId(usize);

/// How many there are.
const COUNT: usize = PARAMS.len();

/// The place of a parameter that the module itself uses; the end of the table for none.
const fn place(name: &str) -> ParamId {
    let mut i = 0;
    while i < COUNT && !same(PARAMS[i].name.as_bytes(), name.as_bytes()) {
        i += 1;
    }
    ParamId(i)
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

pub(crate) const CONNS_PER_XPU: ParamId = place("pdl_conns_per_xpu");
pub(crate) const RECEIVE_BUDGET: ParamId = place("pdl_receive_budget");
pub(crate) const BUDGET_STATIC: ParamId = place("pdl_budget_static");
pub(crate) const UDP_PORT: ParamId = place("nh_udp_port");
pub(crate) const NUM_CADDR_BITS: ParamId = place("nh_num_caddr_bits");
pub(crate) const HOP_LIMIT: ParamId = place("nh_hop_limit");

static_assert!(CONNS_PER_XPU.0 < COUNT && UDP_PORT.0 < COUNT);
static_assert!(RECEIVE_BUDGET.0 < COUNT && BUDGET_STATIC.0 < COUNT);
static_assert!(NUM_CADDR_BITS.0 < COUNT && HOP_LIMIT.0 < COUNT);

/// The `i`th parameter.
pub(crate) fn nth(i: usize) -> Option<ParamId> {
    (i < COUNT).then_some(ParamId(i))
}

/// The parameter of this name.
pub(crate) fn by_name(name: &[u8]) -> Option<ParamId> {
    PARAMS
        .iter()
        .position(|p| p.name.as_bytes() == name)
        .map(ParamId)
}

impl ParamId {
    /// What it is.
    pub(crate) fn spec(self) -> &'static Param {
        // Ids come from this file only, so there is one; the first stands in for none.
        PARAMS.get(self.0).unwrap_or(&PARAMS[0])
    }

    /// Whom it is for.
    pub(crate) fn scope(self) -> Scope {
        match Config::default().param(self.0) {
            Some(_) => Scope::Conn,
            None => Scope::Node,
        }
    }
}

/// The values in force in a node.
pub(crate) struct Values([Atomic<u64>; COUNT]);

impl Values {
    /// Everything at its default.
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

    /// A connection's configuration with these values.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        for i in 0..COUNT {
            config.set_param(i, self.get(ParamId(i)));
        }
        config
    }
}

/// Sets a parameter of one connection; `false` if it is not one.
pub(crate) fn config_set(config: &mut Config, id: ParamId, value: u64) -> bool {
    config.set_param(id.0, value)
}

/// A parameter of one connection.
pub(crate) fn config_get(config: &Config, id: ParamId) -> Option<u64> {
    config.param(id.0)
}
