//! The sidecar streams bodies, events, trailers and interim responses without delay.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow_mock::{Content, Fault, MockApi, MockResponse, Script, ScriptMatch};
use outflow_testkit::Background;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::support::{PATIENCE, RawResponse, RecordingApi, TestConfig, TestSidecar, echo, rest, until};

// A byte every half second for two minutes: a sidecar that buffers would miss the deadline.
#[tokio::test]
async fn the_sidecar_streams_events_as_they_come() {
    let drip = Content::Drip {
        bytes: Bytes::from_static(&[b'x'; 240]),
        every: Duration::from_millis(500),
    };
    let events = MockResponse::status(200)
        .header("content-type", "text/event-stream")
        .content(drip);
    let api = MockApi::builder().answer("/events", events).build();
    let server = api.expect("valid").listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let mut stream = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/events", "");
    stream.write_all(request.as_bytes()).await.expect("written");
    let first = timeout(PATIENCE, until(&mut stream, "\r\n\r\nx")).await;
    assert!(first.expect("before the end").contains("text/event-stream"));
}

// The client hangs up in the middle of an endless body. The API allows one call at a time, so the second call
// proceeds only if the first freed its slot.
#[tokio::test]
async fn a_client_that_hangs_up_frees_its_slot() {
    let api = MockApi::builder()
        .answer("/endless", MockResponse::status(200).content(Content::Endless))
        .build();
    let server = api.expect("valid").listen().await.expect("a port");
    let one = TestConfig {
        api: "limits = [\"1000/s\"]\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), one).await;
    for _ in 0..3 {
        let mut stream = sidecar.connect().await;
        let request = sidecar.request("GET", "/strict/endless", "");
        stream.write_all(request.as_bytes()).await.expect("written");
        until(&mut stream, "200 OK").await;
        drop(stream);
    }
    assert_eq!(sidecar.get("/strict/quick", "").await.status, 200);
}

// The call still waits, because an endless one holds the only slot. A client that closes only its sending
// side looks the same and counts as gone too.
#[tokio::test]
async fn a_waiting_client_that_hangs_up_leaves_the_queue() {
    let api = MockApi::builder()
        .answer("/endless", MockResponse::status(200).content(Content::Endless))
        .build();
    let server = api.expect("valid").listen().await.expect("a port");
    let one = TestConfig {
        api: "limits = [\"1000/s\"]\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), one).await;
    let mut first = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/endless", "");
    first.write_all(request.as_bytes()).await.expect("written");
    until(&mut first, "200 OK").await;
    let state = sidecar.program.state();
    let client = state.client();
    let waiting = || client.upstream("strict").expect("known").report().waiting;
    let request = sidecar.request("GET", "/strict/later", "");
    let comes_to = async |count| {
        while waiting() != count {
            tokio::task::yield_now().await;
        }
    };
    let mut second = sidecar.connect().await;
    second.write_all(request.as_bytes()).await.expect("written");
    timeout(PATIENCE, comes_to(1)).await.expect("it waits");
    drop(second);
    timeout(PATIENCE, comes_to(0)).await.expect("it left");
    let mut third = sidecar.connect().await;
    third.write_all(request.as_bytes()).await.expect("written");
    timeout(PATIENCE, comes_to(1)).await.expect("it waits");
    third.shutdown().await.expect("closed");
    timeout(PATIENCE, comes_to(0)).await.expect("it left");
}

// The API answers only when the trailer has arrived.
#[tokio::test]
async fn the_sidecar_forwards_request_trailers() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let tape = RecordingApi::answering("\r\n0\r\nx-sum: 6\r\n\r\n", answer).await;
    let sidecar = TestSidecar::for_api(&tape.url, TestConfig::default()).await;
    let headers = "transfer-encoding: chunked\r\ntrailer: x-sum\r\n";
    let request = sidecar.request("POST", "/strict/up", headers);
    let body = "3\r\nabc\r\n0\r\nx-sum: 6\r\nx-other: 7\r\n\r\n";
    assert_eq!(sidecar.exchange(request + body).await.status, 200);
    let got = tape.got().to_ascii_lowercase();
    assert!(got.contains("trailer: x-sum"), "{got}");
    assert!(!got.contains("x-other"), "an unannounced trailer is dropped: {got}");
}

// The response is raw bytes, because the mock API sends no trailers.
#[tokio::test]
async fn the_sidecar_forwards_response_trailers_to_willing_callers() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                  3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n";
    for (asked, forwarded) in [("te: trailers\r\n", true), ("", false)] {
        let script = Script::new().rule(ScriptMatch::always(), Fault::Bytes(answer.into()));
        let api = MockApi::builder().script(script).build().expect("valid");
        let server = api.listen().await.expect("a port");
        let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
        let request = sidecar.request("GET", "/strict/down", asked);
        let raw = sidecar.raw(request.as_bytes()).await;
        let text = String::from_utf8_lossy(&raw);
        assert_eq!(RawResponse::parse(&raw).body, "abc", "{text}");
        assert_eq!(text.contains("x-sum: 6"), forwarded, "{text}");
    }
}

