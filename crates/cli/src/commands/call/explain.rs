//! State of the limits before a call is sent.

use std::fmt;

use outflow::{LimitReport, Target, Upstream};
use outflow_core::Decision;
use serde_json::{Value, json};

/// Group, health state and limits of a call.
#[derive(Debug)]
pub(super) struct CallExplanation {
    group: String,
    cost: u64,
    state: &'static str,
    limits: Vec<LimitUse>,
    /// Wait estimate; `None` if the call can never be sent.
    wait_ms: Option<u64>,
}

#[derive(Debug)]
struct LimitUse {
    rate: String,
    used: u64,
    limit: u64,
}

impl CallExplanation {
    /// Returns the current state of an upstream for a target.
    pub(super) fn from_upstream(upstream: &Upstream, target: Target) -> Self {
        let group = upstream.group_name(target);
        let report = upstream.report();
        let own = report.groups.iter().find(|one| one.name == group);
        let own = own.map_or(&[][..], |own| &own.limits);
        let wait_ms = match upstream.check(target) {
            Decision::Allow(()) => Some(0),
            Decision::WaitUntil(at) => {
                let nanos = at.since(upstream.now()).as_nanos();
                u64::try_from(nanos.div_ceil(1_000_000)).ok()
            }
            Decision::Never => None,
        };
        Self {
            group: group.to_string(),
            cost: target.cost().units(),
            state: upstream.state(target).name(),
            limits: report.limits.iter().chain(own).map(LimitUse::from_report).collect(),
            wait_ms,
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
            "wait_ms": self.wait_ms,
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
        match self.wait_ms {
            Some(0) => writeln!(f, "wait    none"),
            Some(millis) => writeln!(f, "wait    {millis} ms"),
            None => writeln!(f, "wait    forever: the cost is higher than a limit"),
        }
    }
}
