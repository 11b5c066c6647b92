//! Body of a request: a JSON document of limited size.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use super::problem::AdminProblem;

/// Body of a request, parsed as JSON.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = AdminProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminProblem> {
        let detail = "the body is larger than 1 MiB or ended early: send a smaller document";
        let bytes = read_body(request, MAX_DOCUMENT, detail).await?;
        let value = serde_json::from_slice(&bytes);
        value
            .map(Self)
            .map_err(|error| AdminProblem::bad(describe(&bytes, &error)))
    }
}

/// Describes the error without the names of internal types.
fn describe(bytes: &[u8], error: &serde_json::Error) -> String {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Err(error) => format!(
            "the body is no JSON from line {}, column {} on: send an object such as {{}}",
            error.line(),
            error.column()
        ),
        Ok(value) if !value.is_object() => "the body is no object: send one such as {}".to_owned(),
        Ok(_) => format!("the body is not as expected: {error}"),
    }
}

/// Body with many jobs, unparsed.
#[derive(Debug)]
pub(crate) struct JobLines(pub(crate) Bytes);

impl<S: Sync> FromRequest<S> for JobLines {
    type Rejection = AdminProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminProblem> {
        let detail = "the body is larger than 16 MiB or ended early: send fewer jobs at once";
        read_body(request, MAX_BATCH, detail).await.map(Self)
    }
}

async fn read_body(request: Request, limit: usize, too_large: &str) -> Result<Bytes, AdminProblem> {
    let body = Limited::new(request.into_body(), limit).collect();
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, body).await else {
        let detail = "the body took too long: send it at once";
        let status = StatusCode::REQUEST_TIMEOUT;
        return Err(AdminProblem::new(status, "slow_body", detail));
    };
    let large = |_| AdminProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "large_body", too_large);
    Ok(read.map_err(large)?.to_bytes())
}

/// Far more than any valid document.
const MAX_DOCUMENT: usize = 1024 * 1024;

/// Ten thousand jobs of 1.6 KiB.
const MAX_BATCH: usize = 16 * 1024 * 1024;

/// Operators send a few hundred bytes; a slower client only occupies a connection.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
