// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The authority of a fabric, and the certificates that it makes and writes down.

use crate::files::{private, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
use crate::revocation::REVOCATION_FILE;
use crate::Role;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The authority's key, in its directory.
pub const AUTHORITY_KEY_FILE: &str = "ca.key";

/// The certificates that the authority has made, in its directory. Each is a file whose name is the
/// serial number.
pub(crate) const ISSUED: &str = "issued";

/// How long an authority is valid.
pub const AUTHORITY_VALID: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Certificates are valid from so much before they are made: clocks differ.
const BEFORE: Duration = Duration::from_secs(3600);

/// What a certificate is to say.
pub struct Request {
    /// Whose it is: 1 to 64 letters, digits, and `.`, `-`, `_`, `@`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Host names and addresses under which it serves.
    pub addresses: Vec<String>,
    /// From now on, and until then.
    pub until: SystemTime,
}

impl Request {
    /// A certificate that is valid for so long.
    pub fn new(name: &str, role: Role, addresses: Vec<String>, valid: Duration) -> Self {
        Self {
            name: name.to_owned(),
            role,
            addresses,
            until: SystemTime::now() + valid,
        }
    }
}

/// Makes the authority of a fabric in a directory that has none yet.
pub fn init(dir: &Path) -> Result<(), String> {
    folder(dir)?;
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::default();
    let name = "SUPERp fabric authority";
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, SystemTime::now() + AUTHORITY_VALID);
    let cert = params
        .self_signed(&key)
        .map_err(|error| error.to_string())?;
    // The key first: whoever has no key has no authority, and begins again.
    let there =
        "there is an authority already; what it made would be worth nothing with another one";
    write(
        &dir.join(AUTHORITY_KEY_FILE),
        &key.serialize_pem(),
        0o600,
        there,
    )?;
    write(&dir.join(AUTHORITY_FILE), &cert.pem(), 0o644, there)
}

/// Makes a certificate of the authority in `dir`, and puts it with its key into the directory `out`.
pub fn issue(dir: &Path, request: &Request, out: &Path) -> Result<(), String> {
    sign(dir, params(request)?, out)
}

/// Whether such a certificate can be made.
pub fn check(request: &Request) -> Result<(), String> {
    params(request).map(drop)
}

pub(crate) fn sign(dir: &Path, params: CertificateParams, out: &Path) -> Result<(), String> {
    let authority = Authority::open(dir)?;
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let cert = authority.sign(&params, &key)?.pem();
    note(dir, &cert)?;
    let list = fs::read_to_string(dir.join(REVOCATION_FILE)).ok();
    let (authority, list) = (authority.certificate(), list.as_deref());
    install(out, &key.serialize_pem(), &cert, authority, list)
}

/// Writes down a certificate before anybody has it.
pub(crate) fn note(dir: &Path, pem: &str) -> Result<(), String> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
    let issued = dir.join(ISSUED);
    folder(&issued)?;
    let name = format!("{:x}.crt", parsed.serial);
    write(
        &issued.join(name),
        pem,
        0o600,
        "there is such a certificate",
    )
}

/// Writes what belongs to the owner of a certificate, in PEM, and the list of those that are revoked.
pub(crate) fn install(
    out: &Path,
    key: &str,
    cert: &str,
    authority: &str,
    list: Option<&str>,
) -> Result<(), String> {
    folder(out)?;
    let there = "there is one already; give another --out, or remove it";
    write(&out.join(KEY_FILE), key, 0o600, there)?;
    write(&out.join(CERTIFICATE_FILE), cert, 0o644, there)?;
    write(&out.join(AUTHORITY_FILE), authority, 0o644, there)?;
    match list {
        Some(list) => write(&out.join(REVOCATION_FILE), list, 0o644, there),
        None => Ok(()),
    }
}

