// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Two managers, of which one leads, on one etcd.

use super::{etcd, Lab, LIMIT};
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use superp_control::manager::{FabricStatus, ManagerClient, Phase, Problem, NOT_LEADING};

/// The lease of the managers of a [`Lab`].
const LEASE: Duration = Duration::from_secs(3);

/// What a takeover may take beyond the lease, on a machine that does much else.
const MORE: Duration = Duration::from_secs(20);

/// A lab with a second manager, which waits.
struct Two {
    lab: Lab,
    second: Child,
    /// Asks whoever leads.
    client: ManagerClient,
    /// Asks the second one.
    after: ManagerClient,
}

impl Two {
    async fn new(agents: usize) -> Self {
        let lab = Lab::on(agents, false, Some(etcd::Server::start())).await;
        // So it is known who leads.
        lab.status().await;
        let second = lab.start_at(251);
        let urls = [251, 250].map(|host| format!("http://{}.{host}:7778", lab.net));
        let client = |urls: &str| ManagerClient::new(urls, None).unwrap();
        let two = Self {
            lab,
            second,
            client: client(&urls.join(",")),
            after: client(&urls[0]),
        };
        let end = Instant::now() + LIMIT;
        while two.answer("livez").await.is_none() {
            assert!(Instant::now() < end, "{}", two.lab.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        two
    }

    /// What the second manager answers.
    async fn answer(&self, path: &str) -> Option<(u16, String)> {
        let url = format!("http://{}.251:7778/{path}", self.lab.net);
        let answer = self.lab.http.get(url).timeout(LIMIT).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Waits until the second manager leads a fabric that runs; its status, and how long that took.
    async fn taken_over(&self) -> (FabricStatus, Duration) {
        let begin = Instant::now();
        loop {
            let ready = self.answer("readyz").await;
            if ready.is_some_and(|(status, _)| status == 200) {
                let taken = begin.elapsed();
                let status = self.after.fabric().await.unwrap();
                if status.connections_running == status.connections {
                    return (status, taken);
                }
            }
            assert!(begin.elapsed() < LIMIT, "{}", self.lab.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn signal(&self, signal: &str) {
        let manager = self.lab.manager.lock().unwrap();
        etcd::send(signal, &manager.as_ref().unwrap().id().to_string());
    }

    /// Waits until the first manager has ended.
    async fn ended(&self) -> ExitStatus {
        let end = Instant::now() + MORE;
        loop {
            let status = {
                let mut manager = self.lab.manager.lock().unwrap();
                manager.as_mut().unwrap().try_wait().unwrap()
            };
            if let Some(status) = status {
                return status;
            }
            assert!(Instant::now() < end, "{}", self.lab.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        let _ = self.second.kill();
        let _ = self.second.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manager_that_waits_names_the_leader_and_takes_over_when_it_is_killed() {
    let two = Two::new(3).await;
    // The client asks the one that waits first.
    let file = two.lab.mesh(0);
    assert!(two.client.apply("x", file).await.unwrap().changed);
    let before = two.lab.until(Phase::Running).await;
    let end = Instant::now() + LIMIT;
    let leader = format!("another manager leads: http://{}.250:7778", two.lab.net);
    while !two.answer("readyz").await.unwrap().1.contains(&leader) {
        assert!(Instant::now() < end, "{}", two.lab.log());
    }
    assert_eq!(two.answer("readyz").await.unwrap().0, 503);
    assert_eq!(two.answer("livez").await.unwrap().0, 200);
    let metrics = two.answer("metrics").await.unwrap();
    assert!(metrics.1.contains("\nsuperp_cm_leads 0\n"), "{metrics:?}");
    let (status, text) = two.answer("v1/fabric").await.unwrap();
    let problem: Problem = serde_json::from_str(&text).unwrap();
    assert_eq!((status, problem.title.as_str()), (503, NOT_LEADING));
    assert_eq!(problem.detail, leader);

    let (kernels, commands) = (
        two.lab.kernels(),
        two.lab.world.commands.load(Ordering::SeqCst),
    );
    two.lab.kill();
    let (after, taken) = two.taken_over().await;
    println!(
        "takeover: {:.2} s, lease {} s",
        taken.as_secs_f64(),
        LEASE.as_secs()
    );
    assert!(taken < LEASE + MORE, "{taken:?}");
    assert!(after.term > before.term);
    assert_eq!(
        (after.phase, after.generation, after.connections_running),
        (Phase::Running, before.generation, 3)
    );
    assert_eq!(
        (
            two.lab.kernels(),
            two.lab.world.commands.load(Ordering::SeqCst)
        ),
        (kernels, commands),
        "what runs is not touched"
    );
    assert!(
        two.client
            .apply("x", two.lab.mesh(7))
            .await
            .unwrap()
            .changed
    );
    assert!(two
        .answer("metrics")
        .await
        .unwrap()
        .1
        .contains("\nsuperp_cm_leads 1\n"));
    two.taken_over().await;
    two.lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_stood_still_past_its_lease_gives_no_commands() {
    let two = Two::new(3).await;
    two.client.apply("x", two.lab.mesh(0)).await.unwrap();
    let before = two.lab.until(Phase::Running).await;
    two.signal("STOP");
    let (after, _) = two.taken_over().await;
    assert!(after.term > before.term);
    // All agents have to be told something, first by the new leader.
    two.after.apply("x", two.lab.mesh(7)).await.unwrap();
    let end = Instant::now() + LIMIT;
    while two.after.fabric().await.unwrap().started < 2 {
        assert!(Instant::now() < end, "{}", two.lab.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // And now by both, if the old one would.
    for agent in &two.lab.agents {
        agent.restart(true, true);
    }
    two.signal("CONT");
    let status = two.ended().await;
    assert_eq!(status.code(), Some(1));
    let log = two.lab.log();
    assert!(
        log.contains("leads no more") || log.contains("a newer manager works"),
        "{log}"
    );
    two.taken_over().await;
    assert_eq!(two.lab.world.stale.load(Ordering::SeqCst), 0, "{log}");
    two.lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_is_told_to_end_leaves_at_once() {
    let two = Two::new(2).await;
    two.client.apply("x", two.lab.mesh(0)).await.unwrap();
    let before = two.lab.until(Phase::Running).await;
    two.signal("TERM");
    assert!(two.ended().await.success());
    let (after, taken) = two.taken_over().await;
    println!("takeover from one that ends: {:.2} s", taken.as_secs_f64());
    assert_eq!(after.term, before.term + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_without_etcd_ends_when_its_lease_may_be_over() {
    let two = Two::new(2).await;
    two.client.apply("x", two.lab.mesh(0)).await.unwrap();
    two.lab.until(Phase::Running).await;
    let server = two.lab.etcd.as_ref().unwrap();
    server.signal("STOP");
    assert_eq!(two.ended().await.code(), Some(1));
    let commands = two.lab.world.commands.load(Ordering::SeqCst);
    two.lab.agents[0].break_conn(1);
    assert_eq!(two.answer("livez").await.unwrap().0, 200);
    let end = Instant::now() + LIMIT;
    while !two
        .answer("readyz")
        .await
        .unwrap()
        .1
        .contains("it is not known who leads")
    {
        assert!(Instant::now() < end, "{}", two.lab.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(two.lab.world.commands.load(Ordering::SeqCst), commands);
    server.signal("CONT");
    two.taken_over().await;
    two.lab.no_wrongs();
}
