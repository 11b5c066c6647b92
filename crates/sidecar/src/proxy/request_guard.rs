//! Checks of a parsed request that do not depend on the API.
//!
//! Framing is checked before parsing. This module checks the rest on every version of HTTP: host, method,
//! upgrade, and the right to use the stored keys. A web page can send requests to this machine through the
//! user's browser. So without a token the guard accepts a browser's request only from a page of this origin.

use http::header::{EXPECT, HOST, ORIGIN, UPGRADE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::control_headers::is_outflow_header;
use super::hop_by_hop::is_protected;
use super::problem::ProxyProblem;
use crate::config::{ServerConfig, UnderscoreHeaders};
use crate::h1::framing::FramingError;

/// Reachability of a listener, which decides the allowed hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListenerExposure {
    /// Port that only programs of this machine reach.
    Loopback,
    /// Any other listener.
    Elsewhere,
}

/// Returns the error that the framing check wrote in place of a request.
pub(crate) fn framing_error(headers: &HeaderMap) -> Option<FramingError> {
    let name = headers.get(REFUSED)?;
    Some(FramingError::from_name(name.as_bytes()).unwrap_or(FramingError::RequestLine))
}

/// Checks the number and the names of the headers. Over HTTP/1 too many headers are rejected before.
pub(crate) fn check_head(head: &Parts, config: &ServerConfig) -> Result<(), ProxyProblem> {
    if head.headers.len() > usize::from(config.max_headers) {
        return Err(ambiguous(FramingError::TooMany));
    }
    let mut names = head.headers.keys().map(HeaderName::as_str);
    let rejects = |name: &str| match config.underscore_headers {
        UnderscoreHeaders::Pass => is_reserved(&name.replace('_', "-")),
        UnderscoreHeaders::Reject => true,
    };
    if names.any(|name| name.contains('_') && rejects(name)) {
        return Err(ambiguous(FramingError::Underscore));
    }
    Ok(())
}

/// Rejects a header that a server could read as the one with the API's key.
pub(crate) fn check_key_name(headers: &HeaderMap, key: Option<&HeaderName>) -> Result<(), ProxyProblem> {
    let Some(key) = key else {
        return Ok(());
    };
    let is_twin = |name: &HeaderName| name != key && name.as_str().replace('_', "-") == key.as_str().replace('_', "-");
    if headers.keys().any(is_twin) {
        return Err(ambiguous(FramingError::Underscore));
    }
    Ok(())
}

/// Returns true for names that frame a message, route it or belong to Outflow. A server that takes `_` for `-`
/// would read a second value of them.
fn is_reserved(name: &str) -> bool {
    let is_relied_on = |name: HeaderName| is_protected(&name) || is_outflow_header(&name);
    HeaderName::try_from(name).is_ok_and(is_relied_on)
}

/// Checks host, method, upgrade and expectation.
pub(crate) fn check_supported(head: &Parts, exposure: ListenerExposure) -> Result<(), ProxyProblem> {
    let authority = single_host(head)?;
    if exposure == ListenerExposure::Loopback && !is_this_machine(authority.host()) {
        return Err(misdirected());
    }
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        let problem = ProxyProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this method is not forwarded");
        return Err(problem.detail("CONNECT and TRACE are rejected for every API").closing());
    }
    if wants_upgrade(&head.headers) {
        let problem = ProxyProblem::new(StatusCode::NOT_IMPLEMENTED, "upgrade", "upgrades are not supported");
        return Err(problem.detail("send the request without Upgrade").closing());
    }
    let is_known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if head.headers.get_all(EXPECT).into_iter().all(is_known) {
        return Ok(());
    }
    Err(ProxyProblem::new(
        StatusCode::EXPECTATION_FAILED,
        "expect",
        "only the expectation 100-continue is supported",
    ))
}

