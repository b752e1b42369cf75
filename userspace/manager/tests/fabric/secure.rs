// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The same over TLS: who may do what, who is believed to be whom, and what is recorded of it.

use super::agent::Agent;
use super::{Lab, LIMIT};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use superp_control::manager::{AuditRecord, ManagerClient, ManagerError, Phase, Problem};
use superp_tls::{explain, Live, Role, Tls};

pub(crate) fn run(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_superp-cm"))
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .unwrap()
}

/// What a command that fails says.
pub(crate) fn fails(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert!(!output.status.success(), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

/// Makes the authority in `ca`, and the manager's certificate.
pub(crate) fn init(folder: &Path, net: &str) {
    let output = run(folder, &format!("init --dir ca --address {net}.250"));
    assert!(output.status.success(), "{output:?}");
}

/// Makes a certificate, in a directory of that name.
pub(crate) fn issue(folder: &Path, role: Role, name: &str, address: Option<&str>) -> Tls {
    let address = address.map_or(String::new(), |address| format!(" --address {address}"));
    let line = format!("issue --dir ca --role {role} --name {name} --out {name}{address}");
    let output = run(folder, &line);
    assert!(output.status.success(), "{output:?}");
    Tls::read(&folder.join(name)).unwrap()
}

pub(crate) fn http(tls: Option<&Tls>) -> reqwest::Client {
    let http = superp_control::http(tls, Role::Manager).unwrap();
    http.build().unwrap()
}

impl Lab {
    pub(crate) async fn audit(&self) -> Vec<AuditRecord> {
        self.client().audit(0).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fabric_boots_over_tls_and_its_operator_is_in_the_audit_log() {
    let lab = Lab::with(2, true).await;
    let plan = lab.apply(&lab.mesh(0)).await;
    let status = lab.until(Phase::Running).await;
    assert_eq!((status.nodes_ready, status.connections_running), (2, 1));
    let wrong = lab.mesh(0).replace("partition", "window = 7\npartition");
    let refused = lab.client().apply("my.toml", wrong).await.unwrap_err();
    assert!(refused.to_string().contains("window 7"), "{refused}");
    let mut log = lab.audit().await;
    for record in &mut log {
        assert!(record.time_ms > 1_700_000_000_000, "{record:?}");
        record.time_ms = 0;
    }
    let record = |seq, status, result: &str| AuditRecord {
        seq,
        time_ms: 0,
        who: "alice".into(),
        role: Some("operator".into()),
        request: "POST /v1/apply".into(),
        status: Some(status),
        result: Some(result.into()),
    };
    let applied = format!("configuration {}", plan.generation);
    let mistake = "my.toml:9:10: window 7 is outside 16..1024";
    assert_eq!(log, [record(1, 200, &applied), record(2, 422, mistake)]);
    // Another manager on the same store knows them too.
    lab.kill();
    lab.until(Phase::Running).await;
    assert_eq!(lab.audit().await.len(), 2);
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn role_decides_about_every_request_and_refusals_are_recorded() {
    let lab = Lab::with(1, true).await;
    let document: serde_json::Value = lab.get("openapi.json").await;
    let mut expected = Vec::new();
    for role in [Role::Viewer, Role::Agent, Role::Manager] {
        let address = role.serves().then_some("127.0.0.1");
        let tls = issue(&lab.folder, role, &format!("a-{role}"), address);
        let http = http(Some(&tls));
        for (path, methods) in document["paths"].as_object().unwrap() {
            let path = path
                .replace("{name}", "x")
                .replace("{job}", "x")
                .replace("{connection}", "1@10.0.0.1-1@10.0.0.2");
            for method in methods.as_object().unwrap().keys() {
                let url = lab.url(path.trim_start_matches('/'));
                let request = match method.as_str() {
                    "get" => http.get(url),
                    "delete" => http.delete(url),
                    _ => http.post(url).body(""),
                };
                let answer = request.send().await.unwrap();
                let reads = method == "get" || path == "/v1/plan";
                let allowed = role == Role::Viewer && reads;
                let what = format!("{} {path}", method.to_uppercase());
                assert_eq!(answer.status() != 403, allowed, "{role} {what}");
                if allowed {
                    continue;
                }
                assert_eq!(answer.headers()["content-type"], "application/problem+json");
                let needs = match reads {
                    true => "viewer or operator",
                    false => "operator",
                };
                let problem: Problem = answer.json().await.unwrap();
                let text = format!("a-{role} has the role {role}; {what} needs the role {needs}");
                assert_eq!(problem.detail, text);
                if !reads {
                    expected.push((format!("a-{role}"), Some(role.to_string()), what, text));
                }
            }
        }
        // A method that nothing has is no way round.
        let odd = http.delete(lab.url("v1/fabric")).send().await.unwrap();
        assert_eq!(odd.status(), 403, "{role}");
        let (what, name) = ("DELETE /v1/fabric".to_owned(), format!("a-{role}"));
        let text = format!("a-{role} has the role {role}; {what} needs the role operator");
        expected.push((name, Some(role.to_string()), what, text));
    }
    assert!(expected.len() > 3 * 9, "{expected:?}");
    assert_eq!(lab.status().await.phase, Phase::Empty);
    let log = lab.audit().await.into_iter().map(|record| {
        assert_eq!(record.status, Some(403), "{record:?}");
        (
            record.who,
            record.role,
            record.request,
            record.result.unwrap(),
        )
    });
    assert_eq!(log.collect::<Vec<_>>(), expected);
    // What the operator may not do is not there, rather than forbidden.
    let odd = lab.http.delete(lab.url("v1/fabric")).send().await.unwrap();
    assert_eq!(odd.status(), 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_has_a_certificate_of_the_authority_gets_an_answer() {
    let lab = Lab::with(1, true).await;
    lab.status().await;
    let other = lab.folder.join("other");
    std::fs::create_dir(&other).unwrap();
    init(&other, &lab.net);
    let foreign = issue(&other, Role::Operator, "mallory", None);
    let error = http(Some(&foreign)).get(lab.url("v1/fabric")).send().await;
    // The first to see it is who asks.
    assert_eq!(
        explain(&error.unwrap_err()).unwrap(),
        "its certificate is of another authority than ours (ca.crt)"
    );
    let plain = http(None).get(lab.url("v1/fabric").replace("https", "http"));
    let refused = plain.send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let problem: Problem = refused.json().await.unwrap();
    assert!(problem.detail.contains("https://"), "{}", problem.detail);
    let base = lab.url("");
    let Err(ManagerError::Answer(text)) = ManagerClient::new(&base, None).unwrap().fabric().await
    else {
        panic!("not refused as it should be");
    };
    assert!(text.contains("--tls DIR"), "{text}");
    let clear = ManagerClient::new(&base.replace("https", "http"), lab.tls.as_ref()).unwrap();
    let text = clear.fabric().await.unwrap_err().to_string();
    assert!(text.contains("write https://"), "{text}");
    assert_eq!(lab.audit().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_agent_of_this_address_is_not_commanded() {
    let lab = Lab::with(1, true).await;
    let (second, third) = (format!("{}.2", lab.net), format!("{}.3", lab.net));
    // The manager's role at the address of an agent, and the certificate of another host's agent.
    issue(&lab.folder, Role::Manager, "false", Some(&second));
    issue(&lab.folder, Role::Agent, "xpu03", Some("192.0.2.3"));
    let mut agents = Vec::new();
    for (address, name, role) in [
        (&second, "false", Role::Manager),
        (&third, "xpu03", Role::Agent),
    ] {
        let live = Live::open(&lab.folder.join(name), role, None).unwrap();
        let agent = Agent::start_with(format!("{address}:7779"), &lab.world, Some(live));
        agents.push(agent.await);
    }
    lab.apply(&lab.mesh(0).replace("xpu[01-01]", "xpu[01-03]"))
        .await;
    let expected = [
        format!(
            "node xpu02: waiting for READY: no connection to {second}:7779: \
             it shows the certificate of false, which has the role manager, not agent"
        ),
        format!(
            "node xpu03: waiting for READY: no connection to {third}:7779: \
             its certificate is not for {third}, but for 192.0.2.3"
        ),
    ];
    let end = Instant::now() + LIMIT;
    loop {
        let status = lab.status().await;
        let told = |text: &String| status.waiting.iter().any(|line| line.starts_with(text));
        if status.nodes_ready == 1 && expected.iter().all(told) {
            break;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for agent in agents {
        assert_eq!(agent.lock().term, 0, "a command came to {}", agent.address);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tls_requests_are_recorded_too_and_large_ones_refused() {
    let lab = Lab::new(1).await;
    let large = "#".repeat((2 << 20) + 1);
    let answer = lab.ask(Some(&large), "v1/apply").await;
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let text = answer.text().await.unwrap();
    assert!(text.contains("longer than 2097152 bytes"), "{text}");
    assert_eq!(lab.ask(Some(""), "v1/shutdown").await.status(), 409);
    assert_eq!(lab.ask(Some(""), "v1/plan").await.status(), 422);
    let log: Vec<_> = lab
        .audit()
        .await
        .into_iter()
        .map(|record| (record.who, record.role, record.request, record.status))
        .collect();
    let record = |what: &str, status| ("loopback".into(), None, what.into(), Some(status));
    assert_eq!(
        log,
        [
            record("POST /v1/apply", 413),
            record("POST /v1/shutdown", 409)
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_that_cannot_be_recorded() {
    let lab = Lab::new(2).await;
    lab.status().await;
    let database = rusqlite::Connection::open(lab.folder.join("manager.db")).unwrap();
    let sql = "CREATE TRIGGER no BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'full'); END";
    database.execute_batch(sql).unwrap();
    let answer = lab.ask(Some(&lab.mesh(0)), "v1/apply").await;
    assert_eq!(answer.status(), 500);
    let text = answer.text().await.unwrap();
    assert!(text.contains("nothing was done: the store: full"), "{text}");
    assert_eq!(lab.status().await.phase, Phase::Empty);
    database.execute_batch("DROP TRIGGER no").unwrap();
    lab.apply(&lab.mesh(0)).await;
}

#[test]
fn command_tells_what_is_wrong_with_certificates_and_addresses() {
    let folder = std::env::temp_dir().join(format!("superp-cm-words-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let text = fails(&folder, "init --dir ca --address 10.0.0.1:7778");
    assert!(text.contains("without a port"), "{text}");
    assert!(!folder.join("ca").exists(), "half of it was made");
    init(&folder, "127.0.0");
    let text = fails(&folder, "init --dir ca");
    assert!(text.contains("there is an authority already"), "{text}");
    issue(&folder, Role::Operator, "alice", None);
    for (line, part) in [
        (
            "issue --dir ca --role root --name x --out x",
            "\"root\" is no role: viewer, operator, agent or manager",
        ),
        (
            "issue --dir ca --role agent --name x --out x",
            "--address says under which host name or address",
        ),
        (
            "issue --dir none --role viewer --name x --out x",
            "superp-cm init makes one",
        ),
        (
            "issue --dir ca --role viewer --name x --out x --valid 0",
            "not a time from 1m to 3650d",
        ),
        (
            "token --dir ca --role viewer --name x --redeem 366d",
            "not a time from 1m to 365d",
        ),
        (
            "serve --etcd http://127.0.0.1:1 --lease 1s",
            "not a time from 2s to 5m",
        ),
        (
            "serve --store db --listen 0.0.0.0:0",
            "add --tls DIR, which superp-cm init makes, or --plain-tcp",
        ),
        (
            "serve --store db --listen 0.0.0.0:0 --tls alice",
            "alice is of alice, which has the role operator; the role manager is wanted here",
        ),
        (
            "serve --store db --tls nowhere",
            "nowhere/tls.crt: No such file or directory",
        ),
        (
            "serve --store db --tls ca/manager --plain-tcp",
            "cannot be used with",
        ),
    ] {
        let text = fails(&folder, line);
        assert!(text.contains(part), "{line}: {text}");
    }
    assert!(!folder.join("db").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fabric_file_is_planned_and_applied_by_command() {
    let lab = Lab::with(2, true).await;
    lab.status().await;
    std::fs::write(lab.folder.join("lab.toml"), lab.mesh(0)).unwrap();
    let url = lab.url("");
    let command = |verb: &str| {
        let line = format!("{verb} lab.toml --manager {url} --tls alice");
        let output = run(&lab.folder, &line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(command("plan").contains("\n  connection 1 to xpu02, there 1, sunh\n"));
    let changes = command("diff");
    assert!(
        changes.starts_with("configuration 1\n  the fabric lab is new\n"),
        "{changes}"
    );
    assert_eq!(lab.status().await.generation, 0, "nothing was changed");
    assert_eq!(command("apply"), changes);
    lab.until(Phase::Running).await;
    assert_eq!(
        command("apply"),
        "nothing changes: configuration 1 is this one\n"
    );
    let absent = fails(&lab.folder, "apply absent.toml");
    assert_eq!(
        absent,
        "absent.toml: No such file or directory (os error 2)\n"
    );
    let refused = fails(&lab.folder, "diff lab.toml --manager http://127.0.0.1:1");
    assert_eq!(
        refused,
        "no manager at http://127.0.0.1:1: Connection refused\n"
    );
    std::fs::write(lab.folder.join("lab.toml"), "fabric = 1").unwrap();
    let refused = fails(
        &lab.folder,
        &format!("apply lab.toml --manager {url} --tls alice"),
    );
    assert!(refused.starts_with("lab.toml:1:"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_not_sent_on_to_where_an_agent_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/status", listener.local_addr().unwrap());
    let on = || async { axum::response::Redirect::temporary("/v1/elsewhere") };
    let router = axum::Router::new()
        .route("/v1/status", axum::routing::any(on))
        .fallback(|| async { "elsewhere" });
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let answer = http(None).post(url).body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 307);
}
