//! One process and one directory.

use std::time::Duration;

use fastrand::Rng;
use outflow_testkit::Process;

use super::fleet::{End, Field, IN_FLIGHT, PATIENCE};

/// Kills workers at random until there is nothing left to do; answers how often.
fn killed_at_random(field: &Field, store: &str, jobs: usize, most: usize) -> usize {
    let mut rng = Rng::with_seed(11);
    let submit = format!("submit={jobs}");
    let words = [submit.as_str()];
    for kills in 0..most {
        let mut worker = field.worker(store, &words, None);
        worker.wait_for_line("ready", PATIENCE).expect("it opens");
        let life = Duration::from_millis(rng.u64(5..400));
        if worker.wait(life).is_ok() {
            return kills;
        }
        worker.kill().expect("killed");
    }
    let mut last: Process = field.worker(store, &words, None);
    let end = End::of(&mut last);
    assert_eq!((end.submitted, end.done, end.drift), (jobs, jobs, 0));
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whenever_the_process_is_killed() {
    let field = Field::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    let kills = killed_at_random(&field, store, 1_000, 12);
    field.all_done(1_000, kills * IN_FLIGHT);
}

// Calls of forty to eighty milliseconds, so that five hundred lives of a fifth of a second find work, and
// each dies over all that it has under way. No job is taken for the one that kills them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_lose_nothing_of_fifteen_thousand() {
    let millis = Duration::from_millis;
    let field = Field::answering_within(millis(40), millis(80)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    let mut first = field.worker(store, &["submit=15000", "recoveries=1000"], None);
    first.wait_for_line("acked 15000", PATIENCE).expect("taken");
    drop(first);
    let mut rng = Rng::with_seed(17);
    for kill in 1..500 {
        let mut worker = field.worker(store, &["recoveries=1000"], None);
        worker.wait_for_line("ready", PATIENCE).expect("it opens");
        let life = millis(rng.u64(5..400));
        assert!(worker.wait(life).is_err(), "all was done after {kill}");
        worker.kill().expect("killed");
    }
    let mut last = field.worker(store, &["recoveries=1000", "crew=100"], None);
    let end = End::of(&mut last);
    assert_eq!((end.submitted, end.done, end.drift), (15_000, 15_000, 0));
    field.all_done(15_000, 500 * IN_FLIGHT);
    let calls = field.strict.audit().count();
    println!("500 kills of one process: 15000 done, {calls} calls");
}

// Claimed three times and never survived: two recoveries are allowed, and the rest go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_workers_is_buried() {
    let field = Field::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    let mut deaths = 0;
    let end = loop {
        let words = ["submit=50", "poison"];
        let mut worker = field.worker(store, &words, None);
        if worker.wait(PATIENCE).expect("it ends").success() {
            break End::of(&mut worker);
        }
        deaths += 1;
        assert!(deaths <= 3, "a fourth time");
    };
    assert_eq!((end.done, end.dead, end.drift), (50, 1, 0), "{end:?}");
    assert_eq!(deaths, 3);
}
