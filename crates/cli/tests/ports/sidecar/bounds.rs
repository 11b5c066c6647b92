//! Bounds for each caller: time, memory and connections.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{interval, timeout};

use super::support::{PATIENCE, RawResponse, TestConfig, TestSidecar, echo, rest, until};

// An incomplete head receives a problem response at its timeout.
#[tokio::test]
async fn the_sidecar_ends_a_slow_head() {
    let (_, server) = echo().await;
    let config = TestConfig {
        server: "header_timeout = \"300ms\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut stream = sidecar.connect().await;
    stream.write_all(b"GET /strict/x HTTP/1.1\r\n").await.expect("written");
    let reply = RawResponse::parse(&rest(&mut stream).await);
    assert_eq!(
        (reply.status, &reply.problem()["type"]),
        (408, &"urn:outflow:problem:slow".into())
    );
    // A silent connection is closed without a response.
    let mut silent = sidecar.connect().await;
    assert!(rest(&mut silent).await.is_empty());
}

#[tokio::test]
async fn the_sidecar_ends_a_stalled_body() {
    let (_, server) = echo().await;
    let config = TestConfig {
        server: "body_timeout = \"300ms\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for headers in [
        "content-length: 10\r\n",
        "content-length: 100000\r\n",
        "transfer-encoding: chunked\r\n",
    ] {
        let mut stream = sidecar.connect().await;
        let request = sidecar.request("POST", "/strict/x", headers);
        stream.write_all(request.as_bytes()).await.expect("written");
        let reply = RawResponse::parse(&rest(&mut stream).await);
        assert_eq!(reply.status, 408, "{headers}: {reply:?}");
    }
}

// The API has 300 ms for its response, but the caller never completes the request.
#[tokio::test]
async fn a_slow_caller_does_not_count_against_the_api() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "timeout = \"300ms\"\nretry_count = 0",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut stream = sidecar.connect().await;
    let request = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
    let begun = format!("{request}3\r\nabc\r\n");
    stream.write_all(begun.as_bytes()).await.expect("written");
    let reply = RawResponse::parse(&rest(&mut stream).await);
    assert_eq!(reply.status, 408, "{reply:?}");
    let client = sidecar.program.state().client();
    let report = client.upstream("strict").expect("known").report();
    let failed = |circuit: &outflow::HealthReport| circuit.snapshot.counts.failure_ppm() > 0;
    assert!(!report.health.iter().any(failed), "{:?}", report.health);
}

// A byte every 100 ms is never silent for 300 ms; the whole body would take ten seconds.
#[tokio::test]
async fn the_sidecar_ends_a_slow_small_body() {
    let (api, server) = echo().await;
    let config = TestConfig {
        server: "body_timeout = \"300ms\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let (mut from, mut to) = sidecar.connect().await.into_split();
    let request = sidecar.request("POST", "/strict/x", "content-length: 100\r\n");
    to.write_all(request.as_bytes()).await.expect("written");
    let trickle = async {
        let mut every = interval(Duration::from_millis(100));
        while to.write_all(b"x").await.is_ok() {
            every.tick().await;
        }
    };
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, from.read_to_end(&mut answer));
    tokio::select! {
        read = read => drop(read.expect("in time")),
        () = trickle => {}
    }
    assert_eq!(RawResponse::parse(&answer).status, 408);
    assert_eq!(api.audit().count(), 0, "nothing was sent");
}

#[tokio::test]
async fn the_sidecar_closes_idle_connections() {
    let (_, server) = echo().await;
    let config = TestConfig {
        server: "idle_timeout = \"400ms\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut stream = sidecar.connect().await;
    let host = sidecar.address;
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.expect("written");
        until(&mut stream, "\"body_hash\"").await;
    }
    rest(&mut stream).await;
}

