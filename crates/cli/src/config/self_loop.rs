//! Detects an API that is the program itself.
//!
//! Calls to it would return as calls to it, each with a permit, until one times out; and every caller
//! could operate the program through the address of the admin API. Only addresses and `localhost` are
//! compared: other names are resolved when they are called.

use std::net::{IpAddr, SocketAddr};

use http::uri::Scheme;
use outflow::{Api, BaseUrl};
use outflow_config::{Document, ValueError};

use outflow_listener::ListenTarget;

/// Reports each API whose URL leads to one of these listeners of the program.
pub(super) fn check_apis(document: &Document, apis: &[Api], listeners: [(&str, &ListenTarget); 2]) {
    let root = document.root();
    for api in apis {
        for (section, listen) in listeners {
            if leads_to(&api.base_url, listen) {
                let error = ValueError::new(format!("the program itself listens here, as `{section}.listen` says"));
                let table = root.subtable("apis").subtable(&api.name);
                table.report("base_url", error.help("write the API's own address"));
            }
        }
    }
}

fn leads_to(base_url: &BaseUrl, listen: &ListenTarget) -> bool {
    // The program's listeners speak no TLS.
    let ListenTarget::Tcp(address) = listen else {
        return false;
    };
    let port = base_url.authority().port_u16().unwrap_or(HTTP_PORT);
    *base_url.scheme() == Scheme::HTTP && port == address.port() && is_host_at(base_url.host(), address)
}

fn is_host_at(host: &str, address: &SocketAddr) -> bool {
    let (ours, everywhere) = (address.ip(), address.ip().is_unspecified());
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(named) => named == ours || everywhere && (named.is_loopback() || named.is_unspecified()),
        Err(_) => host.eq_ignore_ascii_case("localhost") && (everywhere || ours.is_loopback()),
    }
}

/// Default port of HTTP.
const HTTP_PORT: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    // Another address, another port or TLS is another server.
    #[test]
    fn only_an_address_of_ours_is_the_program_itself() {
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
