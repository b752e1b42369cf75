// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Jobs on top of a fabric.

use super::*;
use crate::fabric::{job_links, read};
use crate::plan::plan;
use crate::state::ConnKey;
use superp_control::manager::{JobSettings, JobSpec};

const FILE: &str = "fabric = \"lab\"\n[parameters]\npdl_conns_per_xpu = 6\n[[nodes]]\nhosts = \"x[1-4]\"\n\
                    agent = \"10.0.0.{n}:7779\"\naddress = \"10.23.0.{n}\"\nports = [{ dev = \"eth0\" }]\n\
                    [[connections]]\nmesh = \"x[1-4]\"\npartition = 7\n";

fn carry_out(state: &mut State, changes: &[Change]) {
    changes.iter().for_each(|change| state.apply(change));
}

fn apply(state: &mut State, file: &str) -> Result<Vec<String>, String> {
    let (plan, changes) = plan(&read(file).unwrap(), state, 0)?;
    carry_out(state, &changes);
    Ok(plan.differences)
}

/// A fabric that runs.
fn running() -> State {
    let mut state = State::default();
    apply(&mut state, FILE).unwrap();
    state.fabric.phase = Phase::Running;
    state.fabric.started = 1;
    state
}

fn spec(hosts: &str) -> JobSpec {
    JobSpec {
        name: "j".into(),
        hosts: hosts.into(),
        settings: JobSettings::default(),
    }
}

