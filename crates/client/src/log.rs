//! Events as lines that people and programs read.
//!
//! One line for each event, written straight from it: no logging framework stands between, so that
//! the keys are those of `metrics/names.rs` and nothing else gets in. Who has a `tracing` subscriber of
//! their own takes [`TracingObserver`] instead, and a program that wants the lines of its own code in the
//! same form takes [`LogLayer`].
//!
//! A request never waits for its line: lines are handed to a [`LogWriter`] through a bounded queue, and
//! what does not fit is dropped, counted and told. Values are redacted, then cut, then escaped; a
//! line never holds a line.

mod format_event;
mod line_format;
mod record;
mod rolling;
mod tracing_bridge;
mod tracing_layer;
mod writer_queue;

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use outflow_core::{Clock, Timestamp, WallTime};
use tracing::Level;

pub use rolling::{InvalidRolling, RollingFile};
pub use tracing_bridge::TracingObserver;
pub use tracing_layer::LogLayer;
pub use writer_queue::{LogSender, LogWriter};

use crate::event::{Event, Observer};
use crate::metrics::{GaugeSnapshot, GaugeSource, key};
use crate::redact::Scrubber;
use line_format::LogLine;
use record::{LogValue, Record};

/// Writes a line for every event. Clones write the same log.
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::{Log, LogSettings};
/// use outflow::{Events, SystemClock};
///
/// let settings = LogSettings::new(Arc::new(SystemClock::new()));
/// let (log, mut pump) = Log::new(settings, std::io::stderr());
/// let events = Events::new();
/// events.subscribe(Arc::new(log.clone()));
///
/// // The pump belongs on a thread of its own; it returns when the log is closed.
/// log.close();
/// pump.run();
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    scribe: Arc<LogObserver>,
    lines: LogSender,
}

/// How a log is written.
#[derive(Clone)]
pub struct LogSettings {
    /// The form of a line.
    pub format: LineFormat,
    /// The least important events that are written.
    pub level: Level,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// The secrets that no line may hold.
    pub scrubber: Scrubber,
}

impl LogSettings {
    /// logfmt, from `INFO` on, without secrets to look for.
    pub fn new(clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self {
            format: LineFormat::Logfmt,
            level: Level::INFO,
            clock,
            scrubber: Scrubber::new(),
        }
    }
}

impl fmt::Debug for LogSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSettings")
            .field("format", &self.format)
            .field("level", &self.level)
            .field("scrubber", &self.scrubber)
            .finish_non_exhaustive()
    }
}

/// The form of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFormat {
    /// `key=value key="two words"`.
    Logfmt,
    /// One JSON object.
    Json,
}

impl Log {
    /// A log, and the pump that writes it to `sink`.
    pub fn new(settings: LogSettings, sink: impl Write + Send + 'static) -> (Self, LogWriter) {
        let scribe = Arc::new(LogObserver {
            least: AtomicU8::new(rank(Some(settings.level))),
            settings,
            seq: AtomicU64::new(0),
        });
        let teller = Arc::clone(&scribe);
        let (lines, pump) = LogSender::new(sink);
        let pump =
            pump.with_drop_notice(move |dropped| teller.line(&format_event::dropped(dropped)));
        (Self { scribe, lines }, pump)
    }

    /// A layer that writes `tracing` events into this log: ours, those of the crates that are named to
    /// it, and the warnings and errors of all.
    pub fn layer(&self) -> LogLayer {
        LogLayer::new(self.clone())
    }

    /// Writes events from this importance on, or none.
    pub fn set_level(&self, level: Option<Level>) {
        self.scribe.least.store(rank(level), Ordering::Relaxed);
    }

    /// How many lines were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }

    /// Takes no more lines; the pump writes what it has and returns.
    pub fn close(&self) {
        self.lines.close();
    }
}

impl Observer for Log {
    fn observe(&self, event: &Event) {
        if self.scribe.writes(format_event::level(event)) {
            self.lines
                .send(&self.scribe.line(&format_event::record(event)));
        }
    }
}

impl GaugeSource for Log {
    fn read(&self, _: &mut dyn FnMut(&str, GaugeSnapshot)) {}

    fn lines_dropped(&self) -> u64 {
        self.dropped()
    }
}

/// Turns records into lines.
#[derive(Debug)]
struct LogObserver {
    settings: LogSettings,
    /// The least important events that are written, which may change.
    least: AtomicU8,
    /// The order of lines, whatever the clock does.
    seq: AtomicU64,
}

impl LogObserver {
    /// Whether lines of this importance are written.
    fn writes(&self, level: Level) -> bool {
        rank(Some(level)) <= self.least.load(Ordering::Relaxed)
    }

    fn line(&self, record: &Record<'_>) -> String {
        let mut line = self.begin(record.level, record.ts);
        for (key, value) in &record.fields {
            match value {
                LogValue::Number(number) => line.raw(key, *number),
                LogValue::Ratio(ratio) => line.raw(key, *ratio),
                LogValue::Word(word) => line.text(key, word),
                LogValue::Text(name) => line.text(key, &self.settings.scrubber.scrub(name)),
                other => line.text(key, &other.shown(&self.settings.scrubber)),
            }
        }
        self.end(line)
    }

    fn begin(&self, level: Level, ts: Option<WallTime>) -> LogLine {
        let now = ts.unwrap_or_else(|| self.settings.clock.wall());
        let mut line = LogLine::new(self.settings.format);
        line.text(key::TS, &Timestamp(now).to_string());
        line.text(key::LVL, level.as_str());
        line
    }

    fn end(&self, mut line: LogLine) -> String {
        line.last(key::SEQ, self.seq.fetch_add(1, Ordering::Relaxed));
        line.finish()
    }
}

/// The more is written, the higher.
const fn rank(level: Option<Level>) -> u8 {
    match level {
        None => 0,
        Some(Level::ERROR) => 1,
        Some(Level::WARN) => 2,
        Some(Level::INFO) => 3,
        Some(Level::DEBUG) => 4,
        Some(Level::TRACE) => 5,
    }
}
