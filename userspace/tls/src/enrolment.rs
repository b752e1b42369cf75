// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Enrolment: who has a token makes a key, and gets a certificate for it, once. The key never travels, and nobody
//! is trusted before: the token has the fingerprint of the authority.
//!
//! What is known of a token is a file in the directory `tokens` of the authority: what the certificate is to say,
//! and the digest of its secret. When it was used the file is another one, `.used`.

use crate::authority::{self, counter, folder, note, params, write, Authority, Request};
use crate::{Role, AUTHORITY_FILE, REVOCATION_FILE};
use base64::prelude::{Engine, BASE64_URL_SAFE_NO_PAD as BASE64};
use rcgen::{CertificateSigningRequestParams, KeyPair};
use ring::digest::{digest, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where tokens are, in the directory of the authority.
const TOKENS: &str = "tokens";

/// Path that a token is redeemed at.
pub const PATH: &str = "/v1/enrol";

/// Largest request, bytes.
pub const LARGEST: usize = 16 << 10;

/// How long the certificate of the place where tokens are redeemed is valid: longer than it runs.
const COUNTER_VALID: Duration = Duration::from_secs(365 * 24 * 3600);

const ID: usize = 8;
const SECRET: usize = 32;
const FINGERPRINT: usize = 32;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: [u8; ID],
    secret: [u8; SECRET],
    /// SHA-256 of the authority's certificate.
    authority: [u8; FINGERPRINT],
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [&self.id[..], &self.secret, &self.authority].concat();
        f.write_str(&BASE64.encode(all))
    }
}

/// Not the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token {}", self.name())
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it is no token: superp-cm token makes one".to_owned();
        let all = BASE64.decode(text.trim()).map_err(|_| wrong())?;
        let (id, rest) = all.split_first_chunk().ok_or_else(wrong)?;
        let (secret, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        Ok(Self {
            id: *id,
            secret: *secret,
            authority: rest.try_into().map_err(|_| wrong())?,
        })
    }
}

impl Token {
    /// What it is called where it is not to be told.
    fn name(&self) -> String {
        BASE64.encode(self.id)
    }

    fn digest(&self) -> String {
        BASE64.encode(digest(&SHA256, &self.secret))
    }

    /// Whether this is the certificate of its authority.
    #[cfg(feature = "client")]
    pub(crate) fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        fingerprint(certificate) == self.authority
    }

    fn file(&self, dir: &Path) -> PathBuf {
        dir.join(TOKENS).join(self.name())
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; FINGERPRINT] {
    let mut bytes = [0; FINGERPRINT];
    bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
    bytes
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose certificate it is to be.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Host names and addresses under which it serves.
    pub addresses: Vec<String>,
    /// How long the certificate is valid, from when it is made.
    pub valid: Duration,
}

impl Grant {
    fn request(&self) -> Request {
        Request::new(&self.name, self.role, self.addresses.clone(), self.valid)
    }
}

/// What is kept of a token.
#[derive(Serialize, Deserialize)]
struct Record {
    /// SHA-256 of its secret.
    secret: String,
    name: String,
    role: String,
    addresses: Vec<String>,
    /// How long the certificate is valid, in seconds.
    valid: u32,
    /// Until when it can be redeemed, seconds since 1970.
    until: u64,
}

/// What is asked for with a token.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    pub(crate) token: String,
    /// A certificate signing request, PEM; of what it says only the key counts.
    pub(crate) request: String,
}

/// What is given for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Answer {
    /// PEM.
    pub(crate) certificate: String,
    /// PEM.
    pub(crate) authority: String,
    /// Certificates that are revoked, PEM, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocations: Option<String>,
}

/// Why nothing is given.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be read.
    Malformed(String),
    /// The token is none, or none any more.
    Forbidden(String),
    /// It failed.
    Failed(String),
}

