//! Log records of attempts.

use outflow_core::AttemptEnd;

use super::super::record::{LogValue, Record};
use super::{RATE_LIMITER, level};
use crate::event::{Event, EventKind};
use crate::metrics::key;

/// Formats a settled attempt, named by its end: `429`, `200`, `read_timeout`.
pub(super) fn settled(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Settled {
        group,
        permit,
        attempt,
        round_trip,
        vitals,
        ..
    } = &event.what
    else {
        return record;
    };
    let word = LogValue::Word;
    let record = record
        .with_some(key::STATE, vitals.map(|vitals| word(vitals.state.name())))
        .with(key::EVENT, end_value(attempt.ended()));
    let record = match vitals {
        Some(vitals) => record.with_gauges(vitals),
        None => record,
    };
    record
        .with_subject(event, Some(group))
        .with_some(key::LATENCY, round_trip.map(LogValue::millis))
        .with(key::PERMIT, LogValue::Number(*permit))
}

/// Formats a truncated body, named by its end and always with the health gauges.
pub(super) fn broken(event: &Event) -> Record<'_> {
    let record = Record::new(level(event), RATE_LIMITER);
    let EventKind::Broken {
        group,
        permit,
        attempt,
        vitals,
        ..
    } = &event.what
    else {
        return record;
    };
    record
        .with(key::STATE, LogValue::Word(vitals.state.name()))
        .with(key::EVENT, end_value(attempt.ended()))
        .with_gauges(vitals)
        .with_subject(event, Some(group))
        .with(key::PERMIT, LogValue::Number(*permit))
}

const fn end_value(end: AttemptEnd) -> LogValue<'static> {
    match end {
        AttemptEnd::Status(code) => LogValue::Code(code),
        AttemptEnd::Cancelled => LogValue::Word("cancelled"),
        AttemptEnd::Fault(fault) => LogValue::Word(fault.name()),
    }
}
