// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp fabric proxy`: the manager for browsers and programs of this host, which need no certificate then.
//!
//! Whoever reaches it asks with the user's certificate. Browsers reach it for pages of other sites, too: such pages
//! must not come in by a name of their own that is made to mean this host (DNS rebinding: names are not answered but
//! those of loopback), nor send requests from elsewhere (`Origin`, `Sec-Fetch-Site`).

use super::Manager;
use crate::failure::Failure;
use crate::out::Out;
use axum::body::{to_bytes, Body};
use axum::extract::{Request, State};
use axum::http::{header, HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::Router;
use clap::Args;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use superp_control::manager::{Forward, ManagerClient, ManagerError, Problem};
use superp_tls::serve::{serve, Credentials};
use tokio::net::TcpListener;

/// Largest body, bytes: as the manager has it.
const BODY: usize = 2 << 20;

/// Longest time that it may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// What the manager is told of a request. Nothing that says who it is from: that is in the certificate.
const ASKED: [HeaderName; 5] = [
    header::ACCEPT,
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    HeaderName::from_static("last-event-id"),
];

/// What is about one connection and not about the answer.
const HOP: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

#[derive(Args)]
pub(crate) struct Proxy {
    /// Where to listen, on this host only.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// Where to listen, anywhere: whoever reaches it asks the manager with your certificate, in clear.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "listen")]
    insecure_listen: Option<SocketAddr>,
    /// Also pass on what changes something.
    #[arg(long)]
    writes: bool,
}

/// What is passed on, and where to.
struct Gate {
    client: ManagerClient,
    /// It was asked for other hosts.
    elsewhere: bool,
    writes: bool,
}

pub(super) fn run(manager: &Manager, args: &Proxy, out: &mut Out) -> Result<(), Failure> {
    let address = match args.insecure_listen {
        Some(address) => address,
        None if args.listen.ip().is_loopback() => args.listen,
        None => {
            let text = format!(
                "--listen {}: other hosts reach it, and would ask the manager with your certificate",
                args.listen
            );
            return Err(Failure::new(text)
                .hint("listen on 127.0.0.1, or say --insecure-listen if that is wanted"));
        }
    };
    manager.runtime.block_on(async {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| Failure::io(address, &error))?;
        let address = listener.local_addr();
        let address = address.map_err(|error| Failure::io("the address", &error))?;
        let url = format!("http://{address}/");
        out.either(&json!({ "url": url }), |out| {
            out.line(format_args!(
                "{url} is the manager, until this command ends"
            ))
        })?;
        out.flush()?;
        let gate = Arc::new(Gate {
            client: manager.client.clone(),
            elsewhere: args.insecure_listen.is_some(),
            writes: args.writes,
        });
        let router = Router::new().fallback(pass).with_state(gate);
        serve(
            listener,
            router,
            None::<Credentials>,
            std::future::pending(),
        )
        .await;
        Ok(())
    })
}

fn refuse(status: StatusCode, title: &str, detail: impl Into<String>) -> Response {
    let body = Problem {
        title: title.into(),
        status: status.as_u16(),
        detail: detail.into(),
    };
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, kind, json!(body).to_string()).into_response()
}

