//! The commands of the program, one file each.
//!
//! A command is its flags and a `run` that does the work and returns the error for the user. The
//! enumeration is the whole list: what is not here cannot be called.

mod simulate;

use clap::Subcommand;

/// What the program can be told to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Simulate(simulate::Simulate),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Simulate(simulate) => simulate.run(),
        }
    }
}
