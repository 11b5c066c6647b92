//! The workload that the engine was made for.

use std::time::Duration;

use outflow_mock::Quota;
use outflow_testkit::Background;
use tokio::time::sleep;

use super::support::{Plan, arrivals, gets, in_flight, name, rate_rule, shared};

// 3 tenants of 5,000 jobs at 10 a second each: 500 s are ideal, and 503 are allowed: a thousandth, and a guard
// of 5 ms in a window of a second.
#[tokio::test(start_paused = true)]
async fn fifteen_thousand_jobs_of_three_tenants_take_as_long_as_their_limits_say() {
    let plan = Plan::limited("1000/s").with(|settings| {
        settings.tenant = rate_rule("10/s");
    });
    let own = Quota::sliding("10/s".parse().expect("a rate"));
    plan.mock.limit_to(vec![own]);
    let world = plan.start().await;
    let tenants = ["a", "b", "c"];
    let jobs = tenants.iter().flat_map(|tenant| gets(tenant, 5_000));
    let begun = world.now();
    world.submit("headline", jobs.collect()).await;
    let report = world.finished("headline").await;
    let makespan = world.now().since(begun);
    assert!(makespan <= Duration::from_secs(503), "{makespan:?}");
    assert_eq!((report.counts.done, report.counts.throttles), (15_000, 0));
    let audit = world.mock.audit();
    assert_eq!((audit.count(), audit.refused()), (15_000, 0));
    for tenant in tenants {
        let ends = arrivals(&world.mock, tenant);
        assert_eq!(ends.len(), 5_000);
        let own = audit.of_caller(&format!("Bearer {tenant}"));
        assert!(own.most_in_any_window(Duration::from_secs(1)) <= 10);
        let last = ends.last().expect("some");
        assert!(last.abs_diff(makespan) < Duration::from_secs(2), "{last:?}");
    }
    world.assert_counts_match().await;
}

// 2,700 jobs of three tenants at 30 a second: 90 s and the last response are ideal, and two hundredths more
// allowed, of which the guard of each window takes half a second. Half a second of
// latency keeps fifteen calls in flight and fifty at 100/s: more than the ten workers of an idle engine.
#[tokio::test(start_paused = true)]
async fn limits_bind_and_not_workers_with_the_defaults_of_a_user() {
    for (rate, latency, jobs) in [("30/s", 150, 900), ("30/s", 500, 900), ("100/s", 500, 3_000)] {
        let latency = Duration::from_millis(latency);
        let world = Plan::with_user_defaults(rate, latency).start().await;
        let begun = world.now();
        let all = ["a", "b", "c"].iter().flat_map(|tenant| gets(tenant, jobs));
        world.submit("headline", all.collect()).await;
        let report = world.finished("headline").await;
        let makespan = world.now().since(begun);
        let ideal = Duration::from_secs(90) + latency;
        assert!(makespan <= ideal * 102 / 100, "{rate}, {latency:?}: {makespan:?}");
        assert_eq!(
            (report.counts.done, report.counts.throttles),
            (u64::try_from(3 * jobs).expect("small"), 0)
        );
        assert_eq!(world.mock.audit().refused(), 0);
        let (workers, _) = world.engine.worker_usage();
        assert!(world.engine.bottlenecks(1).is_empty() && workers >= 300, "{workers}");
    }
}

// A job a minute with 200 workers: a lane takes worker slots before it waits for its permit, and these do no work.
#[tokio::test(start_paused = true)]
async fn workers_that_wait_for_a_permit_are_not_busy() {
    let plan = Plan::with_user_defaults("1/min", Duration::ZERO);
    // A user's number: without one no sentence blames the workers.
    let world = plan.with(|settings| settings.workers.max = Some(200)).start().await;
    world.submit("a", gets("t", 30)).await;
    for second in 0..90 {
        sleep(Duration::from_secs(1)).await;
        let (_, busy) = world.engine.worker_usage();
        let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
        assert!(
            busy <= 1 && progress.bottlenecks.is_empty(),
            "second {second}: {busy}, {progress:?}"
        );
    }
}

// Thirty jobs that take half a second with three workers: the limit would send all of them in a second.
#[tokio::test(start_paused = true)]
async fn the_progress_names_workers_and_concurrency_that_bind() {
    let latency = Duration::from_millis(500);
    let plan = Plan::with_user_defaults("30/s", latency).with(|settings| settings.workers.max = Some(3));
    let mut few_calls = Plan::with_user_defaults("30/s", latency);
    few_calls.rules = in_flight(4, few_calls.rules);
    for (plan, expected) in [
        (
            plan,
            "3 of 3 workers are busy: workers bind, not a limit; raise `bulk.workers.max`",
        ),
        (
            few_calls,
            "mock: 4 of 4 calls in flight: concurrency binds, not the limit 30/s; raise `concurrency`",
        ),
    ] {
        let world = plan.start().await;
        world.submit("a", gets("t", 30)).await;
        sleep(Duration::from_millis(1_700)).await;
        let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
        assert_eq!(progress.bottlenecks, [expected]);
        world.finished("a").await;
        let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
        assert!(progress.bottlenecks.is_empty());
    }
}

// 6,000 jobs at 30 a second, 15 between 50 s and 150 s, and the API states it with every response: 250 s are
// ideal and 252.5 allowed. Throttles happen only at the instant of the change.
#[tokio::test(start_paused = true)]
async fn a_temporarily_halved_limit_costs_only_its_missing_quota() {
    let world = Plan::advertised("30/s").start().await;
    let api = world.mock.clone();
    let _changes = Background::start(async move {
        for (secs, rate) in [(50, "15/s"), (100, "30/s")] {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            api.limit_to(shared(rate));
        }
    });
    let begun = world.now();
    world.submit("halved", gets("a", 6_000)).await;
    let report = world.finished("halved").await;
    let makespan = world.now().since(begun);
    assert!(makespan <= Duration::from_millis(252_500), "{makespan:?}");
    assert_eq!(report.counts.done, 6_000);
    let refused = world.mock.audit().refused();
    assert!(refused <= 5, "{refused}");
    world.assert_counts_match().await;
}
