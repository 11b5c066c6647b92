//! Sections that apply to the whole client: log, metrics and cache.

use std::path::PathBuf;
use std::time::Duration;

use outflow_config::value_readers::{read_choice, read_integer, read_path, read_positive_duration, read_size};
use outflow_config::{Environment, FieldValue, Section, SectionChanges, TableReader, TreeValue, ValueError};

/// Form and destination of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSection {
    /// Form of a line.
    pub format: LogFormat,
    /// Lowest level that is written.
    pub level: LogLevel,
    /// File; `None` is the standard error stream.
    pub file: Option<PathBuf>,
    /// Size in bytes at which a new file begins.
    pub max_size: u64,
    /// Number of files that are kept, the current one included.
    pub max_files: u32,
}

impl Default for LogSection {
    /// Logfmt to the standard error stream; with a file, five of 10 MiB: days of an ordinary program on a
    /// small disk.
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

/// Form of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Logfmt,
    /// One JSON object per line.
    Json,
}

/// Level of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogLevel {
    /// No lines.
    Off,
    /// Failures.
    Error,
    /// Conditions that may fail soon.
    Warn,
    /// Changes of state.
    #[default]
    Info,
    /// Every call.
    Debug,
    /// Every step.
    Trace,
}

/// Destination of metrics as lines of JSON, in addition to `/metrics`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsSettings {
    /// Destination of the lines.
    pub ndjson: NdjsonTarget,
    /// Time between two lines.
    pub interval: Duration,
}

impl Default for MetricsSettings {
    /// Off; every ten seconds if on.
    fn default() -> Self {
        Self {
            ndjson: NdjsonTarget::default(),
            interval: Duration::from_secs(10),
        }
    }
}

/// Destination of lines of JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NdjsonTarget {
    /// None.
    #[default]
    Off,
    /// The standard output stream.
    Stdout,
    /// The end of this file.
    File(PathBuf),
}

/// Directory and size of the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSection {
    /// Directory; `None` keeps responses in memory only.
    pub dir: Option<PathBuf>,
    /// Largest size, in bytes.
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

impl Section for LogSection {
    const NAME: &'static str = "log";

    fn read(table: &TableReader<'_>, _: &Environment) -> Self {
        let default = Self::default();
        let format = table.read("format", |item| read_choice(item, &FORMATS));
        let level = table.read("level", |item| read_choice(item, &LEVELS));
        let file = table.read("file", read_path);
        let max_size = table.read("max_size", read_size);
        let max_files = table.read("max_files", |item| read_integer(item, 1..=MAX_FILES));
        Self {
            format: format.unwrap_or(default.format),
            level: level.unwrap_or(default.level),
            file,
            max_size: max_size.unwrap_or(default.max_size),
            max_files: max_files
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(default.max_files),
        }
    }

    /// A running log follows its level only.
    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([
            ("log.format", self.format != new.format),
            ("log.file", self.file != new.file),
            ("log.max_size", self.max_size != new.max_size),
            ("log.max_files", self.max_files != new.max_files),
        ])
    }
}

impl Section for MetricsSettings {
    const NAME: &'static str = "metrics";

    fn read(table: &TableReader<'_>, _: &Environment) -> Self {
        let default = Self::default();
        let ndjson = table.read("ndjson", read_ndjson);
        let interval = table.read("interval", read_positive_duration);
        Self {
            ndjson: ndjson.unwrap_or(default.ndjson),
            interval: interval.unwrap_or(default.interval),
        }
    }

    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([
            ("metrics.ndjson", self.ndjson != new.ndjson),
            ("metrics.interval", self.interval != new.interval),
        ])
    }
}

impl Section for CacheSection {
    const NAME: &'static str = "cache";

    fn read(table: &TableReader<'_>, _: &Environment) -> Self {
        let dir = table.read("dir", read_path);
        let size = table.read("size", read_size);
        Self {
            dir,
            size: size.unwrap_or(Self::default().size),
        }
    }

    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([
            ("cache.dir", self.dir != new.dir),
            ("cache.size", self.size != new.size),
        ])
    }
}

fn read_ndjson(item: &FieldValue<'_>) -> Result<NdjsonTarget, ValueError> {
    if let TreeValue::Table(_) = &item.node.value {
        let table = item.table()?;
        let file = table.read("file", read_path);
        table.finish();
        return file
            .map(NdjsonTarget::File)
            .ok_or_else(|| ValueError::new("this names no file").help("say `file = \"metrics.ndjson\"`"));
    }
    let words = [("off", &NdjsonTarget::Off), ("stdout", &NdjsonTarget::Stdout)];
    read_choice(item, &words).cloned()
}

/// More files help no reader of logs.
const MAX_FILES: u64 = 1_000;

const FORMATS: [(&str, LogFormat); 2] = [("logfmt", LogFormat::Logfmt), ("json", LogFormat::Json)];

const LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
