//! What a line says, before it has a form.

use std::fmt::Write;
use std::time::Duration;

use outflow_core::{Rate, WallTime};
use smol_str::{SmolStr, SmolStrBuilder};
use tracing::Level;

use crate::event::{Event, HealthGauges};
use crate::metrics::{Key, key};
use crate::redact::{self, Scrubber};

/// The fields of a line, in the order in which the keys are listed.
pub(super) struct Record<'a> {
    pub(super) level: Level,
    /// When, if the event itself says so.
    pub(super) ts: Option<WallTime>,
    pub(super) fields: Vec<(Key, LogValue<'a>)>,
}

/// A value and how it is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogValue<'a> {
    /// One of a closed set.
    Word(&'static str),
    /// The code of an answer: a name that happens to be of digits.
    Code(u16),
    /// A name that someone else chose.
    Text(&'a str),
    /// A path, which is redacted again: whoever made the event may have forgotten to.
    Path(&'a str),
    /// `1.8s`.
    Span(Duration),
    /// `18rps`.
    PerSecond(f64),
    /// `10/s`, as it is configured.
    Rate(Rate),
    Number(u64),
    /// A share of one.
    Ratio(f64),
}

impl<'a> Record<'a> {
    pub(super) fn new(level: Level, comp: &'static str) -> Self {
        let mut fields = Vec::with_capacity(USUAL_FIELDS);
        fields.push((key::COMP, LogValue::Word(comp)));
        let ts = None;
        Self { level, ts, fields }
    }

    pub(super) fn with(mut self, key: Key, value: LogValue<'a>) -> Self {
        self.fields.push((key, value));
        self
    }

    pub(super) fn with_some(self, key: Key, value: Option<LogValue<'a>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Whom the event is about.
    pub(super) fn about(self, event: &'a Event, group: Option<&'a SmolStr>) -> Self {
        self.with(key::API, LogValue::Text(&event.api))
            .with_some(key::GROUP, group.map(|group| LogValue::Text(group)))
    }

    /// The numbers beside a change of state.
    pub(super) fn with_vitals(self, vitals: &HealthGauges) -> Self {
        let retry_after = vitals.retry_after.map(LogValue::Span);
        self.with(key::SLEEP, LogValue::Span(vitals.sleep.unwrap_or_default()))
            .with(key::STREAK, LogValue::Number(vitals.streak.into()))
            .with(key::ERROR_RATE, LogValue::share(vitals.error_ppm))
            .with(key::RATE, LogValue::PerSecond(vitals.rate))
            .with(key::SEM, LogValue::Number(vitals.concurrency.into()))
            .with_some(key::RETRY_AFTER, retry_after)
    }
}

impl LogValue<'_> {
    pub(super) fn share(parts_per_million: u32) -> Self {
        Self::Ratio(f64::from(parts_per_million) / 1_000_000.0)
    }

    pub(super) fn millis(span: Duration) -> Self {
        Self::Number(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    /// The value as text without secrets.
    pub(super) fn shown(&self, scrubber: &Scrubber) -> SmolStr {
        let mut text = SmolStrBuilder::new();
        // Writing to a string cannot fail.
        _ = match self {
            Self::Word(word) => write!(text, "{word}"),
            Self::Code(code) => write!(text, "{code}"),
            Self::Text(name) => write!(text, "{}", scrubber.scrub(name)),
            // Scrubbed before it is cut, so that half a secret is not left.
            Self::Path(path) => write!(text, "{}", redact::path(&scrubber.scrub(path))),
            Self::Span(span) => write!(text, "{}s", decimal(span.as_secs_f64())),
            Self::PerSecond(0.0) => write!(text, "unlimited"),
            Self::PerSecond(rate) => write!(text, "{}rps", decimal(*rate)),
            Self::Rate(rate) => write!(text, "{rate}"),
            Self::Number(number) => write!(text, "{number}"),
            Self::Ratio(ratio) => write!(text, "{ratio}"),
        };
        text.finish()
    }
}

/// To the thousandth, without zeros that say nothing.
fn decimal(number: f64) -> SmolStr {
    let text = smol_str::format_smolstr!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    SmolStr::new(text)
}

/// A change of state has so many.
const USUAL_FIELDS: usize = 16;
