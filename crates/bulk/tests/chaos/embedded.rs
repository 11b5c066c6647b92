//! One process and one directory.

use std::time::Duration;

use fastrand::Rng;

use super::consistency::{calls_agree, tried};
use super::submission::Handing;
use super::worker_processes::{End, Field, IN_FLIGHT, PATIENCE};

/// Kills so many workers at random, each of which hands in what is not taken yet, and lets the last one
/// finish. Nobody before it may end by itself: it would have found nothing to do, or something wrong.
fn killed_at_random(field: &Field, store: &str, (jobs, kills): (usize, usize)) {
    let mut rng = Rng::with_seed(11);
    let mut handing = Handing::of(jobs);
    for kill in 1..=kills {
        let mut worker = field.worker(store, &handing.words().each_ref().map(String::as_str), None);
        worker.wait_for_line("ready", PATIENCE).expect("it opens");
        let life = Duration::from_millis(rng.u64(5..400));
        let lives = worker.wait(life);
        assert!(lives.is_err(), "before kill {kill}: {lives:?}");
        worker.kill().expect("killed");
        handing.hear(&mut worker);
    }
    let words = handing.words();
    let words = [
        &words.each_ref().map(String::as_str)[..],
        &["crew=100", "books"],
    ]
    .concat();
    let mut last = field.worker(store, &words, None);
    let end = End::of(&mut last);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (jobs, jobs, 0),
        "{end:?}"
    );
    assert!(last.wait(PATIENCE).expect("it ends").success());
    field.all_done(jobs, kills * IN_FLIGHT);
    let tried = tried(&mut last).expect("numbers");
    assert_eq!(calls_agree(field, &tried, kills), Ok(()));
    let calls = field.strict.audit().count();
    println!("{kills} kills of one process: {jobs} done, {calls} calls");
}

// Eight calls of twenty to sixty milliseconds at once are two hundred a second: a dozen lives of a fifth of a
// second each do half of a thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whenever_the_process_is_killed() {
    let millis = Duration::from_millis;
    let field = Field::answering_within(millis(20), millis(60)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    killed_at_random(&field, store, (1_000, 12));
}

// Calls of forty to eighty milliseconds, so that five hundred lives of a fifth of a second find work, and
// each dies over all that it has under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_lose_nothing_of_fifteen_thousand() {
    let millis = Duration::from_millis;
    let field = Field::answering_within(millis(40), millis(80)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    killed_at_random(&field, store, (15_000, 500));
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
