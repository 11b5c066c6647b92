//! Log record and level of each event.
//!
//! `INFO` is what an operator reads on a normal day: calls, refusals, health transitions. `WARN`
//! needs attention, `ERROR` is a fault of our own; every step of every call is `DEBUG`.

mod attempt;

use outflow_core::{HealthState, MeterEvent, OutcomeClass};
use tracing::Level;

use super::record::{LogValue, Record};
use crate::cache::DiskState;
use crate::event::{CallFinished, Event, EventKind, HealthGauges, ReloadEvent, StatusLabel, TaskState};
use crate::metrics::key;
use crate::refusal::WaitReason;

/// Returns the level of an event.
pub(super) const fn level(event: &Event) -> Level {
    match &event.what {
        EventKind::Task {
            state: TaskState::Restarting { .. },
            ..
        }
        | EventKind::Reloaded(ReloadEvent::Refused { .. }) => Level::ERROR,
        EventKind::Moved { transition, .. } => match transition.to {
            HealthState::Sleep | HealthState::CacheOnly => Level::WARN,
            HealthState::Normal | HealthState::Throttle | HealthState::HalfOpen => Level::INFO,
        },
        EventKind::Finished(call) => match call.status {
            StatusLabel::ServerError | StatusLabel::Timeout | StatusLabel::Network => Level::WARN,
            _ => Level::INFO,
        },
        EventKind::Drifting { drift: Some(_), .. }
        | EventKind::Usage { raised: true, .. }
        | EventKind::Memory { raised: true, .. }
        | EventKind::Disk {
            state: DiskState::Failing | DiskState::Elsewhere | DiskState::Unusable,
        }
        | EventKind::Meter { .. }
        | EventKind::Unresolved { .. }
        | EventKind::Jobs { alarming: true, .. }
        | EventKind::Malformed { .. } => Level::WARN,
        EventKind::Settled {
            effect: OutcomeClass::Success | OutcomeClass::Neutral | OutcomeClass::Cancelled,
            ..
        }
        | EventKind::Waiting { .. }
        | EventKind::Admitted { .. }
        | EventKind::Refunded { .. }
        | EventKind::Cache { .. }
        | EventKind::Task { .. } => Level::DEBUG,
        _ => Level::INFO,
    }
}

/// Returns the log record of an event.
pub(super) fn record(event: &Event) -> Record<'_> {
    match &event.what {
        EventKind::Finished(call) => finished_call(event, call),
        EventKind::Task { name, state } => task(event, name, *state),
        EventKind::Moved { .. } => transition(event),
        EventKind::Cooling { .. } => cooling(event),
        EventKind::Settled { .. } => attempt::settled(event),
        EventKind::Broken { .. } => attempt::broken(event),
        EventKind::Waiting { .. } => waiting(event),
        EventKind::Admitted { .. } | EventKind::Refused { .. } | EventKind::Refunded { .. } => permit(event),
        EventKind::Retrying { .. } | EventKind::Unresolved { .. } | EventKind::Cache { .. } => retry_or_lookup(event),
        EventKind::Disk { state } => disk(event, *state),
        EventKind::Operated { group, action, who } => Record::new(level(event), "admin")
            .with(key::EVENT, LogValue::Word("operated"))
            .with(key::REASON, LogValue::Word(action))
            .with_subject(event, group.as_ref())
            .with(key::MESSAGE, LogValue::Text(who)),
        EventKind::Jobs { event: name, words, .. } => Record::new(level(event), "bulk")
            .with(key::EVENT, LogValue::Word(name))
            .with_subject(event, None)
            .with(key::MESSAGE, LogValue::Text(words)),
        EventKind::Reloaded(reload) => reload_result(event, *reload),
        EventKind::Meter { event: meter, .. } => meter_warning(event, meter),
        _ => limit_finding(event),
    }
}

/// Returns the record about dropped lines.
pub(super) fn dropped(count: u64) -> Record<'static> {
    Record::new(Level::WARN, "log")
        .with(key::EVENT, LogValue::Word("lines_dropped"))
        .with(key::COUNT, LogValue::Number(count))
}

