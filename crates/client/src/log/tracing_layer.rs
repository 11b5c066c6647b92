//! `tracing` events as log lines.
//!
//! For the program's own code, so that one file holds everything. The program names its crates,
//! because an event does not distinguish a program from a library. Of other crates only warnings
//! and errors are written: below that, libraries print frames and headers, and no list of secrets
//! is complete.

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

/// Layer that writes `tracing` events to a [`Log`].
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::{Log, LogSettings};
/// use outflow::SystemClock;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let (log, _writer) = Log::new(LogSettings::new(Arc::new(SystemClock::new())), std::io::stderr());
/// let subscriber = tracing_subscriber::registry().with(log.layer().with_crate("shop"));
/// # drop(subscriber);
/// ```
#[derive(Clone, Debug)]
pub struct LogLayer {
    log: Log,
    /// Crates whose events are all written.
    crates: Vec<SmolStr>,
}

impl LogLayer {
    pub(super) fn new(log: Log) -> Self {
        let crates = vec![SmolStr::new_static(TARGET)];
        Self { log, crates }
    }

    /// Adds a crate whose events are written like ours: all from the log's level on.
    #[must_use]
    pub fn with_crate(mut self, name: impl Into<SmolStr>) -> Self {
        self.crates.push(name.into());
        self
    }

    fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = self.crates.iter().any(|name| is_in_crate(name, metadata.target()));
        let is_important = *metadata.level() <= Level::WARN;
        (is_ours || is_important) && self.log.observer.is_enabled(*metadata.level())
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.is_enabled(metadata) {
            return;
        }
        let observer = &self.log.observer;
        let mut line = observer.begin(*metadata.level(), None);
        if event.fields().all(|field| field.name() != key::COMP) {
            line.push_text(key::COMP, metadata.target());
        }
        let mut fields = FieldVisitor {
            line: &mut line,
            scrubber: &observer.settings.scrubber,
        };
        event.record(&mut fields);
        self.log.lines.send(&observer.end(line));
    }
}

/// Returns true if a target is in this crate. A name that only starts alike is another crate.
fn is_in_crate(name: &str, target: &str) -> bool {
    let rest = target.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

struct FieldVisitor<'a> {
    line: &'a mut LogLine,
    scrubber: &'a Scrubber,
}

impl FieldVisitor<'_> {
    fn text(&mut self, field: &Field, value: &str) {
        let value = self.scrubber.scrub(value);
        self.write_field(field, |line, key| line.push_text(key, &value));
    }

    /// Skips fields with the name of a key that every line has.
    fn write_field(&mut self, field: &Field, write: impl FnOnce(&mut LogLine, &str)) {
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
        self.write_field(field, |line, key| line.push_raw(key, value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write_field(field, |line, key| line.push_raw(key, value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write_field(field, |line, key| line.push_raw(key, value));
    }

    /// Infinite and NaN values have no JSON number, only a text.
    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.write_field(field, |line, key| line.push_raw(key, value));
        } else {
            self.text(field, &value.to_string());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = BoundedText::default();
        // Stops at the bound, which is no error here.
        _ = write!(text, "{value:?}");
        self.text(field, &text.0);
    }
}

/// Prefix of a value long enough for any display, including redacted secrets.
#[derive(Default)]
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        self.0.push_str(more);
        if self.0.len() < MAX_DEBUG {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}

/// More than a line shows, so that a secret at the cut is still complete.
const MAX_DEBUG: usize = 64 * 1_024;
