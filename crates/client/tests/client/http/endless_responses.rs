//! Servers that never stop sending: each call ends, the next one gets another connection, and
//! memory does not fill.

use std::time::Duration;

use bytes::Bytes;
use outflow::{Api, Outflow};
use outflow_mock::{Content, Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault, Server, Tls};

use super::h2_frames::{frame, head, interim};
use super::support::{over_sockets, scripted, trusting};
use crate::support::own_process::{MIB, is_alone, peak};

/// Sends the first bytes, then the others for ever, in batches of a hundred pieces.
fn endless(first: impl Into<Bytes>, again: &[u8]) -> ScriptedFault {
    ScriptedFault::from(Fault::Endless {
        first: first.into(),
        again: again.repeat(100).into(),
        every: Duration::ZERO,
    })
}

/// Returns floods over HTTP/1.1.
fn plain() -> Vec<(&'static str, ScriptedFault)> {
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n";
    let start = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let gigabyte = Content::Zeros(1_024 * MIB);
    vec![
        ("100", endless("", b"HTTP/1.1 100 Continue\r\n\r\n")),
        ("103", endless("", interim.as_bytes())),
        ("head", endless(start, b"x-more: to come\r\n")),
        ("one line", endless(start, b"x")),
        ("status line", endless("HTTP/1.1 200 ", b"O")),
        ("chunks", endless(chunked, b"1\r\nx\r\n")),
        ("chunk size", endless(chunked, b"0")),
        ("chunk extension", endless(format!("{chunked}1;"), b"x")),
        ("trailers", endless(format!("{chunked}0\r\n"), b"x: y\r\n")),
        ("header", Fault::HugeHeader(10_000_000).into()),
        ("headers", Fault::ManyHeaders(10_000).into()),
        ("body", MockResponse::ok("").content(gigabyte).into()),
    ]
}

/// Returns floods over HTTP/2.
fn framed() -> Vec<(&'static str, ScriptedFault)> {
    let (nothing, named) = (&[][..], &[0x00, 1, b'a', 1, b'b']);
    let open = frame(1, 0, 1, &[0x88]);
    vec![
        ("settings", endless("", &frame(4, 0, 0, nothing))),
        ("ping", endless("", &frame(6, 0, 0, &[7; 8]))),
        ("window", endless("", &frame(8, 0, 0, &[0, 0, 0, 1]))),
        ("unknown", endless("", &frame(99, 0, 0, &[7; 8]))),
        ("interim", endless("", &interim())),
        ("empty data", endless(head(), &frame(0, 0, 1, nothing))),
        ("small data", endless(head(), &frame(0, 0, 1, b"x"))),
        ("padding", endless(head(), &frame(0, 8, 1, &[200; 201]))),
        ("continuation", endless(open.clone(), &frame(9, 0, 1, nothing))),
        ("continued", endless(open, &frame(9, 0, 1, named))),
    ]
}

fn hasty(api: &mut Api) {
    api.retry.count = 0;
    api.timeouts.read = Duration::from_millis(300);
    api.timeouts.attempt = Duration::from_secs(1);
    api.max_body = 100_000;
}

/// Floods one call, and makes another.
async fn survives(name: &str, mock: &MockApi, client: &Outflow) {
    let flooded = client.get("strict", "/flood").send();
    let ended = tokio::time::timeout(Duration::from_secs(10), flooded).await;
    let error = ended.expect(name).expect_err(name);
    assert!(!error.is_connect(), "{name}: {error}");
    assert!(client.upstream("strict").expect("there").is_idle(), "{name}");
    let next = client.get("strict", "/next").send().await;
    assert_eq!(next.expect(name).status(), 200, "{name}");
    let audit = mock.audit();
    let mut used = audit.arrivals().iter().map(|one| one.connection);
    assert_ne!(used.next(), used.next(), "{name}");
    assert_eq!(used.next(), None, "{name}");
    assert_eq!(mock.totals().reused_after_fault, 0, "{name}");
}

/// Builds a server that floods the path `/flood`.
fn flooding(act: ScriptedFault) -> MockApi {
    scripted(Script::new().rule(ScriptMatch::path("/flood"), act))
}

// Twenty floods in sequence, each as long as its call's timeout.
#[tokio::test]
async fn no_flood_outlasts_its_call_or_fills_the_memory() {
    if !is_alone("http::endless_responses::no_flood_outlasts_its_call_or_fills_the_memory") {
        return;
    }
    let before = peak();
    for (name, act) in plain() {
        let mock = flooding(act);
        let server: Server = mock.listen().await.expect("a port");
        survives(name, &mock, &over_sockets(&server, hasty)).await;
    }
    for (name, act) in framed() {
        let mock = flooding(act);
        let server = mock.listen_tls(Tls::Good).await.expect("a port");
        survives(name, &mock, &trusting(&server, hasty)).await;
    }
    let grown = peak().saturating_sub(before);
    assert!(grown <= 64 * MIB, "{} MiB", grown / MIB);
}
