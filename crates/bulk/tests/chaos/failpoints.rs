//! A process that dies at every call of its store, and at every commit of it: enumerated, not sampled.
//!
//! A first day is recorded: which calls were made, and how often. Then there is a day for each of them
//! that ends before it, and one that ends after it; another process begins that day again and finishes
//! it, and the books of both are compared with what the API saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use outflow_testkit::{Keep, RedisOptions, RedisServer};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::consistency::Books;
use super::worker_processes::{End, Field, PATIENCE};

/// Where a day's jobs are kept.
enum Ground {
    Directory(TempDir),
    Server(Box<RedisServer>),
}

/// Which kind of ground.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Embedded,
    Redis,
    /// A server that is killed with the worker, and started again with what it kept.
    MortalRedis,
}

impl Ground {
    fn new(kind: Kind) -> Self {
        let keep = match kind {
            Kind::Embedded => return Self::Directory(tempfile::tempdir().expect("a directory")),
            Kind::Redis => Keep::Nothing,
            Kind::MortalRedis => Keep::EveryWrite,
        };
        let options = RedisOptions {
            keep,
            ..RedisOptions::default()
        };
        Self::Server(Box::new(RedisServer::start(options).expect("a server")))
    }

    fn place(&self) -> String {
        match self {
            Self::Directory(dir) => dir.path().display().to_string(),
            Self::Server(server) => server.url(),
        }
    }
}

/// One place to die.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Point {
    name: String,
    count: usize,
}

impl Point {
    fn of((name, count): (&str, usize)) -> Self {
        let name = name.to_owned();
        Self { name, count }
    }

    fn text(&self) -> String {
        format!("{}:{}", self.name, self.count)
    }
}

/// How often each point is passed on a day on which nobody dies, whatever else the machine does: on a day of which
/// it had little time, lanes look more often.
fn recorded(kind: Kind) -> BTreeMap<String, usize> {
    let (mut one, other) = (recorded_whole(kind), recorded_whole(kind));
    for (point, count) in &mut one {
        *count = other.get(point).map_or(1, |often| (*count).min(*often));
    }
    one
}

/// Some calls only the clock brings, and on a short day perhaps not: then another day is recorded.
fn recorded_whole(kind: Kind) -> BTreeMap<String, usize> {
    let mut missed = None;
    for _ in 0..10 {
        let passed = recorded_once(kind);
        missed = CALLS.iter().find(|call| !passed.contains_key(**call));
        if missed.is_none() {
            return passed;
        }
    }
    assert_eq!(missed, None, "a call that the day does not make");
    BTreeMap::new()
}

fn recorded_once(kind: Kind) -> BTreeMap<String, usize> {
    let field = Handle::current().block_on(Field::new());
    let ground = Ground::new(kind);
    let mut worker = field.worker(&ground.place(), &["day"], Some("record"));
    let ended = worker.wait(PATIENCE).expect("it ends");
    assert!(ended.success(), "{ended}");
    let mut passed = BTreeMap::new();
    for line in worker.last_lines(PATIENCE) {
        if let Some(point) = line.text.strip_prefix("passed ") {
            *passed.entry(point.to_owned()).or_default() += 1;
        }
    }
    passed
}

/// A day on which the process dies there, one that dies at the beginning of the next if that is asked
/// for, and one that is finished. Says how many were killed.
fn died_at(kind: Kind, points: &[Point]) -> Result<usize, String> {
    let field = Handle::current().block_on(Field::new());
    let mut ground = Ground::new(kind);
    let mut books = Books::default();
    for point in points {
        let mut victim = field.worker(&ground.place(), &["day"], Some(&point.text()));
        books.hear(&mut victim)?;
        if let (Kind::MortalRedis, Ground::Server(server)) = (kind, &mut ground) {
            server.restart().map_err(|error| error.to_string())?;
        }
    }
    let mut last = field.worker(&ground.place(), &["day"], None);
    if !books.hear(&mut last)? {
        return Err("the next one died".to_owned());
    }
    books.judge(&field, &End::of(&mut last))?;
    Ok(books.kills())
}

