//! Routes of the bulk engine: jobs, actions, tenants and dead letters.
//!
//! All data comes from the store, so that every machine of a fleet reports the same. A program without an engine
//! responds with the command that starts one.

pub(crate) mod actions;
pub(crate) mod control;
pub(crate) mod dead_letters;
mod events;
pub(crate) mod jobs;
pub(crate) mod tenants;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use outflow_bulk::{BulkError, RunningEngine, views};
use outflow_store::{Name, PageRequest, StoreControl, StoreError, TenantStore};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

pub(crate) use events::forward_events;

use super::audit::{AuditActor, AuditChange};
use super::problem::{AdminProblem, JsonResult};
use super::queries::{QueryResult, parse_query};
use super::{Admin, AdminState};

/// Returns the counts of all jobs and the usage of the workers.
pub(crate) async fn summary(State(admin): AdminState) -> JsonResult {
    let bulk = admin.bulk()?;
    let (store, engine) = (bulk.store(), bulk.engine());
    let (counts, active) = (store.job_counts().await?, store.active_tenants().await?);
    let (all, busy) = engine.worker_usage();
    Ok(Json(json!({
        "jobs": views::job_counts(&counts),
        "active_tenants": active,
        "workers": { "all": all, "busy": busy },
        "bottlenecks": engine.bottlenecks(counts.queued),
        "waits": engine.waits(&counts).await?,
        "scheduler": engine.settings().scheduler.as_str(),
        "store": store.kind(),
        "queue_max": engine.settings().queue_max,
        "saved_spins": engine.saved_spins(),
    })))
}

/// Page of a list, after a name or a position.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery<T> {
    after: Option<T>,
    most: Option<usize>,
}

fn name_page(query: QueryResult<PageQuery<SmolStr>>) -> Result<PageRequest, AdminProblem> {
    let page = parse_query(query)?;
    let after = page.after.as_deref().map(parse_name).transpose()?;
    let max = page_size(page.most);
    Ok(PageRequest { after, max })
}

fn position_page(query: QueryResult<PageQuery<u64>>) -> Result<(u64, usize), AdminProblem> {
    let page = parse_query(query)?;
    Ok((page.after.unwrap_or(0), page_size(page.most)))
}

fn page_size(requested: Option<usize>) -> usize {
    requested.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
}

/// Reason for a change, for the audit log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditReason {
    pub(crate) reason: Option<SmolStr>,
}

/// Builds the response to a change: its name and the number of jobs.
fn change_response(what: &'static str, jobs: Option<u64>) -> Json<Value> {
    Json(json!({ "what": what, "jobs": jobs }))
}

fn parse_name(text: &str) -> Result<Name, AdminProblem> {
    text.parse()
        .map_err(|error| AdminProblem::bad(format!("{text:?}: {error}")))
}

impl Admin {
    /// Returns the engine, or a problem that names the command for one.
    fn bulk(&self) -> Result<&RunningEngine, AdminProblem> {
        self.program.engine().ok_or_else(|| {
            let detail = "this program runs no jobs: start it with `outflow serve --bulk`";
            AdminProblem::new(StatusCode::NOT_FOUND, "no_bulk", detail)
        })
    }

    /// Records a change of jobs; `scope` names the affected tenant or action.
    fn record_jobs(&self, action: &'static str, scope: SmolStr, reason: Option<SmolStr>, actor: &AuditActor) {
        let change = AuditChange {
            action,
            api: None,
            group: Some(scope),
            reason,
        };
        self.record(change, actor);
    }
}

fn tenant_label(name: &Name) -> SmolStr {
    format_smolstr!("tenant {name}")
}

fn action_label(name: &Name) -> SmolStr {
    format_smolstr!("action {name}")
}

impl From<StoreError> for AdminProblem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        if error.is_refused() {
            return Self::new(StatusCode::CONFLICT, "refused", detail);
        }
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "job_store", detail);
        if error.is_passing() {
            problem.retry_after(STORE_RETRY)
        } else {
            problem
        }
    }
}

impl From<BulkError> for AdminProblem {
    fn from(error: BulkError) -> Self {
        let detail = error.to_string();
        match error.into_store() {
            Some(error) => error.into(),
            None => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_jobs", detail),
        }
    }
}

/// Typical time of a failover.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// A screen of a list.
const DEFAULT_PAGE: usize = 100;

/// A response of moderate size.
const MAX_PAGE: usize = 1_000;