/// Makes a token of the authority in `dir`, which can be redeemed once, for so long.
pub fn token(dir: &Path, grant: &Grant, valid: Duration) -> Result<Token, String> {
    params(&grant.request())?;
    let pem = authority::read(dir, AUTHORITY_FILE)?;
    let wrong = || {
        format!(
            "{}: no certificate in PEM",
            dir.join(AUTHORITY_FILE).display()
        )
    };
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| wrong())?;
    let mut token = Token {
        id: [0; ID],
        secret: [0; SECRET],
        authority: fingerprint(&certificate),
    };
    let random = SystemRandom::new();
    random
        .fill(&mut token.id)
        .and_then(|()| random.fill(&mut token.secret))
        .map_err(|_| "there are no random numbers")?;
    // Where base64 begins with '-' the token is an option to a command line, and so is its file.
    token.id[0] &= 0x7f;
    let record = Record {
        secret: token.digest(),
        name: grant.name.clone(),
        role: grant.role.to_string(),
        addresses: grant.addresses.clone(),
        valid: u32::try_from(grant.valid.as_secs()).unwrap_or(u32::MAX),
        until: now().saturating_add(valid.as_secs()),
    };
    let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
    folder(&dir.join(TOKENS))?;
    write(&token.file(dir), &text, 0o600, "there is such a token")?;
    Ok(token)
}

/// Answers a request of [`PATH`]: what to answer, and who has enrolled.
pub fn redeem(dir: &Path, body: &str) -> Result<(String, Grant), Refusal> {
    let malformed = |error: String| Refusal::Malformed(error);
    let ask: Ask = serde_json::from_str(body).map_err(|error| malformed(error.to_string()))?;
    let token: Token = ask.token.parse().map_err(malformed)?;
    let request = CertificateSigningRequestParams::from_pem(&ask.request);
    let request = request.map_err(|error| malformed(format!("the signing request: {error}")))?;
    let file = token.file(dir);
    // Who guesses is not told what was right.
    let unknown = || {
        Refusal::Forbidden(
            "the token is not known here: it was used, or is of another authority; superp-cm token makes one"
                .into(),
        )
    };
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => unknown(),
        _ => Refusal::Failed(format!("{}: {error}", file.display())),
    };
    let text = fs::read_to_string(&file).map_err(failed)?;
    let wrong = |why: String| Refusal::Failed(format!("{}: {why}", file.display()));
    let record: Record = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if record.secret != token.digest() {
        return Err(unknown());
    }
    if record.until <= now() {
        return Err(Refusal::Forbidden(
            "the token has run out; superp-cm token makes another one".into(),
        ));
    }
    let grant = Grant {
        name: record.name,
        role: record.role.parse().map_err(wrong)?,
        addresses: record.addresses,
        valid: Duration::from_secs(record.valid.into()),
    };
    let authority = Authority::open(dir).map_err(Refusal::Failed)?;
    let params = params(&grant.request()).map_err(Refusal::Failed)?;
    // From here on it is used, whatever comes of it; of two at a time one finds it.
    fs::rename(&file, file.with_extension("used")).map_err(failed)?;
    let cert = authority.sign(&params, &request.public_key);
    let certificate = cert.map_err(Refusal::Failed)?.pem();
    note(dir, &certificate).map_err(Refusal::Failed)?;
    let answer = Answer {
        certificate,
        authority: authority.certificate().to_owned(),
        revocations: fs::read_to_string(dir.join(REVOCATION_FILE)).ok(),
    };
    let answer = serde_json::to_string(&answer);
    Ok((
        answer.map_err(|error| Refusal::Failed(error.to_string()))?,
        grant,
    ))
}

/// For the server where tokens of the authority in `dir` are redeemed, at these host names and addresses.
/// [`crate::serve`] lets everybody ask it.
pub fn server(dir: &Path, addresses: &[String]) -> Result<ServerConfig, String> {
    let authority = Authority::open(dir)?;
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let cert = authority.sign(&counter(addresses, COUNTER_VALID)?, &key)?;
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes());
    let root = root.map_err(|error| format!("{}: {error}", dir.join(AUTHORITY_FILE).display()))?;
    let secret = PrivateKeyDer::try_from(key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth();
    // With the authority: who has only its fingerprint has to see it.
    let chain = vec![cert.der().clone(), root];
    config
        .with_single_cert(chain, secret)
        .map_err(|error| error.to_string())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(all(test, feature = "client", feature = "server"))]
mod tests;
