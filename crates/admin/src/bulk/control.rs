//! Pause, resume and cancel, for the jobs of a tenant or an action.

use std::pin::Pin;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_store::{ControlScope, StoreControl, TenantStore};

use super::tenants::unknown_tenant;
use super::{AuditReason, action_label, change_response, parse_name, tenant_label};
use crate::api_param::ApiParam;
use crate::audit::{AuditActor, truncate};
use crate::json_body::JsonBody;
use crate::problem::{AdminProblem, JsonResult};
use crate::{Admin, AdminState};

/// Operation on the jobs of a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobOperation {
    /// Workers start no more of the jobs.
    Pause,
    /// Workers start the jobs again.
    Resume,
    /// Jobs that have not started end.
    Cancel,
}

/// Response of a handler.
type HandlerFuture = Pin<Box<dyn Future<Output = JsonResult> + Send>>;

/// Returns the handler of an operation on the jobs of a tenant.
pub(crate) fn tenant_handler(
    operation: JobOperation,
) -> impl Fn(AdminState, Extension<AuditActor>, ApiParam, JsonBody<AuditReason>) -> HandlerFuture + Copy {
    move |State(admin), Extension(actor), ApiParam(tenant), JsonBody(audit)| {
        Box::pin(async move {
            let tenant = parse_name(&tenant)?;
            let is_known = admin.bulk()?.store().tenant(&tenant).await?.is_some();
            // An operator may pause a tenant before its first job arrives.
            if !is_known && !matches!(operation, JobOperation::Pause) {
                return Err(unknown_tenant(&tenant));
            }
            let scope = ControlScope::Tenant(tenant);
            let operated = admin.operate(operation, &scope, audit, &actor).await;
            let Json(mut response) = operated?;
            if let Some(response) = response.as_object_mut().filter(|_| !is_known) {
                response.insert("note".to_owned(), UNKNOWN_TENANT_NOTE.into());
            }
            Ok(Json(response))
        })
    }
}

/// Returns the handler of an operation on the jobs of an action.
pub(crate) fn action_handler(
    operation: JobOperation,
) -> impl Fn(AdminState, Extension<AuditActor>, ApiParam, JsonBody<AuditReason>) -> HandlerFuture + Copy {
    move |State(admin), Extension(actor), ApiParam(action), JsonBody(audit)| {
        Box::pin(async move {
            let report = admin.action(&parse_name(&action)?).await?;
            if report.stage.is_over() && matches!(operation, JobOperation::Pause) {
                let detail = format!("the action is {}: it has no jobs left to pause", report.stage.as_str());
                return Err(AdminProblem::new(StatusCode::CONFLICT, "refused", detail));
            }
            let scope = ControlScope::Action(report.spec.id);
            admin.operate(operation, &scope, audit, &actor).await
        })
    }
}

impl Admin {
    async fn operate(
        &self,
        operation: JobOperation,
        scope: &ControlScope,
        audit: AuditReason,
        actor: &AuditActor,
    ) -> JsonResult {
        let store = self.bulk()?.store();
        let (name, audit_name, jobs) = match operation {
            JobOperation::Pause => {
                store.pause(scope).await?;
                let by = actor.describe(audit.reason.clone().map(truncate).as_deref());
                self.bulk()?.engine().note_pause(scope.clone(), by);
                ("pause", "bulk_pause", None)
            }
            JobOperation::Resume => {
                store.resume(scope).await?;
                self.bulk()?.engine().forget_pause(scope);
                ("resume", "bulk_resume", None)
            }
            JobOperation::Cancel => ("cancel", "bulk_cancel", Some(store.cancel(scope).await?)),
        };
        let label = match scope {
            ControlScope::Tenant(tenant) => tenant_label(tenant),
            ControlScope::Action(action) => action_label(action),
        };
        self.record_jobs(audit_name, label, audit.reason, actor);
        Ok(change_response(name, jobs))
    }
}

/// Note for a pause before the first job: the name may be misspelt.
const UNKNOWN_TENANT_NOTE: &str = "no jobs of this tenant are known yet: new ones will wait";