// The limit allows one call an hour. The second is refused before it sends its body.
#[tokio::test]
async fn the_sidecar_sends_100_continue_with_the_permit() {
    let (_, server) = echo().await;
    let rare = TestConfig {
        api: "limits = [\"1/h\"]\nmax_wait = \"1s\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), rare).await;
    let headers = "content-length: 5\r\nexpect: 100-continue\r\n";
    let request = sidecar.request("PUT", "/strict/up", headers);

    let mut first = sidecar.connect().await;
    first.write_all(request.as_bytes()).await.expect("written");
    let leave = until(&mut first, "\r\n\r\n").await;
    assert!(leave.starts_with("HTTP/1.1 100 "), "{leave}");
    first.write_all(b"hello").await.expect("written");
    let reply = RawResponse::parse(&rest(&mut first).await);
    assert_eq!((reply.status, &reply.json()["body_length"]), (200, &5.into()));
    assert_eq!(reply.echoed("expect"), None);

    let refused = sidecar.exchange(request).await;
    assert_eq!(refused.status, 429, "{refused:?}");
}

// The response to a retry comes from a second attempt that sends the body again.
#[tokio::test]
async fn a_retry_resends_a_small_body_and_no_large_one() {
    let script = Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(503));
    for (length, headers, status, attempts) in [
        (1_000, "", 503, "1"),
        (1_000, "idempotency-key: a\r\n", 200, "2"),
        (1_000, "outflow-idempotent: true\r\n", 200, "2"),
        (100_000, "idempotency-key: a\r\n", 503, "1"),
    ] {
        let api = MockApi::builder()
            .script(script.clone())
            .answer("/**", MockResponse::echo())
            .build()
            .expect("valid");
        let server = api.listen().await.expect("a port");
        let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
        let length_line = format!("content-length: {length}\r\n{headers}");
        let request = sidecar.request("POST", "/strict/up", &length_line);
        let reply = sidecar.exchange(request + &"x".repeat(length)).await;
        let answered = (reply.status, reply.header("outflow-attempts"));
        assert_eq!(answered, (status, Some(attempts)), "{length} {headers}");
        if status == 200 {
            assert_eq!(reply.json()["body_length"], length);
        }
    }
}

