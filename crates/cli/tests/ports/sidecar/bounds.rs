//! Nobody can take more than a share: of time, of memory, of connections.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{interval, timeout};

use super::support::{PATIENCE, Reply, Sidecar, Told, echo, rest, until};

// A head of which a byte comes now and then is given up after its time, and its sender is told.
#[tokio::test]
async fn a_head_that_trickles_in_is_given_up() {
    let (_, server) = echo().await;
    let told = Told {
        server: "header_timeout = \"300ms\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let mut stream = sidecar.connect().await;
    stream
        .write_all(b"GET /strict/x HTTP/1.1\r\n")
        .await
        .expect("written");
    let reply = Reply::read(&rest(&mut stream).await);
    assert_eq!(
        (reply.status, &reply.problem()["type"]),
        (408, &"urn:outflow:problem:slow".into())
    );
    // Who says nothing at all is not even told.
    let mut silent = sidecar.connect().await;
    assert!(rest(&mut silent).await.is_empty());
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up() {
    let (_, server) = echo().await;
    let told = Told {
        server: "body_timeout = \"300ms\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    for headers in [
        "content-length: 10\r\n",
        "content-length: 100000\r\n",
        "transfer-encoding: chunked\r\n",
    ] {
        let mut stream = sidecar.connect().await;
        let request = sidecar.request("POST", "/strict/x", headers);
        stream.write_all(request.as_bytes()).await.expect("written");
        let reply = Reply::read(&rest(&mut stream).await);
        assert_eq!(reply.status, 408, "{headers}: {reply:?}");
    }
}

// The API has 300 ms for an answer and is told the rest of its request never: it is the caller who is late.
#[tokio::test]
async fn a_caller_who_keeps_the_api_waiting_is_not_charged_to_it() {
    let (_, server) = echo().await;
    let told = Told {
        api: "timeout = \"300ms\"\nretry_count = 0",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let mut stream = sidecar.connect().await;
    let request = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
    let begun = format!("{request}3\r\nabc\r\n");
    stream.write_all(begun.as_bytes()).await.expect("written");
    let reply = Reply::read(&rest(&mut stream).await);
    assert_eq!(reply.status, 408, "{reply:?}");
    let client = sidecar.program.state().client();
    let report = client.upstream("strict").expect("known").report();
    let failed = |ward: &outflow::HealthReport| ward.snapshot.counts.failure_ppm() > 0;
    assert!(!report.health.iter().any(failed), "{:?}", report.health);
}

// A byte every 100 ms is never silent for 300 ms; all of it would take ten seconds.
#[tokio::test]
async fn a_small_body_that_trickles_in_is_given_up() {
    let (api, server) = echo().await;
    let told = Told {
        server: "body_timeout = \"300ms\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
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
    assert_eq!(Reply::read(&answer).status, 408);
    assert_eq!(api.audit().count(), 0, "nothing was sent");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let (_, server) = echo().await;
    let told = Told {
        server: "idle_timeout = \"400ms\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let mut stream = sidecar.connect().await;
    let host = sidecar.address;
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.expect("written");
        until(&mut stream, "\"body_hash\"").await;
    }
    rest(&mut stream).await;
}

// 8 KiB are the least that can be configured.
#[tokio::test]
async fn heads_beyond_their_bounds_are_refused() {
    let (api, server) = echo().await;
    let told = Told {
        server: "max_header_size = \"8KiB\"\nmax_headers = 20",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let large = format!("x: {}\r\n", "a".repeat(9_000));
    let many = "x: a\r\n".repeat(30);
    let long = format!("/strict/{}", "a".repeat(9_000));
    for (path, headers) in [
        ("/strict/x", &large),
        ("/strict/x", &many),
        (&long, &String::new()),
    ] {
        let reply = sidecar.get(path, headers).await;
        assert_eq!(reply.status, 431, "{reply:?}");
    }
    assert_eq!(api.audit().count(), 0);
}

// Known or not, a body is no larger than it may be: the API never gets more than that.
#[tokio::test]
async fn bodies_beyond_their_bound_are_refused() {
    let (api, server) = echo().await;
    let told = Told {
        server: "max_body = \"70KiB\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let size = 80 * 1024;
    let body = "x".repeat(size);
    let known = sidecar.request("POST", "/strict/x", &format!("content-length: {size}\r\n"));
    let reply = sidecar.exchange(known + &body).await;
    assert_eq!(reply.status, 413);
    assert_eq!(
        reply.problem()["type"],
        "urn:outflow:problem:body_too_large"
    );
    assert_eq!(api.audit().count(), 0, "nothing was sent");
    let chunked = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
    let reply = sidecar
        .exchange(format!("{chunked}{size:x}\r\n{body}\r\n0\r\n\r\n"))
        .await;
    assert_eq!(reply.status, 413);
    assert_eq!(
        api.audit().cut_bodies(),
        api.audit().count(),
        "never a whole one"
    );
}

// Three places, two of them for one address: the third is told why.
#[tokio::test]
async fn too_many_connections_are_told_so_and_counted() {
    let (_, server) = echo().await;
    for (server_lines, words) in [
        ("max_connections = 2", "max_connections"),
        (
            "max_connections_per_client = 2",
            "max_connections_per_client",
        ),
    ] {
        let told = Told {
            server: server_lines,
            ..Told::default()
        };
        let sidecar = Sidecar::before(&server.url(), told).await;
        let host = sidecar.address;
        let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut stream = sidecar.connect().await;
            stream.write_all(request.as_bytes()).await.expect("written");
            until(&mut stream, "200 OK").await;
            open.push(stream);
        }
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 503);
        assert!(
            reply.problem()["detail"]
                .as_str()
                .expect("words")
                .contains(words)
        );
        let rejections = sidecar.program.state().rejections();
        assert_eq!(rejections.too_many_connections() + rejections.greedy(), 1);
        drop(open);
        let free = async { while sidecar.get("/strict/x", "").await.status != 200 {} };
        timeout(PATIENCE, free)
            .await
            .expect("places are given back");
    }
}

// An endless answer that nobody reads: the place at the API is free again after the patience for it.
#[tokio::test]
async fn who_does_not_read_loses_the_place() {
    use outflow_mock::{Content, MockApi, MockResponse};
    let api = MockApi::builder()
        .answer(
            "/endless",
            MockResponse::status(200).content(Content::Endless),
        )
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let told = Told {
        server: "body_timeout = \"300ms\"",
        api: "limits = [\"1000/s\"]\nconcurrency = 1",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let mut deaf = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/endless", "");
    deaf.write_all(request.as_bytes()).await.expect("written");
    until(&mut deaf, "200 OK").await;
    let reply = timeout(PATIENCE, sidecar.get("/strict/quick", "")).await;
    assert_eq!(reply.expect("a place").status, 200);
    drop(deaf);
}

#[tokio::test]
async fn stopping_finishes_what_is_under_way() {
    use outflow_mock::{MockApi, Script, ScriptMatch, ScriptedFault};
    let late = ScriptedFault::Late(Duration::from_millis(300));
    let api = MockApi::builder()
        .script(Script::new().rule(ScriptMatch::always(), late))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
    let mut stream = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/x", "");
    stream.write_all(request.as_bytes()).await.expect("written");
    let arrived = async {
        while api.audit().count() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("it arrives");
    let Sidecar { program, .. } = sidecar;
    let (clean, raw) = tokio::join!(program.stop(), rest(&mut stream));
    assert!(clean);
    assert_eq!(Reply::read(&raw).status, 200);
}
