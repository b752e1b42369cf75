// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Decisions about two nodes and the connection between them.

use super::*;
use crate::fabric::read;
use crate::plan::{plan, FAR};
use superp_control::{LinkState, PathStatus};

const FILE: &str = "fabric = \"lab\"\n[[nodes]]\nhosts = \"x[1-2]\"\nagent = \"10.0.0.{n}:7779\"\n\
                    address = \"10.23.0.{n}\"\nports = [{ dev = \"eth0\" }]\nrma = { base = 0x10000, size = 0x1000 }\n\
                    [[connections]]\nmesh = \"x[1-2]\"\npartition = 7\n";

/// A manager's state, and the kernels of two nodes.
struct Lab {
    state: State,
    seen: BTreeMap<String, Seen>,
    now: u64,
}

impl Lab {
    fn new() -> Self {
        let mut lab = Self {
            state: State::default(),
            seen: BTreeMap::new(),
            now: 1_000_000,
        };
        lab.apply(FILE);
        for name in ["x1", "x2"] {
            lab.seen.insert(
                name.into(),
                Seen {
                    status: Ok(fresh()),
                    refused: None,
                    idle: true,
                    counters: Arc::default(),
                },
            );
        }
        lab
    }

    fn apply(&mut self, file: &str) {
        let (_, changes) = plan(&read(file).unwrap(), &self.state, self.now).unwrap();
        changes.iter().for_each(|change| self.state.apply(change));
    }

    /// Decides once, stores it, and returns the rest.
    fn step(&mut self) -> (BTreeMap<String, Vec<Command>>, Vec<String>) {
        let decision = decide(&self.state, &self.seen, self.now);
        let mut told = Vec::new();
        for change in &decision.changes {
            self.state.apply(change);
            if let Change::Event(event) = change {
                told.push(event.text.clone());
            }
        }
        (decision.commands, told)
    }

    fn status(&mut self, name: &str) -> &mut Status {
        self.seen.get_mut(name).unwrap().status.as_mut().unwrap()
    }

    fn conn(&mut self, name: &str) -> &mut ConnectionStatus {
        &mut self.status(name).connections[0]
    }

    /// Does what a node is told, as its agent would.
    fn obey(&mut self, name: &str, command: &Command) {
        let instance = self.status(name).instance.clone();
        let node = self.state.nodes.get_mut(name).unwrap();
        let status = self.seen.get_mut(name).unwrap().status.as_mut().unwrap();
        match command {
            Command::Capabilities => {
                node.capabilities = Some(serde_json::json!({}));
                node.instance = instance;
            }
            Command::Configure(configuration) => {
                status.generation = Some(configuration.generation);
                status.state = NodeState::Ready;
                let kept = status.connections.clone();
                let conns = configuration.connections.iter();
                status.connections = conns
                    .map(|conn| {
                        let old = kept.iter().find(|old| old.cid == conn.cid);
                        old.cloned().unwrap_or_else(|| created(conn))
                    })
                    .collect();
            }
            Command::Start { hold } => {
                status.state = NodeState::Started;
                for conn in &mut status.connections {
                    if conn.state == ConnectionState::Created && !hold.contains(&conn.cid) {
                        conn.state = ConnectionState::Established;
                    }
                }
            }
            Command::StartConn(_) => status.connections[0].state = ConnectionState::Established,
            Command::StopConn(_) => status.connections[0].state = ConnectionState::Draining,
            Command::ResetConn {
                start_psn, hard, ..
            } => {
                let conn = &mut status.connections[0];
                assert!(*hard || conn.state == ConnectionState::Stopped);
                conn.state = ConnectionState::Created;
                conn.start_psn = *start_psn;
                conn.paths[0].tx_packets = 0;
                conn.paths[0].rx_packets = 0;
            }
            Command::Shutdown => {
                *status = fresh();
                status.state = NodeState::ShutDown;
            }
        }
    }

    /// Goes on until nothing is decided any more; what was told.
    fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..100 {
            let before = self.state.clone();
            let (commands, told) = self.step();
            all.extend(told);
            for (name, commands) in &commands {
                commands.iter().for_each(|command| self.obey(name, command));
            }
            if commands.is_empty() && self.state == before {
                return all;
            }
        }
        panic!("it does not come to rest: {all:?}");
    }

    fn runs(&mut self) -> bool {
        let psn = self.state.conns.values().next().unwrap().start_psn;
        ["x1", "x2"].iter().all(|name| {
            let conn = self.conn(name);
            conn.state == ConnectionState::Established && conn.start_psn == psn
        })
    }

    fn record(&self) -> &ConnRecord {
        self.state.conns.values().next().unwrap()
    }
}

