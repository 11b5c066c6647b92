//! `outflow bulk dead`: lists, retries and purges dead letters.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::tables;
use crate::admin_client::AdminTarget;
use crate::commands::json_fields::{list, part};
use crate::exit::Exit;

/// List, retry or purge jobs that failed permanently.
#[derive(Subcommand)]
pub(crate) enum DeadCommand {
    List(ListCommand),
    /// Queue dead letters again, with fresh attempts.
    Retry(LetterFilter),
    /// Delete dead letters.
    Purge(LetterFilter),
}

/// List dead letters and their errors, the oldest first.
#[derive(Args)]
pub(crate) struct ListCommand {
    /// List dead letters after this cursor.
    #[arg(long, value_name = "CURSOR", default_value_t = 0)]
    after: u64,
    /// List at most this number; a program returns no more than a thousand at once.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: u64,
    #[command(flatten)]
    target: AdminTarget,
}

/// Arguments that select dead letters.
#[derive(Args)]
pub(crate) struct LetterFilter {
    #[command(flatten)]
    pick: LetterArgs,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct LetterArgs {
    /// Select these jobs.
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Select all of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Select all of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Select all.
    #[arg(long)]
    all: bool,
}

impl DeadCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(),
            Self::Retry(filter) => filter.send("retry"),
            Self::Purge(filter) => filter.send("purge"),
        }
    }
}

impl ListCommand {
    fn run(self) -> anyhow::Result<Exit> {
        let path = format!("/v1/bulk/dead?after={}&most={}", self.after, self.limit);
        let mut page = self.target.get(&path)?;
        if let Some(total) = self.total_beyond(&page)?
            && let Some(page) = page.as_object_mut()
        {
            page.insert("all".to_owned(), total);
        }
        self.target.print(&page, tables::dead)
    }

    /// Returns the total number of dead letters, if some follow this page.
    fn total_beyond(&self, page: &Value) -> anyhow::Result<Option<Value>> {
        let Some(next) = part(page, "next").as_u64() else {
            return Ok(None);
        };
        let following = self.target.get(&format!("/v1/bulk/dead?after={next}&most=1"))?;
        if list(&following, "dead").is_empty() {
            return Ok(None);
        }
        let report = self.target.get("/v1/bulk")?;
        Ok(Some(part(part(&report, "jobs"), "dead").clone()))
    }
}

impl LetterFilter {
    fn send(self, operation: &str) -> anyhow::Result<Exit> {
        let pick = &self.pick;
        let jobs = (!pick.jobs.is_empty()).then_some(&pick.jobs);
        let body: Value = json!({
            "all": pick.all, "tenant": pick.tenant, "action": pick.action, "jobs": jobs,
            "reason": self.reason,
        });
        let path = format!("/v1/bulk/dead/{operation}");
        let result = self.target.post(&path, &body)?;
        self.target.print(&result, tables::control_result)
    }
}
