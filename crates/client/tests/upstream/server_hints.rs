//! Server hints: headers, foreign use, throttle responses, and the limits adapted from them.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use outflow::core::{Accounting, AdaptiveMode, Cost, HealthOverride, HealthState, Limit, OutcomeClass};
use outflow::event::{DriftChange, EventKind};
use outflow::{AttemptResult, Permit, RefusalReason, Rules};

use crate::support::{CallRequest, INSTANT, TestBed, by_arrival, by_sending, health, ms, parsed, rules, secs};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    pairs.collect()
}

/// Headers of one response.
type HeaderPairs = &'static [(&'static str, &'static str)];

fn sent(bed: &TestBed) -> Permit {
    let mut permit = bed.caller(bed.options()).admitted();
    permit.sending();
    permit
}

fn used(bed: &TestBed) -> u64 {
    bed.upstream.report().limits[0].usage.weight
}

// Each dialect reports 20 used of the limit (10 of Upbit's 12, 32 of Shopify's 80), four of them
// ours. Four responses report the foreign use, which is counted once.
#[test]
fn foreign_use_is_counted_once_in_every_dialect() {
    let minute = by_arrival("60/min");
    let bucket = Limit::bucket(parsed("2/s"), 80)
        .expect("some burst")
        .counted(Accounting::Safe);
    let cases: [(Limit, HeaderPairs, u64); 7] = [
        (
            minute,
            &[
                ("RateLimit-Policy", "\"a\";q=60;w=60"),
                ("RateLimit", "\"a\";r=40;t=30"),
            ],
            20,
        ),
        (
            minute,
            &[
                ("X-RateLimit-Limit", "60"),
                ("X-RateLimit-Remaining", "40"),
                ("X-RateLimit-Reset", "30"),
            ],
            20,
        ),
        (
            by_arrival("12/s"),
            &[("Remaining-Req", "group=order; min=1800; sec=2")],
            10,
        ),
        (minute, &[("X-MBX-USED-WEIGHT-1M", "20")], 20),
        (bucket, &[("X-Shopify-Shop-Api-Call-Limit", "32/80")], 32),
        (
            minute,
            &[
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "40"),
                ("x-ratelimit-reset-requests", "30s"),
            ],
            20,
        ),
        (
            minute,
            &[
                ("anthropic-ratelimit-requests-limit", "60"),
                ("anthropic-ratelimit-requests-remaining", "40"),
                ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:30Z"),
            ],
            20,
        ),
    ];
    for (limit, hints, counted) in cases {
        let bed = TestBed::new(rules(vec![limit]));
        // The first response only shows that this API reports its limits.
        sent(&bed).settle(AttemptResult::response(200, &headers(hints)));
        let flights = [(); 3].map(|()| sent(&bed));
        assert_eq!(used(&bed), 4);
        for permit in flights {
            permit.settle(AttemptResult::response(200, &headers(hints)));
            assert_eq!(used(&bed), counted, "{hints:?}");
        }
        let foreign = bed.recorder.take_selected(|what| match what {
            EventKind::Foreign { units, .. } => Some(*units),
            _ => None,
        });
        assert_eq!(foreign, [counted - 4], "{hints:?}");
    }
}

// The first response is a throttle with a reset time: no call goes before it.
#[test]
fn an_empty_quota_after_a_throttle_blocks_until_the_reset() {
    let bed = TestBed::new(rules(vec![by_arrival("60/min")]));
    let hints = headers(&[
        ("X-RateLimit-Limit", "60"),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "20"),
    ]);
    sent(&bed).settle(AttemptResult::response(429, &hints));
    let waits = bed.waiting(bed.options());
    assert_eq!(
        waits.explain().and_then(|estimate| estimate.eta),
        Some(bed.now().saturating_add(secs(20)))
    );
    bed.pass_until_just_before(secs(20));
    assert!(!waits.is_woken());
    bed.pass(INSTANT);
    assert!(waits.is_woken());
}

// 403, nothing left, and a reset in half an hour: a ban until then. With quota left it is a plain
// 403, and stops no call.
#[test]
fn a_403_with_an_empty_quota_is_a_ban_until_the_reset() {
    for (left, state) in [("0", HealthState::Sleep), ("1", HealthState::Normal)] {
        let bed = TestBed::new(rules(vec![by_sending("5000/h")]));
        let hints = headers(&[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", left),
            ("x-ratelimit-reset", "1800"),
        ]);
        sent(&bed).settle(AttemptResult::response(403, &hints));
        assert_eq!(bed.upstream.report().health[0].snapshot.state, state, "{left} left");
        if state == HealthState::Sleep {
            let refused = bed.try_acquire(bed.options()).expect_err("banned");
            assert_eq!(refused.retry_after, Some(secs(1_800)));
        }
    }
}