// 8 KiB is the lowest value that can be configured.
#[tokio::test]
async fn the_sidecar_refuses_large_heads() {
    let (api, server) = echo().await;
    let config = TestConfig {
        server: "max_header_size = \"8KiB\"\nmax_headers = 20",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let large = format!("x: {}\r\n", "a".repeat(9_000));
    let many = "x: a\r\n".repeat(30);
    let long = format!("/strict/{}", "a".repeat(9_000));
    for (path, headers) in [("/strict/x", &large), ("/strict/x", &many), (&long, &String::new())] {
        let reply = sidecar.get(path, headers).await;
        assert_eq!(reply.status, 431, "{reply:?}");
    }
    assert_eq!(api.audit().count(), 0);
}

// The bound holds with and without a known length: the API never receives a larger body.
#[tokio::test]
async fn the_sidecar_refuses_large_bodies() {
    let (api, server) = echo().await;
    let config = TestConfig {
        server: "max_body = \"70KiB\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let size = 80 * 1024;
    let body = "x".repeat(size);
    let known = sidecar.request("POST", "/strict/x", &format!("content-length: {size}\r\n"));
    let reply = sidecar.exchange(known + &body).await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.problem()["type"], "urn:outflow:problem:body_too_large");
    assert_eq!(api.audit().count(), 0, "nothing was sent");
    let chunked = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
    let reply = sidecar
        .exchange(format!("{chunked}{size:x}\r\n{body}\r\n0\r\n\r\n"))
        .await;
    assert_eq!(reply.status, 413);
    assert_eq!(api.audit().cut_bodies(), api.audit().count(), "never a whole one");
}

// Two connections are allowed, in total or for one address, and both are busy: the third learns the reason.
#[tokio::test]
async fn the_sidecar_rejects_and_counts_excess_connections() {
    use outflow_mock::{Content, MockApi, MockResponse};
    let api = MockApi::builder()
        .answer("/endless", MockResponse::status(200).content(Content::Endless))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    for (server_lines, words) in [
        ("max_connections = 2", "max_connections"),
        ("max_connections_per_client = 2", "max_connections_per_client"),
    ] {
        let config = TestConfig {
            server: server_lines,
            ..TestConfig::default()
        };
        let sidecar = TestSidecar::for_api(&server.url(), config).await;
        let host = sidecar.address;
        let request = format!("GET /strict/endless HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut stream = sidecar.connect().await;
            stream.write_all(request.as_bytes()).await.expect("written");
            until(&mut stream, "200 OK").await;
            open.push(stream);
        }
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 503);
        assert!(reply.problem()["detail"].as_str().expect("words").contains(words));
        let rejections = sidecar.program.state().rejections();
        assert_eq!(rejections.too_many_connections() + rejections.too_many_per_address(), 1);
        drop(open);
        let free = async { while sidecar.get("/strict/x", "").await.status != 200 {} };
        timeout(PATIENCE, free).await.expect("places are given back");
    }
}

// The client does not read an endless response: the slot is free again after `body_timeout`.
#[tokio::test]
async fn a_reader_that_stalls_loses_its_slot() {
    use outflow_mock::{Content, MockApi, MockResponse};
    let api = MockApi::builder()
        .answer("/endless", MockResponse::status(200).content(Content::Endless))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        server: "body_timeout = \"300ms\"",
        api: "limits = [\"1000/s\"]\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let mut deaf = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/endless", "");
    deaf.write_all(request.as_bytes()).await.expect("written");
    until(&mut deaf, "200 OK").await;
    let reply = timeout(PATIENCE, sidecar.get("/strict/quick", "")).await;
    assert_eq!(reply.expect("a place").status, 200);
    drop(deaf);
}

// A response is stored unless it repeats a value of its request. 1,000 values and 4 MiB, searched one by one, would
// occupy a thread for a minute.
#[tokio::test]
async fn a_request_with_many_values_occupies_no_thread() {
    use outflow_mock::{Content, MockApi, MockResponse};
    let large = MockResponse::status(200)
        .header("cache-control", "max-age=60")
        .content(Content::Zeros(4 << 20));
    let api = MockApi::builder().answer("/**", large).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let values: Vec<_> = (0..1_000)
        .map(|n| format!("p{n}=\0\0\0\0\0\0\0a{n}").replace('\0', "%00"))
        .collect();
    let path = format!("/strict/x?{}", values.join("&"));
    let reply = sidecar.get(&path, "").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.headers["cache-status"][0].ends_with("stored"),
        "{:?}",
        reply.headers
    );
}

#[tokio::test]
async fn shutdown_finishes_calls_in_flight() {
    use outflow_mock::{MockApi, Script, ScriptMatch, ScriptedFault};
    let late = ScriptedFault::Late(Duration::from_millis(300));
    let api = MockApi::builder()
        .script(Script::new().rule(ScriptMatch::always(), late))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let mut stream = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/x", "");
    stream.write_all(request.as_bytes()).await.expect("written");
    let arrived = async {
        while api.audit().count() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("it arrives");
    let TestSidecar { program, .. } = sidecar;
    let (clean, raw) = tokio::join!(program.stop(), rest(&mut stream));
    assert!(clean);
    assert_eq!(RawResponse::parse(&raw).status, 200);
}
