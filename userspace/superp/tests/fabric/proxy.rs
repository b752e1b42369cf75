// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp fabric proxy` before a manager with TLS.

use super::{lines, Lab};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use superp_cm::api::Standby;
use superp_tls::{Live, Role};

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A proxy until the test ends.
struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    fn start(lab: &Lab, line: &str) -> Self {
        let mut child = lab
            .command(&format!("-j fabric proxy {line}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut told).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let url = told["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
        Self {
            child,
            address: address.into(),
        }
    }

    fn send(&self, what: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let host = match headers.contains("host:") {
            true => String::new(),
            false => format!("host: {}\r\n", self.address),
        };
        let length = body.len();
        let head = format!("{what} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    /// Status and the whole answer.
    fn ask(&self, what: &str, headers: &str, body: &str) -> (u16, String) {
        let mut answer = String::new();
        let headers = format!("connection: close\r\n{headers}");
        let mut stream = self.send(what, &headers, body);
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn page_interface_and_events_come_by_the_proxy_from_a_manager_with_tls() {
    let lab = Lab::with(2, true);
    let proxy = Proxy::start(&lab, "--listen 127.0.0.1:0 --writes");
    let (status, page) = proxy.ask("GET /", "", "");
    assert_eq!(status, 200, "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'self'"),
        "{page}"
    );
    assert!(
        page.contains("cross-origin-resource-policy: same-origin"),
        "{page}"
    );
    assert!(page.contains("</html>"), "{page}");
    let tag = page.lines().find_map(|line| line.strip_prefix("etag: "));
    let known = format!("if-none-match: {}\r\n", tag.unwrap());
    assert_eq!(proxy.ask("GET /", &known, "").0, 304);
    let (status, answer) = proxy.ask("GET /v1/nodes/nobody", "", "");
    assert_eq!(status, 404);
    assert!(answer.contains("there is no node nobody"), "{answer}");

    // Events come when they happen, not when the stream ends.
    let stream = proxy.send("GET /v1/events/stream", "", "");
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("id: ") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "it ends");
    }
    let (status, answer) = proxy.ask("POST /v1/apply", "", &lab.file());
    assert_eq!(status, 200, "{answer}");
    while !line.contains("\"kind\":\"apply\"") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "it ends");
    }
    let large = "#".repeat((2 << 20) + 1);
    assert_eq!(proxy.ask("POST /v1/plan", "", &large).0, 413);
    let audit = lab.text("fabric audit");
    assert!(
        audit.contains("operator alice POST /v1/apply: 200"),
        "{audit}"
    );
}

#[test]
fn proxy_answers_nobody_but_this_host_and_changes_nothing_unless_told() {
    let lab = Lab::with(2, true);
    let proxy = Proxy::start(&lab, "--listen 127.0.0.1:0");
    for (what, headers, part) in [
        (
            "GET /",
            "host: evil.example\r\n",
            "evil.example is not this host",
        ),
        (
            "GET /v1/fabric",
            "origin: http://evil.example\r\n",
            "another site",
        ),
        (
            "POST /v1/apply",
            "sec-fetch-site: cross-site\r\n",
            "another site",
        ),
        ("POST /v1/apply", "", "superp fabric proxy --writes"),
    ] {
        let (status, answer) = proxy.ask(what, headers, &lab.file());
        assert_eq!(status, 403, "{what} {headers}: {answer}");
        assert!(answer.contains(part), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    assert_eq!(proxy.ask("POST /v1/plan", "", &lab.file()).0, 200);
    let port = proxy.address.rsplit_once(':').unwrap().1;
    let host = format!("host: localhost:{port}\r\n");
    assert_eq!(proxy.ask("GET /v1/fabric", &host, "").0, 200);
    assert_eq!(lab.text("fabric audit"), "", "something was passed on");
    assert_eq!(
        lines(&lab.refused("fabric proxy --listen 0.0.0.0:0")),
        [
            "superp: --listen 0.0.0.0:0: other hosts reach it, and would ask the manager with your certificate",
            "hint: listen on 127.0.0.1, or say --insecure-listen if that is wanted",
        ]
    );
    let proxy = Proxy::start(&lab, "--insecure-listen 0.0.0.0:0");
    assert_eq!(proxy.ask("GET /", "host: 10.0.0.1:8001\r\n", "").0, 200);
    assert_eq!(proxy.ask("GET /", "host: cm.example:8001\r\n", "").0, 403);
}

#[test]
fn proxy_passes_over_managers_that_do_not_lead_and_waits_for_none() {
    let mut lab = Lab::with(1, true);
    let address = format!("{}.249", lab.net);
    let day = std::time::SystemTime::now() + Duration::from_secs(24 * 3600);
    lab.issue("waits", Role::Manager, vec![address.clone()], day);
    let dir = lab.folder.join("waits");
    lab.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((address.as_str(), 7778)).await;
        let live = Live::open(&dir, Role::Manager, None).unwrap();
        let router = Standby::new("another manager leads").router();
        let serving = superp_tls::serve::serve(
            listener.unwrap(),
            router,
            Some(live),
            std::future::pending(),
        );
        tokio::spawn(serving);
    });
    let urls = format!("https://{address}:7778,{}", lab.url());
    let proxy = Proxy::start(&lab, &format!("--listen 127.0.0.1:0 --manager {urls}"));
    assert_eq!(proxy.ask("GET /v1/fabric", "", "").0, 200);
    lab.end();
    let (status, answer) = proxy.ask("GET /v1/fabric", "", "");
    assert_eq!(status, 502, "{answer}");
    assert!(
        answer.contains("does not lead") || answer.contains("no manager at"),
        "{answer}"
    );
    lab.start();
    let end = Instant::now() + LIMIT;
    while proxy.ask("GET /v1/fabric", "", "").0 != 200 {
        assert!(Instant::now() < end, "it is not asked again");
        std::thread::sleep(Duration::from_millis(50));
    }
}
