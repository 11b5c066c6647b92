//! Sixty requests whose end two servers could read differently, over raw sockets. The sidecar must refuse
//! each before the API sees anything, and close the connection.

use tokio::io::AsyncWriteExt;

use super::support::{RawResponse, TestConfig, TestSidecar, echo, rest};

/// A request, and the status and problem type of its refusal.
type FramingCase = (&'static str, u16, &'static str);

const HEAD: &str = "POST /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n";

/// Headers that follow a request line and a host.
const HEADERS: [FramingCase; 31] = [
    (
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "length_and_coding",
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        400,
        "length_and_coding",
    ),
    (
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "length_and_coding",
    ),
    ("Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, "two_lengths"),
    ("Content-Length: 3\r\ncontent-length: 4\r\n\r\nabc", 400, "two_lengths"),
    ("Content-Length: 3, 3\r\n\r\nabc", 400, "length"),
    ("Content-Length: 3,4\r\n\r\nabc", 400, "length"),
    ("Content-Length: +3\r\n\r\nabc", 400, "length"),
    ("Content-Length: -1\r\n\r\n", 400, "length"),
    ("Content-Length: 0x3\r\n\r\nabc", 400, "length"),
    ("Content-Length: 3 3\r\n\r\nabc", 400, "length"),
    ("Content-Length: three\r\n\r\n", 400, "length"),
    ("Content-Length:\r\n\r\n", 400, "length"),
    ("Content-Length: 18446744073709551616\r\n\r\n", 400, "length"),
    ("Content-Length : 3\r\n\r\nabc", 400, "name"),
    ("Content-Length\t: 3\r\n\r\nabc", 400, "name"),
    (" Content-Length: 3\r\n\r\nabc", 400, "folded"),
    ("X: 1\r\n Content-Length: 3\r\n\r\nabc", 400, "folded"),
    ("X: 1\r\n\tgoes on\r\n\r\n", 400, "folded"),
    ("Transfer-Encoding: gzip\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: identity\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "coding"),
    ("Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400, "coding"),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "coding",
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        400,
        "coding",
    ),
    ("Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400, "value"),
    ("Transfer-Encoding\r\n\r\n0\r\n\r\n", 400, "name"),
    ("Host: 127.0.0.1\r\n\r\n", 400, "two_hosts"),
];

/// Complete requests.
const REQUESTS: [FramingCase; 30] = [
    ("GET /strict/x HTTP/1.1\r\n\r\n", 400, "no_host"),
    ("GET /strict/x HTTP/1.0\r\n\r\n", 400, "no_host"),
    ("GET /strict/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "two_hosts"),
    ("GET /strict/x HTTP/1.1\r\nHost: \r\n\r\n", 400, "no_host"),
    ("GET /strict/x HTTP/1.1\r\nHost: a@127.0.0.1\r\n\r\n", 400, "no_host"),
    ("GET /strict/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "host"),
    (
        "GET http://evil.example/strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "two_hosts",
    ),
    (
        "GET http://a@127.0.0.1/strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "two_hosts",
    ),
    ("GET /strict/x HTTP/1.1\nHost: 127.0.0.1\r\n\r\n", 400, "bare_lf"),
    ("GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\n\r\n", 400, "bare_lf"),
    ("GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\n", 400, "bare_lf"),
    ("GET /strict/x HTTP/1.1\n\nHost: 127.0.0.1\r\n\r\n", 400, "bare_lf"),
    ("\nGET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "bare_lf"),
    (
        "\r\n\r\nGET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "request_line",
    ),
    (
        "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb\r\n\r\n",
        400,
        "value",
    ),
    (
        "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
        400,
        "value",
    ),
    (
        "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX\0: b\r\n\r\n",
        400,
        "name",
    ),
    ("GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n: b\r\n\r\n", 400, "name"),
    (
        "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX[1]: b\r\n\r\n",
        400,
        "name",
    ),
    (
        "GET  /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "request_line",
    ),
    (
        "GET /strict/x  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "request_line",
    ),
    (
        "GET /strict/x y HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "request_line",
    ),
    (
        "GET\t/strict/x\tHTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
        "request_line",
    ),
    ("GET /strict/x\r\n\r\n", 400, "request_line"),
    ("G@T /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "request_line"),
    ("GET /strict/\x01x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "target"),
    ("GET /strict/x HTTP/1.2\r\nHost: 127.0.0.1\r\n\r\n", 505, "version"),
    ("GET /strict/x HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n", 505, "version"),
    ("GET /strict/x http/1.1\r\nHost: 127.0.0.1\r\n\r\n", 505, "version"),
    (
        "POST /strict/x HTTP/1.0\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "coding_in_old",
    ),
];

/// A second request that must not be parsed as one.
const HIDDEN: &str = "GET /strict/hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

fn rows() -> impl Iterator<Item = (String, u16, &'static str)> {
    let headers = HEADERS.into_iter();
    let headers = headers.map(|(row, status, word)| (format!("{HEAD}{row}"), status, word));
    let requests = REQUESTS.into_iter();
    headers.chain(requests.map(|(row, status, word)| (row.to_owned(), status, word)))
}

#[tokio::test]
async fn ambiguous_framing_is_refused_and_ends_the_connection() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    assert!(rows().count() >= 60);
    for (row, status, word) in rows() {
        let reply = sidecar.exchange(format!("{row}{HIDDEN}")).await;
        let kind = reply.problem()["type"].clone();
        let refused = (reply.status, kind.as_str().unwrap_or_default());
        let wanted = format!("urn:outflow:problem:{word}");
        assert_eq!(refused, (status, &*wanted), "{row:?}");
        assert_eq!(reply.header("connection"), Some("close"), "{row:?}");
        assert_eq!(reply.more, "", "{row:?}");
        assert_eq!(api.audit().count(), 0, "{row:?} reached the API");
    }
    assert!(sidecar.program.state().rejections().malformed() >= 50);
}

// A head that arrives in pieces is parsed as a whole.
#[tokio::test]
async fn the_sidecar_refuses_a_bad_head_in_any_pieces() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let bad = "POST /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\
               Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for cut in (1..bad.len()).step_by(7) {
        let mut stream = sidecar.connect().await;
        let (first, second) = bad.as_bytes().split_at(cut);
        stream.write_all(first).await.expect("written");
        tokio::task::yield_now().await;
        let _refused = stream.write_all(second).await;
        let reply = RawResponse::parse(&rest(&mut stream).await);
        assert_eq!(reply.status, 400, "cut at {cut}");
    }
    assert_eq!(api.audit().count(), 0);
}

// Two valid requests and a bad one: both are answered before the third is refused, and the hidden one is
// never read.
#[tokio::test]
async fn a_bad_request_does_not_affect_earlier_ones() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let good = "POST /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc";
    let bad = "GET /strict/x HTTP/1.1\nHost: 127.0.0.1\r\n\r\n";
    let all = format!("{good}{good}{bad}{HIDDEN}");
    let raw = sidecar.raw(all.as_bytes()).await;
    let text = String::from_utf8_lossy(&raw);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    assert_eq!(text.matches("HTTP/1.1 400 Bad Request").count(), 1, "{text}");
    assert_eq!(api.audit().count(), 2);
}

// Bad chunks appear in the middle of a body, when the call is in flight.
#[tokio::test]
async fn malformed_chunks_end_the_request_and_the_connection() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    for body in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "g\r\nabc\r\n0\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffff1\r\nabc\r\n0\r\n\r\n",
        "3;x=\x01\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nX : 1\r\n\r\n",
        "3\r\nabc\r\n0\r\nX: 1\n\r\n",
    ] {
        let request = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}{HIDDEN}");
        let raw = sidecar.raw(request.as_bytes()).await;
        let text = String::from_utf8_lossy(&raw);
        assert!(!text.contains("200 OK"), "{body:?}: {text}");
        assert!(
            text.is_empty() || RawResponse::parse(&raw).status == 400,
            "{body:?}: {text}"
        );
    }
    let hidden = api.audit().attempts("/hidden");
    assert_eq!(hidden, 0);
    assert_eq!(
        api.audit()
            .only(|arrival| matches!(arrival.body, outflow_mock::Received::Whole(_)))
            .count(),
        0
    );
}

#[tokio::test]
async fn the_sidecar_refuses_upgrades_and_proxy_methods() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    for (request, status) in [
        ("CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", 405),
        ("TRACE /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 405),
        (
            "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            501,
        ),
        (
            "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: TLS/1.0\r\n\r\n",
            501,
        ),
        (
            "GET /strict/x HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: the-best\r\n\r\n",
            417,
        ),
    ] {
        let reply = RawResponse::parse(&{
            let mut stream = sidecar.connect().await;
            stream.write_all(request.as_bytes()).await.expect("written");
            stream.shutdown().await.ok();
            rest(&mut stream).await
        });
        assert_eq!(reply.status, status, "{request:?} {reply:?}");
    }
    assert_eq!(api.audit().count(), 0);
}

// curl sends this with `--http2`: the sidecar ignores the offer and answers the request.
#[tokio::test]
async fn the_sidecar_ignores_an_upgrade_to_http_2() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let offer = "upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n";
    let reply = sidecar.get("/strict/x", offer).await;
    assert_eq!(reply.status, 200);
    assert_eq!((reply.echoed("upgrade"), reply.echoed("http2-settings")), (None, None));
}
