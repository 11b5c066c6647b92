//! An event as JSON, for whoever listens on the wire.
//!
//! The words are those of the log, so that what is seen live is found again there; times are whole
//! milliseconds. Of a request only its path is told, and that redacted once more: it goes to a browser.

use outflow::core::{Ended, MeterEvent};
use outflow::event::{Event, Finished, What};
use outflow::{Explanation, redact};
use serde_json::{Value, json};

use super::units::{millis, millis_up};
use super::words;

/// The name of an event and what it says.
pub(super) fn told(event: &Event) -> (&'static str, Value) {
    let mut told = match &event.what {
        What::Finished(call) => ("request", request(call)),
        What::Waiting { .. } | What::Admitted { .. } | What::Refused { .. } => at_the_door(event),
        What::Settled { .. } | What::Broken { .. } | What::Refunded { .. } => afterwards(event),
        What::Moved { .. } | What::Cooling { .. } => of_health(event),
        What::Meter { .. }
        | What::Drifting { .. }
        | What::Usage { .. }
        | What::Foreign { .. }
        | What::Malformed { .. }
        | What::Jobs { .. }
        | What::Memory { .. } => of_limits(event),
        _ => of_the_house(event),
    };
    if let Some(facts) = told.1.as_object_mut() {
        facts.insert("api".to_owned(), event.api.as_str().into());
    }
    told
}

fn request(call: &Finished) -> Value {
    json!({
        "group": call.group,
        "method": call.method,
        "path": redact::path(&call.path),
        "status": call.status.name(),
        "code": call.code,
        "reason": call.reason.map(outflow::event::Reason::name),
        "latency_ms": millis(call.latency),
        "waited_ms": millis(call.waited),
        "attempts": call.attempts,
        "state": call.state.name(),
        "request_id": call.request_id,
    })
}

fn at_the_door(event: &Event) -> (&'static str, Value) {
    match &event.what {
        What::Waiting {
            group,
            cost,
            explanation,
        } => ("waiting", {
            let Explanation {
                why, position, eta, ..
            } = explanation;
            let eta = eta.map(|eta| millis_up(eta.since(event.at)));
            json!({ "group": group, "cost": cost.units(), "why": words::why(why),
                    "position": position, "eta_ms": eta })
        }),
        What::Admitted {
            group,
            permit,
            cost,
            waited,
        } => (
            "admitted",
            json!({ "group": group, "permit": permit, "cost": cost.units(),
                    "waited_ms": millis(*waited) }),
        ),
        What::Refused {
            group,
            refusal,
            waited,
        } => (
            "refused",
            json!({ "group": group, "cause": refusal.cause.name(),
                    "retry_after_ms": refusal.retry_after.map(millis_up),
                    "waited_ms": millis(*waited) }),
        ),
        _ => ("other", json!({})),
    }
}

fn afterwards(event: &Event) -> (&'static str, Value) {
    match &event.what {
        What::Settled {
            group,
            permit,
            attempt,
            effect,
            round_trip,
            ..
        } => (
            "settled",
            json!({ "group": group, "permit": permit, "code": code(attempt.ended()),
                    "ended": words::ended(attempt.ended()), "effect": words::effect(*effect),
                    "round_trip_ms": round_trip.map(millis) }),
        ),
        What::Broken {
            group,
            permit,
            attempt,
            effect,
            ..
        } => (
            "broken",
            json!({ "group": group, "permit": permit, "ended": words::ended(attempt.ended()),
                    "effect": words::effect(*effect) }),
        ),
        What::Refunded { group, permit } => {
            ("refunded", json!({ "group": group, "permit": permit }))
        }
        _ => ("other", json!({})),
    }
}

const fn code(ended: Ended) -> Option<u16> {
    match ended {
        Ended::Status(code) => Some(code),
        Ended::Fault(_) | Ended::Cancelled => None,
    }
}

fn of_health(event: &Event) -> (&'static str, Value) {
    match &event.what {
        What::Moved {
            group,
            transition,
            vitals,
        } => (
            "state_transition",
            json!({ "group": group, "from": transition.from.name(), "to": transition.to.name(),
                    "reason": transition.reason.name(), "error_ppm": vitals.error_ppm,
                    "until_ms": transition.until.map(|until| millis_up(until.since(event.at))) }),
        ),
        What::Cooling {
            group,
            wait,
            vitals,
            ..
        } => (
            "cooldown",
            json!({ "group": group, "wait_ms": millis_up(*wait), "state": vitals.state.name() }),
        ),
        _ => ("other", json!({})),
    }
}

fn of_limits(event: &Event) -> (&'static str, Value) {
    match &event.what {
        What::Meter {
            group,
            event: meter,
        } => match meter {
            MeterEvent::Low {
                remaining,
                capacity,
                ..
            } => (
                "limit_low",
                json!({ "group": group, "remaining": remaining, "capacity": capacity }),
            ),
            MeterEvent::PacingCapped { asked, .. } => (
                "pacing_capped",
                json!({ "group": group, "asked_ms": millis_up(*asked) }),
            ),
        },
        What::Drifting { group, drift } => (
            "drift",
            json!({ "group": group,
                    "configured": drift.map(|drift| drift.configured.to_string()),
                    "evidence": drift.map(|drift| drift.evidence.to_string()) }),
        ),
        What::Usage {
            group,
            raised,
            used_ppm,
        } => (
            if *raised {
                "usage_high"
            } else {
                "usage_normal"
            },
            json!({ "group": group, "used_ppm": used_ppm }),
        ),
        What::Memory { raised, bytes } => (
            if *raised {
                "memory_high"
            } else {
                "memory_normal"
            },
            json!({ "bytes": bytes }),
        ),
        What::Malformed { headers } => ("malformed_headers", json!({ "count": headers })),
        What::Jobs { event, words, .. } => (*event, json!({ "words": words })),
        What::Foreign { group, units } => {
            ("foreign_use", json!({ "group": group, "units": units }))
        }
        _ => ("other", json!({})),
    }
}

fn of_the_house(event: &Event) -> (&'static str, Value) {
    match &event.what {
        What::Retrying {
            attempt,
            delay,
            reason,
        } => (
            "retry",
            json!({ "attempt": attempt, "delay_ms": millis_up(*delay), "reason": reason.name() }),
        ),
        What::Cache { lookup } => ("cache", json!({ "lookup": lookup.name() })),
        What::Reloaded(reload) => ("reload", json!({ "outcome": reload.name() })),
        What::Disk { state } => ("disk", json!({ "state": words::disk(*state) })),
        What::Operated { group, action, who } => (
            "operated",
            json!({ "group": group, "action": action, "who": who }),
        ),
        What::Task { name, state } => (
            "task",
            json!({ "task": name, "state": words::task(*state) }),
        ),
        _ => ("other", json!({})),
    }
}
