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
        root_cert: Some(authorities(path)?),
    };
    Client::build_with_tls(info, certificates).map_err(|_| no_authority(path))
}

/// Reads the file and checks that it holds a certificate.
fn authorities(path: &Path) -> Result<Vec<u8>, StoreError> {
    let pem = std::fs::read(path).map_err(|_| no_authority(path))?;
    match CertificateDer::from_pem_slice(&pem) {
        Ok(_) => Ok(pem),
        Err(_) => Err(no_authority(path)),
    }
}

fn no_authority(path: &Path) -> StoreError {
    StoreError::refused(format_args!(
        "{} cannot be read as the certificate of an authority: give it as PEM",
        path.display()
    ))
}

/// Maps a failed handshake to an error that only an operator can fix, or returns `None`.
pub(super) fn fault(error: &RedisError) -> Option<StoreError> {
    let words = match cause(error)? {
        rustls::Error::InvalidCertificate(why) => certificate(why),
        rustls::Error::InvalidMessage(_) => {
            "redis does not speak TLS there: give its port for TLS, or write redis:// in its address"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "redis wants a certificate of its clients, and this one has none: set its \
             tls-auth-clients to no, and give a user and a password instead"
        }
        _ => "redis and this program find no common way to speak TLS: allow it TLS 1.2 or 1.3",
    };
    Some(StoreError::refused(words))
}

const fn certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "redis shows a certificate that is made for another name: write the name that it is made \
             for in the address"
        }
        // Another authority of the same name shows up as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "redis shows a certificate that nobody vouches for whom this machine trusts: name the file \
             of its authority as ca_file"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "redis shows a certificate that does not hold at this time: renew it, or set the clock"
        }
        _ => "redis shows a certificate that is not good: make it a new one, for servers",
    }
}

/// Returns the TLS error, which the library wraps twice.
fn cause(error: &RedisError) -> Option<&rustls::Error> {
    let shared = error.source()?;
    let below = match shared.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref::<io::Error>(),
        None => shared.downcast_ref::<io::Error>(),
    };
    below?.get_ref()?.downcast_ref()
}

pub(super) const UNREADABLE: &str = "the address of Redis cannot be read: use \
     redis://user:password@host:port/, or rediss:// for TLS";

const NO_TLS: &str = "an authority is named for a Redis that is spoken to without TLS: write rediss:// in its \
     address, or leave ca_file out";

const INSECURE: &str = "a Redis that proves nothing is not spoken to: leave #insecure out of its address, and name \
     the file of its authority as ca_file";
