//! APIs that fail for a while: no job pays for it. Jobs that fail by themselves do.

use std::time::Duration;

use outflow_bulk::{JobSpec, JobWork, SchedulerKind};
use outflow_core::Clock;
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{ActionStore, DeadLetterStore, JobStatus, TenantStore};
use tokio::time::sleep;

use super::support::{Plan, World, get, gets, name, value};

/// Usual latency of an API on another continent.
const LATENCY: Duration = Duration::from_millis(150);

/// Returns a plan of a user who knows the rate of an API which fails within this span.
fn failing(rate: &str, span: std::ops::Range<u64>, fault: impl Into<ScriptedFault>) -> Plan {
    let span = Duration::from_secs(span.start)..Duration::from_secs(span.end);
    let plan = Plan::with_user_defaults(rate, LATENCY);
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::always().between(span), fault.into()));
    plan
}

/// Name of an outage, and its fault.
type OutageForm = (&'static str, fn() -> ScriptedFault);

/// Sends a job to the path that always fails.
fn fail_always(job: &mut JobSpec) {
    if let JobWork::Call(call) = &mut job.work {
        call.path = format!("/bad{}", call.path);
    }
}

/// Checks that all jobs are done and that none used a retry.
async fn assert_unharmed(world: &World, jobs: u64) {
    let report = world.finished("a").await;
    let dead = world.store().dead_letters(0, 3).await.expect("read");
    assert_eq!((report.counts.done, report.counts.dead), (jobs, 0), "{dead:?}");
    let used = value(world, "outflow_bulk_failed_attempts_total{how=\"job\"}");
    assert_eq!(used, Some(0.0), "retries used");
    world.assert_counts_match().await;
}

// 600 jobs at 10/s take a minute; the API fails in its first minute. Two minutes are ideal.
#[tokio::test(start_paused = true)]
async fn an_api_that_answers_500_for_a_minute_kills_no_job_and_costs_no_retry() {
    for scheduler in [SchedulerKind::Permit, SchedulerKind::Backoff, SchedulerKind::Fixed] {
        let plan = failing("10/s", 0..60, MockResponse::status(500));
        let world = plan.with(|settings| settings.scheduler = scheduler).start().await;
        let begun = world.now();
        world.submit("a", gets("t", 600)).await;
        assert_unharmed(&world, 600).await;
        let took = world.now().since(begun);
        // The others defer jobs in steps of a second, which costs them half of ten a second.
        let most = if scheduler == SchedulerKind::Permit { 130 } else { 240 };
        assert!(took < Duration::from_secs(most), "{scheduler:?}: {took:?}");
        assert!(
            world.mock.audit().count() < 660,
            "{scheduler:?}: {}",
            world.mock.audit().count()
        );
    }
}

// The outage begins while jobs are in flight, at a slow and at a fast rate, and in every form.
#[tokio::test(start_paused = true)]
async fn an_outage_in_the_middle_of_a_run_costs_no_job_a_retry() {
    let forms: [OutageForm; 4] = [
        ("503", || MockResponse::status(503).into()),
        ("hang", || Fault::Hang.into()),
        ("reset", || Fault::ResetUnread.into()),
        ("wait", || MockResponse::status(503).header("retry-after", "30").into()),
    ];
    for (rate, jobs) in [("2/s", 120), ("30/s", 1_800)] {
        for (form, fault) in forms {
            let world = failing(rate, 20..80, fault()).start().await;
            let begun = world.now();
            world.submit("a", gets("t", jobs)).await;
            assert_unharmed(&world, u64::try_from(jobs).expect("small")).await;
            let took = world.now().since(begun);
            // A minute of work, a minute of outage, and the way back.
            assert!(took < Duration::from_secs(150), "{rate}, {form}: {took:?}");
        }
    }
}

// Every hundredth job always fails, and the API serves the others: these use their retries and end as dead letters.
// The last one is alone with its failure in the end.
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_while_others_are_served_is_dead_lettered() {
    let plan = Plan::with_user_defaults("30/s", LATENCY);
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::path("/bad/**"), MockResponse::status(500)));
    let world = plan.start().await;
    let mut jobs = gets("t", 1_000);
    jobs.push(get("t", 1_000));
    jobs.iter_mut().step_by(100).for_each(fail_always);
    world.submit("a", jobs).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.dead), (990, 11), "{report:?}");
    let dead = world.store().dead_letters(0, 20).await.expect("read");
    assert!(dead.iter().all(|letter| letter.attempts == 4), "{dead:?}");
}

/// Runs jobs of which those at some positions always fail. Returns the time until all others are done, and until the
/// end of all.
async fn run_with_bad(all: usize, positions: &[usize]) -> (Duration, Duration) {
    let plan = Plan::with_user_defaults("10/s", LATENCY);
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::path("/bad/**"), MockResponse::status(500)));
    let world = plan.start().await;
    let begun = world.now();
    let mut jobs = gets("t", all);
    for position in positions {
        fail_always(jobs.get_mut(*position).expect("a job"));
    }
    world.submit("a", jobs).await;
    let good = u64::try_from(all - positions.len()).expect("few");
    while world.counts().await.done < good {
        sleep(Duration::from_secs(1)).await;
    }
    let others = world.now().since(begun);
    let report = world.finished("a").await;
    assert_eq!(
        (report.counts.done, report.counts.dead),
        (good, u64::try_from(positions.len()).expect("few")),
        "{report:?}"
    );
    (others, world.now().since(begun))
}

