//! What is told of jobs as people read it.
//!
//! A field that is not there is shown as a dash: a newer or an older program may be at the other end.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::terminal::{TextTable, count, spoken};

/// All jobs, by tenant and action.
pub(super) fn status(told: &Value) -> String {
    let jobs = part(told, "jobs");
    let mut text = format!(
        "{} queued, {} in flight, {} done, {} failed, {} cancelled; {} of {} workers busy ({}, {})\n",
        plain(part(jobs, "queued")),
        plain(part(jobs, "in_flight")),
        plain(part(jobs, "done")),
        failed(jobs),
        plain(part(jobs, "cancelled")),
        plain(part(part(told, "workers"), "busy")),
        plain(part(part(told, "workers"), "all")),
        plain(part(told, "scheduler")),
        plain(part(told, "store")),
    );
    let tenants = list(told, "tenants");
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
        for tenant in tenants.iter().take(MOST_ROWS) {
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
        let _whole = write!(text, "\n{}{}", table.text(), more(tenants));
    }
    let actions = list(told, "actions");
    if !actions.is_empty() {
        let _whole = write!(text, "\n{}{}", of_actions(actions), more(actions));
    }
    text
}

/// How many of a list are not shown.
fn more(list: &[Value]) -> String {
    match list.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("and {more} more: `--json` names all\n"),
    }
}

/// Whether a tenant or an action has jobs that wait or are under way.
pub(super) fn has_work(owner: &Value) -> bool {
    let jobs = part(owner, "jobs");
    number(part(jobs, "queued")) + number(part(jobs, "in_flight")) > 0
}

/// One action.
pub(super) fn action(told: &Value) -> String {
    of_actions(std::slice::from_ref(told))
}

fn of_actions(actions: &[Value]) -> String {
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
    for action in actions.iter().take(MOST_ROWS) {
        let jobs = part(action, "jobs");
        table.row([
            held(action),
            plain(part(action, "stage")),
            percent(part(action, "over_ppm")),
            format!(
                "{} of {}",
                plain(part(jobs, "done")),
                plain(part(jobs, "total"))
            ),
            failed(jobs).to_string(),
            plain(part(jobs, "cancelled")),
            plain(part(jobs, "throttles")),
            remaining(action),
        ]);
    }
    table.text()
}

/// Those that failed for good: the dead letters, and those that were thrown away since.
fn failed(jobs: &Value) -> u64 {
    number(part(jobs, "dead")) + number(part(jobs, "failed"))
}

/// How far an action is, in a line.
pub(super) fn line(action: &Value) -> String {
    let jobs = part(action, "jobs");
    format!(
        "{}: {} {}, {} of {} done, {} left",
        held(action),
        plain(part(action, "stage")),
        percent(part(action, "over_ppm")),
        plain(part(jobs, "done")),
        plain(part(jobs, "total")),
        remaining(action)
    )
}

/// What was done, and to how many.
pub(super) fn control_result(told: &Value) -> String {
    let jobs = part(told, "jobs").as_u64();
    let counted = |one, many| {
        let jobs = jobs.and_then(|jobs| usize::try_from(jobs).ok());
        count(jobs.unwrap_or_default(), one, many)
    };
    let mut text = match (part(told, "what").as_str().unwrap_or_default(), jobs) {
        ("cancel", Some(_)) => counted("job was", "jobs were") + " cancelled before they began",
        ("release", Some(_)) => counted("job is", "jobs are") + " still put off",
        ("retry", Some(_)) => counted("job stands", "jobs stand") + " in line again",
        ("purge", Some(_)) => counted("dead letter was", "dead letters were") + " thrown away",
        ("pause", _) => "paused: what is under way goes on, and nothing new begins".to_owned(),
        ("resume", _) => "resumed".to_owned(),
        _ => "done".to_owned(),
    };
    if let Some(note) = part(told, "note").as_str() {
        text = format!("{text}; {note}");
    }
    text + "\n"
}

/// Dead letters.
pub(super) fn dead(told: &Value) -> String {
    let letters = list(told, "dead");
    if letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let mut table = TextTable::new([
        "place", "job", "tenant", "action", "attempts", "call", "why",
    ]);
    for letter in letters {
        let last = part(letter, "history")
            .as_array()
            .and_then(|list| list.last());
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
            last.map_or_else(dash, |mishap| plain(part(mishap, "words"))),
        ]);
    }
    let mut text = table.text();
    if let Some(all) = part(told, "all").as_u64() {
        let next = plain(part(told, "next"));
        // Writing to a string cannot fail.
        let _whole = writeln!(
            text,
            "there are {all} in all: `--after {next}` shows those behind these, `--most` up to a thousand at once"
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

/// The name of an action, and what holds it.
fn held(action: &Value) -> String {
    let name = paused(part(action, "id"), action);
    match usize::try_from(number(part(action, "held"))) {
        Ok(0) | Err(_) => name,
        Ok(many) => format!("{name} ({} paused)", count(many, "tenant", "tenants")),
    }
}

fn remaining(action: &Value) -> String {
    let left = part(action, "eta_ms").as_u64();
    left.map_or_else(dash, |millis| spoken(Duration::from_millis(millis)))
}

/// A list, or an empty one.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// A field, or nothing.
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

/// As many rows as somebody looks through.
const MOST_ROWS: usize = 50;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_action_is_a_row() {
        let told = json!({ "id": "nightly", "stage": "RUNNING", "paused": true, "over_ppm": 255_000,
            "eta_ms": 9_500, "jobs": { "total": 200, "done": 49, "dead": 1, "failed": 1,
            "cancelled": 0, "throttles": 3 } });
        let row = action(&told);
        assert!(
            row.contains(
                "nightly (paused)  RUNNING  25.5 %  49 of 200  2       0          3          9.5 s"
            ),
            "{row}"
        );
    }

    #[test]
    fn what_holds_an_action_is_told_with_it() {
        let told = json!({ "id": "nightly", "stage": "RUNNING", "held": 2, "eta_ms": null,
            "jobs": { "total": 9, "done": 4 } });
        assert!(action(&told).contains("nightly (2 tenants paused)  RUNNING"));
        let line = line(&told);
        let expected = "nightly (2 tenants paused): RUNNING -, 4 of 9 done, - left";
        assert_eq!(line, expected);
    }

    // 51 tenants: one more than is shown.
    #[test]
    fn what_is_not_shown_is_counted() {
        let tenants: Vec<_> = (0..=MOST_ROWS)
            .map(|number| json!({ "tenant": format!("t{number}") }))
            .collect();
        let text = status(&json!({ "tenants": tenants }));
        assert!(text.contains("and 1 more"), "{text}");
        assert!(!text.contains("t50"), "{text}");
    }

    #[test]
    fn what_is_not_told_is_a_dash() {
        assert!(status(&Value::Null).starts_with("- queued"));
        assert_eq!(dead(&Value::Null), "no dead letters\n");
        assert_eq!(control_result(&Value::Null), "done\n");
    }
}
