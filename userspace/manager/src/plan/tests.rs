// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Plans on top of plans.

use super::*;
use crate::fabric::read;

fn fabric(nodes: &str, connections: &str) -> Fabric {
    let text = format!(
        "fabric = \"lab\"\n[[nodes]]\nhosts = \"{nodes}\"\nagent = \"10.0.0.{{n}}:7779\"\n\
         address = \"10.23.0.{{n}}\"\nports = [{{ dev = \"eth0\" }}]\n{connections}"
    );
    read(&text).unwrap()
}

fn mesh(nodes: &str) -> Fabric {
    fabric(nodes, &format!("[[connections]]\nmesh = \"{nodes}\"\n"))
}

/// Plans and carries out; what it was.
fn apply(state: &mut State, fabric: &Fabric, now: u64) -> Plan {
    let (plan, changes) = plan(fabric, state, now).unwrap();
    changes.iter().for_each(|change| state.apply(change));
    plan
}

fn keys(state: &State) -> Vec<String> {
    state.conns.keys().map(ToString::to_string).collect()
}

#[test]
fn ids_are_the_smallest_and_always_the_same() {
    let mut state = State::default();
    let first = apply(&mut state, &mesh("x[1-3]"), 0);
    assert_eq!(
        keys(&state),
        [
            "1@10.23.0.1-1@10.23.0.2",
            "2@10.23.0.1-1@10.23.0.3",
            "2@10.23.0.2-2@10.23.0.3"
        ]
    );
    assert_eq!((first.generation, first.changed), (1, true));
    let ids: Vec<_> = first.nodes["x2"]
        .connections
        .iter()
        .map(|c| (c.cid, c.peer.as_str(), c.peer_cid))
        .collect();
    assert_eq!(ids, [(1, "x1", 1), (2, "x3", 2)]);
    assert_eq!(first, apply(&mut State::default(), &mesh("x[1-3]"), 0));
}

#[test]
fn same_file_again_changes_nothing() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-4]"), 0);
    let before = state.clone();
    let again = apply(&mut state, &mesh("x[1-4]"), 1);
    assert_eq!((again.changed, again.generation), (false, 1));
    assert_eq!(again.differences, Vec::<String>::new());
    assert_eq!(state, before);
}

#[test]
fn connections_that_stay_keep_their_ids_and_their_life() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-3]"), 0);
    for conn in state.conns.values_mut() {
        *conn = next_life(conn, 5);
    }
    let plan = apply(&mut state, &mesh("x[1-4]"), 0);
    assert_eq!(plan.generation, 2);
    assert_eq!(
        plan.differences,
        [
            "node x4: new",
            "connection x1 to x4: new, 3@10.23.0.1-1@10.23.0.4",
            "connection x2 to x4: new, 3@10.23.0.2-2@10.23.0.4",
            "connection x3 to x4: new, 3@10.23.0.3-3@10.23.0.4",
        ]
    );
    let old = &state.conns[&"1@10.23.0.1-1@10.23.0.2".parse().unwrap()];
    assert_eq!((old.born, old.life), (1, 1));
    assert_eq!(old.start_psn, FAR + 5);
}

#[test]
fn ids_are_not_used_again_before_their_quarantine_is_over() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-2]"), 0);
    let quarantine = quarantine_ms(&state.conns.values().next().unwrap().settings);
    assert!(quarantine > 1000);
    let other = |partition: u32| {
        fabric(
            "x[1-2]",
            &format!("[[connections]]\nmesh = \"x[1-2]\"\npartition = {partition}\n"),
        )
    };
    // What is removed by the same plan counts as used.
    let plan = apply(&mut state, &other(1), 1000);
    assert_eq!(
        plan.differences,
        [
            "connection x1 to x2: removed, 1@10.23.0.1-1@10.23.0.2",
            "connection x1 to x2: new, 2@10.23.0.1-2@10.23.0.2"
        ]
    );
    apply(&mut state, &other(2), 1000 + quarantine - 1);
    assert_eq!(keys(&state), ["3@10.23.0.1-3@10.23.0.2"]);
    apply(&mut state, &other(3), 1000 + quarantine);
    assert_eq!(keys(&state), ["1@10.23.0.1-1@10.23.0.2"]);
}

#[test]
fn parameters_that_change_make_new_connections() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-2]"), 0);
    let mut with = mesh("x[1-2]");
    with.params.insert("nh_hop_limit".into(), 4);
    let plan = apply(&mut state, &with, 0);
    assert_eq!(plan.differences, ["parameter nh_hop_limit: 4"]);
    let slower = fabric(
        "x[1-2]",
        "[[connections]]\nmesh = \"x[1-2]\"\nwindow = 64\n",
    );
    let plan = apply(&mut state, &slower, 0);
    assert_eq!(plan.differences.len(), 3, "{:?}", plan.differences);
    assert_eq!(plan.differences[0], "parameter nh_hop_limit: default");
}

