//! One process and one directory.

use std::time::Duration;

use fastrand::Rng;

use super::consistency::{attempts_by_job, calls_agree};
use super::submission::SubmitProgress;
use super::worker_processes::{FinalCounts, IN_FLIGHT, TestApi, WAIT_LIMIT};

/// Kills workers at random instants and lets the last one finish. Each submits the jobs that are not
/// acknowledged yet. None of them may end before its kill: it would have found no work, or failed.
fn kill_at_random(api: &TestApi, store: &str, (jobs, kills): (usize, usize)) {
    let mut rng = Rng::with_seed(11);
    let mut progress = SubmitProgress::new(jobs);
    for kill in 1..=kills {
        let mut worker = api.worker(store, &progress.words().each_ref().map(String::as_str), None);
        worker.wait_for_line("ready", WAIT_LIMIT).expect("it opens");
        let life = Duration::from_millis(rng.u64(5..400));
        let lives = worker.wait(life);
        assert!(lives.is_err(), "before kill {kill}: {lives:?}");
        worker.kill().expect("killed");
        progress.read_output(&mut worker);
    }
    let words = progress.words();
    let words = [&words.each_ref().map(String::as_str)[..], &["workers=100", "outcomes"]].concat();
    let mut last = api.worker(store, &words, None);
    let end = FinalCounts::read(&mut last);
    assert_eq!((end.submitted, end.done, end.drift), (jobs, jobs, 0), "{end:?}");
    assert!(last.wait(WAIT_LIMIT).expect("it ends").success());
    api.assert_all_done(jobs, kills * IN_FLIGHT);
    let attempts_by_job = attempts_by_job(&mut last).expect("numbers");
    assert_eq!(calls_agree(api, &attempts_by_job, kills), Ok(()));
    let calls = api.mock.audit().count();
    println!("{kills} kills of one process: {jobs} done, {calls} calls");
}

// Eight concurrent calls of 20 to 60 ms are 200 a second: a dozen lives of a fifth of a second each complete
// half of a thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_when_the_process_is_killed_at_random() {
    let millis = Duration::from_millis;
    let api = TestApi::with_latency(millis(20), millis(60)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    kill_at_random(&api, store, (1_000, 12));
}

// Calls of 40 to 80 ms, so that 500 lives of a fifth of a second find work, and each dies with calls in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_lose_none_of_fifteen_thousand_jobs() {
    let millis = Duration::from_millis;
    let api = TestApi::with_latency(millis(40), millis(80)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    kill_at_random(&api, store, (15_000, 500));
}

// Two recoveries are allowed, so the third death dead-letters the job; the others continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_workers_is_dead_lettered() {
    let api = TestApi::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().to_str().expect("a path");
    let mut deaths = 0;
    let end = loop {
        let words = ["submit=50", "poison"];
        let mut worker = api.worker(store, &words, None);
        if worker.wait(WAIT_LIMIT).expect("it ends").success() {
            break FinalCounts::read(&mut worker);
        }
        deaths += 1;
        assert!(deaths <= 3, "a fourth death");
    };
    assert_eq!((end.done, end.dead, end.drift), (50, 1, 0), "{end:?}");
    assert_eq!(deaths, 3);
}
