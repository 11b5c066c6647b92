//! The workload that the engine was made for.

use std::time::Duration;

use outflow_mock::Quota;
use outflow_testkit::Background;

use super::support::{Plan, arrivals, gets, rate_rule, shared};

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
