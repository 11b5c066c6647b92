//! Where the configuration comes from: files in their order, and the environment over them.
//!
//! The same sources are read at the start and at every reload, so that a reload can never see other
//! files than the start did. What is set while the program runs lies over all of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outflow::config::{Diagnostics, Environment, RuntimeOverrides, Source, quoted};

use crate::config::ProgramConfig;

/// The files and the environment that configure the program.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    files: Vec<PathBuf>,
    /// Texts that no file holds: what flags say, and what `dev` makes up.
    texts: Vec<Source>,
    environment: Environment,
    recover: Option<Duration>,
    offline: bool,
    bulk: bool,
}

impl ConfigSources {
    /// These files, with the environment of this process over them.
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

    /// The same, and this text over the files.
    #[must_use]
    pub fn with(mut self, text: Source) -> Self {
        self.texts.push(text);
        self
    }

    /// The same, with this environment.
    #[must_use]
    pub fn in_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The same, with this period of recovery for every API that there is when they are read.
    #[must_use]
    pub const fn recovering(mut self, every: Duration) -> Self {
        self.recover = Some(every);
        self
    }

    /// The same, and no API is called: also none that a later reading adds.
    #[must_use]
    pub const fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// The same, and the program works on jobs, too.
    #[must_use]
    pub const fn bulk(mut self) -> Self {
        self.bulk = true;
        self
    }

    /// Whether the program works on jobs, too.
    pub(crate) const fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// Whether no API is to be called.
    pub(crate) const fn is_offline(&self) -> bool {
        self.offline
    }

    /// The files, in their order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// With every mistake in all of it. A file that cannot be read is one.
    pub fn read(&self) -> Result<ProgramConfig, Diagnostics> {
        self.read_under(&RuntimeOverrides::default())
    }

    /// The same, with what was set while the program runs over it.
    ///
    /// # Errors
    /// As [`ConfigSources::read`].
    pub fn read_under(&self, runtime: &RuntimeOverrides) -> Result<ProgramConfig, Diagnostics> {
        let mut sources = Vec::new();
        for file in &self.files {
            sources.push(Source::from_file(file)?);
        }
        sources.extend(self.texts.iter().cloned());
        if let Some(every) = self.recover {
            let config = ProgramConfig::read(&sources, &self.environment)?;
            sources.push(recovery(&config, every));
        }
        if !runtime.is_empty() {
            sources.push(runtime.source());
        }
        ProgramConfig::read(&sources, &self.environment)
    }
}

/// The same period for every API. Made anew at each reading: about an API that is gone it would be a
/// mistake, and one that is new would be without it.
fn recovery(config: &ProgramConfig, every: Duration) -> Source {
    let mut text = String::new();
    for api in &config.client.apis {
        let (name, millis) = (quoted(&api.name), every.as_millis());
        // Writing to a string cannot fail.
        let _whole = writeln!(text, "apis.{name}.health.auto_recover = \"{millis}ms\"");
    }
    Source::new("--auto-recover", text)
}
