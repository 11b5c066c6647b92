//! The memory budget: callers that wait or do not read never take more than `server.max_memory`.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow::MemoryBudget;
use outflow_mock::{Content, MockApi, MockResponse, Server};
use outflow_testkit::Background;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::support::{PATIENCE, TestConfig, TestSidecar, echo};

/// The smallest budget that can be configured, so that few callers fill it.
const SMALL: &str = "max_memory = \"4MiB\"";

fn memory(sidecar: &TestSidecar) -> &MemoryBudget {
    sidecar.program.state().sidecar().memory()
}

/// Waits until the bytes in use meet a condition.
async fn until_used(sidecar: &TestSidecar, condition: impl Fn(u64) -> bool) {
    let memory = memory(sidecar);
    let met = async {
        while !condition(memory.used()) {
            assert!(memory.used() <= memory.limit(), "{memory:?}");
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, met).await.expect("in time");
}

/// Waits until this number of calls waits for the API; one more is in flight.
async fn until_waiting(sidecar: &TestSidecar, count: usize) {
    let upstream = sidecar.program.state().client().upstream("strict").expect("known");
    let reached = async {
        let is_in_flight = |health: &outflow::HealthReport| health.in_flight > 0;
        while !upstream.report().health.iter().any(is_in_flight) || upstream.report().waiting < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = timeout(PATIENCE, reached).await;
    assert!(
        reached.is_ok(),
        "{} wait, {:?}",
        upstream.report().waiting,
        memory(sidecar)
    );
}

async fn large_api(content: Content) -> (MockApi, Server) {
    let response = MockResponse::status(200)
        .header("cache-control", "max-age=60")
        .content(content);
    let api = MockApi::builder().answer("/**", response).build().expect("valid");
    let server = api.listen().await.expect("a port");
    (api, server)
}

// The response of 9 MiB is read whole for the cache, and the client has no window for a byte of it.
#[tokio::test]
async fn a_whole_response_leaves_memory_when_its_http_2_reader_stalls() {
    let (_api, server) = large_api(Content::Zeros(9 << 20)).await;
    let config = TestConfig {
        server: "body_timeout = \"400ms\"",
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let (mut client, _connection) = without_window(&sidecar).await;
    let url = format!("http://{}/strict/x", sidecar.address);
    let request = hyper::Request::get(url).body(Empty::<bytes::Bytes>::new());
    let response = client.send_request(request.expect("valid")).await.expect("a head");
    assert_eq!(response.status(), 200);
    assert!(memory(&sidecar).used() >= 9 << 20);
    until_used(&sidecar, |used| used < 1 << 20).await;
    drop(response.into_body().collect());
}

/// Connects over HTTP/2, without a window for any byte of a body.
async fn without_window(sidecar: &TestSidecar) -> (SendRequest<Empty<bytes::Bytes>>, impl Sized) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let io = TokioIo::new(sidecar.connect().await);
    let (client, connection) = builder.handshake(io).await.expect("HTTP/2");
    (client, Background::start(connection))
}

// Eight stored responses of 900 kB, and readers that take none of them. The content of the cache takes half of
// the budget of four megabytes from buffers, so one response fits beside its connection. Without that, responses that leave the cache
// while they are read would come on top of it.
#[tokio::test]
async fn slow_readers_of_stored_responses_share_the_room_of_the_cache() {
    let (api, server) = large_api(Content::Zeros(900_000)).await;
    let config = TestConfig {
        server: SMALL,
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for number in 0..8 {
        let reply = sidecar.get(&format!("/strict/{number}"), "").await;
        assert_eq!(reply.status, 200);
    }
    let (mut client, _connection) = without_window(&sidecar).await;
    let mut statuses = Vec::new();
    let mut responses = Vec::new();
    for number in 0..8 {
        let url = format!("http://{}/strict/{number}", sidecar.address);
        let request = hyper::Request::get(url).body(Empty::new()).expect("valid");
        let response = client.send_request(request).await.expect("a head");
        statuses.push(response.status().as_u16());
        responses.push(response);
    }
    assert_eq!(statuses, [200, 503, 503, 503, 503, 503, 503, 503]);
    let memory = memory(&sidecar);
    assert!(memory.used() < memory.limit() / 2, "{memory:?}");
    assert_eq!(api.audit().count(), 8);
    let small = sidecar.get("/unknown", "").await;
    assert_eq!(small.status, 404, "others have room");
}

// Nine megabytes do not fit into four: they arrive complete, and both calls reach the API.
#[tokio::test]
async fn a_response_beyond_the_budget_flows_unstored() {
    let (api, server) = large_api(Content::Zeros(9 << 20)).await;
    let config = TestConfig {
        server: SMALL,
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for calls in 1..=2 {
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!((reply.status, reply.body.len()), (200, 9 << 20));
        assert_eq!(api.audit().count(), calls);
    }
    assert_eq!(memory(&sidecar).unbuffered(), 2);
    until_used(&sidecar, |used| used == 0).await;
}

// The same response fits into the default budget, and the cache of 256 MiB stores it.
#[tokio::test]
async fn a_response_within_the_budget_is_stored() {
    let (api, server) = large_api(Content::Zeros(7 << 20)).await;
    let config = TestConfig {
        api: "cache = \"standard\"",
        rest: "[cache]\nsize = \"256MiB\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for _ in 0..3 {
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!((reply.status, reply.body.len()), (200, 7 << 20));
    }
    assert_eq!(api.audit().count(), 1);
    // What the cache keeps counts in `cache.memory` alone.
    until_used(&sidecar, |used| used == 0).await;
}

/// Bytes whose order shows.
fn pattern(length: usize) -> Vec<u8> {
    (0_u8..251).cycle().take(length).collect()
}

/// Starts an API that sends a pattern in chunks, without its length.
async fn chunked_api(length: usize) -> (SocketAddr, Background<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4_096];
        assert!(stream.read(&mut request).await.expect("a request") > 0);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("a reader");
        for chunk in pattern(length).chunks(50_000) {
            let size = format!("{:x}\r\n", chunk.len());
            stream.write_all(size.as_bytes()).await.expect("a reader");
            stream.write_all(chunk).await.expect("a reader");
            stream.write_all(b"\r\n").await.expect("a reader");
        }
        stream.write_all(b"0\r\n\r\n").await.expect("a reader");
    };
    (address, Background::start(serve))
}

// Three of four megabytes are for buffers. The first bytes are in one when it is full; the others follow them.
#[tokio::test]
async fn a_response_that_outgrows_the_budget_arrives_in_order() {
    let (address, _api) = chunked_api(6 << 20).await;
    let config = TestConfig {
        server: SMALL,
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&format!("http://{address}"), config).await;
    // HTTP/1.0 gets the body without chunks.
    let host = sidecar.address;
    let raw = sidecar
        .raw(format!("GET /strict/x HTTP/1.0\r\nhost: {host}\r\n\r\n").as_bytes())
        .await;
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let body = raw.get(end + 4..).expect("a body");
    assert!(body == pattern(6 << 20), "{} bytes", body.len());
    assert_eq!(memory(&sidecar).unbuffered(), 1);
    until_used(&sidecar, |used| used == 0).await;
}

/// Address of an API that accepts connections and never responds.
fn silent_api() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, url)
}

