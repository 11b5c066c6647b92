//! Routes of dead letters: list, retry and purge.

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::views;
use outflow_store::{DeadLetterFilter, DeadLetterStore};
use serde::Deserialize;
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use super::{PageQuery, action_label, change_response, parse_name, position_page, tenant_label};
use crate::AdminState;
use crate::audit::AuditActor;
use crate::json_body::JsonBody;
use crate::problem::{AdminProblem, JsonResult};
use crate::queries::QueryResult;

/// Lists dead letters, oldest first.
pub(crate) async fn list(State(admin): AdminState, query: QueryResult<PageQuery<u64>>) -> JsonResult {
    let (after, limit) = position_page(query)?;
    let letters = admin.bulk()?.store().dead_letters(after, limit).await?;
    let next = letters.last().map(|letter| letter.place);
    let letters: Vec<_> = letters.iter().map(views::dead).collect();
    Ok(Json(json!({ "dead": letters, "next": next })))
}

/// Selection of dead letters: exactly one of `all`, `tenant`, `action` and `jobs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterQuery {
    #[serde(default)]
    all: bool,
    tenant: Option<SmolStr>,
    action: Option<SmolStr>,
    jobs: Option<Vec<SmolStr>>,
    reason: Option<SmolStr>,
}

impl LetterQuery {
    /// Returns the filter and its label for the audit log.
    fn filter(&self) -> Result<(DeadLetterFilter, SmolStr), AdminProblem> {
        Ok(match (self.all, &self.tenant, &self.action, &self.jobs) {
            (true, None, None, None) => (DeadLetterFilter::All, SmolStr::new_static("all")),
            (false, Some(tenant), None, None) => {
                let tenant = parse_name(tenant)?;
                let label = tenant_label(&tenant);
                (DeadLetterFilter::Tenant(tenant), label)
            }
            (false, None, Some(action), None) => {
                let action = parse_name(action)?;
                let label = action_label(&action);
                (DeadLetterFilter::Action(action), label)
            }
            (false, None, None, Some(jobs)) => {
                let names: Result<Vec<_>, _> = jobs.iter().map(|job| parse_name(job)).collect();
                (DeadLetterFilter::Jobs(names?), format_smolstr!("{} jobs", jobs.len()))
            }
            _ => {
                let detail = "select dead letters by one of `all`, `tenant`, `action` and `jobs`";
                return Err(AdminProblem::bad(detail));
            }
        })
    }
}

/// Queues dead letters again. None to retry is an error: the selection is wrong, or the letters are gone.
pub(crate) async fn retry(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    JsonBody(query): JsonBody<LetterQuery>,
) -> JsonResult {
    let (filter, label) = query.filter()?;
    let jobs = admin.bulk()?.store().requeue(&filter).await?;
    if jobs == 0 {
        let detail = "no dead letter was found to retry: `outflow bulk dead list` or GET /v1/bulk/dead shows all";
        return Err(AdminProblem::new(StatusCode::NOT_FOUND, "no_dead_letters", detail));
    }
    admin.record_jobs("bulk_dead_retry", label, query.reason, &actor);
    Ok(change_response("retry", Some(jobs)))
}

/// Deletes dead letters.
pub(crate) async fn purge(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    JsonBody(query): JsonBody<LetterQuery>,
) -> JsonResult {
    let (filter, label) = query.filter()?;
    let jobs = admin.bulk()?.store().purge(&filter).await?;
    admin.record_jobs("bulk_dead_purge", label, query.reason, &actor);
    Ok(change_response("purge", Some(jobs)))
}
