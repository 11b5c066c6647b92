//! Log lines of events.
//!
//! One line per event, written directly from it: without a logging framework, the keys are exactly
//! those of `metrics/names.rs`. Programs with a `tracing` subscriber use [`TracingObserver`]
//! instead, and programs that want their own events in this form use [`LogLayer`].
//!
//! A request never waits for its line: lines go to a [`LogWriter`] through a bounded queue, and
//! what does not fit is dropped, counted and reported. Values are redacted, then cut, then escaped;
//! a line never contains a line end.

mod event_level;
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

/// Log of all events. Clones share one log.
///
/// ```
/// use std::sync::Arc;
/// use outflow::log::{Log, LogSettings};
/// use outflow::{Events, SystemClock};
///
/// let settings = LogSettings::new(Arc::new(SystemClock::new()));
/// let (log, mut writer) = Log::new(settings, std::io::stderr());
/// let events = Events::new();
/// events.subscribe(Arc::new(log.clone()));
///
/// // The writer belongs on a thread of its own; it returns when the log is closed.
/// log.close();
/// writer.run();
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    observer: Arc<LogObserver>,
    lines: LogSender,
}

/// Settings of a log.
#[derive(Clone)]
pub struct LogSettings {
    /// Form of a line.
    pub format: LineFormat,
    /// Lowest level that is written.
    pub level: Level,
    /// Clock.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// Secrets to redact.
    pub scrubber: Scrubber,
}

impl LogSettings {
    /// Returns settings for logfmt from `INFO` on, without secrets.
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

outflow_core::named_enum! {
    /// Form of a line.
    #[derive(Default)]
    pub enum LineFormat {
        /// `key=value key="two words"`.
        #[default]
        Logfmt = "logfmt",
        /// One JSON object.
        Json = "json",
    }
}

impl Log {
    /// Returns a log and the writer of its lines.
    pub fn new(settings: LogSettings, sink: impl Write + Send + 'static) -> (Self, LogWriter) {
        let observer = Arc::new(LogObserver {
            max_rank: AtomicU8::new(rank(Some(settings.level))),
            settings,
            seq: AtomicU64::new(0),
        });
        let reporter = Arc::clone(&observer);
        let (lines, writer) = LogSender::new(sink);
        let writer = writer.with_drop_notice(move |dropped| reporter.line(&format_event::dropped(dropped)));
        (Self { observer, lines }, writer)
    }

    /// Returns a layer that writes `tracing` events to this log: ours, those of crates added to it,
    /// and warnings and errors of all.
    pub fn layer(&self) -> LogLayer {
        LogLayer::new(self.clone())
    }

    /// Sets the lowest level, or writes nothing.
    pub fn set_level(&self, level: Option<Level>) {
        self.observer.max_rank.store(rank(level), Ordering::Relaxed);
    }

    /// Returns the number of dropped lines.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }

    /// Closes the log; the writer writes the queued lines and returns.
    pub fn close(&self) {
        self.lines.close();
    }
}

impl Observer for Log {
    fn observe(&self, event: &Event) {
        if self.observer.is_enabled(event_level::level(event)) {
            self.lines.send(&self.observer.line(&format_event::record(event)));
        }
    }
}

impl GaugeSource for Log {
    fn read(&self, _: &mut dyn FnMut(&str, GaugeSnapshot)) {}

    fn lines_dropped(&self) -> u64 {
        self.dropped()
    }
}

/// Formatter of log lines.
#[derive(Debug)]
struct LogObserver {
    settings: LogSettings,
    /// Lowest level that is written; may change.
    max_rank: AtomicU8,
    /// Sequence of lines, independent of the clock.
    seq: AtomicU64,
}

impl LogObserver {
    /// Returns true if lines of this level are written.
    fn is_enabled(&self, level: Level) -> bool {
        rank(Some(level)) <= self.max_rank.load(Ordering::Relaxed)
    }

    fn line(&self, record: &Record<'_>) -> String {
        let mut line = self.begin(record.level, record.ts);
        for (key, value) in &record.fields {
            match value {
                LogValue::Number(number) => line.push_raw(key, *number),
                LogValue::Ratio(ratio) => line.push_raw(key, *ratio),
                LogValue::Word(word) => line.push_text(key, word),
                LogValue::Text(name) => line.push_text(key, &self.settings.scrubber.scrub(name)),
                other => line.push_text(key, &other.format(&self.settings.scrubber)),
            }
        }
        self.end(line)
    }

    fn begin(&self, level: Level, ts: Option<WallTime>) -> LogLine {
        let now = ts.unwrap_or_else(|| self.settings.clock.wall());
        let mut line = LogLine::new(self.settings.format);
        line.push_text(key::TS, &Timestamp(now).to_string());
        line.push_text(key::LVL, level.as_str());
        line
    }

    fn end(&self, mut line: LogLine) -> String {
        line.push_last(key::SEQ, self.seq.fetch_add(1, Ordering::Relaxed));
        line.finish()
    }
}

/// Ranks a level: more lines have a higher rank.
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
