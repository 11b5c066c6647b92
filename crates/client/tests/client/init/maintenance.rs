//! Maintenance apart from calls; no call depends on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::event::{CacheLabel, TaskState};
use outflow::{Api, AttemptResult, Config, Outflow, Rules, SpawnError};
use outflow_mock::{MockApi, MockResponse as Said, Quota};

use super::{AlertRecorder, PATIENCE, caching_server, configured};

// A threshold of one byte and a check every 100 ms: the alert comes without any call or report.
#[tokio::test]
async fn maintenance_updates_statistics_without_calls() {
    let mut api = Api::new("strict", "http://localhost:1".parse().expect("a URL"));
    api.rules = Rules::with_limit("100/s".parse().expect("valid"));
    api.rules.thresholds.memory = 1;
    api.rules.thresholds.statistics_every = Duration::from_millis(100);
    tokio::time::pause();
    let client = Outflow::init([api]).expect("valid");
    let recorder = Arc::new(AlertRecorder::default());
    client.events().subscribe(recorder.clone());
    let upstream = client.upstream("strict").expect("there");
    let target = upstream.group("default").expect("always there");
    let mut permit = upstream.try_acquire(target).expect("room");
    permit.sending();
    permit.settle(AttemptResult::status(200));
    assert!(recorder.0.lock().expect("sound").is_empty());
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(*recorder.0.lock().expect("sound"), [true]);
    tokio::time::resume();
    assert!(client.close(PATIENCE).await);
}

// Without an API there is nothing to maintain, and maintenance must not spin.
#[tokio::test]
async fn a_client_without_apis_starts_and_ends() {
    let client = Outflow::init([]).expect("valid");
    assert_eq!(client.apis().count(), 0);
    assert!(client.close(PATIENCE).await);
}

#[tokio::test]
async fn every_task_is_named_and_ends_with_the_client() {
    let (server, dir) = (caching_server().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let tasks = client.tasks().expect("of a configuration");
    let mut names: Vec<_> = tasks.report().iter().map(|task| task.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["cache", "log", "metrics", "metrics-writer", "tidy"]);
    assert!(client.close(PATIENCE).await);
    let running = tasks.report().into_iter().filter(|task| task.state != TaskState::Ended);
    assert_eq!(running.count(), 0);
    let late = tasks.spawn_once("late", async {});
    assert_eq!(late, Err(SpawnError::Stopping));
    assert!(client.close(PATIENCE).await, "closing twice is closing once");
}

/// Returns the size of the stored responses, in disk blocks.
fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a directory").flatten();
    let kept = files.filter(|file| file.file_name().len() == 65);
    let lengths = kept.map(|file| file.metadata().expect("a file").len());
    lengths.map(|length| length.div_ceil(4_096) * 4_096).sum()
}

// Sixteen clients in sequence write four responses of 6 KB each, two blocks with their heads:
// twice the 256 KiB.
#[tokio::test]
async fn the_disk_cache_keeps_its_configured_size() {
    let kept = Said::ok("0123456789".repeat(600)).header("cache-control", "max-age=60");
    let api = MockApi::builder().answer("/**", kept).build();
    let server = api.expect("valid").listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!(
        "[log]\nlevel = \"off\"\n[cache]\ndir = \"{}\"\nsize = \"256KiB\"\n\
         [apis.strict]\nbase_url = \"{}\"\nlimits = []\ncache = \"standard\"\n",
        dir.path().join("cache").display(),
        server.url()
    );
    for round in 0..16 {
        let source = Source::new("test.toml", text.clone());
        let config = Config::read(&[source], &Environment::empty());
        let client = Outflow::init(config.expect("valid")).expect("valid");
        for number in 0..4 {
            let path = format!("/{round}/{number}");
            client.get("strict", &path).send().await.expect("a response");
        }
        assert!(client.close(PATIENCE).await);
    }
    let bytes = bytes_in(&dir.path().join("cache"));
    assert!((200 << 10..=256 << 10).contains(&bytes), "{bytes}");
}

// Twenty in half a second are allowed, and the server counts too: forty different calls take at
// least half a second. All background services have been stopped.
#[tokio::test]
async fn limits_hold_and_responses_are_cached_without_background_services() {
    let rate = "20/500ms".parse().expect("valid");
    let kept = Said::ok("{}").header("cache-control", "max-age=60");
    let mock = MockApi::builder().limit(Quota::sliding(rate)).answer("/**", kept);
    let mock = mock.build().expect("valid");
    let server = mock.listen().await.expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = configured(&server.url(), dir.path());
    config.apis[0].rules = Rules::with_limit(rate);
    config.apis[0].retry.count = 0;
    let client = Outflow::init(config).expect("valid");
    let tasks = client.tasks().expect("of a configuration");
    let cut_off = tasks.shutdown(Duration::from_millis(100)).await.aborted;
    assert_eq!(cut_off, ["log", "metrics-writer"], "they wait for lines");
    for number in 0..40 {
        let path = format!("/{number}");
        let response = client.get("strict", &path).send().await.expect("a response");
        assert_eq!(response.status(), 200);
    }
    let again = client.get("strict", "/39").send().await.expect("kept");
    assert_eq!(again.from_cache(), Some(CacheLabel::Hit));
    let audit = mock.audit();
    assert_eq!((audit.count(), audit.refused()), (40, 0));
    let page = client.metrics().expect("still").render();
    assert!(page.contains("outflow_in_flight{api=\"strict\"} 0"), "{page}");
}