fn record(name: &str, hosts: &[&str]) -> JobRecord {
    JobRecord {
        name: name.into(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        settings: JobSettings::default(),
        made_ms: 0,
        ended_ms: None,
    }
}

/// Makes a job on x1 and x2, in the partition 99.
fn with_job(mut state: State) -> State {
    let links = job_links(&spec("x[1-2]"), 99, state.as_fabric()).unwrap();
    let changes = make(&state, 99, record("j", &["x1", "x2"]), &links, 0).unwrap();
    carry_out(&mut state, &changes);
    state
}

fn of_job(state: &State) -> Vec<String> {
    let conns = state.conns.iter();
    let conns = conns.filter(|(_, conn)| conn.settings.partition == 99);
    conns.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn job_gets_ids_that_are_free_and_leaves_the_other_connections_alone() {
    let before = running();
    let mut state = with_job(before.clone());
    assert_eq!(of_job(&state), ["4@10.23.0.1-4@10.23.0.2"]);
    for (key, conn) in &before.conns {
        assert_eq!(state.conns[key], *conn, "{key}");
    }
    assert_eq!((state.fabric.generation, state.fabric.started), (2, 2));
    assert_eq!(state.fabric.phase, Phase::Running);
    // Its ids are kept back when it ends, and its partition is not used again.
    let (partition, job) = state.job("j").unwrap();
    let changes = end(&state, partition, &job.clone(), 1000);
    carry_out(&mut state, &changes);
    assert_eq!(state.conns, before.conns);
    assert_eq!(state.retired.len(), 2);
    assert_eq!((state.fabric.generation, state.job("j")), (3, None));
    assert_eq!(state.jobs[&99].ended_ms, Some(1000));
    let state = with_job(state);
    assert_eq!(of_job(&state), ["5@10.23.0.1-5@10.23.0.2"]);
}

#[test]
fn partitions_are_drawn_until_one_is_free_and_forgotten_a_day_after_the_job() {
    let mut state = with_job(running());
    let mut drawn = [0, 7, 99, 12].into_iter();
    let drawn = draw(&state, || drawn.next().ok_or("no more".into()));
    assert_eq!(drawn, Ok(12));
    let job = record("j", &["x1", "x2"]);
    let changes = end(&state, 99, &job, 0);
    carry_out(&mut state, &changes);
    assert_eq!(forget(&state, REVOKED_MS - 1).len(), 1);
    let changes = forget(&state, REVOKED_MS);
    assert_eq!(changes, [Change::JobGone(99), Change::Expire(REVOKED_MS)]);
    let none = draw(&state, || Err("there are no random numbers".into()));
    assert_eq!(none, Err("there are no random numbers".into()));
}

#[test]
fn events_do_not_tell_the_partition() {
    let state = running();
    let links = job_links(&spec("x[1-3]"), 4_111_222_333, state.as_fabric()).unwrap();
    let job = record("j", &["x1", "x2", "x3"]);
    let mut changes = make(&state, 4_111_222_333, job.clone(), &links, 0).unwrap();
    changes.extend(end(&state, 4_111_222_333, &job, 0));
    let events: Vec<_> = changes
        .iter()
        .filter(|change| matches!(change, Change::Event(_)))
        .map(|change| format!("{change:?}"))
        .collect();
    assert_eq!(events.len(), 2);
    assert!(events[0].contains("job j on x1,x2,x3: 3 connections"));
    assert!(events.iter().all(|event| !event.contains("4111222333")));
}

#[test]
fn mistakes_of_a_job_are_told_with_their_remedies() {
    let state = running();
    let settings = |change: fn(&mut JobSettings)| {
        let mut spec = spec("x[1-2]");
        change(&mut spec.settings);
        spec
    };
    for (spec, told) in [
        (spec("x[1-9]"), "there is no node x5; describe it in a table [[nodes]], or leave it out here"),
        (spec("x[2-1]"), "the range 2-1 in \"x[2-1]\" runs backwards; write it as 1-2"),
        (
            settings(|settings| settings.window = Some(7)),
            "window 7 is outside 16..1024; write 16 to 1024 packets",
        ),
        (
            settings(|settings| settings.encap = Some("sun".into())),
            "encap = \"sun\" means nothing; write \"sunh\", \"udp\", \"udp4\" or \"udp6\"",
        ),
        (
            settings(|settings| {
                settings.parameters.insert("nh_hop_limits".into(), 1);
            }),
            "there is no parameter nh_hop_limits; did you mean nh_hop_limit? \"superp param show\" lists them",
        ),
    ] {
        assert_eq!(job_links(&spec, 99, state.as_fabric()), Err(vec![told.into()]));
    }
    // One node alone is a job, too.
    assert_eq!(
        job_links(&spec("x1"), 99, state.as_fabric()),
        Ok(Vec::new())
    );
    // Three connections of the file, and three of the first job: there is room for no more.
    let mut state = state;
    let links = job_links(&spec("x[1-4]"), 98, state.as_fabric()).unwrap();
    let changes = make(
        &state,
        98,
        record("i", &["x1", "x2", "x3", "x4"]),
        &links,
        0,
    );
    carry_out(&mut state, &changes.unwrap());
    assert_eq!(
        job_links(&spec("x[1-2]"), 99, state.as_fabric()),
        Err(vec![
            "x1 has 7 connections, and pdl_conns_per_xpu allows 6; \
             add pdl_conns_per_xpu = 7 to the table [parameters] of the fabric"
                .into()
        ])
    );
}

#[test]
fn files_keep_jobs_and_what_would_take_their_nodes_is_refused() {
    let mut state = with_job(running());
    let job = |state: &State| -> Vec<(ConnKey, u64, u32)> {
        let conns = state.conns.iter();
        let conns = conns.filter(|(_, conn)| conn.settings.partition == 99);
        conns
            .map(|(key, conn)| (*key, conn.born, conn.life))
            .collect()
    };
    let before = job(&state);
    assert_eq!(apply(&mut state, FILE).unwrap(), Vec::<String>::new());
    // What is not the job's may go; a parameter that changes leaves the job's connections as they are.
    let less = FILE.replace("mesh = \"x[1-4]\"", "mesh = \"x[1-3]\"");
    let less = less.replace(
        "[parameters]",
        "[parameters]\nnh_hop_limit = 4\npdl_dead_time = 4_000_000_000",
    );
    assert!(apply(&mut state, &less).unwrap().len() > 3);
    assert_eq!(job(&state), before);
    let pinned = &state.conns[&before[0].0].settings;
    let default = Param::find("pdl_dead_time").unwrap().default;
    assert_eq!(pinned.params["pdl_dead_time"], default);
    assert_eq!(pinned.hop_limit, Some(15));
    for (file, why) in [
        (
            less.replace("x[1-4]", "x[1-3]").replace("x[1-3]", "x[2-3]"),
            "x1 would be removed",
        ),
        (
            less.replace("10.23.0", "10.24.0"),
            "the address of x1 would change",
        ),
        (
            less.replace("10.0.0", "10.1.0"),
            "the agent of x1 would change",
        ),
        (less.replace("eth0", "eth1"), "the ports of x1 would change"),
    ] {
        let before = state.clone();
        let told = apply(&mut state, &file).unwrap_err();
        let expected = format!(
            "the job j is on x1, and {why}; leave it as it is, or end the job first: superp fabric job remove j"
        );
        assert_eq!(told, expected);
        assert_eq!(state, before);
    }
    let few = less.replace("pdl_conns_per_xpu = 6", "pdl_conns_per_xpu = 2");
    let told = apply(&mut state, &few).unwrap_err();
    assert!(
        told.contains("x1 would have 3 connections, those of jobs included"),
        "{told}"
    );
    let same = read(&less.replace("partition = 7", "partition = 99")).unwrap();
    let told = keeps_apart(&same, &state).unwrap_err();
    assert!(!told.contains("99"), "{told}");
    assert!(
        told.starts_with("the partition of the connection x1 to x2 is"),
        "{told}"
    );
}

#[test]
fn jobs_end_with_the_fabric() {
    let mut state = with_job(running());
    let changes = crate::decide::shut_down(&state, 5);
    carry_out(&mut state, &changes);
    assert_eq!((state.job("j"), of_job(&state).len()), (None, 0));
    assert!(state.nodes.values().all(|node| node.shut_down));
    assert_eq!(state.retired.len(), 2);
}
