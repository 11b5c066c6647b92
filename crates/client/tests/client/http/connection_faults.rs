//! Connection faults, and the errors that callers see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use outflow::event::{FailureLabel, StatusLabel};
use outflow::{Api, Error, Outflow, Rules, WaitMode};
use outflow_mock::{Fault, Script, ScriptMatch};
use outflow_testkit::{Background, EventRecorder};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::support::{eager, one_at_a_time, over_pipes, over_sockets, scripted};

async fn call_with_fault(fault: Fault) -> (Result<u16, Error>, Option<FailureLabel>, StatusLabel) {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), fault));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| {
        api.timeouts.read = Duration::from_millis(200);
        api.retry.count = 0;
    });
    let recorder = EventRecorder::subscribed_to(client.events());
    let ended = client.get("strict", "/").send().await;
    let reported = recorder.finished().remove(0);
    (
        ended.map(|response| response.status().as_u16()),
        reported.reason,
        reported.status,
    )
}

// Each fault with its labels in a log line and a metric.
#[tokio::test]
async fn every_fault_has_one_label() {
    for (fault, reason, status) in [
        (Fault::ResetBeforeHead, FailureLabel::Network, StatusLabel::Network),
        (Fault::CloseBeforeHead, FailureLabel::Network, StatusLabel::Network),
        (Fault::ResetInBody, FailureLabel::Body, StatusLabel::Network),
        (Fault::CutBody, FailureLabel::Body, StatusLabel::Network),
        (Fault::CutChunk, FailureLabel::Body, StatusLabel::Network),
        (Fault::Hang, FailureLabel::Timeout, StatusLabel::Timeout),
        (Fault::Garbage, FailureLabel::Invalid, StatusLabel::Network),
        (Fault::Unasked101, FailureLabel::Invalid, StatusLabel::Network),
        (
            Fault::HugeHeader(1_000_000),
            FailureLabel::Invalid,
            StatusLabel::Network,
        ),
        (Fault::ManyHeaders(10_000), FailureLabel::Invalid, StatusLabel::Network),
        (
            Fault::EndlessHead(Duration::from_millis(20)),
            FailureLabel::Timeout,
            StatusLabel::Timeout,
        ),
    ] {
        let (ended, reported, class) = call_with_fault(fault.clone()).await;
        let error = ended.expect_err("no answer");
        assert_eq!((reported, class), (Some(reason), status), "{fault:?}: {error}");
        assert_eq!(error.is_timeout(), status == StatusLabel::Timeout, "{fault:?}");
        assert_eq!(error.is_body(), reason == FailureLabel::Body, "{fault:?}");
        assert!(!error.is_connect(), "{fault:?}: something was sent");
    }
}

// Bytes behind a response belong to no call: the pool drops the connection.
#[tokio::test]
async fn a_connection_with_surplus_bytes_is_never_reused() {
    for fault in [Fault::TwoAnswers, Fault::Surplus] {
        let mock = scripted(Script::new().rule(ScriptMatch::path("/odd"), fault.clone()));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |_| {});
        let odd = client.get("strict", "/odd").send().await.expect("the first answer");
        assert_eq!(odd.status(), 200, "{fault:?}");
        let next = client.get("strict", "/next").send().await.expect("its own answer");
        assert_eq!(next.status(), 200, "{fault:?}");
        let audit = mock.audit();
        let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
        assert_eq!(audit.attempts("/next"), 1, "{fault:?}");
        assert_ne!(used[0], used[1], "{fault:?}");
    }
}

// The second response arrives just after the first, on an idle or reassigned connection: no call
// may get it.
#[tokio::test]
async fn an_unsolicited_response_reaches_no_call() {
    let response = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n{body}");
    let fault = Fault::Endless {
        first: response("wanted").into(),
        again: response("stolen").into(),
        every: Duration::from_millis(1),
    };
    let mock = scripted(Script::new().rule(ScriptMatch::path("/odd"), fault));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    for _ in 0..50 {
        for (path, wanted) in [("/odd", "wanted"), ("/next", r#"{"ok":true}"#)] {
            let response = client.get("strict", path).send().await.expect(path);
            assert_eq!(response.text().await.expect(path), wanted);
        }
    }
    assert_eq!(mock.audit().attempts("/next"), 50);
}

// The pool closes a connection after a protocol violation, even if the server keeps it open.
#[tokio::test]
async fn a_connection_with_a_protocol_violation_is_never_reused() {
    for fault in [
        Fault::Unasked101,
        Fault::Held("no status line, as before HTTP/1.0\n".into()),
        Fault::Held("HTTP/1.1 200 OK\r\nbad header\r\n\r\n".into()),
        Fault::Held("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".into()),
        Fault::Held("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n".into()),
        Fault::HugeHeader(100_000),
        Fault::ManyHeaders(10_000),
    ] {
        let mock = scripted(Script::new().rule(ScriptMatch::path("/odd"), fault.clone()));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.retry.count = 0);
        let odd = client.get("strict", "/odd").send().await;
        assert!(odd.is_err(), "{fault:?}: {odd:?}");
        let next = client.get("strict", "/next").send().await;
        assert_eq!(next.expect("its own").status(), 200, "{fault:?}");
        let audit = mock.audit();
        let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
        assert_ne!(used[0], used[1], "{fault:?}");
        assert_eq!(mock.totals().reused_after_fault, 0, "{fault:?}");
    }
}

