//! A client from a configuration, with its background services, over a real socket.

mod file_writers;
mod gauges;
mod global;
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

/// Builds a configuration that writes everything into `dir`.
fn configured(base_url: &str, dir: &Path) -> Config {
    configured_with(base_url, dir, "")
}

/// Builds that configuration with more lines for the API.
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

// Two equal calls, the second from the cache: one request at the server, two log lines, and
// matching counters.
#[tokio::test]
async fn a_configured_client_logs_counts_and_caches() {
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
        let response = client.get("strict", "/films/17?key=CANARY").send().await;
        assert_eq!(response.expect("a response").status(), 200);
    }
    let page = client.metrics().expect("metrics").render();
    assert!(page.contains("external_requests_total{api=\"strict\"} 2\n"), "{page}");
    assert!(page.contains("cache_hits_total{api=\"strict\"} 1\n"), "{page}");
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

    assert!(client.close(PATIENCE).await, "every service stops on shutdown");
    let log = std::fs::read_to_string(dir.path().join("outflow.log")).expect("a log");
    assert_eq!(log.matches("event=request").count(), 2, "{log}");
    assert!(!log.contains("CANARY"), "{log}");
    let lines = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    assert!(lines.lines().count() >= 1 && lines.contains("\"strict\""), "{lines}");
    assert_eq!(api.audit().count(), 1, "the second answer came from the cache");
}

// The next process finds the written response after the server is gone.
#[tokio::test]
async fn a_stored_response_outlives_its_client() {
    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("1.08").header("cache-control", "max-age=600"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let (url, dir) = (server.url(), tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&url, dir.path())).expect("valid");
    client.get("strict", "/rates").send().await.expect("a response");
    assert!(client.close(PATIENCE).await);
    drop((client, server));

    let again = Outflow::init(configured(&url, dir.path())).expect("valid");
    let response = again.get("strict", "/rates").send().await.expect("kept");
    assert_eq!(&response.bytes().await.expect("whole")[..], b"1.08");
    assert!(again.close(PATIENCE).await);
}

#[test]
fn init_outside_a_runtime_returns_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = Outflow::init(configured("http://localhost:1", dir.path())).expect_err("no runtime");
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

/// Records the memory alerts.
#[derive(Default)]
struct AlertRecorder(Mutex<Vec<bool>>);

impl Observer for AlertRecorder {
    fn observe(&self, event: &Event) {
        if let EventKind::Memory { raised, .. } = event.what {
            self.0.lock().expect("sound").push(raised);
        }
    }
}

// The first log entry passes a threshold of one byte. The alert comes once, however often the
// upstream checks, and the next call still goes.
#[test]
fn meters_above_the_memory_threshold_raise_one_alert() {
    let mut rules = Rules::with_limit("100/s".parse().expect("valid"));
    rules.thresholds.memory = 1;
    let (events, alerts) = (Events::new(), Arc::new(AlertRecorder::default()));
    events.subscribe(alerts.clone());
    let upstream = Upstream::new("small", rules, Arc::new(SystemClock::new()), events).expect("valid");
    let target = upstream.group("default").expect("always there");
    for _ in 0..3 {
        let mut permit = upstream.try_acquire(target).expect("room");
        permit.sending();
        permit.settle(outflow::AttemptResult::status(200));
        upstream.prune();
    }
    assert_eq!(*alerts.0.lock().expect("sound"), [true]);
}

/// Starts a server whose responses are fresh for a minute.
async fn caching_server() -> Server {
    let kept = MockResponse::ok("{}").header("cache-control", "max-age=60");
    let api = MockApi::builder().answer("/**", kept).build();
    api.expect("valid").listen().await.expect("a port")
}

fn log_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("outflow.log")).expect("a log")
}

// Seven equal calls within one hour-long interval: one is sent, six come from the cache.
#[tokio::test]
async fn the_last_metrics_line_is_written_at_shutdown() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    for _ in 0..7 {
        client.get("strict", "/a").send().await.expect("a response");
    }
    assert!(client.close(PATIENCE).await);
    let text = std::fs::read_to_string(dir.path().join("metrics.ndjson")).expect("lines");
    let last = text.lines().last().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("valid");
    let mock = &last["apis"]["strict"];
    assert_eq!(mock["cache_hits_total"], 6, "{text}");
    assert_eq!(mock["requests_total"]["200"], 1, "{text}");
}

