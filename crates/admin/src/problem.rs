//! RFC 9457 problem details of the admin API.
//!
//! Every failure has this shape, from a wrong path to a refused permit. Programs decide by `type`; `detail` is
//! for people and may change.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use outflow::{Refusal, RefusalReason, WaitReason};
use serde_json::{Map, Value};

use outflow::refusal::http_status;

/// Failure of a request, with its reason.
#[derive(Debug)]
pub(crate) struct AdminProblem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    more: Map<String, Value>,
}

/// Response of a handler.
pub(crate) type JsonResult<T = Value> = Result<Json<T>, AdminProblem>;

impl AdminProblem {
    /// Creates a problem; the detail names a remedy.
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
            retry_after: None,
            more: Map::new(),
        }
    }

    /// Creates the problem of an invalid request.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// Creates the problem of an unknown API.
    pub(crate) fn unknown_api() -> Self {
        let detail = "no API has this name: `outflow status` or GET /v1/apis lists them";
        Self::new(StatusCode::NOT_FOUND, "unknown_api", detail)
    }

    /// Creates the problem of an unknown group.
    pub(crate) fn unknown_group() -> Self {
        let detail = "the API has no group of this name: GET /v1/apis/{api} lists them";
        Self::new(StatusCode::NOT_FOUND, "unknown_group", detail)
    }

    /// Creates the problem of a program that stops.
    pub(crate) fn stopping() -> Self {
        let detail = "the program is shutting down: retry after the restart";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail)
    }

    /// Adds the time until a retry.
    pub(crate) fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self.with("retry_after_ms", super::millis::millis_up(delay).into())
    }

    /// Adds a member for programs.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_owned(), value);
        self
    }

    pub(crate) fn body(&self) -> String {
        let mut body = self.more.clone();
        let name = self.status.canonical_reason().unwrap_or("Failed");
        body.insert("type".to_owned(), format!("{TYPE_PREFIX}{}", self.kind).into());
        body.insert("title".to_owned(), name.into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("detail".to_owned(), self.detail.as_str().into());
        Value::Object(body).to_string()
    }
}

impl From<Refusal> for AdminProblem {
    /// Uses the status and type that the sidecar uses for this refusal.
    fn from(refusal: Refusal) -> Self {
        let status = http_status::status_code(&refusal.reason);
        let problem = Self::new(status, refusal.reason.name(), refusal.to_string());
        let problem = match refusal.retry_after {
            Some(delay) => problem.retry_after(delay),
            None => problem,
        };
        match &refusal.reason {
            RefusalReason::TooLate(why) | RefusalReason::Busy(why) => problem.with_wait_reason(why),
            RefusalReason::Never { limit } => problem.with("limit", limit.to_string().into()),
            RefusalReason::Blocked(cause) => problem.with("state", cause.state.name().into()),
            _ => problem,
        }
    }
}

impl AdminProblem {
    fn with_wait_reason(self, why: &WaitReason) -> Self {
        let problem = self.with("why", why.name().into());
        match why {
            WaitReason::Limit { rate, .. } => problem.with("limit", rate.to_string().into()),
            WaitReason::State(cause) => problem.with("state", cause.state.name().into()),
            _ => problem,
        }
    }
}

impl IntoResponse for AdminProblem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(delay) = self.retry_after {
            headers.insert(header::RETRY_AFTER, http_status::retry_after_seconds(delay).into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

const MEDIA_TYPE: &str = "application/problem+json";

/// Prefix of every type: a URN, because there is no page for the types.
const TYPE_PREFIX: &str = "urn:outflow:problem:";