// Of 55 waiting bodies of 60 kB, six of eight megabytes hold about 45 with their connections. The others wait in
// their sockets.
#[tokio::test]
async fn bodies_beyond_the_budget_wait_unread() {
    let (_api, silent) = silent_api();
    let (_, server) = echo().await;
    let api = format!(
        "limits = []\nconcurrency = 1\nmax_wait = \"1m\"\n\
         [apis.other]\nbase_url = \"{}\"\naddresses = \"any\"\nlimits = []\n",
        server.url()
    );
    let config = TestConfig {
        server: "max_memory = \"8MiB\"",
        api: &api,
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&silent, config).await;
    let body = "y".repeat(60_000);
    let post = |api: &str| sidecar.request("POST", &format!("/{api}/x"), "content-length: 60000\r\n") + &body;
    let mut waiting = Vec::new();
    for _ in 0..55 {
        let mut stream = sidecar.connect().await;
        stream.write_all(post("strict").as_bytes()).await.expect("written");
        waiting.push(stream);
    }
    until_waiting(&sidecar, 54).await;
    let memory = memory(&sidecar);
    assert!((5..25).contains(&memory.unbuffered()), "{}", memory.unbuffered());
    assert!(memory.used() <= memory.limit() && memory.refused() == 0, "{memory:?}");
    // A body without a buffer arrives complete at an API that responds.
    let reply = sidecar.exchange(post("other")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.echoed("content-length").as_deref(), Some("60000"));
    drop(waiting);
    until_used(&sidecar, |used| used == 0).await;
}

// The rest of the budget is taken, so that neither a connection of 32 KiB nor a request of 12 KiB fits.
#[tokio::test]
async fn a_connection_beyond_the_budget_gets_the_reason() {
    let (_, server) = echo().await;
    let config = TestConfig {
        server: SMALL,
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let memory = memory(&sidecar);
    let all = memory.reserve(memory.limit()).expect("free");
    let reply = sidecar.get("/strict/x", "").await;
    let problem = reply.problem();
    assert_eq!(
        (reply.status, &problem["type"]),
        (503, &"urn:outflow:problem:memory_full".into())
    );
    assert!(problem["detail"].as_str().expect("words").contains("server.max_memory"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    drop(all);
    let most = memory.reserve(memory.limit() - 40 * 1024).expect("free");
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(
        (reply.status, &reply.problem()["type"]),
        (503, &"urn:outflow:problem:memory_full".into())
    );
    drop(most);
    until_used(&sidecar, |used| used == 0).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    let page = sidecar.program.state().client().metrics().expect("on").render();
    assert!(page.contains("outflow_memory_refused_total 2"), "{page}");
    assert!(page.contains("outflow_memory_limit_bytes 4194304"), "{page}");
}

// Forty places: callers that wait for a silent API take thirty of them, and the other API is served.
#[tokio::test]
async fn callers_that_wait_for_one_api_leave_places_for_others() {
    let (_api, silent) = silent_api();
    let (_, server) = echo().await;
    let api = format!(
        "limits = []\nconcurrency = 1\nmax_wait = \"1m\"\n\
         [apis.other]\nbase_url = \"{}\"\naddresses = \"any\"\nlimits = []\n",
        server.url()
    );
    let config = TestConfig {
        server: "max_connections = 40",
        api: &api,
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&silent, config).await;
    let request = sidecar.request("GET", "/strict/x", "");
    let mut callers = Vec::new();
    for waiting in 0..30 {
        let mut stream = sidecar.connect().await;
        stream.write_all(request.as_bytes()).await.expect("written");
        callers.push(stream);
        until_waiting(&sidecar, waiting).await;
    }
    let refused = sidecar.get("/strict/x", "").await;
    let problem = refused.problem();
    assert_eq!(
        (refused.status, &problem["type"]),
        (503, &"urn:outflow:problem:too_many_callers".into())
    );
    assert_eq!(problem["api"], "strict");
    assert_eq!(sidecar.get("/other/x", "").await.status, 200);
}
