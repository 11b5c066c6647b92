//! Bounds of HTTP/2 beyond those of its library, and header names with an underscore.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow_mock::{MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::Background;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::support::{PATIENCE, TestConfig, TestSidecar, echo, rest, until};

struct Http2Client {
    client: SendRequest<Empty<Bytes>>,
    _connection: Background<Result<(), hyper::Error>>,
}

impl Http2Client {
    async fn connect(sidecar: &TestSidecar) -> Self {
        let io = TokioIo::new(sidecar.connect().await);
        let (client, connection) = handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        Self {
            client,
            _connection: Background::start(connection),
        }
    }

    /// Returns the status and the body.
    async fn json(&mut self, request: http::request::Builder) -> (u16, Value) {
        let request = request.body(Empty::new()).expect("valid");
        let response = timeout(PATIENCE, self.client.send_request(request)).await;
        let response = response.expect("in time").expect("a response");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("whole").to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Returns the status and the type of the problem.
    async fn send(&mut self, request: http::request::Builder) -> (u16, String) {
        let (status, problem) = self.json(request).await;
        let kind = problem.get("type").and_then(Value::as_str).unwrap_or_default();
        (status, kind.trim_start_matches("urn:outflow:problem:").to_owned())
    }
}

// Twenty headers, because the mock API allows no more than the default of a hundred and the sidecar adds some.
#[tokio::test]
async fn http_2_obeys_the_number_of_headers() {
    let (api, server) = echo().await;
    let config = TestConfig {
        server: "max_headers = 20",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut client = Http2Client::connect(&sidecar).await;
    let url = format!("http://{}/strict/x", sidecar.address);
    let with = |count: usize| (0..count).fold(Request::get(&url), |request, number| request.header("x", number));
    assert_eq!(client.send(with(20)).await, (200, String::new()));
    assert_eq!(client.send(with(21)).await, (431, "too_many".to_owned()));
    assert_eq!(api.audit().count(), 1);
}

// A client may split its cookies over HTTP/2. The API, over HTTP/1.1, gets them in one field.
#[tokio::test]
async fn split_cookies_reach_the_api_in_one_field() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let mut client = Http2Client::connect(&sidecar).await;
    let request = Request::get(format!("http://{}/strict/x", sidecar.address));
    let request = request
        .header("cookie", "a=1")
        .header("x", "y")
        .header("cookie", "b=2; c=3");
    let (status, seen) = client.json(request).await;
    let headers = seen["headers"].as_array().expect("names and values");
    let cookies: Vec<_> = headers.iter().filter(|pair| pair[0] == "cookie").collect();
    assert_eq!(status, 200);
    assert_eq!(cookies, [&serde_json::json!(["cookie", "a=1; b=2; c=3"])]);
}

#[tokio::test]
async fn user_info_in_the_authority_is_rejected() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let mut client = Http2Client::connect(&sidecar).await;
    let host = sidecar.address;
    let request = Request::get(format!("http://user:secret@{host}/strict/x"));
    assert_eq!(client.send(request).await, (400, "user_info".to_owned()));
    let absolute = format!("GET http://user@{host}/strict/x HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    assert_eq!(sidecar.exchange(absolute).await.status, 400);
    assert_eq!(api.audit().count(), 0);
}

// 30,000 frames without content are three times the credit of a connection.
#[tokio::test]
async fn a_flood_of_empty_frames_closes_the_connection() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let window_update: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let priority: &[u8] = &[0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 16];
    // Of a stream that has ended: the library closes a connection that resets one before it begins.
    let reset: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
    for frame in [window_update, priority, reset] {
        let mut stream = sidecar.connect().await;
        stream.write_all(HELLO).await.expect("written");
        stream
            .write_all(&upload_in_bytes(1, "/strict/x", &[], 1))
            .await
            .expect("written");
        until(&mut stream, "\"/x\"").await;
        // The sidecar may close before all frames are written.
        let _closed = stream.write_all(&frame.repeat(30_000)).await;
        rest(&mut stream).await;
    }
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
}

