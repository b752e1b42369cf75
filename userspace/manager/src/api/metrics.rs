// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The manager and the fabric in the text format of Prometheus. How many lines there are does not depend
//! on how many nodes and connections there are.

use super::{conn_status, status, FabricStatus};
use crate::decide::{Command, Seen};
use crate::engine::Counts;
use crate::state::{Phase, State, Want};
use std::collections::BTreeMap;
use superp_control::manager::EVENT_KINDS;
use superp_control::prometheus::Text;
use superp_control::{ConnectionState, NodeState};

/// Counts by name, with a zero for each name that did not occur.
fn by_name(text: &mut Text, metric: &str, label: &str, names: &[String], found: &[String]) {
    for name in names {
        let count = found.iter().filter(|found| *found == name).count();
        text.sample(metric, &[(label, name)], count as u64);
    }
}

/// What is not told by an agent.
const UNKNOWN: &str = "unknown";

/// What every manager tells.
fn manager(leads: bool) -> Text {
    let mut text = Text::default();
    text.family("superp_cm_info", "gauge", "The manager, always 1.");
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.sample("superp_cm_info", &version, 1);
    text.family("superp_cm_leads", "gauge", "1 for the manager that leads.");
    text.sample("superp_cm_leads", &[], u64::from(leads));
    text
}

/// The metrics of a manager that does not lead.
pub(super) fn standby() -> String {
    manager(false).into()
}

/// The metrics.
pub(super) fn metrics(
    fabric: &FabricStatus,
    state: &State,
    seen: &BTreeMap<String, Seen>,
    counts: &Counts,
    last_event: u64,
) -> String {
    let mut text = manager(true);
    let metric = "superp_fabric_phase";
    text.family(metric, "gauge", "1 for the phase that the fabric is in.");
    for phase in [
        Phase::Empty,
        Phase::Booting,
        Phase::Running,
        Phase::ShuttingDown,
        Phase::Down,
    ] {
        let is = u64::from(phase == fabric.phase);
        text.sample(metric, &[("phase", &phase.to_string())], is);
    }
    let leaving = state.nodes.values().filter(|node| node.leaving).count();
    for (metric, help, value) in [
        ("superp_cm_term", "The term.", fabric.term),
        (
            "superp_fabric_generation",
            "Number of the configuration that is wanted.",
            fabric.generation,
        ),
        (
            "superp_fabric_started_generation",
            "Number of the last configuration that was started.",
            fabric.started,
        ),
        (
            "superp_fabric_nodes_ready",
            "Nodes that have the configuration that is wanted.",
            fabric.nodes_ready as u64,
        ),
        (
            "superp_fabric_nodes_leaving",
            "Nodes that are removed from the fabric once they are shut down.",
            leaving as u64,
        ),
        (
            "superp_fabric_connections_running",
            "Connections that run at both ends.",
            fabric.connections_running as u64,
        ),
        (
            "superp_fabric_waiting",
            "Things that are waited for.",
            fabric.waiting.len() as u64,
        ),
        (
            "superp_cm_last_event",
            "Number of the last event.",
            last_event,
        ),
        (
            "superp_cm_event_streams",
            "Event streams that there are.",
            counts.streams,
        ),
    ] {
        text.family(metric, "gauge", help);
        text.sample(metric, &[], value);
    }
    states(&mut text, state, seen);
    totals(&mut text, counts);
    text.into()
}

fn states(text: &mut Text, state: &State, seen: &BTreeMap<String, Seen>) {
    let metric = "superp_fabric_nodes";
    text.family(
        metric,
        "gauge",
        "Nodes, by the state that their agents tell; unknown if one does not answer.",
    );
    let mut names = [
        NodeState::Unconfigured,
        NodeState::Ready,
        NodeState::Started,
        NodeState::Partial,
        NodeState::ShutDown,
    ]
    .map(|state| state.to_string())
    .to_vec();
    names.push(UNKNOWN.into());
    let told = |name: &String| {
        status(seen, name).map_or(UNKNOWN.into(), |status| status.state.to_string())
    };
    let found: Vec<_> = state.members().map(|(name, _)| told(name)).collect();
    by_name(text, metric, "state", &names, &found);

    let metric = "superp_fabric_connections";
    text.family(
        metric,
        "gauge",
        "Connections, by what is to become of them.",
    );
    let names = [Want::Run, Want::Restart, Want::Stop, Want::Hold].map(|want| want.to_string());
    let found: Vec<_> = state
        .conns
        .values()
        .map(|conn| conn.want.to_string())
        .collect();
    by_name(text, metric, "want", &names, &found);

    let metric = "superp_fabric_connection_ends";
    text.family(
        metric,
        "gauge",
        "Ends of connections, by the state that their agents tell; unknown if one does not, or has not the connection.",
    );
    let mut names = [
        ConnectionState::Created,
        ConnectionState::Established,
        ConnectionState::Draining,
        ConnectionState::Stopped,
        ConnectionState::Broken,
    ]
    .map(|state| state.to_string())
    .to_vec();
    names.push(UNKNOWN.into());
    let ends = state
        .conns
        .iter()
        .flat_map(|(key, conn)| key.ends().into_iter().zip(&conn.nodes));
    let found: Vec<_> = ends
        .map(|(end, node)| {
            conn_status(seen, node, end.cid).map_or(UNKNOWN.into(), |end| end.state.to_string())
        })
        .collect();
    by_name(text, metric, "state", &names, &found);
}

fn totals(text: &mut Text, counts: &Counts) {
    let metric = "superp_cm_commands_total";
    text.family(
        metric,
        "counter",
        "Commands to agents, by what was asked and what became of it.",
    );
    for name in Command::NAMES {
        for (result, counts) in [("done", &counts.done), ("failed", &counts.failed)] {
            let count = counts.get(name).copied().unwrap_or(0);
            text.sample(metric, &[("command", name), ("result", result)], count);
        }
    }
    let metric = "superp_cm_events_total";
    text.family(metric, "counter", "Events that were stored, by kind.");
    for kind in EVENT_KINDS {
        let count = counts.events.get(kind).copied().unwrap_or(0);
        text.sample(metric, &[("kind", kind)], count);
    }
    let metric = "superp_cm_store_failures_total";
    text.family(metric, "counter", "Writes of the store that failed.");
    text.sample(metric, &[], counts.store_failures);
}
