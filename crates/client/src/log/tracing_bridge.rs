//! Events as `tracing` events, for programs with a subscriber.
//!
//! The fields and names of a log line with target `outflow`: numbers as numbers, the rest as
//! redacted text. A program that uses [`Log`](super::Log) does not need this and would log
//! everything twice.

use smol_str::SmolStr;
use tracing::Level;

use super::format_event;
use super::record::{LogValue, Record};
use crate::event::{Event, Observer};
use crate::metrics::{Key, key};
use crate::redact::Scrubber;

/// Observer that forwards every event to `tracing`.
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::TracingObserver;
/// use outflow::redact::Scrubber;
/// use outflow::Events;
///
/// let events = Events::new();
/// events.subscribe(Arc::new(TracingObserver::new(Scrubber::new())));
/// ```
#[derive(Clone, Debug)]
pub struct TracingObserver {
    scrubber: Scrubber,
}

impl TracingObserver {
    /// Returns an observer that redacts these secrets.
    pub const fn new(scrubber: Scrubber) -> Self {
        Self { scrubber }
    }
}

/// The level of a `tracing` event is fixed at its call site, so each level has one.
macro_rules! emit_at {
    ($level:expr, $observer:expr, $event:expr) => {
        if tracing::enabled!(target: TARGET, $level) {
            let fields = TracingFields::new(&format_event::record($event), &$observer.scrubber);
            tracing::event!(
                target: TARGET,
                $level,
                { key::COMP } = fields.text(key::COMP),
                { key::STATE } = fields.text(key::STATE),
                { key::EVENT } = fields.text(key::EVENT),
                { key::FROM } = fields.text(key::FROM),
                { key::TO } = fields.text(key::TO),
                { key::REASON } = fields.text(key::REASON),
                { key::SLEEP } = fields.text(key::SLEEP),
                { key::STREAK } = fields.number(key::STREAK),
                { key::ERROR_RATE } = fields.ratio(key::ERROR_RATE),
                { key::RATE } = fields.text(key::RATE),
                { key::SEM } = fields.number(key::SEM),
                { key::RETRY_AFTER } = fields.text(key::RETRY_AFTER),
                { key::API } = fields.text(key::API),
                { key::GROUP } = fields.text(key::GROUP),
                { key::METHOD } = fields.text(key::METHOD),
                { key::PATH } = fields.text(key::PATH),
                { key::STATUS } = fields.text(key::STATUS),
                { key::LATENCY } = fields.number(key::LATENCY),
                { key::ATTEMPT } = fields.number(key::ATTEMPT),
                { key::CIRCUIT } = fields.text(key::CIRCUIT),
                { key::WAITED } = fields.number(key::WAITED),
                { key::REQUEST_ID } = fields.text(key::REQUEST_ID),
                { key::TRACE_ID } = fields.text(key::TRACE_ID),
                { key::PERMIT } = fields.number(key::PERMIT),
                { key::COST } = fields.number(key::COST),
                { key::POSITION } = fields.number(key::POSITION),
                { key::REMAINING } = fields.number(key::REMAINING),
                { key::CAPACITY } = fields.number(key::CAPACITY),
                { key::CONFIGURED } = fields.text(key::CONFIGURED),
                { key::EVIDENCE } = fields.text(key::EVIDENCE),
                { key::USED } = fields.ratio(key::USED),
                { key::COUNT } = fields.number(key::COUNT),
                { key::TASK } = fields.text(key::TASK),
            );
        }
    };
}

impl Observer for TracingObserver {
    fn observe(&self, event: &Event) {
        match format_event::level(event) {
            Level::ERROR => emit_at!(Level::ERROR, self, event),
            Level::WARN => emit_at!(Level::WARN, self, event),
            Level::INFO => emit_at!(Level::INFO, self, event),
            _ => emit_at!(Level::DEBUG, self, event),
        }
    }
}

/// Fields of a record, typed for `tracing`.
struct TracingFields(Vec<(Key, FieldValue)>);

enum FieldValue {
    Text(SmolStr),
    Number(u64),
    Ratio(f64),
}

impl TracingFields {
    fn new(record: &Record<'_>, scrubber: &Scrubber) -> Self {
        let to_value = |value: &LogValue<'_>| match value {
            LogValue::Number(number) => FieldValue::Number(*number),
            LogValue::Ratio(ratio) => FieldValue::Ratio(*ratio),
            text => FieldValue::Text(text.format(scrubber)),
        };
        let fields = record.fields.iter();
        Self(fields.map(|(key, value)| (*key, to_value(value))).collect())
    }

    fn get(&self, name: Key) -> Option<&FieldValue> {
        let found = self.0.iter().find(|(key, _)| *key == name)?;
        Some(&found.1)
    }

    fn text(&self, key: Key) -> Option<&str> {
        match self.get(key)? {
            FieldValue::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, key: Key) -> Option<u64> {
        match self.get(key)? {
            FieldValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn ratio(&self, key: Key) -> Option<f64> {
        match self.get(key)? {
            FieldValue::Ratio(ratio) => Some(*ratio),
            _ => None,
        }
    }
}

/// Target of our events.
pub(super) const TARGET: &str = "outflow";
