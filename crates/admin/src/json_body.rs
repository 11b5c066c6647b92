//! What a request brings: a small JSON document, read whole or refused.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use super::problem::AdminProblem;

/// The body of a request as a value.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = AdminProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminProblem> {
        let detail = "the body is larger than 1 MiB or broke off: nothing here needs so much";
        let bytes = read_body(request, LARGEST, detail).await?;
        let value = serde_json::from_slice(&bytes);
        value
            .map(Self)
            .map_err(|error| AdminProblem::bad(misread(&bytes, &error)))
    }
}

/// What is wrong with a body, without the names of types that only the program knows.
fn misread(bytes: &[u8], error: &serde_json::Error) -> String {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Err(wrong) => format!(
            "the body is no JSON from line {}, column {} on: send an object such as {{}}",
            wrong.line(),
            wrong.column()
        ),
        Ok(value) if !value.is_object() => "the body is no object: send one such as {}".to_owned(),
        Ok(_) => format!("the body is not as expected: {error}"),
    }
}

/// Many jobs at once, as they were sent.
#[derive(Debug)]
pub(crate) struct JobLines(pub(crate) Bytes);

impl<S: Sync> FromRequest<S> for JobLines {
    type Rejection = AdminProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminProblem> {
        let detail = "the body is larger than 16 MiB or broke off: send fewer jobs at once";
        read_body(request, LARGEST_BATCH, detail).await.map(Self)
    }
}

async fn read_body(request: Request, most: usize, too_large: &str) -> Result<Bytes, AdminProblem> {
    let body = Limited::new(request.into_body(), most).collect();
    let Ok(read) = tokio::time::timeout(PATIENCE, body).await else {
        let detail = "the body took too long: send it at once";
        let status = StatusCode::REQUEST_TIMEOUT;
        return Err(AdminProblem::new(status, "slow_body", detail));
    };
    let large = |_| AdminProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "large_body", too_large);
    Ok(read.map_err(large)?.to_bytes())
}

/// Far more than any document that is understood here.
const LARGEST: usize = 1024 * 1024;

/// Ten thousand jobs of a kilobyte and a half.
const LARGEST_BATCH: usize = 16 * 1024 * 1024;

/// Operators send a few hundred bytes; whoever takes longer holds a connection for its own sake.
const PATIENCE: Duration = Duration::from_secs(15);
