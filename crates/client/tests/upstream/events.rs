//! Events, reports and alerts.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use outflow::core::{HealthState, MeterEvent, OutcomeClass, Share};
use outflow::event::EventKind;
use outflow::{AttemptResult, Event, Group, Observer, RefusalReason, Rules, Upstream, WaitReason};

use crate::support::{CallRequest, TestBed, by_arrival, by_sending, ms, rules, secs};

fn names(bed: &TestBed) -> Vec<&'static str> {
    let name = |what: &EventKind| {
        Some(match what {
            EventKind::Waiting { .. } => "waiting",
            EventKind::Admitted { .. } => "admitted",
            EventKind::Refused { .. } => "refused",
            EventKind::Settled { .. } => "settled",
            EventKind::Refunded { .. } => "refunded",
            EventKind::Moved { .. } => "moved",
            EventKind::Cooling { .. } => "cooling",
            EventKind::Meter { .. } => "meter",
            _ => "other",
        })
    };
    bed.recorder.take_selected(name)
}

// One call from acquire to its end, then one that waits and is refunded.
#[test]
fn every_step_of_a_call_is_reported_in_order() {
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("orders", vec![by_sending("1/s")])],
        ..rules(Vec::new())
    });
    let orders = CallRequest::new(bed.group("orders"));
    let mut permit = bed.caller(orders).admitted();
    permit.sending();
    bed.pass(ms(250));
    let id = permit.id();
    permit.settle(AttemptResult::status(200));
    let reported = bed.recorder.take();
    assert!(reported.iter().all(|event| event.api == "api"));
    let settled = reported.iter().find_map(|event| match &event.what {
        EventKind::Settled {
            group,
            permit,
            effect,
            round_trip,
            ..
        } => Some((group.clone(), *permit, *effect, *round_trip)),
        _ => None,
    });
    assert_eq!(
        settled,
        Some(("orders".into(), id, OutcomeClass::Success, Some(ms(250))))
    );
    let mut waits = bed.waiting(orders);
    bed.pass(ms(750));
    let permit = waits.admitted();
    assert!(permit.id() > id);
    permit.refund();
    let refused = bed.try_acquire(orders).map(drop);
    assert!(refused.is_ok());
    assert_eq!(names(&bed), ["waiting", "admitted", "refunded", "admitted", "refunded"]);
}

#[test]
fn a_refusal_is_reported_with_its_cause_and_waiting_time() {
    let bed = TestBed::new(Rules {
        health: crate::support::health(|settings| settings.concurrency = Some(1)),
        ..rules(Vec::new())
    });
    let _held = bed.caller(bed.options()).admitted();
    let _late = bed.waiting(bed.options().deadline(bed.now().saturating_add(secs(3))));
    bed.pass(secs(3));
    let reported = bed.recorder.take_selected(|what| match what {
        EventKind::Refused { refusal, waited, .. } => Some((refusal.reason.clone(), *waited)),
        EventKind::Waiting { explanation, .. } => {
            Some((RefusalReason::Busy(explanation.reason.clone()), Duration::ZERO))
        }
        _ => None,
    });
    let why = WaitReason::Concurrency { most: 1 };
    assert_eq!(
        reported,
        [
            (RefusalReason::Busy(why.clone()), Duration::ZERO),
            (RefusalReason::TooLate(why), secs(3))
        ]
    );
}

#[test]
fn a_state_change_and_a_cooldown_are_reported_with_their_numbers() {
    let bed = TestBed::new(rules(vec![by_sending("50/s")]));
    crate::health::settle_with_retry_after(&bed, bed.options(), 429, "2");
    let reported = bed.recorder.take_selected(|what| match what {
        EventKind::Cooling { wait, vitals, .. } => Some((*wait, vitals.streak, vitals.retry_after)),
        _ => None,
    });
    assert_eq!(reported, [(secs(2), 1, Some(secs(2)))]);
    bed.pass(secs(4));
    crate::health::settle_with_retry_after(&bed, bed.options(), 429, "60");
    let reported = bed.recorder.take_selected(|what| match what {
        EventKind::Moved {
            group,
            transition,
            vitals,
        } => Some((group.clone(), transition.to, vitals.sleep)),
        _ => None,
    });
    assert_eq!(reported, [(None, HealthState::Sleep, Some(secs(60)))]);
}

