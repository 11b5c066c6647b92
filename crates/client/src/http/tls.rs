//! Whom we take a server to be.
//!
//! The provider of the cryptography is passed, never taken from the process: another library of the
//! same program may set that to anything, or twice. What the machine trusts is read once for all APIs
//! that rely on it; it takes longer than everything else a client does when it starts.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    WantsVerifier,
};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::api::TlsTrust;

/// The TLS settings that APIs share.
#[derive(Debug, Default)]
pub(crate) struct TrustStore {
    system: OnceLock<Option<Arc<ClientConfig>>>,
}

impl TrustStore {
    /// The settings for a kind of trust, or what is wrong with it.
    pub(super) fn config(&self, trust: &TlsTrust) -> Result<Arc<ClientConfig>, TrustError> {
        match trust {
            TlsTrust::System => self.system().ok_or(TrustError::NoSystem),
            TlsTrust::File(path) => from_file(path),
            TlsTrust::AnyCertificate => anybody(),
        }
    }

    fn system(&self) -> Option<Arc<ClientConfig>> {
        let made = || {
            let verified = builder().ok()?.with_platform_verifier().ok()?;
            Some(speaking_both(verified.with_no_client_auth()))
        };
        self.system.get_or_init(made).clone()
    }
}

/// Settings that trust nobody, for an API that is called without TLS on a machine that trusts nobody.
pub(super) fn nobody() -> Result<Arc<ClientConfig>, TrustError> {
    with_roots(RootCertStore::empty())
}

fn from_file(path: &Path) -> Result<Arc<ClientConfig>, TrustError> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|_| TrustError::Unreadable)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|_| TrustError::Unreadable)?;
        roots.add(certificate).map_err(|_| TrustError::Unreadable)?;
    }
    if roots.is_empty() {
        return Err(TrustError::Empty);
    }
    with_roots(roots)
}

fn with_roots(roots: RootCertStore) -> Result<Arc<ClientConfig>, TrustError> {
    let verified = builder()?.with_root_certificates(roots);
    Ok(speaking_both(verified.with_no_client_auth()))
}

fn anybody() -> Result<Arc<ClientConfig>, TrustError> {
    let verified = builder()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())));
    Ok(speaking_both(verified.with_no_client_auth()))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TrustError> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|_| TrustError::NoSystem)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// HTTP/2 where the server knows it, HTTP/1.1 where it does not.
fn speaking_both(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Takes anybody for the server. Signatures are still checked, so that a broken peer is noticed.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a kind of trust cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrustError {
    /// The machine trusts nobody.
    NoSystem,
    /// The file cannot be read as certificates.
    Unreadable,
    /// The file holds none.
    Empty,
}
