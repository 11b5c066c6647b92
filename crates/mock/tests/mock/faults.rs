//! Every fault, as it looks on the wire.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use outflow_mock::{
    Content, Fault, MockApi, MockResponse, Received, RetryAfterForm, Script, ScriptMatch, ScriptedFault, Server,
    ThrottleResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::support::{api, first, get, head, header, last_get, said_to, serving, status, talk, tcp};

fn scripted(act: impl Into<ScriptedFault>) -> Server {
    let script = Script::new().rule(ScriptMatch::always(), act);
    serving(MockApi::builder().script(script))
}

async fn broken(fault: Fault) -> String {
    said_to(&scripted(fault), &get("/")).await
}

async fn reset_on_tcp(fault: Fault) -> (String, ErrorKind) {
    let script = Script::new().rule(ScriptMatch::always(), fault);
    let server = api(MockApi::builder().script(script)).listen().await.expect("a port");
    let (received, ended) = talk(tcp(&server).await, &get("/")).await;
    (received, ended.expect_err("a reset").kind())
}

#[tokio::test]
async fn a_reset_can_come_before_within_and_after_the_response() {
    let reset = ErrorKind::ConnectionReset;
    assert_eq!(reset_on_tcp(Fault::ResetBeforeHead).await, (String::new(), reset));
    let (received, kind) = reset_on_tcp(Fault::ResetInBody).await;
    assert!(received.ends_with("content-length: 1000\r\n\r\n{\"ok\":"), "{received}");
    assert_eq!(kind, reset);
    let (received, kind) = reset_on_tcp(Fault::ResetAfterBody).await;
    assert!(received.ends_with("content-length: 2\r\n\r\n{}"), "{received}");
    assert_eq!(kind, reset);
}

// Ten bytes are announced and four sent: with them unread the request is cut, and yet it arrived.
#[tokio::test]
async fn an_unread_body_is_reset() {
    let server = scripted(Fault::ResetUnread);
    let request = "POST /orders HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf";
    let (received, _) = talk(server.connect(), request).await;
    assert_eq!(received, "");
    let audit = server.api().audit();
    assert_eq!(audit.attempts("/orders"), 1);
    assert_eq!(audit.arrivals()[0].body, Received::Cut(0));
    assert_eq!(audit.arrivals()[0].status, None);
}

#[tokio::test]
async fn a_response_can_be_missing() {
    assert_eq!(broken(Fault::CloseBeforeHead).await, "");
}

#[tokio::test]
async fn bodies_can_end_before_their_announced_length() {
    let cut = broken(Fault::CutBody).await;
    assert_eq!(header(&cut, "content-length"), Some("1000"));
    assert!(cut.len() < 1_000, "{cut}");
    let chunk = broken(Fault::CutChunk).await;
    assert_eq!(header(&chunk, "transfer-encoding"), Some("chunked"));
    assert!(chunk.ends_with("\r\n64\r\ntru"), "{chunk}");
}

#[tokio::test]
async fn invalid_http_closes_the_connection() {
    assert!(broken(Fault::Garbage).await.starts_with("<html>"));
    let own = Fault::Bytes(Bytes::from_static(b"\x00\x01"));
    assert_eq!(broken(own).await, "\u{0}\u{1}");
}

// Data after the fault on its connection is counted: a client must not reuse it.
#[tokio::test]
async fn several_responses_leave_the_connection_open() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    for (fault, wanted) in [
        (Fault::TwoAnswers, whole.repeat(2)),
        (Fault::Surplus, format!("{whole}{{\"more\":true}}")),
        (
            Fault::InterimFlood(3),
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3) + whole,
        ),
        (
            Fault::Unasked101,
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: nothing\r\n\r\n".to_owned(),
        ),
    ] {
        let server = scripted(fault.clone());
        let mut pipe = server.connect();
        assert_eq!(first(&mut pipe, &get("/"), wanted.len()).await, wanted, "{fault:?}");
        assert_eq!(server.api().totals().reused_after_fault, 0, "{fault:?}");
        pipe.write_all(get("/again").as_bytes()).await.unwrap();
        pipe.shutdown().await.unwrap();
        assert_eq!(pipe.read(&mut [0]).await.unwrap(), 0, "nothing more is said");
        assert_eq!(server.api().totals().reused_after_fault, 1, "{fault:?}");
        assert_eq!(server.api().totals().seen, 1, "{fault:?}");
    }
}

#[tokio::test]
async fn heads_can_be_too_large() {
    let mut pipe = scripted(Fault::HugeHeader(10_000_000)).into_pipe();
    let received = first(&mut pipe.1, &get("/"), 10_000_050).await;
    assert_eq!(header(&received, "x-huge").map(str::len), Some(10_000_000));
    let mut pipe = scripted(Fault::ManyHeaders(10_000)).into_pipe();
    let received = head(&mut pipe.1, &get("/")).await;
    let lines = received.lines().filter(|line| line.starts_with("x-")).count();
    assert_eq!(lines, 10_000);
}

/// A server must outlive its pipe.
trait IntoPipe {
    fn into_pipe(self) -> (Server, tokio::io::DuplexStream);
}

impl IntoPipe for Server {
    fn into_pipe(self) -> (Server, tokio::io::DuplexStream) {
        let pipe = self.connect();
        (self, pipe)
    }
}

