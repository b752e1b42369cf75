// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What making and ending a job changes, and what a fabric file must leave to the jobs that there are.

use super::Planner;
use crate::fabric::{of_connections, param, Fabric, Link};
use crate::state::{Change, ConnKey, ConnRecord, Event, FabricRecord, JobRecord, Phase, State};
use std::collections::{BTreeMap, BTreeSet};
use superp_proto::Param;

/// So long after the end of its job a partition is not used again, milliseconds.
pub const REVOKED_MS: u64 = 24 * 3600 * 1000;

/// Makes a job with these connections.
pub fn make(
    state: &State,
    partition: u32,
    job: JobRecord,
    links: &[Link],
    now: u64,
) -> Result<Vec<Change>, String> {
    let fabric = next(state);
    let mut planner = Planner {
        state,
        now,
        generation: fabric.generation,
        changes: Vec::new(),
        differences: Vec::new(),
    };
    let mut used: BTreeSet<(String, u16)> = BTreeSet::new();
    for (key, conn) in &state.conns {
        let ends = conn.nodes.iter().zip(key.ends());
        used.extend(ends.map(|(name, end)| (name.clone(), end.cid)));
    }
    for link in links {
        let ends = planner.ends(link, |name| Some(state.nodes.get(name)?.node.address))?;
        let (key, conn) = planner.connect(ends, link.settings.clone(), &mut used)?;
        planner.changes.push(Change::Conn(key, Box::new(conn)));
    }
    let text = format!(
        "job {} on {}: {} connections, in configuration {}",
        job.name,
        job.hosts.join(","),
        links.len(),
        fabric.generation
    );
    let mut changes = planner.changes;
    changes.push(Change::Job(partition, Box::new(job)));
    changes.push(Change::Fabric(fabric));
    changes.push(told(text, now));
    changes.extend(forget(state, now));
    Ok(changes)
}

/// Ends a job. Its programs have ended: its connections are not drained first.
pub fn end(state: &State, partition: u32, job: &JobRecord, now: u64) -> Vec<Change> {
    let fabric = next(state);
    let text = format!(
        "job {} has ended, in configuration {}",
        job.name, fabric.generation
    );
    let mut changes = without(state, partition, job, now);
    changes.push(Change::Fabric(fabric));
    changes.push(told(text, now));
    changes.extend(forget(state, now));
    changes
}

/// Ends all jobs, when the fabric is shut down.
pub fn end_all(state: &State, now: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    for (partition, job) in state.live_jobs() {
        changes.extend(without(state, partition, job, now));
        changes.push(told(format!("job {} ends with the fabric", job.name), now));
    }
    changes
}

/// The connections of a job go, and its partition is revoked.
fn without(state: &State, partition: u32, job: &JobRecord, now: u64) -> Vec<Change> {
    let of_job = |(_, conn): &(&ConnKey, &ConnRecord)| conn.settings.partition == partition;
    let conns = state.conns.iter().filter(of_job);
    let mut changes: Vec<_> = conns
        .flat_map(|(key, conn)| super::gone(*key, conn, now))
        .collect();
    let job = JobRecord {
        ended_ms: Some(now),
        ..job.clone()
    };
    changes.push(Change::Job(partition, Box::new(job)));
    changes
}

/// The next configuration. Unlike one that comes from a file it does not wait for every node: what runs goes
/// on, and what is new runs as soon as both its nodes have it.
fn next(state: &State) -> FabricRecord {
    let mut fabric = state.fabric.clone();
    fabric.generation += 1;
    if fabric.phase == Phase::Running {
        fabric.started = fabric.generation;
    }
    fabric
}

fn forget(state: &State, now: u64) -> Vec<Change> {
    let long_ago = |job: &JobRecord| {
        let until = job.ended_ms.map(|ended| ended.saturating_add(REVOKED_MS));
        until.is_some_and(|until| until <= now)
    };
    let gone = state.jobs.iter().filter(|(_, job)| long_ago(job));
    gone.map(|(partition, _)| Change::JobGone(*partition))
        .chain([Change::Expire(now)])
        .collect()
}

