//! What each event says in a log, and how important it is.
//!
//! `INFO` is what an operator wants to read of a normal day: calls, refusals, changes of state. What
//! needs a look is `WARN`, what is broken in ourselves `ERROR`; every step of every call is `DEBUG`.

mod attempt;

use outflow_core::{Effect, MeterEvent, State};
use tracing::Level;

use super::record::{Record, Value};
use crate::cache::DiskState;
use crate::event::{Event, Finished, Reload, Status, TaskState, Vitals, What};
use crate::metrics::key;
use crate::refusal::Why;

/// How important an event is.
pub(super) const fn level(event: &Event) -> Level {
    match &event.what {
        What::Task {
            state: TaskState::Restarting { .. },
            ..
        }
        | What::Reloaded(Reload::Refused { .. }) => Level::ERROR,
        What::Moved { transition, .. } => match transition.to {
            State::Sleep | State::CacheOnly => Level::WARN,
            State::Normal | State::Throttle | State::HalfOpen => Level::INFO,
        },
        What::Finished(call) => match call.status {
            Status::ServerError | Status::Timeout | Status::Network => Level::WARN,
            _ => Level::INFO,
        },
        What::Drifting { drift: Some(_), .. }
        | What::Usage { raised: true, .. }
        | What::Memory { raised: true, .. }
        | What::Disk {
            state: DiskState::Failing | DiskState::Elsewhere | DiskState::Unusable,
        }
        | What::Meter { .. }
        | What::Unresolved { .. }
        | What::Jobs { alarming: true, .. }
        | What::Malformed { .. } => Level::WARN,
        What::Settled {
            effect: Effect::Success | Effect::Neutral | Effect::Cancelled,
            ..
        }
        | What::Waiting { .. }
        | What::Admitted { .. }
        | What::Refunded { .. }
        | What::Cache { .. }
        | What::Task { .. } => Level::DEBUG,
        _ => Level::INFO,
    }
}

/// What an event says.
pub(super) fn record(event: &Event) -> Record<'_> {
    match &event.what {
        What::Finished(call) => request(event, call),
        What::Task { name, state } => task(event, name, *state),
        What::Moved { .. } => moved(event),
        What::Cooling { .. } => cooling(event),
        What::Settled { .. } => attempt::settled(event),
        What::Broken { .. } => attempt::broken(event),
        What::Waiting { .. } => waiting(event),
        What::Admitted { .. } | What::Refused { .. } | What::Refunded { .. } => passed(event),
        What::Retrying { .. } | What::Unresolved { .. } | What::Cache { .. } => repeated(event),
        What::Disk { state } => disk(event, *state),
        What::Operated { group, action, who } => Record::new(level(event), "admin")
            .with(key::EVENT, Value::Word("operated"))
            .with(key::REASON, Value::Word(action))
            .about(event, group.as_ref())
            .with(key::MESSAGE, Value::Text(who)),
        What::Jobs {
            event: name, words, ..
        } => Record::new(level(event), "bulk")
            .with(key::EVENT, Value::Word(name))
            .about(event, None)
            .with(key::MESSAGE, Value::Text(words)),
        What::Reloaded(reload) => reloaded(event, *reload),
        What::Meter { event: meter, .. } => warned(event, meter),
        _ => learned(event),
    }
}

/// The line that tells of lines that were not written.
pub(super) fn dropped(count: u64) -> Record<'static> {
    Record::new(Level::WARN, "log")
        .with(key::EVENT, Value::Word("lines_dropped"))
        .with(key::COUNT, Value::Number(count))
}

fn request<'a>(event: &'a Event, call: &'a Finished) -> Record<'a> {
    let status = call.code.map(Value::Code);
    let mut record = Record::new(level(event), "client")
        .with(key::EVENT, Value::Word("request"))
        .with_some(key::REASON, call.reason.map(|why| Value::Word(why.name())))
        .about(event, Some(&call.group))
        .with(key::METHOD, Value::Word(call.method))
        .with(key::PATH, Value::Path(&call.path))
        .with(
            key::STATUS,
            status.unwrap_or(Value::Word(call.status.name())),
        )
        .with(key::LATENCY, Value::millis(call.latency))
        .with(key::ATTEMPT, Value::Number(call.attempts.into()))
        .with(key::CIRCUIT, Value::Word(call.state.circuit().name()))
        .with(key::WAITED, Value::millis(call.waited))
        .with(key::REQUEST_ID, Value::Text(&call.request_id))
        .with_some(key::TRACE_ID, call.trace_id.as_deref().map(Value::Text));
    record.ts = Some(call.ts);
    record
}

