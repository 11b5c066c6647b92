//! What is told of a call that is over.

use http::Method;
use smol_str::SmolStr;

use super::CallState;
use super::attempt::reason_of_code;
use crate::client::Response;
use crate::error::Error;
use crate::event::{CallFinished, EventKind, FailureLabel, StatusLabel};
use crate::trace::RequestId;

/// Tells whoever listens that a call is over.
pub(super) fn finished(trip: &CallState<'_>, ended: &Result<Response, Error>) {
    trip.emit(|| EventKind::Finished(Box::new(line(trip, outcome(ended)))));
}

/// Tells whoever listens that a call's caller has left.
pub(super) fn abandoned(trip: &CallState<'_>) {
    trip.emit(|| EventKind::Finished(Box::new(line(trip, (StatusLabel::Cancelled, None, None)))));
}

/// How a call ended, with which code, and why it failed.
type Outcome = (StatusLabel, Option<u16>, Option<FailureLabel>);

fn outcome(ended: &Result<Response, Error>) -> Outcome {
    match ended {
        Ok(answer) => {
            let code = answer.status.as_u16();
            (
                StatusLabel::from_code(code),
                Some(code),
                reason_of_code(code),
            )
        }
        Err(error) => {
            let code = error.status().map(|status| status.as_u16());
            (error.class(), code, error.reason())
        }
    }
}

fn line(trip: &CallState<'_>, (status, code, reason): Outcome) -> CallFinished {
    let upstream = &trip.outlet.upstream;
    let moment = upstream.timer().moment();
    CallFinished {
        ts: moment.wall,
        group: upstream.group_name(trip.order.target),
        method: name_of(&trip.order.wish.method),
        path: shortened(&trip.order.wish.path),
        status,
        code,
        reason,
        latency: moment.now.since(trip.begun),
        attempts: trip.tally.attempts,
        state: upstream.state(trip.order.target),
        waited: trip.tally.waited,
        request_id: RequestId::new(moment.wall, &mut fastrand::Rng::new()).as_text(),
        trace_id: trip.order.trace.clone(),
    }
}

/// A method from a closed set: what callers invent must not become a label.
fn name_of(method: &Method) -> &'static str {
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

/// The path without its query, cut where a character ends.
fn shortened(path: &str) -> SmolStr {
    let bare = path.split('?').next().unwrap_or(path);
    let end = bare.floor_char_boundary(LONGEST_PATH);
    bare.get(..end).unwrap_or_default().into()
}

/// A log line stays a line.
const LONGEST_PATH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_without_its_query_and_cut() {
        assert_eq!(shortened("/a?key=CANARY"), "/a");
        assert_eq!(shortened(&"/가".repeat(100)).len(), 256);
        assert_eq!(shortened(&format!("/{}가", "a".repeat(254))).len(), 255);
    }
}
