//! Event of a finished call.

use std::time::Duration;

use http::Method;
use smol_str::SmolStr;

use super::CallState;
use super::attempt::reason_of_code;
use crate::client::Response;
use crate::error::Error;
use crate::event::{CallFinished, EventKind, FailureLabel, StatusLabel};
use crate::trace::RequestId;

/// Emits the end of a call.
pub(super) fn emit_finished(call: &CallState<'_>, result: &Result<Response, Error>) {
    call.emit(|| EventKind::Finished(Box::new(summary(call, outcome(result)))));
}

/// Emits the end of a call whose caller has left.
pub(super) fn emit_abandoned(call: &CallState<'_>) {
    let outcome = CallOutcome {
        status: StatusLabel::Cancelled,
        code: None,
        reason: None,
        retry_after: None,
    };
    call.emit(|| EventKind::Finished(Box::new(summary(call, outcome))));
}

/// End of a call.
struct CallOutcome {
    status: StatusLabel,
    code: Option<u16>,
    reason: Option<FailureLabel>,
    retry_after: Option<Duration>,
}

fn outcome(result: &Result<Response, Error>) -> CallOutcome {
    match result {
        Ok(response) => {
            let code = response.status.as_u16();
            CallOutcome {
                status: StatusLabel::from_code(code),
                code: Some(code),
                reason: reason_of_code(code),
                retry_after: response.stats.retry_after,
            }
        }
        Err(error) => CallOutcome {
            status: error.class(),
            code: error.status().map(|status| status.as_u16()),
            reason: error.reason(),
            retry_after: error.retry_after(),
        },
    }
}

fn summary(call: &CallState<'_>, outcome: CallOutcome) -> CallFinished {
    let upstream = &call.client.upstream;
    let moment = upstream.timer().moment();
    CallFinished {
        ts: moment.wall,
        group: upstream.group_name(call.request.target),
        method: method_name(&call.request.spec.method),
        path: shorten_path(&call.request.spec.path),
        status: outcome.status,
        code: outcome.code,
        reason: outcome.reason,
        latency: moment.now.since(call.started),
        attempts: call.stats.attempts,
        state: upstream.state(call.request.target),
        waited: call.stats.waited,
        retry_after: outcome.retry_after,
        request_id: RequestId::new(moment.wall, &mut fastrand::Rng::new()).to_text(),
    }
}

/// Returns a method from a closed set: invented methods must not become a label.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        _ => "OTHER",
    }
}

/// Returns the path without its query, cut at a character boundary.
fn shorten_path(path: &str) -> SmolStr {
    let bare = path.split('?').next().unwrap_or(path);
    let end = bare.floor_char_boundary(MAX_PATH);
    bare.get(..end).unwrap_or_default().into()
}

/// Keeps a log line short.
const MAX_PATH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_reported_without_its_query_and_shortened() {
        assert_eq!(shorten_path("/a?key=CANARY"), "/a");
        assert_eq!(shorten_path(&"/가".repeat(100)).len(), 256);
        assert_eq!(shorten_path(&format!("/{}가", "a".repeat(254))).len(), 255);
    }
}
