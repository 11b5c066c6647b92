//! `tracing` events as lines of our log.
//!
//! For the program's own code, so that one file in one form holds everything. Which code that is, the
//! program says: nothing in an event tells a program from a library. Of the other crates only warnings
//! and errors are taken: below that, libraries print the frames and headers that pass through them,
//! and no list of secrets is complete.

use std::fmt::{Debug, Write};

use smol_str::SmolStr;
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::tracing_bridge::TARGET;
use super::{Log, LogLine};
use crate::metrics::key;
use crate::redact::Scrubber;

/// Writes `tracing` events into a [`Log`].
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::{Log, LogSettings};
/// use outflow::SystemClock;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let (log, _pump) = Log::new(LogSettings::new(Arc::new(SystemClock::new())), std::io::stderr());
/// let subscriber = tracing_subscriber::registry().with(log.layer().of_crate("shop"));
/// # drop(subscriber);
/// ```
#[derive(Clone, Debug)]
pub struct LogLayer {
    log: Log,
    /// The crates whose every event is taken.
    own: Vec<SmolStr>,
}

impl LogLayer {
    pub(super) fn new(log: Log) -> Self {
        let own = vec![SmolStr::new_static(TARGET)];
        Self { log, own }
    }

    /// The same layer, which takes the events of this crate as it takes ours: all that are as
    /// important as the log wants them.
    #[must_use]
    pub fn of_crate(mut self, name: impl Into<SmolStr>) -> Self {
        self.own.push(name.into());
        self
    }

    fn takes(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = self.own.iter().any(|name| is_of(name, metadata.target()));
        let is_important = *metadata.level() <= Level::WARN;
        (is_ours || is_important) && self.log.scribe.writes(*metadata.level())
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.takes(metadata) {
            return;
        }
        let scribe = &self.log.scribe;
        let mut line = scribe.begin(*metadata.level(), None);
        if event.fields().all(|field| field.name() != key::COMP) {
            line.text(key::COMP, metadata.target());
        }
        let mut fields = FieldVisitor {
            line: &mut line,
            scrubber: &scribe.settings.scrubber,
        };
        event.record(&mut fields);
        self.log.lines.send(&scribe.end(line));
    }
}

/// Whether a target is this crate or lies in it. A name that only begins alike is another's.
fn is_of(name: &str, target: &str) -> bool {
    let within = target.strip_prefix(name);
    within.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

struct FieldVisitor<'a> {
    line: &'a mut LogLine,
    scrubber: &'a Scrubber,
}

impl FieldVisitor<'_> {
    fn text(&mut self, field: &Field, value: &str) {
        let value = self.scrubber.scrub(value);
        self.named(field, |line, key| line.text(key, &value));
    }

    /// A field that is called like one that every line has would be there twice.
    fn named(&mut self, field: &Field, write: impl FnOnce(&mut LogLine, &str)) {
        match field.name() {
            key::TS | key::LVL | key::SEQ => {}
            "message" => write(self.line, key::MESSAGE),
            name => write(self.line, name),
        }
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.text(field, &String::from_utf8_lossy(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.named(field, |line, key| line.raw(key, value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.named(field, |line, key| line.raw(key, value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.named(field, |line, key| line.raw(key, value));
    }

    /// What is not a number has no form in JSON but a text.
    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.named(field, |line, key| line.raw(key, value));
        } else {
            self.text(field, &value.to_string());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = BoundedText::default();
        // Stops at the bound, which is not an error here.
        _ = write!(text, "{value:?}");
        self.text(field, &text.0);
    }
}

/// As much of a value as could ever be shown, secrets that are taken out included.
#[derive(Default)]
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        self.0.push_str(more);
        if self.0.len() < MOST_DEBUG {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}

/// Beyond what a line shows, so that a secret at the cut is still seen whole.
const MOST_DEBUG: usize = 64 * 1_024;
