//! Responses whose end two readers could see differently, over raw sockets: the response side of RFC 9112,
//! section 6, and RFC 9110, section 8.6. Each row passes the sidecar with and without a cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outflow_testkit::Background;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::response_rows::{Answer, Expected, Row, rows};
use super::support::{PATIENCE, RawResponse, TestConfig, TestSidecar, until};

/// An API that answers `/7` with the bytes of answer 7, on connections that it keeps open if the answer does.
struct RawApi {
    url: String,
    requests: Arc<AtomicU64>,
    /// Number of each answer after which the caller closed the connection.
    closed: mpsc::UnboundedReceiver<usize>,
    _work: Background<()>,
}

impl RawApi {
    async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (requests, answers) = (Arc::new(AtomicU64::new(0)), Arc::new(answers));
        let (ended, closed) = mpsc::unbounded_channel();
        let counter = Arc::clone(&requests);
        let work = Background::start(async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = serve(stream, Arc::clone(&answers), Arc::clone(&counter), ended.clone());
                connections.push(Background::start(served));
            }
        });
        Self {
            url,
            requests,
            closed,
            _work: work,
        }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Waits until the caller has closed the connection that carried this answer.
    async fn until_closed(&mut self, number: usize) {
        loop {
            let closed = timeout(PATIENCE, self.closed.recv()).await;
            if closed.expect("the connection closes in time") == Some(number) {
                return;
            }
        }
    }
}

/// Answers the requests of one connection. An answer to a second request would show that it was reused.
async fn serve(
    mut stream: TcpStream,
    answers: Arc<Vec<Answer>>,
    requests: Arc<AtomicU64>,
    ended: mpsc::UnboundedSender<usize>,
) {
    let mut last = None;
    while let Some(number) = next_request(&mut stream).await {
        requests.fetch_add(1, Ordering::Relaxed);
        last = Some(number);
        let answer = answers.get(number).expect("a row");
        let _gone = stream.write_all(answer.bytes.as_bytes()).await;
        if answer.closes {
            let _gone = stream.shutdown().await;
        }
    }
    if let Some(number) = last {
        let _over = ended.send(number);
    }
}

/// Reads the head of a request and returns the number in its path; `None` when the caller has closed.
async fn next_request(stream: &mut TcpStream) -> Option<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1)?;
    path.trim_start_matches('/').parse().ok()
}

/// Seventy failures in a row would put the API to sleep, and retries of cut bodies would take seconds. No
/// other default is changed.
const AWAKE: &str = "[apis.strict.policy]\ninvalid_response = \"neutral\"\ntruncated_body = \"neutral\"";

#[tokio::test]
async fn ambiguous_responses_are_refused_and_sound_ones_pass_without_a_cache() {
    every_row_holds("", false).await;
}

// With a cache the sidecar reads responses whole. A second call gets the stored response of a sound row.
#[tokio::test]
async fn ambiguous_responses_are_refused_and_sound_ones_pass_with_a_cache() {
    every_row_holds("cache = { force = \"5m\" }", true).await;
}

async fn every_row_holds(cache: &str, is_cached: bool) {
    let rows = rows();
    assert!(rows.len() >= 60);
    let mut api = RawApi::start(rows.iter().map(|row| row.answer.clone()).collect()).await;
    let lines = format!("{cache}\n{AWAKE}");
    let config = TestConfig {
        api: &lines,
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&api.url, config).await;
    let (mut invalid, mut failed) = (0, Vec::new());
    for (number, row) in rows.iter().enumerate() {
        let request = sidecar.request(row.method, &format!("/strict/{number}"), "");
        let before = api.requests();
        let raw = sidecar.raw(request.as_bytes()).await;
        let mut held = check_row(row, &raw, is_cached);
        match row.expected {
            Expected::Whole(200, body) if is_cached && row.method == "GET" => {
                let stored = sidecar.raw(request.as_bytes()).await;
                held = held.and_then(|()| check_sound(&stored, row.method, (200, body)));
            }
            Expected::Whole(..) => {}
            Expected::Refused(_) | Expected::Malformed | Expected::Cut => api.until_closed(number).await,
        }
        invalid += u64::from(matches!(row.expected, Expected::Refused(_) | Expected::Malformed));
        let fetched = api.requests() - before;
        if fetched != 1 {
            held = held.and_then(|()| Err(format!("{fetched} requests")));
        }
        failed.extend(
            held.err()
                .map(|why| format!("{number}: {} {:?}: {why}", row.method, row.answer.bytes)),
        );
    }
    assert!(failed.is_empty(), "{} rows failed\n{}", failed.len(), failed.join("\n"));
    let metrics = sidecar.program.state().client().metrics().expect("there").render();
    let counted = format!("external_failures_total{{api=\"strict\",reason=\"invalid_response\"}} {invalid}\n");
    assert!(metrics.contains(&counted), "no {counted} in {metrics}");
}