// Some of sixty jobs always fail, spread or at the end, where no other job is left to witness for the API. The last ones
// are excused for a quarter of an hour, as in an outage, and then end together. Each has an attempt before, most of them
// as a probe of the API that sleeps: twelve took 48 minutes, and thirty over three hours.
#[tokio::test(start_paused = true)]
async fn a_few_jobs_that_always_fail_end_as_dead_letters() {
    let tail = |count: usize| (60 - count..60).collect::<Vec<_>>();
    let spread = vec![5, 15, 25, 35, 45, 55];
    for (positions, minutes) in [(spread, 17), (tail(6), 17), (tail(12), 17), (tail(30), 30)] {
        let (_, all) = run_with_bad(60, &positions).await;
        assert!(all < Duration::from_mins(minutes), "{positions:?}: {all:?}");
    }
}

// A tenth of 200 jobs at 10/s always fails. A second failure of a job that failed while others were served is its own, so
// that the API does not sleep: the others took two to four minutes.
#[tokio::test(start_paused = true)]
async fn jobs_that_always_fail_do_not_put_the_api_to_sleep_for_others() {
    let positions: Vec<_> = (0..200).step_by(10).collect();
    let (others, all) = run_with_bad(200, &positions).await;
    assert!(others < Duration::from_secs(35), "{others:?}");
    assert!(all < Duration::from_mins(1), "{all:?}");
}

// A fifth of them fails: the API is in Throttle, where a failure uses no retry. Repeated ones took half of its rate, so that
// the others needed five and a half minutes instead of twenty seconds.
#[tokio::test(start_paused = true)]
async fn jobs_that_always_fail_take_no_rate_of_others_in_throttle() {
    let positions: Vec<_> = (0..200).step_by(5).collect();
    let (others, all) = run_with_bad(200, &positions).await;
    assert!(others < Duration::from_secs(75), "{others:?}");
    assert!(all < Duration::from_mins(20), "{all:?}");
}

// The first ten of two hundred jobs always fail: enough in a row to put the API to sleep. The others probe it, so that
// the run takes minutes; with probes by those that fail it took most of an hour.
#[tokio::test(start_paused = true)]
async fn jobs_that_always_fail_at_the_head_do_not_hold_up_others() {
    let plan = Plan::with_user_defaults("10/s", LATENCY);
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::path("/bad/**"), MockResponse::status(500)));
    let world = plan.start().await;
    let begun = world.now();
    let mut jobs = gets("t", 200);
    jobs.iter_mut().take(10).for_each(fail_always);
    world.submit("a", jobs).await;
    while world.counts().await.done < 190 {
        sleep(Duration::from_secs(1)).await;
        let took = world.now().since(begun);
        assert!(
            took < Duration::from_mins(5),
            "{:?} after {took:?}",
            world.counts().await
        );
    }
}

// All jobs of one tenant fail and those of another are served: the first are dead letters, and the second done.
#[tokio::test(start_paused = true)]
async fn a_tenant_whose_jobs_all_fail_does_not_stop_others() {
    let plan = Plan::with_user_defaults("30/s", LATENCY);
    plan.mock
        .rewrite(Script::new().rule(ScriptMatch::path("/bad/**"), MockResponse::status(500)));
    let world = plan.start().await;
    let begun = world.now();
    let jobs = gets("bad", 200).into_iter().chain(gets("good", 600));
    world.submit("a", jobs.collect()).await;
    while world
        .store()
        .tenant(&name("good"))
        .await
        .expect("read")
        .expect("known")
        .counts
        .done
        < 600
    {
        sleep(Duration::from_secs(5)).await;
        assert!(world.now().since(begun) < Duration::from_hours(1), "the good ones wait");
    }
}

// The head of the queue always fails; the API was down and is up again. Other jobs probe it, too.
#[tokio::test(start_paused = true)]
async fn a_failing_job_at_the_head_does_not_keep_the_api_asleep() {
    let plan = Plan::with_user_defaults("10/s", LATENCY);
    let down = ScriptMatch::always().between(Duration::ZERO..Duration::from_mins(1));
    plan.mock.rewrite(
        Script::new()
            .rule(down, MockResponse::status(503))
            .rule(ScriptMatch::path("/t/0"), MockResponse::status(500)),
    );
    let world = plan.start().await;
    let begun = world.now();
    world.submit("a", gets("t", 100)).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.dead), (99, 1), "{report:?}");
    let took = world.now().since(begun);
    assert!(took < Duration::from_secs(150), "{took:?}");
}

// The API is down for an hour, and the jobs must start within a minute: they expire then.
#[tokio::test(start_paused = true)]
async fn a_deadline_holds_during_an_outage() {
    let world = failing("10/s", 0..3_600, MockResponse::status(503)).start().await;
    let begun = world.now();
    let deadline = world.time.wall().saturating_add(Duration::from_mins(1));
    let mut jobs = gets("t", 50);
    for job in &mut jobs {
        job.deadline = Some(deadline);
    }
    world.submit("a", jobs).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.cancelled, report.counts.dead), (50, 0), "{report:?}");
    let outcomes = world.store().outcomes(&name("a"), 0, 100).await.expect("read");
    assert!(
        outcomes.iter().all(|one| one.ended == JobStatus::Expired),
        "{outcomes:?}"
    );
    let took = world.now().since(begun);
    assert!(took < Duration::from_secs(70), "{took:?}");
}

// A shutdown does not wait for evidence about a failed job.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_for_evidence() {
    let world = failing("1/s", 0..60, MockResponse::status(500)).start().await;
    world.submit("a", gets("t", 2)).await;
    sleep(Duration::from_millis(500)).await;
    let begun = world.now();
    assert!(world.engine.stop().await);
    assert!(world.now().since(begun) < Duration::from_millis(100));
    assert_eq!(world.counts().await.delayed, 1);
}
