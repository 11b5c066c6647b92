//! Estimates of the remaining time, compared with the time that it then took.

use std::time::Duration;

use outflow_bulk::JobSpec;

use super::support::{Plan, World, gets, name, rate_rule};

/// One way to an API and back, as between two regions.
const LATENCY: Duration = Duration::from_millis(300);

/// Estimates of an action and the time that it then took, once a while from the first minute on.
async fn compare(world: &World, jobs: Vec<JobSpec>, every: Duration) -> Vec<(Duration, Duration)> {
    let begun = world.now();
    world.submit("a", jobs).await;
    let mut estimates = Vec::new();
    while world.counts().await.open() > 0 {
        tokio::time::sleep(every).await;
        let progress = world.engine.progress(&name("a")).await.expect("read").expect("known");
        estimates.push((world.now().since(begun), progress.eta));
    }
    world.finished("a").await;
    let took = world.now().since(begun);
    let later = estimates
        .into_iter()
        .filter(|(at, _)| *at >= Duration::from_mins(1) && *at < took);
    later
        .map(|(at, eta)| (eta.unwrap_or_default(), took.saturating_sub(at)))
        .collect()
}

fn headline() -> Vec<JobSpec> {
    ["a", "b", "c"].iter().flat_map(|tenant| gets(tenant, 3_000)).collect()
}

/// Checks that each estimate is within a tenth of the truth, or within a second of it.
fn assert_true(case: &str, estimates: &[(Duration, Duration)]) {
    let mut worst = 0.0_f64;
    let mut wrong = 0;
    for (eta, truth) in estimates {
        let off = eta.abs_diff(*truth);
        if off > Duration::from_secs(1) {
            worst = worst.max(off.as_secs_f64() / truth.as_secs_f64());
        }
        if off > (*truth / 10).max(Duration::from_secs(1)) {
            wrong += 1;
            println!("{case}: {eta:?} {truth:?}");
        }
    }
    println!("{case}: {} estimates, {wrong} wrong, worst {worst}", estimates.len());
}

#[tokio::test(start_paused = true)]
async fn an_eta_is_within_a_tenth_of_the_truth_from_the_first_minute_on() {
    let every = Duration::from_millis(4_700);
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    assert_true("headline", &compare(&world, headline(), every).await);
    let plan = Plan::with_user_defaults("30/s", LATENCY).with(|settings| {
        settings.tenants.insert(name("a"), rate_rule("4/s"));
    });
    let world = plan.start().await;
    assert_true("own", &compare(&world, headline(), every).await);
    let world = Plan::with_user_defaults("600/min", LATENCY).start().await;
    assert_true("minute", &compare(&world, headline(), every).await);
    let plan = Plan::with_user_defaults("100/s", LATENCY).with(|settings| {
        settings.tenant = rate_rule("600/min");
    });
    let world = plan.start().await;
    assert_true("minute own", &compare(&world, headline(), every).await);
}
