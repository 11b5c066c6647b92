//! Responses over HTTP/2 whose length is not that of their body, or which announce a body that none has.
//! RFC 9113, section 8.1.1, calls them malformed.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use outflow::CacheMode;
use outflow::core::Fault;
use outflow::event::FailureLabel;
use outflow_mock::{Fault as MockFault, MockApi, Script, ScriptMatch, Tls};
use outflow_testkit::EventRecorder;

use super::h2_frames::{END_HEADERS, END_STREAM, NO_ERROR, frame, going_away, together};
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
        (
            "no status",
            get.clone(),
            vec![frame(1, END_HEADERS, 1, b"\x00\x01a\x01b"), ab()],
        ),
        (
            "two statuses",
            get.clone(),
            vec![frame(1, END_HEADERS, 1, &[OK, OK]), ab()],
        ),
        (
            "a status behind a field",
            get.clone(),
            vec![frame(1, END_HEADERS, 1, b"\x88\x00\x01a\x01b\x88"), ab()],
        ),
        ("304", get, vec![head(0, NOT_MODIFIED, &[]), ab()]),
        ("HEAD", Method::HEAD, vec![length("2"), ab()]),
    ]
}

/// Frames that are an error of the whole connection, which names no stream.
fn broken_connections() -> Vec<(&'static str, Vec<Bytes>)> {
    let field = |name, value| vec![head(0, OK, &[(name, value)]), data(END_STREAM, "ab")];
    let sound = || [head(0, OK, &[]), data(END_STREAM, "ab")];
    let before = |first: Bytes| [vec![first], sound().to_vec()].concat();
    vec![
        ("a line in a value", field("x-a", "1\r\ncontent-length: 0\r\n\r\n")),
        ("a zero byte in a value", field("x-a", "1\x002")),
        ("a capital in a name", field("X-A", "1")),
        ("a blank in a name", field("x a", "1")),
        ("a status of letters", vec![frame(1, END_HEADERS, 1, b"\x08\x03abc")]),
        ("data before the head", before(data(0, "ab"))),
        ("an unknown stream", before(frame(1, END_HEADERS, 3, &[OK]))),
        ("a stream of the server", before(frame(1, END_HEADERS, 2, &[OK]))),
        (
            "a window that overflows",
            before(frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        ),
        (
            "a frame that is too long",
            vec![Bytes::from_static(b"\xff\xff\xff\0\0\0\0\0\x01")],
        ),
        ("an unknown pseudo-header", field(":a", "b")),
        ("a damaged head", vec![frame(1, END_HEADERS, 1, &[0xff; 7])]),
        (
            "padding beyond the frame",
            vec![head(0, OK, &[]), frame(0, 9, 1, &[0xff])],
        ),
        (
            "text",
            vec![Bytes::from_static(
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n",
            )],
        ),
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
    let broken = broken_connections().into_iter();
    let broken = broken.map(|(name, frames)| (name, Method::GET, frames));
    for (name, method, frames) in malformed().into_iter().chain(broken) {
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
    let storable = head(0, OK, &[("cache-control", "max-age=60")]);
    for (name, frames) in [
        ("some", vec![length.clone(), data(0, "abcd"), reset.clone()]),
        ("none", vec![length, reset.clone()]),
        ("no length", vec![storable.clone(), data(0, "abcd"), reset.clone()]),
        ("no length and no data", vec![storable.clone(), reset]),
        ("a farewell", vec![storable, data(0, "abcd"), going_away(1, NO_ERROR)]),
    ] {
        let script = Script::new().rule(ScriptMatch::path("/odd"), MockFault::Bytes(together(&frames)));
        let mock = scripted(script);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |api| api.cache = CacheMode::Standard);
        for arrivals in 1..=2 {
            let error = client.get("strict", "/odd").no_retry().send().await.expect_err(name);
            assert_eq!(error.fault(), Some(Fault::TruncatedBody), "{name}: {error}");
            assert_eq!(mock.audit().attempts("/odd"), arrivals, "{name}: it is not stored");
        }
    }
}

// A reader of a stream stops at the announced length, and so must not get all of it before the end.
#[tokio::test]
async fn a_streamed_body_over_http_2_is_whole_only_at_its_end() {
    let length = |value| head(0, OK, &[(CONTENT_LENGTH, value)]);
    for (name, first) in [
        ("longer", together(&[length("2"), data(0, "ab")])),
        ("longer than nothing", length("0")),
    ] {
        let again = data(0, "c");
        let every = Duration::from_millis(50);
        let fault = MockFault::Endless { first, again, every };
        let mock = scripted(Script::new().rule(ScriptMatch::path("/odd"), fault));
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |_| {});
        let error = match client.get("strict", "/odd").send_streaming().await {
            Ok(response) => response.stream().chunk().await.expect(name).expect_err(name),
            Err(error) => error,
        };
        assert_eq!(error.fault(), Some(Fault::InvalidResponse), "{name}: {error}");
        assert_eq!(mock.audit().attempts("/odd"), 1, "{name}");
    }
}

// No reader would take the data, so its error comes with the head.
#[tokio::test]
async fn data_behind_a_head_that_allows_none_is_refused_while_streaming() {
    for (name, method, status) in [
        ("204", Method::GET, NO_CONTENT),
        ("304", Method::GET, NOT_MODIFIED),
        ("HEAD", Method::HEAD, OK),
    ] {
        let mock = sending(&[head(0, status, &[]), data(END_STREAM, "ab")]);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        let client = trusting(&server, |_| {});
        let call = client.request(method, "strict", "/odd").send_streaming();
        let error = call.await.expect_err(name);
        assert_eq!(error.fault(), Some(Fault::InvalidResponse), "{name}: {error}");
    }
}

// Two calls share a connection, and the response to one breaks it. The other is innocent and goes again.
#[tokio::test]
async fn a_fault_of_another_call_on_the_connection_is_retried() {
    let (_, frames) = broken_connections().remove(0);
    let script = Script::new()
        .rule(ScriptMatch::path("/slow").first(1), MockFault::Hang)
        .rule(ScriptMatch::path("/odd"), MockFault::Held(together(&frames)));
    let mock = scripted(script);
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    let (slow, odd) = tokio::join!(client.get("strict", "/slow").send(), async {
        while mock.audit().attempts("/slow") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Its retries would break the next connection, too.
        client.get("strict", "/odd").no_retry().send().await
    });
    assert_eq!(slow.expect("the second time").attempts(), 2);
    odd.expect_err("broken");
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
            "an end of its own",
            Method::GET,
            vec![length("2"), data(0, "ab"), data(END_STREAM, "")],
            200,
            "ab",
        ),
        (
            "trailers",
            Method::GET,
            vec![
                length("2"),
                data(0, "ab"),
                frame(1, END_HEADERS | END_STREAM, 1, b"\x00\x01a\x01b"),
            ],
            200,
            "ab",
        ),
        // The library drops both; nothing of them reaches a caller.
        (
            "a path, which is for requests",
            Method::GET,
            vec![frame(1, END_HEADERS, 1, &[OK, 0x84]), data(END_STREAM, "ab")],
            200,
            "ab",
        ),
        (
            "a status among the trailers",
            Method::GET,
            vec![
                length("2"),
                data(0, "ab"),
                frame(1, END_HEADERS | END_STREAM, 1, &[NO_CONTENT]),
            ],
            200,
            "ab",
        ),
        (
            "HEAD with an end of its own",
            Method::HEAD,
            vec![length("7"), data(END_STREAM, "")],
            200,
            "",
        ),
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
