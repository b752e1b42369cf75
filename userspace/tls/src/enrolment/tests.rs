// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tokens, and what is given for them, over real sockets.

use super::*;
use crate::authority::init;
use crate::serve::{serve, Caller};
use crate::{enrol, Tls};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::TcpListener;

const HOUR: Duration = Duration::from_secs(3600);

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::SeqCst);
        let name = format!("superp-enrolment-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&folder.0);
        init(&folder.ca()).unwrap();
        folder
    }

    fn ca(&self) -> PathBuf {
        self.0.join("ca")
    }

    fn out(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn token(&self) -> Token {
        token(&self.ca(), &grant(), HOUR).unwrap()
    }

    /// Serves the authority; its URL.
    async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = server(&self.ca(), &["127.0.0.1".into()]).unwrap();
        let dir = self.ca();
        let answer = |Extension(caller): Extension<Caller>, body: String| async move {
            assert_eq!(caller, Caller::Unknown("127.0.0.1".parse().unwrap()));
            assert!(caller.may(&Role::ALL, "POST /").is_err());
            match redeem(&dir, &body) {
                Ok((answer, _)) => (StatusCode::OK, answer),
                Err(Refusal::Malformed(why) | Refusal::Forbidden(why) | Refusal::Failed(why)) => {
                    let problem = serde_json::json!({ "detail": why });
                    (StatusCode::FORBIDDEN, problem.to_string())
                }
            }
        };
        let router = Router::new().route(PATH, post(answer));
        tokio::spawn(serve(listener, router, Some(config), pending()));
        format!("https://{address}")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn grant() -> Grant {
    Grant {
        name: "xpu01".into(),
        role: Role::Agent,
        addresses: vec!["10.0.0.1".into()],
        valid: Duration::from_secs(30 * 24 * 3600),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_gives_its_certificate_once() {
    let folder = Folder::new();
    let (url, token) = (folder.serve().await, folder.token());
    let out = folder.out("one");
    let owner = enrol(&url, &token, &out).await.unwrap();
    assert_eq!((owner.name.as_str(), owner.role), ("xpu01", Role::Agent));
    let tls = Tls::read(&out).unwrap();
    tls.server().unwrap();
    let days = (tls.identity().until - i64::try_from(now()).unwrap()) / (24 * 3600);
    assert!((29..=30).contains(&days), "{days}");
    let again = enrol(&url, &token, &folder.out("two")).await.unwrap_err();
    assert!(
        again.contains("the token is not known here: it was used"),
        "{again}"
    );
    assert!(!folder.out("two").exists());
    // Nor is one lost where there is no place for what it gives.
    let next = folder.token();
    let full = enrol(&url, &next, &out).await.unwrap_err();
    assert!(full.contains("tls.key: there is one already"), "{full}");
    enrol(&url, &next, &folder.out("three")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_at_a_time_one_gets_it() {
    let folder = Folder::new();
    let (url, token) = (folder.serve().await, folder.token());
    let (one, other) = (folder.out("one"), folder.out("other"));
    let (one, other) = tokio::join!(enrol(&url, &token, &one), enrol(&url, &token, &other));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_of_another_authority_is_told_nothing() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (url, token) = (other.serve().await, folder.token());
    let refused = enrol(&url, &token, &folder.out("one")).await.unwrap_err();
    assert!(
        refused.contains("its certificate is of another authority"),
        "{refused}"
    );
    // It was not redeemed.
    enrol(&folder.serve().await, &token, &folder.out("one"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn server_under_another_address_is_told_nothing() {
    let folder = Folder::new();
    let url = folder.serve().await.replace("127.0.0.1", "127.0.0.2");
    // It does not listen there either; a listener that passes on does.
    let port = url.rsplit(':').next().unwrap().to_owned();
    let listener = TcpListener::bind(format!("127.0.0.2:{port}"))
        .await
        .unwrap();
    tokio::spawn(async move {
        let (mut here, _) = listener.accept().await.unwrap();
        let there = format!("127.0.0.1:{port}");
        let mut there = tokio::net::TcpStream::connect(there).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
    });
    let refused = enrol(&url, &folder.token(), &folder.out("one"))
        .await
        .unwrap_err();
    assert!(
        refused.contains("127.0.0.2") && refused.contains("certificate"),
        "{refused}"
    );
}

/// What is asked for with a token, and a key of its own.
fn ask(token: &Token) -> String {
    let key = KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default();
    let ask = Ask {
        token: token.to_string(),
        request: request.serialize_request(&key).unwrap().pem().unwrap(),
    };
    serde_json::to_string(&ask).unwrap()
}

fn forbidden(folder: &Folder, token: &Token) -> String {
    match redeem(&folder.ca(), &ask(token)) {
        Err(Refusal::Forbidden(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn token_that_is_none_any_more_or_never_was_gives_nothing() {
    let folder = Folder::new();
    let late = token(&folder.ca(), &grant(), Duration::ZERO).unwrap();
    assert!(forbidden(&folder, &late).starts_with("the token has run out"));
    let good = folder.token();
    let mut guessed = good.clone();
    guessed.secret[31] ^= 1;
    assert!(forbidden(&folder, &guessed).starts_with("the token is not known here"));
    let mut other = good.clone();
    other.id[0] ^= 1;
    assert!(forbidden(&folder, &other).starts_with("the token is not known here"));
    // Guesses do not use it up.
    let (_, given) = redeem(&folder.ca(), &ask(&good)).unwrap();
    assert_eq!(given, grant());
}

#[test]
fn what_cannot_be_read_is_refused_and_uses_nothing_up() {
    let folder = Folder::new();
    let token = folder.token();
    let good = ask(&token);
    let signed: serde_json::Value = serde_json::from_str(&good).unwrap();
    // A key that who asks does not have: the signature is of another one.
    let other: serde_json::Value = serde_json::from_str(&ask(&token)).unwrap();
    let lines = |value: &serde_json::Value| -> Vec<String> {
        let text = value["request"].as_str().unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (mut mixed, others) = (lines(&signed), lines(&other));
    let last = mixed.len() - 2;
    mixed[last] = others[last].clone();
    let mixed = serde_json::json!({ "token": token.to_string(), "request": mixed.join("\n") });
    for body in [
        String::new(),
        "{}".into(),
        good.replace("BEGIN", "BEGIM"),
        good.replace(&token.to_string(), "x"),
        mixed.to_string(),
    ] {
        let refused = redeem(&folder.ca(), &body);
        assert!(
            matches!(refused, Err(Refusal::Malformed(_))),
            "{refused:?} for {body}"
        );
    }
    redeem(&folder.ca(), &good).unwrap();
}

#[test]
fn token_is_never_an_option_to_a_command_line() {
    let folder = Folder::new();
    // Of those that begin with anything one in 64 does.
    for _ in 0..1024 {
        let text = folder.token().to_string();
        assert!(!text.starts_with('-'), "{text}");
    }
}

#[test]
fn token_is_read_as_it_is_written_and_hides_its_secret_in_logs() {
    let folder = Folder::new();
    let token = folder.token();
    let text = token.to_string();
    assert!(text.parse::<Token>().as_ref() == Ok(&token));
    assert!(format!(" {text}\n").parse::<Token>().is_ok());
    for wrong in [
        "",
        "x",
        &text[1..],
        &text[..text.len() - 2],
        &format!("{text}AAAA"),
    ] {
        let error = wrong.parse::<Token>().unwrap_err();
        assert_eq!(error, "it is no token: superp-cm token makes one");
    }
    assert!(!format!("{token:?}").contains(&text[12..40]));
    let kept = fs::read_to_string(token.file(&folder.ca())).unwrap();
    assert!(!kept.contains(&text[12..40]) && kept.contains("xpu01"));
    // What cannot be a certificate is no token either.
    let wrong = Grant {
        addresses: vec![],
        ..grant()
    };
    let why = super::token(&folder.ca(), &wrong, HOUR).unwrap_err();
    assert!(why.contains("--address says under which"), "{why}");
}