/// Compares the bytes for the caller with the outcome of a row.
fn check_row(row: &Row, raw: &[u8], is_cached: bool) -> Result<(), String> {
    match row.expected {
        Expected::Refused(_) if row.method == "HEAD" => {
            let reply = RawResponse::parse(raw);
            let mark = reply.header("proxy-status");
            let is_refused = (reply.status, mark) == (502, Some("outflow; error=http_protocol_error"));
            is_refused.then_some(()).ok_or_else(|| format!("{reply:?}"))
        }
        Expected::Refused(reason) => check_refusal(raw, "invalid_response", reason),
        Expected::Malformed if is_cached => check_refusal(raw, "invalid_response", "malformed"),
        Expected::Cut if is_cached => check_refusal(raw, "truncated", ""),
        Expected::Malformed | Expected::Cut if is_whole(raw) => Err(String::from_utf8_lossy(raw).into_owned()),
        Expected::Malformed | Expected::Cut => Ok(()),
        Expected::Whole(status, body) => check_sound(raw, row.method, (status, body)),
    }
}

/// Checks a problem document of this type whose detail has this part, and nothing behind it.
fn check_refusal(raw: &[u8], kind: &str, reason: &str) -> Result<(), String> {
    let reply = RawResponse::parse(raw);
    if reply.status != 502 || !reply.more.is_empty() {
        return Err(format!("{reply:?}"));
    }
    let problem = reply.problem();
    let member = |name| problem.get(name).map(Value::to_string).unwrap_or_default();
    let is_named = member("type") == format!("\"urn:outflow:problem:{kind}\"") && member("detail").contains(reason);
    let is_right = is_named && member("attempts") == "1";
    is_right.then_some(()).ok_or_else(|| format!("{problem}"))
}

/// Checks a complete response with this status and body, one framing and nothing behind it.
fn check_sound(raw: &[u8], method: &str, wanted: (u16, &str)) -> Result<(), String> {
    let reply = RawResponse::parse(raw);
    let lengths = reply.headers.get("content-length").map_or(0, Vec::len);
    let codings = reply.headers.get("transfer-encoding").map_or(0, Vec::len);
    let is_framed = lengths + codings <= 1 && (method == "HEAD" || is_whole(raw));
    let is_sound = (reply.status, &*reply.body) == wanted && reply.more.is_empty() && is_framed;
    is_sound.then_some(()).ok_or_else(|| format!("{reply:?}"))
}

/// Returns true if the bytes are one response that is complete by its own framing.
fn is_whole(raw: &[u8]) -> bool {
    let text = String::from_utf8_lossy(raw);
    let Some((_, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let reply = RawResponse::parse(raw);
    match reply.header("content-length") {
        Some(length) => length == body.len().to_string(),
        None if reply.headers.contains_key("transfer-encoding") => body.ends_with("0\r\n\r\n"),
        None => body.is_empty(),
    }
}

// Two APIs and one keep-alive connection of a caller. The first API sends a length of 2 and longer chunks, which
// hold a response in the name of the second API.
#[tokio::test]
async fn an_api_cannot_forge_the_response_of_another() {
    for cache in ["off", "standard"] {
        let forged =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"paid\":\"evil\"}";
        let chunk = format!("{{}}{forged}");
        let evil = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n",
            chunk.len()
        );
        let good = "HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"paid\":\"bank\"}";
        let evil = RawApi::start(vec![Answer::held(&evil)]).await;
        let good = RawApi::start(vec![Answer::held(good)]).await;
        let both = format!(
            "cache = \"{cache}\"\n[apis.good]\nbase_url = \"{}\"\naddresses = \"any\"\ncache = \"{cache}\"",
            good.url
        );
        let config = TestConfig {
            api: &both,
            ..TestConfig::default()
        };
        let sidecar = TestSidecar::for_api(&evil.url, config).await;
        let mut caller = sidecar.connect().await;
        let mut ask = async |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", sidecar.address);
            caller.write_all(request.as_bytes()).await.expect("written");
            let mut text = until(&mut caller, "\r\n\r\n").await;
            let length = RawResponse::parse(text.as_bytes());
            let length: usize = length
                .header("content-length")
                .expect("a length")
                .parse()
                .expect("a number");
            let (_, start) = text.split_once("\r\n\r\n").expect("a head");
            let mut left = vec![0; length.saturating_sub(start.len())];
            timeout(PATIENCE, caller.read_exact(&mut left))
                .await
                .expect("in time")
                .expect("a body");
            text.push_str(&String::from_utf8_lossy(&left));
            RawResponse::parse(text.as_bytes())
        };
        let first = ask("/strict/0").await;
        assert_eq!((first.status, &*first.more), (502, ""), "cache {cache}: {first:?}");
        let second = ask("/good/0").await;
        assert_eq!(second.body, "{\"paid\":\"bank\"}", "cache {cache}");
    }
}

// With every default: two retries would follow a lost connection.
#[tokio::test]
async fn a_response_that_is_not_http_is_fetched_once() {
    for bytes in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "<html>no head</html>",
        "\0\u{1}\u{2}\u{3}",
        "HTTP/2.0 200 OK\r\n\r\n",
    ] {
        let mut api = RawApi::start(vec![Answer::held(bytes)]).await;
        let sidecar = TestSidecar::for_api(&api.url, TestConfig::default()).await;
        let reply = sidecar.get("/strict/0", "").await;
        assert_eq!((reply.status, api.requests()), (502, 1), "{bytes:?}: {reply:?}");
        assert_eq!(
            reply.problem()["type"],
            "urn:outflow:problem:invalid_response",
            "{bytes:?}"
        );
        assert_eq!(
            reply.header("proxy-status"),
            Some("outflow; error=http_protocol_error"),
            "{bytes:?}"
        );
        api.until_closed(0).await;
    }
}
