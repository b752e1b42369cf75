// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From a fabric file to the nodes and connections that there are to be, and what that changes.

pub mod jobs;

use crate::fabric::{quarantine_ms, Fabric, Link, Node, Settings};
use crate::state::{Change, ConnKey, ConnRecord, End, Event, NodeRecord, Phase, State, Want};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
pub use superp_control::manager::{ConnPlan, NodePlan, Plan};

/// A life's start numbers are so far from those of the one before that late packets cannot fit.
pub const FAR: u32 = 1 << 30;

/// Plans for a fabric on top of what there is: what it does, and the changes that make it so.
pub fn plan(fabric: &Fabric, state: &State, now: u64) -> Result<(Plan, Vec<Change>), String> {
    let old = &state.fabric;
    let afresh = matches!(old.phase, Phase::Empty | Phase::Down);
    let generation = old.generation + 1;
    let mut planner = Planner {
        state,
        now,
        generation,
        changes: Vec::new(),
        differences: Vec::new(),
    };
    if old.phase == Phase::ShuttingDown {
        return Err("the fabric is being shut down; apply again when it is down".into());
    }
    if !afresh && old.name != fabric.name {
        return Err(format!(
            "the fabric {} is {}; shut it down before another one, {}, takes its nodes",
            old.name, old.phase, fabric.name
        ));
    }
    jobs::leaves_jobs(fabric, state)?;
    if afresh {
        let what = if old.phase == Phase::Down {
            "booted again"
        } else {
            "new"
        };
        planner
            .differences
            .push(format!("the fabric {} is {what}", fabric.name));
    }
    if old.broken != fabric.broken && !afresh {
        planner
            .differences
            .push(format!("connections that break: {:?}", fabric.broken).to_lowercase());
    }
    planner.params(fabric);
    planner.nodes(fabric);
    let conns = planner.conns(fabric, afresh)?;
    let changed = !planner.differences.is_empty();
    let (differences, mut changes) = (planner.differences, planner.changes);
    if changed {
        let mut record = old.clone();
        record.name = fabric.name.clone();
        record.broken = fabric.broken;
        record.generation = generation;
        record.phase = Phase::Booting;
        changes.push(Change::Params(fabric.params.clone()));
        changes.push(Change::Fabric(record));
        changes.push(Change::Event(Event {
            seq: 0,
            time_ms: now,
            node: None,
            connection: None,
            kind: "apply".into(),
            text: format!(
                "configuration {generation} of the fabric {}: {}",
                fabric.name,
                summary(&differences)
            ),
        }));
    } else {
        changes.clear();
    }
    let plan = Plan {
        fabric: fabric.name.clone(),
        generation: if changed { generation } else { old.generation },
        changed,
        differences,
        nodes: nodes_of(fabric, &conns),
    };
    Ok((plan, changes))
}

/// A few of the differences.
fn summary(differences: &[String]) -> String {
    let mut text = differences
        .iter()
        .take(3)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if differences.len() > 3 {
        text += &format!("; and {} more", differences.len() - 3);
    }
    text
}

fn nodes_of(fabric: &Fabric, conns: &BTreeMap<ConnKey, ConnRecord>) -> BTreeMap<String, NodePlan> {
    let plan = |(name, node): (&String, &Node)| {
        let node = NodePlan {
            node: node.clone(),
            connections: Vec::new(),
        };
        (name.clone(), node)
    };
    let mut nodes: BTreeMap<_, _> = fabric.nodes.iter().map(plan).collect();
    for (key, conn) in conns {
        let ends = key.ends();
        for (side, other) in [(0, 1), (1, 0)] {
            if let Some(node) = nodes.get_mut(&conn.nodes[side]) {
                node.connections.push(ConnPlan {
                    cid: ends[side].cid,
                    peer: conn.nodes[other].clone(),
                    peer_cid: ends[other].cid,
                    settings: conn.settings.clone(),
                });
            }
        }
    }
    for node in nodes.values_mut() {
        node.connections.sort_by_key(|conn| conn.cid);
    }
    nodes
}

/// Where the RMA addresses of a node are.
fn rma(node: &Node) -> String {
    node.rma.map_or("by key".into(), |space| space.to_string())
}

