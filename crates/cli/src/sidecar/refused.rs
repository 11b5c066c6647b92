//! How a call that brought no answer is told to who asked for it: which status, which words.
//!
//! A limit of ours is told like a server's own, 429 with the time to come back, so that clients which
//! know how to wait do. What is the API's state is 503, what is the way to it 502, what is time 504.

use http::StatusCode;
use outflow::core::Fault;
use outflow::{Cause, Error, Refusal, Why};

use super::problem::Problem;
use super::upload::Broken;

/// What is told of a call to this API that ended so.
pub(super) fn problem(api: &str, error: &Error) -> Problem {
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
pub(super) fn body(api: &str, broken: Broken) -> Problem {
    let (status, kind, advice) = match broken {
        Broken::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "body-too-large",
            "send less, or raise `max_body`",
        ),
        Broken::Slow => (
            StatusCode::REQUEST_TIMEOUT,
            "body-slow",
            "send the body without pauses, or raise `body_timeout`",
        ),
        Broken::Malformed => (
            StatusCode::BAD_REQUEST,
            "body-malformed",
            "send the body whole and its chunks as HTTP/1.1 writes them",
        ),
    };
    Problem::new(status, kind, "the body of the request did not come whole")
        .fact("api", api)
        .detail(broken.to_string())
        .advice(advice)
        .closing()
}

fn refused(refusal: &Refusal) -> Problem {
    let problem = match &refusal.cause {
        Cause::TooLate(why) => waiting(why, "too-late", "the call cannot go before its deadline")
            .advice(
                "allow more time with Outflow-Deadline and Outflow-Max-Wait, or call less often",
            ),
        Cause::Busy(why) => waiting(why, "busy", "the call cannot go now and does not wait")
            .advice("come back after `retry_after`, or let it wait with Outflow-Mode: wait"),
        Cause::Never { limit } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "never",
            "the call costs more than a limit ever allows",
        )
        .fact("limit", limit.to_string())
        .advice("split the call or lower its cost"),
        Cause::Blocked { state } => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "blocked",
            "the state of the API lets nothing go",
        )
        .fact("state", state.name())
        .advice(match refusal.retry_after {
            Some(_) => "come back after `retry_after`; `outflow status` says why",
            None => "`outflow status` says why; what an operator holds, `outflow health release` lets go",
        }),
        Cause::QueueFull => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "queue-full",
            "as many calls wait as may",
        )
        .retry_after(Some(A_MOMENT))
        .advice("call less often, or raise `queue`"),
        Cause::UnknownGroup(name) => Problem::new(
            StatusCode::BAD_REQUEST,
            "unknown-group",
            "there is no such group",
        )
        .fact("group", name.as_str())
        .advice("name a group of the API's configuration in Outflow-Group"),
        Cause::ShuttingDown => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting-down",
            "the program is stopping",
        )
        .retry_after(Some(A_MOMENT))
        .closing(),
        _ => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "refused",
            "the call was not let through",
        ),
    };
    problem
        .retry_after(refusal.retry_after)
        .fact("cause", refusal.cause.name())
        .proxy_error("http_request_denied")
}

/// What a call would have had to wait for.
fn waiting(why: &Why, kind: &str, title: &str) -> Problem {
    let problem =
        |status, waits_for: &str| Problem::new(status, kind, title).fact("waits_for", waits_for);
    match why {
        Why::Limit { rate } => {
            problem(StatusCode::TOO_MANY_REQUESTS, "limit").fact("limit", rate.to_string())
        }
        Why::Turn => problem(StatusCode::TOO_MANY_REQUESTS, "turn"),
        Why::Concurrency { most } => {
            problem(StatusCode::TOO_MANY_REQUESTS, "concurrency").fact("concurrency", *most)
        }
        Why::Cooldown => problem(StatusCode::TOO_MANY_REQUESTS, "cooldown"),
        Why::State(state) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "state").fact("state", state.name())
        }
        _ => problem(StatusCode::TOO_MANY_REQUESTS, "other"),
    }
}

fn failed(error: &Error) -> Problem {
    if error.is_method_not_allowed() {
        return mistake(StatusCode::METHOD_NOT_ALLOWED, "method").advice("add it to `methods`");
    }
    if error.is_mistake() {
        return mistake(StatusCode::BAD_REQUEST, "path");
    }
    if error.is_cache_miss() {
        return Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "cache-miss",
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
    Problem::new(status, kind, title)
        .retry_after(error.retry_after())
        .proxy_error(word)
}

fn mistake(status: StatusCode, kind: &str) -> Problem {
    Problem::new(status, kind, "the call cannot be made as written")
}

/// What went wrong on the way or at the server, in the words of RFC 9209.
fn broken(error: &Error) -> (StatusCode, &'static str, &'static str) {
    let gone = StatusCode::BAD_GATEWAY;
    let late = StatusCode::GATEWAY_TIMEOUT;
    match error.fault() {
        Some(Fault::ConnectTimeout) => (late, "connect-timeout", "connection_timeout"),
        Some(Fault::ReadTimeout) => (late, "timeout", "http_response_timeout"),
        Some(Fault::Dns) => (gone, "dns", "dns_error"),
        Some(Fault::Reset) if error.is_connect() => (gone, "connect", "connection_refused"),
        Some(Fault::Reset) => (gone, "connection-lost", "connection_terminated"),
        Some(Fault::TlsHandshake) => (gone, "tls", "tls_protocol_error"),
        Some(Fault::TlsCertificate) => (gone, "tls", "tls_certificate_error"),
        Some(Fault::TruncatedBody) => (gone, "truncated", "http_response_incomplete"),
        None if error.is_timeout() => (late, "deadline", "http_response_timeout"),
        None if error.is_forbidden() => (gone, "forbidden", "destination_ip_prohibited"),
        None if error.is_body() => (gone, "answer-too-large", "http_response_body_size"),
        None => (gone, "failed", "proxy_internal_error"),
    }
}

/// Nobody knows when there is room again; sooner than a second it would be asked for nothing.
const A_MOMENT: std::time::Duration = std::time::Duration::from_secs(1);