/// Signals that a call has failed and waits for its retry.
#[derive(Default)]
struct RetrySignal(Notify);

impl Observer for RetrySignal {
    fn observe(&self, event: &Event) {
        if let EventKind::Retrying { .. } = event.what {
            self.0.notify_one();
        }
    }
}

// Between two attempts a call has no permit, so that the upstreams do not know of it.
#[tokio::test]
async fn closing_waits_for_a_call_between_two_attempts() {
    let script = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let (failed, over) = (Arc::new(RetrySignal::default()), Cell::new(false));
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
struct PanickingObserver;

impl Observer for PanickingObserver {
    fn observe(&self, event: &Event) {
        assert!(!matches!(event.what, EventKind::Finished(_)), "clumsy");
    }
}

/// Counts the ends of calls.
#[derive(Default)]
struct EndCounter(Mutex<u32>);

impl Observer for EndCounter {
    fn observe(&self, event: &Event) {
        if let EventKind::Finished(_) = event.what {
            *self.0.lock().expect("sound") += 1;
        }
    }
}

// The caller's own task reports the end of a call, where a panic would end both.
#[tokio::test]
async fn a_panicking_observer_stops_neither_a_call_nor_another_observer() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let behind = Arc::new(EndCounter::default());
    client.events().subscribe(Arc::new(PanickingObserver));
    client.events().subscribe(behind.clone());
    for _ in 0..2 {
        let response = client.get("strict", "/a").send().await;
        assert_eq!(response.expect("a response").status(), 200);
    }
    assert_eq!(*behind.0.lock().expect("sound"), 2);
}

// One throttle response without a retry, with a wait from the server.
#[tokio::test]
async fn the_log_line_of_a_throttle_counts_that_throttle() {
    let refused = MockResponse::status(429).header("retry-after", "2");
    let script = Script::new().rule(ScriptMatch::always(), refused);
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let config = configured_with(&server.url(), dir.path(), "retry_count = 0");
    let client = Outflow::init(config).expect("valid");
    let response = client.get("strict", "/a").send().await;
    assert_eq!(response.expect("a response").status(), 429);
    assert!(client.close(PATIENCE).await);
    let log = log_in(dir.path());
    let line = log.lines().find(|line| line.contains("event=429"));
    let line = line.expect("a line");
    for expected in ["consec429=1 ", "err_rate_30s=1 ", "retry_after=2s "] {
        assert!(line.contains(expected), "{expected} in {line}");
    }
}

// The first client owns the directory; the second works from memory, which would go unnoticed.
#[tokio::test]
async fn a_cache_without_its_directory_is_reported() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    let first = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let expected = "lvl=WARN comp=cache event=disk reason=elsewhere";
    let second = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    assert!(second.close(PATIENCE).await);
    let log = log_in(dir.path());
    assert_eq!(log.matches(expected).count(), 1, "{log}");
    assert!(first.close(PATIENCE).await);
}

/// Counts the calls in a directory's log.
#[cfg(target_os = "linux")]
fn lines_in(dir: &Path) -> usize {
    let log = std::fs::read_to_string(dir.join("outflow.log")).unwrap_or_default();
    log.matches("event=request").count()
}

/// Counts this process's open files in a directory.
#[cfg(target_os = "linux")]
fn open_files(dir: &Path) -> usize {
    let handles = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let paths = handles.filter_map(|handle| std::fs::read_link(handle.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(dir)).count()
}

// The test closes no client. Each has three threads with an open file: the log, the metrics and
// the cache lock.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn fifty_dropped_clients_leave_only_their_log_lines() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    for round in 0..50 {
        let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
        let path = format!("/{round}");
        client.get("strict", &path).send().await.expect("a response");
    }
    // The log thread may open its file only after its client is gone.
    let left = || (lines_in(dir.path()), open_files(dir.path()));
    let over = async {
        while left() != (50, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let over = tokio::time::timeout(PATIENCE, over).await;
    assert!(over.is_ok(), "lines and open files: {:?}", left());
}