fn finished_call<'a>(event: &'a Event, call: &'a CallFinished) -> Record<'a> {
    let status = call.code.map(LogValue::Code);
    let mut record = Record::new(level(event), "client")
        .with(key::EVENT, LogValue::Word("request"))
        .with_some(key::REASON, call.reason.map(|reason| LogValue::Word(reason.name())))
        .with_subject(event, Some(&call.group))
        .with(key::METHOD, LogValue::Word(call.method))
        .with(key::PATH, LogValue::Path(&call.path))
        .with(key::STATUS, status.unwrap_or(LogValue::Word(call.status.name())))
        .with(key::LATENCY, LogValue::millis(call.latency))
        .with(key::ATTEMPT, LogValue::Number(call.attempts.into()))
        .with(key::CIRCUIT, LogValue::Word(call.state.circuit().name()))
        .with(key::WAITED, LogValue::millis(call.waited))
        .with(key::REQUEST_ID, LogValue::Text(&call.request_id))
        .with_some(key::TRACE_ID, call.trace_id.as_deref().map(LogValue::Text));
    record.ts = Some(call.ts);
    record
}

fn task<'a>(event: &Event, name: &'static str, state: TaskState) -> Record<'a> {
    let record = Record::new(level(event), "tasks");
    let (word, sleep, count) = match state {
        TaskState::Running => ("task_running", None, None),
        TaskState::Ended => ("task_ended", None, None),
        TaskState::Restarting { restarts, delay } => ("task_restarting", Some(delay), Some(restarts)),
    };
    record
        .with(key::EVENT, LogValue::Word(word))
        .with_some(key::SLEEP, sleep.map(LogValue::Span))
        .with_some(key::COUNT, count.map(|count| LogValue::Number(count.into())))
        .with(key::TASK, LogValue::Word(name))
}

fn transition(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Moved {
        group,
        transition,
        vitals,
    } = &event.what
    else {
        return record;
    };
    record
        .with(key::STATE, LogValue::Word(transition.to.name()))
        .with(key::EVENT, LogValue::Word("state_transition"))
        .with(key::FROM, LogValue::Word(transition.from.name()))
        .with(key::TO, LogValue::Word(transition.to.name()))
        .with(key::REASON, LogValue::Word(transition.reason.name()))
        .with_gauges(vitals)
        .with_subject(event, group.as_ref())
}

fn cooling(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Cooling {
        group, wait, vitals, ..
    } = &event.what
    else {
        return record;
    };
    let sleep = Some(*wait);
    record
        .with(key::STATE, LogValue::Word(vitals.state.name()))
        .with(key::EVENT, LogValue::Word("cooldown"))
        .with_gauges(&HealthGauges { sleep, ..*vitals })
        .with_subject(event, group.as_ref())
}

fn waiting(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER).with(key::EVENT, LogValue::Word("waiting"));
    let EventKind::Waiting {
        group,
        cost,
        explanation,
    } = &event.what
    else {
        return record;
    };
    let wait = explanation.eta.map(|eta| LogValue::Span(eta.since(event.at)));
    let position = u64::try_from(explanation.position).unwrap_or(u64::MAX);
    record
        .with(key::REASON, LogValue::Word(wait_reason(&explanation.reason)))
        .with_some(key::SLEEP, wait)
        .with_subject(event, Some(group))
        .with(key::COST, LogValue::Number(cost.units()))
        .with(key::POSITION, LogValue::Number(position))
}

const fn wait_reason(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::Limit { .. } => "limit",
        WaitReason::Turn => "turn",
        WaitReason::Concurrency { .. } => "concurrency",
        WaitReason::Cooldown => "cooldown",
        WaitReason::State(_) => "state",
    }
}

/// Formats the result of acquiring. An unknown group's name comes from the caller and is not
/// repeated.
fn permit(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        EventKind::Admitted {
            group,
            permit,
            cost,
            waited,
        } => record
            .with(key::EVENT, LogValue::Word("admitted"))
            .with_subject(event, Some(group))
            .with(key::WAITED, LogValue::millis(*waited))
            .with(key::PERMIT, LogValue::Number(*permit))
            .with(key::COST, LogValue::Number(cost.units())),
        EventKind::Refused { group, refusal, waited } => record
            .with(key::EVENT, LogValue::Word("refused"))
            .with(key::REASON, LogValue::Word(refusal.reason.name()))
            .with_some(key::RETRY_AFTER, refusal.retry_after.map(LogValue::Span))
            .with_subject(event, Some(group))
            .with(key::WAITED, LogValue::millis(*waited)),
        EventKind::Refunded { group, permit } => record
            .with(key::EVENT, LogValue::Word("refunded"))
            .with_subject(event, Some(group))
            .with(key::PERMIT, LogValue::Number(*permit)),
        _ => record,
    }
}

