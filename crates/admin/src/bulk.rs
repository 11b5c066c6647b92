//! Jobs over the admin API: submitted, watched, paused, cancelled, and those that died.
//!
//! Everything is asked of the engine's own store, so that one machine of many tells the same as all
//! others. A program that was started without an engine answers each of these with how to get one.

pub(crate) mod actions;
pub(crate) mod control;
pub(crate) mod dead_letters;
mod events;
pub(crate) mod jobs;
pub(crate) mod tenants;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use http::StatusCode;
use outflow_bulk::{BulkError, RunningEngine, views};
use outflow_store::{Name, PageRequest, StoreControl, StoreError, TenantStore};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

pub(crate) use events::pass_on;

use super::Admin;
use super::audit::{AuditActor, AuditChange};
use super::problem::AdminProblem;

type Asked<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// All jobs together, and who works on them.
pub(crate) async fn summary(State(admin): State<Arc<Admin>>) -> Result<Json<Value>, AdminProblem> {
    let bulk = admin.bulk()?;
    let (store, engine) = (bulk.store(), bulk.engine());
    let (tally, active) = (store.job_counts().await?, store.active_tenants().await?);
    let (all, busy) = engine.worker_usage();
    Ok(Json(json!({
        "jobs": views::JobCountsView::from_counts(&tally),
        "active_tenants": active,
        "workers": { "all": all, "busy": busy },
        "scheduler": engine.settings().scheduler.as_str(),
        "store": store.kind(),
        "queue_max": engine.settings().queue_max,
        "saved_spins": engine.saved_spins(),
    })))
}

/// A part of a list of names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamePage {
    after: Option<SmolStr>,
    most: Option<usize>,
}

impl NamePage {
    fn page(query: Asked<Self>) -> Result<PageRequest, AdminProblem> {
        let Query(asked) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
        let after = asked.after.as_deref().map(name).transpose()?;
        let most = asked.most.unwrap_or(USUAL_PAGE).clamp(1, MOST_PAGE);
        Ok(PageRequest { after, most })
    }
}

/// A part of a list of places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlacePage {
    after: Option<u64>,
    most: Option<usize>,
}

impl PlacePage {
    fn page(query: Asked<Self>) -> Result<(u64, usize), AdminProblem> {
        let Query(asked) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
        let most = asked.most.unwrap_or(USUAL_PAGE).clamp(1, MOST_PAGE);
        Ok((asked.after.unwrap_or(0), most))
    }
}

/// Why something is done, for the audit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditReason {
    reason: Option<SmolStr>,
}

/// Something that was done, and to how many jobs.
fn done(what: &'static str, jobs: Option<u64>) -> Json<Value> {
    Json(json!({ "what": what, "jobs": jobs }))
}

fn name(text: &str) -> Result<Name, AdminProblem> {
    text.parse()
        .map_err(|wrong| AdminProblem::bad(format!("{text:?}: {wrong}")))
}

impl Admin {
    /// The engine, or how to get one.
    fn bulk(&self) -> Result<&RunningEngine, AdminProblem> {
        self.program.engine().ok_or_else(|| {
            let detail = "this program works on no jobs: start it with `outflow serve --bulk`";
            AdminProblem::new(StatusCode::NOT_FOUND, "no_bulk", detail)
        })
    }

    /// Notes a change of jobs; `whose` says of whom.
    fn note_jobs(
        &self,
        action: &'static str,
        whose: SmolStr,
        (why, who): (AuditReason, &AuditActor),
    ) {
        let change = AuditChange {
            action,
            api: None,
            group: Some(whose),
            reason: why.reason,
        };
        self.note(change, who);
    }
}

fn of_tenant(name: &Name) -> SmolStr {
    format_smolstr!("tenant {name}")
}

fn of_action(name: &Name) -> SmolStr {
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
            problem.after(A_MOMENT)
        } else {
            problem
        }
    }
}

impl From<BulkError> for AdminProblem {
    fn from(error: BulkError) -> Self {
        let words = error.to_string();
        match error.into_store() {
            Some(error) => error.into(),
            None => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_jobs", words),
        }
    }
}

/// Long enough for a server to come back from a failover or a disk to be given room.
const A_MOMENT: Duration = Duration::from_secs(1);

/// A screen of a list.
const USUAL_PAGE: usize = 100;

/// What one answer should hold at most.
const MOST_PAGE: usize = 1_000;
