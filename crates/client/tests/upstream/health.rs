//! States, cooldowns and probes, as callers see them.

use std::time::Duration;

use http::HeaderMap;
use outflow::core::{Cost, Decision, Fault, HealthConfig, HealthOverride, HealthSettings, HealthState, OutcomeClass};
use outflow::event::EventKind;
use outflow::{AttemptResult, ConcurrencyRule, Group, HealthScope, RefusalReason, Rules, WaitReason, WhenAsleep};

use crate::support::{CallRequest, INSTANT, TestBed, TestCaller, by_sending, health, ms, parsed, rules, secs};

fn unlimited() -> Rules {
    rules(Vec::new())
}

/// Sets the profile that probes one by one and refuses while it sleeps.
fn cautious(rules: Rules) -> Rules {
    let settings = HealthSettings {
        concurrency: Some(1_000_000),
        ..HealthSettings::CAUTIOUS
    };
    Rules {
        health: HealthConfig::new(settings).expect("they fit together"),
        when_asleep: WhenAsleep::Refuse,
        ..rules
    }
}

/// Settles a call with this status and a Retry-After of this many seconds.
pub(crate) fn settle_with_retry_after(bed: &TestBed, options: CallRequest, status: u16, seconds: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", seconds.parse().expect("a value"));
    let mut permit = bed.caller(options).admitted();
    permit.sending();
    permit.settle(AttemptResult::response(status, &headers));
}

fn settle_once(bed: &TestBed, result: AttemptResult<'_>) {
    let mut permit = bed.caller(bed.options()).admitted();
    permit.sending();
    permit.settle(result);
}

fn blocking_state(reason: &RefusalReason) -> Option<HealthState> {
    reason.state_cause().map(|cause| cause.state)
}

fn state(bed: &TestBed) -> HealthState {
    bed.upstream.state(bed.group("default"))
}

/// Queues a hundred callers, some of them dispatched and not yet resumed.
fn hundred_waiters(bed: &TestBed) -> Vec<TestCaller> {
    let waiters: Vec<TestCaller> = (0..100).map(|_| bed.waiting(bed.options())).collect();
    bed.pass(ms(100));
    assert_eq!(waiters.iter().filter(|one| one.is_woken()).count(), 10);
    waiters
}

// Ten per 100 ms and a hundred callers; ten were dispatched when a ban arrives. None goes, all are
// refused.
#[test]
fn a_sleep_releases_none_of_a_hundred_waiting_callers() {
    let bed = TestBed::new(cautious(rules(vec![by_sending("10/100ms")])));
    let mut banned = bed.caller(bed.options()).admitted();
    banned.sending();
    bed.sends(9, bed.options());
    let mut waiters = hundred_waiters(&bed);
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "60".parse().expect("a value"));
    let verdict = banned.settle(AttemptResult::response(418, &headers));
    assert_eq!(
        (verdict.effect, state(&bed)),
        (OutcomeClass::Banned, HealthState::Sleep)
    );
    for caller in &mut waiters {
        assert!(caller.is_woken());
        let refusal = caller.refused();
        assert_eq!(blocking_state(&refusal.reason), Some(HealthState::Sleep));
        assert_eq!(refusal.retry_after, Some(secs(60)));
    }
    assert!(bed.is_at_rest());
    let late = bed.caller(bed.options()).refused();
    assert_eq!(late.retry_after, Some(secs(60)));
    let at = bed.now().saturating_add(secs(60));
    assert_eq!(bed.check(bed.options()), Decision::WaitUntil(at));
}

// With mode `wait`: a deadline of 30 s is too short for 60, and long enough for 10.
#[test]
fn a_waiting_caller_is_refused_only_if_its_deadline_precedes_the_wake_up() {
    for (seconds, all_refused) in [("60", true), ("10", false)] {
        let bed = TestBed::new(Rules {
            when_asleep: WhenAsleep::Wait,
            ..rules(vec![by_sending("10/100ms")])
        });
        let mut banned = bed.caller(bed.options()).admitted();
        banned.sending();
        bed.sends(9, bed.options());
        let mut waiters = hundred_waiters(&bed);
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", seconds.parse().expect("a value"));
        banned.settle(AttemptResult::response(418, &headers));
        if all_refused {
            let causes = waiters.iter_mut().map(|one| one.refused().reason);
            assert!(
                causes
                    .into_iter()
                    .all(|cause| blocking_state(&cause) == Some(HealthState::Sleep)
                        && matches!(cause, RefusalReason::TooLate(_)))
            );
            continue;
        }
        assert!(waiters.iter_mut().all(|one| one.poll().is_none()));
        bed.pass(ms(9_999));
        assert!(waiters.iter().all(|one| !one.is_woken()));
        bed.pass(ms(1));
        assert_eq!(state(&bed), HealthState::HalfOpen);
        let woken: Vec<usize> = (0..100).filter(|n| waiters[*n].is_woken()).collect();
        assert_eq!(woken, [0], "one probe, and the first in line");
    }
}