// At one line a second, the tenth comes after nine.
#[tokio::test(start_paused = true)]
async fn a_head_can_be_endless() {
    let (_server, mut pipe) = scripted(Fault::EndlessHead(Duration::from_secs(1))).into_pipe();
    let start = Instant::now();
    let length = "HTTP/1.1 200 OK\r\n".len() + 10 * "x-more: to come\r\n".len();
    let received = first(&mut pipe, &get("/"), length).await;
    assert!(!received.contains("\r\n\r\n"), "{received}");
    assert_eq!(start.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_hang_neither_responds_nor_closes() {
    let (_server, mut pipe) = scripted(Fault::Hang).into_pipe();
    pipe.write_all(get("/").as_bytes()).await.unwrap();
    let hour = Duration::from_hours(1);
    let silence = tokio::time::timeout(hour, pipe.read_u8()).await;
    silence.expect_err("not a word in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_body_can_be_slow() {
    let drip = Content::Drip {
        bytes: "slow".into(),
        every: Duration::from_secs(1),
    };
    let start = Instant::now();
    let received = said_to(&scripted(MockResponse::ok("").content(drip)), &last_get("/")).await;
    assert!(received.ends_with("\r\n\r\nslow"), "{received}");
    assert_eq!(header(&received, "content-length"), Some("4"));
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test]
async fn a_body_can_be_huge_or_have_no_end() {
    let length = 3_000_001;
    let zeros = MockResponse::ok("").content(Content::Zeros(length));
    let received = said_to(&scripted(zeros), &last_get("/")).await;
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert_eq!(header(head, "content-length"), Some("3000001"));
    assert_eq!(body.len(), usize::try_from(length).unwrap());
    let endless = MockResponse::ok("").content(Content::Endless);
    let (_server, mut pipe) = scripted(endless).into_pipe();
    let received = first(&mut pipe, &get("/"), 3_000_000).await;
    assert_eq!(header(&received, "content-length"), None);
}

#[tokio::test]
async fn throttle_responses_carry_any_retry_after() {
    let wait = Duration::from_secs(2);
    for (refusal, wanted, value) in [
        (ThrottleResponse::new(429, wait), "429", Some("2")),
        (
            ThrottleResponse::new(503, wait).with_retry_after(RetryAfterForm::Fraction),
            "503",
            Some("2.000"),
        ),
        (
            ThrottleResponse::new(429, wait).with_retry_after(RetryAfterForm::Nothing),
            "429",
            None,
        ),
        (ThrottleResponse::with_bytes("soon"), "429", Some("soon")),
        (ThrottleResponse::with_bytes(""), "429", Some("")),
    ] {
        let received = said_to(&scripted(refusal), &last_get("/")).await;
        assert_eq!(status(&received), wanted);
        assert_eq!(header(&received, "retry-after"), value, "{received}");
    }
    let twice = MockResponse::status(429)
        .header("retry-after", "1")
        .header("retry-after", "²");
    let received = said_to(&scripted(twice), &last_get("/")).await;
    assert_eq!(received.matches("retry-after").count(), 2, "{received}");
}

#[tokio::test]
async fn redirects_empty_and_bad_responses_are_plain_responses() {
    let received = said_to(
        &scripted(MockResponse::redirect(307, "http://other.test/x")),
        &last_get("/"),
    )
    .await;
    assert_eq!(status(&received), "307");
    assert_eq!(header(&received, "location"), Some("http://other.test/x"));
    let received = said_to(&scripted(MockResponse::status(204)), &last_get("/")).await;
    assert_eq!(status(&received), "204");
    assert!(received.ends_with("\r\n\r\n"), "{received}");
    let received = said_to(&scripted(MockResponse::bad_json()), &last_get("/")).await;
    assert!(received.ends_with("{\"ok\": tru"), "{received}");
}

#[tokio::test(start_paused = true)]
async fn a_response_can_be_late() {
    let start = Instant::now();
    let received = said_to(&scripted(ScriptedFault::Late(Duration::from_secs(3))), &last_get("/")).await;
    assert_eq!(status(&received), "200");
    assert_eq!(start.elapsed().as_secs(), 3);
}

// An outage from 10 to 20 s, with one call a second: ten fail, and the others do not.
#[tokio::test(start_paused = true)]
async fn an_outage_has_a_span() {
    let secs = Duration::from_secs;
    let outage = ScriptMatch::always().between(secs(10)..secs(20));
    let script = Script::new().rule(outage, MockResponse::status(503));
    let server = serving(MockApi::builder().script(script));
    for _ in 0..30 {
        said_to(&server, &last_get("/")).await;
        tokio::time::sleep(secs(1)).await;
    }
    let failed: Vec<_> = (0..30)
        .zip(server.api().audit().arrivals().iter())
        .filter(|(_, arrival)| arrival.status == Some(503))
        .map(|(second, _)| second)
        .collect();
    assert_eq!(failed, (10..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_response_can_depend_on_a_header() {
    let when = ScriptMatch::path("/page").header("accept", "text/csv");
    let script = Script::new().rule(when, MockResponse::ok("a,b").header("vary", "accept"));
    let server = serving(MockApi::builder().script(script));
    let asking = |accept| format!("GET /page HTTP/1.1\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
    assert!(said_to(&server, &asking("text/csv")).await.ends_with("a,b"));
    assert!(said_to(&server, &asking("text/html")).await.ends_with("{\"ok\":true}"));
}
