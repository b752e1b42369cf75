// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Jobs, which come and go while the fabric runs.

use super::agent::Agent;
use super::secure::issue;
use super::Lab;
use std::sync::atomic::Ordering;
use superp_control::manager::{
    Connection, Job, JobSettings, JobSpec, ManagerClient, ManagerError, Phase,
};
use superp_tls::Role;

fn spec(hosts: &str) -> JobSpec {
    JobSpec {
        name: "j1".into(),
        hosts: hosts.into(),
        settings: JobSettings::default(),
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ManagerError>) -> (u16, String) {
    match answer {
        Err(ManagerError::Refused(problem)) => (problem.status, problem.detail),
        other => panic!("{other:?}"),
    }
}

/// The connections that are no job's, with their lives.
fn others(conns: &[Connection]) -> Vec<(String, u32)> {
    let conns = conns.iter().filter(|conn| conn.job.is_none());
    conns
        .map(|conn| (conn.connection.clone(), conn.life))
        .collect()
}

impl Lab {
    fn as_role(&self, role: Role, name: &str) -> ManagerClient {
        let tls = match role {
            Role::Agent => superp_tls::Tls::read(&self.folder.join(name)).unwrap(),
            role => issue(&self.folder, role, name, None),
        };
        ManagerClient::new(self.url("").trim_end_matches('/'), Some(&tls)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_comes_and_goes_beside_what_runs_and_its_token_is_told_to_few() {
    let lab = Lab::with(4, true).await;
    lab.world.jobs.store(true, Ordering::SeqCst);
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let before = others(&lab.conns().await);
    let client = lab.client();
    let job = client.make_job(&spec("xpu[01-03]"), 60).await.unwrap();
    assert_eq!((job.connections, job.connections_running), (3, 3));
    let partition = job.partition.unwrap();
    assert_ne!(partition, 0);
    for agent in &lab.agents[..3] {
        let kernel = agent.lock();
        let configuration = kernel.configuration.as_ref().unwrap();
        assert_eq!(configuration.node.partitions, [partition]);
    }
    let last = lab.agents[3].lock().configuration.clone().unwrap();
    assert_eq!(last.node.partitions, Vec::<u32>::new());
    // The same again, also to the next manager, is the same job; in another order too.
    lab.kill();
    lab.until(Phase::Running).await;
    let again = client.make_job(&spec("xpu03,xpu[01-02]"), 60).await;
    assert_eq!(again.unwrap(), job);
    let (status, told) = refused(client.make_job(&spec("xpu[01-04]"), 60).await);
    assert_eq!(status, 409);
    assert!(
        told.starts_with("there is a job j1 already, on xpu01,xpu02,xpu03, with other nodes"),
        "{told}"
    );

    // Operators and its own nodes know the token, and nobody else.
    let token = partition.to_string();
    let bob = lab.as_role(Role::Viewer, "bob");
    let seen = bob.job("j1", 0).await.unwrap();
    assert_eq!((seen.partition, seen.runs()), (None, true));
    assert_eq!(bob.jobs().await.unwrap(), [seen]);
    let own = lab.as_role(Role::Agent, "xpu02").job("j1", 0).await;
    assert_eq!(own.unwrap().partition, Some(partition));
    let other = lab.as_role(Role::Agent, "xpu04");
    let expected = "xpu04 has the role agent; GET /v1/jobs/j1 needs the role viewer or operator";
    assert_eq!(
        refused(other.job("j1", 0).await),
        (403, expected.to_owned())
    );
    assert_eq!(refused(other.job("j2", 0).await).0, 403);
    assert_eq!(refused(other.jobs().await).0, 403);
    let (status, _) = refused(bob.make_job(&spec("xpu[01-02]"), 0).await);
    assert_eq!(status, 403);
    for path in ["v1/connections", "v1/events", "v1/audit", "metrics"] {
        let text = lab.ask(None, path).await.text().await.unwrap();
        assert!(!text.contains(&token), "{path}: {text}");
    }
    let conns = lab.conns().await;
    let of_job = conns.iter().filter(|conn| conn.job.is_some());
    let of_job: Vec<_> = of_job.map(|conn| conn.settings.partition).collect();
    assert_eq!((of_job, others(&conns)), (vec![0; 3], before.clone()));

    client.end_job("j1").await.unwrap();
    let expected = (404, "there is no job j1".to_owned());
    assert_eq!(refused(client.end_job("j1").await), expected);
    assert_eq!(refused(client.job("j1", 0).await), expected);
    lab.until(Phase::Running).await;
    let conns = lab.until_conns(|conns| conns.len() == 6).await;
    assert_eq!(others(&conns), before);
    let gone = |agent: &Agent| agent.lock().conns.len() == 3;
    assert!(lab.agents.iter().all(|agent| gone(agent)));
    let next: Job = client.make_job(&spec("xpu[01-03]"), 60).await.unwrap();
    assert_ne!(next.partition, Some(partition));
    assert!(!lab.log().contains(&token), "{}", lab.log());
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_cannot_be_or_does_not_run_in_time_leaves_nothing_behind() {
    let lab = Lab::new(2).await;
    lab.world.jobs.store(true, Ordering::SeqCst);
    let client = lab.client();
    lab.until(Phase::Empty).await;
    let expected = (409, "the fabric is empty".to_owned());
    assert_eq!(refused(client.make_job(&spec("a[1-2]"), 1).await), expected);
    // There is no third agent: the fabric does not get beyond booting.
    lab.apply(&lab.mesh(0).replace("xpu[01-02]", "xpu[01-03]"))
        .await;
    let generation = lab.status().await.generation;
    let (status, told) = refused(client.make_job(&spec("xpu[01-04]"), 1).await);
    assert_eq!(status, 422);
    let no_node = "there is no node xpu04; describe it in a table [[nodes]], or leave it out here";
    assert_eq!(told, no_node);
    let wrong = lab
        .ask(
            Some(r#"{"name": "j", "hosts": "xpu01", "partition": 7}"#),
            "v1/jobs",
        )
        .await;
    assert_eq!(wrong.status(), 400);
    assert_eq!(lab.status().await.generation, generation);
    let (status, told) = refused(client.make_job(&spec("xpu[01,03]"), 1).await);
    assert_eq!(status, 504);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(
        lines[0],
        "the job j1 does not run after 1 s, and it is removed again"
    );
    assert!(lines[1].starts_with("connection "), "{told}");
    assert!(
        told.contains("\nnode xpu03: waiting for READY: connection refused"),
        "{told}"
    );
    assert_eq!(client.jobs().await.unwrap(), []);
    // One that is asked for without waiting stays.
    let job = client.make_job(&spec("xpu[01,03]"), 0).await.unwrap();
    assert!(!job.runs());
    let (_, told) = refused(client.make_job(&spec("xpu[01,03]"), 1).await);
    assert!(told.contains("it was there before, and is left as it is"));
    let without = lab.ask(Some(&lab.mesh(0)), "v1/apply").await;
    assert_eq!(without.status(), 409);
    let told = without.text().await.unwrap();
    assert!(
        told.contains("the job j1 is on xpu03, and xpu03 would be removed"),
        "{told}"
    );
    client.end_job("j1").await.unwrap();
    Agent::start(format!("{}.3:7779", lab.net), &lab.world).await;
    lab.until(Phase::Running).await;
    client.make_job(&spec("xpu[01-02]"), 60).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.jobs().await.unwrap(), []);
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_follow_each_other_do_not_wait_for_commands_of_the_one_before() {
    let lab = Lab::new(3).await;
    lab.world.jobs.store(true, Ordering::SeqCst);
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let client = lab.client();
    for _ in 0..100 {
        client.make_job(&spec("xpu[01-03]"), 60).await.unwrap();
        client.end_job("j1").await.unwrap();
    }
    let events = client.events(0).await.unwrap();
    let refused: Vec<_> = events
        .iter()
        .filter(|event| event.text.contains("was refused"))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    lab.no_wrongs();
}
