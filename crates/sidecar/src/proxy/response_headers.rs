//! What we add to an answer of the API: that it came through here, how long it waited, and how the
//! limits stand. What the API says about its limits itself is never overwritten, and what it says in our
//! name is not handed on.

use std::time::Duration;

use http::header::VIA;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use outflow::refusal::http_status::ceil_seconds;
use outflow::{RemainingQuota, Response, Upstream};

use super::control_headers::is_ours;
use super::problem::PROXY_STATUS;

/// Adds what is known about an answer to its headers.
pub(crate) fn annotate(headers: &mut HeaderMap, answer: &ResponseFacts, upstream: &Upstream) {
    disown(headers);
    headers.append(VIA, OUR_VIA);
    // Behind those who handed it on before us, so that nobody else's word is taken for ours.
    if headers.contains_key(PROXY_STATUS) {
        let ours = format!("outflow; received-status={}", answer.status.as_u16());
        headers.extend(HeaderValue::try_from(ours).map(|ours| (PROXY_STATUS, ours)));
    }
    headers.insert(WAIT, seconds(answer.waited));
    headers.insert(ATTEMPTS, HeaderValue::from(answer.attempts));
    let state = upstream.state(answer.target).name();
    headers.insert(STATE, HeaderValue::from_static(state));
    if THEIR_OWN.iter().any(|name| headers.contains_key(name)) {
        return;
    }
    if let Some(room) = upstream.remaining(answer.target) {
        add_limit_headers(headers, &room);
    }
}

/// Takes out what only we may say.
fn disown(headers: &mut HeaderMap) {
    let ours = headers.keys().filter(|name| is_ours(name));
    let ours: Vec<HeaderName> = ours.cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

/// What is known about an answer beside itself.
pub(crate) struct ResponseFacts {
    status: StatusCode,
    waited: Duration,
    attempts: u32,
    target: outflow::Target,
}

impl From<&Response> for ResponseFacts {
    fn from(answer: &Response) -> Self {
        Self {
            status: answer.status(),
            waited: answer.waited(),
            attempts: answer.attempts(),
            target: answer.target(),
        }
    }
}

/// Tells how the fullest limit stands, as the IETF's draft writes it.
fn add_limit_headers(headers: &mut HeaderMap, room: &RemainingQuota) {
    let name = room.rate;
    let window = ceil_seconds(room.rate.per());
    let policy = format!("\"{name}\";q={};w={window}", room.capacity);
    let stand = match room.more_in {
        Some(span) => format!("\"{name}\";r={};t={}", room.left, ceil_seconds(span)),
        None => format!("\"{name}\";r={}", room.left),
    };
    for (header, text) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, stand)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(header, value);
        }
    }
}

/// A span in seconds, to the millisecond. Most calls do not wait.
fn seconds(span: Duration) -> HeaderValue {
    if span.as_millis() == 0 {
        return HeaderValue::from_static("0");
    }
    let text = format!("{}.{:03}", span.as_secs(), span.subsec_millis());
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0"))
}

/// Who handed it on.
pub(crate) const OUR_VIA: HeaderValue = HeaderValue::from_static("1.1 outflow");

const WAIT: HeaderName = HeaderName::from_static("outflow-wait");
const ATTEMPTS: HeaderName = HeaderName::from_static("outflow-attempts");
const STATE: HeaderName = HeaderName::from_static("outflow-state");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// By these an API tells how its own limits stand.
const THEIR_OWN: [HeaderName; 4] = [
    RATE_LIMIT,
    RATE_LIMIT_POLICY,
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
];

#[cfg(test)]
mod tests {
    use super::*;

    // A window of half a second is told as one: the draft knows whole seconds only.
    #[test]
    fn a_limit_is_told_in_whole_seconds_rounded_up() {
        let mut headers = HeaderMap::new();
        let room = RemainingQuota {
            rate: "10/s".parse().expect("valid"),
            capacity: 10,
            left: 3,
            more_in: Some(Duration::from_millis(200)),
        };
        add_limit_headers(&mut headers, &room);
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"10/s\";q=10;w=1");
        assert_eq!(headers[RATE_LIMIT], "\"10/s\";r=3;t=1");
        assert_eq!(seconds(Duration::from_micros(900)), "0");
        assert_eq!(seconds(Duration::from_millis(1_234)), "1.234");
    }
}
