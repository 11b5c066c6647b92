//! Events as JSON, for the live stream.
//!
//! Names are those of the log, so that a live event can be found there; times are whole milliseconds. Of a URL
//! only the path is included. It is redacted once more, because it goes to a browser.

use outflow::core::{AttemptEnd, MeterEvent};
use outflow::event::{Event, EventKind};
use outflow::{WaitEstimate, redact};
use serde_json::{Value, json};

use super::labels;
use super::millis::{millis, millis_up};

/// Returns the name of an event and its JSON object.
pub(crate) fn to_json(event: &Event) -> (&'static str, Value) {
    let parts = [
        call_json,
        admission_json,
        settlement_json,
        health_json,
        limit_json,
        program_json,
    ];
    let found = parts.iter().find_map(|part| part(event));
    let (name, mut facts) = found.unwrap_or_else(|| ("other", json!({})));
    if let Some(facts) = facts.as_object_mut() {
        facts.insert("api".to_owned(), event.api.as_str().into());
    }
    (name, facts)
}

/// Name of an event, and its facts.
type NamedFacts = (&'static str, Value);

fn call_json(event: &Event) -> Option<NamedFacts> {
    let EventKind::Finished(call) = &event.what else {
        return None;
    };
    let facts = json!({
        "group": call.group,
        "method": call.method,
        "path": redact::path(&call.path),
        "status": call.status.name(),
        "code": call.code,
        "reason": call.reason.map(outflow::event::FailureLabel::name),
        "latency_ms": millis(call.latency),
        "waited_ms": millis(call.waited),
        "attempts": call.attempts,
        "state": call.state.name(),
        "request_id": call.request_id,
    });
    Some(("request", facts))
}

fn admission_json(event: &Event) -> Option<NamedFacts> {
    Some(match &event.what {
        EventKind::Waiting {
            group,
            endpoint,
            cost,
            explanation,
        } => ("waiting", {
            let WaitEstimate {
                reason, position, eta, ..
            } = explanation;
            let eta = eta.map(|eta| millis_up(eta.since(event.at)));
            json!({ "group": group, "endpoint": endpoint, "cost": cost.units(),
                    "why": reason.name(), "position": position, "eta_ms": eta })
        }),
        EventKind::Admitted {
            group,
            endpoint,
            permit,
            cost,
            waited,
        } => (
            "admitted",
            json!({ "group": group, "endpoint": endpoint, "permit": permit, "cost": cost.units(),
                    "waited_ms": millis(*waited) }),
        ),
        EventKind::Refused {
            group,
            endpoint,
            refusal,
            waited,
        } => (
            "refused",
            json!({ "group": group, "endpoint": endpoint, "cause": refusal.reason.name(),
                    "why": refusal.reason.to_string(),
                    "retry_after_ms": refusal.retry_after.map(millis_up),
                    "waited_ms": millis(*waited) }),
        ),
        _ => return None,
    })
}

fn settlement_json(event: &Event) -> Option<NamedFacts> {
    Some(match &event.what {
        EventKind::Settled {
            group,
            endpoint,
            permit,
            attempt,
            effect,
            round_trip,
            ..
        } => (
            "settled",
            json!({ "group": group, "endpoint": endpoint, "permit": permit, "code": code(attempt.ended()),
                    "ended": labels::attempt_end(attempt.ended()), "effect": labels::outcome_class(*effect),
                    "round_trip_ms": round_trip.map(millis) }),
        ),
        EventKind::Broken {
            group,
            endpoint,
            permit,
            attempt,
            effect,
            ..
        } => (
            "broken",
            json!({ "group": group, "endpoint": endpoint, "permit": permit, "ended": labels::attempt_end(attempt.ended()),
                    "effect": labels::outcome_class(*effect) }),
        ),
        EventKind::Refunded {
            group,
            endpoint,
            permit,
        } => (
            "refunded",
            json!({ "group": group, "endpoint": endpoint, "permit": permit }),
        ),
        _ => return None,
    })
}

const fn code(ended: AttemptEnd) -> Option<u16> {
    match ended {
        AttemptEnd::Status(code) => Some(code),
        AttemptEnd::Fault(_) | AttemptEnd::Cancelled => None,
    }
}

fn health_json(event: &Event) -> Option<NamedFacts> {
    Some(match &event.what {
        EventKind::Moved {
            group,
            transition,
            vitals,
        } => (
            "state_transition",
            json!({ "group": group, "from": transition.from.name(), "to": transition.to.name(),
                    "reason": transition.reason.name(), "error_ppm": vitals.error_ppm,
                    "until_ms": transition.until.map(|until| millis_up(until.since(event.at))) }),
        ),
        EventKind::Cooling {
            group, wait, vitals, ..
        } => (
            "cooldown",
            json!({ "group": group, "wait_ms": millis_up(*wait), "state": vitals.state.name() }),
        ),
        _ => return None,
    })
}

fn limit_json(event: &Event) -> Option<NamedFacts> {
    Some(match &event.what {
        EventKind::Meter { .. } => return meter_json(event),
        EventKind::Drifting { group, drift, .. } => (
            "drift",
            json!({ "group": group,
                    "configured": drift.map(|drift| drift.configured.to_string()),
                    "evidence": drift.map(|drift| drift.evidence.to_string()) }),
        ),
        EventKind::Usage {
            group,
            raised,
            used_ppm,
        } => (
            if *raised { "usage_high" } else { "usage_normal" },
            json!({ "group": group, "used_ppm": used_ppm }),
        ),
        EventKind::Memory { raised, bytes } => (
            if *raised { "memory_high" } else { "memory_normal" },
            json!({ "bytes": bytes }),
        ),
        EventKind::Malformed { headers } => ("malformed_headers", json!({ "count": headers })),
        EventKind::Jobs { event, words, .. } => (*event, json!({ "words": words })),
        EventKind::Foreign { group, units } => ("foreign_use", json!({ "group": group, "units": units })),
        _ => return None,
    })
}

fn meter_json(event: &Event) -> Option<NamedFacts> {
    let EventKind::Meter {
        group,
        limit,
        event: meter,
    } = &event.what
    else {
        return None;
    };
    Some(match meter {
        MeterEvent::Low {
            window,
            remaining,
            capacity,
            ..
        } => (
            "limit_low",
            json!({ "group": group, "limit": limit.to_string(), "window_ms": millis(*window),
                    "remaining": remaining, "capacity": capacity }),
        ),
        MeterEvent::PacingCapped { window, asked, cap, .. } => (
            "pacing_capped",
            json!({ "group": group, "limit": limit.to_string(), "window_ms": millis(*window),
                    "asked_ms": millis_up(*asked), "cap_ms": millis_up(*cap) }),
        ),
    })
}

fn program_json(event: &Event) -> Option<NamedFacts> {
    Some(match &event.what {
        EventKind::Retrying {
            attempt,
            delay,
            retry_after,
            reason,
        } => (
            "retry",
            json!({ "attempt": attempt, "delay_ms": millis_up(*delay),
                    "retry_after_ms": retry_after.map(millis_up), "reason": reason.name() }),
        ),
        EventKind::Cache { lookup } => ("cache", json!({ "lookup": lookup.name() })),
        EventKind::Reloaded(reload) => ("reload", json!({ "outcome": reload.name() })),
        EventKind::Disk { state } => ("disk", json!({ "state": labels::disk_state(*state) })),
        EventKind::Ledger { reason } => ("ledger", json!({ "reason": reason })),
        EventKind::Operated { group, action, who } => {
            ("operated", json!({ "group": group, "action": action, "who": who }))
        }
        EventKind::Task { name, state } => ("task", json!({ "task": name, "state": labels::task_state(*state) })),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outflow::core::{Cost, Nanos, Rate};

    use super::*;

    fn json_of(what: EventKind) -> (&'static str, Value) {
        to_json(&Event {
            api: "upbit".into(),
            at: Nanos::ZERO,
            trace: outflow::trace::TraceId::default(),
            what,
        })
    }

    fn meter_json_of(event: MeterEvent) -> (&'static str, Value) {
        json_of(EventKind::Meter {
            group: Some("order".into()),
            limit: "100/min".parse::<Rate>().expect("a rate"),
            event,
        })
    }

    // A limit of 100 a minute of which health leaves 50.
    #[test]
    fn limit_warnings_name_limit_window_and_cap() {
        let window = Duration::from_mins(1);
        let low = meter_json_of(MeterEvent::Low {
            limit: 0,
            window,
            remaining: 4,
            capacity: 50,
        });
        let facts = json!({ "api": "upbit", "group": "order", "limit": "100/min", "window_ms": 60_000,
                            "remaining": 4, "capacity": 50 });
        assert_eq!(low, ("limit_low", facts));
        let capped = meter_json_of(MeterEvent::PacingCapped {
            limit: 0,
            window,
            asked: Duration::from_micros(6_666_666),
            cap: Duration::from_millis(500),
        });
        let facts = json!({ "api": "upbit", "group": "order", "limit": "100/min", "window_ms": 60_000,
                            "asked_ms": 6_667, "cap_ms": 500 });
        assert_eq!(capped, ("pacing_capped", facts));
    }

    #[test]
    fn an_admission_names_its_endpoint() {
        let (name, facts) = json_of(EventKind::Admitted {
            group: "order".into(),
            endpoint: Some("place".into()),
            permit: 7,
            cost: Cost::new(5),
            waited: Duration::from_millis(20),
        });
        let expected = json!({ "api": "upbit", "group": "order", "endpoint": "place", "permit": 7, "cost": 5,
                               "waited_ms": 20 });
        assert_eq!((name, facts), ("admitted", expected));
    }
}
