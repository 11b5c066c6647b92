//! A process that dies at every store call and at every commit: enumerated, not sampled.
//!
//! A first run records which calls are made, and how often. Then one run dies before each of them and one after
//! it. Another process repeats the scenario and finishes it, and the output of both is compared with the calls
//! that the API saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use outflow_sync::Mutex;
use outflow_testkit::{Keep, RedisOptions, RedisServer};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::consistency::RunLog;
use super::worker_processes::{FinalCounts, TestApi, WAIT_LIMIT};

/// Store of one run.
enum StoreFixture {
    Directory(TempDir),
    Server(Box<RedisServer>),
}

/// Kind of the store of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoreKind {
    Embedded,
    Redis,
    /// A server that is killed with the worker, and restarted with its stored data.
    RestartedRedis,
}

impl StoreFixture {
    fn new(kind: StoreKind) -> Self {
        let keep = match kind {
            StoreKind::Embedded => {
                return Self::Directory(tempfile::tempdir().expect("a directory"));
            }
            StoreKind::Redis => Keep::Nothing,
            StoreKind::RestartedRedis => Keep::UntilPowerLoss,
        };
        let options = RedisOptions {
            keep,
            ..RedisOptions::default()
        };
        Self::Server(Box::new(RedisServer::start(options).expect("a server")))
    }

    fn location(&self) -> String {
        match self {
            Self::Directory(dir) => dir.path().display().to_string(),
            Self::Server(server) => server.url(),
        }
    }
}

/// One instant at which the process dies.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Failpoint {
    name: String,
    count: usize,
}

impl Failpoint {
    fn new((name, count): (&str, usize)) -> Self {
        let name = name.to_owned();
        Self { name, count }
    }

    fn text(&self) -> String {
        format!("{}:{}", self.name, self.count)
    }
}

/// Returns how often an undisturbed run reaches each failpoint. Takes the lower count of two runs: a slow
/// machine polls lanes more often.
fn record_points(kind: StoreKind) -> BTreeMap<String, usize> {
    let (mut one, other) = (record_complete(kind), record_complete(kind));
    for (point, count) in &mut one {
        *count = other.get(point).map_or(1, |other_count| (*count).min(*other_count));
    }
    one
}

/// Records another run if a timer-driven call is missing, as a short run may end before it.
fn record_complete(kind: StoreKind) -> BTreeMap<String, usize> {
    let mut missed = None;
    for _ in 0..10 {
        let passed = record_once(kind);
        missed = CALLS.iter().find(|call| !passed.contains_key(**call));
        if missed.is_none() {
            return passed;
        }
    }
    assert_eq!(missed, None, "a call that the scenario does not make");
    BTreeMap::new()
}

fn record_once(kind: StoreKind) -> BTreeMap<String, usize> {
    let api = Handle::current().block_on(TestApi::new());
    let store = StoreFixture::new(kind);
    let mut worker = api.worker(&store.location(), &["scenario"], Some("record"));
    let ended = worker.wait(WAIT_LIMIT).expect("it ends");
    assert!(ended.success(), "{ended}");
    let mut passed = BTreeMap::new();
    for line in worker.last_lines(WAIT_LIMIT) {
        if let Some(point) = line.text.strip_prefix("passed ") {
            *passed.entry(point.to_owned()).or_default() += 1;
        }
    }
    passed
}

/// Runs one process for each failpoint, and a last one that finishes. Returns the number of killed processes.
fn run_with_deaths(kind: StoreKind, points: &[Failpoint]) -> Result<usize, String> {
    let api = Handle::current().block_on(TestApi::new());
    let mut store = StoreFixture::new(kind);
    let mut log = RunLog::default();
    for point in points {
        let mut victim = api.worker(&store.location(), &["scenario"], Some(&point.text()));
        log.record(&mut victim)?;
        if let (StoreKind::RestartedRedis, StoreFixture::Server(server)) = (kind, &mut store) {
            server.restart().map_err(|error| error.to_string())?;
        }
    }
    let mut last = api.worker(&store.location(), &["scenario"], None);
    if !log.record(&mut last)? {
        return Err("the last process died".to_owned());
    }
    log.check(&api, &FinalCounts::read(&mut last))?;
    Ok(log.kills())
}

