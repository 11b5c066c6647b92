//! The commands of the program, one file each.
//!
//! A command is its flags and a `run` that does the work and answers how the program ends, or the
//! error for the user. The enumeration is the whole list: what is not here cannot be called.

mod serve;
mod simulate;

use clap::Subcommand;

use crate::exit::Exit;

/// What the program can be told to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Simulate(simulate::Simulate),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Simulate(simulate) => simulate.run().map(|()| Exit::Done),
        }
    }
}
