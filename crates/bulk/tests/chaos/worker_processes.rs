//! A strict API in this process, and workers in others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use http::HeaderName;
use outflow_mock::{Arrival, Latency, MockApi, Server};
use outflow_testkit::Process;
use tokio::time::{Instant, sleep};

/// How many jobs a worker has under way at most.
pub(crate) const IN_FLIGHT: usize = 8;

/// Longer than any worker takes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The API that all workers call.
pub(crate) struct Field {
    pub(crate) strict: MockApi,
    server: Server,
}

impl Field {
    /// An API that takes a few milliseconds, so that a kill finds calls under way.
    pub(crate) async fn new() -> Self {
        Self::answering_within(Duration::from_millis(1), Duration::from_millis(8)).await
    }

    /// An API that takes between so long and so long.
    pub(crate) async fn answering_within(least: Duration, most: Duration) -> Self {
        let attempt = HeaderName::from_static("outflow-attempt");
        let strict = MockApi::builder()
            .delay(Latency::Uniform(least, most), Latency::None)
            .noting(attempt)
            .build();
        Self::of(strict.expect("valid")).await
    }

    /// This API.
    pub(crate) async fn of(strict: MockApi) -> Self {
        let server = strict.listen().await.expect("a port");
        Self { strict, server }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// A worker on a store, with these words behind it and this point to die at.
    pub(crate) fn worker(&self, store: &str, words: &[&str], die_at: Option<&str>) -> Process {
        let mut command = Command::new(program());
        command.args([&self.server.url(), store]).args(words);
        if let Some(point) = die_at {
            command.env("OUTFLOW_FAILPOINT", point);
        }
        Process::start(command).expect("it starts")
    }

    /// Waits until the API has seen so many calls.
    pub(crate) async fn has_seen(&self, calls: u64) {
        let begun = Instant::now();
        while self.strict.totals().seen < calls {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.strict.totals());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// How often each job was done, and whether all of its attempts had one key.
    pub(crate) fn attempts(&self) -> BTreeMap<String, usize> {
        let audit = self.strict.audit();
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

    /// The numbers of the attempts of each job, in the order in which they arrived.
    pub(crate) fn numbers(&self) -> BTreeMap<String, Vec<u32>> {
        let audit = self.strict.audit();
        let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for one in audit.arrivals() {
            let (_, attempt) = one.headers.first().expect("an attempt's number");
            let attempt = attempt.to_str().expect("text").parse();
            let numbers = numbers.entry(job(one)).or_default();
            numbers.push(attempt.expect("a number"));
        }
        numbers
    }

    /// Every one of so many jobs was done, and no more were done twice than this.
    pub(crate) fn all_done(&self, jobs: usize, most_twice: usize) {
        let attempts = self.attempts();
        let lost = (0..jobs).filter(|number| !attempts.contains_key(&number.to_string()));
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<usize>::new());
        let twice: usize = attempts.values().map(|count| count - 1).sum();
        assert!(twice <= most_twice, "{twice} for {most_twice}");
    }
}

fn job(one: &Arrival) -> String {
    let path = one.path.trim_start_matches("/job/");
    path.trim_start_matches('/').to_owned()
}

/// How a worker said that jobs stand at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) submitted: usize,
    pub(crate) done: usize,
    pub(crate) dead: usize,
    pub(crate) failed: usize,
    pub(crate) cancelled: usize,
    pub(crate) open: usize,
    pub(crate) drift: usize,
}

impl End {
    /// Waits for it.
    pub(crate) fn of(worker: &mut Process) -> Self {
        let line = worker.wait_for_line("end ", PATIENCE).expect("an end");
        let number = |name: &str| {
            let words = line.split_whitespace();
            let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            values
                .next()
                .and_then(|text| text.parse().ok())
                .expect(name)
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

/// The example `worker`, which stands beside the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a place");
    let target = tests.ancestors().nth(2).expect("deps, and what is above");
    target.join("examples").join("worker")
}
