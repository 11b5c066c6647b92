//! Callers that can wait, and calls that may be repeated.

use std::time::Duration;

use outflow::{Error, Response};
use outflow_mock::{MockResponse, RetryAfterForm, ScriptedFault, ThrottleResponse};
use outflow_testkit::Background;
use outflow_testkit::recovery::{RecoveryBed, RecoveryPlan, RecoveryScenario, TroubleKind};
use tokio::time::Instant;

use super::{LATENCY, SECOND};

/// Plans a server that throttles its first call with this wait.
fn throttles_once(wait: Duration) -> RecoveryPlan {
    let refusal: ScriptedFault = ThrottleResponse::new(429, wait).into();
    let first = RecoveryScenario::new("one 429", Duration::ZERO, None, 60 * SECOND);
    let first = first.with(Duration::ZERO, 60 * SECOND, TroubleKind::Once(refusal));
    RecoveryPlan::new(&["35/s"], LATENCY, first)
}

fn start_get(bed: &RecoveryBed) -> Background<Result<Response, Error>> {
    let call = bed.client.get("x", "/");
    Background::start(async move { call.send().await })
}

// The call got the 429, and the next caller a 503 within half a millisecond.
#[tokio::test(start_paused = true)]
async fn all_wait_through_a_retry_after_and_the_call_is_repeated() {
    let mut plan = throttles_once(8 * SECOND);
    plan.config = plan
        .config
        .changed(r#"max_wait = "1m""#, "the guide shows the wait with this setting");
    let bed = RecoveryBed::start(&plan);
    let began = Instant::now();
    let first = start_get(&bed);
    bed.reaches(SECOND).await;
    let second = start_get(&bed);
    for call in [first, second] {
        assert_eq!(call.join().await.expect("a response").status(), 200);
    }
    let took = began.elapsed();
    assert!(took >= 8 * SECOND && took < 11 * SECOND, "{took:?}");
    assert_eq!(bed.mock.totals().seen, 3);
}

#[tokio::test(start_paused = true)]
async fn a_post_that_was_throttled_is_repeated() {
    let bed = RecoveryBed::start(&throttles_once(SECOND));
    let response = bed.client.post("x", "/").body("order").send().await;
    assert_eq!(response.expect("a response").status(), 200);
    assert_eq!(bed.mock.totals().seen, 2);
}

#[tokio::test(start_paused = true)]
async fn a_setting_forbids_to_repeat_a_throttled_post() {
    let mut plan = throttles_once(SECOND);
    plan.config = plan
        .config
        .changed(r#"retry_429 = "idempotent""#, "the setting itself is judged");
    let bed = RecoveryBed::start(&plan);
    let response = bed.client.post("x", "/").body("order").send().await;
    assert_eq!(response.expect("a response").status(), 429);
    assert_eq!(bed.mock.totals().seen, 1);
}

// Four in flight made it 19.8 s.
#[tokio::test(start_paused = true)]
async fn forty_calls_of_two_seconds_take_about_two_seconds() {
    let well = RecoveryScenario::new("a slow API", Duration::ZERO, None, 60 * SECOND);
    let bed = RecoveryBed::start(&RecoveryPlan::new(&["500/min"], 2 * SECOND, well));
    let began = Instant::now();
    let calls: Vec<_> = (0..40).map(|_| start_get(&bed)).collect();
    for call in calls {
        assert_eq!(call.join().await.expect("a response").status(), 200);
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(2_500), "{took:?}");
}

// Each repetition got a fresh wait, so that the caller was held for ten minutes.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_throttled_for_ever_ends_within_its_wait() {
    let refusal: ScriptedFault = ThrottleResponse::new(429, Duration::ZERO)
        .with_retry_after(RetryAfterForm::Nothing)
        .into();
    let storm = RecoveryScenario::new("429 for ever", Duration::ZERO, None, 600 * SECOND);
    let storm = storm.with(Duration::ZERO, 600 * SECOND, TroubleKind::Failing(refusal));
    let bed = RecoveryBed::start(&RecoveryPlan::new(&["35/s"], LATENCY, storm));
    let began = Instant::now();
    let response = bed.client.get("x", "/").send().await;
    assert!(response.is_ok_and(|response| response.status() == 429));
    let took = began.elapsed();
    assert!(took <= 31 * SECOND, "{took:?}");
}

// Each counted retry got a fresh wait, so that callers were held for several times their wait.
#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_in_all_than_it_may() {
    let refusal: ScriptedFault = MockResponse::status(503).into();
    let outage = RecoveryScenario::new("503 for ever", Duration::ZERO, None, 600 * SECOND);
    let outage = outage.with(Duration::ZERO, 600 * SECOND, TroubleKind::Failing(refusal));
    let mut plan = RecoveryPlan::new(&["35/s"], LATENCY, outage);
    plan.config = plan
        .config
        .changed(r#"max_wait = "5s""#, "a short wait shows the excess");
    let bed = RecoveryBed::start(&plan);
    for _ in 0..40 {
        let began = Instant::now();
        let calls: Vec<_> = (0..20).map(|_| start_get(&bed)).collect();
        for call in calls {
            // Three attempts, and a probe that was in flight when another one failed.
            let _failed = call.join().await;
            let took = began.elapsed();
            assert!(took <= 5 * SECOND + 4 * LATENCY, "{took:?}");
        }
    }
}
