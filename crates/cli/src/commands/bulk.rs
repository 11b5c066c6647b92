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

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use super::control::AdminApi;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json};

/// Run jobs for many tenants, fairly and at the limit, without losing one.
#[derive(Subcommand)]
pub(crate) enum BulkCommand {
    Run(run::RunCommand),
    Submit(submit::SubmitCommand),
    Status(control::BulkStatusCommand),
    Watch(watch::WatchCommand),
    Pause(control::PauseCommand),
    Resume(control::ResumeCommand),
    Cancel(control::CancelCommand),
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
            Self::Pause(pause) => pause.run(),
            Self::Resume(resume) => resume.run(),
            Self::Cancel(cancel) => cancel.run(),
            Self::Dead(dead) => dead.run(),
            Self::Results(results) => results.run(),
            Self::Release(release) => release.run(),
        }
    }
}

/// Running program, and the form of its response.
#[derive(Args)]
struct AdminTarget {
    #[command(flatten)]
    admin: AdminApi,
    /// Print the response as one JSON document.
    #[arg(long)]
    json: bool,
}

impl AdminTarget {
    fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.admin.get(path)
    }

    fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.admin.send(Method::POST, path, Some(body))
    }

    fn print(&self, document: &Value, table: impl Fn(&Value) -> String) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(document)?;
        } else {
            answer(&table(document))?;
        }
        Ok(Exit::Done)
    }
}
