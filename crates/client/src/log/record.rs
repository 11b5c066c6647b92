//! Fields of a line before formatting.

use std::fmt::Write;
use std::time::Duration;

use outflow_core::{Rate, WallTime};
use smol_str::{SmolStr, SmolStrBuilder};
use tracing::Level;

use crate::event::{Event, HealthGauges};
use crate::metrics::{Key, key};
use crate::redact::{self, Scrubber};
use crate::trace::TraceId;

/// Fields of a line, in the order of the keys.
pub(super) struct Record<'a> {
    pub(super) level: Level,
    /// Time of the event, if it has its own.
    pub(super) ts: Option<WallTime>,
    pub(super) fields: Vec<(Key, LogValue<'a>)>,
}

/// Value with its format.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogValue<'a> {
    /// One of a closed set.
    Word(&'static str),
    /// Status code: a name made of digits.
    Code(u16),
    /// Name chosen by others.
    Text(&'a str),
    /// Path, redacted again in case the event's author forgot to.
    Path(&'a str),
    /// `1.8s`.
    Span(Duration),
    /// `18rps`.
    PerSecond(f64),
    /// `10/s`, as configured.
    Rate(Rate),
    Number(u64),
    Trace(TraceId),
    /// Share of one.
    Ratio(f64),
}

impl<'a> Record<'a> {
    pub(super) fn new(level: Level, comp: &'static str) -> Self {
        let mut fields = Vec::with_capacity(TYPICAL_FIELDS);
        fields.push((key::COMP, LogValue::Word(comp)));
        let ts = None;
        Self { level, ts, fields }
    }

    pub(super) fn with(mut self, key: Key, value: impl Into<LogValue<'a>>) -> Self {
        self.fields.push((key, value.into()));
        self
    }

    pub(super) fn with_some(self, key: Key, value: Option<impl Into<LogValue<'a>>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a key that every such line has: `-` stands for no value.
    pub(super) fn with_or_dash(self, key: Key, value: Option<impl Into<LogValue<'a>>>) -> Self {
        let value = value.map_or(LogValue::Word("-"), Into::into);
        self.with(key, value)
    }

    /// Adds the API and group of the event.
    pub(super) fn with_subject(self, event: &'a Event, group: Option<&'a SmolStr>) -> Self {
        self.with(key::API, LogValue::Text(&event.api))
            .with_some(key::GROUP, group.map(|group| LogValue::Text(group)))
    }

    /// Adds the endpoint of the call, if it has a label.
    pub(super) fn with_endpoint(self, endpoint: Option<&'a SmolStr>) -> Self {
        self.with_some(key::ENDPOINT, endpoint.map(|endpoint| LogValue::Path(endpoint)))
    }

    /// Adds the trace of the call that the event is about.
    pub(super) fn with_trace(self, event: &Event) -> Self {
        let trace = Some(event.trace).filter(|trace| !trace.is_none());
        self.with_or_dash(key::TRACE_ID, trace.map(LogValue::Trace))
    }

    /// Adds health gauges.
    pub(super) fn with_gauges(self, vitals: &HealthGauges) -> Self {
        // A cooldown sends nothing either.
        let sleep = vitals.sleep.or(vitals.retry_after);
        self.with(key::SLEEP, sleep.unwrap_or_default())
            .with(key::STREAK, vitals.streak)
            .with(key::ERROR_RATE, LogValue::share(vitals.error_ppm))
            .with(key::RATE, LogValue::PerSecond(vitals.rate))
            .with(key::SEM, vitals.concurrency)
            .with_or_dash(key::RETRY_AFTER, vitals.retry_after)
    }
}

impl From<&'static str> for LogValue<'_> {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<Duration> for LogValue<'_> {
    fn from(span: Duration) -> Self {
        Self::Span(span)
    }
}

impl From<u64> for LogValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for LogValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl LogValue<'_> {
    pub(super) fn share(parts_per_million: u32) -> Self {
        Self::Ratio(f64::from(parts_per_million) / 1_000_000.0)
    }

    pub(super) fn millis(span: Duration) -> Self {
        Self::Number(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    /// Formats the value without secrets.
    pub(super) fn format(&self, scrubber: &Scrubber) -> SmolStr {
        let mut text = SmolStrBuilder::new();
        // Writing to a string cannot fail.
        _ = match self {
            Self::Word(word) => write!(text, "{word}"),
            Self::Code(code) => write!(text, "{code}"),
            Self::Text(name) => write!(text, "{}", scrubber.scrub(name)),
            // Scrubbed before it is cut, so that no half of a secret remains.
            Self::Path(path) => write!(text, "{}", redact::path(&scrubber.scrub(path))),
            Self::Span(span) => write!(text, "{}s", decimal(span.as_secs_f64())),
            Self::PerSecond(0.0) => write!(text, "unlimited"),
            Self::PerSecond(rate) => write!(text, "{}rps", decimal(*rate)),
            Self::Rate(rate) => write!(text, "{rate}"),
            Self::Number(number) => write!(text, "{number}"),
            Self::Trace(trace) => write!(text, "{trace}"),
            Self::Ratio(ratio) => write!(text, "{ratio}"),
        };
        text.finish()
    }
}

/// Formats to the thousandth without trailing zeros.
fn decimal(number: f64) -> SmolStr {
    let text = smol_str::format_smolstr!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    SmolStr::new(text)
}

/// Fields of a health transition.
const TYPICAL_FIELDS: usize = 16;
