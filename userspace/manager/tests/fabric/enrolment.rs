// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tokens at the command line: made beside the authority, redeemed on another host.

use super::secure::{fails, http, run};
use super::Lab;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use superp_control::manager::FabricStatus;
use superp_tls::{Role, Tls};

/// `superp-cm enrolment`, until the test ends.
struct Place(Child);

impl Place {
    fn start(folder: &Path, net: &str) -> Self {
        let address = format!("{net}.251");
        let place = Command::new(env!("CARGO_BIN_EXE_superp-cm"))
            .args([
                "enrolment",
                "--dir",
                "ca",
                "--address",
                &address,
                "--listen",
            ])
            .arg(format!("{address}:7777"))
            .current_dir(folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect((address.as_str(), 7777)).is_err() {
            assert!(Instant::now() < end, "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_for_a_token_is_as_good_as_one_that_was_issued() {
    let lab = Lab::with(1, true).await;
    let _place = Place::start(&lab.folder, &lab.net);
    let made = run(
        &lab.folder,
        "token --dir ca --role operator --name bob --valid 36h --redeem 30m",
    );
    assert!(made.status.success(), "{made:?}");
    let token = String::from_utf8(made.stdout).unwrap();
    let enrol = format!(
        "enrol --url https://{}.251:7777 --out bob --token {token}",
        lab.net
    );
    let done = run(&lab.folder, enrol.trim());
    assert!(done.status.success(), "{done:?}");
    let told = String::from_utf8(done.stdout).unwrap();
    assert_eq!(
        told,
        "bob: a certificate of the operator bob; the directory is given as --tls\n"
    );
    let tls = Tls::read(&lab.folder.join("bob")).unwrap();
    let answer = http(Some(&tls))
        .get(lab.url("v1/fabric"))
        .send()
        .await
        .unwrap();
    let _: FabricStatus = answer.json().await.unwrap();
    let elsewhere = enrol.replace("--out bob", "--out elsewhere");
    let again = fails(&lab.folder, elsewhere.trim());
    assert!(
        again.contains("/v1/enrol: the token is not known here: it was used"),
        "{again}"
    );
    // Anybody may ask it, and nothing but this.
    let client = reqwest::Client::builder()
        .danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let url = format!("https://{}.251:7777", lab.net);
    for (path, body, status) in [
        ("/v1/fabric", String::new(), 404),
        ("/v1/enrol", "x".into(), 400),
        ("/v1/enrol", "x".repeat(20_000), 413),
    ] {
        let answer = client
            .post(format!("{url}{path}"))
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(kind, "application/problem+json");
    }
    // And nobody without a certificate asks the manager.
    assert!(client.get(lab.url("v1/fabric")).send().await.is_err());
    assert_eq!(tls.identity().role, Role::Operator);
}
