//! Wait estimate of a call, as JSON.

use outflow::core::Decision;
use outflow::{Upstream, WaitEstimate, WaitReason};
use outflow_core::Nanos;
use serde::Serialize;
use smol_str::SmolStr;

use super::call_target::ResolvedCall;
use super::labels;
use super::millis::millis_up;

/// Wait estimate of a call made now.
#[derive(Debug, Serialize)]
pub(crate) struct WaitView {
    api: SmolStr,
    group: SmolStr,
    endpoint: Option<SmolStr>,
    cost: u64,
    state: &'static str,
    decision: &'static str,
    /// Estimated wait; `None` if it is unknown.
    delay_ms: Option<u64>,
    why: Option<&'static str>,
    limit: Option<String>,
    position: usize,
    /// Sentence that concurrency binds and not a limit.
    bound: Option<String>,
    text: String,
}

impl WaitView {
    /// Estimates the wait of this call. Takes no permit and promises none.
    pub(crate) fn new(call: &ResolvedCall) -> Self {
        let (upstream, target, now) = (&call.upstream, call.target, call.upstream.now());
        let decision = upstream.check_with(target, call.acquire_options());
        let estimate = match decision {
            Decision::WaitUntil(_) => upstream.explain_with(target, call.acquire_options()),
            Decision::Allow(()) | Decision::Never => None,
        };
        let why = estimate.as_ref().map(|estimate| &estimate.reason);
        let group = upstream.group_name(target);
        Self {
            bound: concurrency_bound(upstream, &group),
            api: upstream.name().clone(),
            group,
            endpoint: upstream.endpoint_name(target),
            cost: target.cost().units(),
            state: upstream.state(target).name(),
            decision: decision_label(decision),
            delay_ms: delay_ms(decision, now),
            why: why.map(labels::wait_reason),
            limit: why.and_then(blocking_limit),
            position: estimate.as_ref().map_or(0, |estimate| estimate.position),
            text: describe(decision, estimate.as_ref(), now),
        }
    }
}

/// Returns the sentence for a group whose calls wait for concurrency and not for a limit.
fn concurrency_bound(upstream: &Upstream, group: &SmolStr) -> Option<String> {
    let bounds = upstream.concurrency_bounds().into_iter();
    let mut own = bounds.filter(|(bounded, _)| bounded.as_ref().is_none_or(|bounded| bounded == group));
    own.next().map(|(_, bound)| bound.to_string())
}

const fn decision_label(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow(()) => "go",
        Decision::WaitUntil(_) => "wait",
        Decision::Never => "never",
    }
}

fn delay_ms(decision: Decision, now: Nanos) -> Option<u64> {
    match decision {
        Decision::Allow(()) => Some(0),
        Decision::WaitUntil(Nanos::MAX) | Decision::Never => None,
        Decision::WaitUntil(at) => Some(millis_up(at.since(now))),
    }
}

fn blocking_limit(why: &WaitReason) -> Option<String> {
    match why {
        WaitReason::Limit { rate } => Some(rate.to_string()),
        _ => None,
    }
}

/// Describes the estimate in a sentence.
fn describe(decision: Decision, estimate: Option<&WaitEstimate>, now: Nanos) -> String {
    match (decision, estimate) {
        (Decision::Never, _) => {
            "it can never go: it costs more than a limit ever allows, or the program is shutting down".to_owned()
        }
        (_, None) => "it would go now".to_owned(),
        (
            _,
            Some(WaitEstimate {
                reason, position, eta, ..
            }),
        ) => {
            let when = eta.map_or("at an unknown time".to_owned(), |at| {
                format!("in {} ms", millis_up(at.since(now)))
            });
            format!("it would go {when}, behind {position} others: {reason}")
        }
    }
}
