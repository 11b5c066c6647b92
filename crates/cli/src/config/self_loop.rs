//! Whether an API is the program itself.
//!
//! Calls to it would come back as calls to it, each with a permit, until one of them is tired of
//! waiting; and behind the admin API's address whoever may call could operate. Only what is plain is
//! found here, an address or `localhost`: what a name leads to is known when it is called.

use std::net::{IpAddr, SocketAddr};

use http::uri::Scheme;
use outflow_config::{TableReader, ValueError};

use crate::base_url::BaseUrl;
use super::server::{AdminConfig, ListenTarget, ServerConfig};

/// Where the program listens itself.
pub(super) struct ListenAddresses<'a> {
    pub(super) server: &'a ServerConfig,
    pub(super) admin: &'a AdminConfig,
}

impl ListenAddresses<'_> {
    /// Tells of an API behind one of them.
    pub(super) fn check(&self, api: &TableReader<'_>, base_url: &BaseUrl) {
        let doors = [
            ("server", &self.server.listen),
            ("admin", &self.admin.listen),
        ];
        for (section, listen) in doors {
            if leads_to(base_url, listen) {
                let error = ValueError::new(format!(
                    "the program itself listens here, as `{section}.listen` says"
                ));
                api.report("base_url", error.help("write the API's own address"));
            }
        }
    }
}

fn leads_to(base_url: &BaseUrl, listen: &ListenTarget) -> bool {
    // No door of ours speaks TLS.
    let ListenTarget::Tcp(door) = listen else {
        return false;
    };
    let port = base_url.authority().port_u16().unwrap_or(HTTP);
    *base_url.scheme() == Scheme::HTTP && port == door.port() && is_at(base_url.host(), door)
}

fn is_at(host: &str, door: &SocketAddr) -> bool {
    let (ours, everywhere) = (door.ip(), door.ip().is_unspecified());
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(named) => named == ours || everywhere && (named.is_loopback() || named.is_unspecified()),
        Err(_) => host.eq_ignore_ascii_case("localhost") && (everywhere || ours.is_loopback()),
    }
}

/// Where HTTP is if nothing else is said.
const HTTP: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    // What is elsewhere, on another port or behind TLS is somebody else.
    #[test]
    fn only_what_is_plainly_ours_is_the_program_itself() {
        for (url, listen, ours) in [
            ("http://127.0.0.1:7070/github", "127.0.0.1:7070", true),
            ("http://LOCALHOST:7070", "127.0.0.1:7070", true),
            ("http://localhost:7070", "0.0.0.0:7070", true),
            ("http://127.0.0.2:7070", "0.0.0.0:7070", true),
            ("http://[::1]:7070", "[::1]:7070", true),
            ("http://10.0.0.7", "10.0.0.7:80", true),
            ("http://127.0.0.2:7070", "127.0.0.1:7070", false),
            ("http://127.0.0.1:7071", "127.0.0.1:7070", false),
            ("https://127.0.0.1:7070", "127.0.0.1:7070", false),
            ("http://localhost:7070", "10.0.0.7:7070", false),
            ("http://api.example:7070", "0.0.0.0:7070", false),
        ] {
            let base_url: BaseUrl = url.parse().expect("a URL");
            let listen = ListenTarget::Tcp(listen.parse().expect("an address"));
            assert_eq!(leads_to(&base_url, &listen), ours, "{url} and {listen}");
        }
    }
}
