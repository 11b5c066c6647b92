//! `outflow bulk`: runs jobs of many tenants from a durable store.
//!
//! `run` takes a file, stores its jobs in a directory and ends with them. All other commands call a program
//! that was started with `outflow serve --bulk`.

mod control;
mod dead_letters;
mod input;
mod run;
mod submit;
mod tables;
mod watch;

use clap::Subcommand;

use crate::exit::Exit;
use crate::terminal::Terminal;

/// Run jobs for many tenants, fairly and at the limit, without losing one.
#[derive(Subcommand)]
pub(crate) enum BulkCommand {
    Run(run::RunCommand),
    Submit(submit::SubmitCommand),
    Status(control::BulkStatusCommand),
    Watch(watch::WatchCommand),
    /// Pause a tenant or an action; jobs in flight go on.
    Pause(control::BulkControl),
    /// Resume a paused tenant or action.
    Resume(control::BulkControl),
    /// Cancel all jobs of a tenant or an action that have not started.
    Cancel(control::BulkControl),
    #[command(subcommand)]
    Dead(dead_letters::DeadCommand),
    Results(watch::ResultsCommand),
    Release(control::ReleaseDeferred),
}

impl BulkCommand {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        match self {
            Self::Run(run) => run.run(terminal),
            Self::Submit(submit) => submit.run(terminal),
            Self::Status(status) => status.run(),
            Self::Watch(watch) => watch.run(terminal),
            Self::Pause(control) => control.send("pause"),
            Self::Resume(control) => control.send("resume"),
            Self::Cancel(control) => control.send("cancel"),
            Self::Dead(dead) => dead.run(),
            Self::Results(results) => results.run(),
            Self::Release(release) => release.run(),
        }
    }
}
