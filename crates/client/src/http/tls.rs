//! TLS trust.
//!
//! The crypto provider is passed explicitly, never taken from the process: another library may set
//! that one to anything. The system's roots are loaded once for all APIs, because loading dominates
//! the start of a client.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, WantsVerifier,
};
use rustls_platform_verifier::BuilderVerifierExt;

use super::transport::InvalidTransport;
use crate::api::TlsTrust;

/// TLS configurations shared by APIs.
#[derive(Debug, Default)]
pub(crate) struct TrustStore {
    system: OnceLock<Option<Arc<ClientConfig>>>,
}

impl TrustStore {
    /// Returns the TLS configuration of a trust setting.
    pub(super) fn config(&self, trust: &TlsTrust) -> Result<Arc<ClientConfig>, InvalidTransport> {
        match trust {
            TlsTrust::System => self.system().ok_or(InvalidTransport::NoSystemTrust),
            TlsTrust::File(path) => from_file(path),
            TlsTrust::AnyCertificate => without_verification(),
        }
    }

    fn system(&self) -> Option<Arc<ClientConfig>> {
        let build = || {
            let verified = builder().ok()?.with_platform_verifier().ok()?;
            Some(with_alpn(verified.with_no_client_auth()))
        };
        self.system.get_or_init(build).clone()
    }
}

/// Returns a configuration without roots, for an API without TLS on a machine without roots.
pub(super) fn without_roots() -> Result<Arc<ClientConfig>, InvalidTransport> {
    with_roots(RootCertStore::empty())
}

fn from_file(path: &Path) -> Result<Arc<ClientConfig>, InvalidTransport> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|_| InvalidTransport::UnreadableTrust)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|_| InvalidTransport::UnreadableTrust)?;
        roots.add(certificate).map_err(|_| InvalidTransport::UnreadableTrust)?;
    }
    if roots.is_empty() {
        return Err(InvalidTransport::EmptyTrust);
    }
    with_roots(roots)
}

fn with_roots(roots: RootCertStore) -> Result<Arc<ClientConfig>, InvalidTransport> {
    let verified = builder()?.with_root_certificates(roots);
    Ok(with_alpn(verified.with_no_client_auth()))
}

fn without_verification() -> Result<Arc<ClientConfig>, InvalidTransport> {
    let verified = builder()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())));
    Ok(with_alpn(verified.with_no_client_auth()))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, InvalidTransport> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|_| InvalidTransport::NoSystemTrust)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Offers HTTP/2 and HTTP/1.1.
fn with_alpn(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Verifier that accepts any certificate. Signatures are still checked, so that a broken peer is
/// noticed.
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
