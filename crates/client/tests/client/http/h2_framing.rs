//! Responses over HTTP/2 whose length is not that of their body, or which announce a body that none has.
//! RFC 9113, section 8.1.1, calls them malformed.

use bytes::Bytes;
use http::Method;
use outflow::core::Fault;
use outflow::event::FailureLabel;
use outflow_mock::{Fault as MockFault, MockApi, Script, ScriptMatch, Tls};
use outflow_testkit::EventRecorder;

use super::h2_frames::{END_HEADERS, END_STREAM, frame, together};
use super::support::{scripted, trusting};

/// Builds a head of this entry of the static table and these fields, which no table holds.
fn head(flags: u8, status: u8, fields: &[(&str, &str)]) -> Bytes {
    let mut block = vec![status];
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, END_HEADERS | flags, 1, &block)
}

fn data(flags: u8, bytes: &str) -> Bytes {
    frame(0, flags, 1, bytes.as_bytes())
}

const OK: u8 = 0x88;
const NO_CONTENT: u8 = 0x89;
const NOT_MODIFIED: u8 = 0x8b;
const CONTENT_LENGTH: &str = "content-length";

fn malformed() -> Vec<(&'static str, Method, Vec<Bytes>)> {
    let length = |value| head(0, OK, &[(CONTENT_LENGTH, value)]);
    let ended = |value| head(END_STREAM, OK, &[(CONTENT_LENGTH, value)]);
    let ab = || data(END_STREAM, "ab");
    let get = Method::GET;
    vec![
        ("shorter", get.clone(), vec![length("3"), ab()]),
        ("longer", get.clone(), vec![length("1"), ab()]),
        (
            "longer in pieces",
            get.clone(),
            vec![length("2"), data(0, "ab"), data(END_STREAM, "c")],
        ),
        ("none", get.clone(), vec![ended("3")]),
        ("zero", get.clone(), vec![length("0"), ab()]),
        ("not a number", get.clone(), vec![length("two"), ab()]),
        ("signed", get.clone(), vec![length("+2"), ab()]),
        ("list", get.clone(), vec![length("2, 2"), ab()]),
        (
            "equal",
            get.clone(),
            vec![head(0, OK, &[(CONTENT_LENGTH, "2"); 2]), ab()],
        ),
        (
            "different",
            get.clone(),
            vec![head(0, OK, &[(CONTENT_LENGTH, "2"), (CONTENT_LENGTH, "3")]), ab()],
        ),
        (
            "coding",
            get.clone(),
            vec![head(0, OK, &[("transfer-encoding", "chunked")]), ab()],
        ),
        (
            "connection",
            get.clone(),
            vec![head(0, OK, &[("connection", "close")]), ab()],
        ),
        ("204", get.clone(), vec![head(0, NO_CONTENT, &[]), ab()]),
        (
            "204 with a length",
            get.clone(),
            vec![head(END_STREAM, NO_CONTENT, &[(CONTENT_LENGTH, "2")])],
        ),
        ("304", get, vec![head(0, NOT_MODIFIED, &[]), ab()]),
        ("HEAD", Method::HEAD, vec![length("2"), ab()]),
    ]
}

/// Builds an API that sends these frames for the path `/odd`.
fn sending(frames: &[Bytes]) -> MockApi {
    let fault = MockFault::Held(together(frames));
    scripted(Script::new().rule(ScriptMatch::path("/odd"), fault))
}

// With the default two retries. The next call does not use the connection.
#[tokio::test]
async fn a_malformed_response_over_http_2_is_refused_once() {
    for (name, method, frames) in malformed() {
        let mock = sending(&frames);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |_| {});
        let recorder = EventRecorder::subscribed_to(client.events());
        let error = client.request(method, "strict", "/odd").send().await.expect_err(name);
        assert_eq!(error.fault(), Some(Fault::InvalidResponse), "{name}: {error}");
        assert_eq!(mock.audit().attempts("/odd"), 1, "{name}");
        assert_eq!(
            recorder.finished().remove(0).reason,
            Some(FailureLabel::Invalid),
            "{name}"
        );
        let next = client.get("strict", "/next").send().await.expect(name);
        assert_eq!(next.status(), 200, "{name}");
        let audit = mock.audit();
        let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
        assert_ne!(used[0], used[1], "{name}");
    }
}

// A reset without an error looks like an end. RFC 9113, section 8.1, allows it after a complete response only.
#[tokio::test]
async fn a_body_over_http_2_that_a_reset_ends_early_is_cut() {
    let reset = frame(3, 0, 1, &[0; 4]);
    let length = head(0, OK, &[(CONTENT_LENGTH, "10")]);
    for (name, frames) in [
        ("some", vec![length.clone(), data(0, "abcd"), reset.clone()]),
        ("none", vec![length, reset]),
    ] {
        let mock = sending(&frames);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |_| {});
        let error = client.get("strict", "/odd").no_retry().send().await.expect_err(name);
        assert_eq!(error.fault(), Some(Fault::TruncatedBody), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_sound_response_over_http_2_passes() {
    let length = |value| head(0, OK, &[(CONTENT_LENGTH, value)]);
    for (name, method, frames, status, body) in [
        (
            "length",
            Method::GET,
            vec![length("2"), data(END_STREAM, "ab")],
            200,
            "ab",
        ),
        (
            "pieces",
            Method::GET,
            vec![length("2"), data(0, "a"), data(END_STREAM, "b")],
            200,
            "ab",
        ),
        (
            "no length",
            Method::GET,
            vec![head(0, OK, &[]), data(END_STREAM, "ab")],
            200,
            "ab",
        ),
        ("empty", Method::GET, vec![length("0"), data(END_STREAM, "")], 200, ""),
        (
            "204",
            Method::GET,
            vec![head(0, NO_CONTENT, &[]), data(END_STREAM, "")],
            204,
            "",
        ),
        (
            "304",
            Method::GET,
            vec![head(END_STREAM, NOT_MODIFIED, &[(CONTENT_LENGTH, "7")])],
            304,
            "",
        ),
        (
            "HEAD",
            Method::HEAD,
            vec![head(END_STREAM, OK, &[(CONTENT_LENGTH, "7")])],
            200,
            "",
        ),
    ] {
        let mock = sending(&frames);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |_| {});
        let response = client.request(method, "strict", "/odd").send().await.expect(name);
        assert_eq!(response.status(), status, "{name}");
        assert_eq!(response.text().await.expect(name), body, "{name}");
    }
}
