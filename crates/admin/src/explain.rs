//! Whether a call could go now, and otherwise what it would wait for.

use outflow::core::Decision;
use outflow::{WaitEstimate, WaitReason};
use outflow_core::Nanos;
use serde::Serialize;
use smol_str::SmolStr;

use super::call_target::ResolvedCall;
use super::labels;
use super::millis::millis_up;

/// What would become of a call that came now.
#[derive(Debug, Serialize)]
pub(crate) struct WaitView {
    api: SmolStr,
    group: SmolStr,
    cost: u64,
    state: &'static str,
    decision: &'static str,
    /// How long it would wait; nothing if nobody knows.
    delay_ms: Option<u64>,
    why: Option<&'static str>,
    limit: Option<String>,
    position: usize,
    text: String,
}

impl WaitView {
    /// Looks ahead for this call. Nothing is taken and nothing is promised.
    pub(crate) fn from_aimed(aimed: &ResolvedCall) -> Self {
        let (door, target, now) = (&aimed.door, aimed.target, aimed.door.now());
        let decision = door.check_with(target, aimed.acquire_options());
        let explained = match decision {
            Decision::WaitUntil(_) => door.explain_with(target, aimed.acquire_options()),
            Decision::Allow(()) | Decision::Never => None,
        };
        let why = explained.as_ref().map(|told| &told.why);
        Self {
            api: door.name().clone(),
            group: door.group_name(target),
            cost: target.cost().units(),
            state: door.state(target).name(),
            decision: word(decision),
            delay_ms: delay(decision, now),
            why: why.map(labels::why),
            limit: why.and_then(limit),
            position: explained.as_ref().map_or(0, |told| told.position),
            text: text(decision, explained.as_ref(), now),
        }
    }
}

const fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow(()) => "go",
        Decision::WaitUntil(_) => "wait",
        Decision::Never => "never",
    }
}

fn delay(decision: Decision, now: Nanos) -> Option<u64> {
    match decision {
        Decision::Allow(()) => Some(0),
        Decision::WaitUntil(Nanos::MAX) | Decision::Never => None,
        Decision::WaitUntil(at) => Some(millis_up(at.since(now))),
    }
}

fn limit(why: &WaitReason) -> Option<String> {
    match why {
        WaitReason::Limit { rate } => Some(rate.to_string()),
        _ => None,
    }
}

/// The same for people.
fn text(decision: Decision, explained: Option<&WaitEstimate>, now: Nanos) -> String {
    match (decision, explained) {
        (Decision::Never, _) => {
            "it can never go: it costs more than a limit ever allows, or the program is shutting down"
                .to_owned()
        }
        (_, None) => "it would go now".to_owned(),
        (_, Some(WaitEstimate { why, position, eta, .. })) => {
            let when = eta.map_or("nobody knows when".to_owned(), |at| {
                format!("in {} ms", millis_up(at.since(now)))
            });
            format!("it would go {when}, behind {position} others: {why}")
        }
    }
}
