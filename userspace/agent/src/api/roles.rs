// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Every role against every kind of request, over TLS.

use super::router;
use crate::agent::Agent;
use crate::reports::Log;
use crate::store::Store;
use std::sync::Arc;
use superp_control::{http, Problem, ProblemKind};
use superp_tls::authority::{self, Request};
use superp_tls::{serve, Role, Tls};
use tokio::net::TcpListener;

#[tokio::test]
async fn manager_commands_and_who_may_ask_the_manager_may_ask_the_agent() {
    let folder = std::env::temp_dir().join(format!("superp-agent-roles-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    authority::init(&folder).unwrap();
    let tls = |role: Role| {
        let address = role.serves().then(|| "127.0.0.1".to_owned());
        let request = Request::new("somebody", role, address.into_iter().collect(), 1);
        let out = folder.join(role.to_string());
        authority::issue(&folder, &request, &out).unwrap();
        Tls::read(&out).unwrap()
    };
    let (store, kept) = Store::open(&folder.join("state")).unwrap();
    let log = Arc::new(Log::new("i".into()));
    let agent = Arc::new(Agent::new("i".into(), store, kept, log));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let server = tls(Role::Agent);
    let config = server.server().unwrap();
    let router = router(agent);
    tokio::spawn(serve::serve(
        listener,
        router,
        Some(config),
        std::future::pending(),
    ));

    let posts = [
        "start",
        "shutdown",
        "connections/1/start",
        "connections/1/stop",
        "connections/1/reset",
    ];
    for role in Role::ALL {
        let tls = match role {
            Role::Agent => Tls::read(&folder.join("agent")).unwrap(),
            role => tls(role),
        };
        let http = http(Some(&tls), Role::Agent).unwrap().build().unwrap();
        let read = http.get(format!("{base}/v1/events"));
        let configuration = http.get(format!("{base}/v1/configuration"));
        let status = configuration.send().await.unwrap().status();
        let may = matches!(role, Role::Operator | Role::Manager);
        assert_eq!(status != 403, may, "{role}: {status}");
        // None of these bodies is right: who is let through is refused for that.
        let posts = posts.map(|path| (path, http.post(format!("{base}/v1/{path}"))));
        let put = http.put(format!("{base}/v1/configuration"));
        let writes = posts.into_iter().chain([("configuration", put)]);
        let answer = read.send().await.unwrap();
        assert_eq!(
            answer.status(),
            match role {
                Role::Agent => 403,
                _ => 200,
            },
            "{role}"
        );
        for (path, write) in writes {
            let answer = write.send().await.unwrap();
            let (status, kind) = (answer.status(), answer.headers()["content-type"].clone());
            assert_eq!(kind, "application/problem+json", "{role} {path}");
            let problem: Problem = answer.json().await.unwrap();
            let malformed = (415, ProblemKind::Malformed);
            let (expected, needs) = match role {
                Role::Manager => (malformed, String::new()),
                role => {
                    let text = format!("somebody has the role {role}; ");
                    ((403, ProblemKind::Forbidden), text)
                }
            };
            assert_eq!((problem.status, problem.kind), expected, "{role} {path}");
            assert_eq!(status.as_u16(), problem.status);
            assert!(problem.detail.starts_with(&needs), "{}", problem.detail);
            let ends = format!("/v1/{path} needs the role manager");
            assert_eq!(
                problem.detail.ends_with(&ends),
                role != Role::Manager,
                "{}",
                problem.detail
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
