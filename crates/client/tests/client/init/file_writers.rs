//! File writers of a client: no configured key in a file, the write interval, and dropped lines.

use std::path::Path;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Config, Outflow};

use super::{PATIENCE, caching_server, configured_with, log_in};

const FIRST: &str = "s3cret/one+two";
const SECOND: &str = "an0ther-s3cret";

/// Configures two APIs at one address, each with its own key, and writes everything into `dir`.
fn with_keys(base_url: &str, dir: &Path) -> Config {
    let dir = dir.display();
    let text = format!(
        r#"
        [log]
        level = "trace"
        file = "{dir}/outflow.log"
        [metrics]
        ndjson = {{ file = "{dir}/metrics.ndjson" }}
        interval = "1h"
        [apis.first]
        base_url = "{base_url}"
        api_key_env = "FIRST"
        [apis.second]
        base_url = "{base_url}"
        api_key_env = "SECOND"
        key = {{ query = "api_key" }}
        "#
    );
    let variables: Environment = [("FIRST", FIRST), ("SECOND", SECOND)].into_iter().collect();
    Config::read(&[Source::new("test.toml", text)], &variables).expect("valid")
}

// Each key in a path of its own API and of the other, plain and URL-encoded: a log line contains
// its call's path.
#[tokio::test]
async fn no_file_contains_a_configured_key() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(with_keys(&server.url(), dir.path())).expect("valid");
    let spelled = ["s3cret%2Fone%2Btwo", SECOND];
    for api in ["first", "second"] {
        for path in [FIRST, SECOND, spelled[0]].map(|key| format!("/films/{key}/x")) {
            client.get(api, &path).send().await.expect("a response");
        }
    }
    let page = client.metrics().expect("metrics").render();
    assert!(client.close(PATIENCE).await);
    let lines = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    let log = log_in(dir.path());
    assert_eq!(log.matches("event=request").count(), 6, "{log}");
    assert!(log.matches("[redacted]").count() >= 6, "{log}");
    for text in [log, lines, page] {
        for key in [FIRST, SECOND, spelled[0]] {
            assert!(!text.contains(key), "{key} in {text}");
        }
    }
}

// An interval of a second for ten and a half seconds: a line at the start, ten more, and the last
// at the end. Only the writer's thread runs in real time.
#[tokio::test]
async fn metrics_are_written_at_their_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!(
        "[log]\nlevel = \"off\"\n[metrics]\nndjson = {{ file = \"{}/metrics.ndjson\" }}\n\
         interval = \"1s\"\n[apis.strict]\nbase_url = \"http://localhost:1\"\n",
        dir.path().display()
    );
    let config = Config::read(&[Source::new("test.toml", text)], &Environment::empty());
    tokio::time::pause();
    let client = Outflow::init(config.expect("valid")).expect("valid");
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    tokio::time::resume();
    assert!(client.close(PATIENCE).await);
    let text = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    let times: Vec<String> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("valid");
            assert!(line["apis"]["strict"].is_object(), "{line}");
            line["ts"].to_string()
        })
        .collect();
    assert_eq!(times.len(), 12, "{text}");
    assert!(times.is_sorted(), "{times:?}");
}

/// Returns the number of dropped lines on the metrics page.
fn dropped_lines(client: &Outflow) -> u64 {
    let page = client.metrics().expect("metrics").render();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("outflow_log_lines_dropped_total "));
    line.expect("a sample").parse().expect("a number")
}

// A directory stands at the path of the log, then of the metrics: no line can be written, calls go
// on, and each line counts.
#[tokio::test]
async fn a_line_that_cannot_be_written_is_counted() {
    for name in ["outflow.log", "metrics.ndjson"] {
        let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(dir.path().join(name)).expect("a directory in its place");
        let config = configured_with(&server.url(), dir.path(), "");
        let client = Outflow::init(config).expect("valid");
        let response = client.get("strict", "/a").send().await;
        assert_eq!(response.expect("a response").status(), 200);
        assert!(client.close(PATIENCE).await);
        assert!(dropped_lines(&client) >= 1, "{name}");
    }
}