// A minute, to the nanosecond, without a caller.
#[test]
fn a_sleep_ends_by_its_timer_without_a_caller() {
    let bed = TestBed::new(unlimited());
    settle_with_retry_after(&bed, bed.options(), 429, "60");
    assert_eq!(state(&bed), HealthState::Sleep);
    bed.pass_until_just_before(secs(60));
    assert_eq!(state(&bed), HealthState::Sleep);
    bed.pass(INSTANT);
    assert_eq!(state(&bed), HealthState::HalfOpen);
}

fn half_open(rules: Rules) -> TestBed {
    let bed = TestBed::new(rules);
    settle_with_retry_after(&bed, bed.options(), 429, "60");
    bed.pass(secs(60));
    assert_eq!(state(&bed), HealthState::HalfOpen);
    bed
}

// A hundred callers at once: one probe is in flight, the others wait, and five successes close the
// circuit.
#[test]
fn one_probe_is_in_flight_and_five_successes_end_half_open() {
    let bed = half_open(cautious(unlimited()));
    let mut waiters: Vec<TestCaller> = (0..100).map(|_| bed.caller(bed.options())).collect();
    for n in 0..5 {
        let mut probe = waiters[n].admitted();
        assert!(waiters[n + 1..].iter_mut().all(|one| one.poll().is_none()));
        assert_eq!((state(&bed), bed.in_flight()), (HealthState::HalfOpen, 1));
        probe.sending();
        probe.settle(AttemptResult::status(200));
        bed.pass(ms(334));
    }
    assert_eq!(state(&bed), HealthState::Normal);
    bed.pass(ms(1_100));
    assert!(
        waiters[5..]
            .iter_mut()
            .all(|one| one.poll().is_some_and(|result| result.is_ok()))
    );
}

// Dropped unsent, refunded, cancelled after sending, answered 404: the next probe goes, at three a
// second.
#[test]
fn an_inconclusive_probe_returns_its_slot() {
    let bed = half_open(cautious(unlimited()));
    for way in 0..8 {
        let mut permit = bed.caller(bed.options()).admitted();
        match way % 4 {
            0 => drop(permit),
            1 => permit.refund(),
            2 => {
                permit.sending();
                drop(permit);
            }
            _ => {
                permit.sending();
                permit.settle(AttemptResult::status(404));
            }
        }
        assert_eq!((state(&bed), bed.in_flight()), (HealthState::HalfOpen, 0), "way {way}");
        bed.pass(ms(334));
    }
    let called = bed.waiting_behind(bed.options());
    drop(called);
    bed.caller(bed.options()).goes();
}

// No limit at all, and probes that return at once: the first three go, the fourth a second after
// the first. An unsent one does not count.
#[test]
fn probes_keep_their_rate_without_other_limits() {
    let bed = half_open(cautious(unlimited()));
    bed.caller(bed.options()).admitted().refund();
    for _ in 0..3 {
        let mut probe = bed.caller(bed.options()).admitted();
        probe.sending();
        probe.settle(AttemptResult::status(404));
    }
    let mut fourth = bed.waiting(bed.options());
    bed.pass(ms(999));
    assert!(!fourth.is_woken());
    bed.pass(ms(1));
    assert!(fourth.is_woken());
    fourth.goes();
}

/// Allows one probe a second, counted from sending: a late resume gets a new timestamp.
fn one_probe_a_second() -> TestBed {
    half_open(Rules {
        health: health(|settings| settings.probe_rate = Some(parsed("1/s"))),
        ..rules(vec![by_sending("100/s")])
    })
}

