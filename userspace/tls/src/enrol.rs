// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Enrolling: a token is given for a certificate.

use crate::authority::install;
use crate::enrolment::{Answer, Ask, Token, PATH};
use crate::{explain, send, Identity, Tls, CERTIFICATE_FILE, KEY_FILE};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Redeems a token at the server with this URL, and puts the certificate and its key into `out`; whose it is.
pub async fn enrol(url: &str, token: &Token, out: &Path) -> Result<Identity, String> {
    // What cannot be kept would cost a token.
    for file in [KEY_FILE, CERTIFICATE_FILE] {
        let path = out.join(file);
        if path.exists() {
            return Err(format!(
                "{}: there is one already; give another --out, or remove it",
                path.display()
            ));
        }
    }
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let request = CertificateParams::default().serialize_request(&key);
    let request = request.and_then(|request| request.pem());
    let ask = Ask {
        token: token.to_string(),
        request: request.map_err(|error| error.to_string())?,
    };
    let answer = ask_for(url, token, &ask).await?;
    install(
        out,
        &key.serialize_pem(),
        &answer.certificate,
        &answer.authority,
        answer.revocations.as_deref(),
    )?;
    Ok(Tls::read(out)?.identity().clone())
}

async fn ask_for(url: &str, token: &Token, ask: &Ask) -> Result<Answer, String> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .https_only(true)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .use_preconfigured_tls(config(token)?)
        .build()
        .map_err(|error| error.to_string())?;
    let url = format!("{}{PATH}", url.trim_end_matches('/'));
    let failed = |error: reqwest::Error| {
        let why = explain(&error).unwrap_or_else(|| causes(&error));
        format!("{url}: {why}")
    };
    let body = serde_json::to_string(ask).map_err(|error| error.to_string())?;
    let answer = send(client.post(&url).body(body)).await.map_err(failed)?;
    let status = answer.status();
    let text = answer.text().await.map_err(failed)?;
    if !status.is_success() {
        let problem: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let detail = problem
            .as_ref()
            .and_then(|problem| problem["detail"].as_str());
        return Err(format!("{url}: {}", detail.unwrap_or(status.as_str())));
    }
    serde_json::from_str(&text).map_err(|_| {
        format!("{url}: it answers, but not as the place does where tokens are redeemed")
    })
}

fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

fn config(token: &Token) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Pinned {
        token: token.clone(),
        provider: provider.clone(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// Servers whose certificate is of the authority of a token.
#[derive(Debug)]
struct Pinned {
    token: Token,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let root = intermediates.iter().find(|cert| self.token.is_of(cert));
        let root = root.ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(root.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
