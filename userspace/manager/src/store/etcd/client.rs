// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests to etcd from code that waits, each for a limited time.

use super::super::StoreError;
use etcd_client::{
    Certificate, ConnectOptions, Error, Identity, KvClient, LeaseClient, TlsOptions,
};
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Longest time for one request.
pub(super) const REQUEST: Duration = Duration::from_secs(2);

/// Largest answer, bytes; more than as many records as are asked for at a time can have.
const ANSWER: usize = 256 << 20;

/// How etcd is reached, and where in it the records are.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// URLs of its members, as `http://127.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// What the keys of all records begin with.
    pub prefix: String,
    /// With TLS, the authority that its members' certificates are of.
    pub authority: Option<PathBuf>,
    /// The certificate to show, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Access {
    fn tls(&self) -> Result<Option<TlsOptions>, StoreError> {
        let secure = |url: &String| url.starts_with("https://");
        let files = self.authority.is_some() || self.identity.is_some();
        match self.endpoints.iter().find(|url| secure(url) != files) {
            Some(url) if files => {
                let text =
                    format!("{url}: etcd is to be asked with TLS: write https:// for every member");
                return Err(StoreError::Failed(text));
            }
            Some(url) => {
                let text = format!("{url}: TLS needs the authority of etcd: --etcd-cacert FILE");
                return Err(StoreError::Failed(text));
            }
            None if !files => return Ok(None),
            None => {}
        }
        let Some(authority) = &self.authority else {
            let text = "TLS needs the authority of etcd: --etcd-cacert FILE";
            return Err(StoreError::Failed(text.into()));
        };
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(authority)?));
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(Some(tls))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was refused, and nothing was done.
    Refused(String),
    /// It may have been done or not, or will be done later.
    Unknown(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Unknown(text) => write!(f, "etcd: {text}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use etcd_client::Error::GRpcStatus;
        let GRpcStatus(status) = &error else {
            return Self::Unknown(error.to_string());
        };
        // Names of the codes, since the crate of their type is not named by this one.
        let text = status
            .message()
            .trim_start_matches("etcdserver: ")
            .to_owned();
        match format!("{:?}", status.code()).as_str() {
            "InvalidArgument" | "FailedPrecondition" | "OutOfRange" | "ResourceExhausted"
            | "PermissionDenied" | "Unauthenticated" | "NotFound" | "Unimplemented" => {
                Self::Refused(text)
            }
            _ => Self::Unknown(text),
        }
    }
}

/// What was only read can be read again.
impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

/// A client with a thread of its own. Those who wait for it may be the threads of the manager's runtime,
/// and hold locks that others wait for: what they wait for, and its time limits, must not depend on them.
#[derive(Clone)]
pub(super) struct Client {
    etcd: etcd_client::Client,
    handle: Handle,
    /// The thread ends when the last one is gone.
    _thread: std::sync::Arc<oneshot::Sender<()>>,
}

impl Client {
    pub(super) fn new(access: &Access) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| StoreError::Failed(format!("no thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (thread, end) = oneshot::channel();
        std::thread::Builder::new()
            .name("etcd".into())
            .spawn(move || {
                let _ = runtime.block_on(end);
            })
            .map_err(failed)?;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(REQUEST)
            .with_keep_alive(REQUEST, REQUEST)
            // A member that is cut off from the others says so.
            .with_require_leader(true);
        if let Some(tls) = access.tls()? {
            options = options.with_tls(tls);
        }
        let endpoints = access.endpoints.clone();
        let etcd = wait(&handle, async move {
            etcd_client::Client::connect(endpoints, Some(options)).await
        })?;
        Ok(Self {
            etcd,
            handle,
            _thread: std::sync::Arc::new(thread),
        })
    }

    /// Requests for records.
    pub(super) fn kv(&self) -> KvClient {
        self.etcd.kv_client().max_decoding_message_size(ANSWER)
    }

    /// Requests for leases.
    pub(super) fn leases(&self) -> LeaseClient {
        self.etcd.lease_client()
    }

    /// Waits for the answer to a request.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Failure> {
        wait(&self.handle, request)
    }

    /// Runs something in the thread of this client.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }
}

fn wait<T: Send + 'static>(
    handle: &Handle,
    request: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Failure> {
    let (done, result) = mpsc::sync_channel(1);
    handle.spawn(async move {
        let answer = tokio::time::timeout(REQUEST, request).await;
        let answer = answer
            .map_err(|_| Failure::Unknown(format!("no answer within {} s", REQUEST.as_secs())));
        let _ = done.send(answer.and_then(|answer| answer.map_err(Failure::from)));
    });
    // The sender is dropped with the thread.
    let gone = |_| Failure::Unknown("its thread has ended".into());
    result.recv().map_err(gone)?
}
