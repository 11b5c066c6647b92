//! Configuration files of a command.

use std::path::PathBuf;

use clap::Args;
use outflow::Config;
use outflow::config::{LogLevel, NdjsonTarget};

use crate::command_line::UsageError;
use crate::config_sources::ConfigSources;

/// Configuration files of a command.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// Read this configuration file; later files override earlier ones.
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: Vec<PathBuf>,
}

impl ConfigArgs {
    /// Returns the sources, or an error if a file does not exist.
    pub(crate) fn sources(&self) -> anyhow::Result<ConfigSources> {
        existing_sources(self.config.clone())
    }

    /// Returns the sources of a command that also works without a configuration: the default file may be absent.
    pub(crate) fn optional_sources(&self) -> anyhow::Result<ConfigSources> {
        let is_default = self.config.iter().all(|file| file.as_os_str() == DEFAULT_FILE);
        if is_default && self.config.iter().all(|file| !file.exists()) {
            return Ok(ConfigSources::new(Vec::new()));
        }
        self.sources()
    }
}

/// Returns sources of these files, or of the default file. The files may not exist.
pub(crate) fn sources_of(mut files: Vec<PathBuf>) -> ConfigSources {
    if files.is_empty() {
        files.push(PathBuf::from(DEFAULT_FILE));
    }
    ConfigSources::new(files)
}

/// Returns sources of these files, or of the default file, all of which must exist.
pub(crate) fn existing_sources(files: Vec<PathBuf>) -> anyhow::Result<ConfigSources> {
    let sources = sources_of(files);
    if let Some(missing) = sources.files().find(|file| !file.exists()) {
        let file = missing.display();
        let message = format!("there is no `{file}`: create one with `outflow init`, or name another file");
        return Err(UsageError(message).into());
    }
    Ok(sources)
}

/// Turns off log and metrics, for commands that print a result.
pub(crate) fn without_log(mut config: Config) -> Config {
    config.log.level = LogLevel::Off;
    config.metrics.ndjson = NdjsonTarget::Off;
    config
}

/// File that is read if the command line names none.
pub(crate) const DEFAULT_FILE: &str = "outflow.toml";
