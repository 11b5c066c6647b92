//! Clients without a request keep no call out: neither by places nor by memory.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow_testkit::Background;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::support::{PATIENCE, TestConfig, TestSidecar, echo, rest, until};

/// The smallest budget that can be configured, so that few clients fill it.
const SMALL: &str = "max_memory = \"4MiB\"";

async fn start(server: &str) -> (TestSidecar, outflow_mock::Server) {
    let (_, api) = echo().await;
    let config = TestConfig {
        server,
        ..TestConfig::default()
    };
    (TestSidecar::for_api(&api.url(), config).await, api)
}

async fn send(sidecar: &TestSidecar, bytes: &[u8]) -> TcpStream {
    let mut stream = sidecar.connect().await;
    // A closed client cannot write all.
    let _closed = stream.write_all(bytes).await;
    stream
}

/// Waits for a response. A connection is idle only after a moment without a request.
async fn until_served(sidecar: &TestSidecar) {
    let served = async { while sidecar.get("/strict/x", "").await.status != 200 {} };
    timeout(PATIENCE, served).await.expect("a place");
}

// Three places: silent clients, unfinished heads and idle connections take them all.
#[tokio::test]
async fn a_call_takes_the_place_of_an_idle_connection() {
    let (sidecar, _api) = start("max_connections = 3").await;
    let host = sidecar.address;
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for begun in [
        "",
        "GET /strict/x HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &request,
    ] {
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = send(&sidecar, begun.as_bytes()).await;
            if begun == request {
                until(&mut client, "\"body_hash\"").await;
            }
            clients.push(client);
        }
        until_served(&sidecar).await;
        rest(clients.first_mut().expect("three")).await;
    }
}

// A connection in use keeps its place, although others come and go beside it.
#[tokio::test]
async fn a_connection_in_use_keeps_its_place() {
    let (sidecar, _api) = start("max_connections = 3").await;
    let host = sidecar.address;
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let mut used = sidecar.connect().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        used.write_all(request.as_bytes()).await.expect("open");
        until(&mut used, "\"body_hash\"").await;
        idle.push(send(&sidecar, b"GET").await);
    }
}

// After its request each connection would count 272 KiB: 15 of them would be all the memory.
#[tokio::test]
async fn idle_http_2_connections_keep_no_call_out() {
    let (sidecar, _api) = start(SMALL).await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        let io = TokioIo::new(sidecar.connect().await);
        let builder = Builder::new(TokioExecutor::new());
        let (mut client, connection) = builder.handshake(io).await.expect("HTTP/2");
        let connection = Background::start(connection);
        let url = format!("http://{}/strict/x", sidecar.address);
        let request = hyper::Request::get(url).body(Empty::<bytes::Bytes>::new());
        let response = client.send_request(request.expect("valid")).await.expect("a head");
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.expect("a body");
        clients.push((client, connection));
    }
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    assert!(
        clients.iter().all(|(client, _)| !client.is_closed()),
        "there is memory for all"
    );
}

// 200 unfinished heads of 29 kB, over HTTP/1 and HTTP/2, are more than all the memory.
#[tokio::test]
async fn unfinished_heads_keep_no_call_out() {
    let head = format!("GET /strict/x HTTP/1.1\r\nx: {}", "v".repeat(29_000));
    // A frame of 16 kB that begins a request head, and one that continues it.
    let frame = |kind: u8| [&[0, 0x3e, 0x80, kind, 0, 0, 0, 0, 1][..], &[0; 16_000]].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let begun = [&preface[..], &frame(1)].concat();
    for bytes in [head.as_bytes(), begun.get(..15_000).expect("long enough")] {
        let (sidecar, _api) = start(SMALL).await;
        let memory = sidecar.program.state().sidecar().memory();
        let mut clients = Vec::new();
        let mut peak = 0;
        for _ in 0..200 {
            clients.push(send(&sidecar, bytes).await);
            sleep(Duration::from_millis(5)).await;
            peak = peak.max(memory.used());
        }
        assert!(peak > 2 << 20, "they count: {peak}");
        until_served(&sidecar).await;
        // The oldest made room for the others.
        rest(clients.first_mut().expect("200")).await;
        drop(clients);
    }
}
