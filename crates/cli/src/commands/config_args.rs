//! Which configuration a command works with.

use std::path::{Path, PathBuf};

use clap::Args;
use outflow::Config;
use outflow::config::{LogLevel, NdjsonTarget};

use crate::command_line::UsageError;
use crate::config_sources::ConfigSources;

/// The files that a command reads.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// A configuration file; later ones lie over earlier ones.
    #[arg(long, short, value_name = "FILE", default_value = USUAL)]
    config: Vec<PathBuf>,
}

impl ConfigArgs {
    /// The files, once it is known that they are there.
    pub(crate) fn sources(&self) -> anyhow::Result<ConfigSources> {
        found(self.config.clone())
    }
}

/// These files, or the usual one if none is named, whether or not they are there.
pub(crate) fn named(mut files: Vec<PathBuf>) -> ConfigSources {
    if files.is_empty() {
        files.push(PathBuf::from(USUAL));
    }
    ConfigSources::new(files)
}

/// The same, once it is known that they are.
pub(crate) fn found(files: Vec<PathBuf>) -> anyhow::Result<ConfigSources> {
    let sources = named(files);
    if let Some(missing) = sources.files().find(|file| !file.exists()) {
        return Err(missing_file(missing).into());
    }
    Ok(sources)
}

/// Without log and metrics, for commands whose answer is their output.
pub(crate) fn quiet(mut config: Config) -> Config {
    config.log.level = LogLevel::Off;
    config.metrics.ndjson = NdjsonTarget::Off;
    config
}

fn missing_file(file: &Path) -> UsageError {
    let file = file.display();
    UsageError(format!(
        "there is no `{file}` here: write one with `outflow init`, or name the file that you have"
    ))
}

/// What is read if nothing is named.
pub(crate) const USUAL: &str = "outflow.toml";
