// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What is special about etcd; what every store must do is tested beside the trait.

use super::super::tests::{access, mesh, node, server};
use super::*;
use std::path::Path;
use superp_tls::authority::{self, Request};
use superp_tls::Role;

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn fails<T>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}

/// Keys that there are.
fn count(store: &Etcd, kind: &str) -> i64 {
    let options = GetOptions::new().with_prefix().with_count_only();
    store.get(store.key(kind), Some(options)).unwrap().count()
}

#[test]
fn manager_that_dies_while_it_stores_much_has_stored_all_or_nothing() {
    let access = access("dies");
    let mut first = Etcd::open(&access).unwrap();
    let term = first.begin_term(1).unwrap();
    let mut records = records::records(&mesh(), &Records::new()).unwrap();
    let event = number(&mut records, EVENT, &mesh(), 0).unwrap();
    let parts = batches(records).unwrap();
    assert!(parts.len() > 20);
    let head = first.head.clone().unwrap();
    let next = Head {
        commit: head.commit + 1,
        event,
        ..head.clone()
    };
    // It dies when it has written only parts of it.
    let put = serde_json::to_vec(&parts[0]).unwrap();
    let put = TxnOp::put(first.key(&numbered(JOURNAL, 0)), put, None);
    first.write(head.clone(), vec![put]).unwrap();
    assert_eq!(first.load().unwrap(), State::default());
    // Then when all is written and nothing is in its place.
    first.journal(next, &parts).unwrap();
    assert_eq!(
        (count(&first, STATE), first.head.clone().unwrap().term),
        (0, term)
    );
    drop(first);
    let mut expected = State::default();
    mesh().iter().for_each(|change| expected.apply(change));
    let mut second = Etcd::open(&access).unwrap();
    assert_eq!(second.load().unwrap(), expected);
    second.begin_term(1).unwrap();
    assert_eq!((count(&second, STATE), count(&second, JOURNAL)), (2016, 0));
    assert_eq!(second.load().unwrap(), expected);
    assert_eq!(second.events(0, 9).unwrap().len(), 2);
}

#[test]
fn more_than_an_answer_of_etcd_has_by_default_is_loaded() {
    let mut store = Etcd::open(&access("large")).unwrap();
    let term = store.begin_term(1).unwrap();
    let mut expected = State::default();
    for number in 0..100 {
        let mut record = node("10.0.0.1");
        record.capabilities = Some("x".repeat(60 << 10).into());
        let change = Change::Node(format!("xpu{number}"), Box::new(record));
        expected.apply(&change);
        store.commit(term, &[change]).unwrap();
    }
    assert_eq!(store.load().unwrap(), expected);
    let mut record = node("10.0.0.1");
    record.capabilities = Some("x".repeat(2 << 20).into());
    let change = Change::Node("huge".into(), Box::new(record));
    let why = fails(store.commit(term, &[change]));
    assert!(why.starts_with("state/node/huge has 20"), "{why}");
    assert_eq!(store.load().unwrap(), expected);
}