struct Planner<'a> {
    state: &'a State,
    now: u64,
    generation: u64,
    changes: Vec<Change>,
    differences: Vec<String>,
}

impl Planner<'_> {
    fn params(&mut self, fabric: &Fabric) {
        let (old, new) = (&self.state.params, &fabric.params);
        let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for name in names {
            let line = match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(old), Some(new)) => format!("parameter {name}: {new}, was {old}"),
                (None, Some(new)) => format!("parameter {name}: {new}"),
                (_, None) => format!("parameter {name}: default"),
            };
            self.differences.push(line);
        }
    }

    fn nodes(&mut self, fabric: &Fabric) {
        for (name, node) in &fabric.nodes {
            let old = self.state.nodes.get(name);
            let same = old.is_some_and(|old| old.node == *node && !old.leaving);
            if same {
                continue;
            }
            let record = match old {
                // Another agent is another host: nothing is known of it.
                Some(old) if old.node.agent == node.agent => NodeRecord {
                    node: node.clone(),
                    leaving: false,
                    ..old.clone()
                },
                _ => NodeRecord {
                    node: node.clone(),
                    ready: 0,
                    shut_down: false,
                    leaving: false,
                    capabilities: None,
                    instance: String::new(),
                    reports: (String::new(), 0),
                },
            };
            match old.filter(|old| !old.leaving) {
                None => self.differences.push(format!("node {name}: new")),
                Some(NodeRecord { node: old, .. }) => {
                    if old.rma != node.rma {
                        let (new, old) = (rma(node), rma(old));
                        self.differences
                            .push(format!("node {name}: RMA addresses {new}, were {old}"));
                    }
                    let moved = Node {
                        rma: node.rma,
                        ..old.clone()
                    };
                    if moved != *node {
                        self.differences.push(format!("node {name}: changed"));
                    }
                }
            }
            self.changes
                .push(Change::Node(name.clone(), Box::new(record)));
        }
        for (name, old) in &self.state.nodes {
            if fabric.nodes.contains_key(name) || old.leaving {
                continue;
            }
            self.differences
                .push(format!("node {name}: shut down, and removed"));
            let record = NodeRecord {
                leaving: true,
                shut_down: true,
                ..old.clone()
            };
            self.changes
                .push(Change::Node(name.clone(), Box::new(record)));
        }
    }

    /// The connections that there are to be. Those that there are keep their ids.
    fn conns(
        &mut self,
        fabric: &Fabric,
        afresh: bool,
    ) -> Result<BTreeMap<ConnKey, ConnRecord>, String> {
        // What makes a connection the same one.
        type Same = ([(String, IpAddr); 2], Settings);
        let mut there: BTreeMap<Same, ConnKey> = BTreeMap::new();
        let mut used: BTreeSet<(String, u16)> = BTreeSet::new();
        for (key, conn) in &self.state.conns {
            if self.state.job_of(conn).is_some() {
                let ends = conn.nodes.iter().zip(key.ends());
                used.extend(ends.map(|(name, end)| (name.clone(), end.cid)));
                let conn = jobs::pinned(conn, fabric, self.state);
                self.changes.push(Change::Conn(*key, Box::new(conn)));
                continue;
            }
            let [low, high] = key.ends();
            let mut ends = [
                (conn.nodes[0].clone(), low.addr),
                (conn.nodes[1].clone(), high.addr),
            ];
            ends.sort();
            there.insert((ends, conn.settings.clone()), *key);
        }
        let (mut conns, mut missing) = (BTreeMap::new(), Vec::new());
        for link in &fabric.links {
            let ends = self.ends(link, |name| Some(fabric.nodes.get(name)?.address))?;
            let Some(key) = there.remove(&(ends.clone(), link.settings.clone())) else {
                missing.push((ends, link.settings.clone()));
                continue;
            };
            let Some(old) = self.state.conns.get(&key) else {
                continue;
            };
            for (name, end) in old.nodes.iter().zip(key.ends()) {
                used.insert((name.clone(), end.cid));
            }
            let mut conn = old.clone();
            if afresh {
                conn = next_life(&conn, 0);
                conn.want = Want::Run;
                conn.born = self.generation;
            }
            conns.insert(key, conn);
        }
        for key in there.into_values() {
            self.remove(key);
        }
        for (ends, settings) in missing {
            let (key, conn) = self.connect(ends, settings, &mut used)?;
            let [low, high] = &conn.nodes;
            self.differences
                .push(format!("connection {low} to {high}: new, {key}"));
            conns.insert(key, conn);
        }
        for (key, conn) in &conns {
            self.changes
                .push(Change::Conn(*key, Box::new(conn.clone())));
        }
        Ok(conns)
    }

    /// The nodes at the ends of a link, and their addresses, in the order of the names.
    fn ends(
        &self,
        link: &Link,
        address: impl Fn(&str) -> Option<IpAddr>,
    ) -> Result<[(String, IpAddr); 2], String> {
        let (Some(a), Some(b)) = (address(&link.a), address(&link.b)) else {
            return Err(format!("{} or {} is no node", link.a, link.b));
        };
        let mut ends = [(link.a.clone(), a), (link.b.clone(), b)];
        ends.sort();
        Ok(ends)
    }

    /// A new connection, with the smallest ids that are free.
    fn connect(
        &self,
        ends: [(String, IpAddr); 2],
        settings: Settings,
        used: &mut BTreeSet<(String, u16)>,
    ) -> Result<(ConnKey, ConnRecord), String> {
        let mut taken = Vec::new();
        for (name, addr) in ends {
            let cid = self.free_cid(&name, used)?;
            used.insert((name.clone(), cid));
            taken.push((name, End { addr, cid }));
        }
        taken.sort_by_key(|(_, end)| *end);
        let [(low_name, low), (high_name, high)] = taken.as_slice() else {
            return Err("a connection has two ends".into());
        };
        let conn = ConnRecord {
            nodes: [low_name.clone(), high_name.clone()],
            settings,
            born: self.generation,
            start_psn: 0,
            life: 0,
            want: Want::Run,
            up: [false; 2],
            not_before: 0,
            breaks: 0,
        };
        Ok((ConnKey::new(*low, *high), conn))
    }

    fn remove(&mut self, key: ConnKey) {
        let Some(conn) = self.state.conns.get(&key) else {
            return;
        };
        let [low, high] = &conn.nodes;
        self.differences
            .push(format!("connection {low} to {high}: removed, {key}"));
        self.changes.extend(gone(key, conn, self.now));
    }

    /// The smallest id of a node that is neither in use, also by what is removed now, nor kept back.
    fn free_cid(&self, node: &str, used: &BTreeSet<(String, u16)>) -> Result<u16, String> {
        let removed = |cid: u16| {
            let mut changes = self.changes.iter();
            changes.any(|change| matches!(change, Change::Retire(name, old, _) if name == node && *old == cid))
        };
        let kept_back = |cid: u16| {
            let until = self.state.retired.get(&(node.to_owned(), cid));
            until.is_some_and(|until| *until > self.now)
        };
        (1..=u16::MAX)
            .find(|cid| {
                !used.contains(&(node.to_owned(), *cid)) && !removed(*cid) && !kept_back(*cid)
            })
            .ok_or_else(|| {
                format!(
                    "{node} has no free connection id; those of removed connections are free later"
                )
            })
    }
}

/// A connection goes, and its ids are kept back.
fn gone(key: ConnKey, conn: &ConnRecord, now: u64) -> Vec<Change> {
    let until = now.saturating_add(quarantine_ms(&conn.settings));
    let ends = conn.nodes.iter().zip(key.ends());
    let retired = ends.map(|(name, end)| Change::Retire(name.clone(), end.cid, until));
    [Change::ConnGone(key)].into_iter().chain(retired).collect()
}

/// The connection in its next life, after an end has sent and received so many packets.
pub fn next_life(conn: &ConnRecord, packets: u64) -> ConnRecord {
    // Numbers are modulo 2^32, and so is what was used of them.
    let used = (packets & u64::from(u32::MAX)) as u32;
    ConnRecord {
        start_psn: conn.start_psn.wrapping_add(used).wrapping_add(FAR),
        life: conn.life.wrapping_add(1),
        up: [false; 2],
        ..conn.clone()
    }
}

#[cfg(test)]
mod tests;
