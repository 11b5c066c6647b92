//! JSON views of jobs, tenants and actions, for the admin API and the commands.
//!
//! All numbers are integers: milliseconds, parts per million and counts. A body that is not text is base64 in
//! a field of another name.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use outflow_core::{Priority, WallTime};
use outflow_store::{
    ActionReport, AttemptError, CongestionSample, DeadLetter, JobCounts, JobOutcome, JobStatus, TenantReport,
};
use serde_json::{Value, json};

use crate::{ActionProgress, FailureReasons, HttpCall, JobDestination, SubmittedJob, TenantCongestion};

/// Returns the view of counts of jobs.
pub fn job_counts(counts: &JobCounts) -> Value {
    json!({
        "total": counts.submitted(),
        "queued": counts.queued,
        "delayed": counts.delayed,
        "non_ready": counts.non_ready,
        "in_flight": counts.in_flight,
        "done": counts.done,
        "dead": counts.dead,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "throttles": counts.throttles,
    })
}

/// Returns the view of an action.
pub fn action(report: &ActionReport, progress: &ActionProgress) -> Value {
    json!({
        "id": report.spec.id.as_str(),
        "stage": report.stage.as_str(),
        "paused": report.paused,
        "held": report.held,
        "jobs": job_counts(&report.counts),
        "over_ppm": progress.over_ppm,
        "eta_ms": progress.eta.map(millis),
        "bottlenecks": progress.bottlenecks,
        "waits": progress.waits,
        "mean_ms": report.counts.mean().map(millis),
        "opened": stamp(report.opened),
        "started": report.started.map(stamp),
        "ended": report.ended.map(stamp),
        "timeout_ms": millis(report.spec.timeout),
        "times_out": report.times_out().map(stamp),
        "keep_ms": millis(report.spec.keep),
    })
}

/// Returns the view of failures by reason.
pub fn failures(reasons: &FailureReasons) -> Value {
    let rows = reasons.sorted().into_iter();
    rows.map(|(reason, jobs)| json!({ "reason": reason, "jobs": jobs }))
        .collect()
}

/// Returns the view of a tenant with its congestion.
pub fn tenant(report: &TenantReport, state: &TenantCongestion) -> Value {
    let rule = &report.rule;
    json!({
        "tenant": report.name.as_str(),
        "paused": report.paused,
        "weight": rule.weight.as_u32(),
        "priority": priority(rule.priority),
        "rate": rule.rate.map(|rate| rate.to_string()),
        "most_in_flight": rule.in_flight,
        "jobs": job_counts(&report.counts),
        "last_backoff_ms": millis(state.last_backoff),
        "speed": state.speed,
        "congestion": state.level.name(),
        "eta_ms": state.eta.map(millis),
    })
}

/// Returns the view of a congestion sample.
pub fn snapshot(snapshot: &CongestionSample) -> Value {
    json!({
        "at": stamp(snapshot.at),
        "non_ready": snapshot.non_ready,
        "speed": snapshot.speed,
        "backoff_ms": millis(snapshot.backoff),
    })
}

/// Returns the view of a submitted job.
pub fn placed(placed: &SubmittedJob) -> Value {
    let (destination, reason, backoff) = match &placed.destination {
        JobDestination::Ready => ("ready", None, None),
        JobDestination::NonReady { reason, backoff } => ("non_ready", Some(reason), Some(*backoff)),
        JobDestination::Rejected { reason } => ("rejected", Some(reason), None),
        JobDestination::Duplicate => ("duplicate", None, None),
    };
    json!({
        "id": placed.id.as_ref().map(outflow_store::Name::as_str),
        "destination": destination,
        "reason": reason,
        "backoff_ms": backoff.map(millis),
    })
}

/// Returns the view of an outcome.
pub fn outcome(outcome: &JobOutcome) -> Value {
    let mut view = json!({
        "place": outcome.place,
        "id": outcome.id.as_str(),
        "tenant": outcome.tenant.as_str(),
        "ended": ended(outcome.ended),
        "status": outcome.status,
        "attempts": outcome.attempts,
        "throttles": outcome.throttles,
        "at": stamp(outcome.at),
    });
    let body = outcome.body.as_ref().map(body);
    if let Some(view) = view.as_object_mut() {
        view.extend(body.map(|(name, text)| (name.to_owned(), text.into())));
        let error = outcome.error.as_deref();
        view.extend(error.map(|words| ("error".to_owned(), words.into())));
    }
    view
}

/// Returns the view of a dead letter.
pub fn dead(letter: &DeadLetter) -> Value {
    let call = HttpCall::decode(letter.payload.clone()).ok();
    json!({
        "place": letter.place,
        "id": letter.id.as_str(),
        "tenant": letter.tenant.as_str(),
        "action": letter.action.as_ref().map(outflow_store::Name::as_str),
        "at": stamp(letter.at),
        "attempts": letter.attempts,
        "recoveries": letter.recoveries,
        "api": call.as_ref().map(|call| call.api.as_str()),
        "method": call.as_ref().map(|call| call.method.as_str()),
        "path": call.as_ref().map(|call| outflow::redact::path(&call.path).to_string()),
        "history": letter.history.iter().map(attempt_error).collect::<Vec<_>>(),
    })
}

fn attempt_error(error: &AttemptError) -> Value {
    json!({ "at": stamp(error.at), "words": error.message })
}

fn body(bytes: &Bytes) -> (&'static str, String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => ("body", text.to_owned()),
        Err(_) => ("body_base64", BASE64.encode(bytes)),
    }
}

/// Returns the name of a status.
pub const fn ended(ended: JobStatus) -> &'static str {
    match ended {
        JobStatus::Done => "done",
        JobStatus::Failed => "failed",
        JobStatus::Expired => "expired",
        JobStatus::Cancelled => "cancelled",
    }
}

const fn priority(priority: Priority) -> &'static str {
    match priority {
        Priority::Low => "low",
        Priority::Normal => "normal",
        Priority::High => "high",
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn stamp(at: WallTime) -> u64 {
    millis(at.as_duration())
}
