//! Throttle responses, and limits that are not what is configured.

use std::time::Duration;

use outflow_mock::{RetryAfterForm, ThrottleResponse};
use outflow_testkit::recovery::{RecoveryPlan, RecoveryScenario, TroubleKind};

use super::{LATENCY, SECOND, assert_outage_goals, plan};

// Four workers had 0.35 calls a second for minutes.
#[tokio::test(start_paused = true)]
async fn a_storm_of_bare_429s_costs_four_workers_seconds() {
    let mut plan = plan("429 for 20 s");
    plan.workers = Some(4);
    let figures = plan.run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full <= 15.0, "{figures}");
}

// Half of the rate was taken for the whole queue while it grew back to full in ten seconds, and 11 % of the
// callers were refused. The backlog of 30 s and the ramp itself cost half of that.
#[tokio::test(start_paused = true)]
async fn callers_wait_through_the_ramp_after_a_longer_storm() {
    let (begin, heal) = (10 * SECOND, 40 * SECOND);
    let refusal = ThrottleResponse::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
    let storm = RecoveryScenario::new("429 for 30 s", begin, Some(heal), 60 * SECOND);
    let storm = storm.with(begin, heal, TroubleKind::Failing(refusal.into()));
    let figures = RecoveryPlan::new(&["35/s"], LATENCY, storm).run().await;
    assert!(figures.failed <= 6.0, "{figures}");
}

// The limit fell to one call in 1.8 s.
#[tokio::test(start_paused = true)]
async fn three_single_429s_on_an_idle_api_leave_the_limit_alone() {
    let plan = plan("three 429s on an idle API");
    let run = plan.run_busy().await;
    assert_eq!(run.refused.len(), 3);
    assert!(run.drifts.is_empty(), "{:?}", run.drifts);
    assert_eq!(run.times_left_normal(), 0);
    let figures = plan.run().await;
    assert!(figures.to_full <= 0.0, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn after_a_retry_after_of_a_minute_the_full_rate_is_back_within_seconds() {
    let figures = plan("one 429, Retry-After 60").run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full_after_wait() <= 10.0, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn half_of_the_limit_in_silence_is_found_and_left_again() {
    let figures = plan("half for 5 min, silent").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 35.0, "{figures}");
    assert!(figures.refused <= 30.0, "{figures}");
    assert!(figures.failed <= 2.0, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn half_of_the_limit_in_headers_is_followed_at_once_both_ways() {
    let figures = plan("half for 5 min, with headers").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 0.0, "{figures}");
    assert!(figures.refusals <= 5, "{figures}");
    assert!(figures.goodput >= 95.0, "{figures}");
}

// Each try above a found limit costs one refusal, and tries become rare.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_wrong_for_an_hour_costs_fifty_refusals() {
    let mut plan = plan("a quarter for ever");
    let hour = 3_600 * SECOND;
    plan.scenario = plan.scenario.watched_for(hour);
    for trouble in &mut plan.scenario.troubles {
        trouble.to = hour;
    }
    let run = plan.run_busy().await;
    assert!(run.refused.len() <= 50, "{}", run.refused.len());
    // Eight of 8.75 a second are whole calls, and nine tenths of them are the goal.
    assert!(run.good.len() >= 3_600 * 8 * 9 / 10, "{}", run.good.len());
}
