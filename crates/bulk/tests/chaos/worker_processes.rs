//! A mock API in this process, and workers in others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use http::HeaderName;
use outflow_mock::{Arrival, Latency, MockApi, Server};
use outflow_testkit::Process;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Jobs that a worker has in flight at most.
pub(crate) const IN_FLIGHT: usize = 8;

/// Longer than any worker takes.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_mins(1);

/// The API that all workers call.
pub(crate) struct TestApi {
    pub(crate) mock: MockApi,
    server: Server,
    /// Accounts of the limits that the workers share.
    ledger: TempDir,
}

impl TestApi {
    /// Starts an API that takes a few milliseconds, so that a kill finds calls in flight.
    pub(crate) async fn new() -> Self {
        Self::with_latency(Duration::from_millis(1), Duration::from_millis(8)).await
    }

    /// Starts an API with response times in this range.
    pub(crate) async fn with_latency(min: Duration, max: Duration) -> Self {
        let attempt = HeaderName::from_static("outflow-attempt");
        let mock = MockApi::builder()
            .delay(Latency::Uniform(min, max), Latency::None)
            .noting(attempt)
            .build();
        Self::start(mock.expect("valid")).await
    }

    /// Starts a server for this API.
    pub(crate) async fn start(mock: MockApi) -> Self {
        let server = mock.listen().await.expect("a port");
        Self {
            mock,
            server,
            ledger: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Starts a worker on a store, with these words as arguments and this failpoint.
    pub(crate) fn worker(&self, store: &str, words: &[&str], die_at: Option<&str>) -> Process {
        let mut command = Command::new(program());
        command.args([&self.server.url(), store]).args(words);
        command.arg(format!("ledger={}", self.ledger.path().display()));
        if let Some(point) = die_at {
            command.env("OUTFLOW_FAILPOINT", point);
        }
        Process::start(command).expect("it starts")
    }

    /// Waits until the API has seen this many calls.
    pub(crate) async fn wait_for_calls(&self, calls: u64) {
        let begun = Instant::now();
        while self.mock.totals().seen < calls {
            assert!(begun.elapsed() < WAIT_LIMIT, "{:?}", self.mock.totals());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Counts the attempts of each job, and checks that all attempts of a job carry one key.
    pub(crate) fn attempts(&self) -> BTreeMap<String, usize> {
        let audit = self.mock.audit();
        let mut keys: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for one in audit.arrivals() {
            let key = one.idempotency_key.as_ref().expect("a key").as_bytes();
            keys.entry(&one.path).or_default().insert(key.to_vec());
            *counts.entry(job(one)).or_default() += 1;
        }
        assert!(keys.values().all(|keys| keys.len() == 1), "{keys:?}");
        counts
    }

    /// Returns the attempt numbers of each job, in order of arrival.
    pub(crate) fn numbers(&self) -> BTreeMap<String, Vec<u32>> {
        let audit = self.mock.audit();
        let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for one in audit.arrivals() {
            let (_, attempt) = one.headers.first().expect("an attempt's number");
            let attempt = attempt.to_str().expect("text").parse();
            let numbers = numbers.entry(job(one)).or_default();
            numbers.push(attempt.expect("a number"));
        }
        numbers
    }

    /// Checks that every job was done, and that at most `max_repeats` attempts were repeated.
    pub(crate) fn assert_all_done(&self, jobs: usize, max_repeats: usize) {
        let attempts = self.attempts();
        let lost = (0..jobs).filter(|number| !attempts.contains_key(&number.to_string()));
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<usize>::new());
        let repeated: usize = attempts.values().map(|count| count - 1).sum();
        assert!(repeated <= max_repeats, "{repeated} for {max_repeats}");
    }
}

fn job(one: &Arrival) -> String {
    let path = one.path.trim_start_matches("/job/");
    path.trim_start_matches('/').to_owned()
}

/// Job counts that a worker prints at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FinalCounts {
    pub(crate) submitted: usize,
    pub(crate) done: usize,
    pub(crate) dead: usize,
    pub(crate) failed: usize,
    pub(crate) cancelled: usize,
    pub(crate) open: usize,
    pub(crate) drift: usize,
}

impl FinalCounts {
    /// Waits for the worker's last line and parses it.
    pub(crate) fn read(worker: &mut Process) -> Self {
        let line = worker.wait_for_line("end ", WAIT_LIMIT).expect("an end");
        let number = |name: &str| {
            let words = line.split_whitespace();
            let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            values.next().and_then(|text| text.parse().ok()).expect(name)
        };
        Self {
            submitted: number("submitted"),
            done: number("done"),
            dead: number("dead"),
            failed: number("failed"),
            cancelled: number("cancelled"),
            open: number("open"),
            drift: number("drift"),
        }
    }
}

/// Returns the path of the example `worker`, which is built next to the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a place");
    let target = tests.ancestors().nth(2).expect("the target folder");
    target.join("examples").join("worker")
}