// A byte a second, of the head and of the body, with one call in flight. The head must arrive
// within five seconds of silence, the body within the attempt's ten.
#[tokio::test(start_paused = true)]
async fn a_dripping_server_holds_a_permit_only_until_the_timeout() {
    let drip = |first: &'static str| Fault::Endless {
        first: first.into(),
        again: "x".into(),
        every: Duration::from_secs(1),
    };
    for (first, most) in [
        ("HTTP/1.1 200 OK\r\nx-slow: ", 5),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", 10),
    ] {
        let mock = scripted(Script::new().rule(ScriptMatch::path("/drip"), drip(first)));
        let client = over_pipes(&mock, |api| {
            api.timeouts.read = Duration::from_secs(5);
            api.timeouts.attempt = Duration::from_secs(10);
            api.retry.count = 0;
            api.rules.health = one_at_a_time();
        });
        let drip = client.get("strict", "/drip").send();
        let next = client.get("strict", "/next").max_wait(Duration::from_mins(1));
        let (slow, next) = tokio::join!(drip, next.send());
        assert!(slow.expect_err("too slow").is_timeout(), "{first:?}");
        assert_eq!(next.expect("a place").waited().as_secs(), most, "{first:?}");
    }
}

// A hundred thousand interim responses are 2.6 MB: read, skipped and never stored.
#[tokio::test]
async fn the_client_skips_interim_responses() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), Fault::InterimFlood(100_000)));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let response = client.get("strict", "/").send().await.expect("the real one");
    assert_eq!((response.status().as_u16(), response.attempts()), (200, 1));
}

// 198.51.100.1 is reserved for documentation and never responds; a pipe that never opens replaces
// it.
#[tokio::test(start_paused = true)]
async fn connecting_has_its_own_timeout() {
    let mut api = eager("http://api.example.com");
    api.retry.count = 0;
    api.timeouts.connect = Duration::from_millis(700);
    let never = |_: &str, _: u16| -> outflow::Connecting { Box::pin(std::future::pending()) };
    let client = Outflow::builder().api(api).connector(Arc::new(never));
    let client = client
        .timer(Arc::new(outflow_testkit::VirtualTime::new()))
        .build()
        .expect("valid");
    let began = tokio::time::Instant::now();
    let error = client.post("strict", "/").send().await.expect_err("never");
    assert!(error.is_timeout() && error.is_connect(), "{error}");
    assert_eq!(began.elapsed().as_millis(), 700);
}

#[tokio::test]
async fn invalid_calls_never_reach_the_network() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| api.methods = vec![Method::GET, Method::POST]);
    for (call, words) in [
        (client.get("unknown", "/"), "there is no API `unknown`"),
        (client.get("strict", "//evil.example"), "two could be read as a host"),
        (client.delete("strict", "/"), "DELETE is not among the methods"),
        (client.get("strict", "/").header("x-bad\r\n", "v"), "invalid character"),
        (
            client.get("strict", "/").header("x", "v\r\nx-evil: 1"),
            "invalid character",
        ),
        (
            client.get("strict", "/").header("host", "evil.example"),
            "remove this header",
        ),
        (
            client.post("strict", "/").header("content-length", "3"),
            "remove this header",
        ),
        (
            client.post("strict", "/").header("transfer-encoding", "chunked"),
            "remove this header",
        ),
        (client.get("strict", "/").group("unknown"), "no group `unknown`"),
        (client.get("strict", "/").trace_parent("00-1-2-3"), "traceparent"),
    ] {
        let error = call.send().await.expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.attempts(), 0);
    }
    assert_eq!(mock.audit().count(), 0);
}

