//! Readers over HTTP/2: one that stalls loses its slot, one that waits for a slow API does not.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow_mock::{Content, MockApi, MockResponse, Server};
use outflow_testkit::Background;
use tokio::time::timeout;

use super::support::{PATIENCE, TestConfig, TestSidecar};

struct Http2Reader {
    client: SendRequest<Empty<Bytes>>,
    host: String,
    _connection: Background<Result<(), hyper::Error>>,
}

impl Http2Reader {
    /// Connects with this initial window for each stream.
    async fn giving(leave: u32, sidecar: &TestSidecar) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(leave);
        let io = TokioIo::new(sidecar.connect().await);
        let (client, connection) = builder.handshake(io).await.expect("HTTP/2");
        Self {
            client,
            host: sidecar.address.to_string(),
            _connection: Background::start(connection),
        }
    }

    async fn get(&mut self, path: &str) -> Response<Incoming> {
        let url = format!("http://{}{path}", self.host);
        let request = Request::get(url).body(Empty::new()).expect("valid");
        let answer = timeout(PATIENCE, self.client.send_request(request)).await;
        answer.expect("in time").expect("an answer")
    }
}

/// Starts a sidecar with a concurrency of one and an API with this content.
async fn with_one_place(content: Content) -> (Server, TestSidecar) {
    let api = MockApi::builder()
        .answer("/long", MockResponse::status(200).content(content))
        .build();
    let server = api.expect("valid").listen().await.expect("a port");
    // The API's timeouts are long, so only the reader can end a call.
    let config = TestConfig {
        server: "body_timeout = \"400ms\"",
        api: "limits = [\"1000/s\"]\nconcurrency = 1\ntimeout = \"1m\"\nread_timeout = \"1m\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    (server, sidecar)
}

// A window of one byte for an endless response, and no update after it.
#[tokio::test]
async fn a_reader_without_window_loses_its_slot() {
    let (_server, sidecar) = with_one_place(Content::Endless).await;
    let mut reader = Http2Reader::giving(1, &sidecar).await;
    let untaken = reader.get("/strict/long").await;
    let reply = timeout(PATIENCE, sidecar.get("/strict/quick", "")).await;
    assert_eq!(reply.expect("a place").status, 200);
    // The connection still works, and that response is lost.
    assert_eq!(reader.get("/unknown/x").await.status(), 404);
    let read = timeout(PATIENCE, untaken.into_body().collect()).await;
    assert!(read.expect("an end").is_err());
}

// The window allows no byte of the sidecar's own response. Once the sidecar drops it, nothing is in flight
// and the connection is idle.
#[tokio::test]
async fn the_sidecar_drops_its_own_response_to_a_stalled_reader() {
    let config = TestConfig {
        server: "body_timeout = \"300ms\"\nidle_timeout = \"300ms\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api("http://127.0.0.1:9", config).await;
    let mut reader = Http2Reader::giving(0, &sidecar).await;
    let untaken = reader.get("/unknown/x").await;
    assert_eq!(untaken.status(), 404);
    let read = timeout(PATIENCE, untaken.into_body().collect()).await;
    assert!(read.expect("an end").is_err());
}

// The API sends a byte every 700 ms, and the reader has 400 ms to take one: the API is slow, not the reader.
#[tokio::test]
async fn a_reader_of_a_slow_api_keeps_its_slot() {
    let (_server, sidecar) = with_one_place(Content::Drip {
        bytes: Bytes::from_static(b"abc"),
        every: Duration::from_millis(700),
    })
    .await;
    let mut reader = Http2Reader::giving(1_000, &sidecar).await;
    let answer = reader.get("/strict/long").await;
    let body = timeout(PATIENCE, answer.into_body().collect()).await;
    let body = body.expect("an end").expect("whole").to_bytes();
    assert_eq!(body, "abc");
}
