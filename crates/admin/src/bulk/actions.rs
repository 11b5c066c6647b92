//! Routes of actions.

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::{Webhook, views};
use outflow_store::{ActionReport, ActionSpec, ActionStore, Name};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{AuditReason, PageQuery, action_label, change_response, name_page, parse_name, position_page};
use crate::api_param::ApiParam;
use crate::audit::AuditActor;
use crate::json_body::JsonBody;
use crate::problem::{AdminProblem, JsonResult};
use crate::queries::QueryResult;
use crate::{Admin, AdminState};

/// Lists actions by name.
pub(crate) async fn list(State(admin): AdminState, query: QueryResult<PageQuery<SmolStr>>) -> JsonResult {
    let page = name_page(query)?;
    let actions = admin.bulk()?.store().actions(page).await?;
    let next = actions.last().map(|action| action.spec.id.to_string());
    let mut views = Vec::with_capacity(actions.len());
    for report in &actions {
        views.push(admin.action_view(report).await?);
    }
    Ok(Json(json!({ "actions": views, "next": next })))
}

/// Action to open.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    id: SmolStr,
    timeout_ms: Option<u64>,
    keep_ms: Option<u64>,
    webhook: Option<WebhookParam>,
    reason: Option<SmolStr>,
}

/// Webhook that is called at the end of an action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookParam {
    api: String,
    path: String,
}

/// Opens an action, or changes one that is open.
pub(crate) async fn open(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    JsonBody(open): JsonBody<OpenBody>,
) -> JsonResult {
    let bulk = admin.bulk()?;
    let default = bulk.engine().settings().action(parse_name(&open.id)?);
    let webhook = open.webhook.map(|hook| admin.webhook(hook)).transpose()?;
    if open.timeout_ms == Some(0) {
        let detail = "timeout_ms: zero is too short: set at least 1, or leave it out";
        return Err(AdminProblem::bad(detail));
    }
    let spec = ActionSpec {
        timeout: read_millis("timeout_ms", open.timeout_ms)?.unwrap_or(default.timeout),
        keep: read_millis("keep_ms", open.keep_ms)?.unwrap_or(default.keep),
        note: webhook.as_ref().map(Webhook::note),
        ..default
    };
    let id = spec.id.clone();
    bulk.store().open(spec).await?;
    admin.record_jobs("bulk_open", action_label(&id), open.reason, &actor);
    Ok(Json(admin.action_view(&admin.action(&id).await?).await?))
}

/// Converts milliseconds; rejects implausible values.
fn read_millis(field: &str, millis: Option<u64>) -> Result<Option<Duration>, AdminProblem> {
    let duration = millis.map(Duration::from_millis);
    if duration.is_some_and(|duration| duration > TEN_YEARS) {
        return Err(AdminProblem::bad(format!(
            "{field}: longer than ten years: write milliseconds"
        )));
    }
    Ok(duration)
}

/// Returns one action.
pub(crate) async fn one(State(admin): AdminState, ApiParam(action): ApiParam) -> JsonResult {
    let report = admin.action(&parse_name(&action)?).await?;
    let mut view = admin.action_view(&report).await?;
    if report.is_over()
        && let Some(fields) = view.as_object_mut()
    {
        let reasons = admin.bulk()?.engine().failure_reasons(&report).await?;
        fields.insert("failures".to_owned(), views::failures(&reasons));
    }
    Ok(Json(view))
}

/// Closes an action: it accepts no more jobs.
pub(crate) async fn close(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(action): ApiParam,
    JsonBody(audit): JsonBody<AuditReason>,
) -> JsonResult {
    let action = admin.action(&parse_name(&action)?).await?.spec.id;
    admin.bulk()?.store().close(&action).await?;
    admin.record_jobs("bulk_close", action_label(&action), audit.reason, &actor);
    Ok(change_response("close", None))
}

/// Returns the outcomes of the jobs of an action, in the order of their ends.
pub(crate) async fn results(
    State(admin): AdminState,
    ApiParam(action): ApiParam,
    query: QueryResult<PageQuery<u64>>,
) -> JsonResult {
    let (after, limit) = position_page(query)?;
    let action = admin.action(&parse_name(&action)?).await?.spec.id;
    let store = admin.bulk()?.store();
    let (mut results, mut next, mut held) = (Vec::new(), None, 0);
    while results.len() < limit && held < MAX_BODY_BYTES {
        let count = OUTCOME_BATCH.min(limit - results.len());
        let outcomes = store.outcomes(&action, next.unwrap_or(after), count).await?;
        if outcomes.is_empty() {
            break;
        }
        for outcome in &outcomes {
            held += outcome.body.as_ref().map_or(0, bytes::Bytes::len);
            next = Some(outcome.place);
            results.push(views::outcome(outcome));
            if held >= MAX_BODY_BYTES {
                break;
            }
        }
    }
    Ok(Json(json!({ "results": results, "next": next })))
}

impl Admin {
    pub(super) async fn action(&self, id: &Name) -> Result<ActionReport, AdminProblem> {
        let known = self.bulk()?.store().action(id).await?;
        known.ok_or_else(|| {
            let detail = "there is no action of this name: GET /v1/bulk/actions lists them";
            AdminProblem::new(StatusCode::NOT_FOUND, "unknown_action", detail)
        })
    }

    /// Returns the webhook, if its API exists and its path is valid.
    fn webhook(&self, hook: WebhookParam) -> Result<Webhook, AdminProblem> {
        let WebhookParam { api, path } = hook;
        self.upstream(&api)?;
        let known = self.program.client().api(&api);
        let known = known.ok_or_else(AdminProblem::unknown_api)?;
        if let Err(error) = known.base_url.join(&path) {
            return Err(AdminProblem::bad(format!("webhook.path: {error}")));
        }
        Ok(Webhook { api, path })
    }

    async fn action_view(&self, report: &ActionReport) -> Result<Value, AdminProblem> {
        let progress = self.bulk()?.engine().report_progress(report).await?;
        Ok(views::action(report, &progress))
    }
}

/// Longer than any plausible timeout: a larger number is most likely a wrong unit.
const TEN_YEARS: Duration = Duration::from_hours(10 * 365 * 24);

/// Bytes of bodies after which a response ends; the client requests the next page.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Number of outcomes that are read at once, each with its body.
const OUTCOME_BATCH: usize = 16;
