// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What is asked of a certificate besides that this fabric's authority made it: its role.

use crate::role::WrongRole;
use crate::{Identity, Revocations, Role};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::sync::Arc;

fn wrong(text: String) -> Error {
    let other = OtherError(Arc::new(WrongRole(text)));
    Error::InvalidCertificate(CertificateError::Other(other))
}

/// Servers of one role.
#[derive(Debug)]
pub(crate) struct ServerRole {
    inner: Arc<WebPkiServerVerifier>,
    role: Role,
    revoked: Arc<Revocations>,
}

impl ServerRole {
    pub(crate) fn new(
        inner: Arc<WebPkiServerVerifier>,
        role: Role,
        revoked: Arc<Revocations>,
    ) -> Self {
        Self {
            inner,
            role,
            revoked,
        }
    }
}

impl ServerCertVerifier for ServerRole {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let identity = Identity::read(end_entity).map_err(wrong)?;
        if self.revoked.contains(&identity) {
            return Err(CertificateError::Revoked.into());
        }
        match identity.role == self.role {
            true => Ok(verified),
            false => Err(wrong(format!(
                "it shows the certificate of {}, which has the role {}, not {}",
                identity.name, identity.role, self.role
            ))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Clients of any role that were not revoked.
#[derive(Debug)]
pub(crate) struct ClientKnown {
    inner: Arc<dyn ClientCertVerifier>,
    revoked: Arc<Revocations>,
}

impl ClientKnown {
    pub(crate) fn new(inner: Arc<dyn ClientCertVerifier>, revoked: Arc<Revocations>) -> Self {
        Self { inner, revoked }
    }
}

impl ClientCertVerifier for ClientKnown {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)?;
        let identity = Identity::read(end_entity).map_err(wrong)?;
        match self.revoked.contains(&identity) {
            true => Err(CertificateError::Revoked.into()),
            false => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
