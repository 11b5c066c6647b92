//! `outflow config`: shows the configuration in effect, all keys, and a JSON Schema.

mod default_file;
mod health_values;
mod schema;
mod show;

use clap::Subcommand;

pub(crate) use show::{EffectiveValue, effective_values};

use crate::exit::Exit;
use crate::terminal::{answer, answer_json};

/// Show the configuration: values in effect with their origins, all keys, and a schema for editors.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    Show(show::ShowCommand),
    /// Print a JSON Schema of all keys, for editors of TOML files.
    Schema,
    /// Print all keys with their defaults and meanings.
    Default,
}

impl ConfigCommand {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Show(show) => return show.run(),
            Self::Schema => answer_json(&schema::document())?,
            Self::Default => answer(default_file::TEXT)?,
        }
        Ok(Exit::Done)
    }
}
