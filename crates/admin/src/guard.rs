//! Access control of the admin API.
//!
//! Every user of this machine has access. Without a guard, so has every web page in a browser on it: through a
//! foreign name that resolves to 127.0.0.1, a form that posts blindly, or a script that reads. So every request
//! must name this machine as its host and come from no foreign page. A request with a body must declare JSON,
//! which no form can do. No response grants rights to another origin. A configured token is required in addition.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, header, request::Parts};
use outflow_listener::ListenAddr;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::problem::AdminProblem;

/// Checks that every request passes first.
#[derive(Debug)]
pub(crate) struct AdminGuard {
    /// Address of the TCP listener.
    address: Option<IpAddr>,
}

impl AdminGuard {
    /// Creates the guard of a listener.
    pub(crate) const fn new(listen: &ListenAddr) -> Self {
        let address = match listen {
            ListenAddr::Tcp(address) => Some(address.ip()),
            ListenAddr::Unix(_) => None,
        };
        Self { address }
    }

    /// Accepts a request, or returns the reason for its rejection.
    pub(crate) fn check(&self, request: &Parts, token: Option<&SecretString>) -> Result<(), AdminProblem> {
        let host = self.check_host(request)?;
        check_origin(&request.headers, &host)?;
        if !PUBLIC_PATHS.contains(&request.uri.path()) {
            check_token(&request.headers, token)?;
        }
        check_content_type(request)
    }

    /// Returns the host if it is this one. DNS can rebind a name but no address, so `localhost` is the only
    /// allowed name.
    fn check_host(&self, request: &Parts) -> Result<Authority, AdminProblem> {
        let mut hosts = request.headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(AdminProblem::bad("name the host once, in the header `Host`"));
        };
        let host = Authority::try_from(host.as_bytes()).map_err(|_| foreign_host())?;
        let is_target = request.uri.authority().is_none_or(|target| *target == host);
        if is_target && self.serves(host.host()) && !host.as_str().contains('@') {
            return Ok(host);
        }
        Err(foreign_host())
    }

    fn serves(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let Ok(address) = bare.parse::<IpAddr>() else {
            return host.eq_ignore_ascii_case("localhost");
        };
        let is_served = |listen: IpAddr| listen == address || listen.is_unspecified();
        address.is_loopback() || self.address.is_some_and(is_served)
    }
}

fn foreign_host() -> AdminProblem {
    let detail = "this program does not serve this host: use `localhost` or the address of the \
                  listener";
    AdminProblem::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", detail)
}

/// Rejects requests of other pages, even reads: no other page needs this data. Browsers send the origin of a
/// request, programs do not.
fn check_origin(headers: &HeaderMap, host: &Authority) -> Result<(), AdminProblem> {
    let is_same_origin = |origin: &[u8]| {
        let bare = origin.strip_prefix(b"http://");
        bare.is_some_and(|bare| bare.eq_ignore_ascii_case(host.as_str().as_bytes()))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let is_same_site = |site: &[u8]| site == b"same-origin" || site == b"none";
    if origins.all(|origin| is_same_origin(origin.as_bytes())) && sites.all(|site| is_same_site(site.as_bytes())) {
        return Ok(());
    }
    let detail = "requests of other web pages are rejected: open the admin page itself";
    Err(AdminProblem::new(StatusCode::FORBIDDEN, "foreign_origin", detail))
}

fn check_token(headers: &HeaderMap, token: Option<&SecretString>) -> Result<(), AdminProblem> {
    let Some(token) = token else {
        return Ok(());
    };
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let sent = (sent.next(), sent.next());
    let bearer = match sent {
        (Some(sent), None) => sent.as_bytes().split_at_checked(BEARER.len()),
        _ => None,
    };
    let is_valid = bearer.is_some_and(|(scheme, sent)| {
        let is_equal = sent.ct_eq(token.expose_secret().as_bytes());
        scheme.eq_ignore_ascii_case(BEARER) && bool::from(is_equal)
    });
    if is_valid {
        return Ok(());
    }
    let detail = "send the admin token as `Authorization: Bearer TOKEN`";
    Err(AdminProblem::new(StatusCode::UNAUTHORIZED, "token", detail))
}

/// Requires JSON for requests with a body: a form cannot send this type.
fn check_content_type(request: &Parts) -> Result<(), AdminProblem> {
    let has_body = [Method::POST, Method::PUT, Method::PATCH].contains(&request.method);
    if !has_body || is_json(&request.headers) {
        return Ok(());
    }
    let detail = "send JSON with `Content-Type: application/json`, or `application/x-ndjson` for \
                  one document per line";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(AdminProblem::new(status, "content_type", detail))
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = kind.to_str().unwrap_or_default().split(';').next();
    essence.is_some_and(|kind| JSON.iter().any(|json| kind.trim().eq_ignore_ascii_case(json)))
}

/// One document, or one document per line.
const JSON: [&str; 2] = ["application/json", "application/x-ndjson"];

const BEARER: &[u8] = b"Bearer ";

/// Paths without a token: probes have none, and the page must load to ask for it. They reveal no data.
const PUBLIC_PATHS: [&str; 5] = ["/", "/page.css", "/page.js", "/healthz", "/readyz"];
