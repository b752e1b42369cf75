// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Sending a request so that a refusal by TLS is heard.

use reqwest::{RequestBuilder, Response};
use std::error::Error;

/// How often a request is tried that cannot be sent.
const TRIES: usize = 8;

/// Sends a request. A server of TLS 1.3 looks at our certificate after our side of the handshake has
/// ended. If its alert comes before the request goes out, HTTP gives the request back unsent and
/// keeps the alert to itself; then the request is tried anew, so that [`crate::explain`] has
/// something to explain.
pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    let mut request = request;
    for _ in 1..TRIES {
        // What has a stream as its body cannot be sent twice.
        let Some(again) = request.try_clone() else {
            break;
        };
        match request.send().await {
            Err(error) if is_unsent(&error) && crate::explain(&error).is_none() => request = again,
            other => return other,
        }
    }
    request.send().await
}

/// Whether the connection ended before the request was sent.
fn is_unsent(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled();
        }
        cause = error.source();
    }
    false
}
