//! `outflow bulk dead`: jobs that failed for good or too often.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::tables::part;
use super::{AdminTarget, tables};
use crate::exit::Exit;

/// Looks at jobs that failed for good, tries them again or throws them away.
#[derive(Subcommand)]
pub(crate) enum DeadCommand {
    List(List),
    Retry(RetryCommand),
    Purge(Purge),
}

/// Lists dead letters with why they died, the oldest first.
#[derive(Args)]
pub(crate) struct List {
    /// Those after this place.
    #[arg(long, value_name = "PLACE", default_value_t = 0)]
    after: u64,
    /// At most so many; a program tells no more than a thousand at once.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    most: u64,
    #[command(flatten)]
    asked: AdminTarget,
}

/// Lets dead letters stand in line again, as if they had never been tried.
#[derive(Args)]
pub(crate) struct RetryCommand {
    #[command(flatten)]
    which: LetterFilter,
}

/// Throws dead letters away.
#[derive(Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    which: LetterFilter,
}

/// Which of them are meant.
#[derive(Args)]
struct LetterFilter {
    #[command(flatten)]
    pick: LetterArgs,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    asked: AdminTarget,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct LetterArgs {
    /// These jobs.
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// All of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// All of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// All there are.
    #[arg(long)]
    all: bool,
}

impl DeadCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(),
            Self::Retry(retry) => retry.which.done("retry"),
            Self::Purge(purge) => purge.which.done("purge"),
        }
    }
}

impl List {
    fn run(self) -> anyhow::Result<Exit> {
        let place = format!("/v1/bulk/dead?after={}&most={}", self.after, self.most);
        let mut told = self.asked.get(&place)?;
        if let Some(more) = self.more(&told)?
            && let Some(told) = told.as_object_mut()
        {
            told.insert("all".to_owned(), more);
        }
        self.asked.print(&told, tables::dead)
    }

    /// How many there are in all, if there are any behind these.
    fn more(&self, told: &Value) -> anyhow::Result<Option<Value>> {
        let Some(next) = part(told, "next").as_u64() else {
            return Ok(None);
        };
        let behind = self
            .asked
            .get(&format!("/v1/bulk/dead?after={next}&most=1"))?;
        if tables::list(&behind, "dead").is_empty() {
            return Ok(None);
        }
        let all = self.asked.get("/v1/bulk")?;
        Ok(Some(part(part(&all, "jobs"), "dead").clone()))
    }
}

impl LetterFilter {
    fn done(self, what: &str) -> anyhow::Result<Exit> {
        let pick = &self.pick;
        let jobs = (!pick.jobs.is_empty()).then_some(&pick.jobs);
        let body: Value = json!({
            "all": pick.all, "tenant": pick.tenant, "action": pick.action, "jobs": jobs,
            "reason": self.reason,
        });
        let told = self.asked.post(&format!("/v1/bulk/dead/{what}"), &body)?;
        self.asked.print(&told, tables::control_result)
    }
}
