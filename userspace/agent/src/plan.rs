// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From the node as it is to the node as it is to be.

use crate::device;
use crate::kernel::Snapshot;
use std::collections::HashSet;
use std::net::IpAddr;
use superp_control::{
    Action, Configuration, Connection, Encap, Extensions, Object, Outcome, PortEncap, RmaSpace,
};
use superp_netlink::{Conn, ConnSpec, Mac, PathSpec};

/// Parameters that change only while nothing uses them.
const FUNDAMENTAL: [&str; 2] = ["nh_udp_port", "nh_num_caddr_bits"];

/// A request to the kernel.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    SetParam {
        name: String,
        old: u64,
        new: u64,
    },
    SetManager {
        old: Option<IpAddr>,
        new: Option<IpAddr>,
    },
    SetRmaSpace {
        old: Option<RmaSpace>,
        new: Option<RmaSpace>,
    },
    AddPort {
        device: String,
        ifindex: u32,
        encap: superp_netlink::PortEncap,
    },
    DelPort {
        device: String,
        ifindex: u32,
    },
    AddConn(u16, Box<ConnSpec>),
    DelConn(u16),
}

impl Step {
    /// What it changes.
    pub(crate) fn object(&self) -> Object {
        match self {
            Self::SetParam { name, .. } => Object::Parameter(name.clone()),
            Self::SetManager { .. } => Object::Manager,
            Self::SetRmaSpace { .. } => Object::RmaSpace,
            Self::AddPort { device, .. } | Self::DelPort { device, .. } => {
                Object::Port(device.clone())
            }
            Self::AddConn(cid, _) | Self::DelConn(cid) => Object::Connection(*cid),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The requests. Those that can be undone come before the first that cannot: a configuration
    /// that the kernel refuses is mostly refused while nothing is lost.
    pub(crate) steps: Vec<Step>,
    /// What becomes of each object if every step succeeds.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Value of a parameter of the node when the configuration is in force.
pub(crate) fn effective(config: &Configuration, kernel: &Snapshot, name: &str) -> u64 {
    let default = || kernel.param(name).map_or(0, |param| param.default);
    config
        .node
        .parameters
        .get(name)
        .copied()
        .unwrap_or_else(default)
}

/// What leads from the kernel's state to the configuration, whose predecessor is `old`. The
/// configuration has no faults.
pub(crate) fn plan(config: &Configuration, old: Option<&Configuration>, kernel: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let everything = fundamental(config, kernel);
    let everything = everything.as_deref();

    // Connections first, for what is to be removed; the steps are put in order below.
    let mut del_conns = Vec::new();
    let (mut add_conns, mut replace_conns) = (Vec::new(), Vec::new());
    let mut conns = Vec::new();
    for conn in &config.connections {
        let was = old.and_then(|old| old.connections.iter().find(|was| was.cid == conn.cid));
        let add = || Step::AddConn(conn.cid, Box::new(spec(conn)));
        let (action, detail) = match kernel.conn(conn.cid) {
            None if conn.lite || everything.is_some() => {
                replace_conns.push(add());
                (Action::Created, None)
            }
            None => {
                add_conns.push(add());
                (Action::Created, None)
            }
            Some(is) => match everything
                .map(str::to_owned)
                .or_else(|| conn_difference(config, conn, was, is, kernel))
            {
                None => (Action::Unchanged, None),
                Some(why) => {
                    del_conns.push(Step::DelConn(conn.cid));
                    replace_conns.push(add());
                    (Action::Replaced, Some(why))
                }
            },
        };
        conns.push(outcome(Object::Connection(conn.cid), action, detail));
    }
    let wanted: HashSet<u16> = config.connections.iter().map(|conn| conn.cid).collect();
    for is in &kernel.conns {
        if !wanted.contains(&is.local_cid) {
            del_conns.push(Step::DelConn(is.local_cid));
            conns.push(outcome(
                Object::Connection(is.local_cid),
                Action::Removed,
                None,
            ));
        }
    }

    let (mut add_ports, mut del_ports) = (Vec::new(), Vec::new());
    for port in &config.ports {
        let is = kernel.port(&port.device);
        let add = Step::AddPort {
            device: port.device.clone(),
            ifindex: index_of(&port.device, kernel),
            encap: superp_netlink::PortEncap {
                sunh: port.encap.contains(&PortEncap::Sunh),
                udp: port.encap.contains(&PortEncap::Udp),
            },
        };
        let action = match is {
            Some(_) if everything.is_none() => Action::Unchanged,
            Some(is) => {
                del_ports.push(Step::DelPort {
                    device: port.device.clone(),
                    ifindex: is.ifindex,
                });
                add_ports.push(add);
                Action::Replaced
            }
            None => {
                add_ports.push(add);
                Action::Created
            }
        };
        let why = everything.filter(|_| action == Action::Replaced);
        plan.outcomes.push(outcome(
            Object::Port(port.device.clone()),
            action,
            why.map(str::to_owned),
        ));
    }
    for is in &kernel.ports {
        if !config.ports.iter().any(|port| port.device == is.name) {
            del_ports.push(Step::DelPort {
                device: is.name.clone(),
                ifindex: is.ifindex,
            });
            plan.outcomes.push(outcome(
                Object::Port(is.name.clone()),
                Action::Removed,
                None,
            ));
        }
    }

    let mut set = Vec::new();
    for param in &kernel.params {
        let new = effective(config, kernel, &param.name);
        if new != param.value {
            let why = format!("{} -> {new}", param.value);
            plan.outcomes.push(outcome(
                Object::Parameter(param.name.clone()),
                Action::Set,
                Some(why),
            ));
            set.push(Step::SetParam {
                name: param.name.clone(),
                old: param.value,
                new,
            });
        }
    }
    if config.node.manager != kernel.node.cm_address {
        let (old, new) = (kernel.node.cm_address, config.node.manager);
        plan.outcomes
            .push(outcome(Object::Manager, Action::Set, None));
        set.push(Step::SetManager { old, new });
    }
    let (old, new) = (kernel.rma_space(), config.node.rma);
    if old != new {
        let tell =
            |space: Option<RmaSpace>| space.map_or("by key".into(), |space| space.to_string());
        let why = format!("{} -> {}", tell(old), tell(new));
        plan.outcomes
            .push(outcome(Object::RmaSpace, Action::Set, Some(why)));
        set.push(Step::SetRmaSpace { old, new });
    }
    plan.outcomes.append(&mut conns);

    plan.steps = if everything.is_some() {
        [del_conns, del_ports, set, add_ports, replace_conns].concat()
    } else {
        [
            set,
            add_ports,
            add_conns,
            del_conns,
            replace_conns,
            del_ports,
        ]
        .concat()
    };
    plan
}

fn outcome(object: Object, action: Action, detail: Option<String>) -> Outcome {
    Outcome {
        object,
        action,
        detail,
    }
}

fn index_of(name: &str, kernel: &Snapshot) -> u32 {
    let device = kernel.devices.iter().find(|device| device.device == name);
    // The loopback device is not listed. No device has index 0: the kernel refuses it.
    device
        .map(|device| device.index)
        .or_else(|| device::index(name))
        .unwrap_or(0)
}

/// Why everything has to be made anew, if it has: what the kernel does not change under a connection.
fn fundamental(config: &Configuration, kernel: &Snapshot) -> Option<String> {
    if kernel.ports.is_empty() && kernel.conns.is_empty() {
        return None;
    }
    for name in FUNDAMENTAL {
        let is = kernel.param(name)?.value;
        let new = effective(config, kernel, name);
        if is != new {
            return Some(format!("{name} {is} -> {new}"));
        }
    }
    config.ports.iter().find_map(|port| {
        let is = kernel.port(&port.device)?;
        let mut wanted = port.encap.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let differs = device::encaps(is) != wanted;
        differs.then(|| format!("port {} receives something else", port.device))
    })
}

/// Why a connection of the kernel is not the one that is configured, if it is not. `was` is what was
/// configured before.
fn conn_difference(
    config: &Configuration,
    conn: &Connection,
    was: Option<&Connection>,
    is: &Conn,
    kernel: &Snapshot,
) -> Option<String> {
    // What is left open is the kernel's choice; what was given and is now left open is a change.
    let given = |conn: &Connection| Connection {
        start_psn: 0,
        start_xid: 0,
        parameters: Default::default(),
        ..conn.clone()
    };
    let spec = spec(conn);
    let first = conn.paths.first();
    let peer = first.and_then(|path| path.peer).unwrap_or(conn.peer);
    let hop_limit = conn
        .hop_limit
        .map_or_else(|| effective(config, kernel, "nh_hop_limit"), u64::from);
    let compare = [
        ("peer", is.remote_addr == peer),
        ("peer_cid", is.remote_cid == conn.peer_cid),
        ("encap", is.encap == spec.encap),
        (
            "local",
            conn.local
                .is_none_or(|local| first.is_some() || is.local_addr == local),
        ),
        (
            "device",
            conn.device
                .as_deref()
                .is_none_or(|device| is.ifname.as_deref() == Some(device)),
        ),
        ("lladdr", first.is_some() || is.lladdr == spec.lladdr),
        ("paths", same_paths(conn, &spec, is)),
        ("ordered_tx", is.ordered_tx == conn.ordered_tx),
        ("ordered_rx", is.ordered_rx == conn.ordered_rx),
        ("spray", is.spray == conn.spray),
        ("ext", extensions(is) == conn.ext),
        ("lite", is.lite == conn.lite),
        ("partition", is.partition == conn.partition),
        ("tclass", is.tclass == conn.tclass),
        ("hop_limit", u64::from(is.hop_limit) == hop_limit),
        (
            "flow_label",
            conn.flow_label.is_none_or(|label| is.flow_label == label),
        ),
        ("mtu", conn.mtu.is_none_or(|mtu| is.mtu == mtu)),
        ("start_psn", is.start_psn == Some(conn.start_psn)),
        ("start_xid", is.start_xid == Some(conn.start_xid)),
    ];
    if let Some((member, _)) = compare.iter().find(|(_, same)| !same) {
        return Some(format!("{member} differs"));
    }
    for (name, value) in &is.params.0 {
        let own = conn.parameters.get(name).copied();
        let new = own.unwrap_or_else(|| effective(config, kernel, name));
        if *value != new {
            return Some(format!("{name} {value} -> {new}"));
        }
    }
    let changed = was.is_some_and(|was| given(was) != given(conn));
    changed.then(|| "what was given is left open now, or the other way about".to_owned())
}

/// What the connection was given. With `auto`, what the ends found out is no difference.
fn extensions(is: &Conn) -> Extensions {
    if is.ext_auto {
        Extensions::Auto
    } else {
        is.ext.into()
    }
}

fn same_paths(conn: &Connection, spec: &ConnSpec, is: &Conn) -> bool {
    if conn.paths.is_empty() {
        return is.paths.len() <= 1;
    }
    let paths = conn.paths.iter().zip(&spec.paths).zip(&is.paths);
    is.paths.len() == conn.paths.len()
        && paths.into_iter().all(|((path, spec), is)| {
            let local = path.local.or(conn.local);
            is.ifname.as_ref() == Some(&path.device)
                && is.remote_addr == path.peer.unwrap_or(conn.peer)
                && local.is_none_or(|local| is.local_addr == local)
                && is.lladdr == spec.lladdr
        })
}

/// Where the kernel is not as configured, in sentences.
pub(crate) fn differences(config: &Configuration, kernel: &Snapshot) -> Vec<String> {
    let plan = plan(config, Some(config), kernel);
    let changes = plan.outcomes.into_iter();
    let changes = changes.filter(|outcome| outcome.action != Action::Unchanged);
    let sentence = |outcome: Outcome| {
        let Outcome {
            object,
            action,
            detail,
        } = outcome;
        let what = match action {
            Action::Created => "is missing",
            Action::Removed => "is not of the configuration",
            _ => "is not as configured",
        };
        match detail {
            Some(detail) => format!("{object} {what}: {detail}"),
            None => format!("{object} {what}"),
        }
    };
    changes.map(sentence).collect()
}

/// The request that creates a connection. Ethernet addresses that are none were refused before.
pub(crate) fn spec(conn: &Connection) -> ConnSpec {
    let mac = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Mac>().ok());
    let path = |path: &superp_control::Path| PathSpec {
        ifindex: device::index(&path.device).unwrap_or(0),
        local_addr: path.local,
        remote_addr: path.peer,
        lladdr: mac(&path.lladdr),
    };
    ConnSpec {
        local_cid: Some(conn.cid),
        remote_cid: conn.peer_cid,
        encap: match conn.encap {
            Encap::Sunh => superp_netlink::Encap::Sunh,
            Encap::Udp4 => superp_netlink::Encap::Udp4,
            Encap::Udp6 => superp_netlink::Encap::Udp6,
        },
        ifindex: conn
            .device
            .as_ref()
            .map(|device| device::index(device).unwrap_or(0)),
        local_addr: conn.local,
        remote_addr: Some(conn.peer),
        lladdr: mac(&conn.lladdr),
        paths: conn.paths.iter().map(path).collect(),
        ordered_tx: Some(conn.ordered_tx),
        spray: Some(conn.spray),
        ordered_rx: Some(conn.ordered_rx),
        ext: conn.ext.fixed(),
        lite: Some(conn.lite),
        partition: Some(conn.partition),
        tclass: Some(conn.tclass),
        hop_limit: conn.hop_limit,
        flow_label: conn.flow_label,
        mtu: conn.mtu,
        start_psn: Some(conn.start_psn),
        start_xid: Some(conn.start_xid),
        params: conn.parameters.clone().into_iter().collect(),
    }
}
