//! Log record of each event.
//!
//! A record has the fields that an operator needs to understand the line alone. This module decides neither its level
//! nor its form.

use outflow_core::{AttemptEnd, HealthTransition, MeterEvent, Rate};
use smol_str::SmolStr;
use tracing::Level;

use super::event_level::level;
use super::record::{LogValue, Record};
use crate::cache::DiskState;
use crate::event::{CallFinished, Event, EventKind, FailureLabel, HealthGauges, ReloadEvent, TaskState};
use crate::metrics::key;
use crate::refusal::{RefusalReason, WaitReason};

/// Returns the log record of an event.
pub(super) fn record(event: &Event) -> Record<'_> {
    match &event.what {
        EventKind::Finished(call) => finished_call(event, call),
        EventKind::Task { name, state } => task(event, name, *state),
        EventKind::Moved {
            group,
            transition: moved,
            vitals,
        } => transition(event, group.as_ref(), moved, vitals),
        EventKind::Cooling {
            group, wait, vitals, ..
        } => {
            let sleep = Some(*wait);
            cooling(event, group.as_ref(), HealthGauges { sleep, ..*vitals })
        }
        EventKind::Settled { .. } | EventKind::Broken { .. } => attempt(event),
        EventKind::Waiting { .. } => waiting(event),
        EventKind::Admitted { .. } | EventKind::Refused { .. } | EventKind::Refunded { .. } => permit(event),
        EventKind::Retrying { .. } | EventKind::Unresolved { .. } | EventKind::Cache { .. } => retry_or_lookup(event),
        EventKind::Disk { state } => disk(event, *state),
        EventKind::Operated { group, action, who } => Record::new(level(event), "admin")
            .with(key::EVENT, "operated")
            .with(key::REASON, *action)
            .with_subject(event, group.as_ref())
            .with(key::MESSAGE, LogValue::Text(who)),
        EventKind::Jobs { event: name, words, .. } => Record::new(level(event), "bulk")
            .with(key::EVENT, *name)
            .with_subject(event, None)
            .with(key::MESSAGE, LogValue::Text(words)),
        EventKind::Reloaded(reload) => reload_result(event, *reload),
        EventKind::Meter {
            group,
            limit,
            event: meter,
        } => meter_warning(event, group.as_ref(), *limit, meter),
        EventKind::Ledger { reason } => Record::new(level(event), RATE_LIMITER)
            .with(key::EVENT, if reason.is_some() { "ledger_away" } else { "ledger_back" })
            .with_subject(event, None)
            .with_some(key::MESSAGE, reason.as_deref().map(LogValue::Text)),
        _ => limit_finding(event),
    }
}

/// Returns the record about dropped lines.
pub(super) fn dropped(count: u64) -> Record<'static> {
    Record::new(Level::WARN, "log")
        .with(key::EVENT, "lines_dropped")
        .with(key::COUNT, count)
}

fn finished_call<'a>(event: &'a Event, call: &'a CallFinished) -> Record<'a> {
    let status = call.code.map(LogValue::Code);
    let mut record = Record::new(level(event), "client")
        .with(key::EVENT, "request")
        .with_some(key::REASON, call.reason.map(FailureLabel::name))
        .with_or_dash(key::RETRY_AFTER, call.retry_after)
        .with_subject(event, Some(&call.group))
        .with(key::METHOD, call.method)
        .with(key::PATH, LogValue::Path(&call.path))
        .with(key::STATUS, status.unwrap_or(call.status.name().into()))
        .with(key::LATENCY, LogValue::millis(call.latency))
        .with(key::ATTEMPT, call.attempts)
        .with(key::CIRCUIT, call.state.circuit().name())
        .with(key::WAITED, LogValue::millis(call.waited))
        .with(key::REQUEST_ID, LogValue::Text(&call.request_id))
        .with_trace(event);
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
        .with(key::EVENT, word)
        .with_some(key::SLEEP, sleep)
        .with_some(key::COUNT, count)
        .with(key::TASK, name)
}

fn transition<'a>(
    event: &'a Event,
    group: Option<&'a SmolStr>,
    transition: &HealthTransition,
    vitals: &HealthGauges,
) -> Record<'a> {
    Record::new(level(event), RATE_LIMITER)
        .with(key::STATE, transition.to.name())
        .with(key::EVENT, "state_transition")
        .with(key::FROM, transition.from.name())
        .with(key::TO, transition.to.name())
        .with(key::REASON, transition.reason.name())
        .with(key::FAILURES, transition.figures.failures)
        .with_gauges(vitals)
        .with_subject(event, group)
}

