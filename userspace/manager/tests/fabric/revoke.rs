// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Certificates that are revoked, and renewed, while manager and agents run.

use super::secure::{fails, http, issue, run};
use super::{Lab, LIMIT};
use std::path::Path;
use std::time::{Duration, Instant};
use superp_control::manager::{NodeStatus, Phase};
use superp_tls::{explain, Role};

/// Waits until something is there.
async fn until<T>(lab: &Lab, what: &str, mut there: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = there().await {
            return found;
        }
        assert!(Instant::now() < end, "not {what}\n{}", lab.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a command that succeeds prints.
fn does(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Lab {
    /// Makes a certificate, and puts it with its key where another one is.
    fn renew(&self, role: Role, name: &str, address: &str, dir: &str) {
        issue(&self.folder, role, name, Some(address));
        for file in ["tls.crt", "tls.key"] {
            let new = self.folder.join(name).join(file);
            std::fs::copy(new, self.folder.join(dir).join(file)).unwrap();
        }
    }

    fn lists(&self) -> Vec<u64> {
        let lives = self.agents.iter().filter_map(|agent| agent.live.as_ref());
        lives.map(|live| live.now().revoked().number()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_revoked_is_refused_everywhere_and_who_is_renewed_is_not() {
    let lab = Lab::with(2, true).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let bob = issue(&lab.folder, Role::Operator, "bob", None);
    let bobs = http(Some(&bob));
    let asked = || bobs.get(lab.url("v1/fabric")).send();
    assert_eq!(asked().await.unwrap().status(), 200);

    // A client.
    let begin = Instant::now();
    let told = does(&lab.folder, "revoke --dir ca bob");
    let serial = &bob.identity().serial;
    let expected = format!("the certificate {serial} of the operator bob is revoked\n");
    assert!(told.starts_with(&expected), "{told}");
    let why = until(&lab, "refused", async || {
        // A connection that there was may end without a word.
        asked().await.err().and_then(|error| explain(&error))
    });
    assert_eq!(why.await, "it refuses our certificate, which was revoked");
    println!("refused after {:.1} s", begin.elapsed().as_secs_f32());
    until(&lab, "told to agents", async || {
        (lab.lists() == [1, 1]).then_some(())
    })
    .await;
    println!(
        "told to agents after {:.1} s",
        begin.elapsed().as_secs_f32()
    );
    let recorded = async || {
        let log = lab.audit().await.into_iter();
        let revoked = log.filter(|record| record.request.starts_with("revoke "));
        revoked.collect::<Vec<_>>()
    };
    let record = recorded().await.remove(0);
    assert_eq!(record.request, format!("revoke {serial} operator bob"));
    assert_eq!((record.who.as_str(), record.role), ("authority", None));
    let result = record.result.unwrap();
    assert!(result.starts_with("list 1, "), "{result}");
    assert!(result.contains(", by "), "{result}");

    // An agent: the manager refuses it, until it has another certificate.
    does(&lab.folder, "revoke --dir ca xpu02 --role agent");
    let error = async || {
        let node: NodeStatus = lab.get("v1/nodes/xpu02").await;
        node.error
    };
    let address = format!("{}.2", lab.net);
    let refused = format!("no connection to {address}:7779: its certificate was revoked");
    until(&lab, "refused", async || {
        (error().await? == refused).then_some(())
    })
    .await;
    lab.renew(Role::Agent, "xpu02-renewed", &address, "xpu02");
    until(&lab, "talked to again", async || {
        error().await.is_none().then_some(())
    })
    .await;
    assert_eq!(lab.until(Phase::Running).await.connections_running, 1);

    // The manager: agents refuse it, and commands that have the list.
    std::fs::write(lab.folder.join("lab.toml"), lab.mesh(0)).unwrap();
    let diff = format!("diff lab.toml --manager {} --tls alice", lab.url(""));
    does(&lab.folder, &diff);
    does(&lab.folder, "revoke --dir ca manager");
    let list = lab.folder.join("ca/ca.crl");
    std::fs::copy(list, lab.folder.join("alice/ca.crl")).unwrap();
    let text = fails(&lab.folder, &diff);
    assert!(text.contains(": its certificate was revoked"), "{text}");
    let refused =
        format!("no connection to {address}:7779: it refuses our certificate, which was revoked");
    until(&lab, "refused", async || {
        (error().await? == refused).then_some(())
    })
    .await;
    lab.renew(
        Role::Manager,
        "renewed",
        &format!("{}.250", lab.net),
        "ca/manager",
    );
    until(&lab, "renewed", async || {
        let ready = lab.status().await.waiting.is_empty();
        (ready && run(&lab.folder, &diff).status.success()).then_some(())
    })
    .await;
    assert_eq!(lab.until(Phase::Running).await.connections_running, 1);
    until(&lab, "told to agents", async || {
        (lab.lists() == [3, 3]).then_some(())
    })
    .await;

    // Another manager of the store knows it, and does not record it again.
    let before = recorded().await;
    assert_eq!(before.len(), 3);
    lab.kill();
    lab.until(Phase::Running).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(recorded().await, before);
    lab.no_wrongs();
}
