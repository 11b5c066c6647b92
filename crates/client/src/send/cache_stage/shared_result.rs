//! Results that equal calls share.
//!
//! A failure is shared like a response, for a follower would only wait again for the same result.
//! The leader's own failures are not shared: its deadline and its refusal. Then the lead passes to
//! the next call, which acquires a permit within its own deadline. A call that started as early
//! with no longer wait is refused at once, so refusals do not add up. A follower whose wait ends
//! before the leader has a permit acquires its own.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::{CACHE_STATUS, append_status, emit_lookup};
use crate::cache::{CacheStatus, FlightKey, FlightRole, FollowFuture, FollowResult, ForwardReason, LeadGuard};
use crate::client::{Body, Response, ResponseStats, SharedCall};
use crate::error::{Error, ErrorKind};
use crate::event::CacheLabel;
use crate::send::CallState;

/// Result of a flight.
type SharedResult = Result<SharedCall, ErrorKind>;

/// Duty to share the result.
pub(in crate::send) type Lead = LeadGuard<SharedResult>;

/// Joins an equal call; `None` if this call sends its own request.
pub(super) async fn join(call: &mut CallState<'_>, key: FlightKey) -> Result<Option<SharedResult>, Error> {
    let role = match call.client.flights.join(key) {
        FlightRole::Lead(lead) => FollowResult::Lead(lead),
        FlightRole::Alone => FollowResult::Alone,
        FlightRole::Follow(leader) => follow(call, leader).await?,
    };
    match role {
        FollowResult::Shared(result) => return Ok(Some(result)),
        FollowResult::Lead(lead) => call.lead = Some(lead),
        FollowResult::Alone => {}
    }
    Ok(None)
}

/// Waits for an equal call within the caller's deadline, and for its permit no longer than for an
/// own one.
async fn follow(
    call: &CallState<'_>,
    mut leader: FollowFuture<SharedResult>,
) -> Result<FollowResult<SharedResult>, Error> {
    let now = call.client.upstream.now();
    let max_wait = call.request.wait_end(call.waits_since(now)).since(now);
    if let Ok(result) = tokio::time::timeout(max_wait, &mut leader).await {
        return Ok(result);
    }
    let remaining = call.time_left().unwrap_or(Duration::MAX);
    if remaining > Duration::ZERO && !leader.is_sent() {
        return Ok(FollowResult::Alone);
    }
    let result = tokio::time::timeout(remaining, leader).await;
    result.map_err(|_| Error::new(ErrorKind::Deadline))
}

/// Shares the result with the followers, as far as it applies to them.
pub(super) fn share(
    call: &mut CallState<'_>,
    result: &Result<Response, Error>,
    may_share: impl FnOnce(&Response) -> bool,
) {
    let Some(lead) = call.lead.take() else {
        return;
    };
    match result {
        Ok(response) => match response.body.buffered() {
            Some(body) if may_share(response) => lead.share(Ok(SharedCall {
                status: response.status,
                headers: response.headers.clone(),
                body: body.clone(),
            })),
            _ => lead.withhold(),
        },
        Err(error) => match error.kind() {
            // The next call may have a later deadline or a longer wait.
            ErrorKind::Deadline | ErrorKind::Refused(_) => drop(lead),
            kind => lead.share(Err(kind.clone())),
        },
    }
}

/// Builds the response from an equal call's.
pub(super) fn respond_shared(call: &CallState<'_>, response: SharedCall) -> Response {
    emit_lookup(call, CacheLabel::Coalesced);
    let mut headers = response.headers;
    let name = HeaderName::from_static(CACHE_STATUS);
    let mut statuses: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
    // The last value is ours, about the other call; the ones before are the server's.
    statuses.pop();
    headers.remove(&name);
    for value in statuses {
        headers.append(&name, value);
    }
    let status = CacheStatus::forwarded(ForwardReason::Miss).collapsed();
    append_status(&mut headers, status);
    Response {
        status: response.status,
        headers,
        body: Body::full(response.body),
        stats: ResponseStats {
            from_cache: Some(CacheLabel::Coalesced),
            ..call.response_stats()
        },
    }
}
