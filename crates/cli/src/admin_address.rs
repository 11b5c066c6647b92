//! Address of the program that a command asks, and where that address is from.
//!
//! A command asks the program that its configuration starts: a project with another `admin.listen` must not reach
//! the program of its neighbour. Only the section `[admin]` is read, so that an error elsewhere in a file does not
//! silence a command that inspects the running program.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::bail;
use outflow_admin::AdminConfig;
use outflow_listener::ListenTarget;
use secrecy::SecretString;

use crate::commands::ConfigArgs;
use crate::config_sources::ConfigSources;
use crate::http_once::HttpTarget;

/// Address of the admin API, with its origin.
#[derive(Debug)]
pub(crate) struct AdminAddress {
    pub(crate) target: HttpTarget,
    /// Token of the same configuration: it goes to no other address.
    pub(crate) token: Option<SecretString>,
    origin: AddressOrigin,
}

#[derive(PartialEq, Eq, Debug)]
enum AddressOrigin {
    /// `--admin`.
    Flag,
    /// `admin.listen` of these files.
    Config(String),
    /// No file names one.
    Default,
}

impl AdminAddress {
    /// Returns the address of the flag, of the configuration, or the default.
    pub(crate) fn find(flag: Option<&HttpTarget>, config: &ConfigArgs) -> anyhow::Result<Self> {
        if let Some(target) = flag {
            return Ok(Self {
                target: target.clone(),
                token: None,
                origin: AddressOrigin::Flag,
            });
        }
        let sources = config.optional_sources()?;
        let admin = sources.read_admin()?;
        Ok(Self {
            target: reachable(&admin)?,
            token: admin.token,
            origin: origin(&sources),
        })
    }
}

impl fmt::Display for AdminAddress {
    /// Writes `http://127.0.0.1:7071 (admin.listen of outflow.toml)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            AddressOrigin::Flag => write!(f, "{}", self.target),
            AddressOrigin::Config(files) => write!(f, "{} (`admin.listen` of {files})", self.target),
            AddressOrigin::Default => write!(f, "{} (the default address)", self.target),
        }
    }
}

/// Returns the address at which a listener of this machine is reached.
fn reachable(admin: &AdminConfig) -> anyhow::Result<HttpTarget> {
    match &admin.listen {
        ListenTarget::Unix(path) => Ok(HttpTarget::Unix(path.clone())),
        ListenTarget::Tcp(address) if address.port() == 0 => {
            bail!("`admin.listen` lets the system choose the port: name the address with `--admin URL`")
        }
        ListenTarget::Tcp(address) => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            Ok(HttpTarget::Tcp(SocketAddr::new(ip, address.port()).to_string()))
        }
    }
}

fn origin(sources: &ConfigSources) -> AddressOrigin {
    let files: Vec<_> = sources.files().map(|file| file.display().to_string()).collect();
    if files.is_empty() {
        return AddressOrigin::Default;
    }
    AddressOrigin::Config(files.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: &str) -> Option<String> {
        let listen = match listen.strip_prefix("unix:") {
            Some(path) => ListenTarget::Unix(path.into()),
            None => ListenTarget::Tcp(listen.parse().expect("an address")),
        };
        let target = reachable(&AdminConfig { listen, token: None });
        target.ok().map(|target| target.to_string())
    }

    // A listener on all addresses is asked at loopback; a free port is unknown.
    #[test]
    fn a_listener_is_asked_where_this_machine_reaches_it() {
        assert_eq!(at("127.0.0.1:7171").as_deref(), Some("http://127.0.0.1:7171"));
        assert_eq!(at("0.0.0.0:7071").as_deref(), Some("http://127.0.0.1:7071"));
        assert_eq!(at("[::]:7071").as_deref(), Some("http://[::1]:7071"));
        assert_eq!(at("unix:/run/a").as_deref(), Some("unix:/run/a"));
        assert_eq!(at("127.0.0.1:0"), None);
    }
}