// Dispatched at once, resumed after 500 ms, refunded unsent: it leaves no trace in any way.
#[test]
fn a_probe_resumed_late_and_never_sent_is_not_counted() {
    for way in 0..3 {
        let bed = one_probe_a_second();
        let mut late = bed.waiting_behind(bed.options());
        bed.pass(ms(500));
        let permit = late.admitted();
        match way {
            0 => drop(permit),
            1 => permit.refund(),
            _ => {
                bed.pass(ms(100));
                drop(permit);
            }
        }
        assert!(bed.is_at_rest());
        bed.caller(bed.options()).goes();
    }
}

// Dispatched at once, resumed after 500 ms and sent after 800: the next goes a second after that.
#[test]
fn a_probe_counts_from_its_sending() {
    let bed = one_probe_a_second();
    let mut late = bed.waiting_behind(bed.options());
    bed.pass(ms(500));
    let mut probe = late.admitted();
    bed.pass(ms(300));
    probe.sending();
    probe.settle(AttemptResult::status(404));
    let mut next = bed.waiting(bed.options());
    bed.pass_until_just_before(secs(1));
    assert!(!next.is_woken());
    bed.pass(INSTANT);
    next.goes();
}

// A probe may be in flight for 15 s. One that hangs longer has failed, and blocks no caller for
// ever.
#[test]
fn a_hanging_probe_fails_at_its_timeout() {
    let bed = half_open(cautious(unlimited()));
    let mut hung = bed.caller(bed.options()).admitted();
    hung.sending();
    let mut waits = bed.waiting(bed.options());
    let estimate = waits.explain().expect("it waits");
    assert!(
        matches!(&estimate.reason, WaitReason::State(cause) if cause.state == HealthState::HalfOpen),
        "{estimate:?}"
    );
    assert_eq!(estimate.eta, None);
    bed.pass(secs(15));
    assert_eq!(state(&bed), HealthState::Sleep);
    assert_eq!(blocking_state(&waits.refused().reason), Some(HealthState::Sleep));
    bed.pass(secs(10));
    assert_eq!(state(&bed), HealthState::HalfOpen);
    bed.caller(bed.options()).goes();
    hung.settle(AttemptResult::status(200));
    assert!(bed.is_at_rest());
}

// A wait of ten seconds, and a probe that may hang for fifteen: a new caller waits, because the
// probe may return at any moment.
#[test]
fn no_caller_is_refused_because_a_probe_might_hang() {
    let bed = half_open(unlimited());
    let mut probe = bed.caller(bed.options()).admitted();
    probe.sending();
    let mut next = bed.waiting(bed.options().deadline(bed.now().saturating_add(secs(10))));
    probe.settle(AttemptResult::status(200));
    assert!(next.is_woken());
    next.goes();
}

// An event stream never ends: its first bytes are the probe's success.
#[test]
fn a_probe_whose_body_flows_has_succeeded() {
    let bed = half_open(cautious(unlimited()));
    for n in 1..=5 {
        let mut permit = bed.caller(bed.options()).admitted();
        permit.sending();
        let (_, mut tail) = permit.settle_head(AttemptResult::status(200));
        assert_eq!(state(&bed), HealthState::HalfOpen);
        tail.mark_alive();
        if n < 5 {
            tail.finished();
            bed.pass(ms(334));
        } else {
            assert_eq!((state(&bed), bed.in_flight()), (HealthState::Normal, 1));
        }
    }
}

#[test]
fn a_failed_probe_ends_in_sleep_and_refuses_all_waiters() {
    let bed = half_open(cautious(unlimited()));
    let mut probe = bed.caller(bed.options()).admitted();
    probe.sending();
    let mut waits = bed.waiting(bed.options());
    probe.settle(AttemptResult::status(500));
    assert_eq!(state(&bed), HealthState::Sleep);
    assert!(matches!(waits.refused().reason, RefusalReason::Blocked { .. }));
}

// Three throttle responses in a row: 50/s becomes 25/s and four in flight become two; a forced
// Normal restores both.
#[test]
fn throttle_halves_rates_and_concurrency() {
    let bed = TestBed::new(Rules {
        health: HealthConfig::cautious(),
        ..rules(vec![by_sending("50/s")])
    });
    (0..3).for_each(|_| settle_once(&bed, AttemptResult::status(429)));
    assert_eq!(state(&bed), HealthState::Throttle);
    let report = bed.upstream.report();
    assert_eq!(report.limits[0].limit.capacity(), 25);
    assert_eq!(report.health[0].concurrency, 2);
    let _two = [bed.options(); 2].map(|options| bed.caller(options).admitted());
    let third = bed.waiting(bed.options());
    assert_eq!(
        third.explain().map(|estimate| estimate.reason),
        Some(WaitReason::Concurrency {
            most: 2,
            rule: ConcurrencyRule::Throttle
        })
    );
    bed.upstream.force_health(None, HealthOverride::Normal);
    assert_eq!(bed.upstream.report().limits[0].limit.capacity(), 50);
    assert!(third.is_woken());
}