fn cooling<'a>(event: &'a Event, group: Option<&'a SmolStr>, vitals: HealthGauges) -> Record<'a> {
    Record::new(level(event), RATE_LIMITER)
        .with(key::STATE, vitals.state.name())
        .with(key::EVENT, "cooldown")
        .with_gauges(&vitals)
        .with_subject(event, group)
}

/// Formats the end of an attempt, which names the record: `429`, `200`, `read_timeout`.
fn attempt(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let (group, endpoint, permit, attempt, round_trip, vitals) = match &event.what {
        EventKind::Settled {
            group,
            endpoint,
            permit,
            attempt,
            round_trip,
            vitals,
            ..
        } => (group, endpoint, permit, attempt, *round_trip, vitals.as_ref()),
        EventKind::Broken {
            group,
            endpoint,
            permit,
            attempt,
            vitals,
            ..
        } => (group, endpoint, permit, attempt, None, Some(vitals)),
        _ => return record,
    };
    let record = record
        .with_some(key::STATE, vitals.map(|vitals| vitals.state.name()))
        .with(key::EVENT, end_value(attempt.ended()));
    let record = match vitals {
        Some(vitals) => record.with_gauges(vitals),
        None => record,
    };
    record
        .with_subject(event, Some(group))
        .with_endpoint(endpoint.as_ref())
        .with_some(key::LATENCY, round_trip.map(LogValue::millis))
        .with_trace(event)
        .with(key::PERMIT, *permit)
}

fn end_value(end: AttemptEnd) -> LogValue<'static> {
    match end {
        AttemptEnd::Status(code) => LogValue::Code(code),
        AttemptEnd::Cancelled => "cancelled".into(),
        AttemptEnd::Fault(fault) => fault.name().into(),
    }
}

fn waiting(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Waiting {
        group,
        endpoint,
        cost,
        explanation,
    } = &event.what
    else {
        return record;
    };
    let position = u64::try_from(explanation.position).unwrap_or(u64::MAX);
    record
        .with(key::EVENT, "waiting")
        .with(key::REASON, explanation.reason.name())
        .with_some(key::SLEEP, explanation.eta.map(|eta| eta.since(event.at)))
        .with_subject(event, Some(group))
        .with_endpoint(endpoint.as_ref())
        .with_trace(event)
        .with(key::COST, cost.units())
        .with(key::POSITION, position)
}

/// Formats the result of acquiring. An unknown group's name comes from the caller and is not
/// repeated.
fn permit(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        EventKind::Admitted {
            group,
            endpoint,
            permit,
            cost,
            waited,
        } => record
            .with(key::EVENT, "admitted")
            .with_subject(event, Some(group))
            .with_endpoint(endpoint.as_ref())
            .with(key::WAITED, LogValue::millis(*waited))
            .with_trace(event)
            .with(key::PERMIT, *permit)
            .with(key::COST, cost.units()),
        EventKind::Refused {
            group,
            endpoint,
            refusal,
            waited,
        } => record
            .with_some(key::STATE, refusal.reason.state_cause().map(|cause| cause.state.name()))
            .with(key::EVENT, "refused")
            .with(key::REASON, refusal.reason.name())
            .with_or_dash(key::RETRY_AFTER, refusal.retry_after)
            .with_subject(event, Some(group))
            .with_endpoint(endpoint.as_ref())
            .with(key::WAITED, LogValue::millis(*waited))
            .with_trace(event)
            .with_some(key::LIMIT, refused_limit(&refusal.reason)),
        EventKind::Refunded {
            group,
            endpoint,
            permit,
        } => record
            .with(key::EVENT, "refunded")
            .with_subject(event, Some(group))
            .with_endpoint(endpoint.as_ref())
            .with_trace(event)
            .with(key::PERMIT, *permit),
        _ => record,
    }
}

/// Returns the rate in effect of the limit that refused a call.
const fn refused_limit<'a>(reason: &RefusalReason) -> Option<LogValue<'a>> {
    match (reason, reason.wait_reason()) {
        (RefusalReason::Never { limit: rate }, _) | (_, Some(WaitReason::Limit { rate, .. })) => {
            Some(LogValue::Rate(*rate))
        }
        _ => None,
    }
}

