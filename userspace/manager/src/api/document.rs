// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of the document beside the router.

use serde_json::Value;
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(&super::document()).unwrap()
}

/// The routes in the source of the router, "get /v1/nodes/{}"; axum does not tell those of a router.
fn routes() -> BTreeSet<String> {
    let source = include_str!("../api.rs");
    let (_, router) = source.split_once("pub fn router(").unwrap();
    let (router, _) = router.split_once(".fallback(").unwrap();
    let mut routes = BTreeSet::new();
    for route in router.split(".route(").skip(1) {
        let mut parts = route.split('"');
        let (path, handlers) = (parts.nth(1).unwrap(), parts.collect::<String>());
        let count = routes.len();
        for method in ["get", "put", "post", "delete", "patch"] {
            if handlers.contains(&format!("{method}(")) {
                routes.insert(format!("{method} {}", nameless(path)));
            }
        }
        assert!(routes.len() > count, "no method that is known: {route}");
    }
    routes
}

/// A path without the names of its parameters.
fn nameless(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|segment| match segment.starts_with('{') {
            true => "{}",
            false => segment,
        });
    segments.collect::<Vec<_>>().join("/")
}

#[test]
fn document_has_every_route_but_itself() {
    let document = document();
    let mut told = BTreeSet::from(["get /openapi.json".to_owned()]);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            told.insert(format!("{method} {}", nameless(path)));
        }
    }
    assert_eq!(routes(), told);
    assert!(told.len() > 20, "{told:?}");
}

#[test]
fn every_refusal_in_the_document_is_a_problem() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let content = response["content"].as_object();
                let kinds: Vec<_> = content.into_iter().flat_map(|it| it.keys()).collect();
                let is = kinds == ["application/problem+json"];
                assert_eq!(is, status.as_str() >= "400", "{method} {path} {status}");
            }
        }
    }
}
