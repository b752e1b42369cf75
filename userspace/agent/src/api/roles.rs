// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Every role against every kind of request, over TLS.

use super::router;
use crate::agent::Agent;
use crate::reports::Log;
use crate::store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use superp_control::{http, AgentClient, ClientError, Problem, ProblemKind};
use superp_tls::authority::{self, Request};
use superp_tls::{revoke, serve, Live, Role, Tls, Which, REVOCATION_FILE};
use tokio::net::TcpListener;

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// An authority in a directory of its own, with a certificate of somebody for each role in one called as the role.
fn authority(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("superp-agent-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    authority::init(&folder).unwrap();
    for role in Role::ALL {
        let address = role.serves().then(|| "127.0.0.1".to_owned());
        let addresses = address.into_iter().collect();
        let request = Request::new("somebody", role, addresses, LIMIT * 60);
        authority::issue(&folder, &request, &folder.join(role.to_string())).unwrap();
    }
    folder
}

fn somebody(folder: &Path, role: Role) -> Tls {
    Tls::read(&folder.join(role.to_string())).unwrap()
}

/// Starts an agent; its URL, and its certificates.
async fn start(folder: &Path) -> (String, Live) {
    let (store, kept) = Store::open(&folder.join("state")).unwrap();
    let log = Arc::new(Log::new("i".into()));
    let agent = Arc::new(Agent::new("i".into(), store, kept, log));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let kept = folder.join("state").join(REVOCATION_FILE);
    let live = Live::open(&folder.join("agent"), Role::Agent, Some(kept)).unwrap();
    let router = router(agent, Some(live.clone()));
    let serving = serve::serve(listener, router, Some(live.clone()), std::future::pending());
    tokio::spawn(serving);
    (base, live)
}

#[tokio::test]
async fn manager_commands_and_who_may_ask_the_manager_may_ask_the_agent() {
    let folder = authority("roles");
    let (base, _) = start(&folder).await;
    let posts = [
        "start",
        "shutdown",
        "connections/1/start",
        "connections/1/stop",
        "connections/1/reset",
    ];
    for role in Role::ALL {
        let tls = somebody(&folder, role);
        let http = http(Some(&tls), Role::Agent).unwrap().build().unwrap();
        let read = http.get(format!("{base}/v1/events"));
        let configuration = http.get(format!("{base}/v1/configuration"));
        let status = configuration.send().await.unwrap().status();
        let may = matches!(role, Role::Operator | Role::Manager);
        assert_eq!(status != 403, may, "{role}: {status}");
        // None of these bodies is right: who is let through is refused for that.
        let posts = posts.map(|path| (path, http.post(format!("{base}/v1/{path}"))));
        let puts = ["configuration", "revocations"]
            .map(|path| (path, http.put(format!("{base}/v1/{path}"))));
        let writes = posts.into_iter().chain(puts);
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

#[tokio::test]
async fn who_is_revoked_by_a_list_from_the_manager_gets_no_answer_any_more() {
    let folder = authority("revoked");
    let (base, live) = start(&folder).await;
    let client = |role| {
        let tls = somebody(&folder, role);
        let http = http(Some(&tls), Role::Agent).unwrap().build();
        AgentClient::new(&base, http.unwrap())
    };
    let (manager, operator) = (client(Role::Manager), client(Role::Operator));
    operator.events(None, 0, Duration::ZERO).await.unwrap();
    let which = Which::Named("somebody".into(), Some(Role::Operator));
    revoke(&folder, &which, "root").unwrap();
    let list = std::fs::read_to_string(folder.join(REVOCATION_FILE)).unwrap();
    let Err(ClientError::Refused(problem)) = manager.revoke("nonsense").await else {
        panic!("it is taken")
    };
    assert_eq!(
        (problem.status, problem.detail.as_str()),
        (422, "the list: no revocation list in PEM")
    );
    assert_eq!(manager.revoke(&list).await.unwrap(), 1);
    assert_eq!(live.now().revoked().number(), 1);
    let begin = Instant::now();
    let why = loop {
        assert!(begin.elapsed() < LIMIT, "it is answered");
        // The connection that there is may end without a word.
        if let Err(ClientError::Transport(error)) = operator.events(None, 0, Duration::ZERO).await {
            if let Some(why) = superp_tls::explain(&error) {
                break why;
            }
        }
    };
    assert_eq!(why, "it refuses our certificate, which was revoked");
    client(Role::Viewer)
        .events(None, 0, Duration::ZERO)
        .await
        .unwrap();
    // It is kept where the agent keeps what outlives it.
    let kept = std::fs::read_to_string(folder.join("state/ca.crl")).unwrap();
    assert_eq!(kept, list);
    std::fs::remove_dir_all(&folder).unwrap();
}
