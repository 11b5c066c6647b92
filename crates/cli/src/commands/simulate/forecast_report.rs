//! Report of a forecast, as a table or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use outflow_simulate::{GroupHistory, LoadHistory};
use serde_json::{Value, json};

use crate::terminal::{TextTable, millis};

/// Result of a forecast.
#[derive(Debug)]
pub(crate) struct ForecastReport {
    api: String,
    history: LoadHistory,
}

impl ForecastReport {
    pub(super) fn new(api: &str, history: LoadHistory) -> Self {
        Self {
            api: api.to_owned(),
            history,
        }
    }

    /// Formats the report as a table.
    pub(crate) fn to_table(&self) -> String {
        let mut table = TextTable::new([
            "group",
            "calls",
            "429 without",
            "429 with",
            "given up",
            "wait p50",
            "p99",
            "longest",
            "most waiting",
        ]);
        for (name, group) in self.used_groups() {
            table.row([
                name.clone(),
                group.calls.to_string(),
                group.naive_refusals.to_string(),
                group.refusals.to_string(),
                group.given_up.to_string(),
                format_wait(group.waits.percentile(50)),
                format_wait(group.waits.percentile(99)),
                format_wait(group.waits.longest()),
                group.most_waiting.to_string(),
            ]);
        }
        let mut text = table.text();
        let LoadHistory { offered, took, .. } = &self.history;
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "\n{}: the calls arrived within {} and ended after {}",
            self.api,
            format_wait(*offered),
            format_wait(*took)
        );
        if self.history.tenants.len() > 1 {
            let _infallible = writeln!(
                text,
                "{} tenants; fairness of their mean waits {:.4} (1 is equal)",
                self.history.tenants.len(),
                self.history.fairness()
            );
        }
        text.push_str(LEGEND);
        text
    }

    /// Returns the report as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let groups: Vec<_> = self
            .used_groups()
            .map(|(name, group)| group_json(name, group))
            .collect();
        json!({
            "api": self.api,
            "offered_ms": millis(self.history.offered),
            "took_ms": millis(self.history.took),
            "tenants": self.history.tenants.len(),
            "jain": self.history.fairness(),
            "groups": groups,
        })
    }

    fn used_groups(&self) -> impl Iterator<Item = &(String, GroupHistory)> {
        self.history.groups.iter().filter(|(_, group)| group.calls > 0)
    }
}

fn group_json(name: &str, group: &GroupHistory) -> Value {
    json!({
        "name": name,
        "calls": group.calls,
        "refused_without": group.naive_refusals,
        "refused_with": group.refusals,
        "given_up": group.given_up,
        "wait_p50_ms": millis(group.waits.percentile(50)),
        "wait_p99_ms": millis(group.waits.percentile(99)),
        "wait_longest_ms": millis(group.waits.longest()),
        "most_waiting": group.most_waiting,
    })
}

fn format_wait(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        secs @ 1..600 => format!("{secs}.{} s", span.subsec_millis() / 100),
        secs @ 600..172_800 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        secs => format!("{} d", secs / 86_400),
    }
}

const LEGEND: &str = "\
429 without: throttled by the provider if every call were sent at once, without retries.
429 with: throttled by the provider with Outflow. given up: refused by Outflow.
";
