//! `outflow completions` and `outflow man`: what shells and readers of manuals want, from the same
//! source as the help.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::command_line::CommandLine;
use crate::exit::Exit;
use crate::terminal::answer_bytes;

/// Prints completions for a shell.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut CommandLine::command(),
            "outflow",
            &mut script,
        );
        answer_bytes(&script)?;
        Ok(Exit::Done)
    }
}

/// Prints the manual page, or writes one for each command.
#[derive(Args)]
pub(crate) struct Man {
    /// Write a page for each command into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let command = CommandLine::command();
        if let Some(dir) = self.dir {
            std::fs::create_dir_all(&dir)
                .and_then(|()| clap_mangen::generate_to(command, &dir))
                .with_context(|| format!("`{}` cannot be written to", dir.display()))?;
            return Ok(Exit::Done);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        answer_bytes(&page)?;
        Ok(Exit::Done)
    }
}
