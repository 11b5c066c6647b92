//! Responses that exceed the size limits.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use http_body::Body as _;
use outflow_mock::{Content, Fault, MockResponse, Script, ScriptMatch};

use super::support::{over_pipes, over_sockets, scripted};

const GIB: u64 = 1 << 30;

// An announced gigabyte, and unannounced endless zeros: the client reads neither to its end.
#[tokio::test]
async fn a_body_is_read_only_up_to_its_maximum_size() {
    for content in [Content::Zeros(GIB), Content::Endless] {
        let huge = MockResponse::ok("").content(content.clone());
        let mock = scripted(Script::new().rule(ScriptMatch::always(), huge));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.max_body = 100_000);
        let error = client.get("strict", "/").send().await.expect_err("too large");
        assert!(error.is_body() && !error.is_timeout(), "{error}");
        assert!(error.to_string().contains("100000 bytes"), "{error}");
        assert_eq!(mock.audit().count(), 1, "the next one is as large: {content:?}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// One byte less fits.
#[tokio::test]
async fn a_body_of_the_maximum_size_is_read() {
    for (size, fits) in [(100_000, true), (100_001, false)] {
        let mock = scripted(Script::new());
        mock.answer("/", MockResponse::ok("").content(Content::Zeros(size)));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.max_body = 100_000);
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), fits, "{size}");
    }
}

// A streaming caller reads a part and leaves; its permit is free at once.
#[tokio::test]
async fn a_stream_has_no_maximum_size_and_may_be_dropped() {
    let endless = MockResponse::ok("").content(Content::Endless);
    let mock = scripted(Script::new().rule(ScriptMatch::always(), endless));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| api.max_body = 1_000);
    let response = client.get("strict", "/").send_streaming().await.expect("a head");
    let upstream = client.upstream("strict").expect("there").clone();
    assert!(!upstream.is_idle());
    let (mut body, mut read) = (response.stream(), 0);
    while read < 1_000_000 {
        read += body.chunk().await.expect("endless").expect("well").len();
    }
    assert!(!body.is_end_stream() && !upstream.is_idle());
    drop(body);
    assert!(upstream.is_idle());
}

// The client reads 32 KiB of head, and neither ten megabytes nor endless lines.
#[tokio::test]
async fn a_head_has_a_maximum_size() {
    for (fault, fits) in [
        (Fault::HugeHeader(31_000), true),
        (Fault::HugeHeader(100_000), false),
        (Fault::HugeHeader(10_000_000), false),
        (Fault::ManyHeaders(50), true),
        (Fault::ManyHeaders(200), false),
        (Fault::EndlessHead(Duration::ZERO), false),
    ] {
        let mock = scripted(Script::new().rule(ScriptMatch::always(), fault.clone()));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.retry.count = 0);
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), fits, "{fault:?}");
    }
}

// The first bytes of zeros compressed a thousandfold. The client neither asked for compression nor
// expands it: the size limit counts received bytes.
#[tokio::test(start_paused = true)]
async fn the_client_decompresses_nothing() {
    let bomb = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0xec, 0xc1][..], &[0; 500]].concat();
    let packed = MockResponse::ok(bomb.clone()).header("content-encoding", "gzip");
    let mock = scripted(Script::new().rule(ScriptMatch::path("/bomb"), packed));
    mock.answer("/echo", MockResponse::echo());
    let client = over_pipes(&mock, |api| api.max_body = 4_096);
    let response = client.get("strict", "/bomb").send().await.expect("as it is");
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.bytes().await.expect("whole"), bomb);
    let echo = client.get("strict", "/echo").send().await.expect("an echo");
    let echo = echo.text().await.expect("text");
    assert!(echo.contains("user-agent"), "{echo}");
    assert!(!echo.contains("accept-encoding"), "{echo}");
}

// The server did its work: an undecodable response is not retried.
#[tokio::test(start_paused = true)]
async fn decoding_is_no_part_of_the_call() {
    let mock = scripted(Script::new());
    mock.answer("/none", MockResponse::status(204));
    mock.answer("/bad", MockResponse::bad_json());
    mock.answer("/other", MockResponse::ok(r#"{"secret": "CANARY"}"#));
    mock.answer("/bytes", MockResponse::ok(&b"\xff\xfe"[..]));
    let client = over_pipes(&mock, |_| {});
    for (path, words) in [
        ("/none", "ends too early to be JSON (line 1, column 0)"),
        ("/bad", "ends too early to be JSON (line 1, column 10)"),
        ("/other", "JSON of another type"),
        ("/bytes", "is not JSON"),
    ] {
        let response = client.get("strict", path).send().await.expect("a response");
        let error = response
            .json::<HashMap<String, bool>>()
            .await
            .expect_err("no such thing");
        assert!(error.is_decode(), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error:?}").contains("CANARY"));
        assert_eq!(mock.audit().attempts(path), 1);
    }
    let text = client
        .get("strict", "/bytes")
        .send()
        .await
        .expect("a response")
        .text()
        .await;
    assert!(text.expect_err("no text").is_decode());
}

// An error page of 100 KiB, within the limit and above it. The caller learns the status either
// way.
#[tokio::test(start_paused = true)]
async fn an_error_page_is_returned_or_reported_as_too_large() {
    const PAGE: u64 = 100 * 1024;
    let page = MockResponse::status(500).content(Content::Zeros(PAGE));
    let mock = scripted(Script::new().rule(ScriptMatch::always(), page));
    for (largest, fits) in [(PAGE, true), (PAGE - 1, false)] {
        let client = over_pipes(&mock, |api| {
            api.max_body = largest;
            api.retry.count = 0;
        });
        let response = client.get("strict", "/").send_streaming().await;
        let response = response.expect("a response");
        assert_eq!(response.status(), 500);
        match response.bytes().await {
            Ok(bytes) => assert!(fits && bytes.len() == 100 * 1024, "{largest}"),
            Err(error) => assert!(!fits && error.is_body(), "{largest}: {error}"),
        }
        let response = client.get("strict", "/").send_streaming().await;
        let first = response.expect("a response").stream().chunk().await;
        assert_eq!(first.expect("something").is_ok(), fits, "{largest}");
    }
}

// HEAD, 204 and 304 have no body, against their headers; the connection serves the next call.
#[tokio::test]
async fn a_response_without_a_body_ends_with_its_head() {
    let mock = scripted(Script::new());
    mock.answer("/204", MockResponse::status(204));
    mock.answer("/304", MockResponse::status(304));
    mock.answer("/ten", MockResponse::ok("0123456789"));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    for (method, path, body) in [
        (Method::GET, "/204", ""),
        (Method::GET, "/304", ""),
        (Method::HEAD, "/ten", ""),
        (Method::GET, "/ten", "0123456789"),
    ] {
        let response = client.request(method, "strict", path).send().await;
        let bytes = response.expect(path).bytes().await.expect(path);
        assert_eq!(bytes, body, "{path}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}
