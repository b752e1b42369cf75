// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The directory of one program: the authority's certificate, its own one, and the key.

use crate::explain::date;
use crate::revocation::REVOCATION_FILE;
use crate::verify::{ClientKnown, ServerRole};
use crate::{Identity, Revocations, Role};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The certificate of the fabric's authority.
pub const AUTHORITY_FILE: &str = "ca.crt";
/// The certificate of whom the directory belongs to.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// Its key.
pub const KEY_FILE: &str = "tls.key";

/// What a program needs to tell who it is, and to know who others are.
pub struct Tls {
    identity: Identity,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Vec<CertificateDer<'static>>,
    revoked: Arc<Revocations>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl Tls {
    /// Reads a directory. Refused are a key that others may read, and a certificate that is not valid
    /// now: with those nobody would talk to us, or should.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let tls = Self::load(dir)?;
        match tls.identity.until > now() {
            true => Ok(tls),
            false => Err(format!(
                "{}: the certificate of {} expired {}; superp-cm issue makes another one",
                dir.join(CERTIFICATE_FILE).display(),
                tls.identity.name,
                date(tls.identity.until)
            )),
        }
    }

    pub(crate) fn load(dir: &Path) -> Result<Self, String> {
        let at = |file: &str| dir.join(file);
        let chain = certificates(&at(CERTIFICATE_FILE))?;
        let wrong = |why| format!("{}: {why}", at(CERTIFICATE_FILE).display());
        let identity = Identity::read(&chain[0]).map_err(wrong)?;
        let mut roots = RootCertStore::empty();
        let authorities = certificates(&at(AUTHORITY_FILE))?;
        for authority in &authorities {
            let path = at(AUTHORITY_FILE);
            let added = roots.add(authority.clone());
            added.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let revoked = revocations(&at(REVOCATION_FILE), &authorities)?;
        let tls = Self {
            identity,
            chain,
            key: key(&at(KEY_FILE))?,
            authorities,
            revoked: Arc::new(revoked),
            roots: Arc::new(roots),
            provider: Arc::new(rustls::crypto::ring::default_provider()),
        };
        // Finds out now whether the key is that of the certificate.
        tls.client(Role::Manager)
            .map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(tls)
    }

    /// Whose it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Who is refused, whatever else is right.
    pub fn revoked(&self) -> &Arc<Revocations> {
        &self.revoked
    }

    /// The certificates of its authority.
    #[cfg(feature = "server")]
    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// Reads a list that this program's authority has to have signed.
    #[cfg(feature = "server")]
    pub(crate) fn list(&self, text: &str) -> Result<Revocations, String> {
        Revocations::read(text, &self.authorities)
    }

    /// Refuses those whom this list has.
    #[cfg(feature = "server")]
    pub(crate) fn refuse(&mut self, revoked: Arc<Revocations>) {
        self.revoked = revoked;
    }

    /// Refuses what belongs to somebody with another role.
    pub fn expect(&self, dir: &Path, role: Role) -> Result<(), String> {
        match self.identity.role == role {
            true => Ok(()),
            false => Err(format!(
                "{} is of {}, which has the role {}; the role {role} is wanted here",
                dir.display(),
                self.identity.name,
                self.identity.role
            )),
        }
    }

    /// Tells in the log whose it is, and warns if it expires soon.
    #[cfg(feature = "server")]
    pub fn warn(&self) {
        let Identity {
            name, role, until, ..
        } = &self.identity;
        let (days, until) = ((until - now()) / (24 * 3600), date(*until));
        match days {
            ..30 => tracing::warn!("the certificate of {name} ({role}) expires {until}"),
            _ => tracing::info!("the certificate of {name} ({role}) is valid until {until}"),
        }
    }

    /// For a client, of servers that have this role.
    pub fn client(&self, server: Role) -> Result<ClientConfig, String> {
        let provider = self.provider.clone();
        let inner =
            WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider.clone())
                .build()
                .map_err(|error| error.to_string())?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            // The usual verifier, and then the role.
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerRole::new(
                inner,
                server,
                self.revoked.clone(),
            )))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        // A session that is taken up again is one whose certificates nobody looks at again.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// For a server, of clients whose roles [`crate::serve`] looks at.
    pub fn server(&self) -> Result<ServerConfig, String> {
        let provider = self.provider.clone();
        let inner =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone())
                .build()
                .map_err(|error| error.to_string())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(Arc::new(ClientKnown::new(inner, self.revoked.clone())))
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().try_into().unwrap_or(i64::MAX))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The list at this path; an empty one if there is none.
pub(crate) fn revocations(
    path: &Path,
    authorities: &[CertificateDer<'_>],
) -> Result<Revocations, String> {
    let told = |why: String| format!("{}: {why}", path.display());
    match fs::read_to_string(path) {
        Ok(text) => Revocations::read(&text, authorities).map_err(told),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Revocations::default()),
        Err(error) => Err(told(error.to_string())),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(format!("{}: no certificate in PEM", path.display())),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    private(path)?;
    let text = read(path)?;
    // What is wrong with it is not told: the file is secret.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| format!("{}: no private key in PEM", path.display()))
}

/// Refuses a file that others than its owner may read.
pub(crate) fn private(path: &Path) -> Result<(), String> {
    let meta = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match meta.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(format!(
            "{}: others may read this key (mode {:04o}): chmod 600, and if others did, issue another one",
            path.display(),
            meta.mode() & 0o7777
        )),
    }
}
