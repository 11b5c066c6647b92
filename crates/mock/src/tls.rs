//! TLS, with certificates that are wrong on purpose.
//!
//! An authority and a certificate are made for every server, so nothing is stored in the repository
//! and nothing expires there.

use std::io;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::protocols::Protocols;

/// Behaviour of the server in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// A certificate for `localhost` and the loopback addresses, signed by the server's authority.
    Good,
    /// A valid certificate that has expired.
    Expired,
    /// A certificate for another name.
    WrongName,
    /// A self-signed certificate.
    SelfSigned,
    /// Closes the connection after the client's hello.
    CloseMidway,
    /// Rejects every TLS version that the client offers.
    OldVersion,
}

/// Performs handshakes on new connections.
#[derive(Clone)]
pub(crate) struct HandshakeServer {
    tls: Tls,
    pub(crate) ca_pem: Arc<str>,
    acceptor: TlsAcceptor,
}

impl HandshakeServer {
    pub(crate) fn new(tls: Tls, protocols: Protocols) -> io::Result<Self> {
        let authority = Authority::new().map_err(io::Error::other)?;
        let (chain, key) = authority.issue(tls).map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = protocols.alpn();
        Ok(Self {
            tls,
            ca_pem: authority.pem.into(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// Returns the secured stream, if the handshake succeeds.
    pub(crate) async fn shake_hands(&self, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        match self.tls {
            Tls::CloseMidway => {
                read_hello(&mut stream).await;
                None
            }
            Tls::OldVersion => {
                read_hello(&mut stream).await;
                // The client may be gone; then no alert is needed.
                drop(stream.write_all(&PROTOCOL_VERSION).await);
                None
            }
            _ => self.acceptor.accept(stream).await.ok(),
        }
    }
}

/// Reads the beginning of the client's hello.
async fn read_hello(stream: &mut TcpStream) {
    let mut received = [0; 4096];
    // The content makes no difference.
    drop(stream.read(&mut received).await);
}

/// A fatal alert, number 70, as a server of TLS 1.1 sends it.
const PROTOCOL_VERSION: [u8; 7] = [0x15, 0x03, 0x02, 0x00, 0x02, 0x02, 0x46];

/// Signs certificates for this server only.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "outflow mock");
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
        })
    }

    fn issue(&self, tls: Tls) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
        let names: &[&str] = match tls {
            Tls::WrongName => &["elsewhere.test"],
            _ => &["localhost", "127.0.0.1", "::1"],
        };
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if tls == Tls::Expired {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate()?;
        let certificate = match tls {
            Tls::SelfSigned => params.self_signed(&key)?,
            _ => params.signed_by(&key, &self.issuer)?,
        };
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.der().clone(), key.into()))
    }
}
