//! `outflow bulk status`, `pause`, `resume`, `cancel` and `release`: looking at jobs and steering them.

use clap::Args;
use serde_json::{Value, json};

use super::{AdminTarget, tables};
use crate::admin_client::{encoded, path};
use crate::exit::Exit;

/// Says how the jobs of a running program stand: all of them by tenant and action, or one action.
#[derive(Args)]
pub(crate) struct BulkStatusCommand {
    /// Only this action.
    action: Option<String>,
    #[command(flatten)]
    asked: AdminTarget,
}

/// Stops giving out jobs of a tenant or an action; what is under way goes on.
#[derive(Args)]
pub(crate) struct PauseCommand {
    #[command(flatten)]
    deed: BulkControl,
}

/// Goes on with jobs that were paused.
#[derive(Args)]
pub(crate) struct ResumeCommand {
    #[command(flatten)]
    deed: BulkControl,
}

/// Ends all jobs of a tenant or an action that have not begun.
#[derive(Args)]
pub(crate) struct CancelCommand {
    #[command(flatten)]
    deed: BulkControl,
}

/// Lets jobs of a tenant that were put off stand in line again at once.
#[derive(Args)]
pub(crate) struct ReleaseDeferred {
    /// The tenant.
    tenant: String,
    /// At most so many, those that are due first.
    most: Option<u64>,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    asked: AdminTarget,
}

/// Something that is done to the jobs of somebody.
#[derive(Args)]
struct BulkControl {
    #[command(flatten)]
    whose: ScopeArgs,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    asked: AdminTarget,
}

/// Whose jobs are meant.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct ScopeArgs {
    /// All jobs of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// All jobs of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
}

impl BulkStatusCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if let Some(action) = &self.action {
            let told = self
                .asked
                .get(&path([&"v1", &"bulk", &"actions", action]))?;
            return self.asked.print(&told, tables::action);
        }
        let mut told = self.asked.get("/v1/bulk")?;
        for list in ["tenants", "actions"] {
            let whole = self.fetch_all(list)?;
            if let Some(told) = told.as_object_mut() {
                told.insert(list.to_owned(), whole.into());
            }
        }
        self.asked.print(&told, tables::status)
    }

    /// All of a list, a page at a time; those that have work first.
    fn fetch_all(&self, list: &str) -> anyhow::Result<Vec<Value>> {
        let (mut whole, mut after) = (Vec::new(), String::new());
        loop {
            let page = self
                .asked
                .get(&format!("/v1/bulk/{list}?most={PAGE}{after}"))?;
            whole.extend(tables::list(&page, list).iter().cloned());
            match tables::part(&page, "next").as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
        whole.sort_by_key(|one| !tables::has_work(one));
        Ok(whole)
    }
}

impl PauseCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.deed.done("pause")
    }
}

impl ResumeCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.deed.done("resume")
    }
}

impl CancelCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.deed.done("cancel")
    }
}

impl ReleaseDeferred {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let place = path([&"v1", &"bulk", &"tenants", &self.tenant, &"release"]);
        let body = json!({ "most": self.most, "reason": self.reason });
        let told = self.asked.post(&place, &body)?;
        self.asked.print(&told, tables::control_result)
    }
}

impl BulkControl {
    fn done(self, what: &str) -> anyhow::Result<Exit> {
        let (kind, name) = match (&self.whose.tenant, &self.whose.action) {
            (Some(tenant), _) => ("tenants", tenant.as_str()),
            (None, action) => ("actions", action.as_deref().unwrap_or_default()),
        };
        let place = path([&"v1", &"bulk", &kind, &name, &what]);
        let told = self.asked.post(&place, &json!({ "reason": self.reason }))?;
        self.asked.print(&told, tables::control_result)
    }
}

/// As many of a list as a program gives out at once.
const PAGE: u32 = 1_000;
