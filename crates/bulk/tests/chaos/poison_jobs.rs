//! A job that takes down every worker that tries it.

use std::time::Duration;

use outflow_testkit::Process;

use super::shared_redis::redis;
use super::worker_processes::{End, Field, IN_FLIGHT};

/// How often it may kill: two recoveries are granted, so it is tried three times.
const DEATHS: usize = 3;

/// Workers of which each that dies is replaced, until all is over; how it ended.
fn outlived(field: &Field, store: &str, (jobs, workers): (usize, usize)) -> End {
    let submit = format!("submit={jobs}");
    replaced(field, store, (&[&submit, "poison"], workers))
}

fn replaced(field: &Field, store: &str, (words, workers): (&[&str], usize)) -> End {
    // Whoever dies while it hands them in leaves the rest to the next, which begins again: they have names.
    let start = || field.worker(store, words, None);
    let mut fleet: Vec<Process> = (0..workers).map(|_| start()).collect();
    let mut deaths = 0;
    loop {
        for worker in &mut fleet {
            match worker.wait(Duration::from_millis(20)) {
                Ok(ended) if ended.success() => {
                    assert_eq!(deaths, DEATHS);
                    return End::of(worker);
                }
                Ok(_) => {
                    deaths += 1;
                    assert!(deaths <= DEATHS, "a fourth time");
                    *worker = start();
                }
                Err(_) => {}
            }
        }
    }
}

/// All were done but the one, which is among the dead letters, and no other is.
fn only_it_is_buried(end: &End, jobs: usize) {
    assert_eq!(
        (end.submitted, end.done, end.dead, end.drift),
        (jobs + 1, jobs, 1, 0),
        "{end:?}"
    );
}

// Three workers, each with eight calls under way, and the poison in the middle of three hundred. It is buried after
// three deaths; those that were lost with it twice come back one after the other, and are not lost a third time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_workers_of_a_fleet_is_buried_and_the_rest_goes_on() {
    let (field, redis) = (Field::new().await, redis());
    let end = outlived(&field, &redis.url(), (300, 3));
    only_it_is_buried(&end, 300);
}

// Eight of one lane are under way at once, so that several are lost twice with it and stand in line with it for their
// last chance. Whoever was given out beside it, or behind it, would be buried with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_process_is_buried_and_none_of_its_lane_with_it() {
    let (field, dir) = (
        Field::new().await,
        tempfile::tempdir().expect("a directory"),
    );
    let store = dir.path().to_str().expect("a path");
    let end = replaced(&field, store, (&["company=60"], 1));
    only_it_is_buried(&end, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: fifteen thousand jobs, twice"]
async fn stress_a_job_that_kills_its_workers_delays_fifteen_thousand_and_ends_none() {
    let (field, redis) = (Field::new().await, redis());
    let end = outlived(&field, &redis.url(), (14_999, 3));
    only_it_is_buried(&end, 14_999);
    field.all_done(14_999, DEATHS * IN_FLIGHT);
    let field = Field::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let end = outlived(&field, dir.path().to_str().expect("a path"), (14_999, 1));
    only_it_is_buried(&end, 14_999);
    field.all_done(14_999, DEATHS * IN_FLIGHT);
}