// One call a minute: the server may have counted the first, so the second waits.
#[tokio::test]
async fn a_call_lost_after_sending_still_counts() {
    for fault in [
        Fault::ResetUnread,
        Fault::ResetBeforeHead,
        Fault::CloseBeforeHead,
        Fault::Hang,
        Fault::Garbage,
        Fault::Unasked101,
        Fault::CutBody,
        Fault::ResetInBody,
    ] {
        let mock = scripted(Script::new().rule(ScriptMatch::always(), fault.clone()));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |api| {
            api.rules = Rules::with_limit("1/min".parse().expect("valid"));
            api.timeouts.read = Duration::from_millis(100);
            api.retry.count = 0;
        });
        let lost = client.get("strict", "/").send().await;
        assert!(lost.is_err(), "{fault:?}");
        let next = client.get("strict", "/").mode(WaitMode::Reject).send().await;
        let next = next.expect_err("the minute is used up");
        assert!(next.is_rate_limited(), "{fault:?}: {next}");
        assert_eq!(mock.audit().count(), 1, "{fault:?}");
    }
}

// One call a minute, and the first finds no connection: the second may use the minute.
#[tokio::test(start_paused = true)]
async fn an_unsent_call_takes_nothing_from_the_limit() {
    let server = Arc::new(scripted(Script::new()).in_memory());
    let mut api = eager("http://api.example.com");
    api.rules = Rules::with_limit("1/min".parse().expect("valid"));
    api.retry.count = 0;
    let tried = AtomicU32::new(0);
    let second_time = move |_: &str, _: u16| -> outflow::Connecting {
        let first = tried.fetch_add(1, Ordering::Relaxed) == 0;
        let pipe: Box<dyn outflow::IoStream> = Box::new(server.connect());
        let refused = std::io::ErrorKind::ConnectionRefused;
        Box::pin(async move { if first { Err(refused.into()) } else { Ok(pipe) } })
    };
    let client = Outflow::builder().api(api).connector(Arc::new(second_time));
    let client = client.timer(Arc::new(outflow_testkit::VirtualTime::new()));
    let client = client.build().expect("valid");
    let error = client.get("strict", "/").send().await.expect_err("refused");
    assert!(error.is_connect() && error.to_string().contains("refused"), "{error}");
    let response = client.get("strict", "/").mode(WaitMode::Reject).send().await;
    assert_eq!(response.expect("the minute's one").waited(), Duration::ZERO);
    let third = client.get("strict", "/").mode(WaitMode::Reject).send().await;
    assert!(third.expect_err("used up").is_rate_limited());
}

// The head settled the attempt as a success: only the body's end shows the failure. The metrics
// must show it as the state machine does.
#[tokio::test]
async fn a_broken_body_counts_as_a_failure() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), Fault::CutBody));
    let server = mock.listen().await.expect("a port");
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    api.retry.count = 0;
    let client = Outflow::init([api]).expect("valid");
    assert!(client.get("strict", "/").send().await.is_err());
    let metrics = client.metrics().expect("of a configuration").render();
    let line = "external_failures_total{api=\"strict\",reason=\"body\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    let attempts = "requests_total{api=\"strict\",code=\"200\"} 1\n";
    assert!(metrics.contains(attempts), "{metrics}");
}

/// Starts a server that sends these bytes on each new connection, and stays open if there are any. Returns the
/// client and the number of connections.
async fn greeting(bytes: &'static [u8]) -> (Outflow, Arc<AtomicU32>, Background<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let opened = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&opened);
    let work = Background::start(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            let _gone = stream.write_all(bytes).await;
            held.extend((!bytes.is_empty()).then_some(stream));
        }
    });
    (Outflow::init([eager(&url)]).expect("valid"), opened, work)
}

// The greeting arrives before, with or after the request, so twenty rounds on two threads see all of these. With
// the default two retries: another connection brings the same greeting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_speaks_first_is_asked_once() {
    for bytes in [&b"SSH-2.0-OpenSSH_9.9\r\n"[..], b"220 mail.example ESMTP\r\n", b"+"] {
        for round in 0..20 {
            let (client, opened, _work) = greeting(bytes).await;
            let error = client.get("strict", "/").send().await.expect_err("not HTTP");
            assert_eq!(
                error.fault(),
                Some(outflow::core::Fault::InvalidResponse),
                "{round}: {error}"
            );
            assert_eq!(opened.load(Ordering::Relaxed), 1, "{round}: {error}");
        }
    }
}

// A closed connection may be a restart of the server.
#[tokio::test]
async fn a_server_that_closes_new_connections_is_asked_again() {
    let (client, opened, _work) = greeting(b"").await;
    let error = client.get("strict", "/").send().await.expect_err("closed");
    assert_eq!((error.attempts(), opened.load(Ordering::Relaxed)), (3, 3), "{error}");
}
