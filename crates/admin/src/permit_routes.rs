//! The limiter alone: permits for programs that send by themselves.
//!
//! Ask, send, settle: the same door that the sidecar uses, so that both together keep the limits. A
//! caller that hangs up while it waits has asked for nothing; one that dies with a permit in its hand
//! is covered by the lease.

use std::sync::Arc;
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
use super::json_body;
use super::leased_permits::NotHandedOut;
use super::millis::{millis, millis_up};
use super::problem::AdminProblem;
use super::{Admin, labels};

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    api: SmolStr,
    group: Option<SmolStr>,
    method: Option<SmolStr>,
    path: Option<SmolStr>,
    cost: Option<u64>,
    priority: Option<PriorityParam>,
    /// The longest wait; as long as the API's rules say otherwise.
    max_wait_ms: Option<u64>,
    /// Whether to wait at all; as the API's rules say otherwise.
    wait: Option<bool>,
    lease_ms: Option<u64>,
}

/// A permit.
#[derive(Debug, Serialize)]
pub(crate) struct AcquireView {
    permit: String,
    group: SmolStr,
    cost: u64,
    waited_ms: u64,
    expires_in_ms: u64,
}

/// Waits for a permit, or says why there is none.
pub(crate) async fn acquire(
    State(admin): State<Arc<Admin>>,
    json_body::JsonBody(wish): json_body::JsonBody<AcquireBody>,
) -> Result<Json<AcquireView>, AdminProblem> {
    let lease = wish.lease()?;
    let aimed = wish.aim().find(&admin)?;
    admin.permits.has_room()?;
    let permit = wait(&wish, &aimed, &admin).await?;
    let waited_ms = millis(permit.waited());
    let until = admin.clock.now().saturating_add(lease);
    let number = admin.permits.hand_out(permit, until)?;
    Ok(Json(AcquireView {
        permit: number.to_string(),
        group: aimed.door.group_name(aimed.target),
        cost: aimed.target.cost().units(),
        waited_ms,
        expires_in_ms: millis(lease),
    }))
}

impl AcquireBody {
    fn aim(&self) -> CallTarget {
        CallTarget {
            api: self.api.clone(),
            group: self.group.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            cost: self.cost,
            priority: self.priority,
        }
    }

    fn lease(&self) -> Result<Duration, AdminProblem> {
        let lease = self.lease_ms.map_or(USUAL_LEASE, Duration::from_millis);
        if lease.is_zero() || lease > LONGEST_LEASE {
            return Err(AdminProblem::bad("`lease_ms` is from 1 to 600000"));
        }
        Ok(lease)
    }
}

async fn wait(
    wish: &AcquireBody,
    aimed: &ResolvedCall,
    admin: &Admin,
) -> Result<Permit, AdminProblem> {
    let mut ask = aimed.acquire_options();
    if let Some(span) = wish.max_wait_ms {
        let span = Duration::from_millis(span);
        ask = ask.with_deadline(aimed.door.now().saturating_add(span));
    }
    ask = match wish.wait {
        Some(true) => ask.with_mode(WaitMode::Wait),
        Some(false) => ask.with_mode(WaitMode::Reject),
        None => ask,
    };
    tokio::select! {
        answer = aimed.door.acquire_with(aimed.target, ask) => Ok(answer?),
        () = admin.stop.cancelled() => Err(AdminProblem::stopping()),
    }
}

/// What the policy makes of it.
#[derive(Debug, Serialize)]
pub(crate) struct SettleView {
    effect: &'static str,
    retry: bool,
    /// How long the server wants us away, if it said so.
    delay_ms: Option<u64>,
}

/// Takes a permit back with what became of the call.
pub(crate) async fn settle(
    State(admin): State<Arc<Admin>>,
    json_body::JsonBody(ending): json_body::JsonBody<ReportedResult>,
) -> Result<Json<SettleView>, AdminProblem> {
    // What cannot be understood leaves the permit where it is.
    let answer = ending.read()?;
    let permit = take(&admin, ending.permit())?;
    let verdict = permit.settle(answer.as_answer());
    Ok(Json(SettleView::from_verdict(&verdict)))
}

impl SettleView {
    fn from_verdict(verdict: &Verdict) -> Self {
        Self {
            effect: labels::effect(verdict.effect),
            retry: verdict.is_worth_a_retry(),
            delay_ms: verdict.retry_after.map(millis_up),
        }
    }
}

/// A permit that was not used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundBody {
    permit: SmolStr,
}

/// Takes a permit back of a call that never left.
pub(crate) async fn refund(
    State(admin): State<Arc<Admin>>,
    json_body::JsonBody(refund): json_body::JsonBody<RefundBody>,
) -> Result<StatusCode, AdminProblem> {
    take(&admin, &refund.permit)?.refund();
    Ok(StatusCode::NO_CONTENT)
}

fn take(admin: &Admin, number: &str) -> Result<Permit, AdminProblem> {
    let number = number.parse().ok();
    let taken = number.and_then(|number| admin.permits.take(number, admin.clock.now()));
    taken.ok_or_else(|| {
        let detail = "nobody holds this permit: it was settled, given back, or its lease is over \
                      and the call counts as sent";
        AdminProblem::new(StatusCode::GONE, "unknown_permit", detail)
    })
}

/// Whether such a call could go now. Takes nothing.
pub(crate) async fn check(
    State(admin): State<Arc<Admin>>,
    json_body::JsonBody(aim): json_body::JsonBody<CallTarget>,
) -> Result<Json<WaitView>, AdminProblem> {
    Ok(Json(WaitView::from_aimed(&aim.find(&admin)?)))
}

impl From<NotHandedOut> for AdminProblem {
    fn from(why: NotHandedOut) -> Self {
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        match why {
            NotHandedOut::TooMany => {
                let detail = "too many permits are out: settle or refund those that are done";
                Self::new(busy, "too_many_permits", detail)
            }
            NotHandedOut::Stopping => Self::stopping(),
            NotHandedOut::NoNumber => {
                let detail = "the system gives no randomness: try again later";
                Self::new(busy, "no_randomness", detail)
            }
        }
    }
}

/// A call and its answer take seconds; a minute is plenty for both and short for a place that is lost.
const USUAL_LEASE: Duration = Duration::from_mins(1);

/// Whoever needs longer than this for one call asks again.
const LONGEST_LEASE: Duration = Duration::from_mins(10);
