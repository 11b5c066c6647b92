//! What is told: events, reports, alerts.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use outflow::core::{HealthState, MeterEvent, OutcomeClass, Share};
use outflow::event::EventKind;
use outflow::{AttemptResult, Event, Group, Observer, RefusalReason, Rules, Upstream, WaitReason};

use crate::support::{CallRequest, World, by_arrival, by_sending, ms, rules, secs};

fn names(world: &World) -> Vec<&'static str> {
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
    world.diary.take_selected(name)
}

// One call from asking to its end, then one that waits and gives its permit back.
#[test]
fn every_step_of_a_call_is_told_in_order() {
    let world = World::new(Rules {
        groups: vec![Group::new("orders", vec![by_sending("1/s")])],
        ..rules(Vec::new())
    });
    let orders = CallRequest::new(world.group("orders"));
    let mut permit = world.caller(orders).admitted();
    permit.sending();
    world.pass(ms(250));
    let id = permit.id();
    permit.settle(AttemptResult::status(200));
    let told = world.diary.take();
    assert!(told.iter().all(|event| event.api == "api"));
    let settled = told.iter().find_map(|event| match &event.what {
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
    let mut waits = world.waiting(orders);
    world.pass(ms(750));
    let permit = waits.admitted();
    assert!(permit.id() > id);
    permit.refund();
    let refused = world.try_acquire(orders).map(drop);
    assert!(refused.is_ok());
    assert_eq!(
        names(&world),
        ["waiting", "admitted", "refunded", "admitted", "refunded"]
    );
}

#[test]
fn a_refusal_is_told_with_its_cause_and_how_long_was_waited() {
    let world = World::new(Rules {
        health: crate::support::health(|settings| settings.concurrency = 1),
        ..rules(Vec::new())
    });
    let _held = world.caller(world.ask()).admitted();
    let _late = world.waiting(world.ask().deadline(world.now().saturating_add(secs(3))));
    world.pass(secs(3));
    let told = world.diary.take_selected(|what| match what {
        EventKind::Refused {
            refusal, waited, ..
        } => Some((refusal.cause.clone(), *waited)),
        EventKind::Waiting { explanation, .. } => {
            Some((RefusalReason::Busy(explanation.why.clone()), Duration::ZERO))
        }
        _ => None,
    });
    let why = WaitReason::Concurrency { most: 1 };
    assert_eq!(
        told,
        [
            (RefusalReason::Busy(why.clone()), Duration::ZERO),
            (RefusalReason::TooLate(why), secs(3))
        ]
    );
}

#[test]
fn a_move_and_a_cooldown_are_told_with_their_numbers() {
    let world = World::new(rules(vec![by_sending("50/s")]));
    crate::health::asks_to_wait(&world, world.ask(), 429, "2");
    let told = world.diary.take_selected(|what| match what {
        EventKind::Cooling { wait, vitals, .. } => Some((*wait, vitals.streak, vitals.retry_after)),
        _ => None,
    });
    assert_eq!(told, [(secs(2), 1, Some(secs(2)))]);
    world.pass(secs(4));
    crate::health::asks_to_wait(&world, world.ask(), 429, "60");
    let told = world.diary.take_selected(|what| match what {
        EventKind::Moved {
            group,
            transition,
            vitals,
        } => Some((group.clone(), transition.to, vitals.sleep)),
        _ => None,
    });
    assert_eq!(told, [(None, HealthState::Sleep, Some(secs(60)))]);
}

// Less than half is left of ten: told once, when the sixth is taken.
#[test]
fn a_meter_that_runs_low_is_told_once() {
    let limit = by_sending("10/s").warning_below(Share::percent(50));
    let world = World::new(rules(vec![limit]));
    world.sends(10, world.ask());
    let told = world.diary.take_selected(|what| match what {
        EventKind::Meter {
            group: None,
            event: MeterEvent::Low { .. },
        } => Some(()),
        _ => None,
    });
    assert_eq!(told.len(), 1);
}

// Eighty per cent for ten seconds raise the alert, and it is over when use has fallen.
#[test]
fn long_use_near_the_limit_raises_an_alert_and_its_end_is_told() {
    let world = World::new(rules(vec![by_arrival("10/min")]));
    world.sends(9, world.ask());
    let mut raised = Vec::new();
    for _ in 0..80 {
        world.door.prune();
        raised.extend(world.diary.take_selected(|what| match what {
            EventKind::Usage {
                raised, used_ppm, ..
            } => Some((*raised, *used_ppm)),
            _ => None,
        }));
        if raised.len() == 1 {
            assert_eq!(world.door.report().limits[0].history.alert, true);
        }
        world.pass(secs(1));
    }
    assert_eq!(raised, [(true, 900_000), (false, 0)]);
}

/// Asks the door whatever it is told.
#[derive(Default)]
struct Meddler {
    door: OnceLock<Upstream>,
    heard: Mutex<u32>,
}

impl Observer for Meddler {
    fn observe(&self, event: &Event) {
        *self.heard.lock().expect("it does not panic") += 1;
        let Some(door) = self.door.get() else { return };
        let target = door.group("default").expect("there is one");
        let _report = door.report();
        let _foretold = door.check(target);
        if matches!(event.what, EventKind::Settled { .. }) {
            drop(door.try_acquire(target));
        }
    }
}

// An observer may call the door: nothing is told under its lock.
#[test]
fn an_observer_may_call_the_door() {
    let world = World::new(rules(vec![by_sending("5/s")]));
    let meddler = Arc::new(Meddler::default());
    let ear: Arc<dyn Observer> = Arc::<Meddler>::clone(&meddler);
    world.door.events().subscribe(ear);
    assert!(meddler.door.set(world.door.clone()).is_ok());
    world.sends(5, world.ask());
    let mut waits = world.waiting(world.ask());
    world.pass(secs(1));
    waits.goes();
    crate::health::asks_to_wait(&world, world.ask(), 429, "2");
    assert!(*meddler.heard.lock().expect("it does not panic") > 10);
}

struct Broken;

impl Observer for Broken {
    fn observe(&self, _: &Event) {
        panic!("an observer that should not");
    }
}

// Its panic is its own: the permit that was to be handed over is, and nothing stays in flight.
#[test]
fn an_observer_that_panics_costs_no_permit() {
    let world = World::new(rules(vec![by_sending("5/s")]));
    world.door.events().subscribe(Arc::new(Broken));
    let permit = world.caller(world.ask()).admitted();
    permit.refund();
    assert!(world.is_at_rest());
}

// Called, called back by a cooldown and called again: it was admitted once, by its group.
#[test]
fn admitted_and_refused_are_counted_once_by_group() {
    let world = World::new(Rules {
        groups: vec![
            Group::new("a", vec![by_sending("2/s")]),
            Group::new("b", Vec::new()),
        ],
        ..rules(Vec::new())
    });
    let (a, b) = (
        CallRequest::new(world.group("a")),
        CallRequest::new(world.group("b")),
    );
    let mut slow = world.caller(b).admitted();
    slow.sending();
    world.sends(2, a);
    let mut called = world.waiting(a);
    world.pass(secs(1));
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    slow.settle(AttemptResult::response(429, &headers));
    assert!(called.poll().is_none());
    world.pass(secs(4));
    called.goes();
    (0..2).for_each(|_| drop(world.try_acquire(a)));
    world.caller(a).goes();
    drop(world.try_acquire(a));
    let report = world.door.report();
    let counts: Vec<(&str, u64, u64)> = report
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.admitted, group.refused))
        .collect();
    assert_eq!(counts[..2], [("a", 6, 1), ("b", 1, 0)]);
}
