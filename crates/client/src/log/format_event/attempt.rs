//! How an attempt ended, as a line.

use outflow_core::AttemptEnd;

use super::super::record::{LogValue, Record};
use super::{RATE_LIMITER, level};
use crate::event::{Event, EventKind};
use crate::metrics::key;

/// An attempt is named by its end: `429`, `200`, `read_timeout`.
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
    let name = LogValue::Word;
    let record = record
        .with_some(key::STATE, vitals.map(|vitals| name(vitals.state.name())))
        .with(key::EVENT, ended(attempt.ended()));
    let record = match vitals {
        Some(vitals) => record.with_vitals(vitals),
        None => record,
    };
    record
        .about(event, Some(group))
        .with_some(key::LATENCY, round_trip.map(LogValue::millis))
        .with(key::PERMIT, LogValue::Number(*permit))
}

/// A body that broke is named by its end too, and always told with the state.
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
        .with(key::EVENT, ended(attempt.ended()))
        .with_vitals(vitals)
        .about(event, Some(group))
        .with(key::PERMIT, LogValue::Number(*permit))
}

const fn ended(ended: AttemptEnd) -> LogValue<'static> {
    match ended {
        AttemptEnd::Status(code) => LogValue::Code(code),
        AttemptEnd::Cancelled => LogValue::Word("cancelled"),
        AttemptEnd::Fault(fault) => LogValue::Word(fault.name()),
    }
}