#[tokio::test]
async fn bodyless_responses_keep_the_connection() {
    let api = MockApi::builder()
        .answer("/none", MockResponse::status(204))
        .answer("/same", MockResponse::status(304).header("etag", "\"1\""))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let host = sidecar.address;
    let line = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
    let requests = line("HEAD", "/strict/some")
        + "\r\n"
        + &line("GET", "/strict/none")
        + "\r\n"
        + &line("GET", "/strict/same")
        + "\r\n"
        + &line("GET", "/strict/some")
        + "connection: close\r\n\r\n";
    let raw = sidecar.raw(requests.as_bytes()).await;
    let text = String::from_utf8_lossy(&raw).into_owned();
    let statuses: Vec<_> = text
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &text[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "204", "304", "200"], "{text}");
    assert_eq!(text.matches("{\"ok\":true}").count(), 1, "{text}");
}

#[tokio::test]
async fn the_sidecar_accepts_http_2_with_prior_knowledge() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let io = TokioIo::new(sidecar.connect().await);
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut client, connection) = builder.handshake(io).await.expect("HTTP/2");
    let connection = Background::start(connection);
    let url = format!("http://{}/strict/two?q=%2F", sidecar.address);
    for _ in 0..3 {
        let body = Full::new(Bytes::from_static(b"hello"));
        let request = Request::put(&url).body(body).expect("valid");
        let answer = client.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["via"], "1.1 outflow");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let seen: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!((&seen["query"], &seen["body_length"]), (&"q=%2F".into(), &5.into()));
    }
    drop((client, connection));
}

// The response is fresh for a minute, so the second one comes from the cache and says so.
#[tokio::test]
async fn the_sidecar_answers_from_the_cache() {
    let kept = MockResponse::ok("{}").header("cache-control", "max-age=60");
    let api = MockApi::builder().answer("/**", kept).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "limits = [\"1000/s\"]\ncache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let first = sidecar.get("/strict/page", "").await;
    let second = sidecar.get("/strict/page", "").await;
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(
        first.header("cache-status"),
        Some("outflow; fwd=uri-miss; fwd-status=200; stored")
    );
    assert!(
        second
            .header("cache-status")
            .expect("a word")
            .starts_with("outflow; hit"),
        "{second:?}"
    );
    assert_eq!(second.header("outflow-attempts"), Some("0"));
    assert!(second.header("age").is_some(), "{second:?}");
    assert_eq!(api.audit().count(), 1);
    for (say, status) in [("bypass", 200), ("only", 200), ("default", 200)] {
        let reply = sidecar.get("/strict/page", &format!("outflow-cache: {say}\r\n")).await;
        assert_eq!(reply.status, status, "{say}");
    }
    assert_eq!(api.audit().count(), 2, "one went around it");
    let missing = sidecar.get("/strict/other", "outflow-cache: only\r\n").await;
    assert_eq!(missing.status, 504);
}

// Five bytes in two seconds, and a timeout of one second. The cache reads the body whole: a retry would only
// repeat that. Without a cache the body streams, and the caller's deadline bounds it.
#[tokio::test]
async fn a_timeout_bounds_a_body_that_is_read_whole() {
    let drip = Content::Drip {
        bytes: Bytes::from_static(b"abcde"),
        every: Duration::from_millis(400),
    };
    let slow = MockResponse::status(200).content(drip);
    let api = MockApi::builder().answer("/**", slow).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let url = server.url();
    let sidecar = async |api: &str| {
        TestSidecar::for_api(
            &url,
            TestConfig {
                api,
                ..TestConfig::default()
            },
        )
        .await
    };
    let streaming = sidecar("timeout = \"1s\"").await;
    let caching = sidecar("timeout = \"1s\"\nretry_count = 0\ncache = \"standard\"").await;
    let (streamed, cut, whole) = tokio::join!(
        streaming.get("/strict/slow", ""),
        streaming.get("/strict/slow", "outflow-deadline: 1s\r\n"),
        caching.get("/strict/slow", ""),
    );
    assert_eq!((streamed.status, &*streamed.body), (200, "abcde"));
    assert!(cut.status == 200 && cut.body.len() < 5, "{cut:?}");
    assert_eq!(whole.status, 504);
    assert_eq!(whole.problem()["type"], "urn:outflow:problem:timeout");
}
