//! Text tables of jobs, tenants, actions and dead letters.
//!
//! A missing field is shown as a dash: the other program may be newer or older.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::terminal::{TextTable, count, format_span};

/// Formats all jobs by tenant and action.
pub(super) fn status(report: &Value) -> String {
    let jobs = part(report, "jobs");
    let mut text = format!(
        "{} queued, {} in flight, {} done, {} failed, {} cancelled; {} of {} workers busy ({}, {})\n",
        plain(part(jobs, "queued")),
        plain(part(jobs, "in_flight")),
        plain(part(jobs, "done")),
        failed(jobs),
        plain(part(jobs, "cancelled")),
        plain(part(part(report, "workers"), "busy")),
        plain(part(part(report, "workers"), "all")),
        plain(part(report, "scheduler")),
        plain(part(report, "store")),
    );
    let tenants = list(report, "tenants");
    if !tenants.is_empty() {
        let mut table = TextTable::new([
            "tenant",
            "queued",
            "in flight",
            "done",
            "failed",
            "cancelled",
            "throttles",
            "rate",
        ]);
        for tenant in tenants.iter().take(MAX_ROWS) {
            let jobs = part(tenant, "jobs");
            table.row([
                paused(part(tenant, "tenant"), tenant),
                plain(part(jobs, "queued")),
                plain(part(jobs, "in_flight")),
                plain(part(jobs, "done")),
                failed(jobs).to_string(),
                plain(part(jobs, "cancelled")),
                plain(part(jobs, "throttles")),
                plain(part(tenant, "rate")),
            ]);
        }
        // Writing to a string cannot fail.
        let _infallible = write!(text, "\n{}{}", table.text(), omitted(tenants));
    }
    let actions = list(report, "actions");
    if !actions.is_empty() {
        let _infallible = write!(text, "\n{}{}", actions_table(actions), omitted(actions));
    }
    text
}

/// Returns a note on the entries that are not shown, if any.
fn omitted(list: &[Value]) -> String {
    match list.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => format!("and {more} more: use `--json` to list all\n"),
    }
}

/// Returns true if a tenant or an action has jobs that wait or are in flight.
pub(super) fn has_work(owner: &Value) -> bool {
    let jobs = part(owner, "jobs");
    number(part(jobs, "queued")) + number(part(jobs, "in_flight")) > 0
}

/// Formats one action.
pub(super) fn action(report: &Value) -> String {
    actions_table(std::slice::from_ref(report))
}

fn actions_table(actions: &[Value]) -> String {
    let mut table = TextTable::new([
        "action",
        "stage",
        "over",
        "done",
        "failed",
        "cancelled",
        "throttles",
        "left",
    ]);
    for action in actions.iter().take(MAX_ROWS) {
        let jobs = part(action, "jobs");
        table.row([
            action_name(action),
            plain(part(action, "stage")),
            percent(part(action, "over_ppm")),
            format!("{} of {}", plain(part(jobs, "done")), plain(part(jobs, "total"))),
            failed(jobs).to_string(),
            plain(part(jobs, "cancelled")),
            plain(part(jobs, "throttles")),
            remaining(action),
        ]);
    }
    table.text()
}

/// Returns the number of permanent failures: dead letters, and purged ones.
fn failed(jobs: &Value) -> u64 {
    number(part(jobs, "dead")) + number(part(jobs, "failed"))
}

/// Formats the progress of an action as one line.
pub(super) fn line(action: &Value) -> String {
    let jobs = part(action, "jobs");
    format!(
        "{}: {} {}, {} of {} done, {} left",
        action_name(action),
        plain(part(action, "stage")),
        percent(part(action, "over_ppm")),
        plain(part(jobs, "done")),
        plain(part(jobs, "total")),
        remaining(action)
    )
}

/// Formats the result of a control command.
pub(super) fn control_result(result: &Value) -> String {
    let jobs = part(result, "jobs").as_u64();
    let counted = |one, many| {
        let jobs = jobs.and_then(|jobs| usize::try_from(jobs).ok());
        count(jobs.unwrap_or_default(), one, many)
    };
    let mut text = match (part(result, "what").as_str().unwrap_or_default(), jobs) {
        ("cancel", Some(_)) => counted("job was", "jobs were") + " cancelled before their start",
        ("release", Some(_)) => counted("job is", "jobs are") + " still deferred",
        ("retry", Some(_)) => counted("job is", "jobs are") + " queued again",
        ("purge", Some(_)) => counted("dead letter was", "dead letters were") + " deleted",
        ("pause", _) => "paused: jobs in flight go on, and no new job starts".to_owned(),
        ("resume", _) => "resumed".to_owned(),
        _ => "done".to_owned(),
    };
    if let Some(note) = part(result, "note").as_str() {
        text = format!("{text}; {note}");
    }
    text + "\n"
}

