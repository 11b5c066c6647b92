//! `outflow completions` and `outflow man`: shell completions and manual pages, generated from the help.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::command_line::CommandLine;
use crate::exit::Exit;
use crate::terminal::answer_bytes;

/// Print completions for a shell.
#[derive(Args)]
pub(crate) struct CompletionsCommand {
    /// Use the syntax of this shell.
    shell: Shell,
}

impl CompletionsCommand {
    /// Prints the completions.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "outflow", &mut script);
        answer_bytes(&script)?;
        Ok(Exit::Done)
    }
}

/// Print the manual page, or write a page for each command.
#[derive(Args)]
pub(crate) struct ManCommand {
    /// Write a page for each command to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

impl ManCommand {
    /// Prints the page, or writes all pages.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let command = CommandLine::command();
        if let Some(dir) = self.dir {
            std::fs::create_dir_all(&dir)
                .and_then(|()| clap_mangen::generate_to(command, &dir))
                .with_context(|| format!("cannot write to `{}`", dir.display()))?;
            return Ok(Exit::Done);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        answer_bytes(&page)?;
        Ok(Exit::Done)
    }
}
