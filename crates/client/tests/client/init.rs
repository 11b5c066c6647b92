//! A client made from a configuration, with everything that runs beside it, over a real socket.

mod file_writers;
mod gauges;
mod maintenance;

use std::cell::Cell;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::event::EventKind;
use outflow::{Config, Event, Events, Observer, Outflow, Rules, SystemClock, Upstream};
use outflow_mock::{MockApi, MockResponse, Quota, Script, ScriptMatch, Server};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(10);

/// A configuration that writes everything into `dir`.
fn configured(base_url: &str, dir: &Path) -> Config {
    configured_with(base_url, dir, "")
}

/// The same, with more lines about the API.
fn configured_with(base_url: &str, dir: &Path, more: &str) -> Config {
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
        {more}
        "#
    );
    let sources = [Source::new("test.toml", text)];
    Config::read(&sources, &Environment::empty()).expect("valid")
}

// Two equal calls, the second of which the cache answers: one request at the server, two lines in the
// log, and numbers that agree with both.
#[tokio::test]
async fn a_configured_client_logs_counts_and_keeps_its_answers() {
    let kept = MockResponse::ok("{}").header("cache-control", "max-age=60");
    let api = MockApi::builder()
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
    let api = MockApi::builder()
        .answer(
            "/**",
            MockResponse::ok("1.08").header("cache-control", "max-age=600"),
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
        if let EventKind::Memory { raised, .. } = event.what {
            self.0.lock().expect("sound").push(raised);
        }
    }
}

// A threshold of one byte, which the first entry of a log passes; told once, however often it is looked
// at, and it decides nothing: the next call goes.
#[test]
fn meters_that_take_too_much_memory_are_told_once() {
    let mut rules = Rules::with_limit("100/s".parse().expect("valid"));
    rules.thresholds.memory = 1;
    let (events, heard) = (Events::new(), Arc::new(Heard::default()));
    events.subscribe(heard.clone());
    let door = Upstream::new("small", rules, Arc::new(SystemClock::new()), events).expect("valid");
    let ask = door.group("default").expect("always there");
    for _ in 0..3 {
        let mut permit = door.try_acquire(ask).expect("room");
        permit.sending();
        permit.settle(outflow::AttemptResult::status(200));
        door.prune();
    }
    assert_eq!(*heard.0.lock().expect("sound"), [true]);
}

/// A server whose every answer may be kept for a minute.
async fn keepable() -> Server {
    let kept = MockResponse::ok("{}").header("cache-control", "max-age=60");
    let api = MockApi::builder().answer("/**", kept).build();
    api.expect("valid").listen().await.expect("a port")
}

fn log_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("outflow.log")).expect("a log")
}

// Seven equal calls within an hour that has no interval but the first: one is sent, six are kept.
#[tokio::test]
async fn the_last_line_of_metrics_is_written_at_the_end() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    for _ in 0..7 {
        client.get("strict", "/a").send().await.expect("an answer");
    }
    assert!(client.close(PATIENCE).await);
    let text = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    let last = text.lines().last().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("valid");
    let strict = &last["apis"]["strict"];
    assert_eq!(strict["cache_hits_total"], 6, "{text}");
    assert_eq!(strict["requests_total"]["200"], 1, "{text}");
}

/// Says when a call has failed and waits to be repeated.
#[derive(Default)]
struct Failed(Notify);

impl Observer for Failed {
    fn observe(&self, event: &Event) {
        if let EventKind::Retrying { .. } = event.what {
            self.0.notify_one();
        }
    }
}

// Between two attempts a call has no permit, so that the doors do not know of it.
#[tokio::test]
async fn closing_waits_for_a_call_between_two_attempts() {
    let script = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let (failed, over) = (Arc::new(Failed::default()), Cell::new(false));
    client.events().subscribe(failed.clone());
    let call = async {
        let _either = client.get("strict", "/a").send().await;
        over.set(true);
    };
    let closing = async {
        failed.0.notified().await;
        (client.close(PATIENCE).await, over.get())
    };
    let ((), closed) = tokio::join!(call, closing);
    assert_eq!(closed, (true, true), "closed, and the call was over");
    let log = log_in(dir.path());
    assert_eq!(log.matches("event=request").count(), 1, "{log}");
}

/// Panics at the end of every call.
struct Clumsy;

impl Observer for Clumsy {
    fn observe(&self, event: &Event) {
        assert!(!matches!(event.what, EventKind::Finished(_)), "clumsy");
    }
}

/// Counts ends of calls.
#[derive(Default)]
struct Ends(Mutex<u32>);

impl Observer for Ends {
    fn observe(&self, event: &Event) {
        if let EventKind::Finished(_) = event.what {
            *self.0.lock().expect("sound") += 1;
        }
    }
}

// The end of a call is told in the caller's own task, where a panic would be the end of both.
#[tokio::test]
async fn an_observer_that_panics_takes_neither_a_call_nor_another_observer_down() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let behind = Arc::new(Ends::default());
    client.events().subscribe(Arc::new(Clumsy));
    client.events().subscribe(behind.clone());
    for _ in 0..2 {
        let answer = client.get("strict", "/a").send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    assert_eq!(*behind.0.lock().expect("sound"), 2);
}

// One refusal that is not repeated, with the wait that the server asks for.
#[tokio::test]
async fn the_line_of_a_refusal_counts_that_refusal() {
    let refused = MockResponse::status(429).header("retry-after", "2");
    let script = Script::new().rule(ScriptMatch::always(), refused);
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let config = configured_with(&server.url(), dir.path(), "retry_count = 0");
    let client = Outflow::init(config).expect("valid");
    let answer = client.get("strict", "/a").send().await;
    assert_eq!(answer.expect("an answer").status(), 429);
    assert!(client.close(PATIENCE).await);
    let log = log_in(dir.path());
    let line = log.lines().find(|line| line.contains("event=429"));
    let line = line.expect("a line");
    for told in ["consec429=1 ", "err_rate_30s=1 ", "retry_after=2s "] {
        assert!(line.contains(told), "{told} in {line}");
    }
}

// The directory belongs to the first client; the second works from memory, which nobody would notice.
#[tokio::test]
async fn a_cache_without_its_directory_is_told() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    let first = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let told = "lvl=WARN comp=cache event=disk reason=elsewhere";
    let second = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    assert!(second.close(PATIENCE).await);
    let log = log_in(dir.path());
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(first.close(PATIENCE).await);
}

/// How many calls the log of a directory tells of so far.
#[cfg(target_os = "linux")]
fn lines_in(dir: &Path) -> usize {
    let log = std::fs::read_to_string(dir.join("outflow.log")).unwrap_or_default();
    log.matches("event=request").count()
}

/// The files of a directory that this process has open.
#[cfg(target_os = "linux")]
fn open_files(dir: &Path) -> usize {
    let handles = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let paths = handles.filter_map(|handle| std::fs::read_link(handle.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(dir)).count()
}

// Nobody closes them. Each has three threads that hold a file each: the log, the metrics and the lock of
// the cache.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn fifty_dropped_clients_leave_their_lines_and_nothing_else() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    for round in 0..50 {
        let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
        let path = format!("/{round}");
        client.get("strict", &path).send().await.expect("an answer");
    }
    // The thread of a log may open its file only after its client is gone.
    let left = || (lines_in(dir.path()), open_files(dir.path()));
    let over = async {
        while left() != (50, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let over = tokio::time::timeout(PATIENCE, over).await;
    assert!(over.is_ok(), "lines and open files: {:?}", left());
}