// Ten of our own ten are used: the meter knows that better than a header does.
#[test]
fn an_empty_quota_from_our_own_use_blocks_no_call() {
    let bed = TestBed::new(rules(vec![by_arrival("10/s")]));
    let hints = headers(&[
        ("X-RateLimit-Limit", "10"),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "30"),
    ]);
    for _ in 0..10 {
        sent(&bed).settle(AttemptResult::response(200, &hints));
    }
    let waits = bed.waiting(bed.options());
    bed.pass(secs(1));
    assert!(waits.is_woken());
}

// OpenAI sends both: the seconds are rounded up. A malformed number of milliseconds leaves the seconds.
#[test]
fn milliseconds_win_over_the_seconds_of_a_retry_after() {
    for (millis, wait) in [("1500", ms(1_500)), ("20000", secs(20)), ("soon", secs(9))] {
        let bed = TestBed::new(rules(vec![by_arrival("10/s")]));
        let both = headers(&[("retry-after", "9"), ("retry-after-ms", millis)]);
        let verdict = sent(&bed).settle(AttemptResult::response(429, &both));
        assert_eq!(verdict.retry_after, Some(wait), "{millis}");
    }
    let bed = TestBed::new(rules(vec![by_arrival("10/s")]));
    let alone = headers(&[("retry-after-ms", "2500")]);
    let verdict = sent(&bed).settle(AttemptResult::response(429, &alone));
    assert_eq!(verdict.retry_after, Some(ms(2_500)));
}

#[test]
fn malformed_headers_are_reported_and_change_nothing() {
    let bed = TestBed::new(rules(vec![by_arrival("10/s")]));
    let hints = headers(&[("X-RateLimit-Limit", "ten"), ("Retry-After", "soon")]);
    let verdict = sent(&bed).settle(AttemptResult::response(429, &hints));
    assert_eq!((verdict.effect, verdict.retry_after), (OutcomeClass::Throttled, None));
    let malformed = bed.recorder.take_selected(|what| match what {
        EventKind::Malformed { headers } => Some(*headers),
        _ => None,
    });
    assert_eq!(malformed, [2]);
    assert_eq!(used(&bed), 1);
}

/// Builds an upstream whose limit has been confirmed, so that a burst is not held back.
fn adaptive(mode: AdaptiveMode) -> TestBed {
    let bed = TestBed::new(Rules {
        adaptive: mode,
        health: health(|settings| {
            settings.concurrency = Some(1_000);
            settings.n_throttle = Some(1_000);
        }),
        ..rules(vec![by_arrival("50/s")])
    });
    sent(&bed).settle(AttemptResult::status(200));
    bed.pass(secs(2));
    bed
}

fn effective(bed: &TestBed) -> u64 {
    bed.upstream.report().limits[0].limit.capacity()
}

fn drifts(bed: &TestBed) -> Vec<Option<String>> {
    bed.recorder.take_selected(|what| match what {
        EventKind::Drifting { drift, .. } => Some(drift.map(|drift| drift.evidence.to_string())),
        _ => None,
    })
}

/// Sends one burst of which thirty pass and twenty are throttled.
fn send_burst(bed: &TestBed) {
    let burst: Vec<Permit> = (0..50).map(|_| sent(bed)).collect();
    bed.pass(ms(100));
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 30 { 200 } else { 429 }));
    }
}

// Configured 50, and 30 pass: the limit in effect is 30 after one burst of 20 throttle responses.
// It then grows back slowly, and the drift's end is reported.
#[test]
fn a_burst_of_throttles_lowers_the_limit_once_and_it_grows_back() {
    let bed = adaptive(AdaptiveMode::Guard);
    send_burst(&bed);
    assert_eq!(effective(&bed), 30);
    assert_eq!(drifts(&bed), [Some("30/s".to_owned())]);
    let drift = bed.upstream.report().limits[0].drift.expect("it differs");
    assert_eq!(drift.configured, parsed("50/s"));
    let mut last = 30;
    for second in 0..600 {
        bed.pass(secs(1));
        while let Ok(mut permit) = bed.try_acquire(bed.options()) {
            permit.sending();
            permit.settle(AttemptResult::status(200));
        }
        assert!(effective(&bed) >= last, "it fell in second {second}");
        last = effective(&bed);
        if last == 50 {
            assert!(second >= 5, "back after {second} s");
            break;
        }
    }
    assert_eq!(last, 50);
    let changes = bed.recorder.take_selected(|what| match what {
        EventKind::Drifting { change, .. } => Some(*change),
        _ => None,
    });
    let (end, growth) = changes.split_last().expect("it grew");
    assert_eq!(*end, DriftChange::Ended, "the end is reported");
    assert!(growth.iter().all(|change| *change == DriftChange::Raised), "{growth:?}");
    assert!(bed.upstream.report().limits[0].drift.is_none());
}

