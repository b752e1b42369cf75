// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the OpenAPI documents of the manager and the agents say of every request alike.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};
use utoipa::Modify;

/// Completes the document: how each request can be refused, and that refusals are problems.
pub struct Refusals;

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
        ("500", "The server failed", true),
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
