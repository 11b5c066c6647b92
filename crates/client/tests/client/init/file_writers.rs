//! What is written beside the calls: whose secrets are not in it, when it is written, what is dropped.

use std::path::Path;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Config, Outflow};

use super::{PATIENCE, configured_with, keepable, log_in};

const FIRST: &str = "s3cret/one+two";
const SECOND: &str = "an0ther-s3cret";

/// Two APIs at one place, each with a key of its own, and everything written into `dir`.
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

// Each key in a path of its own API and of the other, as it is and as a URL carries it: what a log line
// tells of a call is its path.
#[tokio::test]
async fn no_configured_key_is_written_wherever_it_appears() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(with_keys(&server.url(), dir.path())).expect("valid");
    let spelled = ["s3cret%2Fone%2Btwo", SECOND];
    for api in ["first", "second"] {
        for path in [FIRST, SECOND, spelled[0]].map(|key| format!("/films/{key}/x")) {
            client.get(api, &path).send().await.expect("an answer");
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

// A second of rhythm and ten and a half of them: a line at the beginning, ten more, and the last at the
// end. Only the writer's thread is not on the runtime's time.
#[tokio::test]
async fn metrics_are_written_at_their_rhythm() {
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

/// How many lines the page says were dropped.
fn dropped(client: &Outflow) -> u64 {
    let page = client.metrics().expect("metrics").render();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("outflow_log_lines_dropped_total "));
    line.expect("told").parse().expect("a number")
}

// A directory stands where the log should be, and then where the metrics should: no line can be written,
// calls go on, and each line is counted.
#[tokio::test]
async fn a_line_that_cannot_be_written_is_counted() {
    for name in ["outflow.log", "metrics.ndjson"] {
        let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(dir.path().join(name)).expect("a directory in its place");
        let config = configured_with(&server.url(), dir.path(), "");
        let client = Outflow::init(config).expect("valid");
        let answer = client.get("strict", "/a").send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
        assert!(client.close(PATIENCE).await);
        assert!(dropped(&client) >= 1, "{name}");
    }
}