fn task<'a>(event: &Event, name: &'static str, state: TaskState) -> Record<'a> {
    let record = Record::new(level(event), "tasks");
    let (word, sleep, count) = match state {
        TaskState::Running => ("task_running", None, None),
        TaskState::Ended => ("task_ended", None, None),
        TaskState::Restarting { restarts, delay } => {
            ("task_restarting", Some(delay), Some(restarts))
        }
    };
    record
        .with(key::EVENT, Value::Word(word))
        .with_some(key::SLEEP, sleep.map(Value::Span))
        .with_some(key::COUNT, count.map(|count| Value::Number(count.into())))
        .with(key::TASK, Value::Word(name))
}

fn moved(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let What::Moved {
        group,
        transition,
        vitals,
    } = &event.what
    else {
        return record;
    };
    record
        .with(key::STATE, Value::Word(transition.to.name()))
        .with(key::EVENT, Value::Word("state_transition"))
        .with(key::FROM, Value::Word(transition.from.name()))
        .with(key::TO, Value::Word(transition.to.name()))
        .with(key::REASON, Value::Word(transition.reason.name()))
        .with_vitals(vitals)
        .about(event, group.as_ref())
}

fn cooling(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let What::Cooling {
        group,
        wait,
        vitals,
        ..
    } = &event.what
    else {
        return record;
    };
    let sleep = Some(*wait);
    record
        .with(key::STATE, Value::Word(vitals.state.name()))
        .with(key::EVENT, Value::Word("cooldown"))
        .with_vitals(&Vitals { sleep, ..*vitals })
        .about(event, group.as_ref())
}

fn waiting(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER).with(key::EVENT, Value::Word("waiting"));
    let What::Waiting {
        group,
        cost,
        explanation,
    } = &event.what
    else {
        return record;
    };
    let wait = explanation.eta.map(|eta| Value::Span(eta.since(event.at)));
    let position = u64::try_from(explanation.position).unwrap_or(u64::MAX);
    record
        .with(key::REASON, Value::Word(why(&explanation.why)))
        .with_some(key::SLEEP, wait)
        .about(event, Some(group))
        .with(key::COST, Value::Number(cost.units()))
        .with(key::POSITION, Value::Number(position))
}

const fn why(why: &Why) -> &'static str {
    match why {
        Why::Limit { .. } => "limit",
        Why::Turn => "turn",
        Why::Concurrency { .. } => "concurrency",
        Why::Cooldown => "cooldown",
        Why::State(_) => "state",
    }
}

/// What became of a call at the door. The name of a group that does not exist is the caller's word
/// and is not repeated.
fn passed(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        What::Admitted {
            group,
            permit,
            cost,
            waited,
        } => record
            .with(key::EVENT, Value::Word("admitted"))
            .about(event, Some(group))
            .with(key::WAITED, Value::millis(*waited))
            .with(key::PERMIT, Value::Number(*permit))
            .with(key::COST, Value::Number(cost.units())),
        What::Refused {
            group,
            refusal,
            waited,
        } => record
            .with(key::EVENT, Value::Word("refused"))
            .with(key::REASON, Value::Word(refusal.cause.name()))
            .with_some(key::RETRY_AFTER, refusal.retry_after.map(Value::Span))
            .about(event, Some(group))
            .with(key::WAITED, Value::millis(*waited)),
        What::Refunded { group, permit } => record
            .with(key::EVENT, Value::Word("refunded"))
            .about(event, Some(group))
            .with(key::PERMIT, Value::Number(*permit)),
        _ => record,
    }
}

