//! Who may talk to the admin API.
//!
//! Whoever sits at this machine may, and so may any web page that a browser on it shows, unless it is
//! stopped: a name of its own that leads to 127.0.0.1, a form that posts blindly, a script that reads.
//! So every request must name this machine as its host, come from no foreign page, and say that it
//! brings JSON if it wants to change something, which no form can say. No answer ever grants another
//! origin anything. A token, where one is configured, is asked for on top of that and replaces nothing.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, header, request::Parts};
use outflow_listener::ListenAddr;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::problem::AdminProblem;

/// The rules at the door of the admin API.
#[derive(Debug)]
pub(crate) struct AdminGuard {
    /// The address that it listens on, if that is more than this machine's own.
    address: Option<IpAddr>,
}

impl AdminGuard {
    /// Guards what listens there.
    pub(crate) const fn new(place: &ListenAddr) -> Self {
        let address = match place {
            ListenAddr::Tcp(address) => Some(address.ip()),
            ListenAddr::Unix(_) => None,
        };
        Self { address }
    }

    /// Lets a request in, or says why not.
    pub(crate) fn check(
        &self,
        request: &Parts,
        token: Option<&SecretString>,
    ) -> Result<(), AdminProblem> {
        let host = self.host(request)?;
        same_origin(&request.headers, &host)?;
        if !is_open(request.uri.path()) {
            knows(&request.headers, token)?;
        }
        brings_json(request)
    }

    /// The host that was meant, if it is this one. An address is not enough of a name to be rebound;
    /// a name is, so the only one is `localhost`.
    fn host(&self, request: &Parts) -> Result<Authority, AdminProblem> {
        let mut named = request.headers.get_all(header::HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(AdminProblem::bad(
                "name the host once, in the header `Host`",
            ));
        };
        let host = Authority::try_from(host.as_bytes()).map_err(|_| foreign_host())?;
        let meant = request.uri.authority().is_none_or(|target| *target == host);
        if meant && self.is_ours(host.host()) && !host.as_str().contains('@') {
            return Ok(host);
        }
        Err(foreign_host())
    }

    fn is_ours(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let Ok(named) = bare.parse::<IpAddr>() else {
            return host.eq_ignore_ascii_case("localhost");
        };
        let listens = |ours: IpAddr| ours == named || ours.is_unspecified();
        named.is_loopback() || self.address.is_some_and(listens)
    }
}

fn foreign_host() -> AdminProblem {
    let detail = "this is not the host that was asked for: use `localhost` or the address it \
                  listens on";
    AdminProblem::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", detail)
}

/// Browsers say where a request comes from, programs do not. What comes from another page is refused
/// even if it only reads: nothing here is meant for it.
fn same_origin(headers: &HeaderMap, host: &Authority) -> Result<(), AdminProblem> {
    let ours = |origin: &[u8]| {
        let bare = origin.strip_prefix(b"http://");
        bare.is_some_and(|bare| bare.eq_ignore_ascii_case(host.as_str().as_bytes()))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let same = |site: &[u8]| site == b"same-origin" || site == b"none";
    let from_here = origins.all(|origin| ours(origin.as_bytes()));
    if from_here && sites.all(|site| same(site.as_bytes())) {
        return Ok(());
    }
    let detail = "requests of other web pages are refused: open the admin page itself";
    Err(AdminProblem::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        detail,
    ))
}

/// Probes know no token, and the page has to be there to ask for one. Neither tells anything.
fn is_open(path: &str) -> bool {
    OPEN.contains(&path)
}

fn knows(headers: &HeaderMap, token: Option<&SecretString>) -> Result<(), AdminProblem> {
    let Some(token) = token else {
        return Ok(());
    };
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let sent = (sent.next(), sent.next());
    let bearer = match sent {
        (Some(sent), None) => sent.as_bytes().split_at_checked(BEARER.len()),
        _ => None,
    };
    let known = bearer.is_some_and(|(scheme, sent)| {
        let right = sent.ct_eq(token.expose_secret().as_bytes());
        scheme.eq_ignore_ascii_case(BEARER) && bool::from(right)
    });
    if known {
        return Ok(());
    }
    let detail = "send the admin token as `Authorization: Bearer TOKEN`";
    Err(AdminProblem::new(StatusCode::UNAUTHORIZED, "token", detail))
}

/// What changes something brings JSON and says so: forms can send three types, and this is none.
fn brings_json(request: &Parts) -> Result<(), AdminProblem> {
    let changes = [Method::POST, Method::PUT, Method::PATCH].contains(&request.method);
    if !changes || is_json(&request.headers) {
        return Ok(());
    }
    let detail = "send JSON, and say so with `Content-Type: application/json`, or \
                  `application/x-ndjson` for lines of it";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(AdminProblem::new(status, "content_type", detail))
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = kind.to_str().unwrap_or_default().split(';').next();
    essence.is_some_and(|kind| {
        JSON.iter()
            .any(|json| kind.trim().eq_ignore_ascii_case(json))
    })
}

/// One document, or a line for each.
const JSON: [&str; 2] = ["application/json", "application/x-ndjson"];

const BEARER: &[u8] = b"Bearer ";

/// What is answered without a token.
const OPEN: [&str; 5] = ["/", "/page.css", "/page.js", "/healthz", "/readyz"];
