//! Configuration: texts and an environment in, checked values out.
//!
//! [`Config::read`] takes what it is given and nothing else, so that it can be tested and fuzzed; which
//! files there are, which flags were given and when to read again is the program's business. A mistake
//! never stops the reading: all of them are reported at once, each with its line and what to write
//! instead. A configuration that has one is not used, not even in part.

use std::path::{Path, PathBuf};
use std::time::Duration;

mod api;
mod bulk;
mod collector;
mod credential;
mod diagnostic;
mod environment;
mod groups;
mod health;
mod human_units;
mod layers;
mod limits;
mod nesting_limit;
mod overrides;
mod pieces;
mod policy;
mod provenance;
mod rate_share;
mod reader;
mod redact;
mod render;
mod rules;
mod sections;
mod self_loop;
mod server;
mod source;
mod suggest;
mod syntax_hints;
mod tree;
mod units;
mod unreachable_routes;
mod value_notes;
mod value_readers;

use collector::DiagnosticCollector;
use reader::{TableReader, ValueError};
use self_loop::ListenAddresses;
use tree::SourceSpan;

pub use bulk::{
    BulkConfig, BulkRedis, BulkRetention, BulkScheduler, BulkShared, BulkStore, BulkTenant,
    BulkWorkers,
};
pub use diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics};
pub use environment::Environment;
pub use human_units::{InvalidValue, read_duration, read_share};
pub use overrides::{RuntimeOverrides, quoted};
pub use provenance::{ValueOrigin, ValueOrigins};
pub use render::RenderStyle;
pub use sections::{CacheSection, LogFormat, LogLevel, LogSection, MetricsSettings, NdjsonTarget};
pub use server::{AdminConfig, ListenTarget, ServerConfig};
pub use source::Source;

use crate::api::Api;

/// Everything that is configured.
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
/// let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty())?;
/// assert_eq!(config.apis[0].rules.limits.len(), 2);
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The APIs, in the order in which they were written.
    pub apis: Vec<Api>,
    /// How log lines are written.
    pub log: LogSection,
    /// Where metrics are written.
    pub metrics: MetricsSettings,
    /// Where answers are kept.
    pub cache: CacheSection,
    /// Where the program takes calls.
    pub server: ServerConfig,
    /// Where it is operated.
    pub admin: AdminConfig,
    /// How jobs are kept and worked on.
    pub bulk: BulkConfig,
    /// The files that it names and that were read with it: keys and tokens.
    pub files: Vec<PathBuf>,
    /// What is allowed and was hardly meant.
    pub warnings: Diagnostics,
    /// Where each value came from.
    pub origins: ValueOrigins,
}

/// Reads a duration as a configuration writes it: `10s`, `1m30s`, `250ms`.
///
/// # Errors
/// With what to write instead.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(outflow::config::duration("1.5s"), Ok(Duration::from_millis(1_500)));
/// assert!(outflow::config::duration("10").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(reader::ValueError::advice)
}

impl Config {
    /// Reads texts, later ones over earlier ones, and the environment over all.
    ///
    /// # Errors
    /// With every mistake in all of them, and the warnings among them, if one is more than a warning.
    pub fn read(sources: &[Source], environment: &Environment) -> Result<Self, Diagnostics> {
        let book = DiagnosticCollector::default();
        let root = layers::merged(sources, environment, &book);
        let fields = TableReader::new(&book, &root, SourceSpan::default(), "");
        let (log, metrics, cache) = (
            sections::log(&fields),
            sections::metrics(&fields),
            sections::cache(&fields),
        );
        let server = server::server(&fields, environment);
        let admin = server::admin(&fields, environment);
        let bulk = bulk::read(&fields, environment);
        let own = ListenAddresses {
            server: &server,
            admin: &admin,
        };
        let apis = apis(&fields, environment, &own);
        fields.finish();
        drop(fields);
        let files = book.files();
        let (mistakes, origins) = book.close();
        if mistakes.has_error() {
            return Err(mistakes);
        }
        Ok(Self {
            apis,
            log,
            metrics,
            cache,
            server,
            admin,
            bulk,
            files,
            warnings: mistakes,
            origins,
        })
    }

    /// Reads one file with the environment of this process, for a program that needs no more.
    ///
    /// # Errors
    /// As [`Config::read`], and if the file cannot be read or is not text.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let source = Source::from_file(path)?;
        Self::read(&[source], &Environment::of_process())
    }

    /// The API of this name.
    pub fn api(&self, name: &str) -> Option<&Api> {
        self.apis.iter().find(|api| api.name == name)
    }
}

/// APIs that were put together in code. There is no log: a library that nobody asked for one writes
/// none.
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
            server: ServerConfig::default(),
            admin: AdminConfig::default(),
            bulk: BulkConfig::default(),
            files: Vec::new(),
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

fn apis(root: &TableReader<'_>, environment: &Environment, own: &ListenAddresses<'_>) -> Vec<Api> {
    let mut apis = Vec::new();
    for (entry, item) in root.section("apis").entries() {
        let name = value_readers::name(&entry.name);
        let name = name.map_err(|wrong| root.book().report(entry.at, &item.key, wrong));
        let fields = item.section().map_err(|wrong| item.report(wrong));
        if let (Ok(name), Ok(fields)) = (name, fields) {
            let api = api::read(name, &fields, environment);
            apis.extend(api.inspect(|api| own.check(&fields, &api.base_url)));
        }
    }
    apis
}

/// The one mistake of a text that could not be had.
fn unreadable(name: &str, message: &str) -> Diagnostics {
    let book = DiagnosticCollector::default();
    book.add(Source::new(name, ""));
    let wrong = ValueError::new(message).help("give the name of a TOML file");
    book.report(SourceSpan::default(), "", wrong);
    book.close().0
}
