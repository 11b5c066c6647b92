//! What is set for the whole program and not for one API: its log, its metrics, its cache.
//!
//! Plain values; who writes logs or keeps answers makes of them what it will.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::{FieldValue, TableReader, ValueError};
use super::tree::TreeValue;
use super::value_readers::{choice, path, size, span, whole};

/// How and where log lines are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSection {
    /// The form of a line.
    pub format: LogFormat,
    /// The least important line that is written.
    pub level: LogLevel,
    /// The file; none means the standard error stream.
    pub file: Option<PathBuf>,
    /// The size at which a file is put aside and a new one begun, in bytes.
    pub max_size: u64,
    /// How many files are kept, the one being written included.
    pub max_files: u32,
}

impl Default for LogSection {
    /// Logfmt to the standard error stream; with a file, five of ten mebibytes: days of an ordinary
    /// program, and never more than fits a small disk.
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: LogLevel::default(),
            file: None,
            max_size: 10 * 1024 * 1024,
            max_files: 5,
        }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Logfmt,
    /// One JSON object a line.
    Json,
}

/// How important a log line must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogLevel {
    /// Nothing is written.
    Off,
    /// What failed.
    Error,
    /// What may fail soon.
    Warn,
    /// What changed.
    #[default]
    Info,
    /// Every call.
    Debug,
    /// Every step.
    Trace,
}

/// Where metrics are written as lines of JSON, beside what is fetched from `/metrics`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsSettings {
    /// Where the lines go.
    pub ndjson: NdjsonTarget,
    /// How often they are written.
    pub interval: Duration,
}

impl Default for MetricsSettings {
    /// Nowhere; every ten seconds if somewhere.
    fn default() -> Self {
        Self {
            ndjson: NdjsonTarget::default(),
            interval: Duration::from_secs(10),
        }
    }
}

/// Where lines of JSON go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NdjsonTarget {
    /// Nowhere.
    #[default]
    Off,
    /// To the standard output stream.
    Stdout,
    /// To the end of this file.
    File(PathBuf),
}

/// Where answers are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSection {
    /// The directory; none keeps them in memory alone.
    pub dir: Option<PathBuf>,
    /// The most that they may take, in bytes.
    pub size: u64,
}

impl Default for CacheSection {
    /// In memory, up to 100 MiB.
    fn default() -> Self {
        Self {
            dir: None,
            size: 100 * 1024 * 1024,
        }
    }
}

pub(super) fn log(root: &TableReader<'_>) -> LogSection {
    let fields = root.section("log");
    let usual = LogSection::default();
    let format = fields.read("format", |item| choice(item, &FORMATS));
    let level = fields.read("level", |item| choice(item, &LEVELS));
    let file = fields.read("file", path);
    let max_size = fields.read("max_size", size);
    let max_files = fields.read("max_files", |item| whole(item, 1..=MOST_FILES));
    fields.finish();
    LogSection {
        format: format.unwrap_or(usual.format),
        level: level.unwrap_or(usual.level),
        file,
        max_size: max_size.unwrap_or(usual.max_size),
        max_files: max_files
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(usual.max_files),
    }
}

pub(super) fn metrics(root: &TableReader<'_>) -> MetricsSettings {
    let fields = root.section("metrics");
    let usual = MetricsSettings::default();
    let ndjson = fields.read("ndjson", ndjson);
    let interval = fields.read("interval", span);
    fields.finish();
    MetricsSettings {
        ndjson: ndjson.unwrap_or(usual.ndjson),
        interval: interval.unwrap_or(usual.interval),
    }
}

pub(super) fn cache(root: &TableReader<'_>) -> CacheSection {
    let fields = root.section("cache");
    let dir = fields.read("dir", path);
    let most = fields.read("size", size);
    fields.finish();
    CacheSection {
        dir,
        size: most.unwrap_or(CacheSection::default().size),
    }
}

fn ndjson(item: &FieldValue<'_>) -> Result<NdjsonTarget, ValueError> {
    if let TreeValue::Table(_) = &item.node.value {
        let fields = item.fields()?;
        let file = fields.read("file", path);
        fields.finish();
        return file.map(NdjsonTarget::File).ok_or_else(|| {
            ValueError::new("this names no file").help("say `file = \"metrics.ndjson\"`")
        });
    }
    let words = [
        ("off", &NdjsonTarget::Off),
        ("stdout", &NdjsonTarget::Stdout),
    ];
    choice(item, &words).cloned()
}

/// More files than anyone looks through.
const MOST_FILES: u64 = 1_000;

const FORMATS: [(&str, LogFormat); 2] = [("logfmt", LogFormat::Logfmt), ("json", LogFormat::Json)];

const LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
