//! Forms of a problem that client libraries of LLM providers read.
//!
//! They show `error.message` of a body and obey the header `x-should-retry`. Without `error`, `OpenAI`'s library for
//! Node reports a response without a body.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

/// Builds the member `error` of a problem.
pub(crate) fn error_member(status: StatusCode, code: &str, reason: &str) -> Value {
    json!({
        "message": format!("Outflow: {reason}"),
        "type": error_type(status),
        "code": code,
    })
}

/// Returns the name under which `OpenAI` and Anthropic know such a status.
const fn error_type(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        _ if status.as_u16() >= 500 => "api_error",
        _ => "invalid_request_error",
    }
}

/// Returns the value of `x-should-retry` for a refusal: a library retries only after a known, short wait.
pub(crate) fn should_retry(retry_after: Option<Duration>) -> HeaderValue {
    HeaderValue::from_static(match retry_after {
        Some(delay) if delay <= LIBRARY_PATIENCE => "true",
        _ => "false",
    })
}

/// Header that the libraries of `OpenAI` and Anthropic obey before all other rules of retries.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The libraries obey a `Retry-After` of up to a minute. After a longer one they wait some seconds, or not at all.
const LIBRARY_PATIENCE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_retries_only_after_a_known_and_short_wait() {
        for (seconds, expected) in [
            (Some(1), "true"),
            (Some(60), "true"),
            (Some(61), "false"),
            (None, "false"),
        ] {
            assert_eq!(should_retry(seconds.map(Duration::from_secs)), expected, "{seconds:?}");
        }
    }

    #[test]
    fn every_status_has_the_type_of_the_libraries() {
        for (status, expected) in [
            (429, "rate_limit_error"),
            (503, "overloaded_error"),
            (502, "api_error"),
            (401, "authentication_error"),
            (422, "invalid_request_error"),
        ] {
            let status = StatusCode::from_u16(status).expect("valid");
            assert_eq!(error_member(status, "busy", "no quota")["type"], expected);
        }
    }
}
