//! Events as `tracing` events, for programs with a subscriber.
//!
//! The fields and names of a log line with target `outflow`: numbers as numbers, the rest as
//! redacted text. A program that uses [`Log`](super::Log) does not need this and would log
//! everything twice.

use smol_str::SmolStr;
use tracing::Level;

use super::record::{LogValue, Record};
use super::{event_level, format_event};
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

/// Emits the fields that a record has, in the order of the keys.
macro_rules! emit_fields {
    ($level:expr, $fields:ident, $($key:ident: $kind:ident,)+) => {
        tracing::event!(target: TARGET, $level, $({ key::$key } = $fields.$kind(key::$key),)+)
    };
}

/// The level of a `tracing` event is fixed at its call site, so each level has one.
macro_rules! emit_at {
    ($level:expr, $observer:expr, $event:expr) => {
        if tracing::enabled!(target: TARGET, $level) {
            let fields = TracingFields::new(&format_event::record($event), &$observer.scrubber);
            emit_fields!($level, fields,
                COMP: text, STATE: text, EVENT: text, FROM: text, TO: text, REASON: text, FAILURES: number, SLEEP: text,
                STREAK: number, ERROR_RATE: ratio, RATE: text, SEM: number, RETRY_AFTER: text,
                API: text, GROUP: text, ENDPOINT: text, METHOD: text, PATH: text, STATUS: text, LATENCY: number,
                ATTEMPT: number, CIRCUIT: text, WAITED: number, REQUEST_ID: text, TRACE_ID: text,
                PERMIT: number, COST: number, POSITION: number, LIMIT: text, WINDOW: text, CAP: text,
                REMAINING: number, CAPACITY: number, CONFIGURED: text, EVIDENCE: text, USED: ratio,
                COUNT: number, TASK: text,
            );
        }
    };
}

impl Observer for TracingObserver {
    fn observe(&self, event: &Event) {
        match event_level::level(event) {
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
