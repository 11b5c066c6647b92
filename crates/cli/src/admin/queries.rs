//! What can be looked at without changing anything.

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
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::Admin;
use super::api_param::ApiParam;
use super::call_target::CallTarget;
use super::event_stream::{EventBody, SnapshotStream, StreamRequest};
use super::explain::WaitView;
use super::problem::AdminProblem;
use super::snapshot::{ApiLine, ApiView, LimitsView, ProgramSnapshot, tasks};
use crate::commands::{Effective, effective};

type Asked<T> = Result<Query<T>, QueryRejection>;

/// Whether the process is alive: it answers, so it is.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

/// Whether calls are taken.
#[derive(Debug, Serialize)]
struct ReadinessView {
    ready: bool,
    reasons: Vec<&'static str>,
}

/// Says whether calls are taken, and if not, why.
pub(super) async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    let mut reasons = Vec::new();
    if admin.stop.is_cancelled() {
        reasons.push("shutting_down");
    }
    let tasks = admin.station.tasks().report();
    let takes_calls = |name| {
        let running = |state| state == TaskState::Running;
        tasks
            .iter()
            .any(|task| task.name == name && running(task.state))
    };
    if !takes_calls("sidecar") {
        reasons.push("sidecar_not_listening");
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(ReadinessView { ready, reasons })).into_response()
}

/// The page that Prometheus reads.
pub(super) async fn metrics(State(admin): State<Arc<Admin>>) -> Result<Response, AdminProblem> {
    let metrics = admin.station.client().metrics().ok_or_else(|| {
        let detail = "nothing is counted: the client was made without a configuration";
        AdminProblem::new(StatusCode::NOT_FOUND, "no_metrics", detail)
    })?;
    Ok(typed(CONTENT_TYPE, Body::from(metrics.render())))
}

/// Everything at once.
pub(super) async fn snapshot(State(admin): State<Arc<Admin>>) -> Json<ProgramSnapshot> {
    Json(ProgramSnapshot::from_admin(&admin))
}

/// The APIs, in a line each.
pub(super) async fn apis(State(admin): State<Arc<Admin>>) -> Json<Value> {
    let apis: Vec<_> = admin
        .upstreams()
        .iter()
        .map(ApiLine::from_upstream)
        .collect();
    Json(json!({ "apis": apis }))
}

/// One API.
pub(super) async fn api(
    State(admin): State<Arc<Admin>>,
    ApiParam(name): ApiParam,
) -> Result<Json<ApiView>, AdminProblem> {
    Ok(Json(ApiView::new(&admin, &admin.upstream(&name)?)))
}

/// The limits of one API.
pub(super) async fn limits(
    State(admin): State<Arc<Admin>>,
    ApiParam(name): ApiParam,
) -> Result<Json<LimitsView>, AdminProblem> {
    Ok(Json(LimitsView::new(&admin, &admin.upstream(&name)?)))
}

/// What would become of a call that came now.
pub(super) async fn explain(
    State(admin): State<Arc<Admin>>,
    query: Asked<CallTarget>,
) -> Result<Json<WaitView>, AdminProblem> {
    let aim = parse_query(query)?;
    Ok(Json(WaitView::from_aimed(&aim.find(&admin)?)))
}

/// The background work.
pub(super) async fn work(State(admin): State<Arc<Admin>>) -> Json<Value> {
    Json(json!({ "tasks": tasks(&admin) }))
}

/// The configuration in effect, with where each value came from.
pub(super) async fn config(State(admin): State<Arc<Admin>>) -> Result<Json<Value>, AdminProblem> {
    let values = effective(&admin.station.config().client).map_err(|_| {
        let detail = "the defaults cannot be read, which is a mistake of ours";
        AdminProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "defaults", detail)
    })?;
    let values: Vec<_> = values.iter().map(Effective::json).collect();
    Ok(Json(json!({ "values": values })))
}

/// The last changes.
pub(super) async fn audit(State(admin): State<Arc<Admin>>) -> Json<Value> {
    Json(json!({ "changes": admin.audit.newest_first() }))
}

/// What a reader of the stream wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    api: Option<SmolStr>,
    /// How often a snapshot is sent between the events.
    snapshot_ms: Option<u64>,
}

/// The live stream.
pub(super) async fn events(
    State(admin): State<Arc<Admin>>,
    query: Asked<StreamQuery>,
) -> Result<Response, AdminProblem> {
    let listen = parse_query(query)?;
    let snapshots = match listen.snapshot_ms {
        None => None,
        Some(span @ 100..=60_000) => Some(SnapshotStream::every(
            Duration::from_millis(span),
            Arc::clone(&admin),
        )),
        Some(_) => return Err(AdminProblem::bad("`snapshot_ms` is from 100 to 60000")),
    };
    let wish = StreamRequest {
        api: listen.api,
        snapshots,
    };
    let listening = admin.feed.listen(wish, admin.stop.clone()).ok_or_else(|| {
        let detail = "too many listen already: close a page";
        AdminProblem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", detail)
    })?;
    Ok(typed(
        "text/event-stream",
        Body::new(EventBody::from_listening(listening)),
    ))
}

fn parse_query<T>(query: Asked<T>) -> Result<T, AdminProblem> {
    let Query(asked) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
    Ok(asked)
}

fn typed(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