fn retry_or_lookup(event: &Event) -> Record<'_> {
    let record = match &event.what {
        EventKind::Retrying {
            attempt,
            delay,
            retry_after,
            reason,
        } => Record::new(level(event), "client")
            .with(key::EVENT, "retry")
            .with(key::REASON, reason.name())
            .with(key::SLEEP, *delay)
            .with_or_dash(key::RETRY_AFTER, *retry_after)
            .with_subject(event, None)
            .with(key::ATTEMPT, *attempt),
        EventKind::Unresolved { error } => Record::new(level(event), "client")
            .with(key::EVENT, "unresolved")
            .with(key::REASON, error.name())
            .with_subject(event, None),
        EventKind::Cache { lookup } => Record::new(level(event), "cache")
            .with(key::EVENT, "lookup")
            .with(key::REASON, lookup.name())
            .with_subject(event, None),
        _ => Record::new(level(event), "client"),
    };
    record.with_trace(event)
}

/// Formats the state of the cache directory.
fn disk<'a>(event: &Event, state: DiskState) -> Record<'a> {
    Record::new(level(event), "cache")
        .with(key::EVENT, "disk")
        .with(key::REASON, state.name())
}

/// Formats the result of a reload.
fn reload_result<'a>(event: &Event, reload: ReloadEvent) -> Record<'a> {
    let record = Record::new(level(event), "config")
        .with(key::EVENT, "reload")
        .with(key::REASON, reload.name());
    let count = match reload {
        ReloadEvent::Applied {
            added,
            removed,
            changed,
            ..
        } => added.saturating_add(removed).saturating_add(changed),
        ReloadEvent::Refused { errors } => errors,
    };
    record.with(key::COUNT, u64::try_from(count).unwrap_or(u64::MAX))
}

/// Formats a warning of a meter with its limit, as configured, and the window and cap in force.
fn meter_warning<'a>(event: &'a Event, group: Option<&'a SmolStr>, limit: Rate, meter: &MeterEvent) -> Record<'a> {
    let record = Record::new(level(event), RATE_LIMITER);
    match meter {
        MeterEvent::Low {
            window,
            remaining,
            capacity,
            ..
        } => record
            .with(key::EVENT, "limit_low")
            .with_subject(event, group)
            .with(key::LIMIT, LogValue::Rate(limit))
            .with(key::WINDOW, *window)
            .with(key::REMAINING, *remaining)
            .with(key::CAPACITY, *capacity),
        MeterEvent::PacingCapped { window, asked, cap, .. } => record
            .with(key::EVENT, "pacing_capped")
            .with(key::SLEEP, *asked)
            .with_subject(event, group)
            .with(key::LIMIT, LogValue::Rate(limit))
            .with(key::WINDOW, *window)
            .with(key::CAP, *cap),
    }
}

/// Formats drift, usage and other findings about limits.
fn limit_finding(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    match &event.what {
        EventKind::Drifting { group, drift, .. } => record
            .with(key::EVENT, "drift")
            .with_subject(event, group.as_ref())
            .with_some(key::CONFIGURED, drift.map(|d| LogValue::Rate(d.configured)))
            .with_some(key::EVIDENCE, drift.map(|d| LogValue::Rate(d.evidence))),
        EventKind::Usage {
            group,
            raised,
            used_ppm,
        } => record
            .with(key::EVENT, if *raised { "usage_high" } else { "usage_normal" })
            .with_subject(event, group.as_ref())
            .with(key::USED, LogValue::share(*used_ppm)),
        EventKind::Memory { raised, bytes } => record
            .with(key::EVENT, if *raised { "memory_high" } else { "memory_normal" })
            .with_subject(event, None)
            .with(key::COUNT, *bytes),
        EventKind::Malformed { headers } => record
            .with(key::EVENT, "malformed_headers")
            .with_subject(event, None)
            .with(key::COUNT, *headers),
        EventKind::Foreign { group, units } => record
            .with(key::EVENT, "foreign_use")
            .with_subject(event, group.as_ref())
            .with(key::COUNT, *units),
        _ => record,
    }
}

const RATE_LIMITER: &str = "ratelimiter";
