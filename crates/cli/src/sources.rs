//! Where the configuration comes from: files in their order, and the environment over them.
//!
//! The same sources are read at the start and at every reload, so that a reload can never see other
//! files than the start did. What is set while the program runs lies over all of them.

use std::path::{Path, PathBuf};

use outflow::Config;
use outflow::config::{Environment, Mistakes, Runtime, Source};

/// The files and the environment that configure the program.
#[derive(Clone, Debug)]
pub struct Sources {
    files: Vec<PathBuf>,
    /// Texts that no file holds: what flags say, and what `dev` makes up.
    texts: Vec<Source>,
    environment: Environment,
}

impl Sources {
    /// These files, with the environment of this process over them.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            texts: Vec::new(),
            environment: Environment::of_process(),
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

    /// The files, in their order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// With every mistake in all of it. A file that cannot be read is one.
    pub fn read(&self) -> Result<Config, Mistakes> {
        self.read_under(&Runtime::default())
    }

    /// The same, with what was set while the program runs over it.
    ///
    /// # Errors
    /// As [`Sources::read`].
    pub fn read_under(&self, runtime: &Runtime) -> Result<Config, Mistakes> {
        let mut sources = Vec::new();
        for file in &self.files {
            sources.push(Source::from_file(file)?);
        }
        sources.extend(self.texts.iter().cloned());
        if !runtime.is_empty() {
            sources.push(runtime.source());
        }
        Config::read(&sources, &self.environment)
    }
}
