//! Tenants of jobs: how they stand, and what operators do about them.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::views;
use outflow_store::{Name, TenantStore};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Asked, AuditReason, NamePage, done, name, of_tenant};
use crate::api_param::ApiParam;
use crate::audit::AuditActor;
use crate::problem::AdminProblem;
use crate::{Admin, json_body};

/// Tenants by name.
pub(crate) async fn list(
    State(admin): State<Arc<Admin>>,
    query: Asked<NamePage>,
) -> Result<Json<Value>, AdminProblem> {
    let page = NamePage::page(query)?;
    let tenants = admin.bulk()?.store().tenants(page).await?;
    let next = tenants.last().map(|tenant| tenant.name.to_string());
    let tenants: Vec<_> = tenants.iter().map(views::tenant).collect();
    Ok(Json(json!({ "tenants": tenants, "next": next })))
}

/// One tenant.
pub(crate) async fn one(
    State(admin): State<Arc<Admin>>,
    ApiParam(tenant): ApiParam,
) -> Result<Json<Value>, AdminProblem> {
    let (bulk, tenant) = (admin.bulk()?, name(&tenant)?);
    let report = bulk.store().tenant(&tenant).await?;
    let report = report.ok_or_else(|| unknown(&tenant))?;
    let state = bulk.engine().congestion(&tenant).await?;
    let mut told = views::tenant(&report);
    if let (Some(told), Some(state)) = (told.as_object_mut(), state) {
        told.insert("congestion".to_owned(), state.level.to_string().into());
        let estimate = super::super::millis::millis_up(state.estimate);
        told.insert("estimate_ms".to_owned(), estimate.into());
    }
    Ok(Json(told))
}

/// How many snapshots are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    most: Option<usize>,
}

/// How congested it was.
pub(crate) async fn history(
    State(admin): State<Arc<Admin>>,
    ApiParam(tenant): ApiParam,
    query: Asked<HistoryQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let Query(asked) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
    let most = asked.most.unwrap_or(super::USUAL_PAGE);
    let most = most.clamp(1, super::MOST_PAGE);
    let tenant = name(&tenant)?;
    let history = admin.bulk()?.engine();
    let history = history.congestion_history(&tenant, most).await?;
    let history: Vec<_> = history.iter().map(views::snapshot).collect();
    Ok(Json(
        json!({ "tenant": tenant.as_str(), "history": history }),
    ))
}

/// How many jobs that were put off stand in line again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseView {
    most: Option<u64>,
    reason: Option<SmolStr>,
}

/// Lets jobs that were put off stand in line again; answers how many are still put off.
pub(crate) async fn release(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(tenant): ApiParam,
    json_body::JsonBody(release): json_body::JsonBody<ReleaseView>,
) -> Result<Json<Value>, AdminProblem> {
    let tenant = admin.known_tenant(&tenant).await?;
    let most = release.most.unwrap_or(u64::MAX);
    let left = admin.bulk()?.engine().release(&tenant, most).await?;
    let why = AuditReason {
        reason: release.reason,
    };
    admin.note_jobs("bulk_release", of_tenant(&tenant), (why, &who));
    Ok(done("release", Some(left)))
}

/// Forgets its statistics.
pub(crate) async fn reset(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(tenant): ApiParam,
    json_body::JsonBody(why): json_body::JsonBody<AuditReason>,
) -> Result<Json<Value>, AdminProblem> {
    let tenant = admin.known_tenant(&tenant).await?;
    admin.bulk()?.engine().congestion_reset(&tenant).await?;
    admin.note_jobs("bulk_reset", of_tenant(&tenant), (why, &who));
    Ok(done("reset", None))
}

impl Admin {
    /// The name of a tenant that somebody has heard of: any other may be misspelt.
    async fn known_tenant(&self, tenant: &str) -> Result<Name, AdminProblem> {
        let tenant = name(tenant)?;
        let known = self.bulk()?.store().tenant(&tenant).await?;
        known
            .map(|known| known.name)
            .ok_or_else(|| unknown(&tenant))
    }
}

pub(super) fn unknown(tenant: &Name) -> AdminProblem {
    let tenant = tenant.as_str();
    let detail = format!("no tenant called {tenant:?} has jobs: GET /v1/bulk/tenants lists them");
    AdminProblem::new(StatusCode::NOT_FOUND, "unknown_tenant", detail)
}