// Less than half of ten is left: reported once, when the sixth is taken.
#[test]
fn a_meter_that_runs_low_is_reported_once() {
    let limit = by_sending("10/s").warning_below(Share::percent(50));
    let bed = TestBed::new(rules(vec![limit]));
    bed.sends(10, bed.options());
    let reported = bed.recorder.take_selected(|what| match what {
        EventKind::Meter {
            group: None,
            event: MeterEvent::Low { .. },
        } => Some(()),
        _ => None,
    });
    assert_eq!(reported.len(), 1);
}

// Eighty per cent for ten seconds raise the alert, and it ends when use has fallen.
#[test]
fn long_use_near_the_limit_raises_an_alert_and_its_end_is_reported() {
    let bed = TestBed::new(rules(vec![by_arrival("10/min")]));
    bed.sends(9, bed.options());
    let mut raised = Vec::new();
    for _ in 0..80 {
        bed.upstream.prune();
        raised.extend(bed.recorder.take_selected(|what| match what {
            EventKind::Usage { raised, used_ppm, .. } => Some((*raised, *used_ppm)),
            _ => None,
        }));
        if raised.len() == 1 {
            assert!(bed.upstream.report().limits[0].history.alert);
        }
        bed.pass(secs(1));
    }
    assert_eq!(raised, [(true, 900_000), (false, 0)]);
}

/// Calls the upstream on every event.
#[derive(Default)]
struct MeddlingObserver {
    upstream: OnceLock<Upstream>,
    heard: Mutex<u32>,
}

impl Observer for MeddlingObserver {
    fn observe(&self, event: &Event) {
        *self.heard.lock().expect("it does not panic") += 1;
        let Some(upstream) = self.upstream.get() else {
            return;
        };
        let target = upstream.group("default").expect("there is one");
        let _report = upstream.report();
        let _decision = upstream.check(target);
        if matches!(event.what, EventKind::Settled { .. }) {
            drop(upstream.try_acquire(target));
        }
    }
}

// The upstream emits no event under its lock.
#[test]
fn an_observer_may_call_the_upstream() {
    let bed = TestBed::new(rules(vec![by_sending("5/s")]));
    let meddling = Arc::new(MeddlingObserver::default());
    let ear: Arc<dyn Observer> = Arc::<MeddlingObserver>::clone(&meddling);
    bed.upstream.events().subscribe(ear);
    assert!(meddling.upstream.set(bed.upstream.clone()).is_ok());
    bed.sends(5, bed.options());
    let mut waits = bed.waiting(bed.options());
    bed.pass(secs(1));
    waits.goes();
    crate::health::settle_with_retry_after(&bed, bed.options(), 429, "2");
    assert!(*meddling.heard.lock().expect("it does not panic") > 10);
}

struct PanickingObserver;

impl Observer for PanickingObserver {
    fn observe(&self, _: &Event) {
        panic!("an observer that should not");
    }
}

// The panic stays in the observer: the permit is granted, and nothing stays in flight.
#[test]
fn a_panicking_observer_costs_no_permit() {
    let bed = TestBed::new(rules(vec![by_sending("5/s")]));
    bed.upstream.events().subscribe(Arc::new(PanickingObserver));
    let permit = bed.caller(bed.options()).admitted();
    permit.refund();
    assert!(bed.is_at_rest());
}

// Dispatched, revoked by a cooldown and dispatched again: the call counts as admitted once, in its
// group.
#[test]
fn admitted_and_refused_calls_are_counted_once_by_group() {
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("a", vec![by_sending("2/s")]), Group::new("b", Vec::new())],
        ..rules(Vec::new())
    });
    let (a, b) = (CallRequest::new(bed.group("a")), CallRequest::new(bed.group("b")));
    let mut slow = bed.caller(b).admitted();
    slow.sending();
    bed.sends(2, a);
    let mut called = bed.waiting(a);
    bed.pass(secs(1));
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    slow.settle(AttemptResult::response(429, &headers));
    assert!(called.poll().is_none());
    bed.pass(secs(4));
    called.goes();
    (0..2).for_each(|_| drop(bed.try_acquire(a)));
    bed.caller(a).goes();
    drop(bed.try_acquire(a));
    let report = bed.upstream.report();
    let counts: Vec<(&str, u64, u64)> = report
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.admitted, group.refused))
        .collect();
    assert_eq!(counts[..2], [("a", 6, 1), ("b", 1, 0)]);
}