/// An authority that can sign.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens the one in a directory.
    pub(crate) fn open(dir: &Path) -> Result<Self, String> {
        let certificate = read(dir, AUTHORITY_FILE)?;
        let secret = read(dir, AUTHORITY_KEY_FILE)?;
        private(&dir.join(AUTHORITY_KEY_FILE))?;
        let wrong =
            |file: &str| format!("{}: not what superp-cm init made", dir.join(file).display());
        // What is wrong with the key is not told: it is secret.
        let signer = KeyPair::from_pem(&secret).map_err(|_| wrong(AUTHORITY_KEY_FILE))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, signer);
        let issuer = issuer.map_err(|_| wrong(AUTHORITY_FILE))?;
        Ok(Self {
            certificate,
            issuer,
        })
    }

    /// Its certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A list of what is revoked, in PEM.
    pub(crate) fn revoke(&self, list: &CertificateRevocationListParams) -> Result<String, String> {
        let signed = list.signed_by(&self.issuer).and_then(|list| list.pem());
        signed.map_err(|error| error.to_string())
    }

    /// A certificate for the owner of a key.
    pub(crate) fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<Certificate, String> {
        let cert = params.signed_by(key, &self.issuer);
        cert.map_err(|error| error.to_string())
    }
}

/// A file of an authority.
pub(crate) fn read(dir: &Path, file: &str) -> Result<String, String> {
    let path = dir.join(file);
    fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!(
            "{}: there is no authority here; superp-cm init makes one, --dir names another place",
            path.display()
        ),
        _ => format!("{}: {error}", path.display()),
    })
}

pub(crate) fn params(request: &Request) -> Result<CertificateParams, String> {
    let Request { name, role, .. } = request;
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(format!(
            "the name {name:?} does not fit: 1 to 64 letters, digits, and . - _ @"
        ));
    }
    match (role.serves(), request.addresses.is_empty()) {
        (true, true) => {
            return Err(format!(
                "the role {role} serves others: --address says under which host name or address"
            ))
        }
        (false, false) => {
            return Err(format!(
                "the role {role} serves nobody: leave --address out"
            ))
        }
        _ => {}
    }
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, name.as_str());
    let uri = |text: String| Ia5String::try_from(text).map_err(|error| error.to_string());
    params
        .subject_alt_names
        .push(SanType::URI(uri(role.uri())?));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    serving(&mut params, &request.addresses)?;
    valid(&mut params, request.until);
    Ok(params)
}

/// Under which addresses the owner serves, if any.
fn serving(params: &mut CertificateParams, addresses: &[String]) -> Result<(), String> {
    for address in addresses {
        params.subject_alt_names.push(alternative(address)?);
    }
    if !addresses.is_empty() {
        let serves = ExtendedKeyUsagePurpose::ServerAuth;
        params.extended_key_usages.push(serves);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(())
}

/// What the place where tokens are redeemed says of itself: it has no role, and nobody else takes it for anybody.
pub(crate) fn counter(addresses: &[String], lasts: Duration) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::default();
    let name = "SUPERp enrolment";
    params.distinguished_name.push(DnType::CommonName, name);
    serving(&mut params, addresses)?;
    valid(&mut params, SystemTime::now() + lasts);
    Ok(params)
}

/// An address or a host name; a port is none of it.
fn alternative(address: &str) -> Result<SanType, String> {
    if let Ok(address) = address.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let label = |label: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.len() <= 63 && label.chars().all(fits)
    };
    match address.len() <= 253 && address.split('.').all(label) {
        true => Ia5String::try_from(address)
            .map(SanType::DnsName)
            .map_err(|error| error.to_string()),
        false => Err(format!(
            "{address:?} is neither a host name nor an address, which are written without a port"
        )),
    }
}

fn valid(params: &mut CertificateParams, until: SystemTime) {
    params.not_before = (SystemTime::now() - BEFORE).into();
    params.not_after = until.into();
}

/// Makes a directory of its own; one that is there is left as it is.
pub(crate) fn folder(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| format!("{}: {error}", dir.display()))
}

/// Writes a new file, and it is on the disk; never over one that is there.
pub(crate) fn write(path: &Path, text: &str, mode: u32, there: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => format!("{}: {there}", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}