fn told(text: String, now: u64) -> Change {
    Change::Event(Event {
        seq: 0,
        time_ms: now,
        node: None,
        connection: None,
        kind: "job".into(),
        text,
    })
}

/// A partition that nobody has, and nobody had lately.
pub fn draw(state: &State, mut random: impl FnMut() -> Result<u32, String>) -> Result<u32, String> {
    loop {
        let partition = random()?;
        let in_file = |conn: &ConnRecord| conn.settings.partition == partition;
        let taken = state.jobs.contains_key(&partition) || state.conns.values().any(in_file);
        if partition != 0 && !taken {
            return Ok(partition);
        }
    }
}

/// Refuses a file that would take from a job what it uses; the partitions in it are looked at by
/// [`keeps_apart`].
pub fn leaves_jobs(fabric: &Fabric, state: &State) -> Result<(), String> {
    for (_, job) in state.live_jobs() {
        for host in &job.hosts {
            let why = match (fabric.nodes.get(host), state.nodes.get(host)) {
                (None, _) => format!("{host} would be removed"),
                (Some(new), Some(old)) if new.address != old.node.address => {
                    format!("the address of {host} would change")
                }
                (Some(new), Some(old)) if new.agent != old.node.agent => {
                    format!("the agent of {host} would change")
                }
                (Some(new), Some(old)) if new.ports != old.node.ports => {
                    format!("the ports of {host} would change")
                }
                _ => continue,
            };
            return Err(format!(
                "the job {0} is on {host}, and {why}; leave it as it is, or end the job first: superp fabric job remove {0}",
                job.name
            ));
        }
    }
    let most = param(&fabric.params, "pdl_conns_per_xpu");
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let of_jobs = state.conns.values();
    let of_jobs = of_jobs.filter(|conn| state.job_of(conn).is_some());
    let of_jobs = of_jobs.flat_map(|conn| conn.nodes.iter());
    let of_file = fabric.links.iter().flat_map(|link| [&link.a, &link.b]);
    for name in of_jobs.chain(of_file) {
        *counts.entry(name).or_default() += 1;
    }
    match counts.iter().find(|(_, count)| **count > most) {
        None => Ok(()),
        Some((name, count)) => Err(format!(
            "{name} would have {count} connections, those of jobs included, and pdl_conns_per_xpu allows {most}; \
             raise it, connect fewer nodes, or end a job first"
        )),
    }
}

/// Refuses a file that puts connections into the partition of a job.
pub fn keeps_apart(fabric: &Fabric, state: &State) -> Result<(), String> {
    let taken = |link: &&Link| state.jobs.contains_key(&link.settings.partition);
    match fabric.links.iter().find(taken) {
        None => Ok(()),
        Some(link) => Err(format!(
            "the partition of the connection {} to {} is, or was lately, one of a job; write another number",
            link.a, link.b
        )),
    }
}

/// The connection of a job under other global parameters: it keeps the values that it was made with.
pub(super) fn pinned(conn: &ConnRecord, fabric: &Fabric, state: &State) -> ConnRecord {
    let mut conn = conn.clone();
    // The one parameter of nodes that is in a connection.
    let hops = |params| param(params, "nh_hop_limit");
    if hops(&state.params) != hops(&fabric.params) && conn.settings.hop_limit.is_none() {
        conn.settings.hop_limit = u8::try_from(hops(&state.params)).ok();
    }
    for name in fabric.params.keys().filter(|name| of_connections(name)) {
        if let Some(param) = Param::find(name) {
            let params = &mut conn.settings.params;
            params.entry(name.clone()).or_insert(param.default);
        }
    }
    conn
}

#[cfg(test)]
mod tests;
