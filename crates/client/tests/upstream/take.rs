//! The entry without settling: a call counts at once, and its caller does nothing more.
//!
//! The rules are those of a user who sets limits and nothing else.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow::core::{Cost, HealthState};
use outflow::event::EventKind;
use outflow::{AcquireOptions, AttemptResult, Group, Refusal, RefusalReason, Rules, Target};

use crate::support::{TestBed, by_arrival, by_sending, ms, parsed, secs};

fn limited(rate: &str) -> TestBed {
    TestBed::new(Rules::with_limit(parsed(rate)))
}

/// Takes a call and lets time pass in steps of a millisecond while it waits.
fn take(bed: &TestBed, target: Target, options: AcquireOptions) -> Result<(), Refusal> {
    let mut taking = pin!(bed.upstream.take(target, options));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = taking.as_mut().poll(&mut context) {
            return result;
        }
        bed.pass(ms(1));
    }
}

/// Returns the time that this many takes last.
fn time_of_takes(bed: &TestBed, takes: u32) -> Duration {
    let start = bed.now();
    for _ in 0..takes {
        // A minute's limit needs more patience than the default of 30 s.
        let patient = AcquireOptions::new().with_max_wait(secs(120));
        let answer = take(bed, bed.group("default"), patient);
        answer.expect("every wait is shorter");
    }
    bed.now().since(start)
}

fn count(bed: &TestBed, matches: impl Fn(&EventKind) -> bool) -> usize {
    bed.recorder.take_selected(|what| matches(what).then_some(())).len()
}

// Ten at once, and then ten in every later second: a hundred bursts, of which the first waits for
// nothing. The default accounting adds 2 ms to a window of a second and nothing to one of a minute.
#[test]
fn takes_last_as_long_as_the_limit_says() {
    for (rate, takes, shortest, longest) in [
        ("10/s", 1_000, secs(99), ms(99_300)),
        ("20/min", 60, secs(120), ms(120_010)),
    ] {
        let took = time_of_takes(&limited(rate), takes);
        assert!(took >= shortest && took <= longest, "{takes} of {rate}: {took:?}");
    }
}

// Nothing settles a take, and nothing is lost by it: no attempt in flight, no failure, no lowered
// limit, no end of an attempt in the events.
#[test]
fn a_take_leaves_nothing_in_flight_and_harms_no_health() {
    let bed = limited("10/s");
    time_of_takes(&bed, 500);
    assert!(bed.is_at_rest());
    let report = bed.upstream.report();
    let health = &report.health[0].snapshot;
    assert_eq!(
        (health.state, health.streak, health.counts.failure_ppm()),
        (HealthState::Normal, 0, 0)
    );
    assert_eq!(report.limits[0].limit.rate(), parsed("10/s"));
    assert!(report.limits[0].drift.is_none());
    assert_eq!(report.groups[0].admitted, 500);
    let ended = |what: &EventKind| {
        matches!(
            what,
            EventKind::Settled { .. } | EventKind::Refunded { .. } | EventKind::Moved { .. }
        )
    };
    assert_eq!(count(&bed, ended), 0);
}

// One call in flight at most, set here because `auto` never binds: takes hold no slot.
#[test]
fn a_take_holds_no_slot() {
    let mut rules = Rules::with_limit(parsed("10/s"));
    rules.health = crate::support::health(|settings| settings.concurrency = Some(1));
    let bed = TestBed::new(rules);
    let target = bed.group("default");
    for number in 0..10 {
        assert!(bed.upstream.try_take(target).is_ok(), "take {number}");
        assert_eq!(bed.in_flight(), 0);
    }
    let refused = bed.upstream.try_take(target).expect_err("the limit is used up");
    assert!(matches!(refused.reason, RefusalReason::Busy(_)), "{refused:?}");
}

// A group, an endpoint, a weight and a timeout: five of ten a second are used, and six more fit after
// the five have expired. A refused take costs nothing.
#[test]
fn a_take_is_yes_or_no_within_its_timeout() {
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("order", vec![by_sending("10/s")])],
        ..Rules::unlimited()
    });
    let order = bed.upstream.endpoint(bed.group("order"), "place");
    let weight = |units| order.with_cost(Cost::new(units));
    let within = |span| AcquireOptions::new().with_max_wait(span);
    assert!(take(&bed, weight(5), within(secs(30))).is_ok());
    let refused = take(&bed, weight(6), within(ms(999))).expect_err("a second is too long for it");
    assert_eq!(refused.retry_after, Some(secs(1)));
    assert!(matches!(refused.reason, RefusalReason::TooLate(_)), "{refused:?}");
    assert_eq!(bed.upstream.report().groups[0].limits[0].usage.weight, 5);
    let start = bed.now();
    assert!(take(&bed, weight(6), within(secs(1))).is_ok());
    assert_eq!(bed.now().since(start), secs(1));
    let place = |what: &EventKind| match what {
        EventKind::Admitted { endpoint, .. } | EventKind::Refused { endpoint, .. } => endpoint.clone(),
        _ => None,
    };
    assert_eq!(bed.recorder.take_selected(place), ["place", "place", "place"]);
}

// A take says nothing about the API: as a probe it neither ends an outage nor keeps a place that a
// settled probe needs.
#[test]
fn takes_during_a_recovery_leave_its_probes_free() {
    let bed = TestBed::new(Rules {
        limits: vec![by_arrival("600/min")],
        ..Rules::unlimited()
    });
    let target = bed.group("default");
    while bed.upstream.state(target) != HealthState::Sleep {
        let mut permit = bed.upstream.try_acquire(target).expect("open");
        permit.sending();
        permit.settle(AttemptResult::status(503));
        bed.pass(ms(100));
    }
    for _ in 0..20 {
        assert!(take(&bed, target, AcquireOptions::new()).is_ok());
        assert_eq!(bed.in_flight(), 0);
    }
    assert_eq!(bed.upstream.state(target), HealthState::HalfOpen);
    for _ in 0..100 {
        if let Ok(mut permit) = bed.upstream.try_acquire(target) {
            permit.sending();
            permit.settle(AttemptResult::status(200));
        }
        bed.pass(ms(100));
    }
    assert_eq!(bed.upstream.state(target), HealthState::Normal);
}
