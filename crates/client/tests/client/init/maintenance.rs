//! What is done beside the calls, and that no call needs it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::event::{CacheLabel, TaskState};
use outflow::{Api, AttemptResult, Config, Outflow, Rules, SpawnError};
use outflow_mock::{MockApi, MockResponse as Said, Quota};

use super::{Heard, PATIENCE, configured, keepable};

// A threshold of one byte and a look every 100 ms: nobody calls and nobody asks, and it is told.
#[tokio::test]
async fn statistics_are_brought_up_to_date_by_themselves() {
    let mut api = Api::new("strict", "http://localhost:1".parse().expect("a URL"));
    api.rules = Rules::with_limit("100/s".parse().expect("valid"));
    api.rules.thresholds.memory = 1;
    api.rules.thresholds.statistics_every = Duration::from_millis(100);
    tokio::time::pause();
    let client = Outflow::init([api]).expect("valid");
    let heard = Arc::new(Heard::default());
    client.events().subscribe(heard.clone());
    let door = client.upstream("strict").expect("there");
    let ask = door.group("default").expect("always there");
    let mut permit = door.try_acquire(ask).expect("room");
    permit.sending();
    permit.settle(AttemptResult::status(200));
    assert!(heard.0.lock().expect("sound").is_empty());
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(*heard.0.lock().expect("sound"), [true]);
    tokio::time::resume();
    assert!(client.close(PATIENCE).await);
}

// Without an API there is nothing to look at, which must not be taken for looking all the time.
#[tokio::test]
async fn a_client_of_no_api_starts_and_ends() {
    let client = Outflow::init([]).expect("valid");
    assert_eq!(client.apis().count(), 0);
    assert!(client.close(PATIENCE).await);
}

#[tokio::test]
async fn everything_is_named_and_over_once_the_client_is_closed() {
    let (server, dir) = (keepable().await, tempfile::tempdir().expect("a directory"));
    let client = Outflow::init(configured(&server.url(), dir.path())).expect("valid");
    let tasks = client.tasks().expect("of a configuration");
    let mut names: Vec<_> = tasks.report().iter().map(|task| task.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["cache", "log", "metrics", "metrics-writer", "tidy"]);
    assert!(client.close(PATIENCE).await);
    let running = tasks
        .report()
        .into_iter()
        .filter(|task| task.state != TaskState::Ended);
    assert_eq!(running.count(), 0);
    let late = tasks.spawn_once("late", async {});
    assert_eq!(late, Err(SpawnError::Stopping));
    assert!(
        client.close(PATIENCE).await,
        "closing twice is closing once"
    );
}

/// The bytes of the files of kept answers, in the blocks that disks deal in.
fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a directory").flatten();
    let kept = files.filter(|file| file.file_name().len() == 65);
    let lengths = kept.map(|file| file.metadata().expect("a file").len());
    lengths.map(|length| length.div_ceil(4_096) * 4_096).sum()
}

// Sixteen clients one after the other, each of which writes four answers of 6 KB, two blocks with their
// heads: twice what 256 KiB hold.
#[tokio::test]
async fn a_cache_on_disk_is_as_large_as_configured() {
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
            client.get("strict", &path).send().await.expect("an answer");
        }
        assert!(client.close(PATIENCE).await);
    }
    let bytes = bytes_in(&dir.path().join("cache"));
    assert!((200 << 10..=256 << 10).contains(&bytes), "{bytes}");
}

// Twenty in half a second are allowed, and the server counts too: forty equal in nothing but their limit
// take half a second at least. Everything beside the client has been told to stop and has.
#[tokio::test]
async fn limits_hold_and_answers_are_kept_when_nothing_runs_beside_the_client() {
    let rate = "20/500ms".parse().expect("valid");
    let kept = Said::ok("{}").header("cache-control", "max-age=60");
    let strict = MockApi::builder()
        .limit(Quota::sliding(rate))
        .answer("/**", kept);
    let strict = strict.build().expect("valid");
    let server = strict.listen().await.expect("a port");
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
        let answer = client.get("strict", &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
    }
    let again = client.get("strict", "/39").send().await.expect("kept");
    assert_eq!(again.from_cache(), Some(CacheLabel::Hit));
    let audit = strict.audit();
    assert_eq!((audit.count(), audit.refused()), (40, 0));
    let page = client.metrics().expect("still").render();
    assert!(
        page.contains("outflow_in_flight{api=\"strict\"} 0"),
        "{page}"
    );
}
