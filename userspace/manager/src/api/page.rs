// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The web page: files that are part of this program. Whatever it shows it asks for by the REST interface.

use crate::engine::Manager;
use axum::http::{header, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page, by its path.
macro_rules! file {
    ($path:literal, $kind:expr, $name:literal) => {
        ($path, $kind, include_str!(concat!("../../web/", $name)))
    };
}

/// The page, by paths.
const FILES: [(&str, &str, &str); 8] = [
    file!("/", HTML, "index.html"),
    file!("/web/page.css", CSS, "page.css"),
    file!("/web/page.js", JS, "page.js"),
    file!("/web/model.js", JS, "model.js"),
    file!("/web/matrix.js", JS, "matrix.js"),
    file!("/web/detail.js", JS, "detail.js"),
    file!("/web/events.js", JS, "events.js"),
    file!("/web/icon.svg", SVG, "icon.svg"),
];

/// Nothing but these files and the interface of this manager is loaded, and no text becomes markup.
const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

pub(super) fn routes() -> Router<Manager> {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, kind, text)| {
            let tag = tag(text);
            let answer = move |headers: HeaderMap| {
                let answer = file(kind, text, &tag, &headers);
                async { answer }
            };
            router.route(path, get(answer))
        })
}

fn file(kind: &'static str, text: &'static str, tag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|known| known.to_str().ok()).unwrap_or("");
    let known = known
        .split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*");
    let common = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The next version of the manager has other files.
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, tag),
    ];
    match known {
        true => (StatusCode::NOT_MODIFIED, common).into_response(),
        false => (common, [(header::CONTENT_TYPE, kind)], text).into_response(),
    }
}

/// FNV-1a: it only has to be another one when the file is another one.
fn tag(text: &str) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("\"{hash:016x}\"")
}
