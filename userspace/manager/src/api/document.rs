// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the document says of every request alike.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};
use utoipa::Modify;

/// Completes the document: how each request can be refused, and that refusals are problems.
pub(super) struct Refusals;

impl Modify for Refusals {
    fn modify(&self, document: &mut OpenApi) {
        for item in document.paths.paths.values_mut() {
            let operations = [
                &mut item.get,
                &mut item.put,
                &mut item.post,
                &mut item.delete,
                &mut item.patch,
            ];
            operations.into_iter().flatten().for_each(complete);
        }
    }
}

fn complete(operation: &mut Operation) {
    let parameters = operation.parameters.iter_mut().flatten();
    let count = parameters
        .map(|parameter| not_null(&mut parameter.schema))
        .count();
    let has_body = operation.request_body.is_some();
    let responses = &mut operation.responses.responses;
    for (status, why, can) in [
        ("400", "The request is malformed", count > 0 || has_body),
        ("403", "The role does not allow it", true),
        ("408", "The request took too long", has_body),
        ("413", "The request is too long", has_body),
        ("500", "The manager failed", true),
    ] {
        if can {
            let response = || Response::new(why).into();
            responses.entry(status.into()).or_insert_with(response);
        }
    }
    for (_, response) in responses
        .iter_mut()
        .filter(|(status, _)| status.as_str() >= "400")
    {
        if let RefOr::T(response) = response {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            response.content = [("application/problem+json".into(), problem)].into();
        }
    }
}

/// A parameter that may be left out is left out: there is no way to write that it is null.
fn not_null(schema: &mut Option<RefOr<Schema>>) {
    if let Some(RefOr::T(Schema::Object(object))) = schema {
        if let SchemaType::Array(types) = &mut object.schema_type {
            types.retain(|kind| *kind != Type::Null);
            if let [only] = types.as_slice() {
                object.schema_type = SchemaType::Type(only.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn document() -> Value {
        serde_json::from_str(&super::super::document()).unwrap()
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
}
