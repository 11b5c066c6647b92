//! The decision about a call that is not made, as JSON.

use std::time::Duration;

use http::Method;
use outflow::core::Cost;
use outflow::{CallDecision, RefusalReason, Upstream, WaitMode, WaitReason};
use outflow_core::Nanos;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Admin;
use super::call_target::{CallTarget, PriorityParam, ResolvedCall};
use super::millis::millis_up;
use super::problem::AdminProblem;

/// Call in a query, with its limits on the wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    api: SmolStr,
    group: Option<SmolStr>,
    method: Option<SmolStr>,
    path: Option<SmolStr>,
    endpoint: Option<SmolStr>,
    cost: Option<u64>,
    priority: Option<PriorityParam>,
    /// Longest wait; by default as configured for the API.
    max_wait_ms: Option<u64>,
    /// Longest duration of the whole call.
    timeout_ms: Option<u64>,
    /// True to wait, false to be refused at once; by default as configured for the API.
    wait: Option<bool>,
}

impl ExplainQuery {
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

    /// Decides what would happen to the call. One with a path is decided with the cache; a group alone names no
    /// response that could be stored.
    pub(crate) async fn decide(&self, admin: &Admin) -> Result<WaitView, AdminProblem> {
        let target = self.target();
        let call = target.resolve(admin)?;
        let decision = if let Some(path) = &self.path {
            self.decide_call(admin, target.method()?, path).await
        } else {
            call.upstream.ask_ledger(call.target).await;
            let options = self.acquire_options(&call, call.upstream.now());
            Ok(call.upstream.decide(call.target, options))
        };
        let now = call.upstream.now();
        Ok(match decision {
            Ok(decision) => WaitView::new(&call, &decision, now),
            Err(error) => WaitView::invalid(&call, &error),
        })
    }

    async fn decide_call(&self, admin: &Admin, method: Method, path: &str) -> Result<CallDecision, outflow::Error> {
        let mut call = admin.program.client().request(method, &self.api, path);
        if let Some(cost) = self.cost {
            call = call.cost(Cost::new(cost));
        }
        if let Some(priority) = self.priority {
            call = call.priority(priority.priority());
        }
        if let Some(mode) = self.mode() {
            call = call.mode(mode);
        }
        if let Some(max_wait) = self.max_wait_ms {
            call = call.max_wait(Duration::from_millis(max_wait));
        }
        if let Some(timeout) = self.timeout_ms {
            call = call.timeout(Duration::from_millis(timeout));
        }
        call.explain().await
    }

    fn acquire_options(&self, call: &ResolvedCall, now: Nanos) -> outflow::AcquireOptions {
        let mut options = call.acquire_options();
        if let Some(mode) = self.mode() {
            options = options.with_mode(mode);
        }
        match (self.max_wait_ms, self.timeout_ms) {
            (None, None) => options,
            (max_wait, timeout) => {
                let millis = max_wait.unwrap_or(u64::MAX).min(timeout.unwrap_or(u64::MAX));
                options.with_deadline(now.saturating_add(Duration::from_millis(millis)))
            }
        }
    }

    fn mode(&self) -> Option<WaitMode> {
        self.wait
            .map(|waits| if waits { WaitMode::Wait } else { WaitMode::Reject })
    }
}

/// Decision about a call made now.
#[derive(Debug, Serialize)]
pub(crate) struct WaitView {
    api: SmolStr,
    group: SmolStr,
    endpoint: Option<SmolStr>,
    cost: u64,
    state: &'static str,
    decision: &'static str,
    /// Estimated wait; `None` if the call does not go or the wait is unknown.
    delay_ms: Option<u64>,
    /// Time after which a refused call can go, if it is known.
    retry_after_ms: Option<u64>,
    why: Option<&'static str>,
    /// Reason of a refusal.
    refusal: Option<&'static str>,
    limit: Option<String>,
    configured: Option<String>,
    position: usize,
    /// Sentence that concurrency binds and not a limit.
    bound: Option<String>,
    text: String,
}

impl WaitView {
    /// Decides about a call of a program with its own HTTP client. Takes no permit and promises none.
    pub(crate) fn from_call(call: &ResolvedCall) -> Self {
        let now = call.upstream.now();
        let decision = call.upstream.decide(call.target, call.acquire_options());
        Self::new(call, &decision, now)
    }

    fn new(call: &ResolvedCall, decision: &CallDecision, now: Nanos) -> Self {
        let (limit, configured) = match decision.wait_reason() {
            Some(WaitReason::Limit { rate, lowered, .. }) => {
                let configured = lowered.map_or(*rate, |lowered| lowered.configured);
                (Some(rate.to_string()), Some(configured.to_string()))
            }
            _ => (None, None),
        };
        let refusal = match decision {
            CallDecision::Refuse(refusal) => Some(refusal),
            _ => None,
        };
        Self {
            decision: decision.name(),
            delay_ms: delay_ms(decision, now),
            retry_after_ms: refusal.and_then(|refusal| refusal.retry_after.map(millis_up)),
            why: decision.cause(),
            refusal: refusal.map(|refusal| refusal.reason.name()),
            limit: limit.or_else(|| too_small_limit(decision)),
            configured,
            position: decision.position(),
            ..Self::plain(call, decision.describe(now))
        }
    }

    /// Describes a call that is invalid as written.
    fn invalid(call: &ResolvedCall, error: &outflow::Error) -> Self {
        Self::plain(call, format!("it can never go: {error}"))
    }

    fn plain(call: &ResolvedCall, text: String) -> Self {
        let (upstream, target) = (&call.upstream, call.target);
        let group = upstream.group_name(target);
        Self {
            bound: concurrency_bound(upstream, &group),
            api: upstream.name().clone(),
            group,
            endpoint: upstream.endpoint_name(target),
            cost: target.cost().units(),
            state: upstream.state(target).name(),
            decision: "never",
            delay_ms: None,
            retry_after_ms: None,
            why: None,
            refusal: None,
            limit: None,
            configured: None,
            position: 0,
            text,
        }
    }
}

/// Returns the sentence for a group whose calls wait for concurrency and not for a limit.
fn concurrency_bound(upstream: &Upstream, group: &SmolStr) -> Option<String> {
    let bounds = upstream.concurrency_bounds().into_iter();
    let mut own = bounds.filter(|(bounded, _)| bounded.as_ref().is_none_or(|bounded| bounded == group));
    own.next().map(|(_, bound)| bound.to_string())
}

fn delay_ms(decision: &CallDecision, now: Nanos) -> Option<u64> {
    match decision {
        CallDecision::Go | CallDecision::Cached(_) => Some(0),
        CallDecision::Wait(estimate) => estimate.eta.map(|at| millis_up(at.since(now))),
        _ => None,
    }
}

fn too_small_limit(decision: &CallDecision) -> Option<String> {
    match decision {
        CallDecision::Refuse(refusal) => match &refusal.reason {
            RefusalReason::Never { limit } => Some(limit.to_string()),
            _ => None,
        },
        _ => None,
    }
}
