// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Authorities, certificates and handshakes, over real sockets.

use crate::authority::{self, Request, AUTHORITY_KEY_FILE};
use crate::serve::{serve, Caller, Credentials};
use crate::{explain, send, Role, Tls, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
use axum::routing::get;
use axum::{Extension, Router};
use rustls::{ClientConfig, ServerConfig};
use std::fs::{self, Permissions};
use std::future::pending;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority, in a directory that is removed at the end.
pub(crate) struct Fabric(pub(crate) PathBuf);

impl Fabric {
    pub(crate) fn new() -> Self {
        static FABRICS: AtomicU32 = AtomicU32::new(0);
        let number = FABRICS.fetch_add(1, Ordering::SeqCst);
        let name = format!("superp-tls-{}-{number}", std::process::id());
        let fabric = Self(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&fabric.0);
        authority::init(&fabric.0).unwrap();
        fabric
    }

    pub(crate) fn request(role: Role) -> Request {
        let addresses = match role.serves() {
            true => vec!["127.0.0.1".into()],
            false => Vec::new(),
        };
        Request::new(&format!("the-{role}"), role, addresses, DAY)
    }

    pub(crate) fn issue(&self, request: &Request) -> PathBuf {
        let out = self.0.join(&request.name);
        authority::issue(&self.0, request, &out).unwrap();
        out
    }

    pub(crate) fn tls(&self, role: Role) -> Tls {
        Tls::read(&self.issue(&Self::request(role))).unwrap()
    }

    /// One whose certificate has expired.
    fn expired(&self, role: Role) -> Tls {
        let mut request = Self::request(role);
        request.until = SystemTime::now() - Duration::from_secs(60);
        Tls::load(&self.issue(&request)).unwrap()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn start(tls: Option<impl Into<Credentials> + Send + 'static>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let who = |Extension(caller): Extension<Caller>| async move { format!("{:?}", caller.who()) };
    let router = Router::new().route("/", get(who));
    tokio::spawn(serve(listener, router, tls, pending()));
    address
}

/// What a server says, or why there is nothing.
pub(crate) async fn ask(address: SocketAddr, config: ClientConfig) -> Result<String, String> {
    said(&client(config), address).await
}

pub(crate) fn client(config: ClientConfig) -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .use_preconfigured_tls(config)
        .build()
        .unwrap()
}

pub(crate) async fn said(http: &reqwest::Client, address: SocketAddr) -> Result<String, String> {
    let asked = async {
        let answer = send(http.get(format!("https://{address}/"))).await?;
        answer.text().await
    };
    asked
        .await
        .map_err(|error| explain(&error).unwrap_or_else(|| format!("{error:?}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_knows_name_and_role_of_who_asks() {
    let fabric = Fabric::new();
    let server = fabric.tls(Role::Manager);
    let address = start(Some(server.server().unwrap())).await;
    for role in [Role::Viewer, Role::Operator, Role::Agent] {
        let client = fabric.tls(role).client(Role::Manager).unwrap();
        let told = ask(address, client).await.unwrap();
        assert_eq!(told, format!("(\"the-{role}\", Some({role:?}))"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_without_certificate_or_with_a_foreign_or_expired_one_is_refused() {
    let (fabric, other) = (Fabric::new(), Fabric::new());
    let server = fabric.tls(Role::Manager);
    let address = start(Some(server.server().unwrap())).await;
    let operator = fabric.tls(Role::Operator).client(Role::Manager).unwrap();
    ask(address, operator.clone()).await.unwrap();

    let mut nobody = operator;
    nobody.client_auth_cert_resolver = std::sync::Arc::new(NoCertificate);
    assert_eq!(
        ask(address, nobody).await.unwrap_err(),
        "it wants a certificate, and we have shown none"
    );
    // It believes in our server, and shows what another authority made.
    let mut foreign = fabric.tls(Role::Viewer).client(Role::Manager).unwrap();
    foreign.client_auth_cert_resolver = other
        .tls(Role::Operator)
        .client(Role::Manager)
        .unwrap()
        .client_auth_cert_resolver;
    assert_eq!(
        ask(address, foreign).await.unwrap_err(),
        "it refuses our certificate, which is of another authority than its own"
    );
    let old = Fabric::expired(&fabric, Role::Agent);
    // Often, because the refusal may come before, while, and after the request is sent.
    for _ in 0..50 {
        assert_eq!(
            ask(address, old.client(Role::Manager).unwrap())
                .await
                .unwrap_err(),
            "it refuses our certificate, which is expired by its clock"
        );
    }
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<std::sync::Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_the_authority_without_a_role_is_refused() {
    let fabric = Fabric::new();
    let server = fabric.tls(Role::Manager);
    let address = start(Some(server.server().unwrap())).await;
    for (name, roles) in [("none", 0), ("two", 2)] {
        let mut params = authority::params(&Fabric::request(Role::Operator)).unwrap();
        let role = params.subject_alt_names.pop().unwrap();
        params.subject_alt_names = vec![role; roles];
        let out = fabric.0.join(name);
        authority::sign(&fabric.0, params, &out).unwrap();
        let Err(text) = Tls::read(&out) else {
            panic!("taken")
        };
        assert!(text.contains("does not say one role"), "{text}");
        // A client that is none of ours.
        let mut client = fabric.tls_of(name).client(Role::Manager).unwrap();
        client.client_auth_cert_resolver = keyed(&out);
        ask(address, client).await.unwrap_err();
    }
}

impl Fabric {
    fn tls_of(&self, name: &str) -> Tls {
        let name = format!("client-{name}");
        let request = Request::new(&name, Role::Viewer, Vec::new(), DAY);
        Tls::read(&self.issue(&request)).unwrap()
    }
}

/// Shows the certificate of a directory, whatever is in it.
fn keyed(dir: &std::path::Path) -> std::sync::Arc<dyn rustls::client::ResolvesClientCert> {
    use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::from_pem_file(dir.join(CERTIFICATE_FILE)).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.join(KEY_FILE)).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let certified = rustls::sign::CertifiedKey::new(vec![chain], key);
    std::sync::Arc::new(rustls::sign::SingleCertAndKey::from(certified))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_must_have_the_role_the_name_and_the_authority() {
    let (fabric, other) = (Fabric::new(), Fabric::new());
    let client = |role| fabric.tls_of(&format!("{role}")).client(role).unwrap();
    let (manager, agent) = (client(Role::Manager), client(Role::Agent));

    let serving = |tls: Tls| async move { start(Some(tls.server().unwrap())).await };
    let agents = serving(fabric.tls(Role::Agent)).await;
    ask(agents, agent.clone()).await.unwrap();
    let refused = ask(agents, manager.clone()).await.unwrap_err();
    assert_eq!(
        refused,
        "it shows the certificate of the-agent, which has the role agent, not manager"
    );
    let managers = serving(fabric.tls(Role::Manager)).await;
    let refused = ask(managers, agent.clone()).await.unwrap_err();
    assert_eq!(
        refused,
        "it shows the certificate of the-manager, which has the role manager, not agent"
    );
    let viewers = serving(fabric.tls(Role::Viewer)).await;
    let refused = ask(viewers, manager.clone()).await.unwrap_err();
    assert!(refused.contains("is not for"), "{refused}");

    let mut elsewhere = Fabric::request(Role::Manager);
    (elsewhere.name, elsewhere.addresses) = ("far".into(), vec!["192.0.2.1".into(), "far".into()]);
    let elsewhere = serving(Tls::read(&fabric.issue(&elsewhere)).unwrap()).await;
    let refused = ask(elsewhere, manager.clone()).await.unwrap_err();
    assert_eq!(
        refused,
        "its certificate is not for 127.0.0.1, but for 192.0.2.1, far"
    );
    let foreign = serving(other.tls(Role::Manager)).await;
    let refused = ask(foreign, manager.clone()).await.unwrap_err();
    assert_eq!(
        refused,
        "its certificate is of another authority than ours (ca.crt)"
    );
    let fabric_too = Fabric(fabric.0.join("again"));
    fs::create_dir(&fabric_too.0).unwrap();
    for file in [AUTHORITY_FILE, AUTHORITY_KEY_FILE] {
        fs::copy(fabric.0.join(file), fabric_too.0.join(file)).unwrap();
    }
    let old = serving(fabric_too.expired(Role::Manager)).await;
    let refused = ask(old, manager).await.unwrap_err();
    assert!(
        refused.starts_with("its certificate expired ") && refused.contains("superp-cm issue"),
        "{refused}"
    );
}

#[test]
fn keys_are_private_and_nothing_is_written_over() {
    let fabric = Fabric::new();
    let out = fabric.issue(&Fabric::request(Role::Agent));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(fabric.0.clone()), 0o700);
    assert_eq!(mode(out.clone()), 0o700);
    assert_eq!(mode(fabric.0.join(AUTHORITY_KEY_FILE)), 0o600);
    assert_eq!(mode(out.join(KEY_FILE)), 0o600);
    let before = fs::read(fabric.0.join(AUTHORITY_KEY_FILE)).unwrap();
    let text = authority::init(&fabric.0).unwrap_err();
    assert!(text.contains("there is an authority already"), "{text}");
    assert_eq!(fs::read(fabric.0.join(AUTHORITY_KEY_FILE)).unwrap(), before);
    let before = fs::read(out.join(KEY_FILE)).unwrap();
    let text = authority::issue(&fabric.0, &Fabric::request(Role::Agent), &out).unwrap_err();
    assert!(text.contains("there is one already"), "{text}");
    assert_eq!(fs::read(out.join(KEY_FILE)).unwrap(), before);
}

#[test]
fn what_cannot_be_right_is_refused_with_what_would_be() {
    let fabric = Fabric::new();
    let refused = |name: &str, role, addresses: &[&str]| {
        let addresses = addresses.iter().map(|&text| text.to_owned()).collect();
        let request = Request::new(name, role, addresses, DAY);
        authority::issue(&fabric.0, &request, &fabric.0.join("out")).unwrap_err()
    };
    for (text, part) in [
        (refused("", Role::Viewer, &[]), "1 to 64 letters"),
        (refused("a\nb", Role::Viewer, &[]), "1 to 64 letters"),
        (refused("a", Role::Agent, &[]), "--address"),
        (refused("a", Role::Viewer, &["::1"]), "leave --address out"),
        (
            refused("a", Role::Agent, &["10.0.0.1:7779"]),
            "without a port",
        ),
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = authority::issue(
        &fabric.0.join("none"),
        &Fabric::request(Role::Viewer),
        &fabric.0.join("out"),
    );
    assert!(text.unwrap_err().contains("superp-cm init makes one"));
    assert!(!fabric.0.join("out").exists());

    let read = |dir: &PathBuf| Tls::read(dir).err().unwrap();
    let out = fabric.issue(&Fabric::request(Role::Agent));
    fs::set_permissions(out.join(KEY_FILE), Permissions::from_mode(0o640)).unwrap();
    assert!(read(&out).contains("others may read this key (mode 0640)"));
    fs::set_permissions(out.join(KEY_FILE), Permissions::from_mode(0o600)).unwrap();
    Tls::read(&out).unwrap();
    // The key of another certificate.
    let other = fabric.issue(&Fabric::request(Role::Manager));
    fs::copy(other.join(KEY_FILE), out.join(KEY_FILE)).unwrap();
    let text = read(&out);
    assert!(text.contains("keys may not be consistent"), "{text}");
    assert!(!text.contains("PRIVATE"), "{text}");
    let mut old = Fabric::request(Role::Viewer);
    old.until = SystemTime::now() - Duration::from_secs(60);
    let text = read(&fabric.issue(&old));
    assert!(
        text.contains("the certificate of the-viewer expired ") && text.contains("superp-cm issue"),
        "{text}"
    );
    let tls = Tls::read(&other).unwrap();
    let text = tls.expect(&other, Role::Agent).unwrap_err();
    assert!(
        text.contains("has the role manager; the role agent is wanted here"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_ends_when_the_certificate_of_its_client_expires() {
    let fabric = Fabric::new();
    let server = fabric.tls(Role::Manager);
    let address = start(Some(server.server().unwrap())).await;
    // Longer and longer: on a busy machine the first may be over before it is used.
    for seconds in [2, 8, 32] {
        let mut request = Fabric::request(Role::Viewer);
        request.name = format!("for-{seconds}");
        request.until = SystemTime::now() + Duration::from_secs(seconds);
        let tls = Tls::load(&fabric.issue(&request)).unwrap();
        let http = client(tls.client(Role::Manager).unwrap());
        let late = request.until + Duration::from_secs(60);
        let mut answered = 0;
        while said(&http, address).await.is_ok() {
            answered += 1;
            assert!(SystemTime::now() < late, "it is answered for ever");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if answered > 0 {
            return;
        }
    }
    panic!("nothing was answered");
}

/// Reads an answer up to what it must contain.
async fn answer(stream: &mut TcpStream, part: &str) -> String {
    let mut text = Vec::new();
    loop {
        let told = String::from_utf8_lossy(&text).into_owned();
        if told.contains(part) {
            return told;
        }
        let more = stream.read_buf(&mut text).await.unwrap();
        assert!(more > 0, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_and_number_of_clients_are_limited() {
    let address = start(None::<ServerConfig>).await;
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut clients = Vec::new();
    for _ in 0..256 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request).await.unwrap();
        answer(&mut client, "loopback").await;
        clients.push(client);
    }
    let mut late = TcpStream::connect(address).await.unwrap();
    late.write_all(request).await.unwrap();
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(300), late.peek(&mut byte));
    assert!(early.await.is_err(), "256 clients, and another is answered");
    clients.pop();
    answer(&mut late, "loopback").await;
    drop(clients);
    let mut long = TcpStream::connect(address).await.unwrap();
    let name = "x".repeat(300_000);
    let head = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    // It is refused, or reset, before all of it is sent.
    let _ = long.write_all(head.as_bytes()).await;
    let mut text = String::new();
    let _ = long.read_to_string(&mut text).await;
    assert!(text.is_empty() || text.contains(" 431 "), "{text}");
}
