//! Sources of the configuration: files in their order, and the environment over them.
//!
//! Start and reload read the same sources, so a reload never sees other files. Runtime overrides lie over all
//! of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outflow::config::{Diagnostics, Environment, RuntimeOverrides, Source, load, quoted};
use outflow_admin::AdminConfig;

use crate::config::ProgramConfig;

/// Files, texts and environment that configure the program.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    files: Vec<PathBuf>,
    /// Texts that are in no file, from flags and from `dev`.
    texts: Vec<Source>,
    environment: Environment,
    recover: Option<Duration>,
    /// No API is called.
    pub(crate) offline: bool,
    /// The bulk engine is enabled.
    pub(crate) bulk: bool,
}

impl ConfigSources {
    /// Creates sources of these files and the environment of this process.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            texts: Vec::new(),
            environment: Environment::of_process(),
            recover: None,
            offline: false,
            bulk: false,
        }
    }

    /// Adds a text over the files.
    #[must_use]
    pub fn with_text(mut self, text: Source) -> Self {
        self.texts.push(text);
        self
    }

    /// Replaces the environment.
    #[must_use]
    pub fn in_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the recovery period of every API that a reading finds.
    #[must_use]
    pub const fn with_auto_recover(mut self, every: Duration) -> Self {
        self.recover = Some(every);
        self
    }

    /// Forbids all API calls, also to APIs that a later reading adds.
    #[must_use]
    pub const fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// Enables the bulk engine.
    #[must_use]
    pub const fn bulk(mut self) -> Self {
        self.bulk = true;
        self
    }

    /// Returns the files in their order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// Returns all diagnostics of all sources. An unreadable file is one.
    pub fn read(&self) -> Result<ProgramConfig, Diagnostics> {
        self.read_with(&RuntimeOverrides::default())
    }

    /// Reads the section `[admin]` alone. Other sections may have errors.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn read_admin(&self) -> Result<AdminConfig, Diagnostics> {
        let files: Result<Vec<_>, _> = self.files.iter().map(Source::from_file).collect();
        Ok(load(&files?, &self.environment).read(&self.environment))
    }

    /// Reads all sources with runtime overrides over them.
    ///
    /// # Errors
    /// As [`ConfigSources::read`].
    pub fn read_with(&self, overrides: &RuntimeOverrides) -> Result<ProgramConfig, Diagnostics> {
        let mut sources = Vec::new();
        for file in &self.files {
            sources.push(Source::from_file(file)?);
        }
        sources.extend(self.texts.iter().cloned());
        if let Some(every) = self.recover {
            let config = ProgramConfig::read(&sources, &self.environment)?;
            sources.push(auto_recover_source(&config, every));
        }
        if !overrides.is_empty() {
            sources.push(overrides.source());
        }
        ProgramConfig::read(&sources, &self.environment)
    }
}

/// Sets one period for every API. Each reading creates it again: for a removed API it would be an error, and
/// a new API would lack it.
fn auto_recover_source(config: &ProgramConfig, every: Duration) -> Source {
    let mut text = String::new();
    for api in &config.client.apis {
        let (name, millis) = (quoted(&api.name), every.as_millis());
        // Writing to a string cannot fail.
        let _whole = writeln!(text, "apis.{name}.health.auto_recover = \"{millis}ms\"");
    }
    Source::new("--auto-recover", text)
}
