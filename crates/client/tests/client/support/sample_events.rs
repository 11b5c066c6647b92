//! One event of every sort, with a text of the caller's choice wherever an event holds text.

use std::time::Duration;

use outflow::cache::DiskState;
use outflow::core::{
    Attempt, Cost, Drift, Effect, Fault, MeterEvent, Nanos, Rate, Reason as Moved, State,
    Transition, WallTime,
};
use outflow::event::{Finished, Lookup, Reason, Status, TaskState, Vitals, What};
use outflow::{Cause, Event, Explanation, Refusal, Unresolved, Why};
use smol_str::SmolStr;

/// 2024-05-01T10:00:00Z, in seconds since 1970.
pub(crate) const NOON: u64 = 1_714_557_600;

pub(crate) fn event(api: &str, what: What) -> Event {
    Event {
        api: SmolStr::new(api),
        at: Nanos::from_secs(100),
        what,
    }
}

/// Every sort of event at the API `text`, in the group `text`, with the path `text`.
pub(crate) fn every(text: &str) -> Vec<Event> {
    let whats = [door(text), health(text), told(text), client(text)].concat();
    whats.into_iter().map(|what| event(text, what)).collect()
}

pub(crate) fn door(text: &str) -> Vec<What> {
    let group = SmolStr::new(text);
    vec![
        What::Waiting {
            group: group.clone(),
            cost: Cost::new(3),
            explanation: Explanation {
                why: Why::Turn,
                position: 4,
                eta: Some(Nanos::from_millis(101_800)),
            },
        },
        What::Admitted {
            group: group.clone(),
            permit: 7,
            cost: Cost::ONE,
            waited: Duration::from_millis(250),
        },
        What::Refused {
            group: group.clone(),
            refusal: Refusal {
                cause: Cause::UnknownGroup(group.clone()),
                retry_after: Some(Duration::from_millis(1_500)),
            },
            waited: Duration::ZERO,
        },
        What::Refunded { group, permit: 7 },
    ]
}

pub(crate) fn vitals() -> Vitals {
    Vitals {
        state: State::Throttle,
        streak: 3,
        error_ppm: 240_000,
        rate: 18.0,
        concurrency: 2,
        sleep: Some(Duration::from_millis(1_800)),
        retry_after: Some(Duration::from_secs(2)),
    }
}

pub(crate) fn health(text: &str) -> Vec<What> {
    let group = SmolStr::new(text);
    vec![
        settled(text, Attempt::status(429), Effect::Throttled),
        settled(
            text,
            Attempt::fault(Fault::ReadTimeout),
            Effect::NetworkFailed,
        ),
        What::Moved {
            group: Some(group.clone()),
            transition: Transition {
                from: State::Throttle,
                to: State::HalfOpen,
                reason: Moved::SuccessWindowOk,
                at: Nanos::from_secs(100),
                until: None,
            },
            vitals: Vitals {
                state: State::HalfOpen,
                sleep: None,
                retry_after: None,
                ..vitals()
            },
        },
        What::Cooling {
            group: Some(group),
            until: Nanos::from_secs(102),
            wait: Duration::from_secs(2),
            vitals: vitals(),
        },
    ]
}

pub(crate) fn settled(group: &str, attempt: Attempt, effect: Effect) -> What {
    What::Settled {
        group: SmolStr::new(group),
        permit: 7,
        attempt,
        effect,
        round_trip: Some(Duration::from_millis(40)),
        vitals: Some(vitals()),
    }
}

pub(crate) fn told(text: &str) -> Vec<What> {
    let group = Some(SmolStr::new(text));
    let (configured, evidence) = (rate(50), rate(40));
    vec![
        What::Meter {
            group: group.clone(),
            event: MeterEvent::Low {
                limit: 0,
                remaining: 2,
                capacity: 10,
            },
        },
        What::Meter {
            group: group.clone(),
            event: MeterEvent::PacingCapped {
                limit: 0,
                window: Duration::from_mins(1),
                asked: Duration::from_secs(3),
                cap: Duration::from_millis(500),
            },
        },
        What::Drifting {
            group: group.clone(),
            drift: Some(Drift {
                configured,
                evidence,
                lasting: Duration::from_mins(1),
            }),
        },
        What::Usage {
            group: group.clone(),
            raised: true,
            used_ppm: 850_000,
        },
        What::Malformed { headers: 2 },
        What::Foreign { group, units: 5 },
    ]
}

pub(crate) fn client(text: &str) -> Vec<What> {
    vec![
        What::Retrying {
            attempt: 1,
            delay: Duration::from_millis(900),
            reason: Reason::Timeout,
        },
        What::Unresolved {
            why: Unresolved::NoSuchName,
        },
        What::Cache {
            lookup: Lookup::Stale,
        },
        What::Disk {
            state: DiskState::Elsewhere,
        },
        What::Finished(Box::new(finished(text))),
        What::Task {
            name: "refill",
            state: TaskState::Restarting {
                restarts: 2,
                delay: Duration::from_secs(1),
            },
        },
    ]
}

pub(crate) fn finished(text: &str) -> Finished {
    Finished {
        ts: WallTime::from_unix_secs(NOON),
        group: SmolStr::new(text),
        method: "GET",
        path: SmolStr::new(text),
        status: Status::Success,
        code: Some(200),
        reason: None,
        latency: Duration::from_millis(123),
        attempts: 2,
        state: State::Normal,
        waited: Duration::from_millis(45),
        request_id: SmolStr::new(text),
        trace_id: Some(SmolStr::new(text)),
    }
}

fn rate(per_second: u64) -> Rate {
    Rate::per_second(per_second).unwrap_or_else(|_| unreachable!("not zero"))
}
