//! Where a call stands before it is sent.

use std::fmt;

use outflow::{LimitReport, Target, Upstream};
use outflow_core::Decision;
use serde_json::{Value, json};

/// The group, the state and the limits that a call meets.
#[derive(Debug)]
pub(super) struct CallExplanation {
    group: String,
    cost: u64,
    state: &'static str,
    limits: Vec<GroupView>,
    /// How long it would wait now; `None` if it never could go.
    wait_ms: Option<u64>,
}

#[derive(Debug)]
struct GroupView {
    rate: String,
    used: u64,
    most: u64,
}

impl CallExplanation {
    /// As the door sees it now.
    pub(super) fn from_upstream(door: &Upstream, target: Target) -> Self {
        let group = door.group_name(target);
        let report = door.report();
        let own = report.groups.iter().find(|one| one.name == group);
        let own = own.map_or(&[][..], |own| &own.limits);
        let wait_ms = match door.check(target) {
            Decision::Allow(()) => Some(0),
            Decision::WaitUntil(at) => {
                let nanos = at.since(door.now()).as_nanos();
                u64::try_from(nanos.div_ceil(1_000_000)).ok()
            }
            Decision::Never => None,
        };
        Self {
            group: group.to_string(),
            cost: target.cost().units(),
            state: door.state(target).name(),
            limits: report
                .limits
                .iter()
                .chain(own)
                .map(GroupView::from_report)
                .collect(),
            wait_ms,
        }
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let limit =
            |one: &GroupView| json!({ "rate": one.rate, "used": one.used, "most": one.most });
        json!({
            "group": self.group,
            "cost": self.cost,
            "state": self.state,
            "limits": self.limits.iter().map(limit).collect::<Vec<_>>(),
            "wait_ms": self.wait_ms,
        })
    }
}

impl GroupView {
    fn from_report(report: &LimitReport) -> Self {
        Self {
            rate: report.limit.rate().to_string(),
            used: report.usage.weight,
            most: report.usage.limit,
        }
    }
}

impl fmt::Display for CallExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "group   {} at a cost of {}", self.group, self.cost)?;
        writeln!(f, "state   {}", self.state)?;
        for GroupView { rate, used, most } in &self.limits {
            writeln!(f, "limit   {rate}: {used} of {most} used")?;
        }
        match self.wait_ms {
            Some(0) => writeln!(f, "wait    none"),
            Some(millis) => writeln!(f, "wait    {millis} ms"),
            None => writeln!(
                f,
                "wait    it can never go: it costs more than a limit allows"
            ),
        }
    }
}
