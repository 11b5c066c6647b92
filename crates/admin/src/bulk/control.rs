//! Pausing, resuming, cancelling: the same for the jobs of a tenant and for those of an action.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_store::{ControlScope, StoreControl, TenantStore};
use serde_json::Value;

use super::tenants::unknown;
use super::{AuditReason, done, name, of_action, of_tenant};
use crate::api_param::ApiParam;
use crate::audit::AuditActor;
use crate::problem::AdminProblem;
use crate::{Admin, json_body};

/// What is done to jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobOperation {
    /// They are not given out any more.
    Pause,
    /// They are given out again.
    Resume,
    /// Those that have not begun end.
    Cancel,
}

/// What a handler answers.
type Answering = Pin<Box<dyn Future<Output = Result<Json<Value>, AdminProblem>> + Send>>;

/// Does it to the jobs of the tenant that the address names.
pub(crate) fn of_tenants(
    operation: JobOperation,
) -> impl Fn(
    State<Arc<Admin>>,
    Extension<AuditActor>,
    ApiParam,
    json_body::JsonBody<AuditReason>,
) -> Answering
+ Copy {
    move |State(admin), Extension(who), ApiParam(tenant), json_body::JsonBody(why)| {
        Box::pin(async move {
            let tenant = name(&tenant)?;
            let known = admin.bulk()?.store().tenant(&tenant).await?.is_some();
            // Whoever knows that a tenant is about to come may stop it before it does.
            if !known && !matches!(operation, JobOperation::Pause) {
                return Err(unknown(&tenant));
            }
            let scope = ControlScope::Tenant(tenant);
            let Json(mut told) = admin.operate(operation, &scope, (why, &who)).await?;
            if let Some(told) = told.as_object_mut().filter(|_| !known) {
                told.insert("note".to_owned(), NOBODY.into());
            }
            Ok(Json(told))
        })
    }
}

/// Does it to the jobs of the action that the address names, if there is one.
pub(crate) fn of_actions(
    operation: JobOperation,
) -> impl Fn(
    State<Arc<Admin>>,
    Extension<AuditActor>,
    ApiParam,
    json_body::JsonBody<AuditReason>,
) -> Answering
+ Copy {
    move |State(admin), Extension(who), ApiParam(action), json_body::JsonBody(why)| {
        Box::pin(async move {
            let report = admin.action(&name(&action)?).await?;
            if report.stage.is_over() && matches!(operation, JobOperation::Pause) {
                let detail = format!(
                    "the action is {}: there is nothing left to pause",
                    report.stage.as_str()
                );
                return Err(AdminProblem::new(StatusCode::CONFLICT, "refused", detail));
            }
            let scope = ControlScope::Action(report.spec.id);
            admin.operate(operation, &scope, (why, &who)).await
        })
    }
}

impl Admin {
    async fn operate(
        &self,
        operation: JobOperation,
        scope: &ControlScope,
        noted: (AuditReason, &AuditActor),
    ) -> Result<Json<Value>, AdminProblem> {
        let store = self.bulk()?.store();
        let (word, noted_as, jobs) = match operation {
            JobOperation::Pause => {
                store.pause(scope).await?;
                ("pause", "bulk_pause", None)
            }
            JobOperation::Resume => {
                store.resume(scope).await?;
                ("resume", "bulk_resume", None)
            }
            JobOperation::Cancel => ("cancel", "bulk_cancel", Some(store.cancel(scope).await?)),
        };
        let whose = match scope {
            ControlScope::Tenant(tenant) => of_tenant(tenant),
            ControlScope::Action(action) => of_action(action),
        };
        self.note_jobs(noted_as, whose, noted);
        Ok(done(word, jobs))
    }
}

/// Said of a tenant that is paused before it was ever seen: a name may be misspelt.
const NOBODY: &str = "no jobs of this tenant are known yet: those that come will wait";
