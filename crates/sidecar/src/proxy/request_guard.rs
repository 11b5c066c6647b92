//! Who may ask, and what cannot be asked of a gateway, whatever the API.
//!
//! Framing is checked before a request is parsed; this is what is checked of it afterwards, on every
//! version of HTTP: which host it means, which method, whether it wants another protocol, and whether
//! its sender may use the keys that are kept here. A web page may send requests to this machine from
//! the browser of whoever looks at it, so without a token a browser is let in only for a page of ours.

use http::header::{EXPECT, HOST, ORIGIN, UPGRADE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::problem::ProxyProblem;
use crate::h1::framing::FramingError;

/// Where a door is, which decides how it may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListenerExposure {
    /// A port of this machine that only its own programs reach.
    Loopback,
    /// Any other.
    Elsewhere,
}

/// What was refused before it was parsed, if this request stands for such a one.
pub(crate) fn misframed(headers: &HeaderMap) -> Option<ProxyProblem> {
    let name = headers.get(REFUSED)?;
    let fault = FramingError::named(name.as_bytes()).unwrap_or(FramingError::RequestLine);
    Some(misread(fault))
}

/// Whether a gateway can do what is asked.
pub(crate) fn possible(head: &Parts, door: ListenerExposure) -> Result<(), ProxyProblem> {
    let authority = one_host(head)?;
    if door == ListenerExposure::Loopback && !is_this_machine(authority.host()) {
        return Err(misdirected());
    }
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        let refusal = ProxyProblem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method",
            "this method is not handed on",
        );
        return Err(refusal
            .detail("CONNECT and TRACE are refused for every API")
            .closing());
    }
    if wants_another_protocol(&head.headers) {
        let refusal = ProxyProblem::new(
            StatusCode::NOT_IMPLEMENTED,
            "upgrade",
            "the protocol is not changed here",
        );
        return Err(refusal.detail("send the request without Upgrade").closing());
    }
    let known = |word: &HeaderValue| word.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if head.headers.get_all(EXPECT).into_iter().all(known) {
        return Ok(());
    }
    Err(ProxyProblem::new(
        StatusCode::EXPECTATION_FAILED,
        "expect",
        "only 100-continue can be expected",
    ))
}

/// Whether the sender may use what is kept here. The token is taken out: it is for us alone.
pub(crate) fn known(head: &mut Parts, token: Option<&SecretString>) -> Result<(), ProxyProblem> {
    let once = head.headers.get_all(TOKEN).into_iter().count() == 1;
    let shown = head.headers.remove(TOKEN).filter(|_| once);
    let Some(token) = token else {
        return from_no_page(head);
    };
    let token = token.expose_secret().as_bytes();
    let fits = |shown: &HeaderValue| bool::from(shown.as_bytes().ct_eq(token));
    if shown.as_ref().is_some_and(fits) {
        return Ok(());
    }
    let refusal = ProxyProblem::new(StatusCode::UNAUTHORIZED, "token", "a token is needed here");
    let advice = "send the secret of `token_env` or `token_file` as Outflow-Token";
    Err(refusal.advice(advice).proxy_error("http_request_denied"))
}

/// A browser says where a request comes from, and no page can keep it from doing so. Those that do not
/// know how near the page is still name it; programs that are no browsers say neither.
fn from_no_page(head: &Parts) -> Result<(), ProxyProblem> {
    let headers = &head.headers;
    let near = |site: &HeaderValue| site == "same-origin" || site == "none";
    let ours = if headers.contains_key(FETCH_SITE) {
        headers.get_all(FETCH_SITE).into_iter().all(near)
    } else {
        let host = one_host(head)?;
        let mut origins = headers.get_all(ORIGIN).into_iter();
        origins.all(|origin| is_page_of(origin, &host))
    };
    if ours {
        return Ok(());
    }
    Err(ProxyProblem::new(
        StatusCode::FORBIDDEN,
        "page",
        "a page of another site may not use the keys that are kept here",
    )
    .advice("set a token and send it as Outflow-Token")
    .proxy_error("http_request_denied"))
}

/// Whether this names a page that came from here; one without a name, `null`, did not.
fn is_page_of(origin: &HeaderValue, host: &Authority) -> bool {
    let bare = origin.as_bytes().strip_prefix(b"http://");
    bare.is_some_and(|bare| bare.eq_ignore_ascii_case(host.as_str().as_bytes()))
}

/// The host that is meant, if all who name one name the same.
fn one_host(head: &Parts) -> Result<Authority, ProxyProblem> {
    let mut hosts = head.headers.get_all(HOST).into_iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(misread(FramingError::TwoHosts));
    }
    let host = match host {
        Some(host) => {
            let host = Authority::try_from(host.as_bytes());
            let plain = host.ok().filter(|host| !host.as_str().contains('@'));
            Some(plain.ok_or_else(|| misread(FramingError::NoHost))?)
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
        (Some(target), _) => Ok(target.clone()),
        (None, Some(host)) => Ok(host),
        (None, None) => Err(misread(FramingError::NoHost)),
    }
}

/// Whether a host's name can only be this machine. A name that somebody else's server answers for may
/// lead here as well, and a page from there would then be one of ours.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let dot = host.len().saturating_sub(".localhost".len());
    let end = host.get(dot..).unwrap_or_default();
    bare.parse::<std::net::IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || end.eq_ignore_ascii_case(".localhost")
}

/// Whether the sender wants to speak something else. HTTP/2 over an open connection may be offered in
/// passing, and is passed over: clients that want it for certain begin with it.
fn wants_another_protocol(headers: &HeaderMap) -> bool {
    let mut wanted = headers.get_all(UPGRADE).into_iter();
    wanted.any(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

fn misread(fault: FramingError) -> ProxyProblem {
    ProxyProblem::new(
        fault.status(),
        fault.name(),
        "the request cannot be read in one way only",
    )
    .detail(fault.advice())
    .closing()
}

fn misdirected() -> ProxyProblem {
    ProxyProblem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "host",
        "this host is not answered for here",
    )
    .advice("call it as 127.0.0.1 or localhost")
    .proxy_error("http_request_denied")
    .closing()
}

/// By this a head is told that was not in order.
const REFUSED: HeaderName = HeaderName::from_static("outflow-refused");

const TOKEN: HeaderName = HeaderName::from_static("outflow-token");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machines_own_names_are_this_machine() {
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
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
