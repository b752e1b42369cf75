// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Failures of TLS, in the words of who has to mend them.

use crate::role::WrongRole;
use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
use std::io;
use x509_parser::time::ASN1Time;

/// A failure of TLS among the causes of an error, in a sentence about the other side ("its
/// certificate …"); `None` if there is none.
pub fn explain(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<Error>() {
            return Some(sentence(tls));
        }
        // What an I/O error holds is not its source, but itself.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match held {
            Some(held) => Some(held as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(bad) => certificate(bad),
        Error::NoCertificatesPresented => "it shows no certificate".into(),
        Error::InvalidMessage(_) => "it does not speak TLS".into(),
        Error::AlertReceived(alert) => match alert {
            Alert::CertificateExpired => {
                "it refuses our certificate, which is expired by its clock".into()
            }
            Alert::UnknownCA | Alert::DecryptError => {
                "it refuses our certificate, which is of another authority than its own".into()
            }
            Alert::CertificateRevoked => "it refuses our certificate, which was revoked".into(),
            Alert::CertificateRequired => "it wants a certificate, and we have shown none".into(),
            other => format!("it refuses to go on, with the TLS alert {other:?}"),
        },
        other => other.to_string(),
    }
}

fn certificate(bad: &Bad) -> String {
    match bad {
        Bad::Expired => "its certificate is expired; superp-cm issue makes another one".into(),
        Bad::ExpiredContext { not_after, .. } => format!(
            "its certificate expired {}; superp-cm issue makes another one",
            date(i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX))
        ),
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "its certificate is not valid yet: the clocks of the hosts differ".into()
        }
        Bad::Revoked => "its certificate was revoked".into(),
        Bad::UnknownIssuer | Bad::BadSignature => {
            "its certificate is of another authority than ours (ca.crt)".into()
        }
        Bad::NotValidForName => "its certificate is for another name or address".into(),
        Bad::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "its certificate is not for {}, but for {}",
            expected.to_str(),
            names(presented).join(", ")
        ),
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "its certificate is not for this: the role in it decides what it can be used for".into()
        }
        Bad::Other(other) => match other.0.downcast_ref::<WrongRole>() {
            Some(WrongRole(text)) => text.clone(),
            None => other.to_string(),
        },
        other => format!("its certificate is refused: {other}"),
    }
}

/// Names and addresses, from what webpki writes: `DnsName("x")`, `IpAddress(10.0.0.1)`, and others.
fn names(presented: &[String]) -> Vec<&str> {
    let names = presented.iter().filter_map(|text| {
        let mut inner = ["DnsName(", "IpAddress("]
            .iter()
            .filter_map(|kind| text.strip_prefix(kind));
        Some(inner.next()?.strip_suffix(')')?.trim_matches('"'))
    });
    names.collect()
}

/// A time, from seconds since 1970.
pub(crate) fn date(seconds: i64) -> String {
    match ASN1Time::from_timestamp(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{seconds} s after 1970"),
    }
}
