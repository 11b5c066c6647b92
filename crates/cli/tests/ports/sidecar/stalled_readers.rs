//! Readers over HTTP/2: whoever takes nothing loses its place, and whoever is only told nothing does not.

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

use super::support::{PATIENCE, Sidecar, Told};

struct Reader {
    client: SendRequest<Empty<Bytes>>,
    host: String,
    _connection: Background<Result<(), hyper::Error>>,
}

impl Reader {
    /// One that gives leave for so many bytes of an answer before it has read any.
    async fn giving(leave: u32, sidecar: &Sidecar) -> Self {
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

/// A sidecar with one place at an API that has this to say.
async fn with_one_place(content: Content) -> (Server, Sidecar) {
    let api = MockApi::builder()
        .answer("/long", MockResponse::status(200).content(content))
        .build();
    let server = api.expect("valid").listen().await.expect("a port");
    // The API itself is in no hurry, so that nothing but the reader can end a call.
    let told = Told {
        server: "body_timeout = \"400ms\"",
        api: "limits = [\"1000/s\"]\nconcurrency = 1\ntimeout = \"1m\"\nread_timeout = \"1m\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    (server, sidecar)
}

// Leave for one byte of an endless answer, and for none after it.
#[tokio::test]
async fn who_gives_no_leave_to_send_loses_the_place() {
    let (_server, sidecar) = with_one_place(Content::Endless).await;
    let mut reader = Reader::giving(1, &sidecar).await;
    let untaken = reader.get("/strict/long").await;
    let reply = timeout(PATIENCE, sidecar.get("/strict/quick", "")).await;
    assert_eq!(reply.expect("a place").status, 200);
    // The connection is as good as before, and that answer is lost.
    assert_eq!(reader.get("/nobody/x").await.status(), 404);
    let read = timeout(PATIENCE, untaken.into_body().collect()).await;
    assert!(read.expect("an end").is_err());
}

// No leave for a single byte of our own words, which are not kept for ever either: once they were given
// up, nothing is under way, and the connection is as idle as any.
#[tokio::test]
async fn who_does_not_take_our_own_words_loses_them() {
    let told = Told {
        server: "body_timeout = \"300ms\"\nidle_timeout = \"300ms\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before("http://127.0.0.1:9", told).await;
    let mut reader = Reader::giving(0, &sidecar).await;
    let untaken = reader.get("/nobody/x").await;
    assert_eq!(untaken.status(), 404);
    let read = timeout(PATIENCE, untaken.into_body().collect()).await;
    assert!(read.expect("an end").is_err());
}

// A byte every 700 ms, where a reader has 400 ms to take one: it is the API that is slow.
#[tokio::test]
async fn who_is_told_nothing_for_long_loses_nothing() {
    let (_server, sidecar) = with_one_place(Content::Drip {
        bytes: Bytes::from_static(b"abc"),
        every: Duration::from_millis(700),
    })
    .await;
    let mut reader = Reader::giving(1_000, &sidecar).await;
    let answer = reader.get("/strict/long").await;
    let body = timeout(PATIENCE, answer.into_body().collect()).await;
    let body = body.expect("an end").expect("whole").to_bytes();
    assert_eq!(body, "abc");
}