// Evidence lowers the limit and still counts: three throttle responses in a row throttle, though
// each began a burst.
#[test]
fn a_throttle_that_begins_a_burst_still_counts() {
    let bed = TestBed::new(Rules {
        adaptive: outflow::core::AdaptiveMode::Guard,
        health: HealthConfig::cautious(),
        ..rules(vec![by_sending("50/s")])
    });
    (0..3).for_each(|_| {
        settle_once(&bed, AttemptResult::status(429));
        bed.pass(secs(1));
    });
    assert_eq!(state(&bed), HealthState::Throttle);
}

// Groups with their own health: orders are banned, quotes go on, and the shared limit stays.
#[test]
fn a_ban_of_one_group_does_not_stop_another() {
    let bed = TestBed::new(Rules {
        groups: vec![
            Group::new("order", vec![by_sending("10/s")]),
            Group::new("quote", Vec::new()),
        ],
        health_scope: HealthScope::Group,
        ..rules(vec![by_sending("20/s")])
    });
    let (order, quote) = (
        CallRequest::new(bed.group("order")),
        CallRequest::new(bed.group("quote")),
    );
    settle_with_retry_after(&bed, order, 418, "60");
    assert_eq!(bed.caller(order).refused().retry_after, Some(secs(60)));
    bed.caller(quote).goes();
    assert_eq!(bed.upstream.state(bed.group("order")), HealthState::Sleep);
    assert_eq!(bed.upstream.state(bed.group("quote")), HealthState::Normal);
    assert_eq!(bed.upstream.report().limits[0].limit.capacity(), 20);
    bed.upstream
        .force_health(Some(bed.group("quote")), HealthOverride::Sleep);
    assert!(bed.try_acquire(quote).is_err());
    bed.upstream.release_health(Some(bed.group("quote")));
    bed.caller(quote).goes();
}

// The server asks for two seconds: no call goes before, and then a hundred go one by one within a
// second, in their order.
#[test]
fn a_short_wait_holds_all_callers_and_releases_them_one_by_one() {
    for callers in [1_usize, 2, 10, 100, 1_000] {
        let bed = TestBed::new(unlimited());
        settle_with_retry_after(&bed, bed.options(), 429, "2");
        assert_eq!(state(&bed), HealthState::Normal, "it is a cooldown and no state");
        let mut waiters: Vec<TestCaller> = (0..callers).map(|_| bed.waiting(bed.options())).collect();
        assert_eq!(
            waiters[0].explain().map(|estimate| estimate.reason),
            Some(WaitReason::Cooldown)
        );
        bed.pass_until_just_before(secs(2));
        assert!(waiters.iter().all(|one| !one.is_woken()));
        let released = bed.now().saturating_add(INSTANT);
        let mut went = 0;
        let mut most = 0;
        while went < callers {
            let next = bed.timer.next_at().expect("a caller waits");
            bed.pass(next.since(bed.now()));
            let mut together = 0;
            while went < callers && waiters[went].is_woken() {
                waiters[went].goes();
                went += 1;
                together += 1;
            }
            most = most.max(together);
            assert!(waiters[went..].iter().all(|one| !one.is_woken()), "out of order");
        }
        let took = bed.now().since(released);
        assert!(took <= ms(1_100), "{callers} took {took:?}");
        assert!(most <= 1 + callers / 10, "{most} of {callers} at once");
    }
}

// Two and three seconds, then two again: the longest holds.
#[test]
fn waits_are_merged_by_their_maximum() {
    let bed = TestBed::new(unlimited());
    let flights = ["2", "3", "2"].map(|seconds| (bed.caller(bed.options()).admitted(), seconds));
    for (mut permit, seconds) in flights {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", seconds.parse().expect("a value"));
        permit.sending();
        permit.settle(AttemptResult::response(503, &headers));
    }
    let waits = bed.waiting(bed.options());
    bed.pass_until_just_before(secs(3));
    assert!(!waits.is_woken());
    bed.pass(ms(1_001));
    assert!(waits.is_woken());
}