async fn pass(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (method, uri, headers) = (&parts.method, &parts.uri, &parts.headers);
    if let Err(why) = gate.lets(method, uri, headers) {
        return refuse(StatusCode::FORBIDDEN, "It is not passed on", why);
    }
    let body = match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!("the body is longer than {BODY} bytes");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "It is not passed on", text);
        }
        Err(_) => {
            let text = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
            return refuse(StatusCode::REQUEST_TIMEOUT, "It is not passed on", text);
        }
    };
    let mut told = HeaderMap::new();
    for name in ASKED {
        if let Some(value) = headers.get(&name) {
            told.insert(name, value.clone());
        }
    }
    if uri.path() == "/v1/events/stream" {
        // It ends with the manager: its connection must not be taken for one to ask the next.
        told.insert(
            header::CONNECTION,
            header::HeaderValue::from_static("close"),
        );
    }
    let request = Forward {
        method: method.clone(),
        path: uri.path().to_owned(),
        query: uri.query().map(str::to_owned),
        headers: told,
        body: body.into(),
    };
    let answer = match gate.client.forward(&request).await {
        Ok(answer) => answer,
        Err(error @ ManagerError::Unreachable(_)) => {
            let title = "There is no manager that leads";
            return refuse(StatusCode::BAD_GATEWAY, title, error.to_string());
        }
        Err(error) => {
            let title = "The manager does not answer";
            return refuse(StatusCode::BAD_GATEWAY, title, error.to_string());
        }
    };
    let mut response = Response::new(Body::new(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    let headers = response.headers_mut();
    for name in HOP {
        headers.remove(name);
    }
    // No page of another site gets it as a script or a picture.
    let own = header::HeaderValue::from_static("same-origin");
    headers.insert("cross-origin-resource-policy", own);
    response
}

impl Gate {
    /// Whether a request is one of this user, as far as that can be seen; if not, why.
    fn lets(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
        let mut hosts = headers.get_all(header::HOST).into_iter();
        let host = match (hosts.next().map(|host| host.to_str()), hosts.next()) {
            (Some(Ok(host)), None) => host,
            _ => return Err("there is not one Host".into()),
        };
        // In a URL that is given as a whole there is another one.
        let asked = uri.authority().map_or(host, |authority| authority.as_str());
        for host in [host, asked] {
            if !self.is_here(host) {
                return Err(format!(
                    "{host} is not this host: ask for localhost, or by address"
                ));
            }
        }
        let reads = [Method::GET, Method::HEAD].contains(method);
        let says = |name: &str| headers.get(name).map(|value| value.as_bytes());
        let site = says("sec-fetch-site");
        let own = site.is_none_or(|site| site == b"same-origin" || site == b"none");
        let origin = format!("http://{host}");
        let own = own && says("origin").is_none_or(|from| from == origin.as_bytes());
        // A link to the page is followed.
        let link = says("sec-fetch-mode") == Some(b"navigate")
            && says("sec-fetch-dest") == Some(b"document");
        if !(own || reads && link) {
            return Err("it comes from a web page of another site".into());
        }
        // It is asked with a body, and changes nothing.
        if !reads && !self.writes && uri.path() != "/v1/plan" {
            return Err(format!(
                "{method} {} may change something: superp fabric proxy --writes passes it on",
                uri.path()
            ));
        }
        Ok(())
    }

    /// Whether "HOST" or "HOST:PORT" is loopback, or where it was asked for, an address: who makes a name mean this
    /// host has no address to ask for.
    fn is_here(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        match bare.unwrap_or(name).parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || self.elsewhere,
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(elsewhere: bool, writes: bool) -> Gate {
        Gate {
            client: ManagerClient::new("http://127.0.0.1:1", None).unwrap(),
            elsewhere,
            writes,
        }
    }

    #[test]
    fn only_names_and_addresses_of_this_host_are_answered() {
        for (host, here, elsewhere) in [
            ("localhost", true, true),
            ("LocalHost:8001", true, true),
            ("127.0.0.1:8001", true, true),
            ("127.7.7.7", true, true),
            ("[::1]:8001", true, true),
            ("[::1]", true, true),
            ("10.0.0.1:8001", false, true),
            ("[fd00::1]:8001", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example:8001", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("evil.example:127.0.0.1", false, false),
            ("localhost@evil.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(gate(false, false).is_here(host), here, "{host}");
            assert_eq!(gate(true, false).is_here(host), elsewhere, "{host}");
        }
    }

    /// Whether a request with these headers is passed on.
    fn lets(
        gate: &Gate,
        method: &str,
        uri: &str,
        headers: &[(&'static str, &'static str)],
    ) -> bool {
        let mut all = HeaderMap::new();
        all.insert("host", "localhost:8001".parse().unwrap());
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        let method = method.parse().unwrap();
        gate.lets(&method, &uri.parse().unwrap(), &all).is_ok()
    }

    #[test]
    fn pages_of_other_sites_read_and_write_nothing() {
        let gate = gate(false, true);
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for (method, headers, passes) in [
            ("POST", &[][..], true),
            ("POST", &[("origin", "http://localhost:8001")], true),
            ("POST", &[("sec-fetch-site", "same-origin")], true),
            ("GET", &[("sec-fetch-site", "none")], true),
            ("POST", &[("origin", "http://evil.example")], false),
            ("POST", &[("origin", "null")], false),
            ("POST", &[("origin", "http://localhost:3000")], false),
            ("POST", &[("sec-fetch-site", "cross-site")], false),
            ("POST", &[("sec-fetch-site", "same-site")], false),
            ("DELETE", &[("sec-fetch-site", "cross-site")], false),
            ("GET", &[("sec-fetch-site", "cross-site")], false),
            ("GET", &[("origin", "http://evil.example")], false),
            ("GET", &link, true),
            ("POST", &link, false),
            ("GET", &[("host", "evil.example")], false),
        ] {
            let found = lets(&gate, method, "/v1/apply", headers);
            assert_eq!(found, passes, "{method} {headers:?}");
        }
        assert!(!lets(&gate, "GET", "http://evil.example/v1/fabric", &[]));
        assert!(lets(&gate, "GET", "http://localhost:8001/v1/fabric", &[]));
    }

    #[test]
    fn without_writes_what_changes_something_is_not_passed_on() {
        let gate = gate(false, false);
        for (method, uri, passes) in [
            ("GET", "/v1/fabric", true),
            ("HEAD", "/", true),
            ("POST", "/v1/plan?path=x", true),
            ("POST", "/v1/apply", false),
            ("DELETE", "/v1/jobs/x", false),
            ("OPTIONS", "/v1/apply", false),
        ] {
            assert_eq!(lets(&gate, method, uri, &[]), passes, "{method} {uri}");
        }
    }
}
