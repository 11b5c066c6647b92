//! Events as lines that people and programs read.
//!
//! One line for each event, written straight from it: no logging framework stands between, so that
//! the keys are those of `metrics/names.rs` and nothing else gets in. Who has a `tracing` subscriber of
//! their own takes [`Narrator`] instead, and a program that wants the lines of its own code in the
//! same form takes [`LogLayer`].
//!
//! A request never waits for its line: lines are handed to a [`LogPump`] through a bounded queue, and
//! what does not fit is dropped, counted and told. Values are redacted, then cut, then escaped; a
//! line never holds a line.

mod layer;
mod line;
mod lines;
mod narrator;
mod record;
mod rolling;
mod stamp;
mod tell;

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use outflow_core::{Clock, WallTime};
use tracing::Level;

pub use layer::LogLayer;
pub use lines::{Lines, LogPump};
pub use narrator::Narrator;
pub use rolling::{InvalidRolling, RollingFile};
pub(crate) use stamp::Stamp;

use crate::event::{Event, Observer};
use crate::metrics::{Reading, Source, key};
use crate::redact::Scrubber;
use line::Line;
use record::{Record, Value};

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
    scribe: Arc<Scribe>,
    lines: Lines,
}

/// How a log is written.
#[derive(Clone)]
pub struct LogSettings {
    /// The form of a line.
    pub format: Format,
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
            format: Format::Logfmt,
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
pub enum Format {
    /// `key=value key="two words"`.
    Logfmt,
    /// One JSON object.
    Json,
}

impl Log {
    /// A log, and the pump that writes it to `sink`.
    pub fn new(settings: LogSettings, sink: impl Write + Send + 'static) -> (Self, LogPump) {
        let scribe = Arc::new(Scribe {
            least: AtomicU8::new(rank(Some(settings.level))),
            settings,
            seq: AtomicU64::new(0),
        });
        let teller = Arc::clone(&scribe);
        let (lines, pump) = Lines::new(sink);
        let pump = pump.telling_drops(move |dropped| teller.line(&tell::dropped(dropped)));
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
        if self.scribe.writes(tell::level(event)) {
            self.lines.send(&self.scribe.line(&tell::record(event)));
        }
    }
}

impl Source for Log {
    fn read(&self, _: &mut dyn FnMut(&str, Reading)) {}

    fn lines_dropped(&self) -> u64 {
        self.dropped()
    }
}

/// Turns records into lines.
#[derive(Debug)]
struct Scribe {
    settings: LogSettings,
    /// The least important events that are written, which may change.
    least: AtomicU8,
    /// The order of lines, whatever the clock does.
    seq: AtomicU64,
}

impl Scribe {
    /// Whether lines of this importance are written.
    fn writes(&self, level: Level) -> bool {
        rank(Some(level)) <= self.least.load(Ordering::Relaxed)
    }

    fn line(&self, record: &Record<'_>) -> String {
        let mut line = self.begin(record.level, record.ts);
        for (key, value) in &record.fields {
            match value {
                Value::Number(number) => line.raw(key, *number),
                Value::Ratio(ratio) => line.raw(key, *ratio),
                Value::Word(word) => line.text(key, word),
                Value::Text(name) => line.text(key, &self.settings.scrubber.scrub(name)),
                other => line.text(key, &other.shown(&self.settings.scrubber)),
            }
        }
        self.end(line)
    }

    fn begin(&self, level: Level, ts: Option<WallTime>) -> Line {
        let now = ts.unwrap_or_else(|| self.settings.clock.wall());
        let mut line = Line::new(self.settings.format);
        line.text(key::TS, &Stamp(now).to_string());
        line.text(key::LVL, level.as_str());
        line
    }

    fn end(&self, mut line: Line) -> String {
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
