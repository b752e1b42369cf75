// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Releases of agents and the manager that differ by a minor version of the interface.

use super::agent::MINOR;
use super::{Lab, LIMIT};
use std::time::{Duration, Instant};
use superp_control::manager::{Connection, NodeStatus, Phase, Scope, Verb};
use superp_control::{ConnectionState, NodeState, API_VERSION};

impl Lab {
    /// Waits until a test is passed.
    async fn until_node(&self, number: usize, test: impl Fn(&NodeStatus) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            let node: NodeStatus = self.get(&format!("v1/nodes/xpu{number:02}")).await;
            if test(&node) {
                return;
            }
            assert!(Instant::now() < end, "{node:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Replaces the agents, while all runs.
    async fn replace(&self, minors: [u32; 3]) {
        for (number, minor) in (1..).zip(minors) {
            self.agents[number - 1].replace(minor);
            let version = format!("1.{minor}");
            let told = |node: &NodeStatus| {
                let capabilities = node.capabilities.as_ref();
                capabilities.is_some_and(|all| all["api_version"] == version.as_str())
            };
            self.until_node(number, told).await;
        }
    }
}

#[test]
fn minor_version_of_these_tests_is_that_of_this_release() {
    assert_eq!(superp_control::api_version(API_VERSION), Some((1, MINOR)));
}

/// One agent is older, one is newer; the fabric boots, what is stopped stays so when an agent's host starts
/// again, and each may be replaced by a release of another version while all runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_the_versions_before_and_after_are_commanded() {
    let lab = Lab::new(3).await;
    lab.status().await;
    let client = lab.client();
    for (agent, minor) in lab.agents.iter().zip([MINOR - 1, MINOR, MINOR + 1]) {
        agent.replace(minor);
    }
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    for number in 1..=3 {
        let name = format!("xpu{number:02}");
        let scope = Scope::Node(name.clone());
        // Ends of the node's connections that are in a state.
        let ends = |conns: &[Connection], state| {
            let of_node = |conn: &&Connection| conn.ends.iter().any(|end| end.node == name);
            let ends = conns.iter().filter(of_node).flat_map(|conn| &conn.ends);
            ends.filter(|end| end.state == Some(state)).count()
        };
        client.command(&scope, Verb::Stop).await.unwrap();
        lab.until_conns(|conns| ends(conns, ConnectionState::Stopped) == 4)
            .await;
        let agent = &lab.agents[number - 1];
        agent.restart(true, true);
        let started = |_: &NodeStatus| agent.lock().state == Some(NodeState::Started);
        lab.until_node(number, started).await;
        lab.until_conns(|conns| ends(conns, ConnectionState::Established) == 0)
            .await;
        client.command(&scope, Verb::Restart).await.unwrap();
        lab.until_conns(|conns| ends(conns, ConnectionState::Established) == 4)
            .await;
    }
    let lives = |conns: Vec<Connection>| conns.iter().map(|conn| conn.life).collect::<Vec<_>>();
    let before = lives(lab.conns().await);
    lab.replace([MINOR, MINOR + 1, MINOR - 1]).await;
    lab.until(Phase::Running).await;
    assert_eq!(lives(lab.conns().await), before);
    lab.no_wrongs();
}
