//! A whole client with secrets in every place, and all its files and printed values.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Config, Outflow};
use outflow_mock::{Content, Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};

use super::LogPage;

/// Contains quotes, escapes and encoded characters. No searched part is hexadecimal, because call
/// ids are.
const CANARY: &str = "CANARY/7z3q+\"x9\"-0123456789";

fn configured(base_url: &str, dir: &Path, place: &str) -> Config {
    let dir = dir.display();
    let text = format!(
        r#"
        [log]
        level = "trace"
        file = "{dir}/outflow.log"
        [metrics]
        ndjson = {{ file = "{dir}/metrics.ndjson" }}
        [cache]
        dir = "{dir}/cache"
        [apis.strict]
        base_url = "{base_url}"
        limits = ["1000/s"]
        cache = "standard"
        retry_count = 0
        api_key_env = "STRICT_KEY"
        key = {place}
        "#
    );
    let environment = Environment::from_iter([("STRICT_KEY", CANARY)]);
    Config::read(&[Source::new("test.toml", text)], &environment).expect("valid")
}

/// Returns responses of every kind that echo the secret, and failures without a response.
fn server_faults() -> Vec<ScriptedFault> {
    let echo = format!("{{\"you said\": {CANARY:?}");
    let answers = [200, 302, 401, 429, 500].map(|status| {
        MockResponse::status(status)
            .header("x-echo", CANARY)
            .header("location", "/x/CANARY-7z3q?k=CANARY-7z3q")
            .header("ratelimit", CANARY)
            .header("retry-after", CANARY)
            .header("cache-control", "max-age=60")
            .content(Content::Whole(echo.clone().into()))
    });
    let head = format!("HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n");
    let faults = [
        Fault::ResetBeforeHead,
        Fault::CutBody,
        Fault::Garbage,
        Fault::Bytes(head.into()),
    ];
    let answers = answers.into_iter().map(ScriptedFault::from);
    answers.chain(faults.map(ScriptedFault::from)).collect()
}

/// Calls with the secret in the path, the query, headers and the body; returns the printed
/// results.
async fn called(client: &Outflow) -> String {
    let mut printed = String::new();
    for path in [
        "/user:CANARY-7z3q@host/b",
        "//u:CANARY-7z3q@host/",
        "/p;token=CANARY-7z3q?sig=CANARY-7z3q#CANARY",
    ] {
        let call = || {
            client
                .get("strict", path)
                .query([("q", CANARY)])
                .header("authorization", "Bearer CANARY-7z3q")
                .header("cookie", "s=CANARY-7z3q")
                .header("traceparent", "00-CANARY7z3q-CANARY-01")
                .header("x-request-id", "CANARY-7z3q")
                .timeout(Duration::from_secs(1))
        };
        let whole = [call().send().await, call().body(CANARY).send().await];
        for ended in whole.into_iter().chain([call().send_streaming().await]) {
            match ended {
                Ok(response) => {
                    write!(printed, "{response:?}").expect("room");
                    let decoded = response.json::<u8>().await;
                    write!(printed, "{decoded:?}").expect("room");
                }
                Err(error) => write!(printed, "{error} {error:?}").expect("room"),
            }
        }
    }
    printed
}

/// Returns everything under a directory, each with its name.
fn files(dir: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for found in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = found.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("bytes");
            let name = path.display().to_string();
            all.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    all
}

// The key in each of its placements, and a subscriber for every crate.
#[tokio::test]
async fn a_whole_client_writes_and_prints_no_secret() {
    let (page, dir) = (LogPage::default(), tempfile::tempdir().expect("a directory"));
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let mut printed = String::new();
    for place in ["\"bearer\"", "{ header = \"x-api-key\" }", "{ query = \"key\" }"] {
        for act in server_faults() {
            let script = Script::new().rule(ScriptMatch::always(), act);
            let api = MockApi::builder().script(script).build().expect("valid");
            let server = api.listen().await.expect("a port");
            let config = configured(&server.url(), dir.path(), place);
            write!(printed, "{config:?}").expect("room");
            let client = Outflow::init(config).expect("valid");
            printed += &called(&client).await;
            write!(printed, "{client:?} {:?}", client.api("strict")).expect("room");
            printed += &client.metrics().expect("metrics").render();
            client.close(Duration::from_secs(10)).await;
        }
    }
    let mut all = files(dir.path());
    assert!(all.iter().any(|(_, text)| text.contains("event=request")));
    all.extend([("printed".into(), printed), ("traced".into(), page.text())]);
    // The beginning, plain and in base64, and a part without escapes.
    for (name, text) in &all {
        for part in ["CANARY", "canary", "7z3q", "Q0FOQVJZ"] {
            assert!(!text.contains(part), "{part} in {name}");
        }
    }
}
