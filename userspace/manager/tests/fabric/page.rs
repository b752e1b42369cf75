// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The web page: how it is served, to whom, and the counters that it asks for. What it does in a browser is
//! tested by `selftests/web/page.py`.

use super::secure::{http, issue};
use super::{Lab, LIMIT};
use reqwest::header::{HeaderMap, ETAG, IF_NONE_MATCH};
use std::time::Instant;
use superp_control::manager::{Connection, ConnectionEnd, NodeStatus, Phase};
use superp_tls::Role;

/// What text names in quotation marks and is of the page.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split('"').skip(1).step_by(2);
    words.filter_map(|word| match word.strip_prefix("./") {
        Some(file) => Some(format!("web/{file}")),
        None => word
            .strip_prefix('/')
            .filter(|path| path.starts_with("web/"))
            .map(str::to_owned),
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_and_all_its_files_are_served_and_nothing_else_may_run_in_it() {
    let lab = Lab::new(0).await;
    let mut files = vec![String::new()];
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < files.len() {
        let file = files[at].clone();
        at += 1;
        let answer = lab.ask(None, &file).await;
        assert_eq!(answer.status(), 200, "/{file}");
        let headers = answer.headers().clone();
        let policy = header(&headers, "content-security-policy");
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(header(&headers, "x-content-type-options"), "nosniff");
        assert_eq!(header(&headers, "cache-control"), "no-cache");
        kinds.push(header(&headers, "content-type").to_owned());
        let text = answer.text().await.unwrap();
        assert!(text.contains("SPDX-License-Identifier"), "/{file}");
        for name in named(&text) {
            if !files.contains(&name) {
                files.push(name);
            }
        }
        // Who has it gets it once.
        let known = |tag: &str| {
            let request = lab.http.get(lab.url(&file));
            request.header(IF_NONE_MATCH, tag.to_owned()).send()
        };
        let tag = headers[ETAG].to_str().unwrap();
        for tag in [tag.to_owned(), format!("\"x\", W/{tag}")] {
            let answer = known(&tag).await.unwrap();
            assert_eq!(answer.status(), 304, "{tag}");
            assert_eq!(answer.headers()[ETAG], headers[ETAG]);
            assert_eq!(answer.text().await.unwrap(), "");
        }
        assert_eq!(known("\"another\"").await.unwrap().status(), 200);
    }
    files.sort();
    assert_eq!(
        files,
        [
            "",
            "web/detail.js",
            "web/events.js",
            "web/icon.svg",
            "web/matrix.js",
            "web/model.js",
            "web/page.css",
            "web/page.js"
        ]
    );
    kinds.sort();
    kinds.dedup();
    let all = [
        "image/svg+xml",
        "text/css; charset=utf-8",
        "text/html; charset=utf-8",
        "text/javascript; charset=utf-8",
    ];
    assert_eq!(kinds, all);
    assert_eq!(lab.ask(None, "web/other.js").await.status(), 404);
    assert_eq!(lab.ask(Some(""), "").await.status(), 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_is_for_viewers_and_operators_and_pages_of_other_sites_change_nothing() {
    let lab = Lab::with(2, true).await;
    lab.status().await;
    for (role, status) in [(Role::Viewer, 200), (Role::Agent, 403)] {
        let address = role.serves().then_some("127.0.0.1");
        let tls = issue(&lab.folder, role, &format!("a-{role}"), address);
        let http = http(Some(&tls));
        for path in ["", "web/page.js", "web/page.css"] {
            let answer = http.get(lab.url(path)).send().await.unwrap();
            assert_eq!(answer.status(), status, "{role} /{path}");
        }
    }
    assert_eq!(lab.ask(None, "").await.status(), 200);
    // A browser sends the operator's certificate along, whoever made the page.
    let post = |site: &'static str| {
        let request = lab.http.post(lab.url("v1/shutdown"));
        request.header("Sec-Fetch-Site", site).send()
    };
    for site in ["cross-site", "same-site"] {
        assert_eq!(post(site).await.unwrap().status(), 403, "{site}");
    }
    let log = lab.client().audit(0).await.unwrap();
    let told = log.last().unwrap().result.clone().unwrap();
    assert_eq!(
        told,
        "POST /v1/shutdown comes from a web page of another site"
    );
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    for site in ["same-origin", "none"] {
        assert_eq!(post(site).await.unwrap().status(), 202, "{site}");
    }
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_told_to_who_asks_and_agents_are_not_asked_otherwise() {
    let lab = Lab::new(2).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let key = lab.conns().await[0].connection.clone();
    let one: Connection = lab.get(&format!("v1/connections/{key}")).await;
    let silent = |end: &ConnectionEnd| end.traffic.is_none() && end.counters.is_none();
    assert!(one.ends.iter().all(silent), "{one:?}");
    assert!(lab.agents.iter().all(|agent| agent.lock().counted == 0));

    let end = Instant::now() + LIMIT;
    let list = loop {
        let list: Vec<Connection> = lab.get("v1/connections?counters=true").await;
        if list[0].ends.iter().all(|end| end.traffic.is_some()) {
            break list;
        }
        assert!(Instant::now() < end, "{list:?}");
    };
    for end in &list[0].ends {
        let traffic = end.traffic.clone().unwrap();
        assert!(traffic.time_ms > 1_700_000_000_000, "{traffic:?}");
        let sent = (traffic.tx_packets, traffic.tx_bytes, traffic.rx_packets);
        assert_eq!(sent, (100 + u64::from(end.cid), 5000, 90));
        let rest = (traffic.rx_bytes, traffic.retransmits, traffic.failed);
        assert_eq!(rest, (4000, 7, 3));
        assert_eq!(end.counters, None);
    }
    let one: Connection = lab
        .get(&format!("v1/connections/{key}?counters=true"))
        .await;
    for end in &one.ends {
        assert_eq!(end.counters.as_ref().unwrap()["srtt-ns"], 20_000);
    }
    // Asked without, nothing is told of what is known.
    let one: Connection = lab.get(&format!("v1/connections/{key}")).await;
    assert!(one.ends.iter().all(silent), "{one:?}");
    let nodes: Vec<NodeStatus> = lab.get("v1/nodes").await;
    assert_eq!(nodes[0].agent_version.as_deref(), Some("test"));
    assert!(nodes[0].ports_down.is_empty());
    let (status, events) = (
        lab.status().await,
        lab.get::<Vec<superp_control::manager::Event>>("v1/events")
            .await,
    );
    assert_eq!(status.last_event, events.last().unwrap().seq);
    lab.no_wrongs();
}
