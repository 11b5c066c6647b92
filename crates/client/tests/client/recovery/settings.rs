//! Bad days with a profile, or with an operator.

use std::time::Duration;

use outflow::core::HealthOverride;
use outflow_testkit::recovery::{RecoveryBed, RecoveryPlan, RecoveryScenario};

use super::{LATENCY, SECOND, plan};

// The cooldown doubled to two minutes, and callers were refused for 92 s after the API was back.
#[tokio::test(start_paused = true)]
async fn a_breaker_refuses_for_its_cooldown_at_most() {
    let mut plan = plan("503 for 2 min");
    plan.config = plan.config.changed(
        r#"health.profile = "breaker""#,
        "the cooldown of a plain breaker is judged",
    );
    let run = plan.run_busy().await;
    let heal = plan.scenario.heal.expect("it heals").as_secs_f64();
    let last = run
        .failed
        .iter()
        .map(|call| call.over.as_secs_f64())
        .fold(0.0, f64::max);
    assert!(last <= heal + 30.5, "refused {} s after the API was back", last - heal);
    let after = run.good.iter().filter(|at| **at > heal + 32.0).count();
    assert!(after > 35 * 50, "{after}");
}

// The rate was halved and grew back in forty minutes.
#[tokio::test(start_paused = true)]
async fn an_override_that_is_released_at_once_costs_nothing() {
    let healthy = RecoveryScenario::new("an override", Duration::ZERO, None, 60 * SECOND);
    let bed = RecoveryBed::start(&RecoveryPlan::new(&["35/s"], LATENCY, healthy));
    let _working = bed.start_workers(24);
    bed.reaches(20 * SECOND).await;
    let upstream = bed.client.upstream("x").expect("there");
    upstream.force_health(None, HealthOverride::Sleep);
    bed.reaches(20 * SECOND + Duration::from_millis(28)).await;
    upstream.release_health(None);
    bed.reaches(60 * SECOND).await;
    let run = bed.record();
    let first = run.good.iter().filter(|at| (21.0..26.0).contains(*at)).count();
    assert!(first >= 5 * 35 * 95 / 100, "{first} in the first five seconds");
    let all = run.good.iter().filter(|at| (21.0..59.0).contains(*at)).count();
    assert!(all >= 38 * 35 * 95 / 100, "{all}");
}
