// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The agent of one node: what it answers, and what it does for the manager. Everything here blocks.

use crate::apply::apply;
use crate::kernel::{owners, Snapshot};
use crate::plan::{differences, plan};
use crate::reports::{connection_state, link_state, Log};
use crate::store::{Kept, Phase, Store};
use crate::{check, device, reap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use superp_control::{
    Action, Capabilities, Cids, Command, Configuration, Configure, Configured, ConnectionStatus,
    Encap, Fault, ModuleVersion, NodeState, Object, Outcome, Parameter, PathStatus, Problem,
    ProblemKind, Protocol, Reset, Shutdown, ShutdownComplete, Start, Status, API_VERSION,
};
use superp_netlink::{Client, Conn, ConnState, Error};

/// The specification that the module implements.
const SPECIFICATION: &str = "0.4";
const FEATURES: [&str; 8] = [
    "ext",
    "lite",
    "paths",
    "spray",
    "sunh",
    "udp4",
    "udp6",
    "unordered",
];

/// Longest time from SIGTERM to SIGKILL.
const GRACE_MAX: u64 = 60_000;

type Result<T> = std::result::Result<T, Box<Problem>>;

/// The agent.
pub(crate) struct Agent {
    instance: String,
    store: Store,
    /// Held while something is changed, so that requests do so one after another.
    changing: Mutex<()>,
    kept: Mutex<Kept>,
    pub(crate) log: Arc<Log>,
}

fn problem<T>(kind: ProblemKind, status: u16, detail: impl Into<String>) -> Result<T> {
    Err(Box::new(Problem::new(kind, status, detail)))
}

/// A failed netlink request, outside of a plan.
fn netlink(error: Error) -> Box<Problem> {
    let (kind, status) = match error {
        Error::NotLoaded => (ProblemKind::NoModule, 503),
        Error::Refused(_) => (ProblemKind::KernelRefused, 422),
        Error::Io(_) | Error::Answer(_) => (ProblemKind::Failed, 500),
    };
    let text = match error {
        Error::NotLoaded => format!("{error}: load it with modprobe superp"),
        error => error.to_string(),
    };
    Box::new(Problem::new(kind, status, text))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic could leave half done is found by comparison with the kernel.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    pub(crate) fn new(instance: String, store: Store, kept: Kept, log: Arc<Log>) -> Self {
        Self {
            instance,
            store,
            changing: Mutex::default(),
            kept: Mutex::new(kept),
            log,
        }
    }

    fn kept(&self) -> Kept {
        lock(&self.kept).clone()
    }

    /// Keeps this, on disk first.
    fn keep(&self, kept: Kept) -> Result<()> {
        if let Err(error) = self.store.write(&kept) {
            let text = format!("the state directory cannot be written: {error}");
            return problem(ProblemKind::Failed, 500, text);
        }
        *lock(&self.kept) = kept;
        Ok(())
    }

    /// Takes note of a manager's term; refuses one that is not the newest, and one
    /// that no manager can have.
    fn fence(&self, term: u64) -> Result<Kept> {
        if i64::try_from(term).is_err() {
            return Err(invalid(vec![Fault {
                pointer: "/term".into(),
                detail: format!("{term} is out of range: 0 to {}", i64::MAX),
            }]));
        }
        let kept = self.kept();
        if term < kept.term {
            let text = format!(
                "the term {term} is over: a manager with term {} has been here",
                kept.term
            );
            let mut stale = Problem::new(ProblemKind::StaleTerm, 409, text);
            (stale.term, stale.highest_term) = (Some(term), Some(kept.term));
            return Err(Box::new(stale));
        }
        if term > kept.term {
            tracing::info!(term, "a new term");
            self.keep(Kept { term, ..kept })?;
        }
        Ok(self.kept())
    }

    /// The configuration in force, if it is that generation.
    fn in_force(&self, kept: &Kept, generation: u64) -> Result<Configuration> {
        let Some(configuration) = &kept.configuration else {
            let text = "the node has no configuration: PUT /v1/configuration first";
            return problem(ProblemKind::State, 409, text);
        };
        if configuration.generation != generation {
            return Err(wrong_generation(
                configuration.generation,
                format!(
                    "generation {generation} is meant, and {} is in force",
                    configuration.generation
                ),
            ));
        }
        Ok(configuration.clone())
    }

    /// Whether the kernel answers.
    pub(crate) fn probe(&self) -> std::result::Result<(), Error> {
        Client::open()?.node().map(drop)
    }

    pub(crate) fn capabilities(&self) -> Result<Capabilities> {
        let mut client = Client::open().map_err(netlink)?;
        let kernel = Snapshot::read(&mut client, false).map_err(netlink)?;
        let failed = |error: std::io::Error| netlink(Error::Io(error));
        let window = kernel.param("pdl_window_size");
        let limit = kernel.param("pdl_conns_per_xpu");
        Ok(Capabilities {
            api_version: API_VERSION.to_owned(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: self.instance.clone(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            module: ModuleVersion {
                version: kernel.node.module_version.clone(),
                uapi: kernel.node.uapi_version,
            },
            protocol: Protocol {
                version: SPECIFICATION.to_owned(),
                features: FEATURES.map(str::to_owned).into(),
                ethertype: kernel.node.ethertype,
                next_header: kernel.node.next_header,
                udp_port: kernel.node.udp_port,
                caddr_bits: kernel.node.caddr_bits,
            },
            memory: device::memory().map_err(failed)?,
            window_max: window.map_or(0, |window| window.max),
            cids: Cids {
                first: 1,
                last: u16::MAX,
                connections_max: limit.map_or(0, |limit| limit.value),
                in_use: kernel.conns.iter().map(|conn| conn.local_cid).collect(),
            },
            parameters: kernel.params.iter().map(parameter).collect(),
            devices: kernel.devices,
        })
    }

    pub(crate) fn configuration(&self) -> Result<Configure> {
        let kept = self.kept();
        match kept.configuration {
            Some(configuration) => Ok(Configure {
                term: kept.term,
                configuration,
            }),
            None => problem(ProblemKind::NotFound, 404, "the node has no configuration"),
        }
    }

    pub(crate) fn status(&self, counters: bool) -> Result<Status> {
        let kept = self.kept();
        let mut client = Client::open().map_err(netlink)?;
        let kernel = Snapshot::read(&mut client, counters).map_err(netlink)?;
        let stats = client.stats().map_err(netlink)?;
        let configuration = kept.configuration.as_ref();
        let differences =
            configuration.map_or_else(Vec::new, |config| differences(config, &kernel));
        Ok(Status {
            instance: self.instance.clone(),
            state: state(kept.phase, !differences.is_empty()),
            fabric: configuration.map(|config| config.fabric.clone()),
            generation: configuration.map(|config| config.generation),
            term: kept.term,
            differences,
            queue_pairs: kernel.node.qps,
            regions: kernel.node.regions,
            drops: stats
                .0
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
            last_report: self.log.last(),
            connections: kernel.conns.into_iter().map(connection).collect(),
            devices: kernel.devices,
        })
    }

    pub(crate) fn configure(&self, body: Configure) -> Result<Configured> {
        let _changing = lock(&self.changing);
        let kept = self.fence(body.term)?;
        let new = body.configuration;
        if let Some(old) = &kept.configuration {
            succeeds(old, &new)?;
        }
        let mut client = Client::open().map_err(netlink)?;
        let kernel = Snapshot::read(&mut client, false).map_err(netlink)?;
        let faults = check::faults(&new, &kernel);
        if !faults.is_empty() {
            return Err(invalid(faults));
        }
        let plan = plan(&new, kept.configuration.as_ref(), &kernel);
        let generation = new.generation;
        let same = kept.configuration.as_ref() == Some(&new) && kept.phase != Phase::Applying;
        if plan.steps.is_empty() && same {
            return Ok(Configured {
                state: state(kept.phase, false),
                generation,
                changed: false,
                outcomes: plan.outcomes,
            });
        }
        let changed = !plan.steps.is_empty();
        tracing::info!(generation, steps = plan.steps.len(), "configuring");
        // If this ends here, it is known what was to be.
        let applying = Kept {
            term: kept.term,
            phase: Phase::Applying,
            configuration: Some(new),
        };
        self.keep(applying.clone())?;
        match apply(&mut client, plan) {
            Ok(outcomes) => {
                self.keep(Kept {
                    phase: Phase::Ready,
                    ..applying
                })?;
                tracing::info!(generation, "ready");
                Ok(Configured {
                    state: NodeState::Ready,
                    generation,
                    changed,
                    outcomes,
                })
            }
            Err(failure) => {
                let what = format!("the kernel refused {}: {}", failure.object, failure.error);
                tracing::error!(generation, partial = failure.partial, "{what}");
                let mut refused = if failure.partial {
                    let text = format!("{what}; a part is changed, the same request again goes on");
                    Problem::new(ProblemKind::Partial, 500, text)
                } else {
                    self.keep(kept)?;
                    let text = format!("{what}; nothing is changed");
                    Problem::new(ProblemKind::KernelRefused, 422, text)
                };
                refused.outcomes = failure.outcomes;
                Err(Box::new(refused))
            }
        }
    }

    pub(crate) fn start(&self, body: Start) -> Result<Configured> {
        let _changing = lock(&self.changing);
        let kept = self.fence(body.term)?;
        let configuration = self.in_force(&kept, body.generation)?;
        let mut client = Client::open().map_err(netlink)?;
        let kernel = Snapshot::read(&mut client, false).map_err(netlink)?;
        let differences = differences(&configuration, &kernel);
        if kept.phase == Phase::Applying || !differences.is_empty() {
            let text = format!(
                "the node is not as configured, PUT the configuration again: {}",
                differences.join("; ")
            );
            return problem(ProblemKind::State, 409, text);
        }
        let outcomes: Vec<Outcome> = kernel
            .conns
            .iter()
            .map(|conn| match body.hold.contains(&conn.local_cid) {
                true => unchanged(conn, "held".into()),
                false => started(&mut client, conn),
            })
            .collect();
        let failed = outcomes
            .iter()
            .filter(|outcome| outcome.action == Action::Failed)
            .count();
        if failed > 0 {
            let text =
                format!("{failed} connections cannot be started; the same request again goes on");
            let mut partial = Problem::new(ProblemKind::Partial, 500, text);
            partial.outcomes = outcomes;
            return Err(Box::new(partial));
        }
        self.keep(Kept {
            phase: Phase::Started,
            ..kept
        })?;
        let changed = outcomes
            .iter()
            .any(|outcome| outcome.action == Action::Started);
        tracing::info!(generation = body.generation, changed, "started");
        Ok(Configured {
            state: NodeState::Started,
            generation: body.generation,
            changed,
            outcomes,
        })
    }

    /// Does something with a connection that is configured, and tells what it is then.
    fn with_connection(
        &self,
        cid: u16,
        Command { term, generation }: Command,
        change: impl FnOnce(&mut Client, &Conn) -> Result<()>,
    ) -> Result<ConnectionStatus> {
        let _changing = lock(&self.changing);
        let kept = self.fence(term)?;
        let configuration = self.in_force(&kept, generation)?;
        if !configuration.connections.iter().any(|conn| conn.cid == cid) {
            let text = format!("connection {cid} is not of the configuration");
            return problem(ProblemKind::NotFound, 404, text);
        }
        let mut client = Client::open().map_err(netlink)?;
        let conns = client.conns(false).map_err(netlink)?;
        let Some(conn) = conns.iter().find(|conn| conn.local_cid == cid) else {
            let text = format!("the kernel has no connection {cid}: PUT the configuration again");
            return problem(ProblemKind::State, 409, text);
        };
        change(&mut client, conn)?;
        client.conn(cid, false).map(connection).map_err(netlink)
    }

    pub(crate) fn start_connection(&self, cid: u16, body: Command) -> Result<ConnectionStatus> {
        self.with_connection(cid, body, |client, conn| match conn.state {
            ConnState::Established => Ok(()),
            ConnState::Created => client.start_conn(cid).map_err(netlink),
            state => wrong_state(conn, format!("{state}: reset it first")),
        })
    }

    pub(crate) fn stop_connection(&self, cid: u16, body: Command) -> Result<ConnectionStatus> {
        self.with_connection(cid, body, |client, conn| match conn.state {
            ConnState::Draining | ConnState::Stopped => Ok(()),
            ConnState::Created | ConnState::Established => client.stop_conn(cid).map_err(netlink),
            state => wrong_state(conn, format!("{state}: there is nothing to complete")),
        })
    }

    pub(crate) fn reset_connection(&self, cid: u16, body: Reset) -> Result<ConnectionStatus> {
        let command = Command {
            term: body.term,
            generation: body.generation,
        };
        self.with_connection(cid, command, |client, conn| {
            if !body.hard && conn.state != ConnState::Stopped {
                let text = format!(
                    "{}, not stopped: stop it first, or reset it hard",
                    conn.state
                );
                return wrong_state(conn, text);
            }
            // The new life is what is configured from now on, and that is noted first: an agent that
            // ended between finds a difference, and the connection is made anew with these numbers,
            // never with those of the life before.
            let before = self.kept();
            let mut kept = before.clone();
            let all = kept
                .configuration
                .iter_mut()
                .flat_map(|config| &mut config.connections);
            for configured in all.filter(|configured| configured.cid == cid) {
                configured.start_psn = body.start_psn.or(conn.start_psn).unwrap_or_default();
                configured.start_xid = body.start_xid.or(conn.start_xid).unwrap_or_default();
            }
            self.keep(kept)?;
            if let Err(error) = client.reset_conn(cid, body.start_psn, body.start_xid) {
                self.keep(before)?;
                return Err(netlink(error));
            }
            tracing::info!(cid, hard = body.hard, "connection reset");
            Ok(())
        })
    }

    pub(crate) fn shutdown(&self, body: Shutdown) -> Result<ShutdownComplete> {
        if body.grace_ms > GRACE_MAX {
            return Err(invalid(vec![Fault {
                pointer: "/grace_ms".into(),
                detail: format!("{} is out of range: 0 to {GRACE_MAX}", body.grace_ms),
            }]));
        }
        let _changing = lock(&self.changing);
        let kept = self.fence(body.term)?;
        tracing::warn!(grace_ms = body.grace_ms, "shutting the node down");
        let mut client = Client::open().map_err(netlink)?;
        let conns = client.conns(false).map_err(netlink)?;
        for conn in &conns {
            gone(client.del_conn(conn.local_cid))?;
        }
        let grace = Duration::from_millis(body.grace_ms);
        let processes = reap::end_applications(&mut client, grace).map_err(netlink)?;
        let routes = client.routes().map_err(netlink)?;
        for route in &routes {
            gone(client.del_route(route.address, Some(route.ifindex)))?;
        }
        let ports = client.ports().map_err(netlink)?;
        for port in &ports {
            gone(client.del_port(port.ifindex))?;
        }
        let node = client.node().map_err(netlink)?;
        if node.qps > 0 || node.regions > 0 {
            let left = owners(&mut client).map_err(netlink)?;
            let text = format!(
                "{} queue pairs and {} regions are left, of processes {left:?}; who is not named is \
                 of another pid namespace",
                node.qps, node.regions
            );
            return problem(ProblemKind::Partial, 500, text);
        }
        if node.rma_base != 0 {
            client.set_rma_space(0, 0).map_err(netlink)?;
        }
        self.keep(Kept {
            term: kept.term,
            phase: Phase::ShutDown,
            configuration: None,
        })?;
        tracing::warn!(ended = processes.len(), "node shutdown complete");
        Ok(ShutdownComplete {
            state: NodeState::ShutDown,
            connections: count(conns.len()),
            ports: count(ports.len()),
            processes,
        })
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The removal of something, which may have gone by itself.
fn gone(removed: std::result::Result<(), Error>) -> Result<()> {
    const ENOENT: i32 = 2;
    const ENODEV: i32 = 19;
    match removed {
        Err(error) if !matches!(error.errno(), Some(ENOENT | ENODEV)) => Err(netlink(error)),
        _ => Ok(()),
    }
}

fn state(phase: Phase, differs: bool) -> NodeState {
    match phase {
        Phase::Unconfigured => NodeState::Unconfigured,
        Phase::ShutDown => NodeState::ShutDown,
        Phase::Applying => NodeState::Partial,
        _ if differs => NodeState::Partial,
        Phase::Ready => NodeState::Ready,
        Phase::Started => NodeState::Started,
    }
}

fn wrong_generation(in_force: u64, detail: String) -> Box<Problem> {
    let mut wrong = Problem::new(ProblemKind::Generation, 409, detail);
    wrong.generation = Some(in_force);
    Box::new(wrong)
}

fn wrong_state<T>(conn: &Conn, what: String) -> Result<T> {
    let text = format!("connection {} is {what}", conn.local_cid);
    problem(ProblemKind::State, 409, text)
}

fn invalid(faults: Vec<Fault>) -> Box<Problem> {
    let text = match &faults[..] {
        [fault] => format!("{}: {}; nothing was changed", fault.pointer, fault.detail),
        faults => format!(
            "there are {} mistakes in it; nothing was changed",
            faults.len()
        ),
    };
    let mut invalid = Problem::new(ProblemKind::Invalid, 422, text);
    invalid.faults = faults;
    Box::new(invalid)
}

/// Whether a configuration may follow another one.
fn succeeds(old: &Configuration, new: &Configuration) -> Result<()> {
    if old.fabric != new.fabric {
        let text = format!(
            "the node is of fabric {}, not {}: POST /v1/shutdown first",
            old.fabric, new.fabric
        );
        return problem(ProblemKind::State, 409, text);
    }
    if new.generation < old.generation {
        let text = format!(
            "generation {} is older than {}, which is in force: use a higher one",
            new.generation, old.generation
        );
        return Err(wrong_generation(old.generation, text));
    }
    if new.generation == old.generation && new != old {
        let text = format!(
            "generation {} has another content: use a higher one",
            new.generation
        );
        return Err(wrong_generation(old.generation, text));
    }
    Ok(())
}

fn started(client: &mut Client, conn: &Conn) -> Outcome {
    let (action, detail) = match conn.state {
        ConnState::Created => match client.start_conn(conn.local_cid) {
            Ok(()) => (Action::Started, None),
            Err(error) => (Action::Failed, Some(error.to_string())),
        },
        ConnState::Established => (Action::Unchanged, None),
        state => return unchanged(conn, format!("{state}: reset it first")),
    };
    Outcome {
        object: Object::Connection(conn.local_cid),
        action,
        detail,
    }
}

fn unchanged(conn: &Conn, why: String) -> Outcome {
    Outcome {
        object: Object::Connection(conn.local_cid),
        action: Action::Unchanged,
        detail: Some(why),
    }
}

fn parameter(param: &superp_netlink::Param) -> Parameter {
    Parameter {
        name: param.name.clone(),
        value: param.value,
        min: param.min,
        max: param.max,
        default: param.default,
        unit: param.unit.clone(),
        per_connection: param.per_conn,
        doc: param.doc.clone(),
    }
}

fn connection(conn: Conn) -> ConnectionStatus {
    let path = |path: superp_netlink::Path| PathStatus {
        device: path.ifname,
        local: path.local_addr,
        peer: path.remote_addr,
        state: link_state(path.state),
        tx_packets: path.tx_packets,
        rx_packets: path.rx_packets,
    };
    ConnectionStatus {
        cid: conn.local_cid,
        peer: conn.remote_addr,
        peer_cid: conn.remote_cid,
        encap: match conn.encap {
            superp_netlink::Encap::Sunh => Encap::Sunh,
            superp_netlink::Encap::Udp4 => Encap::Udp4,
            superp_netlink::Encap::Udp6 => Encap::Udp6,
        },
        local: conn.local_addr,
        state: connection_state(conn.state),
        cause: conn.cause,
        mtu: conn.mtu,
        start_psn: conn.start_psn.unwrap_or_default(),
        start_xid: conn.start_xid.unwrap_or_default(),
        paths: conn.paths.into_iter().map(path).collect(),
        counters: conn.stats.map(|stats| stats.0.into_iter().collect()),
    }
}
