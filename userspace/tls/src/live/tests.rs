// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Certificates that change, and that are revoked, in handshakes over real sockets.

use super::*;
use crate::authority::{self, Request};
use crate::tests::{ask, client, said, start, Fabric};
use crate::{revoke, Identity, Which, REVOCATIONS_MAX};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use tokio::net::TcpStream;

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The certificate that a server shows.
async fn shows(address: SocketAddr, config: ClientConfig) -> Identity {
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector
        .connect(address.ip().into(), stream)
        .await
        .unwrap();
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    Identity::read(&chain[0]).unwrap()
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < end, "not {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Long enough for what is in the files to have been taken up.
async fn looked() {
    tokio::time::sleep(3 * LOOK + LOOK / 2).await;
}

impl Fabric {
    fn live(&self, role: Role) -> (Live, PathBuf) {
        let dir = self.issue(&Self::request(role));
        (Live::open(&dir, role, None).unwrap(), dir)
    }

    /// Revokes all certificates of a name.
    fn revoke(&self, name: &str) -> Vec<Identity> {
        revoke(&self.0, &Which::Named(name.into(), None), "root").unwrap()
    }

    fn list(&self) -> String {
        fs::read_to_string(self.0.join(REVOCATION_FILE)).unwrap()
    }

    fn another(&self, name: &str, role: Role) -> PathBuf {
        let request = Request {
            name: name.into(),
            ..Self::request(role)
        };
        self.issue(&request)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_certificate_is_shown_without_a_new_start_and_a_broken_one_is_not() {
    let fabric = Fabric::new();
    let (live, dir) = fabric.live(Role::Manager);
    let address = start(Some(live.clone())).await;
    let asks = fabric.tls(Role::Viewer).client(Role::Manager).unwrap();
    assert_eq!(shows(address, asks.clone()).await.name, "the-manager");
    let open = client(asks.clone());
    said(&open, address).await.unwrap();

    // The certificate without its key: as between two copies.
    let new = fabric.another("renewed", Role::Manager);
    fs::copy(new.join(CERTIFICATE_FILE), dir.join(CERTIFICATE_FILE)).unwrap();
    looked().await;
    assert_eq!(shows(address, asks.clone()).await.name, "the-manager");
    fs::copy(new.join(KEY_FILE), dir.join(KEY_FILE)).unwrap();
    until("the new one is shown", async || {
        shows(address, asks.clone()).await.name == "renewed"
    })
    .await;
    assert_eq!(live.now().identity().name, "renewed");
    said(&open, address).await.unwrap();

    // Somebody else's, one that others may read, and none at all.
    let agent = fabric.issue(&Fabric::request(Role::Agent));
    let copy = |from: &Path| {
        for file in [CERTIFICATE_FILE, KEY_FILE] {
            fs::copy(from.join(file), dir.join(file)).unwrap();
        }
    };
    copy(&agent);
    looked().await;
    assert_eq!(shows(address, asks.clone()).await.name, "renewed");
    copy(&fabric.another("readable", Role::Manager));
    let mode = |mode| fs::set_permissions(dir.join(KEY_FILE), fs::Permissions::from_mode(mode));
    mode(0o644).unwrap();
    looked().await;
    assert_eq!(shows(address, asks.clone()).await.name, "renewed");
    fs::remove_file(dir.join(CERTIFICATE_FILE)).unwrap();
    looked().await;
    assert_eq!(shows(address, asks.clone()).await.name, "renewed");
    // What is mended is taken up.
    copy(&fabric.another("mended", Role::Manager));
    mode(0o600).unwrap();
    until("mended", async || {
        shows(address, asks.clone()).await.name == "mended"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_client_is_refused_and_its_open_connection_ends() {
    let fabric = Fabric::new();
    let (live, dir) = fabric.live(Role::Manager);
    let address = start(Some(live.clone())).await;
    let asks = |tls: Tls| tls.client(Role::Manager).unwrap();
    let (bad, good) = (
        asks(fabric.tls(Role::Operator)),
        asks(fabric.tls(Role::Viewer)),
    );
    ask(address, bad.clone()).await.unwrap();
    // Nobody asks by this one while it is revoked.
    let mut open = {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(bad.clone()));
        let stream = TcpStream::connect(address).await.unwrap();
        connector
            .connect(address.ip().into(), stream)
            .await
            .unwrap()
    };
    let revoked = fabric.revoke("the-operator");
    assert_eq!(revoked.len(), 1);
    fs::copy(fabric.0.join(REVOCATION_FILE), dir.join(REVOCATION_FILE)).unwrap();
    let mut sink = tokio::io::sink();
    let ended = tokio::io::copy(&mut open, &mut sink);
    // Long before a connection ends on which nothing is asked.
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(ended.is_ok(), "the connection stays");
    for _ in 0..20 {
        assert_eq!(
            ask(address, bad.clone()).await.unwrap_err(),
            "it refuses our certificate, which was revoked"
        );
        ask(address, good.clone()).await.unwrap();
    }
    // Another one of the same name is not revoked.
    fs::rename(dir.join("../the-operator"), dir.join("../old")).unwrap();
    ask(address, asks(fabric.tls(Role::Operator)))
        .await
        .unwrap();
    ask(address, bad).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_server_is_refused_by_who_has_the_list() {
    let fabric = Fabric::new();
    let (live, _) = fabric.live(Role::Manager);
    let address = start(Some(live.clone())).await;
    let early = fabric.tls(Role::Viewer).client(Role::Manager).unwrap();
    fabric.revoke("the-manager");
    // What is issued now comes with the list.
    let late = fabric.tls(Role::Operator);
    assert_eq!(late.revoked().number(), 1);
    assert_eq!(
        ask(address, late.client(Role::Manager).unwrap())
            .await
            .unwrap_err(),
        "its certificate was revoked"
    );
    ask(address, early).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_undoes_a_revocation_with_another_list_or_none() {
    let (fabric, other) = (Fabric::new(), Fabric::new());
    let dir = fabric.issue(&Fabric::request(Role::Agent));
    let kept = fabric.0.join("kept.crl");
    let live = Live::open(&dir, Role::Agent, Some(kept.clone())).unwrap();
    let viewer = fabric.tls(Role::Viewer);
    let operator = fabric.tls(Role::Operator);
    fabric.revoke("the-viewer");
    let first = fabric.list();
    fabric.revoke("the-operator");
    let second = fabric.list();
    let refused = |tls: &Tls| live.now().revoked().contains(tls.identity());
    assert_eq!(live.take(&first), Ok(1));
    assert!(refused(&viewer) && !refused(&operator));
    assert_eq!(live.take(&second), Ok(2));
    assert_eq!(live.take(&first), Ok(2), "an older one");
    assert!(refused(&viewer) && refused(&operator));

    other.tls(Role::Viewer);
    for _ in 0..3 {
        other.revoke_any();
    }
    let (head, tail) = second.split_once("-----BEGIN").unwrap();
    let damaged = format!("{head}-----BEGIN{}", tail.replacen("MI", "MJ", 1));
    for list in [
        other.list(),
        damaged,
        String::new(),
        "x".repeat(REVOCATIONS_MAX + 1),
    ] {
        live.take(&list).unwrap_err();
    }
    // A file that is older, broken or gone does no more.
    for list in [Some(&first), Some(&"nonsense".to_owned()), None] {
        match list {
            Some(list) => fs::write(dir.join(REVOCATION_FILE), list).unwrap(),
            None => fs::remove_file(dir.join(REVOCATION_FILE)).unwrap(),
        }
        looked().await;
        assert!(refused(&viewer) && refused(&operator), "{list:?}");
    }
    // Nor a new start.
    drop(live);
    let live = Live::open(&dir, Role::Agent, Some(kept.clone())).unwrap();
    assert_eq!(live.now().revoked().number(), 2);
    // What was kept for another authority says nothing here.
    fs::write(&kept, other.list()).unwrap();
    let live = Live::open(&dir, Role::Agent, Some(kept)).unwrap();
    assert_eq!(live.now().revoked().number(), 0);
}

impl Fabric {
    /// One more list.
    fn revoke_any(&self) {
        static MORE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = MORE.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let name = format!("one-{number}");
        self.another(&name, Role::Viewer);
        self.revoke(&name);
    }
}

#[test]
fn what_is_revoked_is_named_by_name_role_or_certificate() {
    let (fabric, other) = (Fabric::new(), Fabric::new());
    let issue = |role, out: &str| {
        let request = Request {
            name: "xpu01".into(),
            ..Fabric::request(role)
        };
        let out = fabric.0.join(out);
        authority::issue(&fabric.0, &request, &out).unwrap();
        out
    };
    let (agent, renewed) = (issue(Role::Agent, "a"), issue(Role::Agent, "b"));
    let viewer = issue(Role::Viewer, "c");
    let by = |which| revoke(&fabric.0, &which, "root");
    let named = |role| by(Which::Named("xpu01".into(), role));
    let serial = |dir: &Path| Tls::load(dir).unwrap().identity().serial.clone();

    let one = by(Which::File(agent.join(CERTIFICATE_FILE))).unwrap();
    assert_eq!(one[0].serial, serial(&agent));
    let text = by(Which::File(agent.join(CERTIFICATE_FILE))).unwrap_err();
    assert!(text.contains("revoked already"), "{text}");
    let of_role = named(Some(Role::Agent)).unwrap();
    assert_eq!(of_role.len(), 1);
    assert_eq!(of_role[0].serial, serial(&renewed));
    assert_eq!(named(None).unwrap()[0].serial, serial(&viewer));
    let text = named(None).unwrap_err();
    assert!(text.contains("revoked already"), "{text}");

    let text = by(Which::Named("nobody".into(), None)).unwrap_err();
    assert!(
        text.contains("no certificate of nobody that is valid"),
        "{text}"
    );
    let foreign = other.issue(&Fabric::request(Role::Viewer));
    let text = by(Which::File(foreign.join(CERTIFICATE_FILE))).unwrap_err();
    assert!(text.contains("this authority did not make"), "{text}");

    // Who was revoked when, in words, stays with the list.
    let tls = Tls::load(&agent).unwrap();
    let list = tls.list(&fabric.list()).unwrap();
    assert_eq!(list.number(), 3);
    let mut told = list.beyond(&Default::default());
    told.sort_by_key(|line| !line.contains("agent"));
    assert_eq!(told.len(), 3);
    assert!(told[0].contains(" agent xpu01, "), "{told:?}");
    assert!(told[2].ends_with(", by root"), "{told:?}");
    assert!(told[2].contains(" viewer xpu01, "), "{told:?}");
    assert!(list.contains(tls.identity()));
}
