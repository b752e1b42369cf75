// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Revoking: the authority signs a list of certificates that do not count any more.

use crate::authority::{read, write, Authority, ISSUED};
use crate::explain::date;
use crate::files::{now, revocations};
use crate::{Identity, Role, AUTHORITY_FILE, REVOCATION_FILE};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Days until the next list is promised. Nobody here waits for it: a list counts until there is another one.
const DAYS: u64 = 3650;

/// Which certificates.
pub enum Which {
    /// All of this name, and of this role if one is given.
    Named(String, Option<Role>),
    /// The one in this file, PEM.
    File(PathBuf),
}

/// Revokes certificates of the authority in `dir`, and puts the list that says so beside `ca.crt`; whose they were.
/// `by` is who asks for it.
pub fn revoke(dir: &Path, which: &Which, by: &str) -> Result<Vec<Identity>, String> {
    let authority = Authority::open(dir)?;
    let path = dir.join(AUTHORITY_FILE);
    let root = CertificateDer::from_pem_slice(read(dir, AUTHORITY_FILE)?.as_bytes());
    let root = root.map_err(|error| format!("{}: {error}", path.display()))?;
    let path = dir.join(REVOCATION_FILE);
    let before = revocations(&path, std::slice::from_ref(&root))?;
    let found = match which {
        Which::Named(name, role) => named(dir, name, *role)?,
        Which::File(file) => vec![one(file, &root)?],
    };
    let (gone, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| before.contains(found));
    if found.is_empty() {
        return Err(match (which, gone.is_empty()) {
            (Which::Named(name, _), true) => format!(
                "{}: there is no certificate of {name} that is valid; --certificate FILE revokes one that is \
                 not noted there",
                dir.join(ISSUED).display()
            ),
            _ => "what is named is revoked already; nothing was changed".into(),
        });
    }
    let mut revoked: Vec<_> = before
        .serials()
        .iter()
        .map(|(serial, when)| (serial.clone(), *when))
        .collect();
    let when = now();
    revoked.extend(found.iter().map(|found| (found.serial.clone(), when)));
    let entries: Result<Vec<_>, String> = revoked.iter().map(entry).collect();
    let number = before.number() + 1;
    let list = CertificateRevocationListParams {
        this_update: at(when).into(),
        next_update: (at(when) + Duration::from_secs(DAYS * 24 * 3600)).into(),
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: entries?,
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let mut text = format!("SUPERp revocation list {number}\n");
    for line in before.beyond(&crate::Revocations::default()) {
        text += &format!("{line}\n");
    }
    for Identity {
        serial, role, name, ..
    } in &found
    {
        text += &format!("{serial} {role} {name}, {}, by {by}\n", date(when));
    }
    text += &authority.revoke(&list)?;
    // Others may be at it: of two at a time one makes the new file.
    let new = path.with_extension("new");
    let there = "another superp-cm revoke is at work; if none is, remove this file";
    write(&new, &text, 0o644, there)?;
    fs::rename(&new, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(found)
}

fn at(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or(0))
}

fn entry((serial, when): &(String, i64)) -> Result<RevokedCertParams, String> {
    // Two digits are a byte.
    let text = format!("{}{serial}", "0".repeat(serial.len() % 2));
    let bytes: Result<Vec<_>, _> = (0..text.len())
        .step_by(2)
        .map(|place| u8::from_str_radix(&text[place..place + 2], 16))
        .collect();
    let bytes = bytes.map_err(|error| format!("serial number {serial}: {error}"))?;
    Ok(RevokedCertParams {
        serial_number: SerialNumber::from(bytes),
        revocation_time: at(*when).into(),
        reason_code: None,
        invalidity_date: None,
    })
}

/// What was noted of this name and is valid still.
fn named(dir: &Path, name: &str, role: Option<Role>) -> Result<Vec<Identity>, String> {
    let issued = dir.join(ISSUED);
    if !issued.exists() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", issued.display());
    let mut found = Vec::new();
    for file in fs::read_dir(&issued).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let identity = identity(&path)?.1;
        let fits = identity.name == name && role.is_none_or(|role| role == identity.role);
        if fits && identity.until > now() {
            found.push(identity);
        }
    }
    Ok(found)
}

/// The certificate in a file, which has to be of this authority.
fn one(path: &Path, root: &CertificateDer<'_>) -> Result<Identity, String> {
    let (der, identity) = identity(path)?;
    let (cert, root) = (
        X509Certificate::from_der(&der),
        X509Certificate::from_der(root),
    );
    let made = match (cert, root) {
        (Ok((_, cert)), Ok((_, root))) => cert.verify_signature(Some(root.public_key())).is_ok(),
        _ => false,
    };
    match made {
        true => Ok(identity),
        false => Err(format!(
            "{}: a certificate that this authority did not make",
            path.display()
        )),
    }
}

fn identity(path: &Path) -> Result<(CertificateDer<'static>, Identity), String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let der = CertificateDer::from_pem_slice(&text);
    let der = der.map_err(|_| failed("no certificate in PEM".into()))?;
    let identity = Identity::read(&der).map_err(failed)?;
    Ok((der, identity))
}
