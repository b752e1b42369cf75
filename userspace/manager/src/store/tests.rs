// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What every store must do; a new kind of store is added to `each_kind`.

use super::*;
use crate::fabric::{Encap, Node, OnBroken, Params, Port, Settings};
use crate::state::{ConnKey, ConnRecord, End, FabricRecord, JobRecord, NodeRecord, Phase, Want};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::LazyLock;
use superp_control::manager::JobSettings;
use superp_control::RmaSpace;

#[path = "../../tests/fabric/etcd.rs"]
pub(super) mod server;

/// A place for a store, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("superp-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The same etcd for all tests of this process, with which it ends.
pub(super) static SERVER: LazyLock<server::Server> = LazyLock::new(server::Server::start);

/// A place in it.
pub(super) fn access(name: &str) -> Access {
    Access {
        endpoints: vec![SERVER.url.clone()],
        prefix: format!("/test/{name}"),
        ..Access::default()
    }
}

/// Runs a test with a function that opens one and the same store, for each kind of store.
fn each_kind(name: &str, test: impl Fn(&dyn Fn() -> Box<dyn Store>)) {
    each_kind_with(name, Limits::default(), test);
}

/// The same where so much is kept.
fn each_kind_with(name: &str, limits: Limits, test: impl Fn(&dyn Fn() -> Box<dyn Store>)) {
    let folder = Folder::new(name);
    let path = folder.0.join("manager.db");
    test(&|| Box::new(Sqlite::open_with(&path, limits).unwrap()));
    let access = access(name);
    test(&|| Box::new(Etcd::open_with(&access, limits).unwrap()));
}

pub(super) fn node(address: &str) -> NodeRecord {
    NodeRecord {
        node: Node {
            agent: format!("{address}:7779"),
            address: address.parse().unwrap(),
            ports: vec![Port {
                dev: "eth0".into(),
                sunh: true,
                udp: false,
            }],
            rma: Some(RmaSpace {
                base: 1 << 40,
                size: 4096,
            }),
        },
        ready: 3,
        shut_down: true,
        leaving: false,
        capabilities: Some(serde_json::json!({ "api_version": "1.0" })),
        instance: "i1".into(),
        reports: ("i1".into(), 17),
    }
}

fn conn() -> ConnRecord {
    ConnRecord {
        nodes: ["a".into(), "b".into()],
        settings: Settings {
            encap: Encap::Udp6,
            ordered: false,
            spray: true,
            ext: true.into(),
            partition: 9,
            tclass: 1,
            hop_limit: Some(3),
            mtu: None,
            params: Params::from([("pdl_dead_time".into(), u64::MAX)]),
        },
        born: 2,
        start_psn: u32::MAX,
        life: 4,
        want: Want::Restart,
        up: [true, false],
        not_before: 12,
        breaks: 1,
    }
}

fn key(one: u16, other: u16) -> ConnKey {
    let end = |addr: &str, cid| End {
        addr: addr.parse().unwrap(),
        cid,
    };
    ConnKey::new(end("fd23::2", one), end("10.23.0.1", other))
}

fn event(text: &str) -> Event {
    Event {
        seq: 0,
        time_ms: 5,
        node: Some("a".into()),
        connection: None,
        kind: "node".into(),
        text: text.into(),
    }
}

fn job() -> JobRecord {
    JobRecord {
        name: "j".into(),
        hosts: vec!["a".into(), "b".into()],
        settings: JobSettings {
            window: Some(64),
            ..JobSettings::default()
        },
        made_ms: 3,
        ended_ms: None,
    }
}

/// Every kind of change.
fn changes() -> Vec<Change> {
    let record = FabricRecord {
        name: "lab".into(),
        broken: OnBroken::Stop,
        generation: 3,
        started: 2,
        phase: Phase::Running,
    };
    vec![
        Change::Fabric(record),
        Change::Params(Params::from([
            ("pdl_dead_time".into(), u64::MAX),
            ("nh_hop_limit".into(), 4),
        ])),
        Change::Node("a".into(), Box::new(node("10.0.0.1"))),
        Change::Node("b".into(), Box::new(node("10.0.0.2"))),
        Change::Conn(key(1, 2), Box::new(conn())),
        Change::Conn(key(65_535, 2), Box::new(conn())),
        Change::Retire("a".into(), 7, 1000),
        Change::Retire("a".into(), 8, 2000),
        Change::Job(u32::MAX, Box::new(job())),
        Change::Job(1, Box::new(job())),
        Change::Event(event("one")),
        // And what takes away, or puts in place of another.
        Change::NodeGone("b".into()),
        Change::Node("a".into(), Box::new(node("10.0.0.9"))),
        Change::ConnGone(key(1, 2)),
        Change::Params(Params::from([("nh_hop_limit".into(), 5)])),
        Change::Expire(1000),
        Change::Job(
            u32::MAX,
            Box::new(JobRecord {
                ended_ms: Some(9),
                ..job()
            }),
        ),
        Change::JobGone(1),
        Change::Event(event("two")),
    ]
}

