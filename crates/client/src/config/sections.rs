//! Sections that apply to the whole client: log, metrics and cache.

use std::path::PathBuf;
use std::time::Duration;

use outflow_config::value_readers::{read_choice, read_integer, read_path, read_positive_duration, read_size};
use outflow_config::{
    Environment, FieldValue, Section, SectionChanges, TableReader, TreeValue, ValueError, read_fields,
};

use crate::log::LineFormat as LogFormat;

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

outflow_core::named_enum! {
    /// Level of a log line.
    #[derive(Default)]
    pub enum LogLevel {
        /// No lines.
        Off = "off",
        /// Failures.
        Error = "error",
        /// Conditions that may fail soon.
        Warn = "warn",
        /// Changes of state.
        #[default]
        Info = "info",
        /// Every call.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
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
        let mut section = Self::default();
        read_fields!(table => section,
            format: read_choice(&LogFormat::NAMED),
            level: read_choice(&LogLevel::NAMED),
            file: |item| read_path(item).map(Some),
            max_size: read_size,
            max_files: |item| read_integer(item, 1..=MAX_FILES),
        );
        section
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
        let mut section = Self::default();
        read_fields!(table => section, ndjson: read_ndjson, interval: read_positive_duration,);
        section
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
        let mut section = Self::default();
        read_fields!(table => section, dir: |item| read_path(item).map(Some), size: read_size,);
        section
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
    read_choice(&words)(item).cloned()
}

/// More files help no reader of logs.
const MAX_FILES: u32 = 1_000;