fn repeated(event: &Event) -> Record<'_> {
    match &event.what {
        What::Retrying {
            attempt,
            delay,
            reason,
        } => Record::new(level(event), "client")
            .with(key::EVENT, Value::Word("retry"))
            .with(key::REASON, Value::Word(reason.name()))
            .with(key::SLEEP, Value::Span(*delay))
            .about(event, None)
            .with(key::ATTEMPT, Value::Number((*attempt).into())),
        What::Unresolved { why } => Record::new(level(event), "client")
            .with(key::EVENT, Value::Word("unresolved"))
            .with(key::REASON, Value::Word(why.name()))
            .about(event, None),
        What::Cache { lookup } => Record::new(level(event), "cache")
            .with(key::EVENT, Value::Word("lookup"))
            .with(key::REASON, Value::Word(lookup.name()))
            .about(event, None),
        _ => Record::new(level(event), "client"),
    }
}

/// Whether the cache's directory is used.
fn disk<'a>(event: &Event, state: DiskState) -> Record<'a> {
    let state = match state {
        DiskState::None => "none",
        DiskState::Used => "used",
        DiskState::Failing => "failing",
        DiskState::Elsewhere => "elsewhere",
        DiskState::Unusable => "unusable",
    };
    Record::new(level(event), "cache")
        .with(key::EVENT, Value::Word("disk"))
        .with(key::REASON, Value::Word(state))
}

/// What became of another configuration.
fn reloaded<'a>(event: &Event, reload: Reload) -> Record<'a> {
    let record = Record::new(level(event), "config")
        .with(key::EVENT, Value::Word("reload"))
        .with(key::REASON, Value::Word(reload.name()));
    let count = match reload {
        Reload::Applied {
            added,
            removed,
            changed,
            ..
        } => added.saturating_add(removed).saturating_add(changed),
        Reload::Refused { mistakes } => mistakes,
    };
    record.with(
        key::COUNT,
        Value::Number(u64::try_from(count).unwrap_or(u64::MAX)),
    )
}

fn warned<'a>(event: &'a Event, meter: &MeterEvent) -> Record<'a> {
    let record = Record::new(level(event), RATE_LIMITER);
    let What::Meter { group, .. } = &event.what else {
        return record;
    };
    match meter {
        MeterEvent::Low {
            remaining,
            capacity,
            ..
        } => record
            .with(key::EVENT, Value::Word("limit_low"))
            .about(event, group.as_ref())
            .with(key::REMAINING, Value::Number(*remaining))
            .with(key::CAPACITY, Value::Number(*capacity)),
        MeterEvent::PacingCapped { asked, .. } => record
            .with(key::EVENT, Value::Word("pacing_capped"))
            .with(key::SLEEP, Value::Span(*asked))
            .about(event, group.as_ref()),
    }
}

/// What the server and the use of a limit told.
fn learned(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        What::Drifting { group, drift } => record
            .with(key::EVENT, Value::Word("drift"))
            .about(event, group.as_ref())
            .with_some(key::CONFIGURED, drift.map(|d| Value::Rate(d.configured)))
            .with_some(key::EVIDENCE, drift.map(|d| Value::Rate(d.evidence))),
        What::Usage {
            group,
            raised,
            used_ppm,
        } => record
            .with(
                key::EVENT,
                Value::Word(if *raised {
                    "usage_high"
                } else {
                    "usage_normal"
                }),
            )
            .about(event, group.as_ref())
            .with(key::USED, Value::share(*used_ppm)),
        What::Memory { raised, bytes } => record
            .with(
                key::EVENT,
                Value::Word(if *raised {
                    "memory_high"
                } else {
                    "memory_normal"
                }),
            )
            .about(event, None)
            .with(key::COUNT, Value::Number(*bytes)),
        What::Malformed { headers } => record
            .with(key::EVENT, Value::Word("malformed_headers"))
            .about(event, None)
            .with(key::COUNT, Value::Number((*headers).into())),
        What::Foreign { group, units } => record
            .with(key::EVENT, Value::Word("foreign_use"))
            .about(event, group.as_ref())
            .with(key::COUNT, Value::Number(*units)),
        _ => record,
    }
}

const RATE_LIMITER: &str = "ratelimiter";
