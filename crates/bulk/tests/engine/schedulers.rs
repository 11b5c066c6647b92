//! The two schedulers that try first, compared with the one that takes a permit first.

use std::time::Duration;

use outflow_bulk::SchedulerKind;
use outflow_mock::{Latency, MockResponse, Script, ScriptMatch};
use outflow_store::{StoreControl, TenantStore};

use super::support::{Plan, gets, in_flight, name};

/// Runs a thousand jobs of one tenant at a hundred a second under this scheduler. Returns the duration, the
/// number of deferrals, the most starts in a second, and the saved refusals.
async fn run_thousand(scheduler: SchedulerKind) -> (Duration, u64, u64, u64) {
    let world = Plan::limited("100/s")
        .with(|settings| {
            settings.scheduler = scheduler;
            settings.global_rate = 100;
            settings.workers.min = Some(100);
            settings.workers.max = Some(100);
        })
        .start()
        .await;
    let begun = world.now();
    world.submit("a", gets("t", 1_000)).await;
    let report = world.finished("a").await;
    assert_eq!(report.counts.done, 1_000);
    assert_eq!(world.mock.audit().refused(), 0);
    world.assert_counts_match().await;
    let max = world.mock.audit().most_in_any_window(Duration::from_secs(1));
    let saved = world.engine.saved_spins();
    (world.now().since(begun), report.counts.throttles, max, saved)
}

// The ideal is ten seconds.
#[tokio::test(start_paused = true)]
async fn the_permit_scheduler_defers_no_job() {
    let (took, throttles, max, saved) = run_thousand(SchedulerKind::Permit).await;
    assert!(took <= Duration::from_millis(10_100), "{took:?}");
    assert_eq!((throttles, max, saved), (0, 100, 4_510));
}

// A hundred in a second are ten milliseconds apart, from the first one on: half a second holds fifty and the
// one at its end.
#[tokio::test(start_paused = true)]
async fn starts_are_spaced_from_the_first_one_on() {
    let world = Plan::limited("100/s").start().await;
    world.submit("a", gets("t", 300)).await;
    world.finished("a").await;
    let audit = world.mock.audit();
    assert!(audit.most_in_any_window(Duration::from_millis(500)) <= 51);
}

// Two APIs' worth of tenants with only the global rate as limit: 50 in five seconds.
#[tokio::test(start_paused = true)]
async fn all_tenants_together_keep_to_the_global_rate() {
    for scheduler in [SchedulerKind::Permit, SchedulerKind::Fixed] {
        let plan = Plan::scripted(Script::new()).with(|settings| {
            settings.scheduler = scheduler;
            settings.global_rate = 10;
        });
        let world = plan.start().await;
        let jobs = ["a", "b"].iter().flat_map(|tenant| gets(tenant, 25));
        let begun = world.now();
        world.submit("all", jobs.collect()).await;
        world.finished("all").await;
        let took = world.now().since(begun);
        assert!(took >= Duration::from_secs(4), "{scheduler:?}: {took:?}");
        let audit = world.mock.audit();
        let max = audit.most_in_any_window(Duration::from_millis(990));
        assert!(max <= 10, "{scheduler:?}: {max}");
    }
}

// With a fixed wait of a second, 900 jobs are deferred once, 800 twice and so on: 4,500 in all. The formula says 4,510.
#[tokio::test(start_paused = true)]
async fn the_fixed_scheduler_defers_jobs_repeatedly_and_saves_nothing() {
    let (took, throttles, max, saved) = run_thousand(SchedulerKind::Fixed).await;
    assert!(took <= Duration::from_millis(10_100), "{took:?}");
    assert_eq!((throttles, saved), (4_500, 10));
    assert!(max <= 100, "{max}");
}

// A hundred go at once, and each of the other 900 is deferred once: the formula's wait ends when its turn comes.
#[tokio::test(start_paused = true)]
async fn the_backoff_scheduler_defers_jobs_less_often() {
    let (took, throttles, max, saved) = run_thousand(SchedulerKind::Backoff).await;
    assert!(took <= Duration::from_millis(10_100), "{took:?}");
    assert!(max <= 100, "{max}");
    assert_eq!((throttles, saved), (900, 3_610), "the prediction is 4,510");
}

// Two of seven jobs fail once while the API serves the others: both wait for a second, as the formula says for two
// jobs at seven a second, among the jobs that found no quota. None of it is a throttle.
#[tokio::test(start_paused = true)]
async fn under_backoff_failed_jobs_wait_by_the_formula() {
    let script = Script::new().rule(ScriptMatch::always().first(2), MockResponse::status(503));
    let plan = Plan::scripted(script).with(|settings| {
        settings.scheduler = SchedulerKind::Backoff;
        settings.global_rate = 7;
    });
    let world = plan.start().await;
    let begun = world.now();
    world.submit("a", gets("t", 7)).await;
    world
        .time
        .reaches(begun.saturating_add(Duration::from_millis(500)))
        .await;
    let counts = world.store().job_counts().await.expect("counted");
    assert_eq!((counts.non_ready, counts.delayed), (2, 0), "{counts:?}");
    let tenant = world.store().tenant(&name("t")).await.expect("read");
    let waited = tenant.expect("known").last_backoff;
    assert_eq!(waited, Duration::from_secs(1));
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.throttles), (7, 0));
    world.assert_counts_match().await;
}

// Ten workers share two in-flight slots of an API that takes half a second: 20 calls are five seconds of two at
// a time. The limits have quota for all of them, so none is deferred, and each starts when the previous one
// returns.
#[tokio::test(start_paused = true)]
async fn a_full_in_flight_limit_defers_no_job() {
    for scheduler in [SchedulerKind::Fixed, SchedulerKind::Backoff] {
        let mut plan = Plan::scripted(Script::new()).with(|settings| {
            settings.scheduler = scheduler;
        });
        plan.mock
            .delay(Latency::Fixed(Duration::from_millis(500)), Latency::None);
        plan.rules = in_flight(2, plan.rules);
        let world = plan.start().await;
        let begun = world.now();
        world.submit("a", gets("t", 20)).await;
        let report = world.finished("a").await;
        assert_eq!((report.counts.done, report.counts.throttles), (20, 0));
        let took = world.now().since(begun);
        assert!(took < Duration::from_millis(5_100), "{scheduler:?}: {took:?}");
        world.assert_counts_match().await;
    }
}