// A dispatched call has not been sent when the server asks for a wait, and is not sent.
#[test]
fn a_call_dispatched_before_a_cooldown_waits_again_at_its_position() {
    let bed = TestBed::new(rules(vec![by_sending("3/s")]));
    let mut slow = bed.caller(bed.options()).admitted();
    slow.sending();
    bed.sends(2, bed.options());
    let mut waiters: Vec<TestCaller> = (0..5).map(|_| bed.waiting(bed.options())).collect();
    bed.pass(secs(1));
    assert!(waiters[..3].iter().all(TestCaller::is_woken));
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    slow.settle(AttemptResult::response(429, &headers));
    for called in [2, 0, 1] {
        assert!(waiters[called].poll().is_none(), "{called} goes before its instant");
    }
    for (place, caller) in waiters.iter().enumerate() {
        assert_eq!(caller.explain().map(|estimate| estimate.position), Some(place));
    }
    bed.pass(secs(3));
    for one in &mut waiters[..3] {
        one.goes();
    }
}

// Offline is an override without a timer: an hour, and nothing goes.
#[test]
fn an_operators_override_lets_nothing_go_for_an_hour() {
    let bed = TestBed::new(Rules {
        when_asleep: WhenAsleep::Wait,
        ..unlimited()
    });
    bed.upstream.force_health(None, HealthOverride::Sleep);
    for _ in 0..60 {
        let refusal = bed.caller(bed.options()).refused();
        assert_eq!(blocking_state(&refusal.reason), Some(HealthState::Sleep));
        assert_eq!(refusal.retry_after, None);
        bed.pass(Duration::from_mins(1));
    }
    assert_eq!(bed.check(bed.options()), Decision::WaitUntil(outflow::core::Nanos::MAX));
    bed.upstream.release_health(None);
    assert_eq!(state(&bed), HealthState::HalfOpen);
    bed.caller(bed.options()).goes();
}

// A cost above the throttled quota of two limits: it goes eventually, and both count all of it.
#[test]
fn a_cost_above_a_lowered_limit_goes_and_counts_in_full() {
    let bed = TestBed::new(rules(vec![by_sending("10/s"), by_sending("100/min")]));
    bed.upstream.force_health(None, HealthOverride::Throttle);
    let heavy = CallRequest::new(bed.group("default").with_cost(Cost::new(8)));
    bed.caller(bed.options()).goes();
    let mut waits = bed.waiting(heavy);
    bed.pass(secs(1));
    waits.goes();
    let used = bed
        .upstream
        .report()
        .limits
        .iter()
        .map(|limit| limit.usage.weight)
        .collect::<Vec<_>>();
    assert_eq!(used, [8, 9]);
    bed.upstream.force_health(None, HealthOverride::Normal);
    let left = (0..20)
        .filter(|_| {
            bed.try_acquire(bed.options()).is_ok_and(|permit| {
                std::mem::forget(permit);
                true
            })
        })
        .count();
    assert_eq!(left, 2, "of ten a second eight are used");
}

// A broken body is a failure, and eight in a row open the circuit.
#[test]
fn a_broken_body_counts_as_a_failure() {
    let bed = TestBed::new(unlimited());
    for _ in 0..8 {
        let mut permit = bed.caller(bed.options()).admitted();
        permit.sending();
        let (_, tail) = permit.settle_head(AttemptResult::status(200));
        assert_eq!(bed.in_flight(), 1);
        let verdict = tail.fail(Fault::TruncatedBody);
        assert_eq!(verdict.effect, OutcomeClass::NetworkFailed);
        assert_eq!(bed.in_flight(), 0);
    }
    bed.pass(ms(250));
    assert_eq!(state(&bed), HealthState::Sleep);
    let moved = bed.recorder.take_selected(|what| match what {
        EventKind::Moved { transition, .. } => Some(transition.to),
        _ => None,
    });
    assert_eq!(moved, [HealthState::Sleep]);
}

// A 403 is no throttle response, unless its body says so.
#[test]
fn a_body_that_names_a_limit_counts_without_headers() {
    let bed = TestBed::new(unlimited());
    let settle = |result: AttemptResult<'_>| {
        let mut permit = bed.caller(bed.options()).admitted();
        permit.sending();
        permit.settle(result).effect
    };
    assert_eq!(settle(AttemptResult::status(403)), OutcomeClass::Neutral);
    assert_eq!(
        settle(AttemptResult::status(403).with_limit_signal()),
        OutcomeClass::Banned
    );
}
