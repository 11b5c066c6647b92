//! Writers of the log and of metrics as NDJSON.
//!
//! Each has a thread that may block on its disk. Lines go through a queue that drops and counts
//! instead of blocking.

use std::io::Write;
use std::sync::Arc;

use outflow_core::Clock;
use outflow_sync::Mutex;
use tracing::Level;

use super::InitError;
use super::maintenance::repeat_every;
use crate::clock::SystemClock;
use crate::config::{Config, LogLevel, NdjsonTarget};
use crate::log::{Log, LogSender, LogSettings, LogWriter, RollingFile};
use crate::metrics::Metrics;
use crate::ndjson;
use crate::redact::Scrubber;
use crate::tasks::{CancelToken, Tasks};

/// Starts the log, if it is on.
pub(super) fn log(config: &Config, scrubber: Scrubber, tasks: &Tasks) -> Result<Option<Log>, InitError> {
    let Some(level) = level(config.log.level) else {
        return Ok(None);
    };
    let settings = LogSettings {
        format: config.log.format,
        level,
        scrubber,
        ..LogSettings::new(Arc::new(SystemClock::new()))
    };
    let (log, writer) = match &config.log.file {
        Some(file) => {
            let (size, files) = (config.log.max_size, config.log.max_files);
            let file = RollingFile::new(file, size, files).map_err(InitError::Log)?;
            Log::new(settings, file)
        }
        None => Log::new(settings, std::io::stderr()),
    };
    spawn_writer(tasks, "log", writer)?;
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

/// Starts the NDJSON metrics, if they are on.
pub(super) fn metric_lines(
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
    let (lines, writer) = LogSender::new(sink);
    spawn_writer(tasks, "metrics-writer", writer)?;
    let (metrics, sender, interval) = (Arc::clone(metrics), lines.clone(), config.metrics.interval);
    let work = move |cancel: CancelToken| {
        let (metrics, sender) = (Arc::clone(&metrics), sender.clone());
        repeat_every(cancel, interval, move || {
            sender.send(&snapshot(&metrics));
        })
    };
    tasks.spawn("metrics", work).map_err(InitError::Tasks)?;
    Ok(Some(lines))
}

pub(super) fn snapshot(metrics: &Metrics) -> String {
    ndjson::snapshot_line(metrics, SystemClock::new().wall())
}

fn spawn_writer(tasks: &Tasks, name: &'static str, writer: LogWriter) -> Result<(), InitError> {
    let writer = Mutex::new(writer);
    let work = move |_: &CancelToken| writer.lock().run();
    tasks.spawn_thread(name, work).map_err(InitError::Tasks)
}
