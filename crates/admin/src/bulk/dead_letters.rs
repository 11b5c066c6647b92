//! Dead letters: looked at, tried again, thrown away.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use outflow_bulk::views;
use outflow_store::{DeadLetterFilter, DeadLetterStore};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::{Asked, AuditReason, PlacePage, done, name, of_action, of_tenant};
use crate::audit::AuditActor;
use crate::problem::AdminProblem;
use crate::{Admin, json_body};

/// The oldest first.
pub(crate) async fn list(
    State(admin): State<Arc<Admin>>,
    query: Asked<PlacePage>,
) -> Result<Json<Value>, AdminProblem> {
    let (after, most) = PlacePage::page(query)?;
    let letters = admin.bulk()?.store().dead_letters(after, most).await?;
    let next = letters.last().map(|letter| letter.place);
    let letters: Vec<_> = letters.iter().map(views::dead).collect();
    Ok(Json(json!({ "dead": letters, "next": next })))
}

/// Which of them are meant: exactly one of these is said.
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
    /// Those that are meant, and how the audit calls them.
    fn pick(&self) -> Result<(DeadLetterFilter, SmolStr), AdminProblem> {
        Ok(match (self.all, &self.tenant, &self.action, &self.jobs) {
            (true, None, None, None) => (DeadLetterFilter::All, SmolStr::new_static("all")),
            (false, Some(tenant), None, None) => {
                let tenant = name(tenant)?;
                let told = of_tenant(&tenant);
                (DeadLetterFilter::Tenant(tenant), told)
            }
            (false, None, Some(action), None) => {
                let action = name(action)?;
                let told = of_action(&action);
                (DeadLetterFilter::Action(action), told)
            }
            (false, None, None, Some(jobs)) => {
                let names: Result<Vec<_>, _> = jobs.iter().map(|job| name(job)).collect();
                (
                    DeadLetterFilter::Jobs(names?),
                    format_smolstr!("{} jobs", jobs.len()),
                )
            }
            _ => {
                let detail = "say which are meant by one of `all`, `tenant`, `action` and `jobs`";
                return Err(AdminProblem::bad(detail));
            }
        })
    }
}

/// Lets them stand in line again.
pub(crate) async fn retry(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    json_body::JsonBody(which): json_body::JsonBody<LetterQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let (pick, told) = which.pick()?;
    let jobs = admin.bulk()?.store().requeue(&pick).await?;
    let why = AuditReason {
        reason: which.reason,
    };
    admin.note_jobs("bulk_dead_retry", told, (why, &who));
    Ok(done("retry", Some(jobs)))
}

/// Throws them away.
pub(crate) async fn purge(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    json_body::JsonBody(which): json_body::JsonBody<LetterQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let (pick, told) = which.pick()?;
    let jobs = admin.bulk()?.store().purge(&pick).await?;
    let why = AuditReason {
        reason: which.reason,
    };
    admin.note_jobs("bulk_dead_purge", told, (why, &who));
    Ok(done("purge", Some(jobs)))
}
