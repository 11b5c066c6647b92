//! Clients that close before their call has its permit: the call leaves the wait queue and is never sent.

use std::time::Duration;

use outflow_mock::{MockApi, MockResponse, Script, ScriptMatch, ScriptedFault, Server};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::support::{PATIENCE, TestConfig, TestSidecar};

/// Starts an API that never finishes its first call. One call at a time: all others wait.
async fn busy() -> (MockApi, Server, TestSidecar, TcpStream) {
    let late = ScriptedFault::Late(Duration::from_hours(1));
    let api = MockApi::builder()
        .answer("/**", MockResponse::echo())
        .script(Script::new().rule(ScriptMatch::path("/late"), late))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "limits = []\nconcurrency = 1\nmax_wait = \"1m\"\ntimeout = \"1m\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut first = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/late", "");
    first.write_all(request.as_bytes()).await.expect("written");
    let arrived = async {
        while api.audit().count() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("it arrives");
    (api, server, sidecar, first)
}

async fn until_waiting(sidecar: &TestSidecar, count: usize, what: &str) {
    let upstream = sidecar.program.state().client().upstream("strict").expect("known");
    let reached = async {
        while upstream.report().waiting != count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = timeout(PATIENCE, reached).await;
    assert!(reached.is_ok(), "{what}: {} wait", upstream.report().waiting);
}

// Bodies above 64 KiB are not collected. The first stays in the buffers of the system unread, because its client
// waits for permission to send; the second fits into them; the end of the third lies behind unread bytes; the
// fourth never arrives completely; the fifth has no length.
#[tokio::test]
async fn a_client_that_closes_behind_an_unread_body_leaves_the_queue() {
    let (api, _server, sidecar, first) = busy().await;
    let body = "y".repeat(300_000);
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    for (headers, sent) in [
        ("content-length: 300000\r\nexpect: 100-continue\r\n", ""),
        ("content-length: 70000\r\n", body.get(..70_000).expect("long enough")),
        ("content-length: 300000\r\n", &body),
        ("content-length: 9000000\r\n", &body),
        ("transfer-encoding: chunked\r\n", &chunk),
    ] {
        let mut stream = sidecar.connect().await;
        let request = sidecar.request("POST", "/strict/x", headers) + sent;
        stream.write_all(request.as_bytes()).await.expect("written");
        until_waiting(&sidecar, 1, headers).await;
        drop(stream);
        until_waiting(&sidecar, 0, headers).await;
    }
    drop(first);
    // The place of the first call is free: no closed client got it.
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    assert_eq!(api.audit().count(), 2, "the late call and the last one");
}

// Up to half a megabyte is read ahead. The API gets the same bytes as from a call that did not wait.
#[tokio::test]
async fn a_body_that_was_read_ahead_arrives_complete() {
    let (_api, _server, sidecar, first) = busy().await;
    let post = |length: usize| {
        let body: String = ('a'..='z').cycle().take(length).collect();
        sidecar.request("POST", "/strict/x", &format!("content-length: {length}\r\n")) + &body
    };
    let chunked = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n";
    let requests = [post(70_000), post(400_000), post(3_000_000), chunked];
    let waited = async {
        let [one, two, three, four] = requests.each_ref().map(|request| sidecar.exchange(request));
        tokio::join!(one, two, three, four)
    };
    let freed = async {
        until_waiting(&sidecar, requests.len(), "all").await;
        drop(first);
    };
    let ((one, two, three, four), ()) = tokio::join!(waited, freed);
    for (request, waited) in requests.iter().zip([one, two, three, four]) {
        let direct = sidecar.exchange(request).await;
        assert_eq!((waited.status, direct.status), (200, 200));
        assert_eq!(waited.json()["body_hash"], direct.json()["body_hash"]);
    }
}