/// Renders a POST on this stream, whose body is sent in frames of one byte.
fn upload_in_bytes(stream: u32, path: &str, headers: &[(&str, &str)], length: usize) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let size = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let head = [&size[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [head.as_slice(), payload].concat()
    };
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    let target = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "127.0.0.1"),
        (":path", path),
    ];
    let fields = target.iter().chain(headers);
    let block: Vec<u8> = fields
        .flat_map(|(name, value)| [vec![0], text(name), text(value)].concat())
        .collect();
    let pieces = frame(0, 0, b"a").repeat(length);
    [frame(1, 4, &block), pieces, frame(0, 1, &[])].concat()
}

/// Preface and settings of a client.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

// 2,000 pieces of one byte arrive at once, four times what the library holds unread. The body is collected if its
// length is known; it is read ahead otherwise, while its call waits behind the one in flight.
#[tokio::test]
async fn a_small_upload_in_tiny_frames_arrives() {
    let late = ScriptedFault::Late(Duration::from_secs(1));
    let api = MockApi::builder()
        .answer("/**", MockResponse::echo())
        .script(Script::new().rule(ScriptMatch::path("/late"), late))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "limits = []\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let length: &[(&str, &str)] = &[("content-length", "2000")];
    for headers in [length, &[]] {
        let busy = sidecar.get("/strict/late", "");
        let upload = async {
            while api.audit().attempts("/late") == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let mut stream = sidecar.connect().await;
            let request = upload_in_bytes(1, "/strict/x", headers, 2_000);
            stream.write_all(&[HELLO, &request].concat()).await.expect("written");
            until(&mut stream, "body_hash").await
        };
        let (_, echoed) = tokio::join!(busy, upload);
        assert!(echoed.contains("\"body_length\":2000"), "{echoed}");
    }
}

// The body may not be sent yet, so that none of the 2,000 pieces is read: the library closes the connection.
#[tokio::test]
async fn a_flood_of_tiny_frames_that_nothing_reads_closes_the_connection() {
    let late = ScriptedFault::Late(Duration::from_hours(1));
    let script = Script::new().rule(ScriptMatch::path("/late"), late);
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "limits = []\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut busy = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/late", "");
    busy.write_all(request.as_bytes()).await.expect("written");
    while api.audit().attempts("/late") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut stream = sidecar.connect().await;
    let flood = upload_in_bytes(1, "/strict/x", &[("expect", "100-continue")], 2_000);
    stream.write_all(&[HELLO, &flood].concat()).await.expect("written");
    rest(&mut stream).await;
    assert_eq!(api.audit().count(), 1);
}

// `api-key` carries the key of the API: a server that reads `_` as `-` would find two.
#[tokio::test]
async fn names_with_an_underscore_pass_unless_they_look_like_relied_on_ones() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "api_key_env = \"SIDECAR_TOKEN\"\nkey = { header = \"api-key\" }",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let reply = sidecar.get("/strict/x", "page_size: 7\r\n").await;
    assert_eq!(reply.echoed("page_size").as_deref(), Some("7"));
    for name in [
        "content_length",
        "transfer_encoding",
        "outflow_cost",
        "idempotency_key",
        "api_key",
    ] {
        let reply = sidecar.get("/strict/x", &format!("{name}: 1\r\n")).await;
        let kind = reply.problem()["type"].clone();
        assert_eq!(
            (reply.status, kind),
            (400, "urn:outflow:problem:underscore".into()),
            "{name}"
        );
    }
}

#[tokio::test]
async fn names_with_an_underscore_are_rejected_as_configured() {
    let (api, server) = echo().await;
    let config = TestConfig {
        server: "underscore_headers = \"reject\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    assert_eq!(sidecar.get("/strict/x", "page_size: 7\r\n").await.status, 400);
    let mut client = Http2Client::connect(&sidecar).await;
    let url = format!("http://{}/strict/x", sidecar.address);
    let request = Request::get(&url).header("page_size", "7");
    assert_eq!(client.send(request).await, (400, "underscore".to_owned()));
    assert_eq!(api.audit().count(), 0);
}
