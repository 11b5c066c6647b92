//! Configuration of the client: texts and an environment in, checked values out.
//!
//! The client reads the sections that it uses: `[apis]`, `[cache]`, `[log]`, `[metrics]` and `[shared]`. The program
//! has further sections in the same file, and reads them from the same [`Document`]. [`Config::read`]
//! uses nothing but its arguments, so that it can be tested and fuzzed. It reports all errors at once,
//! each with its line and its remedy; a configuration with an error is not used, not even in part.

mod api;
mod credential;
mod groups;
mod health;
mod http_values;
mod layers;
mod limits;
mod operating_variables;
mod policy;
mod rate_share;
mod rules;
mod sections;
mod shared;
mod unreachable_routes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outflow_config::TableReader;
use outflow_config::value_readers::read_name;
use outflow_core::QuotaLedger;
use secrecy::SecretString;

pub use layers::load;
pub use operating_variables::{retain_apis, set_variable};
pub use outflow_config::{
    Diagnostic, DiagnosticSeverity, Diagnostics, Document, Environment, InvalidValue, ReadSummary, RenderStyle,
    RuntimeOverrides, Section, SectionChanges, Source, ValueOrigin, ValueOrigins, quoted, read_duration, read_share,
    show_name, show_value,
};
pub use sections::{CacheSection, LogLevel, LogSection, MetricsSettings, NdjsonTarget};
pub use shared::{SharedLimits, SharedRedis, SharedSection};

use crate::api::Api;
pub use crate::log::LineFormat as LogFormat;

/// The client's configuration.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = r#"
///     [apis.stock]
///     base_url = "https://api.stock.example"
///     limits = ["10/s", "100/min"]
///     timeout = "8s"
/// "#;
/// let environment = Environment::from_iter([("OUTFLOW_APIS__STOCK__TIMEOUT", "5s")]);
/// let config = Config::read(&[Source::new("outflow.toml", text)], &environment)?;
/// assert_eq!(config.apis[0].rules.limits.len(), 2);
/// assert_eq!(config.apis[0].timeouts.attempt.as_secs(), 5);
/// let origin = |key| config.origins.get(key).unwrap().to_string();
/// assert_eq!(origin("apis.stock.base_url"), "outflow.toml:3");
/// assert_eq!(origin("apis.stock.read_timeout"), "default");
/// # Ok::<(), outflow::config::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// APIs, in the order of the text.
    pub apis: Vec<Api>,
    /// Form and file of the log.
    pub log: LogSection,
    /// File of the metrics.
    pub metrics: MetricsSettings,
    /// Directory and size of the cache.
    pub cache: CacheSection,
    /// Limits that processes share. A library shares none unless the file says so.
    pub shared: SharedSection,
    /// Ledger of the shared limits, instead of the one that `shared` names.
    pub ledger: Option<Arc<dyn QuotaLedger>>,
    /// Files that the configuration names and that were read with it: keys and tokens.
    pub files: Vec<PathBuf>,
    /// Every secret of the document, of other sections too. No log line contains one.
    pub secrets: Vec<SecretString>,
    /// Warnings of the document.
    pub warnings: Diagnostics,
    /// Origin of each value.
    pub origins: ValueOrigins,
}

impl Config {
    /// Reads texts, later ones over earlier ones, and the environment over all. The contents of the
    /// program's own sections are ignored.
    ///
    /// # Errors
    /// Returns all diagnostics, warnings included, if one of them is an error.
    pub fn read(sources: &[Source], environment: &Environment) -> Result<Self, Diagnostics> {
        let document = load(sources, environment);
        let config = Self::read_sections(&document, environment);
        Ok(config.with_summary(document.close(&SECTIONS)?))
    }

    /// Reads one file with the environment of this process.
    ///
    /// # Errors
    /// Returns diagnostics as [`Config::read`], and if the file cannot be read or is not text.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let source = Source::from_file(path)?;
        Self::read(&[source], &Environment::of_process())
    }

    /// Reads the client's sections of a document, of which the program reads the others.
    pub fn read_sections(document: &Document, environment: &Environment) -> Self {
        Self {
            log: document.read(environment),
            metrics: document.read(environment),
            cache: document.read(environment),
            shared: document.read(environment),
            ledger: None,
            ..Self::from(read_apis(&document.root(), environment))
        }
    }

    /// Adds the result of the whole reading.
    #[must_use]
    pub fn with_summary(self, summary: ReadSummary) -> Self {
        Self {
            files: summary.files,
            secrets: summary.secrets,
            warnings: summary.warnings,
            origins: summary.origins,
            ..self
        }
    }

    /// Returns the API of this name.
    pub fn api(&self, name: &str) -> Option<&Api> {
        self.apis.iter().find(|api| api.name == name)
    }
}

/// Configures APIs that were built in code, without a log: a library writes none by itself.
impl From<Vec<Api>> for Config {
    fn from(apis: Vec<Api>) -> Self {
        Self {
            apis,
            log: LogSection {
                level: LogLevel::Off,
                ..LogSection::default()
            },
            metrics: MetricsSettings::default(),
            cache: CacheSection::default(),
            shared: SharedSection::default(),
            ledger: None,
            files: Vec::new(),
            secrets: Vec::new(),
            warnings: Diagnostics::default(),
            origins: ValueOrigins::default(),
        }
    }
}

impl<const N: usize> From<[Api; N]> for Config {
    fn from(apis: [Api; N]) -> Self {
        Self::from(Vec::from(apis))
    }
}

fn read_apis(root: &TableReader<'_>, environment: &Environment) -> Vec<Api> {
    let apis = root.section("apis");
    let mut read = Vec::new();
    for (entry, item) in apis.entries() {
        let name = read_name(&entry.name).map_err(|error| apis.report_name(entry, error));
        let table = item.section().map_err(|error| item.report(error));
        if let (Ok(name), Ok(table)) = (name, table) {
            read.extend(api::read_api(name, &table, environment));
        }
    }
    read
}

/// Sections of a configuration file: the client's own, and those of the program.
pub const SECTIONS: [&str; 8] = ["log", "metrics", "cache", "shared", "server", "admin", "bulk", "apis"];
