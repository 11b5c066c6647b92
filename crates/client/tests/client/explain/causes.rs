//! One test for each cause that can bind a call.

use std::time::Duration;

use outflow::core::{HealthOverride, HealthState};
use outflow::{CallDecision, ConcurrencyRule, LoweredBy, OverrideNote, RefusalReason, WaitReason};
use outflow_mock::{Latency, MockResponse, Quota, ThrottleResponse};

use super::support::{ExplainBed, ExplainedCall};

const SECOND: Duration = Duration::from_secs(1);

fn sentence(bed: &ExplainBed, said: &CallDecision) -> String {
    said.describe(bed.upstream().now())
}

/// Eight failures in a row.
async fn fall_asleep(bed: &ExplainBed) {
    bed.answer_all(MockResponse::status(503));
    while bed.upstream().state(bed.upstream().group("default").expect("there")) != HealthState::Sleep {
        bed.calls(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn explain_of_an_api_asleep_names_its_figures_and_its_end() {
    let bed = ExplainBed::new("limits = [\"35/s\"]");
    fall_asleep(&bed).await;
    // The next probe is a second away: a caller with less time is refused now, and one with more waits for it.
    let hurried = ExplainedCall {
        max_wait: Some(SECOND / 2),
        ..ExplainedCall::get()
    };
    let (said, _) = bed.compare(&hurried).await;
    let text = sentence(&bed, &said);
    assert_eq!((said.name(), said.cause()), ("refuse", Some("state")), "{text}");
    assert!(text.contains("the API is in Sleep for another "), "{text}");
    assert!(text.contains(": 8 calls in a row failed (5xx)"), "{text}");
    bed.heal();
    let (said, _) = bed.compare(&ExplainedCall::get()).await;
    assert_eq!(said.name(), "wait", "{}", sentence(&bed, &said));
}

#[tokio::test(start_paused = true)]
async fn explain_of_an_override_names_its_author_and_reason() {
    let bed = ExplainBed::new("limits = [\"35/s\"]");
    let note = OverrideNote::new("127.0.0.1:5", Some("a move".into()));
    bed.upstream().force_health_by(None, HealthOverride::CacheOnly, &note);
    tokio::time::sleep(3 * SECOND).await;
    let (said, _) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert_eq!(
        text,
        "it would be refused at once: an operator (127.0.0.1:5) forced CacheOnly 3.0 s ago, with the reason \
         \"a move\": `outflow health release` ends it"
    );
}

#[tokio::test(start_paused = true)]
async fn explain_of_an_offline_api_is_a_refusal_or_the_cache() {
    // A cache is what an offline program is for.
    let bed = ExplainBed::new("limits = [\"35/s\"]\ncache = \"standard\"");
    let kept = ExplainedCall {
        path: "/kept",
        ..ExplainedCall::get()
    };
    assert_eq!(bed.compare(&kept).await.0, CallDecision::Go);
    assert_eq!(bed.compare(&kept).await.0.name(), "cache", "it is fresh");
    bed.upstream().force_health(None, HealthOverride::Sleep);
    tokio::time::sleep(600 * SECOND).await;
    let (said, _) = bed.compare(&kept).await;
    assert_eq!(sentence(&bed, &said), "the cache would respond with a stale response");
    let (said, met) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert!(
        matches!(said, CallDecision::Miss(Some(RefusalReason::Blocked(_)))),
        "{text}"
    );
    let error = met.result.expect_err("a miss").to_string();
    assert!(error.contains("an operator forced Sleep 10 min 0 s ago"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn explain_in_cache_only_never_says_wait() {
    // Without a cache nothing can respond.
    let bed = ExplainBed::new("limits = [\"35/s\"]");
    bed.upstream().force_health(None, HealthOverride::CacheOnly);
    let (said, met) = bed.compare(&ExplainedCall::get()).await;
    assert_eq!(said.name(), "refuse", "{}", sentence(&bed, &said));
    assert!(met.result.expect_err("refused").is_circuit_open());
}

#[tokio::test(start_paused = true)]
async fn explain_in_reject_mode_is_a_refusal_with_the_time() {
    // The mode itself is judged.
    let bed = ExplainBed::new("limits = [\"2/min\"]\nrate_limit_mode = \"reject\"");
    bed.calls(2).await;
    let (said, met) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert!(
        text.starts_with("it would be refused at once: cannot start now and does not wait: the limit of 2/min"),
        "{text}"
    );
    assert!(
        met.finished.retry_after.is_some_and(|after| after > 50 * SECOND),
        "{met:?}"
    );
    let report = bed.upstream().report();
    let reason = "the limit of 2/min is used up: calls that cannot wait are refused";
    assert_eq!(report.health[0].reason.as_deref(), Some(reason));
}

// 35/s configured, and the server allows 10: the limit is lowered, and explain names both.
#[tokio::test(start_paused = true)]
async fn explain_of_a_lowered_limit_names_the_configured_one() {
    let mut bed = ExplainBed::new("limits = [\"35/s\"]");
    bed.mock.limit_to(vec![Quota::sliding("10/s".parse().expect("a rate"))]);
    bed.calls(60).await;
    bed.keep_busy(60).await;
    let (said, met) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    // Sixty calls ahead at the lowered rate take six seconds, and two at the configured one.
    let CallDecision::Wait(estimate) = &said else {
        panic!("{text}");
    };
    let promised = estimate.eta.expect("known").since(met.at);
    let waited = met.finished.waited;
    assert!(
        promised.abs_diff(waited) <= waited / 4,
        "{promised:?} of {waited:?}: {text}"
    );
    assert!(waited > 4 * SECOND, "{waited:?}");
    let Some(WaitReason::Limit {
        rate,
        lowered: Some(lowered),
        ..
    }) = said.wait_reason()
    else {
        panic!("{text}");
    };
    assert_eq!(
        (lowered.configured.to_string(), lowered.by),
        ("35/s".to_owned(), LoweredBy::Evidence)
    );
    assert!(rate.as_per_second() < 35.0, "{text}");
    assert!(
        text.contains("35/s is configured: the API has allowed less for "),
        "{text}"
    );
    let report = bed.upstream().report();
    let reason = report.health[0].reason.clone().expect("a reason");
    assert!(
        reason.starts_with("the limit is ") && reason.contains(" of the configured 35/s: "),
        "{reason}"
    );
}

// After throttles the rate returns over ten seconds; the explanation says when it is back.
#[tokio::test(start_paused = true)]
async fn explain_of_a_ramp_names_its_end() {
    // Evidence would lower the limit first, so that no ramp is seen.
    let mut bed = ExplainBed::new("limits = [\"35/s\"]\nadaptive = \"off\"");
    bed.answer_all(ThrottleResponse::new(429, Duration::from_secs(6)));
    bed.calls(1).await;
    bed.heal();
    let target = bed.upstream().group("default").expect("there");
    while bed.upstream().state(target) != HealthState::Normal {
        bed.calls(2).await;
        tokio::time::sleep(SECOND / 10).await;
    }
    // Starts are spaced for a second after a wait of the server.
    tokio::time::sleep(2 * SECOND).await;
    bed.keep_busy(60).await;
    let (said, _) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert!(
        text.contains("35/s is configured: a ramp after a recovery began ") && text.contains("; back in "),
        "{text}"
    );
}

// Calls of ten seconds, and one more than may be in flight.
#[tokio::test(start_paused = true)]
async fn explain_of_full_places_advises_concurrency() {
    // Four places are fewer than the limit needs.
    let mut bed = ExplainBed::new("limits = [\"500/min\"]\nconcurrency = 4");
    bed.mock.delay(Latency::Fixed(SECOND), Latency::Fixed(SECOND));
    bed.keep_busy(5).await;
    let (said, _) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert_eq!(
        text,
        "it would wait for an unknown time, behind 1 other call: 4 of 4 calls are in flight: concurrency binds, \
         not a limit; raise `concurrency`"
    );
    let rule = ConcurrencyRule::Setting;
    assert_eq!(said.wait_reason(), Some(&WaitReason::Concurrency { most: 4, rule }));
}

// The limit is free again in a minute; the call has two seconds, or waits for five.
#[tokio::test(start_paused = true)]
async fn explain_of_a_deadline_too_near_is_a_refusal_at_once() {
    let bed = ExplainBed::new("limits = [\"2/min\"]");
    bed.calls(2).await;
    for call in [
        ExplainedCall {
            timeout: Some(2 * SECOND),
            ..ExplainedCall::get()
        },
        ExplainedCall {
            max_wait: Some(5 * SECOND),
            ..ExplainedCall::get()
        },
    ] {
        let (said, _) = bed.compare(&call).await;
        let text = sentence(&bed, &said);
        assert!(
            text.starts_with("it would be refused at once: cannot start before its deadline: the limit of 2/min"),
            "{text}"
        );
    }
    let patient = ExplainedCall {
        max_wait: Some(120 * SECOND),
        ..ExplainedCall::get()
    };
    assert_eq!(bed.compare(&patient).await.0.name(), "wait");
}

#[tokio::test(start_paused = true)]
async fn explain_of_a_cost_above_the_limit_is_never() {
    let bed = ExplainBed::new("limits = [\"2/min\"]");
    let heavy = ExplainedCall {
        cost: Some(3),
        ..ExplainedCall::get()
    };
    let (said, _) = bed.compare(&heavy).await;
    assert_eq!(
        (said.name(), sentence(&bed, &said).as_str()),
        (
            "never",
            "it can never go: it costs more than 2/min ever allows: split it or lower its cost"
        )
    );
}

// A program that shares its limits leases units from a ledger, and an idle one has none. With less time than the API's
// latency a call was refused, because of calls ahead that there were not; in `reject` mode because of a deadline.
#[tokio::test(start_paused = true)]
async fn explain_of_a_program_that_shares_its_limits_is_what_a_call_meets() {
    let bed = ExplainBed::sharing("limits = [\"2/s\"]");
    bed.calls(2).await;
    tokio::time::sleep(10 * SECOND).await;
    let hurried = ExplainedCall {
        timeout: Some(Duration::from_millis(30)),
        ..ExplainedCall::get()
    };
    let (said, _) = bed.compare(&hurried).await;
    assert_eq!(said.name(), "go", "{}", sentence(&bed, &said));
    let bed = ExplainBed::sharing("limits = [\"2/s\"]\nrate_limit_mode = \"reject\"");
    bed.calls(1).await;
    bed.calls(1).await;
    tokio::time::sleep(SECOND / 100).await;
    let (said, _) = bed.compare(&ExplainedCall::get()).await;
    assert_eq!(said.cause(), Some("limit"), "{}", sentence(&bed, &said));
    let CallDecision::Refuse(refusal) = said else {
        panic!("{said:?}");
    };
    assert!(matches!(refusal.reason, RefusalReason::Busy(_)), "{refusal:?}");
}

// An idle process leases no units: its explanation said "go" although another process had used the whole limit.
#[tokio::test(start_paused = true)]
async fn explain_of_an_idle_process_knows_what_another_one_used() {
    let bed = ExplainBed::sharing("limits = [\"10/s\"]");
    bed.calls_of_peer(10).await;
    let (said, met) = bed.compare(&ExplainedCall::get()).await;
    let text = sentence(&bed, &said);
    assert_eq!((said.name(), said.cause()), ("wait", Some("limit")), "{text}");
    assert!(met.finished.waited > SECOND / 2, "{met:?}");
}