/// Formats a page of dead letters.
pub(super) fn dead(page: &Value) -> String {
    let letters = list(page, "dead");
    if letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let mut table = TextTable::new(["place", "job", "tenant", "action", "attempts", "call", "why"]);
    for letter in letters {
        let last = part(letter, "history").as_array().and_then(|list| list.last());
        table.row([
            plain(part(letter, "place")),
            plain(part(letter, "id")),
            plain(part(letter, "tenant")),
            plain(part(letter, "action")),
            plain(part(letter, "attempts")),
            format!(
                "{} {}{}",
                plain(part(letter, "method")),
                plain(part(letter, "api")),
                plain(part(letter, "path"))
            ),
            last.map_or_else(dash, |error| plain(part(error, "words"))),
        ]);
    }
    let mut text = table.text();
    if let Some(all) = part(page, "all").as_u64() {
        let next = plain(part(page, "next"));
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "there are {all} in all: `--after {next}` lists the next ones, `--limit` up to a thousand at once"
        );
    }
    text
}

fn paused(name: &Value, owner: &Value) -> String {
    let name = plain(name);
    if part(owner, "paused") == true {
        format!("{name} (paused)")
    } else {
        name
    }
}

/// Formats the name of an action, and the pause that holds it.
fn action_name(action: &Value) -> String {
    let name = paused(part(action, "id"), action);
    match usize::try_from(number(part(action, "held"))) {
        Ok(0) | Err(_) => name,
        Ok(many) => format!("{name} ({} paused)", count(many, "tenant", "tenants")),
    }
}

fn remaining(action: &Value) -> String {
    let left = part(action, "eta_ms").as_u64();
    left.map_or_else(dash, |millis| format_span(Duration::from_millis(millis)))
}

/// Returns a list of a document, or an empty one.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Returns a field of a document, or null.
pub(super) fn part<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => dash(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn percent(ppm: &Value) -> String {
    let tenths = ppm.as_u64().map(|ppm| ppm / 1_000);
    tenths.map_or_else(dash, |tenths| format!("{}.{} %", tenths / 10, tenths % 10))
}

fn dash() -> String {
    "-".to_owned()
}

/// More rows than this are hard to read.
const MAX_ROWS: usize = 50;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_action_is_a_row() {
        let report = json!({ "id": "nightly", "stage": "RUNNING", "paused": true, "over_ppm": 255_000,
            "eta_ms": 9_500, "jobs": { "total": 200, "done": 49, "dead": 1, "failed": 1,
            "cancelled": 0, "throttles": 3 } });
        let row = action(&report);
        assert!(
            row.contains("nightly (paused)  RUNNING  25.5 %  49 of 200  2       0          3          9.5 s"),
            "{row}"
        );
    }

    #[test]
    fn an_action_shows_how_many_tenants_are_paused() {
        let report = json!({ "id": "nightly", "stage": "RUNNING", "held": 2, "eta_ms": null,
            "jobs": { "total": 9, "done": 4 } });
        assert!(action(&report).contains("nightly (2 tenants paused)  RUNNING"));
        let line = line(&report);
        let expected = "nightly (2 tenants paused): RUNNING -, 4 of 9 done, - left";
        assert_eq!(line, expected);
    }

    // 51 tenants: one more than the table shows.
    #[test]
    fn omitted_rows_are_counted() {
        let tenants: Vec<_> = (0..=MAX_ROWS)
            .map(|number| json!({ "tenant": format!("t{number}") }))
            .collect();
        let text = status(&json!({ "tenants": tenants }));
        assert!(text.contains("and 1 more"), "{text}");
        assert!(!text.contains("t50"), "{text}");
    }

    #[test]
    fn a_missing_field_is_a_dash() {
        assert!(status(&Value::Null).starts_with("- queued"));
        assert_eq!(dead(&Value::Null), "no dead letters\n");
        assert_eq!(control_result(&Value::Null), "done\n");
    }
}