fn retry_or_lookup(event: &Event) -> Record<'_> {
    match &event.what {
        EventKind::Retrying { attempt, delay, reason } => Record::new(level(event), "client")
            .with(key::EVENT, LogValue::Word("retry"))
            .with(key::REASON, LogValue::Word(reason.name()))
            .with(key::SLEEP, LogValue::Span(*delay))
            .with_subject(event, None)
            .with(key::ATTEMPT, LogValue::Number((*attempt).into())),
        EventKind::Unresolved { error } => Record::new(level(event), "client")
            .with(key::EVENT, LogValue::Word("unresolved"))
            .with(key::REASON, LogValue::Word(error.name()))
            .with_subject(event, None),
        EventKind::Cache { lookup } => Record::new(level(event), "cache")
            .with(key::EVENT, LogValue::Word("lookup"))
            .with(key::REASON, LogValue::Word(lookup.name()))
            .with_subject(event, None),
        _ => Record::new(level(event), "client"),
    }
}

/// Formats the state of the cache directory.
fn disk<'a>(event: &Event, state: DiskState) -> Record<'a> {
    let state = match state {
        DiskState::None => "none",
        DiskState::Used => "used",
        DiskState::Failing => "failing",
        DiskState::Elsewhere => "elsewhere",
        DiskState::Unusable => "unusable",
    };
    Record::new(level(event), "cache")
        .with(key::EVENT, LogValue::Word("disk"))
        .with(key::REASON, LogValue::Word(state))
}

/// Formats the result of a reload.
fn reload_result<'a>(event: &Event, reload: ReloadEvent) -> Record<'a> {
    let record = Record::new(level(event), "config")
        .with(key::EVENT, LogValue::Word("reload"))
        .with(key::REASON, LogValue::Word(reload.name()));
    let count = match reload {
        ReloadEvent::Applied {
            added,
            removed,
            changed,
            ..
        } => added.saturating_add(removed).saturating_add(changed),
        ReloadEvent::Refused { errors } => errors,
    };
    record.with(key::COUNT, LogValue::Number(u64::try_from(count).unwrap_or(u64::MAX)))
}

fn meter_warning<'a>(event: &'a Event, meter: &MeterEvent) -> Record<'a> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Meter { group, .. } = &event.what else {
        return record;
    };
    match meter {
        MeterEvent::Low {
            remaining, capacity, ..
        } => record
            .with(key::EVENT, LogValue::Word("limit_low"))
            .with_subject(event, group.as_ref())
            .with(key::REMAINING, LogValue::Number(*remaining))
            .with(key::CAPACITY, LogValue::Number(*capacity)),
        MeterEvent::PacingCapped { asked, .. } => record
            .with(key::EVENT, LogValue::Word("pacing_capped"))
            .with(key::SLEEP, LogValue::Span(*asked))
            .with_subject(event, group.as_ref()),
    }
}

/// Formats drift, usage and other findings about limits.
fn limit_finding(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        EventKind::Drifting { group, drift } => record
            .with(key::EVENT, LogValue::Word("drift"))
            .with_subject(event, group.as_ref())
            .with_some(key::CONFIGURED, drift.map(|d| LogValue::Rate(d.configured)))
            .with_some(key::EVIDENCE, drift.map(|d| LogValue::Rate(d.evidence))),
        EventKind::Usage {
            group,
            raised,
            used_ppm,
        } => record
            .with(
                key::EVENT,
                LogValue::Word(if *raised { "usage_high" } else { "usage_normal" }),
            )
            .with_subject(event, group.as_ref())
            .with(key::USED, LogValue::share(*used_ppm)),
        EventKind::Memory { raised, bytes } => record
            .with(
                key::EVENT,
                LogValue::Word(if *raised { "memory_high" } else { "memory_normal" }),
            )
            .with_subject(event, None)
            .with(key::COUNT, LogValue::Number(*bytes)),
        EventKind::Malformed { headers } => record
            .with(key::EVENT, LogValue::Word("malformed_headers"))
            .with_subject(event, None)
            .with(key::COUNT, LogValue::Number((*headers).into())),
        EventKind::Foreign { group, units } => record
            .with(key::EVENT, LogValue::Word("foreign_use"))
            .with_subject(event, group.as_ref())
            .with(key::COUNT, LogValue::Number(*units)),
        _ => record,
    }
}

const RATE_LIMITER: &str = "ratelimiter";
