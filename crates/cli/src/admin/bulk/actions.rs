//! Actions: opened, watched, closed, and what came of their jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::{Progress, Webhook};
use outflow_core::Clock;
use outflow_store::{ActionReport, ActionSpec, JobStore, Name};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Asked, Names, Places, Why, done, name, of_action};
use crate::admin::audit::Who;
use crate::admin::named::Named;
use crate::admin::problem::Problem;
use crate::admin::{Admin, body};
use crate::bulk::told;

/// Actions by name.
pub(in crate::admin) async fn list(
    State(admin): State<Arc<Admin>>,
    query: Asked<Names>,
) -> Result<Json<Value>, Problem> {
    let page = Names::page(query)?;
    let actions = admin.bulk()?.store().actions(page).await?;
    let next = actions.last().map(|action| action.spec.id.to_string());
    let actions: Vec<_> = actions.iter().map(|report| admin.told(report)).collect();
    Ok(Json(json!({ "actions": actions, "next": next })))
}

/// An action that is to be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Open {
    id: SmolStr,
    timeout_ms: Option<u64>,
    keep_ms: Option<u64>,
    webhook: Option<Webhook>,
    reason: Option<SmolStr>,
}

/// Opens an action, or changes one that is open.
pub(in crate::admin) async fn open(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    body::Json(open): body::Json<Open>,
) -> Result<Json<Value>, Problem> {
    let bulk = admin.bulk()?;
    let usual = bulk.engine().settings().action(name(&open.id)?);
    if let Some(webhook) = &open.webhook {
        admin.door(&webhook.api)?;
    }
    let spec = ActionSpec {
        timeout: open.timeout_ms.map_or(usual.timeout, Duration::from_millis),
        keep: open.keep_ms.map_or(usual.keep, Duration::from_millis),
        note: open.webhook.as_ref().map(Webhook::note),
        ..usual
    };
    let id = spec.id.clone();
    bulk.store().open(spec).await?;
    let why = Why {
        reason: open.reason,
    };
    admin.note_jobs("bulk_open", of_action(&id), (why, &who));
    Ok(Json(admin.told(&admin.action(&id).await?)))
}

/// One action.
pub(in crate::admin) async fn one(
    State(admin): State<Arc<Admin>>,
    Named(action): Named,
) -> Result<Json<Value>, Problem> {
    let report = admin.action(&name(&action)?).await?;
    Ok(Json(admin.told(&report)))
}

/// Says that it gets no more jobs.
pub(in crate::admin) async fn close(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    Named(action): Named,
    body::Json(why): body::Json<Why>,
) -> Result<Json<Value>, Problem> {
    let action = admin.action(&name(&action)?).await?.spec.id;
    admin.bulk()?.store().close(&action).await?;
    admin.note_jobs("bulk_close", of_action(&action), (why, &who));
    Ok(done("close", None))
}

/// What came of its jobs, in the order in which it came.
pub(in crate::admin) async fn results(
    State(admin): State<Arc<Admin>>,
    Named(action): Named,
    query: Asked<Places>,
) -> Result<Json<Value>, Problem> {
    let (after, most) = Places::page(query)?;
    let action = admin.action(&name(&action)?).await?.spec.id;
    let outcomes = admin.bulk()?.store().outcomes(&action, after, most).await?;
    let next = outcomes.last().map(|outcome| outcome.place);
    let results: Vec<_> = outcomes
        .iter()
        .map(|outcome| told::outcome(outcome, None))
        .collect();
    Ok(Json(json!({ "results": results, "next": next })))
}

impl Admin {
    pub(super) async fn action(&self, id: &Name) -> Result<ActionReport, Problem> {
        let known = self.bulk()?.store().action(id).await?;
        known.ok_or_else(|| {
            let detail = "there is no action of this name: GET /v1/bulk/actions lists them";
            Problem::new(StatusCode::NOT_FOUND, "unknown_action", detail)
        })
    }

    fn told(&self, report: &ActionReport) -> Value {
        told::action(report, &Progress::of(report, self.clock.wall()))
    }
}
