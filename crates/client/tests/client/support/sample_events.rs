//! One event of every kind, with a given text wherever an event holds text.

use std::time::Duration;

use outflow::cache::DiskState;
use outflow::core::{
    AttemptReport, Cost, Fault, HealthState, HealthTransition, LimitDrift, MeterEvent, Nanos, OutcomeClass, Rate,
    TransitionFigures, TransitionReason as Moved, WallTime,
};
use outflow::event::{
    CacheLabel, CallFinished, DriftChange, EventKind, FailureLabel, HealthGauges, StatusLabel, TaskState,
};
use outflow::{Event, Refusal, RefusalReason, ResolveError, WaitEstimate, WaitReason};
use smol_str::SmolStr;

/// 2024-05-01T10:00:00Z, in seconds since 1970.
pub(crate) const NOON: u64 = 1_714_557_600;

pub(crate) fn event(api: &str, what: EventKind) -> Event {
    Event {
        api: SmolStr::new(api),
        at: Nanos::from_secs(100),
        trace: outflow::trace::TraceId::default(),
        what,
    }
}

/// Returns every kind of event for the API `text`, in the group `text`, with the path `text`.
pub(crate) fn every(text: &str) -> Vec<Event> {
    let kinds = [permits(text), health(text), limits(text), client(text)].concat();
    kinds.into_iter().map(|what| event(text, what)).collect()
}

pub(crate) fn permits(text: &str) -> Vec<EventKind> {
    let group = SmolStr::new(text);
    vec![
        EventKind::Waiting {
            group: group.clone(),
            endpoint: Some(group.clone()),
            cost: Cost::new(3),
            explanation: WaitEstimate {
                reason: WaitReason::Turn,
                position: 4,
                eta: Some(Nanos::from_millis(101_800)),
                unanswered: None,
            },
        },
        EventKind::Admitted {
            group: group.clone(),
            endpoint: Some(group.clone()),
            permit: 7,
            cost: Cost::ONE,
            waited: Duration::from_millis(250),
        },
        EventKind::Refused {
            group: group.clone(),
            endpoint: Some(group.clone()),
            refusal: Refusal {
                reason: RefusalReason::UnknownGroup(group.clone()),
                retry_after: Some(Duration::from_millis(1_500)),
            },
            waited: Duration::ZERO,
        },
        EventKind::Refunded {
            endpoint: Some(group.clone()),
            group,
            permit: 7,
        },
    ]
}

pub(crate) fn vitals() -> HealthGauges {
    HealthGauges {
        state: HealthState::Throttle,
        streak: 3,
        error_ppm: 240_000,
        rate: 18.0,
        concurrency: 2,
        sleep: Some(Duration::from_millis(1_800)),
        retry_after: Some(Duration::from_secs(2)),
    }
}

pub(crate) fn health(text: &str) -> Vec<EventKind> {
    let group = SmolStr::new(text);
    vec![
        settled(text, AttemptReport::status(429), OutcomeClass::Throttled),
        settled(
            text,
            AttemptReport::fault(Fault::ReadTimeout),
            OutcomeClass::NetworkFailed,
        ),
        EventKind::Moved {
            group: Some(group.clone()),
            transition: HealthTransition {
                from: HealthState::Throttle,
                to: HealthState::HalfOpen,
                reason: Moved::SuccessWindowOk,
                at: Nanos::from_secs(100),
                until: None,
                figures: TransitionFigures::default(),
            },
            vitals: HealthGauges {
                state: HealthState::HalfOpen,
                sleep: None,
                retry_after: None,
                ..vitals()
            },
        },
        EventKind::Cooling {
            group: Some(group),
            until: Nanos::from_secs(102),
            wait: Duration::from_secs(2),
            vitals: vitals(),
        },
    ]
}

pub(crate) fn settled(group: &str, attempt: AttemptReport, effect: OutcomeClass) -> EventKind {
    EventKind::Settled {
        group: SmolStr::new(group),
        endpoint: Some(SmolStr::new(group)),
        permit: 7,
        attempt,
        effect,
        round_trip: Some(Duration::from_millis(40)),
        vitals: Some(vitals()),
    }
}

pub(crate) fn limits(text: &str) -> Vec<EventKind> {
    let group = Some(SmolStr::new(text));
    let (configured, evidence) = (rate(50), rate(40));
    vec![
        EventKind::Meter {
            group: group.clone(),
            limit: configured,
            event: MeterEvent::Low {
                limit: 0,
                window: Duration::from_secs(1),
                remaining: 2,
                capacity: 10,
            },
        },
        EventKind::Meter {
            group: group.clone(),
            limit: configured,
            event: MeterEvent::PacingCapped {
                limit: 0,
                window: Duration::from_mins(1),
                asked: Duration::from_secs(3),
                cap: Duration::from_millis(500),
            },
        },
        EventKind::Drifting {
            group: group.clone(),
            drift: Some(LimitDrift {
                configured,
                evidence,
                lasting: Duration::from_mins(1),
            }),
            change: DriftChange::Lowered,
        },
        EventKind::Usage {
            group: group.clone(),
            raised: true,
            used_ppm: 850_000,
        },
        EventKind::Malformed { headers: 2 },
        EventKind::Foreign { group, units: 5 },
    ]
}

pub(crate) fn client(text: &str) -> Vec<EventKind> {
    vec![
        EventKind::Retrying {
            attempt: 1,
            delay: Duration::from_millis(900),
            retry_after: None,
            reason: FailureLabel::Timeout,
        },
        EventKind::Unresolved {
            error: ResolveError::NoSuchName,
        },
        EventKind::Cache {
            lookup: CacheLabel::Stale,
        },
        EventKind::Disk {
            state: DiskState::Elsewhere,
        },
        EventKind::Finished(Box::new(finished(text))),
        EventKind::Task {
            name: "refill",
            state: TaskState::Restarting {
                restarts: 2,
                delay: Duration::from_secs(1),
            },
        },
    ]
}

pub(crate) fn finished(text: &str) -> CallFinished {
    CallFinished {
        ts: WallTime::from_unix_secs(NOON),
        group: SmolStr::new(text),
        method: "GET",
        path: SmolStr::new(text),
        status: StatusLabel::Success,
        code: Some(200),
        reason: None,
        latency: Duration::from_millis(123),
        attempts: 2,
        state: HealthState::Normal,
        waited: Duration::from_millis(45),
        retry_after: None,
        request_id: SmolStr::new(text),
    }
}

fn rate(per_second: u64) -> Rate {
    Rate::per_second(per_second).unwrap_or_else(|_| unreachable!("not zero"))
}