#[test]
fn what_is_stored_is_loaded() {
    each_kind("loaded", |open| {
        let mut store = open();
        let term = store.begin_term(1).unwrap();
        let mut expected = State::default();
        assert_eq!(store.load().unwrap(), expected);
        for change in changes() {
            expected.apply(&change);
            store.commit(term, &[change]).unwrap();
            assert_eq!(store.load().unwrap(), expected);
        }
        drop(store);
        assert_eq!(open().load().unwrap(), expected);
        assert_eq!(
            (
                expected.nodes.len(),
                expected.conns.len(),
                expected.retired.len(),
                expected.jobs.len()
            ),
            (1, 1, 1, 1)
        );
    });
}

#[test]
fn changes_are_stored_as_a_whole() {
    each_kind("whole", |open| {
        let mut store = open();
        let term = store.begin_term(1).unwrap();
        store.commit(term, &changes()).unwrap();
        let before = (store.load().unwrap(), store.last_event().unwrap());
        let more = [Change::NodeGone("a".into()), Change::Event(event("three"))];
        assert!(store.commit(term + 1, &more).is_err());
        assert_eq!((store.load().unwrap(), store.last_event().unwrap()), before);
    });
}

#[test]
fn newer_term_shuts_the_older_one_out() {
    each_kind("term", |open| {
        let (mut first, mut second) = (open(), open());
        let one = first.begin_term(1).unwrap();
        first.commit(one, &[Change::NodeGone("a".into())]).unwrap();
        let two = second.begin_term(1).unwrap();
        assert!(two > one);
        match first.commit(one, &[Change::Event(event("late"))]) {
            Err(StoreError::Fenced { ours, newest }) => assert_eq!((ours, newest), (one, two)),
            other => panic!("{other:?}"),
        }
        second.commit(two, &[Change::Event(event("new"))]).unwrap();
        assert_eq!(second.events(0, 10).unwrap().len(), 1);
        assert_eq!(second.begin_term(100).unwrap(), 100);
        assert_eq!(second.begin_term(5).unwrap(), 101);
    });
}

#[test]
fn events_have_numbers_that_rise_and_are_read_from_any_on() {
    each_kind("events", |open| {
        let mut store = open();
        let term = store.begin_term(1).unwrap();
        assert_eq!(store.last_event().unwrap(), 0);
        for text in ["one", "two", "three"] {
            store.commit(term, &[Change::Event(event(text))]).unwrap();
        }
        let texts = |events: Vec<Event>| -> Vec<String> {
            events.into_iter().map(|event| event.text).collect()
        };
        assert_eq!(texts(store.events(0, 2).unwrap()), ["one", "two"]);
        let after = store.events(0, 1).unwrap()[0].seq;
        assert_eq!(texts(store.events(after, 10).unwrap()), ["two", "three"]);
        assert_eq!(
            store.events(0, 9).unwrap()[2].seq,
            store.last_event().unwrap()
        );
        assert_eq!(store.events(0, 9).unwrap()[0].node.as_deref(), Some("a"));
    });
}

#[test]
fn old_events_are_dropped() {
    let limits = Limits {
        events: 200,
        ..Limits::default()
    };
    each_kind_with("old", limits, |open| {
        let mut store = open();
        let term = store.begin_term(1).unwrap();
        let many = vec![Change::Event(event("again")); 230];
        store.commit(term, &many).unwrap();
        assert_eq!(store.last_event().unwrap(), 230);
        assert_eq!(store.events(0, 1).unwrap()[0].seq, 31);
        store.commit(term, &many[..1]).unwrap();
        assert_eq!(store.events(0, 1).unwrap()[0].seq, 32);
        assert_eq!(store.events(0, 999).unwrap().len(), 200);
    });
}

fn record(who: &str) -> AuditRecord {
    AuditRecord {
        seq: 0,
        time_ms: 7,
        who: who.into(),
        role: Some("operator".into()),
        request: "POST /v1/apply".into(),
        status: None,
        result: None,
    }
}

#[test]
fn requests_are_recorded_before_and_after_whatever_the_term() {
    each_kind("audit", |open| {
        let mut store = open();
        let one = store.audit(&record("alice")).unwrap();
        let two = store.audit(&record("bob")).unwrap();
        assert_eq!((one, two), (1, 2));
        store.audited(two, 409, Some("the fabric is down")).unwrap();
        let begun = AuditRecord {
            seq: 1,
            ..record("alice")
        };
        let done = AuditRecord {
            seq: 2,
            status: Some(409),
            result: Some("the fabric is down".into()),
            ..record("bob")
        };
        drop(store);
        let mut store = open();
        let log = store.audit_log(0, 9).unwrap();
        assert_eq!(log, [begun.clone(), done.clone()]);
        assert_eq!(store.audit_log(0, 1).unwrap(), [begun]);
        assert_eq!(store.audit_log(1, 9).unwrap(), [done]);
    });
}

