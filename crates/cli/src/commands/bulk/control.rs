//! `outflow bulk status`, `pause`, `resume`, `cancel` and `release`: inspect and control jobs.

use clap::Args;
use serde_json::{Value, json};

use super::{AdminTarget, tables};
use crate::admin_client::{encoded, path};
use crate::exit::Exit;

/// Show the jobs of a running program: all by tenant and action, or one action.
#[derive(Args)]
pub(crate) struct BulkStatusCommand {
    /// Show only this action.
    action: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Pause a tenant or an action; jobs in flight go on.
#[derive(Args)]
pub(crate) struct PauseCommand {
    #[command(flatten)]
    control: BulkControl,
}

/// Resume a paused tenant or action.
#[derive(Args)]
pub(crate) struct ResumeCommand {
    #[command(flatten)]
    control: BulkControl,
}

/// Cancel all jobs of a tenant or an action that have not started.
#[derive(Args)]
pub(crate) struct CancelCommand {
    #[command(flatten)]
    control: BulkControl,
}

/// Queue deferred jobs of a tenant again at once.
#[derive(Args)]
pub(crate) struct ReleaseDeferred {
    /// Release jobs of this tenant.
    tenant: String,
    /// Release at most this number of jobs, the earliest first.
    #[arg(value_name = "COUNT")]
    limit: Option<u64>,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Arguments of a control command.
#[derive(Args)]
struct BulkControl {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Scope of a control command.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct ScopeArgs {
    /// Select all jobs of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Select all jobs of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
}

impl BulkStatusCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if let Some(action) = &self.action {
            let report = self.target.get(&path([&"v1", &"bulk", &"actions", action]))?;
            return self.target.print(&report, tables::action);
        }
        let mut report = self.target.get("/v1/bulk")?;
        for list in ["tenants", "actions"] {
            let entries = self.fetch_all(list)?;
            if let Some(report) = report.as_object_mut() {
                report.insert(list.to_owned(), entries.into());
            }
        }
        self.target.print(&report, tables::status)
    }

    /// Fetches all pages of a list. Entries with work come first.
    fn fetch_all(&self, list: &str) -> anyhow::Result<Vec<Value>> {
        let (mut entries, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.target.get(&format!("/v1/bulk/{list}?most={PAGE}{after}"))?;
            entries.extend(tables::list(&page, list).iter().cloned());
            match tables::part(&page, "next").as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
        entries.sort_by_key(|one| !tables::has_work(one));
        Ok(entries)
    }
}

impl PauseCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.control.send("pause")
    }
}

impl ResumeCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.control.send("resume")
    }
}

impl CancelCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.control.send("cancel")
    }
}

impl ReleaseDeferred {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let path = path([&"v1", &"bulk", &"tenants", &self.tenant, &"release"]);
        let body = json!({ "most": self.limit, "reason": self.reason });
        let result = self.target.post(&path, &body)?;
        self.target.print(&result, tables::control_result)
    }
}

impl BulkControl {
    fn send(self, operation: &str) -> anyhow::Result<Exit> {
        let (kind, name) = match (&self.scope.tenant, &self.scope.action) {
            (Some(tenant), _) => ("tenants", tenant.as_str()),
            (None, action) => ("actions", action.as_deref().unwrap_or_default()),
        };
        let path = path([&"v1", &"bulk", &kind, &name, &operation]);
        let result = self.target.post(&path, &json!({ "reason": self.reason }))?;
        self.target.print(&result, tables::control_result)
    }
}

/// Largest page that a program returns.
const PAGE: u32 = 1_000;
