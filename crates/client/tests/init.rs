//! A client made from a configuration, with everything that runs beside it, over a real socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::event::What;
use outflow::{Ask, Config, Event, Events, Observer, Outflow, Rules, SystemClock, Upstream};
use outflow_upstream::{Answer, Quota, StrictApi};

const PATIENCE: Duration = Duration::from_secs(10);

/// A configuration that writes everything into `dir`.
fn configured(base_url: &str, dir: &std::path::Path) -> Config {
    let dir = dir.display();
    let text = format!(
        r#"
        [log]
        level = "trace"
        file = "{dir}/outflow.log"
        [metrics]
        ndjson = {{ file = "{dir}/metrics.ndjson" }}
        interval = "1h"
        [cache]
        dir = "{dir}/cache"
        [apis.strict]
        base_url = "{base_url}"
        limits = ["100/s"]
        cache = "standard"
        "#
    );
    let sources = [Source::new("test.toml", text)];
    Config::read(&sources, &Environment::empty()).expect("valid")
}

// Two equal calls, the second of which the cache answers: one request at the server, two lines in the
// log, and numbers that agree with both.
#[tokio::test]
async fn a_configured_client_logs_counts_and_keeps_its_answers() {
    let kept = Answer::ok("{}").header("cache-control", "max-age=60");
    let api = StrictApi::builder()
        .limit(Quota::sliding("100/s".parse().expect("valid")))
        .answer("/**", kept)
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");

    for _ in 0..2 {
        let answer = client.get("strict", "/films/17?key=CANARY").send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    let page = client.metrics().expect("metrics").render();
    assert!(
        page.contains("external_requests_total{api=\"strict\"} 2\n"),
        "{page}"
    );
    assert!(
        page.contains("cache_hits_total{api=\"strict\"} 1\n"),
        "{page}"
    );
    let names: Vec<_> = client
        .tasks()
        .expect("tasks")
        .report()
        .iter()
        .map(|task| task.name)
        .collect();
    for name in ["log", "metrics", "metrics-writer", "tidy", "cache"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }

    assert!(
        client.close(PATIENCE).await,
        "everything ends when it is told to"
    );
    let log = std::fs::read_to_string(dir.path().join("outflow.log")).expect("a log");
    assert_eq!(log.matches("event=request").count(), 2, "{log}");
    assert!(!log.contains("CANARY"), "{log}");
    let lines = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    assert!(
        lines.lines().count() >= 1 && lines.contains("\"strict\""),
        "{lines}"
    );
    assert_eq!(
        api.audit().count(),
        1,
        "the second answer came from the cache"
    );
}

// What was written is there for the next process: the server is gone, the answer is not.
#[tokio::test]
async fn a_kept_answer_outlives_its_client() {
    let api = StrictApi::builder()
        .answer(
            "/**",
            Answer::ok("1.08").header("cache-control", "max-age=600"),
        )
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let (url, dir) = (server.url(), tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&url, dir.path())).expect("valid");
    client
        .get("strict", "/rates")
        .send()
        .await
        .expect("an answer");
    assert!(client.close(PATIENCE).await);
    drop((client, server));

    let again = Outflow::init(configured(&url, dir.path())).expect("valid");
    let answer = again.get("strict", "/rates").send().await.expect("kept");
    assert_eq!(&answer.bytes().await.expect("whole")[..], b"1.08");
    assert!(again.close(PATIENCE).await);
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let error =
        Outflow::init(configured("http://localhost:1", dir.path())).expect_err("no runtime");
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

/// Keeps what the memory alert says.
#[derive(Default)]
struct Heard(Mutex<Vec<bool>>);

impl Observer for Heard {
    fn observe(&self, event: &Event) {
        if let What::Memory { raised, .. } = event.what {
            self.0.lock().expect("sound").push(raised);
        }
    }
}

// A threshold of one byte, which the first entry of a log passes; told once, however often it is looked
// at, and it decides nothing: the next call goes.
#[test]
fn meters_that_take_too_much_memory_are_told_once() {
    let mut rules = Rules::limited_to("100/s".parse().expect("valid"));
    rules.thresholds.memory = 1;
    let (events, heard) = (Events::new(), Arc::new(Heard::default()));
    events.subscribe(heard.clone());
    let door = Upstream::new("small", rules, Arc::new(SystemClock::new()), events).expect("valid");
    let ask = Ask::new(door.group("default").expect("always there"));
    for _ in 0..3 {
        let mut permit = door.try_admit(ask).expect("room");
        permit.sending();
        permit.settle(outflow::Answer::status(200));
        door.tidy();
    }
    assert_eq!(*heard.0.lock().expect("sound"), [true]);
}