/// Goes through all of these, some at a time: they mostly wait. Says how many processes were killed.
fn enumerate(kind: Kind, days: &[Vec<Point>]) -> usize {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    let runtime = Handle::current();
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                let _inside = runtime.enter();
                while let Some(points) = days.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match died_at(kind, points) {
                        Ok(count) => drop(kills.fetch_add(count, Ordering::Relaxed)),
                        Err(words) => {
                            let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                            wrong.push(format!("{points:?}: {words}"));
                        }
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(
        wrong.is_empty(),
        "{} days:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    kills.into_inner()
}

/// Every point that was passed, before and after, each of a day of its own.
fn all(passed: &BTreeMap<String, usize>) -> Vec<Vec<Point>> {
    let numbers = passed
        .iter()
        .flat_map(|(name, count)| (1..=*count).flat_map(move |number| both(name, number)));
    numbers.map(|point| vec![point]).collect()
}

/// Of each kind of point the first, and one in the middle of the day.
fn some(passed: &BTreeMap<String, usize>) -> Vec<Vec<Point>> {
    let numbers = passed.iter().flat_map(|(name, count)| {
        let mut chosen = vec![1, count.div_ceil(2)];
        chosen.dedup();
        chosen
            .into_iter()
            .flat_map(move |number| both(name, number))
    });
    numbers.map(|point| vec![point]).collect()
}

fn both(name: &str, number: usize) -> [Point; 2] {
    let after = format!("{name}+");
    [Point::of((name, number)), Point::of((&after, number))]
}

/// Goes through the days that are chosen of the points that such a day passes. Points that only the clock
/// brings, or that are passed more or less often, are not always reached: all but a tenth have to be, for
/// a day on which nobody dies shows nothing.
fn days(kind: Kind, chosen: impl Fn(&BTreeMap<String, usize>) -> Vec<Vec<Point>>) {
    tokio::task::block_in_place(|| {
        let passed = recorded(kind);
        let days = chosen(&passed);
        let deaths: usize = days.iter().map(Vec::len).sum();
        let kills = enumerate(kind, &days);
        println!("{kind:?}: {passed:?}: {} days, {kills} kills", days.len());
        assert!(kills * 10 >= deaths * 9, "{kills} of {deaths} died");
    });
}

/// After each of some points, one of the first commits of the next process: that is its recovery.
fn twice(passed: &BTreeMap<String, usize>) -> Vec<Vec<Point>> {
    let mut days = Vec::new();
    for first in some(passed).into_iter().flatten() {
        for number in 1..=3 {
            days.extend(both("commit", number).map(|second| vec![first.clone(), second]));
        }
    }
    days
}

// Before and after each kind of call and of commit, the first of the day and one in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_wherever_the_process_dies() {
    days(Kind::Embedded, some);
}

// The same where the store is another process, which lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_wherever_one_of_a_fleet_dies() {
    days(Kind::Redis, some);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call and every commit, before and after"]
async fn stress_nothing_is_lost_at_any_point_of_a_day() {
    days(Kind::Embedded, all);
}

// A second death at each of the first commits of the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: each death followed by one in its recovery"]
async fn stress_nothing_is_lost_in_a_recovery() {
    days(Kind::Embedded, twice);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call, before and after"]
async fn stress_nothing_is_lost_at_any_point_of_a_fleets_day() {
    days(Kind::Redis, all);
}

// The server goes with the worker, and comes back with every write that it answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_where_worker_and_server_die_together() {
    let kills = tokio::task::block_in_place(|| {
        let days: Vec<_> = ["submit", "claim", "settle", "told"]
            .iter()
            .map(|name| vec![Point::of((&format!("{name}+"), 1))])
            .collect();
        enumerate(Kind::MortalRedis, &days)
    });
    assert_eq!(kills, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every call, before and after, and a server that dies with it"]
async fn stress_nothing_is_lost_where_worker_and_server_die_together_at_any_point() {
    days(Kind::MortalRedis, all);
}

/// Everything that a store can be asked. `changed` is a wait and asks nothing.
const CALLS: [&str; 36] = [
    "action",
    "actions",
    "active",
    "beat",
    "cancel",
    "claim",
    "close",
    "dead",
    "debit",
    "disown",
    "history",
    "lanes",
    "left",
    "open",
    "outcomes",
    "pause",
    "purge",
    "reap",
    "recount",
    "refund",
    "release",
    "reset",
    "resume",
    "revive",
    "ripe",
    "set_rule",
    "set_usual",
    "settle",
    "snapshot",
    "submit",
    "tally",
    "tenant",
    "tenants",
    "tidy",
    "told",
    "unset_rule",
];

/// On two cores: each day is two processes that mostly wait for each other.
const AT_ONCE: usize = 4;