// Five machines use 50/s, this one of them ten. One call is throttled because another came late.
#[test]
fn without_adaptation_throttles_change_no_limit() {
    let bed = adaptive(AdaptiveMode::Off);
    send_burst(&bed);
    assert_eq!(effective(&bed), 50);
    assert_eq!(drifts(&bed), []);
}

// The API reports 42 a second where 50 were configured.
#[test]
fn an_advertised_limit_is_kept() {
    let bed = adaptive(AdaptiveMode::Guard);
    let hints = headers(&[("RateLimit-Policy", "\"a\";q=42;w=1")]);
    sent(&bed).settle(AttemptResult::response(200, &hints));
    assert_eq!(effective(&bed), 42);
    assert_eq!(drifts(&bed), [Some("42/s".to_owned())]);
}

// A quota of a month or a year, as an ordinary success states it: no call waits for days. What is left of it counts
// only after a throttle, and then for a day at most.
#[test]
fn a_quota_of_more_than_a_day_delays_no_call() {
    let cases: [HeaderPairs; 6] = [
        &[("RateLimit-Policy", "\"p\";q=1;w=31536000")],
        &[("RateLimit-Policy", "\"p\";q=1;w=100000")],
        &[("RateLimit-Policy", "\"p\";q=10000;w=2592000")],
        &[("RateLimit-Limit", "1;w=31536000")],
        &[
            ("RateLimit-Policy", "\"p\";q=5;w=31536000"),
            ("RateLimit", "\"p\";r=0;t=31536000"),
        ],
        &[
            ("RateLimit-Limit", "1, 1;w=31536000"),
            ("RateLimit-Remaining", "0"),
            ("RateLimit-Reset", "31536000"),
        ],
    ];
    for hints in cases {
        let bed = adaptive(AdaptiveMode::Guard);
        sent(&bed).settle(AttemptResult::response(200, &headers(hints)));
        assert_eq!(effective(&bed), 50, "{hints:?}");
        for _ in 0..20 {
            bed.caller(bed.options()).goes();
        }
    }
    for hints in &cases[4..] {
        let bed = adaptive(AdaptiveMode::Guard);
        sent(&bed).settle(AttemptResult::response(429, &headers(hints)));
        let refused = bed.try_acquire(bed.options()).expect_err("nothing is left");
        assert_eq!(refused.retry_after, Some(secs(86_400)), "{hints:?}");
    }
}

// Only five of fifty pass: a call with a cost of 40 still goes, once the lowered limit is free.
#[test]
fn a_cost_above_a_lowered_limit_still_goes() {
    let bed = adaptive(AdaptiveMode::Guard);
    let burst: Vec<Permit> = (0..50).map(|_| sent(&bed)).collect();
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 5 { 200 } else { 429 }));
    }
    assert!(effective(&bed) < 40);
    let heavy = CallRequest::new(bed.group("default").with_cost(Cost::new(40)));
    let mut waits = bed.waiting(heavy);
    bed.pass(secs(3));
    waits.goes();
    let too_heavy = CallRequest::new(bed.group("default").with_cost(Cost::new(51)));
    assert!(matches!(
        bed.caller(too_heavy).refused().reason,
        RefusalReason::Never { .. }
    ));
}

// An aligned minute is :00 to :00 by the wall clock. No response came for an hour, so that clock
// was not read; Throttle lowers the limit and places its window again.
#[test]
fn an_aligned_window_stays_aligned_when_limits_change() {
    let limit = Limit::aligned(parsed("1200/min")).expect("a day has whole minutes");
    let bed = TestBed::new(rules(vec![limit.counted(Accounting::Send)]));
    bed.pass(secs(60 * 61 + 37));
    bed.upstream.force_health(None, HealthOverride::Throttle);
    bed.upstream.force_health(None, HealthOverride::Normal);
    let all = CallRequest::new(bed.group("default").with_cost(Cost::new(1_200)));
    bed.caller(all).goes();
    let waits = bed.waiting(bed.options());
    bed.pass_until_just_before(secs(23));
    assert!(!waits.is_woken());
    bed.pass(INSTANT);
    assert!(waits.is_woken());
}
