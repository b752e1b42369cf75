// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The manager is watched: metrics, events as they happen, health; and commands for many connections.

use super::agent::Crash;
use super::{Lab, LIMIT};
use std::time::{Duration, Instant};
use superp_control::manager::{
    Connection, Event, EventStream, ManagerClient, Phase, Scope, Streamed, Verb, Want,
};
use superp_control::ConnectionState;

impl Lab {
    pub(crate) fn client(&self) -> ManagerClient {
        ManagerClient::new(&self.url(""), self.tls.as_ref()).unwrap()
    }

    async fn text(&self, path: &str) -> String {
        let answer = self.ask(None, path).await;
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.text().await.unwrap()
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.join("manager.db")).unwrap()
    }

    /// Asks until the answer has this status; its text.
    async fn until_answer(&self, path: &str, status: u16) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let answer = self.ask(None, path).await;
            if answer.status() == status {
                return answer.text().await.unwrap();
            }
            assert!(Instant::now() < end, "{path}: {}", answer.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn next(stream: &mut EventStream) -> Option<Streamed> {
    let next = tokio::time::timeout(LIMIT, stream.next());
    next.await.expect("a message is missing").unwrap()
}

/// The next events, so many.
async fn take(stream: &mut EventStream, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        match next(stream).await {
            Some(Streamed::Event(event)) => events.push(event),
            other => panic!("{other:?} after {events:?}"),
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_states_commands_and_events_in_as_many_lines_whatever_there_is() {
    let lab = Lab::new(3).await;
    let empty = lab.text("metrics").await;
    *lab.world.crash.lock().unwrap() = Some((1, Crash::AgentBefore));
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let text = lab.text("metrics").await;
    let commands = |command: &str, result: &str| {
        let sample =
            format!("superp_cm_commands_total{{command=\"{command}\",result=\"{result}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&sample));
        value
            .unwrap_or_else(|| panic!("no {sample}"))
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(commands("configure", "failed"), 1, "{text}");
    assert!(commands("configure", "done") >= 3 && commands("start", "done") >= 3);
    assert_eq!(commands("shutdown", "done"), 0);
    for line in [
        "superp_fabric_phase{phase=\"running\"} 1",
        "superp_fabric_phase{phase=\"booting\"} 0",
        "superp_fabric_nodes{state=\"started\"} 3",
        "superp_fabric_nodes{state=\"unknown\"} 0",
        "superp_fabric_nodes_ready 3",
        "superp_fabric_connections{want=\"run\"} 3",
        "superp_fabric_connection_ends{state=\"established\"} 6",
        "superp_fabric_connections_running 3",
        "superp_fabric_waiting 0",
        "superp_fabric_generation 1",
        "superp_cm_events_total{kind=\"apply\"} 1",
        "superp_cm_store_failures_total 0",
        "# TYPE superp_cm_events_total counter",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in\n{text}"
        );
    }
    assert_eq!(text.lines().count(), empty.lines().count());
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_goes_on_where_it_ended_also_with_another_manager() {
    let lab = Lab::new(2).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let kept: Vec<Event> = lab.get("v1/events").await;
    let mut all = lab.client().stream(Some(0)).await.unwrap();
    assert_eq!(take(&mut all, kept.len()).await, kept);
    // Whoever names no number gets what is to come, here of a connection that is restarted.
    let mut new = lab.client().stream(None).await.unwrap();
    let mut end = lab
        .client()
        .stream(Some(kept.len() as u64 - 1))
        .await
        .unwrap();
    assert_eq!(take(&mut end, 1).await, kept[kept.len() - 1..]);
    let key = lab.conns().await[0].connection.clone();
    let scope = Scope::Connection(key.clone());
    lab.client().command(&scope, Verb::Restart).await.unwrap();
    for stream in [&mut all, &mut new, &mut end] {
        let event = take(stream, 1).await.remove(0);
        assert_eq!(
            (event.seq, event.kind.as_str()),
            (kept.len() as u64 + 1, "connection")
        );
        assert_eq!(event.connection.as_ref(), Some(&key));
    }
    lab.until_conns(|conns| conns[0].life == 1).await;
    lab.until(Phase::Running).await;

    lab.kill();
    let mut before = kept;
    before.clear();
    while let Some(streamed) = next(&mut new).await {
        match streamed {
            Streamed::Event(event) => before.push(event),
            lost => panic!("{lost:?}"),
        }
    }
    let last = new.last();
    lab.ask(Some(""), "v1/shutdown").await;
    lab.until(Phase::Down).await;
    let kept: Vec<Event> = lab.get(&format!("v1/events?after={}", last.unwrap())).await;
    assert!(kept.iter().any(|event| event.kind == "phase"));
    let mut again = lab.client().stream(last).await.unwrap();
    assert_eq!(take(&mut again, kept.len()).await, kept);
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_tells_what_is_lost_and_refuses_nonsense() {
    let lab = Lab::new(2).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    lab.ask(Some(""), "v1/shutdown").await;
    lab.until(Phase::Down).await;
    let kept: Vec<Event> = lab.get("v1/events").await;
    // A number of another store.
    let mut other = lab.client().stream(Some(1 << 40)).await.unwrap();
    assert_eq!(take(&mut other, kept.len()).await, kept);
    lab.database()
        .execute("DELETE FROM events WHERE seq = 2", [])
        .unwrap();
    let mut gap = lab.client().stream(Some(0)).await.unwrap();
    assert_eq!(take(&mut gap, 1).await[0].seq, 1);
    assert_eq!(next(&mut gap).await, Some(Streamed::Lost(1)));
    assert_eq!(take(&mut gap, 1).await[0].seq, 3);
    let request = lab.http.get(lab.url("v1/events/stream"));
    let refused = request.header("last-event-id", "x1").send().await.unwrap();
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("Last-Event-ID"));
    // No more clients than so many keep a stream; others still ask.
    let mut streams = Vec::new();
    let refused = loop {
        match lab.client().stream(None).await {
            Ok(stream) => streams.push(stream),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(streams.len(), 62);
    assert!(refused.contains("GET /v1/events"), "{refused}");
    assert!(lab
        .text("metrics")
        .await
        .contains("superp_cm_event_streams 64\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_ends_in_order_when_the_manager_is_told_to_end() {
    let lab = Lab::new(1).await;
    lab.status().await;
    let mut stream = lab
        .http
        .get(lab.url("v1/events/stream"))
        .send()
        .await
        .unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "id: 0\n\n");
    let mut manager = lab.manager.lock().unwrap().take().unwrap();
    let kill = format!("kill -TERM {}", manager.id());
    let killed = std::process::Command::new("sh")
        .args(["-c", &kill])
        .status();
    assert!(killed.unwrap().success());
    // An end that is cut off would be an error.
    let end = tokio::time::timeout(LIMIT, stream.chunk()).await.unwrap();
    assert_eq!(end.unwrap(), None);
    let ended = tokio::task::spawn_blocking(move || manager.wait().unwrap());
    let ended = tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}: {}", lab.log());
    assert!(
        !lab.log().contains("did not take their answers"),
        "{}",
        lab.log()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manager_is_not_ready_while_its_store_cannot_be_written() {
    let lab = Lab::new(1).await;
    lab.until_answer("readyz", 200).await;
    let database = lab.database();
    database
        .execute_batch(
            "CREATE TRIGGER broken BEFORE INSERT ON retired BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .unwrap();
    let text = lab.until_answer("readyz", 503).await;
    assert!(text.contains("the disk is full"), "{text}");
    assert_eq!(lab.ask(None, "livez").await.status(), 200);
    let failures = lab.text("metrics").await;
    assert!(
        !failures.contains("superp_cm_store_failures_total 0\n"),
        "{failures}"
    );
    database.execute_batch("DROP TRIGGER broken").unwrap();
    lab.until_answer("readyz", 200).await;
    let left: u64 = database
        .query_row("SELECT count(*) FROM retired", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        left, 0,
        "what was written to see whether it can be is not left"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_and_fabric_are_drained_and_restarted() {
    let lab = Lab::new(3).await;
    let client = lab.client();
    lab.status().await;
    let refused = client
        .command(&Scope::Fabric, Verb::Stop)
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "the fabric is empty");
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let node = Scope::Node("xpu02".into());
    let of_node = |conn: &Connection| conn.ends.iter().any(|end| end.node == "xpu02");
    let all = |conn: &Connection, state| conn.ends.iter().all(|end| end.state == Some(state));
    client.command(&node, Verb::Stop).await.unwrap();
    let stopped = |conn: &Connection| all(conn, ConnectionState::Stopped);
    let conns = lab
        .until_conns(|conns| conns.iter().filter(|conn| of_node(conn)).all(stopped))
        .await;
    for conn in &conns {
        let want = if of_node(conn) { Want::Stop } else { Want::Run };
        assert_eq!((conn.want, conn.life), (want, 0));
        assert_eq!(stopped(conn), of_node(conn));
    }
    let listed = client.connections(&node).await.unwrap();
    assert_eq!(listed.len(), 2);
    client.command(&node, Verb::Restart).await.unwrap();
    let running =
        |conn: &Connection| all(conn, ConnectionState::Established) && conn.want == Want::Run;
    let conns = lab.until_conns(|conns| conns.iter().all(running)).await;
    for conn in &conns {
        assert_eq!(conn.life, u32::from(of_node(conn)), "{conn:?}");
    }
    client.command(&Scope::Fabric, Verb::Stop).await.unwrap();
    lab.until_conns(|conns| conns.iter().all(stopped)).await;
    client.command(&Scope::Fabric, Verb::Restart).await.unwrap();
    lab.until_conns(|conns| conns.iter().all(running)).await;
    let events: Vec<Event> = lab.get("v1/events").await;
    for (node, text) in [
        (
            Some("xpu02"),
            "2 connections are shut down softly, as requested",
        ),
        (
            None,
            "3 connections are shut down softly and started again, as requested",
        ),
    ] {
        let told = |event: &&Event| event.text == text && event.node.as_deref() == node;
        assert_eq!(events.iter().filter(told).count(), 1, "{text}: {events:?}");
    }
    let nobody = Scope::Node("xpu9/../xpu01".into());
    let refused = client.command(&nobody, Verb::Stop).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no node xpu9/../xpu01");
    lab.no_wrongs();
}
