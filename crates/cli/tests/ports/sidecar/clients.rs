//! Clients of users: each points its base URL at the sidecar, which limits its calls.
//!
//! A missing program skips its test with a message, and fails it where `CI=true`.

use std::io::ErrorKind;
use std::process::Command;

use outflow_mock::{MockApi, MockResponse};

use super::support::{TestConfig, TestSidecar, echo};

/// Runs a program and returns its output; `None` if it is not installed.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{program}: {error}");
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "{program} is missing");
            eprintln!("SKIPPED without {program}: it is not installed");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {text}{errors}");
    Some(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_limits_curl() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let base = format!("http://{}/strict", sidecar.address);
    // The body exceeds the size of an argument, so it comes from a file.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "x".repeat(200_000)).expect("writable");
    let large = format!("@{}", file.path().display());
    for (arguments, wanted) in [
        (vec!["-si"], "HTTP/1.1 200 OK"),
        (vec!["-si", "--http1.0"], "HTTP/1.0 200 OK"),
        (vec!["-si", "--http2"], "HTTP/1.1 200 OK"),
        (vec!["-si", "--http2-prior-knowledge"], "HTTP/2 200"),
        (vec!["-si", "-d", "a=b"], "\"body_length\":3"),
        (vec!["-si", "-d", &large], "\"body_length\":200000"),
        (
            vec!["-si", "-H", "Transfer-Encoding: chunked", "-d", "a=b"],
            "\"body_length\":3",
        ),
        (
            vec!["-si", "-H", "Expect: 100-continue", "-d", "a=b"],
            "\"body_length\":3",
        ),
        (vec!["-si", "-X", "DELETE"], "\"method\":\"DELETE\""),
        (vec!["-sI"], "outflow-attempts: 1"),
        (vec!["-si", "-H", "Outflow-Cost: x"], "application/problem+json"),
    ] {
        let url = format!("{base}/a?q=%2F");
        let arguments: Vec<&str> = arguments.into_iter().chain([url.as_str()]).collect();
        let Some(text) = printed("curl", &arguments) else {
            return;
        };
        assert!(text.contains(wanted), "{arguments:?}: {text}");
        assert!(text.contains("via: 1.1 outflow"), "{arguments:?}: {text}");
    }
    assert_eq!(api.audit().count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_limits_python() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let script = format!(
        r#"
import http.client, json, urllib.request
base = "http://{address}/strict"
with urllib.request.urlopen(base + "/a?q=%2F") as answer:
    seen = json.load(answer)
    assert answer.status == 200 and seen["query"] == "q=%2F", seen
    assert answer.headers["Via"] == "1.1 outflow", answer.headers
connection = http.client.HTTPConnection("{address}")
for body in (b"abc", b"x" * 200000):
    connection.request("POST", "/strict/b", body=body)
    answer = connection.getresponse()
    assert json.loads(answer.read())["body_length"] == len(body)
connection.request("POST", "/strict/c", body=iter([b"ab", b"cd"]), encode_chunked=True,
                   headers={{"Transfer-Encoding": "chunked"}})
assert json.loads(connection.getresponse().read())["body_length"] == 4
connection.request("GET", "/unknown/x")
answer = connection.getresponse()
assert answer.status == 404 and json.loads(answer.read())["known"] == ["strict"]
print("all well")
"#,
        address = sidecar.address
    );
    if let Some(text) = printed("python3", &["-c", &script]) {
        assert!(text.contains("all well"), "{text}");
        assert_eq!(api.audit().count(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_limits_node_fetch() {
    let events = MockResponse::ok("data: 1\n\ndata: 2\n\n").header("content-type", "text/event-stream");
    let api = MockApi::builder()
        .answer("/events", events)
        .answer("/**", MockResponse::echo())
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let script = format!(
        r#"
const base = "http://{address}/strict";
const assert = require("node:assert");
(async () => {{
  let answer = await fetch(base + "/a?q=%2F", {{ headers: {{ "Outflow-Priority": "high" }} }});
  let seen = await answer.json();
  assert.equal(answer.status, 200);
  assert.equal(seen.query, "q=%2F");
  assert.equal(answer.headers.get("via"), "1.1 outflow");
  answer = await fetch(base + "/b", {{ method: "POST", body: "x".repeat(200000) }});
  assert.equal((await answer.json()).body_length, 200000);
  const pieces = new ReadableStream({{
    start(out) {{ out.enqueue(new Uint8Array(3)); out.enqueue(new Uint8Array(4)); out.close(); }},
  }});
  answer = await fetch(base + "/c", {{ method: "POST", body: pieces, duplex: "half" }});
  assert.equal((await answer.json()).body_length, 7);
  answer = await fetch(base + "/events");
  assert.match(await answer.text(), /data: 2/);
  answer = await fetch(base + "/d", {{ headers: {{ "Outflow-Mode": "perhaps" }} }});
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).advice, /wait or reject/);
  console.log("all well");
}})();
"#,
        address = sidecar.address
    );
    if let Some(text) = printed("node", &["-e", &script]) {
        assert!(text.contains("all well"), "{text}");
        assert_eq!(api.audit().count(), 4);
    }
}
