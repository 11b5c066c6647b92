//! Permits for programs that send with their own HTTP client.
//!
//! A program acquires a permit, sends and settles. It uses the upstream of the sidecar, so that both together
//! keep the limits. A caller that hangs up leaves the wait queue. A lease covers a caller that dies with a permit.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use outflow::{Permit, Verdict, WaitMode};
use outflow_core::Clock;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::attempt_result::ReportedResult;
use super::call_target::{CallTarget, PriorityParam, ResolvedCall};
use super::explain::WaitView;
use super::json_body::JsonBody;
use super::leased_permits::LeaseError;
use super::millis::{millis, millis_up};
use super::problem::{AdminProblem, JsonResult};
use super::{Admin, AdminState, labels};

/// Request for a permit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    api: SmolStr,
    group: Option<SmolStr>,
    method: Option<SmolStr>,
    path: Option<SmolStr>,
    endpoint: Option<SmolStr>,
    cost: Option<u64>,
    priority: Option<PriorityParam>,
    /// Longest wait; by default as configured for the API.
    max_wait_ms: Option<u64>,
    /// True to wait, false to be refused at once; by default as configured for the API.
    wait: Option<bool>,
    lease_ms: Option<u64>,
}

/// Acquired permit.
#[derive(Debug, Serialize)]
pub(crate) struct AcquireView {
    permit: String,
    group: SmolStr,
    endpoint: Option<SmolStr>,
    cost: u64,
    waited_ms: u64,
    expires_in_ms: u64,
}

/// Waits for a permit and leases it to the caller.
pub(crate) async fn acquire(
    State(admin): AdminState,
    JsonBody(body): JsonBody<AcquireBody>,
) -> JsonResult<AcquireView> {
    let lease = body.lease()?;
    let call = body.target().resolve(&admin)?;
    admin.permits.check_capacity()?;
    let permit = acquire_permit(&body, &call, &admin).await?;
    let waited_ms = millis(permit.waited());
    let until = admin.clock.now().saturating_add(lease);
    let number = admin.permits.lease(permit, until)?;
    Ok(Json(AcquireView {
        permit: number.to_string(),
        group: call.upstream.group_name(call.target),
        endpoint: call.upstream.endpoint_name(call.target),
        cost: call.target.cost().units(),
        waited_ms,
        expires_in_ms: millis(lease),
    }))
}

impl AcquireBody {
    fn target(&self) -> CallTarget {
        CallTarget {
            api: self.api.clone(),
            group: self.group.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            endpoint: self.endpoint.clone(),
            cost: self.cost,
            priority: self.priority,
        }
    }

    fn lease(&self) -> Result<Duration, AdminProblem> {
        let lease = self.lease_ms.map_or(DEFAULT_LEASE, Duration::from_millis);
        if lease.is_zero() || lease > MAX_LEASE {
            return Err(AdminProblem::bad("`lease_ms` is from 1 to 600000"));
        }
        Ok(lease)
    }
}

async fn acquire_permit(body: &AcquireBody, call: &ResolvedCall, admin: &Admin) -> Result<Permit, AdminProblem> {
    let mut options = call.acquire_options();
    if let Some(max_wait) = body.max_wait_ms {
        options = options.with_max_wait(Duration::from_millis(max_wait));
    }
    options = match body.wait {
        Some(true) => options.with_mode(WaitMode::Wait),
        Some(false) => options.with_mode(WaitMode::Reject),
        None => options,
    };
    tokio::select! {
        permit = call.upstream.acquire_with(call.target, options) => Ok(permit?),
        () = admin.stop.cancelled() => Err(AdminProblem::stopping()),
    }
}

/// Verdict on the settled attempt.
#[derive(Debug, Serialize)]
pub(crate) struct SettleView {
    effect: &'static str,
    retry: bool,
    /// Wait that the server asked for, if any.
    delay_ms: Option<u64>,
}

/// Settles a permit with the result of its attempt.
pub(crate) async fn settle(
    State(admin): AdminState,
    JsonBody(reported): JsonBody<ReportedResult>,
) -> JsonResult<SettleView> {
    // An invalid result leaves the permit with its holder.
    let result = reported.parse()?;
    let permit = take_permit(&admin, reported.permit())?;
    let verdict = permit.settle(result.as_attempt_result());
    Ok(Json(SettleView::from_verdict(&verdict)))
}

impl SettleView {
    fn from_verdict(verdict: &Verdict) -> Self {
        Self {
            effect: labels::outcome_class(verdict.effect),
            retry: verdict.is_worth_a_retry(),
            delay_ms: verdict.retry_after.map(millis_up),
        }
    }
}

/// Unused permit to refund.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundBody {
    permit: SmolStr,
}

/// Refunds the permit of a call that was not sent.
pub(crate) async fn refund(
    State(admin): AdminState,
    JsonBody(refund): JsonBody<RefundBody>,
) -> Result<StatusCode, AdminProblem> {
    take_permit(&admin, &refund.permit)?.refund();
    Ok(StatusCode::NO_CONTENT)
}

fn take_permit(admin: &Admin, number: &str) -> Result<Permit, AdminProblem> {
    let number = number.parse().ok();
    let taken = number.and_then(|number| admin.permits.take(number, admin.clock.now()));
    taken.ok_or_else(|| {
        let detail = "this permit is not leased: it was settled or refunded, or its lease expired \
                      and the call counts as sent";
        AdminProblem::new(StatusCode::GONE, "unknown_permit", detail)
    })
}

/// Estimates the wait of such a call. Takes no permit.
pub(crate) async fn check(State(admin): AdminState, JsonBody(target): JsonBody<CallTarget>) -> JsonResult<WaitView> {
    Ok(Json(WaitView::from_call(&target.resolve(&admin)?)))
}

impl From<LeaseError> for AdminProblem {
    fn from(error: LeaseError) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        match error {
            LeaseError::TooMany => {
                let detail = "too many permits are leased: settle or refund finished ones";
                Self::new(unavailable, "too_many_permits", detail)
            }
            LeaseError::Stopping => Self::stopping(),
            LeaseError::NoRandomness => {
                let detail = "the system has no randomness: retry later";
                Self::new(unavailable, "no_randomness", detail)
            }
        }
    }
}

/// A call takes seconds; a minute is ample for it and short for a permit whose holder died.
const DEFAULT_LEASE: Duration = Duration::from_mins(1);

/// Longer than any attempt should take.
const MAX_LEASE: Duration = Duration::from_mins(10);
