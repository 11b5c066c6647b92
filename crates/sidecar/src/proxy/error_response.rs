//! Problems for calls without a response: status, type and advice.
//!
//! A refusal by a limit is 429 with `Retry-After`, as an API would send it, so that clients know how to wait.
//! A health state is 503, a network failure 502, a timeout 504.

use http::StatusCode;
use outflow::core::Fault;
use outflow::refusal::http_status;
use outflow::{CacheMissCause, Error, Refusal, RefusalReason, WaitReason};

use super::problem::ProxyProblem;
use super::request_body::BodyError;

/// Builds the problem of a call to this API that failed.
pub(crate) fn call_problem(api: &str, error: &Error) -> ProxyProblem {
    let problem = match error.refusal() {
        Some(refusal) => refusal_problem(refusal),
        None => failure_problem(error),
    };
    problem
        .fact("api", api)
        .fact("attempts", error.attempts())
        .detail(error.to_string())
}

/// Builds the problem of a request whose body did not arrive completely.
pub(crate) fn body_problem(api: &str, error: BodyError) -> ProxyProblem {
    let (status, kind, advice) = match error {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "send less, or raise `server.max_body`",
        ),
        BodyError::Slow => (
            StatusCode::REQUEST_TIMEOUT,
            "body_slow",
            "send the body without pauses, or raise `body_timeout`",
        ),
        BodyError::Malformed => (
            StatusCode::BAD_REQUEST,
            "body_malformed",
            "send the complete body, with chunks as in HTTP/1.1",
        ),
    };
    ProxyProblem::new(status, kind, "the body of the request is incomplete")
        .fact("api", api)
        .detail(error.to_string())
        .advice(advice)
        .closing()
}

fn refusal_problem(refusal: &Refusal) -> ProxyProblem {
    let cause = &refusal.reason;
    let problem = ProxyProblem::new(http_status::status_code(cause), cause.name(), title(cause));
    let problem = match cause {
        RefusalReason::TooLate(why) => with_wait_reason(problem, why)
            .advice("allow more time with Outflow-Deadline and Outflow-Max-Wait, or call less often"),
        RefusalReason::Busy(why) => with_wait_reason(problem.retry_after(Some(SHORT_RETRY)), why)
            .advice("retry after `retry_after`, or let the call wait with Outflow-Mode: wait"),
        RefusalReason::Never { limit } => problem
            .fact("limit", limit.to_string())
            .advice("split the call or lower its cost"),
        RefusalReason::Blocked(cause) => problem
            .fact("state", cause.state.name())
            .advice(match refusal.retry_after {
                Some(_) => "retry after `retry_after`; `outflow status` shows the reason",
                None => "`outflow status` shows the reason; `outflow health release` ends an override",
            }),
        RefusalReason::QueueFull => problem
            .retry_after(Some(SHORT_RETRY))
            .advice("call less often, or raise `queue`"),
        RefusalReason::UnknownGroup(name) => problem
            .fact("group", name.as_str())
            .advice("name a group of the API's configuration in Outflow-Group"),
        RefusalReason::ShuttingDown => problem.retry_after(Some(SHORT_RETRY)).closing(),
        _ => problem,
    };
    problem
        .retry_after(refusal.retry_after)
        .proxy_error("http_request_denied")
}

const fn title(cause: &RefusalReason) -> &'static str {
    match cause {
        RefusalReason::TooLate(_) => "the call cannot go before its deadline",
        RefusalReason::Busy(_) => "the call cannot go now and does not wait",
        RefusalReason::Never { .. } => "the call costs more than a limit ever allows",
        RefusalReason::Blocked { .. } => "the health state of the API allows no calls",
        RefusalReason::QueueFull => "the wait queue is full",
        RefusalReason::UnknownGroup(_) => "there is no such group",
        RefusalReason::ShuttingDown => "the program is stopping",
        _ => "the call was refused",
    }
}

/// Adds the reason for the wait.
fn with_wait_reason(problem: ProxyProblem, why: &WaitReason) -> ProxyProblem {
    let waits_for = problem.fact("waits_for", why.name());
    match why {
        WaitReason::Limit { rate, lowered, .. } => {
            let problem = waits_for.fact("limit", rate.to_string());
            match lowered {
                Some(lowered) => problem.fact("configured_limit", lowered.configured.to_string()),
                None => problem,
            }
        }
        WaitReason::Concurrency { most, .. } => waits_for.fact("concurrency", *most),
        WaitReason::State(cause) => waits_for.fact("state", cause.state.name()),
        _ => waits_for,
    }
}

fn failure_problem(error: &Error) -> ProxyProblem {
    if error.is_method_not_allowed() {
        let problem = invalid_call(StatusCode::METHOD_NOT_ALLOWED, "method");
        return problem.advice("add the method to `methods`");
    }
    if error.is_invalid_request() {
        return invalid_call(StatusCode::BAD_REQUEST, "path");
    }
    if let Some(cause) = error.cache_miss_cause() {
        return ProxyProblem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "cache_miss",
            "only the cache may respond, and it has no response",
        )
        .advice(match cause {
            CacheMissCause::Option => "call without Outflow-Cache: only",
            CacheMissCause::Directive => "call without Cache-Control: only-if-cached",
            _ => "call again when the API is available",
        })
        .proxy_error("http_request_denied");
    }
    let (status, kind, proxy_error) = classify(error);
    let title = match status {
        StatusCode::GATEWAY_TIMEOUT => "the API did not respond in time",
        _ => "the API sent no usable response",
    };
    ProxyProblem::new(status, kind, title)
        .retry_after(error.retry_after())
        .proxy_error(proxy_error)
}

fn invalid_call(status: StatusCode, kind: &str) -> ProxyProblem {
    ProxyProblem::new(status, kind, "the call is invalid")
}

/// Returns the status, the problem type and the proxy error of RFC 9209.
fn classify(error: &Error) -> (StatusCode, &'static str, &'static str) {
    let gone = StatusCode::BAD_GATEWAY;
    let late = StatusCode::GATEWAY_TIMEOUT;
    match error.fault() {
        Some(Fault::ConnectTimeout) => (late, "connect_timeout", "connection_timeout"),
        Some(Fault::ReadTimeout) => (late, "timeout", "http_response_timeout"),
        Some(Fault::Dns) => (gone, "dns", "dns_error"),
        Some(Fault::Reset) if error.is_connect() => (gone, "connect", "connection_refused"),
        Some(Fault::Reset) => (gone, "connection_lost", "connection_terminated"),
        Some(Fault::TlsHandshake) => (gone, "tls", "tls_protocol_error"),
        Some(Fault::TlsCertificate) => (gone, "tls", "tls_certificate_error"),
        Some(Fault::TruncatedBody) => (gone, "truncated", "http_response_incomplete"),
        Some(Fault::InvalidResponse) => (gone, "invalid_response", "http_protocol_error"),
        None if error.is_timeout() => (late, "deadline", "http_response_timeout"),
        None if error.is_forbidden() => (gone, "forbidden", "destination_ip_prohibited"),
        None if error.is_body() => (gone, "answer_too_large", "http_response_body_size"),
        None => (gone, "failed", "proxy_internal_error"),
    }
}

/// Delay where the next free place is unknown; an earlier retry would most likely fail again.
const SHORT_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
