// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The status in the text format of Prometheus.

use std::collections::BTreeMap;
use superp_control::prometheus::Text;
use superp_control::{ConnectionState, LinkState, NodeState, Status};

/// Most connections with counters of their own: what a scrape costs is bounded. The sums are of all.
const CONNECTIONS: usize = 256;

/// What of a connection's counters goes down as well as up.
const GAUGES: [&str; 4] = ["rto-ns", "rttvar-ns", "rx-window", "srtt-ns"];

/// The metrics of a node.
pub(crate) fn metrics(status: &Status) -> String {
    let mut text = Text::default();
    text.family("superp_agent_info", "gauge", "The agent, always 1.");
    let info = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("instance", &status.instance),
    ];
    text.sample("superp_agent_info", &info, 1);

    text.family(
        "superp_node_state",
        "gauge",
        "1 for the state that the node is in.",
    );
    for state in [
        NodeState::Unconfigured,
        NodeState::Ready,
        NodeState::Started,
        NodeState::Partial,
        NodeState::ShutDown,
    ] {
        let is = u64::from(state == status.state);
        text.sample("superp_node_state", &[("state", &state.to_string())], is);
    }
    let numbers = [
        (
            "superp_node_generation",
            "Generation in force, 0 for none.",
            status.generation.unwrap_or(0),
        ),
        ("superp_node_term", "Highest term seen.", status.term),
        (
            "superp_node_differences",
            "Objects that are not as configured.",
            status.differences.len() as u64,
        ),
        (
            "superp_node_queue_pairs",
            "Queue pairs.",
            status.queue_pairs.into(),
        ),
        (
            "superp_node_regions",
            "Memory regions.",
            status.regions.into(),
        ),
        (
            "superp_node_reports",
            "Number of the last report.",
            status.last_report,
        ),
    ];
    for (name, help, value) in numbers {
        text.family(name, "gauge", help);
        text.sample(name, &[], value);
    }

    text.family(
        "superp_port_up",
        "gauge",
        "Whether a port can send and receive.",
    );
    for device in status
        .devices
        .iter()
        .filter(|device| !device.port.is_empty())
    {
        let up = u64::from(device.state == LinkState::Up);
        text.sample("superp_port_up", &[("device", &device.device)], up);
    }
    text.family(
        "superp_drops_total",
        "counter",
        "Packets received and dropped, by reason.",
    );
    for (reason, count) in &status.drops {
        text.sample("superp_drops_total", &[("reason", reason)], *count);
    }
    connections(&mut text, status);
    text.into()
}

/// A counter: its sum, and the values of connections by their place in the status.
type Counter = (u64, Vec<(usize, u64)>);

fn connections(text: &mut Text, status: &Status) {
    text.family("superp_connections", "gauge", "Connections, by state.");
    for state in [
        ConnectionState::Created,
        ConnectionState::Established,
        ConnectionState::Draining,
        ConnectionState::Stopped,
        ConnectionState::Broken,
    ] {
        let conns = status.connections.iter().filter(|conn| conn.state == state);
        text.sample(
            "superp_connections",
            &[("state", &state.to_string())],
            conns.count() as u64,
        );
    }
    // By counter, as the format wants it: the sum and each connection's.
    let mut counters: BTreeMap<&str, Counter> = BTreeMap::new();
    for (i, conn) in status.connections.iter().enumerate() {
        for (name, value) in conn.counters.iter().flatten() {
            let (sum, each) = counters.entry(name).or_default();
            *sum = sum.saturating_add(*value);
            if i < CONNECTIONS {
                each.push((i, *value));
            }
        }
    }
    for (name, (sum, each)) in counters {
        let gauge = GAUGES.contains(&name);
        let (kind, total) = if gauge {
            ("gauge", "")
        } else {
            ("counter", "_total")
        };
        let metric = name.replace('-', "_");
        if !gauge {
            let all = format!("superp_node_{metric}_total");
            text.family(
                &all,
                kind,
                &format!("Sum of {name} of all connections that there are."),
            );
            text.sample(&all, &[], sum);
        }
        let own = format!("superp_connection_{metric}{total}");
        text.family(&own, kind, &format!("Counter {name} of a connection."));
        for (i, value) in each {
            let Some(conn) = status.connections.get(i) else {
                continue;
            };
            let (cid, peer) = (conn.cid.to_string(), conn.peer.to_string());
            text.sample(&own, &[("cid", &cid), ("peer", &peer)], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(connections: u16) -> Status {
        let conn = |cid| {
            json!({ "cid": cid, "peer": "10.0.0.2", "peer_cid": 1, "encap": "sunh", "local": "10.0.0.1",
                "state": "established", "mtu": 1484, "start_psn": 0, "start_xid": 0, "paths": [],
                "counters": { "tx-packets": 2, "srtt-ns": 5 } })
        };
        let connections: Vec<_> = (1..=connections).map(conn).collect();
        let device = json!({ "device": "eth\"0", "index": 1, "mtu": 9000, "state": "up", "addresses": [],
            "port": ["sunh"] });
        serde_json::from_value(
            json!({ "instance": "a", "state": "started", "generation": 7, "term": 3,
            "differences": [], "devices": [device], "connections": connections, "queue_pairs": 1,
            "regions": 0, "drops": { "no_conn": 4 }, "last_report": 9 }),
        )
        .unwrap()
    }

    #[test]
    fn every_number_has_its_line() {
        let text = metrics(&status(2));
        for line in [
            "superp_node_state{state=\"started\"} 1",
            "superp_node_state{state=\"ready\"} 0",
            "superp_node_generation 7",
            "superp_port_up{device=\"eth\\\"0\"} 1",
            "superp_drops_total{reason=\"no_conn\"} 4",
            "superp_connections{state=\"established\"} 2",
            "# TYPE superp_connection_tx_packets_total counter",
            "superp_connection_tx_packets_total{cid=\"2\",peer=\"10.0.0.2\"} 2",
            "superp_node_tx_packets_total 4",
            "superp_connection_srtt_ns{cid=\"1\",peer=\"10.0.0.2\"} 5",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn number_of_lines_is_bounded_and_the_sums_are_whole() {
        let text = metrics(&status(1000));
        let own = text
            .lines()
            .filter(|line| line.starts_with("superp_connection_tx_packets_total{"));
        assert_eq!(own.count(), CONNECTIONS);
        assert!(text.contains("\nsuperp_node_tx_packets_total 2000\n"));
    }
}