/// Runs all of these, several at a time, as they mostly wait. Returns the number of killed processes.
fn run_all(kind: StoreKind, runs: &[Vec<Failpoint>]) -> usize {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    let runtime = Handle::current();
    std::thread::scope(|threads| {
        for _ in 0..PARALLEL_RUNS {
            threads.spawn(|| {
                let _inside = runtime.enter();
                while let Some(points) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run_with_deaths(kind, points) {
                        Ok(count) => drop(kills.fetch_add(count, Ordering::Relaxed)),
                        Err(message) => {
                            let mut failures = failures.lock();
                            failures.push(format!("{points:?}: {message}"));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{} runs:\n{}", failures.len(), failures.join("\n"));
    kills.into_inner()
}

/// Returns every failpoint, before and after its call, each in a run of its own.
fn all_points(passed: &BTreeMap<String, usize>) -> Vec<Vec<Failpoint>> {
    let numbers = passed
        .iter()
        .flat_map(|(name, count)| (1..=*count).flat_map(move |number| both_sides(name, number)));
    numbers.map(|point| vec![point]).collect()
}

/// Returns the first failpoint of each kind, and one from the middle of the run.
fn some_points(passed: &BTreeMap<String, usize>) -> Vec<Vec<Failpoint>> {
    let numbers = passed.iter().flat_map(|(name, count)| {
        let mut chosen = vec![1, count.div_ceil(2)];
        chosen.dedup();
        chosen.into_iter().flat_map(move |number| both_sides(name, number))
    });
    numbers.map(|point| vec![point]).collect()
}

fn both_sides(name: &str, number: usize) -> [Failpoint; 2] {
    let after = format!("{name}+");
    [Failpoint::new((name, number)), Failpoint::new((&after, number))]
}

/// Runs the chosen failpoints of a recorded run. Some are reached only by timers or not in every run. At most a
/// tenth may be missed, as a run without a death shows nothing.
fn run_chosen(kind: StoreKind, chosen: impl Fn(&BTreeMap<String, usize>) -> Vec<Vec<Failpoint>>) {
    tokio::task::block_in_place(|| {
        let passed = record_points(kind);
        let runs = chosen(&passed);
        let deaths: usize = runs.iter().map(Vec::len).sum();
        let kills = run_all(kind, &runs);
        println!("{kind:?}: {passed:?}: {} runs, {kills} kills", runs.len());
        assert!(kills * 10 >= deaths * 9, "{kills} of {deaths} died");
    });
}

/// Combines some failpoints with one of the first commits of the next process, which is its recovery.
fn two_deaths(passed: &BTreeMap<String, usize>) -> Vec<Vec<Failpoint>> {
    let mut runs = Vec::new();
    for first in some_points(passed).into_iter().flatten() {
        for number in 1..=3 {
            runs.extend(both_sides("commit", number).map(|second| vec![first.clone(), second]));
        }
    }
    runs
}

// Before and after each kind of call and commit: the first of the run and one in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_at_any_failpoint_of_the_process() {
    run_chosen(StoreKind::Embedded, some_points);
}

// The store is another process here and survives its workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_at_any_failpoint_of_a_fleet() {
    run_chosen(StoreKind::Redis, some_points);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call and every commit, before and after"]
async fn stress_no_job_is_lost_at_any_failpoint_of_the_process() {
    run_chosen(StoreKind::Embedded, all_points);
}

// A second death at each of the first commits of the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: each death followed by one in its recovery"]
async fn stress_no_job_is_lost_when_a_recovery_dies() {
    run_chosen(StoreKind::Embedded, two_deaths);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call, before and after"]
async fn stress_no_job_is_lost_at_any_failpoint_of_a_fleet() {
    run_chosen(StoreKind::Redis, all_points);
}

// The server dies with the worker and restarts with every write that it acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_when_worker_and_server_die_together() {
    let kills = tokio::task::block_in_place(|| {
        let runs: Vec<_> = ["submit", "claim", "settle", "mark_notified"]
            .iter()
            .map(|name| vec![Failpoint::new((&format!("{name}+"), 1))])
            .collect();
        run_all(StoreKind::RestartedRedis, &runs)
    });
    assert_eq!(kills, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call, before and after, and a server that dies with it"]
async fn stress_no_job_is_lost_when_worker_and_server_die_at_any_failpoint() {
    run_chosen(StoreKind::RestartedRedis, all_points);
}

/// Every call that the store contract offers. `changed` only waits and is left out.
const CALLS: [&str; 37] = [
    "action",
    "actions",
    "active_tenants",
    "audit",
    "begin_sampling",
    "cancel",
    "claim",
    "close",
    "collect_garbage",
    "congestion_history",
    "count_start",
    "dead_letters",
    "heartbeat",
    "job_counts",
    "lane_loads",
    "lanes",
    "mark_notified",
    "open",
    "outcomes",
    "pause",
    "purge",
    "reap",
    "record_congestion",
    "release_deferred",
    "release_unknown",
    "remaining",
    "remove_rule",
    "requeue",
    "reset_congestion",
    "resume",
    "set_default_rule",
    "set_rule",
    "settle",
    "submit",
    "take_finished",
    "tenant",
    "tenants",
];

/// Suits two cores: a run is two processes that mostly wait for each other.
const PARALLEL_RUNS: usize = 4;
