//! What is foreseen, as a table for people or as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use outflow_simulate::{GroupHistory, LoadHistory};
use serde_json::{Value, json};

use crate::terminal::TextTable;

/// What a load would meet.
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

    /// For people.
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
        for (name, group) in self.used() {
            table.row([
                name.clone(),
                group.calls.to_string(),
                group.naive_refusals.to_string(),
                group.refusals.to_string(),
                group.given_up.to_string(),
                shown(group.waits.percentile(50)),
                shown(group.waits.percentile(99)),
                shown(group.waits.longest()),
                group.most_waiting.to_string(),
            ]);
        }
        let mut text = table.text();
        let LoadHistory { offered, took, .. } = &self.history;
        // Writing to a string cannot fail.
        let _whole = writeln!(
            text,
            "\n{}: the calls came in {} and were over after {}",
            self.api,
            shown(*offered),
            shown(*took)
        );
        if self.history.tenants.len() > 1 {
            let _whole = writeln!(
                text,
                "{} tenants; fairness of their mean waits {:.4} (1 is alike)",
                self.history.tenants.len(),
                self.history.fairness()
            );
        }
        text.push_str(LEGEND);
        text
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        let groups: Vec<_> = self
            .used()
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

    fn used(&self) -> impl Iterator<Item = &(String, GroupHistory)> {
        self.history
            .groups
            .iter()
            .filter(|(_, group)| group.calls > 0)
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

fn shown(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        secs @ 1..600 => format!("{secs}.{} s", span.subsec_millis() / 100),
        secs @ 600..172_800 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        secs => format!("{} d", secs / 86_400),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

const LEGEND: &str = "\
429 without: refused by the provider if every call were sent as it comes, and none repeated.
429 with: refused by the provider as they are sent by us. given up: told to come back later by us.
";
