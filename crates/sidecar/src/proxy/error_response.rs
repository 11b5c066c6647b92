//! How a call that brought no answer is told to who asked for it: which status, which words.
//!
//! A limit of ours is told like a server's own, 429 with the time to come back, so that clients which
//! know how to wait do. What is the API's state is 503, what is the way to it 502, what is time 504.

use http::StatusCode;
use outflow::core::Fault;
use outflow::refusal::http_status;
use outflow::{Error, Refusal, RefusalReason, WaitReason};

use super::problem::ProxyProblem;
use super::request_body::BodyError;

/// What is told of a call to this API that ended so.
pub(crate) fn problem(api: &str, error: &Error) -> ProxyProblem {
    let problem = match error.refusal() {
        Some(refusal) => refused(refusal),
        None => failed(error),
    };
    problem
        .fact("api", api)
        .fact("attempts", error.attempts())
        .detail(error.to_string())
}

/// What is told when the body of the request did not come whole.
pub(crate) fn body(api: &str, broken: BodyError) -> ProxyProblem {
    let (status, kind, advice) = match broken {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "send less, or raise `max_body`",
        ),
        BodyError::Slow => (
            StatusCode::REQUEST_TIMEOUT,
            "body_slow",
            "send the body without pauses, or raise `body_timeout`",
        ),
        BodyError::Malformed => (
            StatusCode::BAD_REQUEST,
            "body_malformed",
            "send the body whole and its chunks as HTTP/1.1 writes them",
        ),
    };
    ProxyProblem::new(status, kind, "the body of the request did not come whole")
        .fact("api", api)
        .detail(broken.to_string())
        .advice(advice)
        .closing()
}

fn refused(refusal: &Refusal) -> ProxyProblem {
    let cause = &refusal.cause;
    let problem = ProxyProblem::new(http_status::status_code(cause), cause.name(), title(cause));
    let problem = match cause {
        RefusalReason::TooLate(why) => waiting(problem, why).advice(
            "allow more time with Outflow-Deadline and Outflow-Max-Wait, or call less often",
        ),
        RefusalReason::Busy(why) => waiting(problem.retry_after(Some(A_MOMENT)), why)
            .advice("come back after `retry_after`, or let it wait with Outflow-Mode: wait"),
        RefusalReason::Never { limit } => problem
            .fact("limit", limit.to_string())
            .advice("split the call or lower its cost"),
        RefusalReason::Blocked { state } => problem
            .fact("state", state.name())
            .advice(match refusal.retry_after {
                Some(_) => "come back after `retry_after`; `outflow status` says why",
                None => "`outflow status` says why; what an operator holds, `outflow health release` lets go",
            }),
        RefusalReason::QueueFull => problem
            .retry_after(Some(A_MOMENT))
            .advice("call less often, or raise `queue`"),
        RefusalReason::UnknownGroup(name) => problem
            .fact("group", name.as_str())
            .advice("name a group of the API's configuration in Outflow-Group"),
        RefusalReason::ShuttingDown => problem.retry_after(Some(A_MOMENT)).closing(),
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
        RefusalReason::Blocked { .. } => "the state of the API lets nothing go",
        RefusalReason::QueueFull => "as many calls wait as may",
        RefusalReason::UnknownGroup(_) => "there is no such group",
        RefusalReason::ShuttingDown => "the program is stopping",
        _ => "the call was not let through",
    }
}

/// What a call would have had to wait for.
fn waiting(problem: ProxyProblem, why: &WaitReason) -> ProxyProblem {
    let waits_for = |what: &str| problem.fact("waits_for", what);
    match why {
        WaitReason::Limit { rate } => waits_for("limit").fact("limit", rate.to_string()),
        WaitReason::Turn => waits_for("turn"),
        WaitReason::Concurrency { most } => waits_for("concurrency").fact("concurrency", *most),
        WaitReason::Cooldown => waits_for("cooldown"),
        WaitReason::State(state) => waits_for("state").fact("state", state.name()),
        _ => waits_for("other"),
    }
}

fn failed(error: &Error) -> ProxyProblem {
    if error.is_method_not_allowed() {
        return mistake(StatusCode::METHOD_NOT_ALLOWED, "method").advice("add it to `methods`");
    }
    if error.is_invalid_request() {
        return mistake(StatusCode::BAD_REQUEST, "path");
    }
    if error.is_cache_miss() {
        return ProxyProblem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "cache_miss",
            "only the cache may answer, and it has nothing",
        )
        .advice("ask without Outflow-Cache: only, or when the API may be called again")
        .proxy_error("http_request_denied");
    }
    let (status, kind, word) = broken(error);
    let title = match status {
        StatusCode::GATEWAY_TIMEOUT => "the API did not answer in time",
        _ => "the API gave no answer that can be handed on",
    };
    ProxyProblem::new(status, kind, title)
        .retry_after(error.retry_after())
        .proxy_error(word)
}

fn mistake(status: StatusCode, kind: &str) -> ProxyProblem {
    ProxyProblem::new(status, kind, "the call cannot be made as written")
}

/// What went wrong on the way or at the server, in the words of RFC 9209.
fn broken(error: &Error) -> (StatusCode, &'static str, &'static str) {
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
        None if error.is_timeout() => (late, "deadline", "http_response_timeout"),
        None if error.is_forbidden() => (gone, "forbidden", "destination_ip_prohibited"),
        None if error.is_body() => (gone, "answer_too_large", "http_response_body_size"),
        None => (gone, "failed", "proxy_internal_error"),
    }
}

/// Nobody knows when there is room again; sooner than a second it would be asked for nothing.
const A_MOMENT: std::time::Duration = std::time::Duration::from_secs(1);
