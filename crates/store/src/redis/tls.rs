//! TLS to the server: trusted authorities, and the meaning of a failed handshake.
//!
//! The rest of Outflow passes the cryptography provider along. The client library only uses the
//! process default, so Outflow installs its own unless the program chose one before. An unverified
//! server is never accepted: the options name a private authority instead.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, ConnectionInfo, RedisError, TlsCertificates};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{AlertDescription, CertificateError};

use crate::error::StoreError;

/// Opens a client. Over TLS it trusts the authorities of the file, or those of the machine.
pub(super) fn client(info: ConnectionInfo, ca_file: Option<&Path>) -> Result<Client, StoreError> {
    let unreadable = |_| StoreError::refused(UNREADABLE);
    let ConnectionAddr::TcpTls { insecure, .. } = info.addr() else {
        return match ca_file {
            Some(_) => Err(StoreError::refused(NO_TLS)),
            None => Client::open(info).map_err(unreadable),
        };
    };
    if *insecure {
        return Err(StoreError::refused(INSECURE));
    }
    // If the program installed a provider before, that one is used.
    let _chosen = aws_lc_rs::default_provider().install_default();
    let Some(path) = ca_file else {
        return Client::open(info).map_err(unreadable);
    };
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(read_authorities(path)?),
    };
    Client::build_with_tls(info, certificates).map_err(|_| invalid_authority(path))
}

/// Reads the file and checks that it holds a certificate.
fn read_authorities(path: &Path) -> Result<Vec<u8>, StoreError> {
    let pem = std::fs::read(path).map_err(|_| invalid_authority(path))?;
    match CertificateDer::from_pem_slice(&pem) {
        Ok(_) => Ok(pem),
        Err(_) => Err(invalid_authority(path)),
    }
}

fn invalid_authority(path: &Path) -> StoreError {
    StoreError::refused(format_args!(
        "{} is no readable PEM certificate of an authority: check the file",
        path.display()
    ))
}

/// Maps a failed handshake to an error that only an operator can fix, or returns `None`.
pub(super) fn map_handshake_error(error: &RedisError) -> Option<StoreError> {
    let words = match tls_error(error)? {
        rustls::Error::InvalidCertificate(why) => certificate_error(why),
        rustls::Error::InvalidMessage(_) => {
            "redis does not speak TLS on this port: set its TLS port, or write redis:// in its address"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "redis requires a client certificate, which is not supported: set its \
             tls-auth-clients to no, and use a user and a password instead"
        }
        _ => "the TLS handshake with redis failed: allow TLS 1.2 or 1.3 on the server",
    };
    Some(StoreError::refused(words))
}

const fn certificate_error(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of redis is for another name: write the name of the certificate \
             in the address"
        }
        // Another authority of the same name shows up as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no trusted authority signed the certificate of redis: set ca_file to the file \
             of its authority"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "the certificate of redis is not valid at this time: renew it, or set the clock"
        }
        _ => "the certificate of redis is invalid: issue a new server certificate",
    }
}

/// Returns the TLS error, which the library wraps twice.
fn tls_error(error: &RedisError) -> Option<&rustls::Error> {
    let shared = error.source()?;
    let below = match shared.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref::<io::Error>(),
        None => shared.downcast_ref::<io::Error>(),
    };
    below?.get_ref()?.downcast_ref()
}

pub(super) const UNREADABLE: &str = "the address of Redis is invalid: use \
     redis://user:password@host:port/, rediss:// for TLS, and commas between several hosts";

const NO_TLS: &str = "ca_file is set for a Redis address without TLS: write rediss:// in its \
     address, or leave ca_file out";

const INSECURE: &str = "an unverified Redis is not accepted: remove #insecure from its address, and set \
     ca_file to the file of its authority";
