// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The documents as JSON.

use super::*;
use serde_json::{from_value, json, to_value};

#[test]
fn extensions_are_true_false_or_auto() {
    for (choice, told) in [
        (Extensions::Off, json!(false)),
        (Extensions::On, json!(true)),
        (Extensions::Auto, json!("auto")),
    ] {
        assert_eq!(to_value(choice).unwrap(), told);
        assert_eq!(from_value::<Extensions>(told.clone()).unwrap(), choice);
        let word = told.to_string().replace('"', "");
        assert_eq!(word.parse(), Ok(choice));
    }
    for wrong in [json!("true"), json!("on"), json!(1), json!(null)] {
        let error = from_value::<Extensions>(wrong).unwrap_err().to_string();
        assert!(error.contains("true, false or \"auto\""), "{error}");
    }
}

#[test]
fn connection_has_the_defaults_of_the_netlink_interface() {
    let least = json!({ "cid": 5, "peer": "10.0.0.2", "peer_cid": 7 });
    let conn: Connection = from_value(least).unwrap();
    assert_eq!(
        (conn.encap, conn.partition, conn.tclass),
        (Encap::Sunh, 0, 0)
    );
    assert!(conn.ordered_tx && conn.ordered_rx);
    assert!(!conn.spray && !conn.lite);
    assert_eq!(conn.ext, Extensions::Auto);
    assert_eq!((conn.start_psn, conn.start_xid), (0, 0));
    // What was left out stays out, so that a configuration told is the one given.
    let told = to_value(&conn).unwrap();
    for member in [
        "local",
        "device",
        "lladdr",
        "paths",
        "hop_limit",
        "ext",
        "mtu",
        "parameters",
    ] {
        assert!(told.get(member).is_none(), "{member}");
    }
    assert_eq!(from_value::<Connection>(told).unwrap(), conn);
}

#[test]
fn port_receives_everything_unless_told() {
    let port: Port = from_value(json!({ "device": "eth0" })).unwrap();
    assert_eq!(port.encap, [PortEncap::Sunh, PortEncap::Udp]);
}

#[test]
fn member_that_is_not_known_is_refused_in_a_request() {
    let with = |name: &str| {
        let mut body = json!({ "term": 1, "configuration": { "fabric": "f", "generation": 1 } });
        body["configuration"][name] = json!(1);
        from_value::<Configure>(body).map_err(|error| error.to_string())
    };
    assert!(with("generation").is_ok());
    assert!(with("conections").unwrap_err().contains("conections"));
    assert!(from_value::<Start>(json!({ "term": 1, "generation": 1, "force": true })).is_err());
}

#[test]
fn node_without_rma_is_what_it_was_before_there_was_one() {
    let old = json!({ "parameters": {}, "partitions": [7] });
    let node: Node = from_value(old.clone()).unwrap();
    assert_eq!(node.rma, None);
    assert_eq!(to_value(&node).unwrap(), old);
    let with = |rma| from_value::<Node>(json!({ "rma": rma })).map(|node| node.rma);
    let (base, size) = (u64::MAX - 4095, 4096);
    let space = with(json!({ "base": base, "size": size }))
        .unwrap()
        .unwrap();
    assert_eq!(
        (space.base, space.size, space.last()),
        (base, size, Some(u64::MAX))
    );
    assert_eq!(
        RmaSpace {
            size: 8192,
            ..space
        }
        .last(),
        None
    );
    assert_eq!(RmaSpace { size: 0, ..space }.last(), None);
    for wrong in [
        json!({ "base": 4096 }),
        json!({ "base": 4096, "size": -1 }),
        json!({ "base": 4096, "size": 4096, "end": 8192 }),
    ] {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn member_that_is_not_known_is_passed_over_in_an_answer() {
    let answer = json!({ "instance": "a", "last": 1, "lost": 0, "newer": 5, "reports": [
        { "seq": 1, "time_ms": 2, "kind": "quantum-state", "colour": "blue" },
    ] });
    let reports: Reports = from_value(answer).unwrap();
    assert_eq!(reports.reports[0].kind, ReportKind::Other);
}

#[test]
fn object_is_a_kind_and_an_id() {
    for (object, expected, text) in [
        (
            Object::Connection(5),
            json!({ "kind": "connection", "id": 5 }),
            "connection 5",
        ),
        (
            Object::Port("eth0".into()),
            json!({ "kind": "port", "id": "eth0" }),
            "port eth0",
        ),
        (
            Object::Manager,
            json!({ "kind": "manager" }),
            "address of the manager",
        ),
        (
            Object::RmaSpace,
            json!({ "kind": "rma-space" }),
            "space of RMA addresses",
        ),
    ] {
        assert_eq!(to_value(&object).unwrap(), expected);
        assert_eq!(from_value::<Object>(expected).unwrap(), object);
        assert_eq!(object.to_string(), text);
    }
}

#[test]
fn problem_tells_every_fault() {
    let mut problem = Problem::new(ProblemKind::Invalid, 422, "2 mistakes");
    for (pointer, detail) in [("/a", "too big"), ("/b", "too small")] {
        problem.faults.push(Fault {
            pointer: pointer.into(),
            detail: detail.into(),
        });
    }
    assert_eq!(
        problem.to_string(),
        "2 mistakes; /a: too big; /b: too small"
    );
    let told = to_value(&problem).unwrap();
    assert_eq!(told["type"], "urn:superp:problem:invalid");
    assert_eq!(told["title"], "The request is not valid");
    assert!(told.get("outcomes").is_none() && told.get("term").is_none());
    assert_eq!(from_value::<Problem>(told).unwrap(), problem);
    let newer =
        json!({ "type": "urn:superp:problem:bored", "title": "", "status": 418, "detail": "" });
    assert_eq!(
        from_value::<Problem>(newer).unwrap().kind,
        ProblemKind::Other
    );
}
