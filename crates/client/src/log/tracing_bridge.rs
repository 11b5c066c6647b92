//! Events told to `tracing`, for programs that have a subscriber already.
//!
//! The same fields under the same names as in a line, with target `outflow`: numbers as numbers, the
//! rest as text that has been redacted. A program that writes its log with [`Log`](super::Log) does
//! not need this one, and would read everything twice.

use smol_str::SmolStr;
use tracing::Level;

use super::format_event;
use super::record::{LogValue, Record};
use crate::event::{Event, Observer};
use crate::metrics::{Key, key};
use crate::redact::Scrubber;

/// Tells every event to the `tracing` subscriber of the program.
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::Narrator;
/// use outflow::redact::Scrubber;
/// use outflow::Events;
///
/// let events = Events::new();
/// events.subscribe(Arc::new(Narrator::new(Scrubber::new())));
/// ```
#[derive(Clone, Debug)]
pub struct TracingObserver {
    scrubber: Scrubber,
}

impl TracingObserver {
    /// Tells events without these secrets.
    pub const fn new(scrubber: Scrubber) -> Self {
        Self { scrubber }
    }
}

/// The level of a `tracing` event is part of its place in the code, so there is a place for each.
macro_rules! tell_at {
    ($level:expr, $narrator:expr, $event:expr) => {
        if tracing::enabled!(target: TARGET, $level) {
            let told = TracingFields::new(&format_event::record($event), &$narrator.scrubber);
            tracing::event!(
                target: TARGET,
                $level,
                { key::COMP } = told.text(key::COMP),
                { key::STATE } = told.text(key::STATE),
                { key::EVENT } = told.text(key::EVENT),
                { key::FROM } = told.text(key::FROM),
                { key::TO } = told.text(key::TO),
                { key::REASON } = told.text(key::REASON),
                { key::SLEEP } = told.text(key::SLEEP),
                { key::STREAK } = told.number(key::STREAK),
                { key::ERROR_RATE } = told.ratio(key::ERROR_RATE),
                { key::RATE } = told.text(key::RATE),
                { key::SEM } = told.number(key::SEM),
                { key::RETRY_AFTER } = told.text(key::RETRY_AFTER),
                { key::API } = told.text(key::API),
                { key::GROUP } = told.text(key::GROUP),
                { key::METHOD } = told.text(key::METHOD),
                { key::PATH } = told.text(key::PATH),
                { key::STATUS } = told.text(key::STATUS),
                { key::LATENCY } = told.number(key::LATENCY),
                { key::ATTEMPT } = told.number(key::ATTEMPT),
                { key::CIRCUIT } = told.text(key::CIRCUIT),
                { key::WAITED } = told.number(key::WAITED),
                { key::REQUEST_ID } = told.text(key::REQUEST_ID),
                { key::TRACE_ID } = told.text(key::TRACE_ID),
                { key::PERMIT } = told.number(key::PERMIT),
                { key::COST } = told.number(key::COST),
                { key::POSITION } = told.number(key::POSITION),
                { key::REMAINING } = told.number(key::REMAINING),
                { key::CAPACITY } = told.number(key::CAPACITY),
                { key::CONFIGURED } = told.text(key::CONFIGURED),
                { key::EVIDENCE } = told.text(key::EVIDENCE),
                { key::USED } = told.ratio(key::USED),
                { key::COUNT } = told.number(key::COUNT),
                { key::TASK } = told.text(key::TASK),
            );
        }
    };
}

impl Observer for TracingObserver {
    fn observe(&self, event: &Event) {
        match format_event::level(event) {
            Level::ERROR => tell_at!(Level::ERROR, self, event),
            Level::WARN => tell_at!(Level::WARN, self, event),
            Level::INFO => tell_at!(Level::INFO, self, event),
            _ => tell_at!(Level::DEBUG, self, event),
        }
    }
}

/// The fields of a record, each in the sort that `tracing` is told.
struct TracingFields(Vec<(Key, FieldSort)>);

enum FieldSort {
    Text(SmolStr),
    Number(u64),
    Ratio(f64),
}

impl TracingFields {
    fn new(record: &Record<'_>, scrubber: &Scrubber) -> Self {
        let sort = |value: &LogValue<'_>| match value {
            LogValue::Number(number) => FieldSort::Number(*number),
            LogValue::Ratio(ratio) => FieldSort::Ratio(*ratio),
            text => FieldSort::Text(text.shown(scrubber)),
        };
        let fields = record.fields.iter();
        Self(fields.map(|(key, value)| (*key, sort(value))).collect())
    }

    fn get(&self, wanted: Key) -> Option<&FieldSort> {
        let found = self.0.iter().find(|(key, _)| *key == wanted)?;
        Some(&found.1)
    }

    fn text(&self, key: Key) -> Option<&str> {
        match self.get(key)? {
            FieldSort::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, key: Key) -> Option<u64> {
        match self.get(key)? {
            FieldSort::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn ratio(&self, key: Key) -> Option<f64> {
        match self.get(key)? {
            FieldSort::Ratio(ratio) => Some(*ratio),
            _ => None,
        }
    }
}

/// By which subscribers know us.
pub(super) const TARGET: &str = "outflow";
