// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Certificates that are taken back before they expire: a list that the authority has signed.
//!
//! A serial number is looked up here, after webpki has found everything else right. webpki can look into such lists
//! too, but only during a handshake, and connections that there are have to end as well.

use crate::explain::date;
use crate::Identity;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use std::collections::BTreeMap;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// The list, beside the certificate of the authority.
pub const REVOCATION_FILE: &str = "ca.crl";

/// Largest list, bytes: some 10,000 certificates.
pub const REVOCATIONS_MAX: usize = 1 << 20;

/// Certificates that were revoked. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Revocations {
    number: u64,
    /// When each was revoked, seconds since 1970, by its serial number.
    serials: BTreeMap<String, i64>,
    text: String,
}

impl Revocations {
    /// Reads a list in PEM, which one of these authorities has to have signed.
    pub(crate) fn read(text: &str, authorities: &[CertificateDer<'_>]) -> Result<Self, String> {
        if text.len() > REVOCATIONS_MAX {
            return Err(format!("longer than {REVOCATIONS_MAX} bytes"));
        }
        let none = "no revocation list in PEM";
        let der = CertificateRevocationListDer::from_pem_slice(text.as_bytes());
        let der = der.map_err(|_| none)?;
        let (_, list) = CertificateRevocationList::from_der(&der).map_err(|_| none)?;
        let signed = authorities.iter().any(|authority| {
            let parsed = X509Certificate::from_der(authority);
            parsed.is_ok_and(|(_, authority)| list.verify_signature(authority.public_key()).is_ok())
        });
        if !signed {
            return Err("a revocation list that another authority has signed, or nobody".into());
        }
        let number = list.crl_number().and_then(|number| number.try_into().ok());
        let serials = list.iter_revoked_certificates().map(|revoked| {
            let when = revoked.revocation_date.timestamp();
            (format!("{:x}", revoked.user_certificate), when)
        });
        Ok(Self {
            number: number.ok_or("a revocation list without a number")?,
            serials: serials.collect(),
            text: text.to_owned(),
        })
    }

    /// Its number: each is the one before and more. 0 if there is none.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The list as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this certificate was revoked.
    pub fn contains(&self, identity: &Identity) -> bool {
        self.serials.contains_key(&identity.serial)
    }

    /// Serial numbers, and when each certificate was revoked, seconds since 1970.
    #[cfg(feature = "authority")]
    pub(crate) fn serials(&self) -> &BTreeMap<String, i64> {
        &self.serials
    }

    /// What the list has and the other one has not, a line each, as "SERIAL operator alice". The name is from a note
    /// beside the list that is not signed.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let new = self.serials.iter();
        let new = new.filter(|(serial, _)| !other.serials.contains_key(*serial));
        let told = new.map(|(serial, when)| match self.note(serial) {
            Some(note) => format!("{serial} {note}"),
            None => format!("{serial} {}", date(*when)),
        });
        told.collect()
    }

    fn note(&self, serial: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| Some(line.strip_prefix(serial)?.strip_prefix(' ')?.trim()))
    }
}
