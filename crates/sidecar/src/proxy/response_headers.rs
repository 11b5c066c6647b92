//! Headers that the sidecar adds to a response: `Via`, the wait, the attempts and the state of the limits.
//!
//! Limit headers of the API are never overwritten. `Outflow-*` headers of the API are removed.

use std::time::Duration;

use http::header::VIA;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use outflow::refusal::http_status::ceil_seconds;
use outflow::{RemainingQuota, Response, Upstream};

use super::control_headers::is_outflow_header;
use super::problem::PROXY_STATUS;

/// Adds the facts about a response to its headers.
pub(crate) fn annotate(headers: &mut HeaderMap, facts: &ResponseFacts, upstream: &Upstream) {
    remove_outflow_headers(headers);
    headers.append(VIA, OUR_VIA);
    // The entry follows those of earlier proxies, so that none of theirs looks like this one.
    if headers.contains_key(PROXY_STATUS) {
        let entry = format!("outflow; received-status={}", facts.status.as_u16());
        headers.extend(HeaderValue::try_from(entry).map(|entry| (PROXY_STATUS, entry)));
    }
    headers.insert(WAIT, seconds(facts.waited));
    headers.insert(ATTEMPTS, HeaderValue::from(facts.attempts));
    let state = upstream.state(facts.target).name();
    headers.insert(STATE, HeaderValue::from_static(state));
    if API_LIMIT_HEADERS.iter().any(|name| headers.contains_key(name)) {
        return;
    }
    if let Some(quota) = upstream.remaining(facts.target) {
        add_limit_headers(headers, &quota);
    }
}

/// Removes headers that only the sidecar may send.
fn remove_outflow_headers(headers: &mut HeaderMap) {
    let names = headers.keys().filter(|name| is_outflow_header(name));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Facts about a response that are not part of it.
pub(crate) struct ResponseFacts {
    status: StatusCode,
    waited: Duration,
    attempts: u32,
    target: outflow::Target,
}

impl From<&Response> for ResponseFacts {
    fn from(response: &Response) -> Self {
        Self {
            status: response.status(),
            waited: response.waited(),
            attempts: response.attempts(),
            target: response.target(),
        }
    }
}

/// Writes the quota of the fullest limit in the format of the IETF draft.
fn add_limit_headers(headers: &mut HeaderMap, quota: &RemainingQuota) {
    let name = quota.rate;
    let window = ceil_seconds(quota.rate.per());
    let policy = format!("\"{name}\";q={};w={window}", quota.capacity);
    let remaining = match quota.more_in {
        Some(delay) => format!("\"{name}\";r={};t={}", quota.left, ceil_seconds(delay)),
        None => format!("\"{name}\";r={}", quota.left),
    };
    for (header, text) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, remaining)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(header, value);
        }
    }
}

/// Formats a duration in seconds, to the millisecond. Most calls do not wait.
fn seconds(span: Duration) -> HeaderValue {
    if span.as_millis() == 0 {
        return HeaderValue::from_static("0");
    }
    let text = format!("{}.{:03}", span.as_secs(), span.subsec_millis());
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0"))
}

/// Entry of the sidecar in `Via`.
pub(crate) const OUR_VIA: HeaderValue = HeaderValue::from_static("1.1 outflow");

const WAIT: HeaderName = HeaderName::from_static("outflow-wait");
const ATTEMPTS: HeaderName = HeaderName::from_static("outflow-attempts");
const STATE: HeaderName = HeaderName::from_static("outflow-state");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Headers in which an API reports its own limits.
const API_LIMIT_HEADERS: [HeaderName; 4] = [
    RATE_LIMIT,
    RATE_LIMIT_POLICY,
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
];

#[cfg(test)]
mod tests {
    use super::*;

    // The draft knows only whole seconds: 200 ms become one second.
    #[test]
    fn a_limit_is_reported_in_whole_seconds_rounded_up() {
        let mut headers = HeaderMap::new();
        let quota = RemainingQuota {
            rate: "10/s".parse().expect("valid"),
            capacity: 10,
            left: 3,
            more_in: Some(Duration::from_millis(200)),
        };
        add_limit_headers(&mut headers, &quota);
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"10/s\";q=10;w=1");
        assert_eq!(headers[RATE_LIMIT], "\"10/s\";r=3;t=1");
        assert_eq!(seconds(Duration::from_micros(900)), "0");
        assert_eq!(seconds(Duration::from_millis(1_234)), "1.234");
    }
}
