//! Certificates of a server, made for it alone: nothing is stored in the repository, and nothing
//! expires there.

use std::fs;
use std::io;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// Writes an authority and a certificate for `localhost` into the server's directory.
pub(super) fn issue(directory: &Path) -> io::Result<()> {
    let [authority, certificate, key] = make().map_err(io::Error::other)?;
    fs::write(directory.join(AUTHORITY), authority)?;
    fs::write(directory.join(CERTIFICATE), certificate)?;
    fs::write(directory.join(KEY), key)
}

fn make() -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "outflow test");
    let key = KeyPair::generate()?;
    let pem = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let signed = server.signed_by(&key, &issuer)?.pem();
    Ok([pem, signed, key.serialize_pem()])
}

/// The server runs in its directory. Clients present no certificate, unless a test asks for it.
pub(super) const SETTINGS: [(&str, &str); 4] = [
    ("tls-ca-cert-file", AUTHORITY),
    ("tls-cert-file", CERTIFICATE),
    ("tls-key-file", KEY),
    ("tls-auth-clients", "no"),
];

pub(super) const AUTHORITY: &str = "authority.pem";

const CERTIFICATE: &str = "certificate.pem";

const KEY: &str = "key.pem";
