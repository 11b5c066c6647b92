//! State of the limits before a call is sent.

use std::fmt;

use outflow::{CallDecision, LimitReport, Target, Upstream};
use serde_json::{Value, json};

/// Group, health state and limits of a call.
#[derive(Debug)]
pub(super) struct CallExplanation {
    group: String,
    cost: u64,
    state: &'static str,
    limits: Vec<LimitUse>,
    decision: &'static str,
    /// Wait estimate; `None` if the call does not go or the wait is unknown.
    wait_ms: Option<u64>,
    text: String,
}

#[derive(Debug)]
struct LimitUse {
    rate: String,
    used: u64,
    limit: u64,
}

impl CallExplanation {
    /// Returns the current state of an upstream for a target, with the decision about the call.
    pub(super) fn new(upstream: &Upstream, target: Target, decision: &CallDecision) -> Self {
        let group = upstream.group_name(target);
        let report = upstream.report();
        let own = report.groups.iter().find(|one| one.name == group);
        let own = own.map_or(&[][..], |own| &own.limits);
        let now = upstream.now();
        let wait_ms = match decision {
            CallDecision::Go | CallDecision::Cached(_) => Some(0),
            CallDecision::Wait(estimate) => estimate.eta.and_then(|at| {
                let nanos = at.since(now).as_nanos();
                u64::try_from(nanos.div_ceil(1_000_000)).ok()
            }),
            _ => None,
        };
        Self {
            group: group.to_string(),
            cost: target.cost().units(),
            state: upstream.state(target).name(),
            limits: report.limits.iter().chain(own).map(LimitUse::from_report).collect(),
            decision: decision.name(),
            wait_ms,
            text: decision.describe(now),
        }
    }

    /// Returns the state as JSON.
    pub(super) fn to_json(&self) -> Value {
        let limit = |one: &LimitUse| json!({ "rate": one.rate, "used": one.used, "most": one.limit });
        json!({
            "group": self.group,
            "cost": self.cost,
            "state": self.state,
            "limits": self.limits.iter().map(limit).collect::<Vec<_>>(),
            "decision": self.decision,
            "wait_ms": self.wait_ms,
            "text": self.text,
        })
    }
}

impl LimitUse {
    fn from_report(report: &LimitReport) -> Self {
        Self {
            rate: report.limit.rate().to_string(),
            used: report.usage.weight,
            limit: report.usage.limit,
        }
    }
}

impl fmt::Display for CallExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "group   {} at a cost of {}", self.group, self.cost)?;
        writeln!(f, "state   {}", self.state)?;
        for LimitUse { rate, used, limit } in &self.limits {
            writeln!(f, "limit   {rate}: {used} of {limit} used")?;
        }
        writeln!(f, "result  {}: {}", self.decision, self.text)
    }
}
