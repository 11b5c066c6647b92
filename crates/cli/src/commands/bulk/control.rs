//! `outflow bulk status`, `pause`, `resume`, `cancel` and `release`: inspect and control jobs.

use clap::Args;
use serde_json::{Value, json};

use super::tables;
use crate::admin_client::{AdminTarget, encoded, path};
use crate::commands::json_fields::{list, part};
use crate::exit::Exit;

/// Show the jobs of a running program: all by tenant and action, or one action.
#[derive(Args)]
pub(crate) struct BulkStatusCommand {
    /// Show only this action.
    action: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
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
pub(crate) struct BulkControl {
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
            let report = self.target.get(&path(["v1", "bulk", "actions", action]))?;
            return self.target.print(&report, tables::action);
        }
        let mut report = self.target.get("/v1/bulk")?;
        for name in ["tenants", "actions"] {
            let entries = self.fetch_all(name)?;
            if let Some(report) = report.as_object_mut() {
                report.insert(name.to_owned(), entries.into());
            }
        }
        self.target.print(&report, tables::status)
    }

    /// Fetches all pages of a list. Entries with work come first.
    fn fetch_all(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let (mut entries, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.target.get(&format!("/v1/bulk/{name}?most={PAGE}{after}"))?;
            entries.extend(list(&page, name).iter().cloned());
            match part(&page, "next").as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
        entries.sort_by_key(|one| !tables::has_work(one));
        Ok(entries)
    }
}

impl ReleaseDeferred {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let path = path(["v1", "bulk", "tenants", &self.tenant, "release"]);
        let body = json!({ "most": self.limit, "reason": self.reason });
        let result = self.target.post(&path, &body)?;
        self.target.print(&result, tables::control_result)
    }
}

impl BulkControl {
    pub(super) fn send(self, operation: &str) -> anyhow::Result<Exit> {
        let (kind, name) = match (&self.scope.tenant, &self.scope.action) {
            (Some(tenant), _) => ("tenants", tenant.as_str()),
            (None, action) => ("actions", action.as_deref().unwrap_or_default()),
        };
        let path = path(["v1", "bulk", kind, name, operation]);
        let result = self.target.post(&path, &json!({ "reason": self.reason }))?;
        self.target.print(&result, tables::control_result)
    }
}

/// Largest page that a program returns.
const PAGE: u32 = 1_000;
