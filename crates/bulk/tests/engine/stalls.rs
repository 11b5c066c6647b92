//! Jobs that do not go on: each stall has a sentence, and an action its timeout.

use std::time::Duration;

use outflow_bulk::{JobSpec, JobSubmission};
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{ActionStage, ActionStore, BatchPosition, ControlScope, JobStatus, StoreControl};
use tokio::time::sleep;

use super::support::{Plan, World, gets, name};

/// Starts a world of a user who knows the rate of an API that always fails like this.
async fn failing(rate: &str, fault: impl Into<ScriptedFault>) -> World {
    let plan = Plan::with_user_defaults(rate, Duration::from_millis(150));
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::always(), fault.into()));
    plan.start().await
}

/// Submits jobs as an action with the timeout of a user who sets none.
async fn submit(world: &World, jobs: Vec<JobSpec>) {
    let submission = JobSubmission {
        action: Some(world.engine.settings().action(name("a"))),
        rest: BatchPosition::Last,
        jobs,
    };
    world.engine.submit(submission).await.expect("accepted");
}

async fn waits(world: &World) -> String {
    let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
    let all = world.engine.waits(&progress.counts).await.expect("read");
    assert!(!all.is_empty(), "the board says it, too");
    progress.waits.join("; ")
}

#[tokio::test(start_paused = true)]
async fn a_hanging_api_shows_how_long_calls_wait() {
    let world = failing("10/s", Fault::Hang).await;
    submit(&world, gets("t", 60)).await;
    sleep(Duration::from_secs(8)).await;
    let words = waits(&world).await;
    assert!(words.contains("wait for a response, the longest for 8 s"), "{words}");
    assert!(world.engine.attempts() > 0);
    sleep(Duration::from_mins(1)).await;
    let words = waits(&world).await;
    assert!(words.contains("last error"), "{words}");
}

// One call is sent and throttled, and counts although its job is not over.
#[tokio::test(start_paused = true)]
async fn a_long_retry_after_shows_until_when_and_why() {
    let world = failing("10/s", MockResponse::status(429).header("retry-after", "600")).await;
    submit(&world, gets("t", 60)).await;
    sleep(Duration::from_mins(1)).await;
    let words = waits(&world).await;
    assert!(
        words.contains("for another 9 min") || words.contains("for another 8 min"),
        "{words}"
    );
    assert!(words.contains("the API throttled a call"), "{words}");
    let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
    assert!(progress.counts.throttles >= 1, "{progress:?}");
    assert_eq!(
        world.engine.attempts(),
        u64::try_from(world.mock.audit().count()).expect("few")
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_shows_who_made_it() {
    let world = Plan::with_user_defaults("1/s", Duration::from_millis(150))
        .start()
        .await;
    submit(&world, gets("t", 60)).await;
    sleep(Duration::from_secs(3)).await;
    let words = waits(&world).await;
    assert!(words.contains("the limit of 1/s is used up"), "{words}");
    let tenant = ControlScope::Tenant(name("t"));
    world.store().pause(&tenant).await.expect("paused");
    world.engine.note_pause(tenant.clone(), "anna (maintenance)".to_owned());
    let words = waits(&world).await;
    assert!(words.contains("tenant t is paused by anna (maintenance)"), "{words}");
    let report = world.store().action(&name("a")).await.expect("read").expect("there");
    let board = world.engine.waits(&report.counts).await.expect("read");
    assert_eq!(board[0], "tenant t is paused by anna (maintenance)");
    world.store().resume(&tenant).await.expect("resumed");
    let action = ControlScope::Action(name("a"));
    world.store().pause(&action).await.expect("paused");
    assert_eq!(waits(&world).await, "the action is paused by an operator");
}

// 100,010 jobs at 10/s take 2 h 46 min, and the timeout is an hour.
#[tokio::test(start_paused = true)]
async fn a_submission_warns_of_a_timeout_that_is_shorter_than_the_action() {
    let world = Plan::with_user_defaults("10/s", Duration::from_millis(150))
        .start()
        .await;
    submit(&world, gets("t", 100_010)).await;
    let warning = world.engine.timeout_warning(&name("a")).await.expect("read");
    let warning = warning.expect("a warning");
    assert!(
        warning.starts_with("the action takes at least 2 h 46 min, by 10/s of mock"),
        "{warning}"
    );
    assert!(
        warning.contains("fails if no job of it ends for 1 h 0 min"),
        "{warning}"
    );
    let few = Plan::with_user_defaults("10/s", Duration::from_millis(150))
        .start()
        .await;
    submit(&few, gets("t", 100)).await;
    assert_eq!(few.engine.timeout_warning(&name("a")).await.expect("read"), None);
}

// 4,000 jobs at 1/s take 67 minutes.
#[tokio::test(start_paused = true)]
async fn an_action_that_makes_progress_outlives_its_timeout() {
    let world = Plan::with_user_defaults("1/s", Duration::from_millis(150))
        .start()
        .await;
    let begun = world.now();
    submit(&world, gets("t", 4_000)).await;
    let report = world.finished("a").await;
    assert_eq!((report.stage, report.counts.done), (ActionStage::Completed, 4_000));
    assert!(world.now().since(begun) > report.spec.timeout);
}

// The API serves nothing for more than an hour.
#[tokio::test(start_paused = true)]
async fn the_timeout_is_the_reason_of_the_jobs_that_it_ends() {
    let world = failing("10/s", MockResponse::status(503)).await;
    let begun = world.now();
    submit(&world, gets("t", 20)).await;
    let report = world.finished("a").await;
    assert_eq!(
        (report.stage, report.counts.cancelled),
        (ActionStage::Failed, 20),
        "{report:?}"
    );
    let took = world.now().since(begun);
    assert!(
        took.abs_diff(Duration::from_hours(1)) < Duration::from_mins(2),
        "{took:?}"
    );
    let outcomes = world.store().outcomes(&name("a"), 0, 100).await.expect("read");
    for outcome in &outcomes {
        let reason = outcome.error.as_deref().expect("a reason");
        assert!(reason.starts_with("the action made no progress for 3600 s"), "{reason}");
        assert_eq!(outcome.ended, JobStatus::Cancelled);
    }
    let tried = |reason: &str| reason.contains("; last error: ") && reason.contains("503");
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.error.as_deref().is_some_and(tried))
    );
    let reasons = world.engine.failure_reasons(&report).await.expect("read");
    assert_eq!(
        reasons.to_string(),
        "20 × the action made no progress for 3600 s, its timeout"
    );
}
