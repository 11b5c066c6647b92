//! Events, reports and alerts.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use outflow::core::{HealthState, MeterEvent, OutcomeClass, Pacing, Share};
use outflow::event::EventKind;
use outflow::{
    AttemptResult, ConcurrencyRule, Event, Group, Observer, RefusalReason, Route, Rules, Upstream, WaitReason,
};

use crate::support::{CallRequest, TestBed, by_arrival, by_sending, ms, parsed, rules, secs};

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
    let why = WaitReason::Concurrency {
        most: 1,
        rule: ConcurrencyRule::Setting,
    };
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
            limit,
            event:
                MeterEvent::Low {
                    window,
                    remaining,
                    capacity,
                    ..
                },
        } => Some((*limit, *window, *remaining, *capacity)),
        _ => None,
    });
    assert_eq!(reported, [(parsed("10/s"), secs(1), 4, 10)]);
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

/// Returns the endpoint that each event of a call names.
fn endpoints(bed: &TestBed) -> Vec<(&'static str, Option<String>)> {
    bed.recorder.take_selected(|what| {
        let (name, endpoint) = match what {
            EventKind::Waiting { endpoint, .. } => ("waiting", endpoint),
            EventKind::Admitted { endpoint, .. } => ("admitted", endpoint),
            EventKind::Refused { endpoint, .. } => ("refused", endpoint),
            EventKind::Settled { endpoint, .. } => ("settled", endpoint),
            EventKind::Broken { endpoint, .. } => ("broken", endpoint),
            EventKind::Refunded { endpoint, .. } => ("refunded", endpoint),
            _ => return None,
        };
        Some((name, endpoint.as_ref().map(ToString::to_string)))
    })
}

// Two a second: one call whose body breaks, one that is refunded, one that waits and one that is
// refused while it does. Each event has the label of its own call.
#[test]
fn every_event_of_a_call_names_its_endpoint() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    let labelled = |name: &str| CallRequest::new(bed.upstream.endpoint(bed.group("default"), name));
    let mut broken = bed.caller(labelled("export")).admitted();
    assert_eq!(broken.endpoint().as_deref(), Some("export"));
    broken.sending();
    let (_, body) = broken.settle_head(AttemptResult::status(200));
    body.fail(outflow::core::Fault::TruncatedBody);
    bed.caller(labelled("cancel")).admitted().refund();
    bed.sends(1, bed.options());
    let mut waits = bed.waiting(labelled("order"));
    assert!(bed.try_acquire(labelled("ticker")).is_err());
    bed.pass(secs(1));
    waits.goes();
    let named = |event, endpoint: &str| (event, Some(endpoint.to_owned()));
    assert_eq!(
        endpoints(&bed),
        [
            named("admitted", "export"),
            named("settled", "export"),
            named("broken", "export"),
            named("admitted", "cancel"),
            named("refunded", "cancel"),
            ("admitted", None),
            ("settled", None),
            named("waiting", "order"),
            named("refused", "ticker"),
            named("admitted", "order"),
            named("settled", "order"),
        ]
    );
}

// The pattern is the label: paths hold identifiers, patterns do not.
#[test]
fn a_routed_call_has_its_pattern_as_endpoint() {
    let route = Route {
        methods: vec![http::Method::GET],
        pattern: "/orders/*".parse().expect("a pattern"),
        group: "orders".into(),
        cost: None,
    };
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("orders", Vec::new())],
        routes: vec![route],
        ..rules(Vec::new())
    });
    let target = bed.upstream.route(&http::Method::GET, "/orders/4711");
    assert_eq!(bed.upstream.endpoint_name(target).as_deref(), Some("/orders/*"));
    let own = bed.upstream.endpoint(target, "order");
    assert_eq!(bed.upstream.endpoint_name(own).as_deref(), Some("order"));
    assert_eq!(bed.upstream.group_name(own), "orders");
    let elsewhere = bed.upstream.route(&http::Method::GET, "/about");
    assert_eq!(bed.upstream.endpoint_name(elsewhere), None);
}

// Ten a minute with soft pacing: the event names the limit as the user wrote it, and the window and
// the cap in force.
#[test]
fn capped_pacing_names_its_limit_window_and_cap() {
    let limit = by_sending("10/min").paced(Pacing::SOFT);
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("reports", vec![limit])],
        ..rules(Vec::new())
    });
    let reports = CallRequest::new(bed.group("reports"));
    bed.sends(1, reports);
    let _paced = bed.waiting(reports);
    let capped = bed.recorder.take_selected(|what| match what {
        EventKind::Meter {
            group,
            limit,
            event: MeterEvent::PacingCapped { window, asked, cap, .. },
        } => Some((group.clone(), limit.to_string(), *window, *asked > *cap, *cap)),
        _ => None,
    });
    let group = Some("reports".into());
    assert_eq!(capped, [(group, "10/min".to_owned(), secs(60), true, ms(500))]);
}

// Two of three groups are used, for seventy seconds at 3 and 1 a second: each lists its own usage and
// its own windows, of which the last sixty are known. A group without calls is listed as well.
#[test]
fn usage_and_history_of_every_group_are_listed() {
    let group = |name: &str| Group::new(name, vec![by_sending("10/s")]);
    let bed = TestBed::new(Rules {
        groups: vec![group("quotation"), group("order"), group("idle")],
        ..rules(Vec::new())
    });
    for _ in 0..70 {
        bed.sends(3, CallRequest::new(bed.group("quotation")));
        bed.sends(1, CallRequest::new(bed.group("order")));
        bed.pass(secs(1));
        bed.upstream.prune();
    }
    bed.sends(2, CallRequest::new(bed.group("order")));
    let report = bed.upstream.report();
    let listed = report.groups.iter().take(3).map(|group| {
        let limit = &group.limits[0];
        let windows = &limit.history.windows;
        (
            group.name.as_str(),
            limit.usage.weight,
            windows.len(),
            windows.last().copied(),
        )
    });
    assert_eq!(
        listed.collect::<Vec<_>>(),
        [
            ("quotation", 0, 60, Some(3)),
            ("order", 2, 60, Some(1)),
            ("idle", 0, 0, None)
        ]
    );
}