#[test]
fn one_manager_leads_and_the_next_when_its_lease_is_over() {
    let access = access("leads");
    let ttl = Duration::from_secs(2);
    let (mut first, mut second) = (Etcd::open(&access).unwrap(), Etcd::open(&access).unwrap());
    let Campaign::Won(lease) = first.campaign("http://one", ttl).unwrap() else {
        panic!("nobody leads");
    };
    let term = first.begin_term(1).unwrap();
    // It is kept alive.
    let end = Instant::now() + 2 * ttl;
    while Instant::now() < end {
        match second.campaign("http://two", ttl).unwrap() {
            Campaign::Lost(leader) => assert_eq!(leader, "http://one"),
            Campaign::Won(_) => panic!("two lead"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    first.leads().unwrap();
    first.probe(term).unwrap();
    lease.resign();
    assert!(fails(first.leads()).contains("leads no more"));
    // The answer to a renewal that was under way.
    lease.extend(Instant::now() + LIMIT);
    assert!(fails(first.leads()).contains("leads no more"));
    assert!(matches!(first.probe(term), Err(StoreError::Lost(_))));
    let Campaign::Won(lease) = second.campaign("http://two", ttl).unwrap() else {
        panic!("nobody leads");
    };
    assert_eq!(second.begin_term(1).unwrap(), term + 1);
    lease.resign();
}

#[test]
fn manager_without_the_lease_of_etcd_writes_nothing_whatever_its_clock_says() {
    let access = access("clock");
    let ttl = Duration::from_secs(2);
    let mut store = Etcd::open(&access).unwrap();
    let Campaign::Won(lease) = store.campaign("http://one", ttl).unwrap() else {
        panic!("nobody leads");
    };
    let term = store.begin_term(1).unwrap();
    lease.resign();
    // As if no time had passed.
    lease.set(Instant::now() + LIMIT);
    let mut other = Etcd::open(&access).unwrap();
    let before = other.read_head().unwrap().0;
    assert!(fails(store.commit(term, &mesh())).contains("etcd has it no more"));
    assert!(fails(store.begin_term(1)).contains("leads no more"));
    assert_eq!(other.read_head().unwrap().0, before);
    assert_eq!(other.load().unwrap(), State::default());
}

#[test]
fn etcd_that_is_lost_is_an_error_soon() {
    let server = server::Server::start();
    let access = Access {
        endpoints: vec![server.url.clone()],
        prefix: "/superp".into(),
        ..Access::default()
    };
    let mut store = Etcd::open(&access).unwrap();
    let Campaign::Won(lease) = store
        .campaign("http://one", Duration::from_secs(4))
        .unwrap()
    else {
        panic!("nobody leads");
    };
    let term = store.begin_term(1).unwrap();
    server.signal("STOP");
    let begin = Instant::now();
    let why = fails(store.commit(term, &[]));
    assert!(begin.elapsed() < LIMIT / 4, "{:?}", begin.elapsed());
    // Whether it was stored is not known, and nothing is done any more.
    assert!(
        why.contains("its lease is over") || why.contains("not known"),
        "{why}"
    );
    while store.leads().is_ok() {
        assert!(begin.elapsed() < LIMIT, "it still leads");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(fails(store.load()).contains("etcd: "));
    server.signal("CONT");
    assert!(matches!(store.commit(term, &[]), Err(StoreError::Lost(_))));
    drop(lease);
}

#[test]
fn records_of_something_else_are_refused() {
    let access = access("foreign");
    let store = Etcd::open(&access).unwrap();
    let put = |key: &str, value: &str| {
        let ops = [TxnOp::put(store.key(key), value, None)];
        store.txn(Txn::new().and_then(ops)).unwrap();
    };
    put(FORMAT, r#"{"application":"superp-cm","version":9}"#);
    let why = fails(Etcd::open(&access));
    assert!(
        why.contains("records of version 9 below /test/foreign/, this program knows version 1"),
        "{why}"
    );
    put(FORMAT, r#"{"application":"another","version":1}"#);
    assert!(fails(Etcd::open(&access)).contains("of another program"));
    let ops = [TxnOp::delete(store.key(FORMAT), None)];
    store.txn(Txn::new().and_then(ops)).unwrap();
    assert!(fails(Etcd::open(&access)).contains("of another program"));
}

#[test]
fn files_for_tls_and_urls_go_together() {
    let open = |url: &str, authority: Option<&str>| {
        fails(Etcd::open(&Access {
            endpoints: vec![url.into()],
            prefix: "/superp".into(),
            authority: authority.map(Into::into),
            identity: None,
        }))
    };
    assert!(open("https://127.0.0.1:1", None).contains("--etcd-cacert"));
    assert!(open("http://127.0.0.1:1", Some("/x")).contains("write https://"));
    assert!(open("https://127.0.0.1:1", Some("/nowhere")).contains("/nowhere: "));
}

#[test]
fn etcd_with_tls_is_asked_with_a_certificate_and_only_so() {
    let folder = std::env::temp_dir().join(format!("superp-etcd-tls-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let authority = |name: &str| {
        let dir = folder.join(name);
        authority::init(&dir).unwrap();
        let addresses = vec!["127.0.0.1".into()];
        let request = Request::new("etcd", Role::Manager, addresses, LIMIT * 60);
        authority::issue(&dir, &request, &dir.join("etcd")).unwrap();
        dir.join("etcd")
    };
    let (files, foreign) = (authority("ca"), authority("other"));
    let server = server::Server::start_with(Some(&files));
    let access = |authority: &Path, identity: Option<&Path>| Access {
        endpoints: vec![server.url.clone()],
        prefix: "/superp".into(),
        authority: Some(authority.join("ca.crt")),
        identity: identity.map(|dir| (dir.join("tls.crt"), dir.join("tls.key"))),
    };
    let right = access(&files, Some(&files));
    let mut store = Etcd::open(&right).unwrap();
    let term = store.begin_term(1).unwrap();
    store.commit(term, &mesh()).unwrap();
    let mut expected = State::default();
    mesh().iter().for_each(|change| expected.apply(change));
    assert_eq!(Etcd::open(&right).unwrap().load().unwrap(), expected);
    for wrong in [
        access(&files, None),
        access(&files, Some(&foreign)),
        access(&foreign, Some(&files)),
    ] {
        let why = fails(Etcd::open(&wrong).and_then(|mut store| store.load()));
        assert!(why.starts_with("etcd: "), "{why}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
