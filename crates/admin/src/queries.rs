//! Read-only routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use outflow::event::TaskState;
use outflow::metrics::CONTENT_TYPE;
use outflow_bulk::RunningEngine;
use outflow_store::StoreControl as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::AdminState;
use super::api_param::ApiParam;
use super::event_stream::{EventBody, SnapshotStream, StreamRequest};
use super::explain::{ExplainQuery, WaitView};
use super::problem::{AdminProblem, JsonResult};
use super::snapshot::{ApiLine, ApiView, LimitsView, ProgramSnapshot, tasks};

/// Query of a request, or the reason why it is invalid.
pub(crate) type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// Reports that the process is alive: it responds.
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

/// Readiness of the program for calls.
#[derive(Debug, Serialize)]
struct ReadinessView {
    ready: bool,
    reasons: Vec<&'static str>,
}

/// Reports the readiness for calls, with the reasons against it.
pub(crate) async fn ready(State(admin): AdminState) -> Response {
    let mut reasons = Vec::new();
    if admin.stop.is_cancelled() {
        reasons.push("shutting_down");
    }
    let tasks = admin.program.tasks().report();
    let is_listening = tasks
        .iter()
        .any(|task| task.name == "sidecar" && task.state == TaskState::Running);
    if !is_listening {
        reasons.push("sidecar_not_listening");
    }
    if let Some(engine) = admin.program.engine()
        && !is_store_answering(engine).await
    {
        reasons.push("store_unavailable");
    }
    // Calls do not tell: an unready program gets none, so it asks for no lease either.
    if let Some(ledger) = admin.program.client().ledger()
        && !ledger.is_usable()
    {
        reasons.push("limits_unavailable");
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(ReadinessView { ready, reasons })).into_response()
}

/// Asks the store of jobs and shared limits. A store that takes longer than the probes of most supervisors wait is
/// away.
async fn is_store_answering(engine: &RunningEngine) -> bool {
    let counts = tokio::time::timeout(STORE_PATIENCE, engine.store().job_counts()).await;
    matches!(counts, Ok(Ok(_)))
}

/// Half of the usual timeout of a readiness probe.
const STORE_PATIENCE: Duration = Duration::from_millis(500);

/// Returns the metrics in the OpenMetrics format.
pub(crate) async fn metrics(State(admin): AdminState) -> Result<Response, AdminProblem> {
    let metrics = admin.program.client().metrics().ok_or_else(|| {
        let detail = "there are no metrics: the client was built without a configuration";
        AdminProblem::new(StatusCode::NOT_FOUND, "no_metrics", detail)
    })?;
    Ok(typed_response(CONTENT_TYPE, Body::from(metrics.render())))
}

/// Returns the state of the whole program.
pub(crate) async fn snapshot(State(admin): AdminState) -> Json<ProgramSnapshot> {
    Json(ProgramSnapshot::from_admin(&admin))
}

/// Lists the APIs, one line each.
pub(crate) async fn apis(State(admin): AdminState) -> Json<Value> {
    let apis: Vec<_> = admin.upstreams().iter().map(ApiLine::from_upstream).collect();
    Json(json!({ "apis": apis }))
}

/// Returns the state of one API.
pub(crate) async fn api(State(admin): AdminState, ApiParam(name): ApiParam) -> JsonResult<ApiView> {
    Ok(Json(ApiView::new(&admin, &admin.upstream(&name)?)))
}

/// Returns the limits of one API.
pub(crate) async fn limits(State(admin): AdminState, ApiParam(name): ApiParam) -> JsonResult<LimitsView> {
    Ok(Json(LimitsView::new(&admin, &admin.upstream(&name)?)))
}

/// Decides what would happen to a call made now.
pub(crate) async fn explain(State(admin): AdminState, query: QueryResult<ExplainQuery>) -> JsonResult<WaitView> {
    let call = parse_query(query)?;
    Ok(Json(call.decide(&admin).await?))
}

/// Lists the background tasks.
pub(crate) async fn background_tasks(State(admin): AdminState) -> Json<Value> {
    Json(json!({ "tasks": tasks(&admin) }))
}

/// Returns the configuration in effect, with the origin of each value.
pub(crate) async fn config(State(admin): AdminState) -> JsonResult {
    let values = admin.program.effective_values().ok_or_else(|| {
        let detail = "the built-in defaults are unreadable: report this as a bug";
        AdminProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "defaults", detail)
    })?;
    Ok(Json(json!({ "values": values })))
}

/// Lists the last changes.
pub(crate) async fn audit(State(admin): AdminState) -> Json<Value> {
    Json(json!({ "changes": admin.audit.newest_first() }))
}

/// Options of the event stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamQuery {
    api: Option<SmolStr>,
    /// Period of the snapshots between the events.
    snapshot_ms: Option<u64>,
}

/// Opens the live stream of events.
pub(crate) async fn events(
    State(admin): AdminState,
    query: QueryResult<StreamQuery>,
) -> Result<Response, AdminProblem> {
    let options = parse_query(query)?;
    let snapshots = match options.snapshot_ms {
        None => None,
        Some(period @ 100..=60_000) => Some(SnapshotStream::every(Duration::from_millis(period), Arc::clone(&admin))),
        Some(_) => return Err(AdminProblem::bad("`snapshot_ms` is from 100 to 60000")),
    };
    let request = StreamRequest {
        api: options.api,
        snapshots,
    };
    let subscribed = admin.stream.subscribe(request, admin.stop.clone());
    let reader = subscribed.ok_or_else(|| {
        let detail = "too many streams are open: close a page";
        AdminProblem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", detail)
    })?;
    Ok(typed_response("text/event-stream", Body::new(EventBody::new(reader))))
}

/// Returns the query, or the problem of an invalid one.
pub(crate) fn parse_query<T>(query: QueryResult<T>) -> Result<T, AdminProblem> {
    let Query(parsed) = query.map_err(|error| AdminProblem::bad(error.body_text()))?;
    Ok(parsed)
}

fn typed_response(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
