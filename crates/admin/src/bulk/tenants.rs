//! Routes of tenants.

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::views;
use outflow_store::{Name, TenantStore};
use serde::Deserialize;
use serde_json::json;
use smol_str::SmolStr;

use super::{AuditReason, PageQuery, change_response, name_page, page_size, parse_name, tenant_label};
use crate::api_param::ApiParam;
use crate::audit::AuditActor;
use crate::json_body::JsonBody;
use crate::problem::{AdminProblem, JsonResult};
use crate::queries::{QueryResult, parse_query};
use crate::{Admin, AdminState};

/// Lists tenants by name.
pub(crate) async fn list(State(admin): AdminState, query: QueryResult<PageQuery<SmolStr>>) -> JsonResult {
    let page = name_page(query)?;
    let bulk = admin.bulk()?;
    let tenants = bulk.store().tenants(page).await?;
    let states = bulk.engine().report_congestion(&tenants).await?;
    let next = tenants.last().map(|tenant| tenant.name.to_string());
    let both = tenants.iter().zip(&states);
    let tenants: Vec<_> = both.map(|(report, state)| views::tenant(report, state)).collect();
    Ok(Json(json!({ "tenants": tenants, "next": next })))
}

/// Returns one tenant.
pub(crate) async fn one(State(admin): AdminState, ApiParam(tenant): ApiParam) -> JsonResult {
    let (bulk, tenant) = (admin.bulk()?, parse_name(&tenant)?);
    let report = bulk.store().tenant(&tenant).await?;
    let report = report.ok_or_else(|| unknown_tenant(&tenant))?;
    let states = bulk.engine().report_congestion(std::slice::from_ref(&report)).await?;
    let view = states.first().map(|state| views::tenant(&report, state));
    Ok(Json(view.unwrap_or_default()))
}

/// Size of a congestion history.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    most: Option<usize>,
}

/// Returns the congestion history of a tenant.
pub(crate) async fn history(
    State(admin): AdminState,
    ApiParam(tenant): ApiParam,
    query: QueryResult<HistoryQuery>,
) -> JsonResult {
    let limit = page_size(parse_query(query)?.most);
    let tenant = parse_name(&tenant)?;
    let engine = admin.bulk()?.engine();
    let history = engine.congestion_history(&tenant, limit).await?;
    let history: Vec<_> = history.iter().map(views::snapshot).collect();
    Ok(Json(json!({ "tenant": tenant.as_str(), "history": history })))
}

/// Release of deferred jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseDeferredBody {
    most: Option<u64>,
    reason: Option<SmolStr>,
}

/// Queues deferred jobs again; returns the number of jobs that stay deferred.
pub(crate) async fn release(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(tenant): ApiParam,
    JsonBody(release): JsonBody<ReleaseDeferredBody>,
) -> JsonResult {
    let tenant = admin.known_tenant(&tenant).await?;
    let limit = release.most.unwrap_or(u64::MAX);
    let left = admin.bulk()?.engine().release(&tenant, limit).await?;
    let label = tenant_label(&tenant);
    admin.record_jobs("bulk_release", label, release.reason, &actor);
    Ok(change_response("release", Some(left)))
}

/// Resets the congestion statistics of a tenant.
pub(crate) async fn reset(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(tenant): ApiParam,
    JsonBody(audit): JsonBody<AuditReason>,
) -> JsonResult {
    let tenant = admin.known_tenant(&tenant).await?;
    admin.bulk()?.engine().congestion_reset(&tenant).await?;
    admin.record_jobs("bulk_reset", tenant_label(&tenant), audit.reason, &actor);
    Ok(change_response("reset", None))
}

impl Admin {
    /// Returns the name of a known tenant: an unknown name may be misspelt.
    async fn known_tenant(&self, tenant: &str) -> Result<Name, AdminProblem> {
        let tenant = parse_name(tenant)?;
        let known = self.bulk()?.store().tenant(&tenant).await?;
        known.map(|known| known.name).ok_or_else(|| unknown_tenant(&tenant))
    }
}

pub(super) fn unknown_tenant(tenant: &Name) -> AdminProblem {
    let tenant = tenant.as_str();
    let detail = format!("no tenant called {tenant:?} has jobs: GET /v1/bulk/tenants lists them");
    AdminProblem::new(StatusCode::NOT_FOUND, "unknown_tenant", detail)
}