/// Checks the right to use the stored keys. Removes the token, so that no API sees it.
pub(crate) fn check_token(head: &mut Parts, token: Option<&SecretString>) -> Result<(), ProxyProblem> {
    let is_single = head.headers.get_all(TOKEN).into_iter().count() == 1;
    let sent = head.headers.remove(TOKEN).filter(|_| is_single);
    let Some(token) = token else {
        return check_origin(head);
    };
    let token = token.expose_secret().as_bytes();
    let is_valid = |sent: &HeaderValue| bool::from(sent.as_bytes().ct_eq(token));
    if sent.as_ref().is_some_and(is_valid) {
        return Ok(());
    }
    let problem = ProxyProblem::new(StatusCode::UNAUTHORIZED, "token", "a token is required");
    let advice = "send the secret of `token_env` or `token_file` as Outflow-Token";
    Err(problem.advice(advice).proxy_error("http_request_denied"))
}

/// Rejects requests of foreign pages. A browser sends `Sec-Fetch-Site`, which no page can suppress; older
/// browsers send `Origin`. Other programs send neither.
fn check_origin(head: &Parts) -> Result<(), ProxyProblem> {
    let headers = &head.headers;
    let is_same_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    let is_allowed = if headers.contains_key(FETCH_SITE) {
        headers.get_all(FETCH_SITE).into_iter().all(is_same_site)
    } else {
        let host = single_host(head)?;
        let mut origins = headers.get_all(ORIGIN).into_iter();
        origins.all(|origin| is_origin_of(origin, &host))
    };
    if is_allowed {
        return Ok(());
    }
    Err(ProxyProblem::new(
        StatusCode::FORBIDDEN,
        "cross_site",
        "a page of another site may not use the stored keys",
    )
    .advice("set a token and send it as Outflow-Token")
    .proxy_error("http_request_denied"))
}

/// Returns true if the origin is this host; the origin `null` is not.
fn is_origin_of(origin: &HeaderValue, host: &Authority) -> bool {
    let bare = origin.as_bytes().strip_prefix(b"http://");
    bare.is_some_and(|bare| bare.eq_ignore_ascii_case(host.as_str().as_bytes()))
}

/// Returns the host of the request, if the target and `Host` agree.
fn single_host(head: &Parts) -> Result<Authority, ProxyProblem> {
    let mut hosts = head.headers.get_all(HOST).into_iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(ambiguous(FramingError::TwoHosts));
    }
    let host = match host {
        Some(host) => {
            let host = Authority::try_from(host.as_bytes());
            let plain = host.ok().filter(|host| !host.as_str().contains('@'));
            Some(plain.ok_or_else(|| ambiguous(FramingError::NoHost))?)
        }
        None => None,
    };
    match (head.uri.authority(), host) {
        (Some(target), Some(host)) if *target != host => Err(ProxyProblem::new(
            StatusCode::BAD_REQUEST,
            "two_hosts",
            "the request names one host in its target and another in Host",
        )
        .closing()),
        (Some(target), _) if target.as_str().contains('@') => Err(ambiguous(FramingError::UserInfo)),
        (Some(target), _) => Ok(target.clone()),
        (None, Some(host)) => Ok(host),
        (None, None) => Err(ambiguous(FramingError::NoHost)),
    }
}

/// Returns true if the host can only be this machine. A foreign name may resolve to this machine as well, and a
/// page of that name would then have this origin (DNS rebinding).
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let dot = host.len().saturating_sub(".localhost".len());
    let end = host.get(dot..).unwrap_or_default();
    bare.parse::<std::net::IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || end.eq_ignore_ascii_case(".localhost")
}

/// Returns true if the client asks for another protocol. An offer of `h2c` is ignored: clients that require
/// HTTP/2 begin with it.
fn wants_upgrade(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).into_iter();
    protocols.any(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

/// Returns the problem of a request with invalid framing.
pub(crate) fn ambiguous(error: FramingError) -> ProxyProblem {
    ProxyProblem::new(error.status(), error.name(), "the request is malformed or ambiguous")
        .detail(error.advice())
        .closing()
}

fn misdirected() -> ProxyProblem {
    ProxyProblem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "host",
        "this sidecar does not serve this host",
    )
    .advice("use the host 127.0.0.1 or localhost")
    .proxy_error("http_request_denied")
    .closing()
}

/// Header of the synthetic request for an invalid head.
const REFUSED: HeaderName = HeaderName::from_static("outflow-refused");

const TOKEN: HeaderName = HeaderName::from_static("outflow-token");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_names_are_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST",
            "api.localhost",
            "127.0.0.1",
            "[::1]",
            "10.0.0.1",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
