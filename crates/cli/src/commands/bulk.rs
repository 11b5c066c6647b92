//! `outflow bulk`: many calls for many tenants, kept until they are done.
//!
//! `run` needs nothing else: it takes a file, keeps its jobs in a directory and ends with them. All others
//! talk with a program that was started with `outflow serve --bulk`.

mod input;
mod run;

use clap::Subcommand;

use crate::exit::Exit;
use crate::terminal::Terminal;

/// Makes many calls for many tenants, fairly and at the limit; nothing is lost.
#[derive(Subcommand)]
pub(crate) enum BulkCommand {
    Run(run::Run),
}

impl BulkCommand {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        match self {
            Self::Run(run) => run.run(terminal),
        }
    }
}