fn fresh() -> Status {
    Status {
        instance: "i".into(),
        state: NodeState::Unconfigured,
        fabric: None,
        generation: None,
        term: 0,
        differences: Vec::new(),
        devices: Vec::new(),
        connections: Vec::new(),
        queue_pairs: 0,
        regions: 0,
        drops: BTreeMap::new(),
        last_report: 0,
    }
}

fn created(conn: &agent::Connection) -> ConnectionStatus {
    ConnectionStatus {
        cid: conn.cid,
        peer: conn.peer,
        peer_cid: conn.peer_cid,
        encap: conn.encap,
        local: conn.local.unwrap(),
        state: ConnectionState::Created,
        cause: None,
        mtu: 1484,
        start_psn: conn.start_psn,
        start_xid: 0,
        paths: vec![PathStatus {
            device: None,
            local: conn.local.unwrap(),
            peer: conn.peer,
            state: LinkState::Up,
            tx_packets: 0,
            rx_packets: 0,
        }],
        counters: None,
    }
}

#[test]
fn boot_takes_the_steps_of_the_specification_in_order() {
    let mut lab = Lab::new();
    let (commands, _) = lab.step();
    let x1 = &commands["x1"];
    assert_eq!(x1[0], Command::Capabilities);
    let Command::Configure(configuration) = &x1[1] else {
        panic!("{x1:?}");
    };
    assert_eq!(configuration.connections[0].peer.to_string(), "10.23.0.2");
    assert_eq!(configuration.node.partitions, [7]);
    assert_eq!(configuration.node.rma.map(|rma| rma.base), Some(0x11000));
    // One node is ready, the other is not: nothing is started.
    let commands = commands["x1"].clone();
    commands.iter().for_each(|command| lab.obey("x1", command));
    let (commands, told) = lab.step();
    assert_eq!(told, ["ready with configuration 1"]);
    assert!(!commands.contains_key("x1"));
    assert_eq!(lab.state.fabric.phase, Phase::Booting);
    assert_eq!(
        waiting(&lab.state, &lab.seen),
        ["node x2: waiting for READY: it is unconfigured"]
    );
    commands["x2"]
        .clone()
        .iter()
        .for_each(|command| lab.obey("x2", command));
    let (commands, told) = lab.step();
    assert_eq!(
        told.last().unwrap(),
        "every node is ready: start operations"
    );
    assert!(
        commands.is_empty(),
        "the decision is stored before it is carried out"
    );
    let (commands, _) = lab.step();
    assert_eq!(commands["x1"], [Command::Start { hold: vec![] }]);
    assert_eq!(commands["x2"], [Command::Start { hold: vec![] }]);
    lab.settle();
    assert!(lab.runs());
    assert_eq!(waiting(&lab.state, &lab.seen), Vec::<String>::new());
}

#[test]
fn node_that_does_not_answer_is_waited_for_by_name() {
    let mut lab = Lab::new();
    lab.settle();
    let seen = lab.seen.get_mut("x2").unwrap();
    seen.status = Err("connection refused by 10.0.0.2:7779".into());
    lab.apply(&FILE.replace("partition = 7", "partition = 8"));
    lab.settle();
    assert_eq!(lab.state.fabric.phase, Phase::Booting);
    assert_eq!(
        waiting(&lab.state, &lab.seen),
        ["node x2: waiting for READY: connection refused by 10.0.0.2:7779"]
    );
}

#[test]
fn broken_connection_is_reset_at_both_ends_far_from_old_numbers() {
    let mut lab = Lab::new();
    lab.settle();
    let conn = lab.conn("x1");
    conn.state = ConnectionState::Broken;
    conn.cause = Some("the peer does not answer".into());
    conn.paths[0].tx_packets = 100;
    lab.conn("x2").paths[0].rx_packets = 70;
    let (commands, told) = lab.step();
    assert_eq!(
        told,
        ["hard error: the peer does not answer; both ends are reset and started again"]
    );
    let reset = |cid| Command::ResetConn {
        cid,
        hard: true,
        start_psn: FAR + 100,
    };
    assert_eq!(commands["x1"], [reset(1)]);
    assert_eq!(commands["x2"], [reset(1)]);
    for name in ["x1", "x2"] {
        lab.obey(name, &commands[name][0]);
    }
    lab.settle();
    assert!(lab.runs());
    assert_eq!(lab.record().life, 1);
}

#[test]
fn peer_of_a_broken_connection_is_stopped_while_the_other_end_is_away() {
    let mut lab = Lab::new();
    lab.settle();
    lab.conn("x1").state = ConnectionState::Broken;
    lab.seen.get_mut("x2").unwrap().status = Err("gone".into());
    lab.settle();
    assert_eq!(
        lab.conn("x1").state,
        ConnectionState::Created,
        "it waits for its peer"
    );
}

