//! What an operator is told when something cannot be done: a problem in the words of RFC 9457.
//!
//! Every failure of the admin API is one of these, from a wrong address to a refused permit, so that
//! a caller reads one shape. `type` is the word to decide by; `detail` is for people and may change.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use outflow::{Refusal, RefusalReason, WaitReason};
use serde_json::{Map, Value};

use outflow::refusal::http_status;

/// Something that could not be done, and why.
#[derive(Debug)]
pub(crate) struct AdminProblem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    more: Map<String, Value>,
}

impl AdminProblem {
    /// A problem of this kind; the text says what to do next.
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
            retry_after: None,
            more: Map::new(),
        }
    }

    /// What was sent makes no sense.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// No API has this name.
    pub(crate) fn unknown_api() -> Self {
        let detail = "no API has this name: GET /v1/apis lists them";
        Self::new(StatusCode::NOT_FOUND, "unknown_api", detail)
    }

    /// The API has no group of this name.
    pub(crate) fn unknown_group() -> Self {
        let detail = "the API has no group of this name: GET /v1/apis/{api} lists them";
        Self::new(StatusCode::NOT_FOUND, "unknown_group", detail)
    }

    /// The program is about to end.
    pub(crate) fn stopping() -> Self {
        let detail = "the program is shutting down: ask the one that takes its place";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail)
    }

    /// The same, worth another try after this long.
    pub(crate) fn after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self.with("retry_after_ms", super::millis::millis_up(span).into())
    }

    /// The same with one more fact.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_owned(), value);
        self
    }

    fn body(&self) -> String {
        let mut body = self.more.clone();
        let name = self.status.canonical_reason().unwrap_or("Failed");
        body.insert("type".to_owned(), format!("{TYPES}{}", self.kind).into());
        body.insert("title".to_owned(), name.into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("detail".to_owned(), self.detail.as_str().into());
        Value::Object(body).to_string()
    }
}

impl From<Refusal> for AdminProblem {
    /// A refusal at the door, told as the sidecar tells it.
    fn from(refusal: Refusal) -> Self {
        let status = http_status::status_code(&refusal.cause);
        let problem = Self::new(status, refusal.cause.name(), refusal.to_string());
        let problem = match refusal.retry_after {
            Some(span) => problem.after(span),
            None => problem,
        };
        match &refusal.cause {
            RefusalReason::TooLate(why) | RefusalReason::Busy(why) => problem.because(why),
            RefusalReason::Never { limit } => problem.with("limit", limit.to_string().into()),
            RefusalReason::Blocked { state } => problem.with("state", state.name().into()),
            _ => problem,
        }
    }
}

impl AdminProblem {
    fn because(self, why: &WaitReason) -> Self {
        let problem = self.with("why", super::labels::why(why).into());
        match why {
            WaitReason::Limit { rate } => problem.with("limit", rate.to_string().into()),
            WaitReason::State(state) => problem.with("state", state.name().into()),
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
        if let Some(span) = self.retry_after {
            headers.insert(
                header::RETRY_AFTER,
                http_status::retry_after_seconds(span).into(),
            );
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

const MEDIA_TYPE: &str = "application/problem+json";

/// What every type begins with: a name and no place on the net, where nothing would be found.
const TYPES: &str = "urn:outflow:problem:";
