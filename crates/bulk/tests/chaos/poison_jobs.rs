//! A job that kills every worker that runs it.

use std::time::Duration;

use outflow_testkit::Process;

use super::shared_redis::redis;
use super::worker_processes::{FinalCounts, IN_FLIGHT, TestApi};

/// Deaths that the job may cause: two recoveries are granted, so it is tried three times.
const DEATHS: usize = 3;

/// Replaces every worker that dies, until all jobs are over. Returns the final counts.
fn run_poisoned(api: &TestApi, store: &str, (jobs, workers): (usize, usize)) -> FinalCounts {
    let submit = format!("submit={jobs}");
    run_with_replacement(api, store, (&[&submit, "poison"], workers))
}

fn run_with_replacement(api: &TestApi, store: &str, (words, workers): (&[&str], usize)) -> FinalCounts {
    // A worker that dies while it submits leaves the remaining jobs to the next, which submits all again under
    // the same names.
    let start = || api.worker(store, words, None);
    let mut fleet: Vec<Process> = (0..workers).map(|_| start()).collect();
    let mut deaths = 0;
    loop {
        for worker in &mut fleet {
            match worker.wait(Duration::from_millis(20)) {
                Ok(ended) if ended.success() => {
                    assert_eq!(deaths, DEATHS);
                    return FinalCounts::read(worker);
                }
                Ok(_) => {
                    deaths += 1;
                    assert!(deaths <= DEATHS, "a fourth death");
                    *worker = start();
                }
                Err(_) => {}
            }
        }
    }
}

/// Checks that all jobs are done except the poison job, which is the only dead letter.
fn assert_only_poison_died(end: &FinalCounts, jobs: usize) {
    assert_eq!(
        (end.submitted, end.done, end.dead, end.drift),
        (jobs + 1, jobs, 1, 0),
        "{end:?}"
    );
}

// Three workers, each with eight calls in flight, and the poison job in the middle of 300. It is dead-lettered
// after three deaths. Jobs that were lost with it twice return one at a time, and are not lost a third time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_workers_of_a_fleet_is_dead_lettered_and_the_rest_continues() {
    let (api, redis) = (TestApi::new().await, redis());
    let end = run_poisoned(&api, &redis.url(), (300, 3));
    assert_only_poison_died(&end, 300);
}

// Eight jobs of one lane are in flight at once, so several are lost twice with the poison job and wait with it
// for their last recovery. A job claimed together with it would be dead-lettered with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_process_is_dead_lettered_alone() {
    let (api, dir) = (TestApi::new().await, tempfile::tempdir().expect("a directory"));
    let store = dir.path().to_str().expect("a path");
    let end = run_with_replacement(&api, store, (&["poison-lane=60"], 1));
    assert_only_poison_died(&end, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: fifteen thousand jobs, twice"]
async fn stress_a_job_that_kills_its_workers_ends_none_of_fifteen_thousand() {
    let (api, redis) = (TestApi::new().await, redis());
    let end = run_poisoned(&api, &redis.url(), (14_999, 3));
    assert_only_poison_died(&end, 14_999);
    api.assert_all_done(14_999, DEATHS * IN_FLIGHT);
    let api = TestApi::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let end = run_poisoned(&api, dir.path().to_str().expect("a path"), (14_999, 1));
    assert_only_poison_died(&end, 14_999);
    api.assert_all_done(14_999, DEATHS * IN_FLIGHT);
}
