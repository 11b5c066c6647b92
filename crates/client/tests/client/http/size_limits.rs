//! Answers that are larger than anyone wants.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use http_body::Body as _;
use outflow_mock::{Content, Fault, MockResponse, Script, ScriptMatch};

use super::support::{over_pipes, over_sockets, scripted};

const GIB: u64 = 1 << 30;

// A gigabyte that is announced, and zeros without an end that are not: neither is read to its end.
#[tokio::test]
async fn a_body_is_read_up_to_its_largest_size_and_no_further() {
    for content in [Content::Zeros(GIB), Content::Endless] {
        let huge = MockResponse::ok("").content(content.clone());
        let strict = scripted(Script::new().rule(ScriptMatch::always(), huge));
        let server = strict.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.max_body = 100_000);
        let error = client
            .get("strict", "/")
            .send()
            .await
            .expect_err("too large");
        assert!(error.is_body() && !error.is_timeout(), "{error}");
        assert!(error.to_string().contains("100000 bytes"), "{error}");
        assert_eq!(
            strict.audit().count(),
            1,
            "the next one is as large: {content:?}"
        );
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// One byte less fits.
#[tokio::test]
async fn the_largest_size_itself_is_read() {
    for (size, fits) in [(100_000, true), (100_001, false)] {
        let strict = scripted(Script::new());
        strict.answer("/", MockResponse::ok("").content(Content::Zeros(size)));
        let server = strict.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.max_body = 100_000);
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), fits, "{size}");
    }
}

// Whoever streams takes what it wants of it and leaves; the place at the API is free at once.
#[tokio::test]
async fn a_stream_has_no_largest_size_and_may_be_left() {
    let endless = MockResponse::ok("").content(Content::Endless);
    let strict = scripted(Script::new().rule(ScriptMatch::always(), endless));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |api| api.max_body = 1_000);
    let answer = client
        .get("strict", "/")
        .send_streaming()
        .await
        .expect("a head");
    let door = client.upstream("strict").expect("there").clone();
    assert!(!door.is_idle());
    let (mut body, mut read) = (answer.stream(), 0);
    while read < 1_000_000 {
        read += body.chunk().await.expect("endless").expect("well").len();
    }
    assert!(!body.is_end_stream() && !door.is_idle());
    drop(body);
    assert!(door.is_idle());
}

// 32 KiB of head are read; ten megabytes or lines without an end are not.
#[tokio::test]
async fn a_head_has_a_size() {
    for (fault, fits) in [
        (Fault::HugeHeader(31_000), true),
        (Fault::HugeHeader(100_000), false),
        (Fault::HugeHeader(10_000_000), false),
        (Fault::ManyHeaders(50), true),
        (Fault::ManyHeaders(200), false),
        (Fault::EndlessHead(Duration::ZERO), false),
    ] {
        let strict = scripted(Script::new().rule(ScriptMatch::always(), fault.clone()));
        let server = strict.listen().await.expect("a port");
        let client = over_sockets(&server, |api| api.retry.count = 0);
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), fits, "{fault:?}");
    }
}

// The first bytes of a stream of zeros, compressed a thousand times over. Nobody asked for it, and nobody
// blows it up: what is counted against the largest size is what came.
#[tokio::test(start_paused = true)]
async fn nothing_is_decompressed() {
    let bomb = [
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0xec, 0xc1][..],
        &[0; 500],
    ]
    .concat();
    let packed = MockResponse::ok(bomb.clone()).header("content-encoding", "gzip");
    let strict = scripted(Script::new().rule(ScriptMatch::path("/bomb"), packed));
    strict.answer("/echo", MockResponse::echo());
    let client = over_pipes(&strict, |api| api.max_body = 4_096);
    let answer = client
        .get("strict", "/bomb")
        .send()
        .await
        .expect("as it is");
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert_eq!(answer.bytes().await.expect("whole"), bomb);
    let echo = client.get("strict", "/echo").send().await.expect("an echo");
    let echo = echo.text().await.expect("text");
    assert!(echo.contains("user-agent"), "{echo}");
    assert!(!echo.contains("accept-encoding"), "{echo}");
}

// The server did its work. Whatever its answer is worth, it is not asked again.
#[tokio::test(start_paused = true)]
async fn decoding_is_no_part_of_the_call() {
    let strict = scripted(Script::new());
    strict.answer("/none", MockResponse::status(204));
    strict.answer("/bad", MockResponse::bad_json());
    strict.answer("/other", MockResponse::ok(r#"{"secret": "CANARY"}"#));
    strict.answer("/bytes", MockResponse::ok(&b"\xff\xfe"[..]));
    let client = over_pipes(&strict, |_| {});
    for (path, words) in [
        ("/none", "ends too early to be JSON (line 1, column 0)"),
        ("/bad", "ends too early to be JSON (line 1, column 10)"),
        ("/other", "JSON of another type"),
        ("/bytes", "is not JSON"),
    ] {
        let answer = client.get("strict", path).send().await.expect("an answer");
        let error = answer
            .json::<HashMap<String, bool>>()
            .await
            .expect_err("no such thing");
        assert!(error.is_decode(), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error:?}").contains("CANARY"));
        assert_eq!(strict.audit().attempts(path), 1);
    }
    let text = client
        .get("strict", "/bytes")
        .send()
        .await
        .expect("an answer")
        .text()
        .await;
    assert!(text.expect_err("no text").is_decode());
}

// A page of 100 KiB, with room for it and without. The status is told either way.
#[tokio::test(start_paused = true)]
async fn a_page_of_an_error_is_there_or_said_to_be_too_large() {
    const PAGE: u64 = 100 * 1024;
    let page = MockResponse::status(500).content(Content::Zeros(PAGE));
    let strict = scripted(Script::new().rule(ScriptMatch::always(), page));
    for (largest, fits) in [(PAGE, true), (PAGE - 1, false)] {
        let client = over_pipes(&strict, |api| {
            api.max_body = largest;
            api.retry.count = 0;
        });
        let answer = client.get("strict", "/").send_streaming().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 500);
        match answer.bytes().await {
            Ok(bytes) => assert!(fits && bytes.len() == 100 * 1024, "{largest}"),
            Err(error) => assert!(!fits && error.is_body(), "{largest}: {error}"),
        }
        let answer = client.get("strict", "/").send_streaming().await;
        let first = answer.expect("an answer").stream().chunk().await;
        assert_eq!(first.expect("something").is_ok(), fits, "{largest}");
    }
}

// HEAD, 204 and 304 have no body, whatever their heads say; the connection serves the next call.
#[tokio::test]
async fn what_has_no_body_is_over_with_its_head() {
    let strict = scripted(Script::new());
    strict.answer("/204", MockResponse::status(204));
    strict.answer("/304", MockResponse::status(304));
    strict.answer("/ten", MockResponse::ok("0123456789"));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    for (method, path, body) in [
        (Method::GET, "/204", ""),
        (Method::GET, "/304", ""),
        (Method::HEAD, "/ten", ""),
        (Method::GET, "/ten", "0123456789"),
    ] {
        let answer = client.request(method, "strict", path).send().await;
        let bytes = answer.expect(path).bytes().await.expect(path);
        assert_eq!(bytes, body, "{path}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}
