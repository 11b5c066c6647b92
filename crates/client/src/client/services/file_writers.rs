//! The two files that are written beside the calls: the log, and metrics as lines of JSON.
//!
//! Each has a thread of its own that may wait for its disk as long as it likes: lines are handed to it
//! through a queue that drops rather than waits, and counts what it dropped.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use outflow_core::Clock;
use tracing::Level;

use super::InitError;
use super::maintenance::every_so_often;
use crate::clock::SystemClock;
use crate::config::{Config, LogFormat, LogLevel, NdjsonTarget};
use crate::log::{LineFormat, Log, LogSender, LogSettings, LogWriter, RollingFile};
use crate::metrics::Metrics;
use crate::ndjson;
use crate::redact::Scrubber;
use crate::tasks::{CancelToken, Tasks};

/// The log, if one is wanted.
pub(super) fn log(
    config: &Config,
    scrubber: Scrubber,
    tasks: &Tasks,
) -> Result<Option<Log>, InitError> {
    let Some(level) = level(config.log.level) else {
        return Ok(None);
    };
    let settings = LogSettings {
        format: match config.log.format {
            LogFormat::Logfmt => LineFormat::Logfmt,
            LogFormat::Json => LineFormat::Json,
        },
        level,
        scrubber,
        ..LogSettings::new(Arc::new(SystemClock::new()))
    };
    let (log, pump) = match &config.log.file {
        Some(file) => {
            let (size, files) = (config.log.max_size, config.log.max_files);
            let file = RollingFile::new(file, size, files).map_err(InitError::Log)?;
            Log::new(settings, file)
        }
        None => Log::new(settings, std::io::stderr()),
    };
    write_lines(tasks, "log", pump)?;
    Ok(Some(log))
}

pub(super) const fn level(configured: LogLevel) -> Option<Level> {
    match configured {
        LogLevel::Off => None,
        LogLevel::Error => Some(Level::ERROR),
        LogLevel::Warn => Some(Level::WARN),
        LogLevel::Info => Some(Level::INFO),
        LogLevel::Debug => Some(Level::DEBUG),
        LogLevel::Trace => Some(Level::TRACE),
    }
}

/// Metrics as lines of JSON, where they are wanted.
pub(super) fn lines(
    config: &Config,
    metrics: &Arc<Metrics>,
    tasks: &Tasks,
) -> Result<Option<LogSender>, InitError> {
    let sink: Box<dyn Write + Send> = match &config.metrics.ndjson {
        NdjsonTarget::Off => return Ok(None),
        NdjsonTarget::Stdout => Box::new(std::io::stdout()),
        NdjsonTarget::File(path) => {
            let (size, files) = (config.log.max_size, config.log.max_files);
            Box::new(RollingFile::new(path, size, files).map_err(InitError::Log)?)
        }
    };
    let (lines, pump) = LogSender::new(sink);
    write_lines(tasks, "metrics-writer", pump)?;
    let (metrics, told, every) = (Arc::clone(metrics), lines.clone(), config.metrics.interval);
    let work = move |stop: CancelToken| {
        let (metrics, told) = (Arc::clone(&metrics), told.clone());
        every_so_often(stop, every, move || {
            told.send(&snapshot(&metrics));
        })
    };
    tasks.spawn("metrics", work).map_err(InitError::Tasks)?;
    Ok(Some(lines))
}

pub(super) fn snapshot(metrics: &Metrics) -> String {
    ndjson::snapshot_line(metrics, SystemClock::new().wall())
}

fn write_lines(tasks: &Tasks, name: &'static str, pump: LogWriter) -> Result<(), InitError> {
    let pump = Mutex::new(pump);
    let work = move |_: &CancelToken| pump.lock().unwrap_or_else(PoisonError::into_inner).run();
    tasks.thread(name, work).map_err(InitError::Tasks)
}
