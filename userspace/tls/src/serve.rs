// SPDX-License-Identifier: GPL-2.0 OR MIT
//! HTTP for programs that are asked by few: who asks is known, and what one may cost is limited.

use crate::live::Shown;
use crate::{explain, Identity, Live, Role};
use axum::Router;
use hyper::body::Incoming;
use hyper::service::{service_fn, Service};
use hyper::Request;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{watch, Semaphore};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

/// Most clients at a time; more wait.
const CLIENTS: usize = 256;

/// Longest time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Longest time for the head of a request, and between requests.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// Largest head of a request, bytes.
const HEAD_MAX: usize = 64 << 10;

/// What TLS begins with: a record of the type "handshake" (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// For who asks in clear where TLS is spoken.
const CLEAR: &str = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\
    Content-Type: application/problem+json\r\n\r\n\
    {\"type\":\"urn:superp:problem:malformed\",\"title\":\"The request is malformed\",\"status\":400,\
    \"detail\":\"TLS is spoken here: ask with https:// and a certificate, --tls DIR\"}";

/// Who asks; every request that [`serve`] passes on has it among its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Somebody at this address, in clear. Whoever reaches a server without TLS may do everything.
    Plain(IpAddr),
    /// The owner of a certificate, at this address.
    Known(Identity, IpAddr),
    /// Somebody at this address, by TLS that asks nobody for a certificate.
    Unknown(IpAddr),
}

impl Caller {
    /// Who it is, and the role if there is one: `loopback`, or an address, where nobody was asked.
    pub fn who(&self) -> (String, Option<Role>) {
        match self {
            Self::Plain(address) if address.is_loopback() => ("loopback".into(), None),
            Self::Plain(address) | Self::Unknown(address) => (address.to_string(), None),
            Self::Known(identity, _) => (identity.name.clone(), Some(identity.role)),
        }
    }

    /// Refuses who has none of these roles, in a sentence. `what` is asked for, as "GET /v1/status".
    pub fn may(&self, roles: &[Role], what: impl fmt::Display) -> Result<(), String> {
        let (name, role) = match self {
            Self::Plain(_) => return Ok(()),
            Self::Known(Identity { name, role, .. }, _) => (name, role),
            Self::Unknown(_) => return Err(format!("{what} needs a certificate")),
        };
        if roles.contains(role) {
            return Ok(());
        }
        let needed: Vec<_> = roles.iter().map(Role::to_string).collect();
        Err(format!(
            "{name} has the role {role}; {what} needs the role {}",
            needed.join(" or ")
        ))
    }
}

/// What a server shows, and whom it refuses.
#[derive(Clone)]
pub struct Credentials {
    shown: watch::Receiver<Shown>,
    /// Goes on looking as long as it is there.
    _live: Option<Live>,
}

/// The same for ever.
impl From<ServerConfig> for Credentials {
    fn from(config: ServerConfig) -> Self {
        let shown = Shown {
            config: Arc::new(config),
            revoked: Arc::default(),
        };
        Self {
            shown: watch::channel(shown).1,
            _live: None,
        }
    }
}

impl From<Live> for Credentials {
    fn from(live: Live) -> Self {
        Self {
            shown: live.shown(),
            _live: Some(live),
        }
    }
}

impl Credentials {
    fn config(&self) -> Arc<ServerConfig> {
        self.shown.borrow().config.clone()
    }

    /// Waits until this certificate is revoked.
    async fn revoked(&mut self, identity: &Identity) {
        let listed = self
            .shown
            .wait_for(|shown| shown.revoked.contains(identity));
        if listed.await.is_err() {
            // Nothing changes any more.
            std::future::pending().await
        }
    }
}

/// Serves clients until `ending`, and then until those that are being answered are; with TLS if there
/// are credentials for it.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<impl Into<Credentials>>,
    ending: impl Future<Output = ()>,
) {
    let tls = tls.map(Into::into);
    let clients = Arc::new(Semaphore::new(CLIENTS));
    let graceful = GracefulShutdown::new();
    let mut ending = std::pin::pin!(ending);
    loop {
        let next = async {
            // The semaphore is never closed.
            let place = clients.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut ending => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly there are no descriptors left: give some time to come back.
                tracing::warn!(%error, "a client cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, tls, watcher) = (router.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            match tls {
                Some(tls) => known(tls, stream, peer, router, watcher).await,
                None => answer(stream, Caller::Plain(peer.ip()), router, watcher).await,
            }
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// Answers the owner of a certificate, for as long as it is valid.
async fn known(
    mut tls: Credentials,
    mut stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
) {
    let mut first = [0];
    let end = Instant::now() + HANDSHAKE_TIME;
    let begun = tokio::time::timeout_at(end, stream.peek(&mut first)).await;
    if matches!(begun, Ok(Ok(1))) && first[0] != HANDSHAKE {
        tracing::info!(%peer, "a client is refused: it does not speak TLS");
        let _ = tokio::time::timeout_at(end, stream.write_all(CLEAR.as_bytes())).await;
        return linger(stream).await;
    }
    let accepting = TlsAcceptor::from(tls.config())
        .accept(stream)
        .into_fallible();
    let stream = match tokio::time::timeout_at(end, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err((error, stream))) => {
            let why = explain(&error).unwrap_or_else(|| error.to_string());
            tracing::info!(%peer, "a client is refused: {why}");
            return linger(stream).await;
        }
        Err(_) => return tracing::info!(%peer, "a client is refused: it does not speak"),
    };
    let identity = match identity(&stream) {
        Ok(Some(identity)) => identity,
        Ok(None) => return answer(stream, Caller::Unknown(peer.ip()), router, watcher).await,
        Err(why) => return tracing::info!(%peer, "a client is refused: {why}"),
    };
    let until = UNIX_EPOCH + Duration::from_secs(identity.until.try_into().unwrap_or(0));
    let left = until.duration_since(SystemTime::now()).unwrap_or_default();
    let caller = Caller::Known(identity.clone(), peer.ip());
    let answering = tokio::time::timeout(left, answer(stream, caller, router, watcher));
    tokio::select! {
        ended = answering => if ended.is_err() {
            tracing::info!(%peer, "a client's certificate has expired");
        },
        () = tls.revoked(&identity) => {
            tracing::info!(%peer, "the certificate of {} was revoked", identity.name);
        }
    }
}

/// Whose certificate the client shows; none where nobody is asked for one.
fn identity(stream: &TlsStream<TcpStream>) -> Result<Option<Identity>, String> {
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    chain.first().map(|cert| Identity::read(cert)).transpose()
}

/// Reads what a client that was refused still sends: a socket that is closed before tells it nothing
/// but a reset, and why it was refused is lost.
async fn linger(mut stream: TcpStream) {
    let drain = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(64 << 10), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), drain).await;
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    caller: Caller,
    router: Router,
    watcher: Watcher,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        router.call(request)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX);
    let serving = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a client");
    }
}