#[test]
fn forbidden_requests_push_out_only_their_like() {
    let limits = Limits {
        audit: 10,
        forbidden: 3,
        audit_batch: 20,
        ..Limits::default()
    };
    each_kind_with("forget", limits, |open| {
        let mut store = open();
        for number in 0..60 {
            let seq = store.audit(&record("someone")).unwrap();
            match number % 3 {
                0 => store.audited(seq, 200, None).unwrap(),
                1 => store
                    .audited(seq, 403, Some("needs the role operator"))
                    .unwrap(),
                // What became of it is not known yet.
                _ => {}
            }
        }
        let left = store.audit_log(0, 99).unwrap();
        let (forbidden, others): (Vec<_>, Vec<_>) =
            left.iter().partition(|record| record.status == Some(403));
        let seqs = |records: &[&AuditRecord]| -> Vec<u64> {
            records.iter().map(|record| record.seq).collect()
        };
        assert_eq!(seqs(&forbidden), [53, 56, 59]);
        assert_eq!(seqs(&others), [46, 48, 49, 51, 52, 54, 55, 57, 58, 60]);
        // Numbers go on.
        assert_eq!(store.audit(&record("someone")).unwrap(), 61);
    });
}

/// As many connections as a mesh of 64 nodes has, and events.
pub(super) fn mesh() -> Vec<Change> {
    let conns = (1..=2016).map(|cid| Change::Conn(key(cid, 2), Box::new(conn())));
    conns
        .chain([Change::Event(event("mesh")), Change::Event(event("more"))])
        .collect()
}

#[test]
fn many_changes_are_stored_as_one() {
    each_kind("many", |open| {
        let mut store = open();
        let term = store.begin_term(1).unwrap();
        let mut expected = State::default();
        mesh().iter().for_each(|change| expected.apply(change));
        store.commit(term, &mesh()).unwrap();
        assert_eq!(store.load().unwrap(), expected);
        assert_eq!(store.events(0, 9).unwrap().len(), 2);
        // And what comes after it finds all in its place.
        let gone: Vec<_> = expected
            .conns
            .keys()
            .copied()
            .map(Change::ConnGone)
            .collect();
        gone.iter().for_each(|change| expected.apply(change));
        store.commit(term, &gone).unwrap();
        drop(store);
        assert_eq!(open().load().unwrap(), expected);
    });
}

#[test]
fn stores_of_older_versions_get_what_they_lack_and_keep_what_they_have() {
    // What there was before the audit log, and before jobs.
    for (version, lacks) in [
        (1, "DROP TABLE audit; DROP TABLE jobs"),
        (2, "DROP TABLE jobs"),
    ] {
        let folder = Folder::new("older");
        let path = folder.0.join("x");
        let mut store = Sqlite::open(&path).unwrap();
        let term = store.begin_term(1).unwrap();
        store.commit(term, &changes()).unwrap();
        let mut before = store.load().unwrap();
        before.jobs.clear();
        store.db.execute_batch(lacks).unwrap();
        store
            .db
            .pragma_update(None, "user_version", version)
            .unwrap();
        drop(store);
        let mut store = Sqlite::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), before);
        assert_eq!(store.audit(&record("alice")).unwrap(), 1);
        let made = [Change::Job(7, Box::new(job()))];
        store.commit(term, &made).unwrap();
        drop(store);
        let mut store = Sqlite::open(&path).unwrap();
        assert_eq!(store.audit_log(0, 9).unwrap().len(), 1);
        assert_eq!(store.load().unwrap().jobs, [(7, job())].into());
    }
}

#[test]
fn file_of_something_else_is_refused() {
    let folder = Folder::new("foreign");
    let path = folder.0.join("x");
    let refused = || match Sqlite::open(&path) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    std::fs::write(
        &path,
        "this is no database, and it is long enough to be seen as none",
    )
    .unwrap();
    assert!(refused().contains("not a database"), "{}", refused());
    std::fs::remove_file(&path).unwrap();
    let foreign = Connection::open(&path).unwrap();
    foreign.pragma_update(None, "user_version", 3).unwrap();
    assert!(refused().contains("is a database of another program"));
    std::fs::remove_file(&path).unwrap();
    drop(Sqlite::open(&path).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 9).unwrap();
    assert!(refused().contains("has tables of version 9"));
}
