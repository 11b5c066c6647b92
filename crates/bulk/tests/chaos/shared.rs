//! Several processes and one Redis.

use std::time::Duration;

use fastrand::Rng;
use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};

use super::fleet::{End, Field, IN_FLIGHT, PATIENCE};

fn redis() -> RedisServer {
    let options = RedisOptions {
        keep: Keep::EveryWrite,
        ..RedisOptions::default()
    };
    RedisServer::start(options).expect("a server")
}

/// Three workers, of which one is killed now and then and replaced, until all is done.
fn a_fleet_with_losses(field: &Field, url: &str, jobs: usize, kills: usize) {
    let mut rng = Rng::with_seed(13);
    let submit = format!("submit={jobs}");
    let mut submitter = field.worker(url, &[&submit], None);
    let mut workers: Vec<Process> = (0..2).map(|_| field.worker(url, &[], None)).collect();
    for _ in 0..kills {
        let life = Duration::from_millis(rng.u64(50..300));
        let victim = rng.usize(..workers.len());
        // Whoever ended by itself found nothing to do, and is replaced all the same.
        if workers[victim].wait(life).is_err() {
            workers[victim].kill().expect("killed");
        }
        workers[victim] = field.worker(url, &[], None);
    }
    let end = End::of(&mut submitter);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (jobs, jobs, 0),
        "{end:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_one_of_several_is_killed() {
    let (field, redis) = (Field::new().await, redis());
    a_fleet_with_losses(&field, &redis.url(), 1_000, 10);
    field.all_done(1_000, 10 * IN_FLIGHT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_of_a_fleet_lose_nothing_of_fifteen_thousand() {
    let (field, redis) = (Field::new().await, redis());
    a_fleet_with_losses(&field, &redis.url(), 15_000, 500);
    field.all_done(15_000, 500 * IN_FLIGHT);
}

// Frozen for longer than its lease of two seconds: others do its jobs, and what it says when it wakes is
// not counted. Each job of it is done twice and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_frozen_past_its_lease_changes_nothing() {
    let (field, redis) = (Field::new().await, redis());
    let mut frozen = field.worker(&redis.url(), &["submit=400"], None);
    frozen.wait_for_line("acked 400", PATIENCE).expect("taken");
    frozen.freeze().expect("frozen");
    let mut other = field.worker(&redis.url(), &[], None);
    let end = End::of(&mut other);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (400, 400, 0),
        "{end:?}"
    );
    frozen.thaw().expect("thawed");
    let end = End::of(&mut frozen);
    assert_eq!((end.done, end.drift), (400, 0), "{end:?}");
    field.all_done(400, IN_FLIGHT);
}