#[test]
fn connection_that_breaks_again_and_again_waits_longer() {
    let mut lab = Lab::new();
    lab.settle();
    let mut waits = Vec::new();
    for _ in 0..9 {
        lab.conn("x2").state = ConnectionState::Broken;
        lab.settle();
        let until = lab.record().not_before;
        waits.push(until.saturating_sub(lab.now));
        assert_eq!(lab.runs(), until <= lab.now);
        lab.now = lab.now.max(until);
        lab.settle();
        assert!(lab.runs());
    }
    assert_eq!(
        waits,
        [0, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    );
    lab.now += RAN_WELL + 1;
    lab.conn("x2").state = ConnectionState::Broken;
    lab.settle();
    assert!(lab.runs(), "it ran well in between");
}

#[test]
fn policies_for_broken_connections() {
    let mut lab = Lab::new();
    lab.apply(&FILE.replace("[[nodes]]", "broken = \"stop\"\n[[nodes]]"));
    lab.settle();
    lab.conn("x1").state = ConnectionState::Broken;
    lab.settle();
    for name in ["x1", "x2"] {
        assert_eq!(lab.conn(name).state, ConnectionState::Created);
    }
    assert_eq!(lab.record().want, Want::Hold);
    // Nor does it come up with the next configuration.
    let (generation, life) = (lab.state.fabric.generation, lab.record().life);
    lab.apply(&FILE.replace(
        "[[nodes]]",
        "broken = \"stop\"\n[parameters]\ncm_port = 7\n[[nodes]]",
    ));
    lab.settle();
    assert!(lab.state.fabric.started > generation);
    assert_eq!(lab.record().life, life);

    let mut lab = Lab::new();
    lab.apply(&FILE.replace("[[nodes]]", "broken = \"shutdown\"\n[[nodes]]"));
    lab.settle();
    lab.conn("x1").state = ConnectionState::Broken;
    let told = lab.settle();
    assert_eq!(lab.state.fabric.phase, Phase::Down);
    assert_eq!(
        told.last().unwrap(),
        "node shutdown complete, from every node"
    );
}

#[test]
fn node_that_lost_its_kernel_state_gets_it_again_in_a_new_life() {
    let mut lab = Lab::new();
    lab.settle();
    *lab.status("x2") = fresh();
    let told = lab.settle();
    assert_eq!(told[0], "has lost its configuration, it is unconfigured");
    assert!(lab.runs());
    assert_eq!(
        lab.record().life,
        1,
        "its peer must not take the old numbers for new ones"
    );
}

#[test]
fn connection_made_anew_behind_our_back_gets_a_new_life() {
    let mut lab = Lab::new();
    lab.settle();
    lab.conn("x2").state = ConnectionState::Created;
    let told = lab.settle();
    assert_eq!(told, ["an end has lost its state; both ends are reset"]);
    assert!(lab.runs());
    assert_eq!(lab.record().life, 1);
}

#[test]
fn connection_that_is_gone_is_made_again_in_a_new_life() {
    let mut lab = Lab::new();
    lab.settle();
    lab.status("x2").connections.clear();
    let (commands, told) = lab.step();
    assert_eq!(told, ["an end has lost its state; both ends are reset"]);
    assert!(
        matches!(commands["x2"][0], Command::Configure(_)),
        "{commands:?}"
    );
    commands["x2"]
        .clone()
        .iter()
        .for_each(|command| lab.obey("x2", command));
    lab.settle();
    assert!(lab.runs());
    assert_eq!(lab.record().life, 1);
}

#[test]
fn agent_that_only_starts_again_is_asked_and_left_alone() {
    let mut lab = Lab::new();
    lab.settle();
    lab.status("x2").instance = "another".into();
    let (commands, told) = lab.step();
    assert_eq!(commands["x2"], [Command::Capabilities]);
    assert!(told.is_empty() && lab.record().life == 0);
}

#[test]
fn soft_restart_drains_both_ends_before_the_new_life() {
    let mut lab = Lab::new();
    lab.settle();
    let key = *lab.state.conns.keys().next().unwrap();
    lab.state.conns.get_mut(&key).unwrap().want = Want::Restart;
    let (commands, _) = lab.step();
    assert_eq!(commands["x1"], [Command::StopConn(1)]);
    assert_eq!(commands["x2"], [Command::StopConn(1)]);
    lab.settle_draining();
    lab.conn("x1").state = ConnectionState::Stopped;
    assert!(lab.step().0.is_empty(), "the other end is not quiescent");
    lab.conn("x2").state = ConnectionState::Stopped;
    let (commands, told) = lab.step();
    assert_eq!(told, ["quiescent; both ends go on in a new life"]);
    let reset = Command::ResetConn {
        cid: 1,
        hard: false,
        start_psn: FAR,
    };
    assert_eq!(commands["x1"], [reset], "what waits is kept");
    for name in ["x1", "x2"] {
        lab.obey(name, &commands[name][0]);
    }
    lab.settle();
    assert!(lab.runs());
}

impl Lab {
    /// Both ends drain.
    fn settle_draining(&mut self) {
        for name in ["x1", "x2"] {
            self.conn(name).state = ConnectionState::Draining;
        }
        assert!(self.step().0.is_empty());
    }
}

#[test]
fn connection_that_is_stopped_stays_stopped() {
    let mut lab = Lab::new();
    lab.settle();
    let key = *lab.state.conns.keys().next().unwrap();
    lab.state.conns.get_mut(&key).unwrap().want = Want::Stop;
    lab.settle_draining();
    for name in ["x1", "x2"] {
        lab.conn(name).state = ConnectionState::Stopped;
    }
    assert!(lab.settle().is_empty());
    assert_eq!(lab.conn("x1").state, ConnectionState::Stopped);
    lab.state.conns.get_mut(&key).unwrap().want = Want::Restart;
    lab.settle();
    assert!(lab.runs());
}

#[test]
fn busy_node_gets_no_commands() {
    let mut lab = Lab::new();
    lab.seen.get_mut("x1").unwrap().idle = false;
    let (commands, _) = lab.step();
    assert_eq!(commands.keys().collect::<Vec<_>>(), ["x2"]);
}

#[test]
fn shutdown_waits_for_every_node_that_answers() {
    let mut lab = Lab::new();
    lab.settle();
    shut_down(&lab.state, lab.now)
        .iter()
        .for_each(|change| lab.state.apply(change));
    lab.state.fabric.phase = Phase::ShuttingDown;
    lab.seen.get_mut("x2").unwrap().status = Err("gone".into());
    let (commands, _) = lab.step();
    assert_eq!(commands["x1"], [Command::Shutdown]);
    assert_eq!(lab.state.fabric.phase, Phase::ShuttingDown);
    assert_eq!(
        waiting(&lab.state, &lab.seen)[1],
        "node x2: waiting for \"node shutdown complete\": gone"
    );
    let told = lab.settle();
    assert_eq!(
        told.last().unwrap(),
        "node shutdown complete, from every node that answers; without x2"
    );
    assert_eq!(lab.state.fabric.phase, Phase::Down);
    // The one that was away is shut down before it is configured again.
    lab.apply(FILE);
    lab.seen.get_mut("x2").unwrap().status = Ok(fresh());
    let (commands, _) = lab.step();
    assert_eq!(commands["x2"], [Command::Shutdown]);
    lab.settle();
    assert!(lab.runs());
}

#[test]
fn what_is_decided_again_after_a_crash_comes_to_the_same_end() {
    for crash_after in 0..12 {
        let mut lab = Lab::new();
        for step in 0..40 {
            let (commands, _) = lab.step();
            let times = match step {
                // It dies after it has stored its decision, before it gives the commands.
                _ if step == crash_after => 0,
                // It dies after the commands were carried out, before it knows: they are given again.
                _ if step == crash_after + 1 => 2,
                _ => 1,
            };
            for (name, commands) in &commands {
                for command in commands.iter().flat_map(|command| vec![command; times]) {
                    lab.obey(name, command);
                }
            }
        }
        assert!(lab.runs(), "crash after step {crash_after}");
        assert_eq!(
            (lab.state.fabric.phase, lab.record().life),
            (Phase::Running, 0)
        );
    }
}

#[test]
fn job_is_configured_without_waiting_for_a_node_that_does_not_answer() {
    let mut lab = Lab::new();
    lab.settle();
    let before = lab.state.clone();
    let job = crate::state::JobRecord {
        name: "j".into(),
        hosts: vec!["x1".into()],
        settings: Default::default(),
        made_ms: lab.now,
        ended_ms: None,
    };
    let changes = jobs::make(&lab.state, 99, job, &[], lab.now).unwrap();
    changes.iter().for_each(|change| lab.state.apply(change));
    let away = std::mem::replace(
        &mut lab.seen.get_mut("x2").unwrap().status,
        Err("connection refused".into()),
    );
    assert_eq!(lab.settle(), Vec::<String>::new(), "nodes are not told of");
    assert_eq!(lab.state.fabric.phase, Phase::Running);
    let generation = lab.state.fabric.generation;
    assert_eq!(lab.status("x1").generation, Some(generation));
    assert_eq!(lab.status("x1").state, NodeState::Started);
    assert_eq!(lab.state.conns, before.conns);
    // It is back, and gets what it missed.
    lab.seen.get_mut("x2").unwrap().status = away;
    lab.settle();
    assert_eq!(lab.status("x2").generation, Some(generation));
    assert_eq!(lab.status("x2").state, NodeState::Started);
    assert_eq!(lab.state.conns, before.conns);
    assert!(lab.runs());
}