#[test]
fn rma_addresses_of_a_node_that_change_are_told() {
    let with = |rma: &str| {
        let text = format!(
            "fabric = \"lab\"\n[[nodes]]\nhosts = \"x[1-2]\"\nagent = \"10.0.0.{{n}}:7779\"\n\
             address = \"10.23.0.{{n}}\"\nports = [{{ dev = \"eth0\" }}]\n{rma}\n"
        );
        read(&text).unwrap()
    };
    let mut state = State::default();
    apply(&mut state, &with(""), 0);
    let set = with("rma = { base = 0x10000, size = 0x2000 }");
    let plan = apply(&mut state, &set, 0);
    assert_eq!(
        plan.differences,
        [
            "node x1: RMA addresses 0x2000 bytes from 0x12000, were by key",
            "node x2: RMA addresses 0x2000 bytes from 0x14000, were by key",
        ]
    );
    let shown = plan.to_string();
    assert!(
        shown.contains("\n  RMA addresses 0x2000 bytes from 0x12000\n"),
        "{shown}"
    );
    assert!(!apply(&mut state, &set, 0).changed);
    // Another thing that changes at the same time is not hidden by it.
    let mut more = with("rma = { base = 0x10000, size = 0x1000 }");
    more.nodes.get_mut("x2").unwrap().ports[0].udp = false;
    let plan = apply(&mut state, &more, 0);
    assert_eq!(
        plan.differences,
        [
            "node x1: RMA addresses 0x1000 bytes from 0x11000, were 0x2000 bytes from 0x12000",
            "node x2: RMA addresses 0x1000 bytes from 0x12000, were 0x2000 bytes from 0x14000",
            "node x2: changed",
        ]
    );
    let node = &state.nodes["x1"].node;
    assert_eq!(node.rma.unwrap().base, 0x11000);
    // A store of before has nodes without the member.
    let old = serde_json::json!({ "agent": "a:1", "address": "10.0.0.1", "ports": [] });
    assert_eq!(serde_json::from_value::<Node>(old).unwrap().rma, None);
}

#[test]
fn node_that_leaves_is_shut_down_first() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-3]"), 0);
    let plan = apply(&mut state, &mesh("x[1-2]"), 0);
    assert!(plan
        .differences
        .contains(&"node x3: shut down, and removed".into()));
    let node = &state.nodes["x3"];
    assert!(node.leaving && node.shut_down);
    assert_eq!(state.conns.len(), 1);
    // It may come back, also before that is done.
    apply(&mut state, &mesh("x[1-3]"), 0);
    let node = &state.nodes["x3"];
    assert!(!node.leaving && node.shut_down);
}

#[test]
fn fabric_that_is_down_is_booted_again_in_new_lives() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-2]"), 0);
    state.fabric.phase = Phase::ShuttingDown;
    let refused = plan(&mesh("x[1-2]"), &state, 0).unwrap_err();
    assert!(refused.contains("apply again when it is down"), "{refused}");
    state.fabric.phase = Phase::Down;
    let plan = apply(&mut state, &mesh("x[1-2]"), 0);
    assert_eq!(plan.differences, ["the fabric lab is booted again"]);
    let conn = state.conns.values().next().unwrap();
    assert_eq!((conn.life, conn.start_psn, conn.born), (1, FAR, 2));
}

#[test]
fn another_fabric_waits_until_this_one_is_down() {
    let mut state = State::default();
    apply(&mut state, &mesh("x[1-2]"), 0);
    let mut other = mesh("x[1-2]");
    other.name = "prod".into();
    assert_eq!(
        plan(&other, &state, 0).unwrap_err(),
        "the fabric lab is booting; shut it down before another one, prod, takes its nodes"
    );
    state.fabric.phase = Phase::Down;
    assert_eq!(apply(&mut state, &other, 0).fabric, "prod");
}

#[test]
fn keys_are_normalised() {
    let end = |addr: &str, cid| End {
        addr: addr.parse().unwrap(),
        cid,
    };
    let (one, other) = (end("10.23.0.2", 1), end("10.23.0.1", 9));
    let key = ConnKey::new(one, other);
    assert_eq!(key, ConnKey::new(other, one));
    assert_eq!(key.to_string(), "9@10.23.0.1-1@10.23.0.2");
    assert_eq!(key.to_string().parse(), Ok(key));
    let v6 = ConnKey::new(end("fd23::2", 1), end("fd23::1", 1));
    assert_eq!(v6.to_string().parse(), Ok(v6));
    assert!("1@x-2@y".parse::<ConnKey>().is_err());
}
