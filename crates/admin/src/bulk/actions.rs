//! Actions: opened, watched, closed, and what came of their jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow_bulk::{Webhook, views};
use outflow_store::{ActionReport, ActionSpec, ActionStore, Name};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Asked, AuditReason, NamePage, PlacePage, done, name, of_action};
use crate::api_param::ApiParam;
use crate::audit::AuditActor;
use crate::problem::AdminProblem;
use crate::{Admin, json_body};

/// Actions by name.
pub(crate) async fn list(
    State(admin): State<Arc<Admin>>,
    query: Asked<NamePage>,
) -> Result<Json<Value>, AdminProblem> {
    let page = NamePage::page(query)?;
    let actions = admin.bulk()?.store().actions(page).await?;
    let next = actions.last().map(|action| action.spec.id.to_string());
    let mut told = Vec::with_capacity(actions.len());
    for report in &actions {
        told.push(admin.action_view(report).await?);
    }
    Ok(Json(json!({ "actions": told, "next": next })))
}

/// An action that is to be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    id: SmolStr,
    timeout_ms: Option<u64>,
    keep_ms: Option<u64>,
    webhook: Option<WebhookParam>,
    reason: Option<SmolStr>,
}

/// Whom to tell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookParam {
    api: String,
    path: String,
}

/// Opens an action, or changes one that is open.
pub(crate) async fn open(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    json_body::JsonBody(open): json_body::JsonBody<OpenBody>,
) -> Result<Json<Value>, AdminProblem> {
    let bulk = admin.bulk()?;
    let usual = bulk.engine().settings().action(name(&open.id)?);
    let webhook = open.webhook.map(|hook| admin.webhook(hook)).transpose()?;
    if open.timeout_ms == Some(0) {
        let detail = "timeout_ms: nothing is done in no time: say at least 1, or leave it out";
        return Err(AdminProblem::bad(detail));
    }
    let spec = ActionSpec {
        timeout: span("timeout_ms", open.timeout_ms)?.unwrap_or(usual.timeout),
        keep: span("keep_ms", open.keep_ms)?.unwrap_or(usual.keep),
        note: webhook.as_ref().map(Webhook::note),
        ..usual
    };
    let id = spec.id.clone();
    bulk.store().open(spec).await?;
    let why = AuditReason {
        reason: open.reason,
    };
    admin.note_jobs("bulk_open", of_action(&id), (why, &who));
    Ok(Json(admin.action_view(&admin.action(&id).await?).await?))
}

/// A span that somebody can mean.
fn span(field: &str, millis: Option<u64>) -> Result<Option<Duration>, AdminProblem> {
    let span = millis.map(Duration::from_millis);
    if span.is_some_and(|span| span > TEN_YEARS) {
        return Err(AdminProblem::bad(format!(
            "{field}: longer than ten years: write milliseconds"
        )));
    }
    Ok(span)
}

/// One action.
pub(crate) async fn one(
    State(admin): State<Arc<Admin>>,
    ApiParam(action): ApiParam,
) -> Result<Json<Value>, AdminProblem> {
    let report = admin.action(&name(&action)?).await?;
    Ok(Json(admin.action_view(&report).await?))
}

/// Says that it gets no more jobs.
pub(crate) async fn close(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(action): ApiParam,
    json_body::JsonBody(why): json_body::JsonBody<AuditReason>,
) -> Result<Json<Value>, AdminProblem> {
    let action = admin.action(&name(&action)?).await?.spec.id;
    admin.bulk()?.store().close(&action).await?;
    admin.note_jobs("bulk_close", of_action(&action), (why, &who));
    Ok(done("close", None))
}

/// What came of its jobs, in the order in which it came.
pub(crate) async fn results(
    State(admin): State<Arc<Admin>>,
    ApiParam(action): ApiParam,
    query: Asked<PlacePage>,
) -> Result<Json<Value>, AdminProblem> {
    let (after, most) = PlacePage::page(query)?;
    let action = admin.action(&name(&action)?).await?.spec.id;
    let store = admin.bulk()?.store();
    let (mut results, mut next, mut held) = (Vec::new(), None, 0);
    while results.len() < most && held < ENOUGH {
        let few = FEW.min(most - results.len());
        let outcomes = store.outcomes(&action, next.unwrap_or(after), few).await?;
        if outcomes.is_empty() {
            break;
        }
        for outcome in &outcomes {
            held += outcome.body.as_ref().map_or(0, bytes::Bytes::len);
            next = Some(outcome.place);
            results.push(views::outcome(outcome));
            if held >= ENOUGH {
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

    /// Where an action's end is told, if that is a place.
    fn webhook(&self, hook: WebhookParam) -> Result<Webhook, AdminProblem> {
        let WebhookParam { api, path } = hook;
        self.upstream(&api)?;
        let known = self.program.client().api(&api);
        let known = known.ok_or_else(AdminProblem::unknown_api)?;
        let joined = known.base_url.join(&path);
        if let Err(wrong) = joined {
            return Err(AdminProblem::bad(format!("webhook.path: {wrong}")));
        }
        Ok(Webhook { api, path })
    }

    async fn action_view(&self, report: &ActionReport) -> Result<Value, AdminProblem> {
        let progress = self.bulk()?.engine().report_progress(report).await?;
        Ok(views::action(report, &progress))
    }
}

/// Nobody waits longer for anything that is still wanted.
const TEN_YEARS: Duration = Duration::from_hours(10 * 365 * 24);

/// What one answer holds of bodies before it ends: whoever wants more asks on.
const ENOUGH: usize = 8 * 1024 * 1024;

/// So many outcomes are in memory at once, each with its body.
const FEW: usize = 16;
