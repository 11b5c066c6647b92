//! `outflow config`: the configuration as it is in effect, as it could be, and as editors know it.

mod default_file;
mod schema;
mod show;

use clap::Subcommand;

pub(crate) use show::{Effective, effective};

use crate::exit::Exit;
use crate::terminal::{answer, answer_json};

/// Shows the configuration: what is in effect and why, every key there is, and a schema for editors.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    Show(show::Show),
    /// Prints a JSON Schema of every key, for editors that know TOML.
    Schema,
    /// Prints every key with its default and what it means.
    Default,
}

impl ConfigCommand {
    /// Runs the one that was asked for.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Show(show) => return show.run(),
            Self::Schema => answer_json(&schema::document())?,
            Self::Default => answer(default_file::TEXT)?,
        }
        Ok(Exit::Done)
    }
}
