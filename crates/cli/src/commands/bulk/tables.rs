//! Text tables of jobs, tenants, actions and dead letters.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::commands::json_fields::{dash, field, list, part, percent};
use crate::terminal::{TextTable, count, format_span};

/// Formats all jobs by tenant and action.
pub(super) fn status(report: &Value) -> String {
    let jobs = part(report, "jobs");
    let mut text = format!(
        "{} queued, {} in flight, {} done, {} failed, {} cancelled; {} of {} workers busy ({}, {})\n",
        field(jobs, "queued"),
        field(jobs, "in_flight"),
        field(jobs, "done"),
        failed(jobs),
        field(jobs, "cancelled"),
        field(part(report, "workers"), "busy"),
        field(part(report, "workers"), "all"),
        field(report, "scheduler"),
        field(report, "store"),
    );
    for sentence in reasons(report) {
        text.push_str(sentence);
        text.push('\n');
    }
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
            "congestion",
            "left",
        ]);
        for tenant in tenants.iter().take(MAX_ROWS) {
            let jobs = part(tenant, "jobs");
            table.row([
                paused(tenant, "tenant"),
                field(jobs, "queued"),
                field(jobs, "in_flight"),
                field(jobs, "done"),
                failed(jobs).to_string(),
                field(jobs, "cancelled"),
                field(jobs, "throttles"),
                field(tenant, "rate"),
                field(tenant, "congestion"),
                format_millis(tenant, "eta_ms"),
            ]);
        }
        // Writing to a string cannot fail.
        let _infallible = write!(text, "\n{}{}", table.text(), omitted(tenants));
    }
    let actions = list(report, "actions");
    if !actions.is_empty() {
        let _infallible = write!(
            text,
            "\n{}{}{}",
            actions_table(actions),
            omitted(actions),
            timeouts(actions)
        );
    }
    text
}

/// Returns the sentences about what jobs wait for, and about concurrency or workers that hold them back.
fn reasons(owner: &Value) -> Vec<&str> {
    let sentences = list(owner, "waits").iter().chain(list(owner, "bottlenecks"));
    sentences.filter_map(Value::as_str).collect()
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
    number(jobs, "queued") + number(jobs, "in_flight") > 0
}

/// Formats one action, with what its jobs wait for.
pub(super) fn action(report: &Value) -> String {
    let one = std::slice::from_ref(report);
    let mut text = actions_table(one);
    for sentence in reasons(report) {
        text.push_str(sentence);
        text.push('\n');
    }
    text + &timeouts(one) + &ending(report)
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
            field(action, "stage"),
            percent(action, "over_ppm"),
            format!("{} of {}", field(jobs, "done"), field(jobs, "total")),
            failed(jobs).to_string(),
            field(jobs, "cancelled"),
            field(jobs, "throttles"),
            remaining(action),
        ]);
    }
    table.text()
}

/// Returns the number of permanent failures: dead letters, and purged ones.
fn failed(jobs: &Value) -> u64 {
    number(jobs, "dead") + number(jobs, "failed")
}

/// Formats the progress of an action as one line.
pub(super) fn line(action: &Value) -> String {
    let jobs = part(action, "jobs");
    let mut line = format!(
        "{}: {} {}, {} of {} done, {} left",
        action_name(action),
        field(action, "stage"),
        percent(action, "over_ppm"),
        field(jobs, "done"),
        field(jobs, "total"),
        remaining(action)
    );
    for sentence in reasons(action) {
        line.push_str("; ");
        line.push_str(sentence);
    }
    line
}

/// Formats the failures of an ended action by reason, and its timeout if that ended it.
fn ending(action: &Value) -> String {
    let failures: Vec<_> = list(action, "failures")
        .iter()
        .map(|row| format!("{} × {}", field(row, "jobs"), field(row, "reason")))
        .collect();
    match failures.as_slice() {
        [] => String::new(),
        failures => format!("not done: {}\n", failures.join(", ")),
    }
}

/// Formats the instants at which actions fail without further progress.
fn timeouts(actions: &[Value]) -> String {
    let mut text = String::new();
    for action in actions.iter().take(MAX_ROWS) {
        if !part(action, "times_out").is_null() {
            let timeout = Duration::from_millis(number(action, "timeout_ms"));
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "{} fails if no job of it ends for {}",
                field(action, "id"),
                format_span(timeout)
            );
        }
    }
    text
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
        let last = list(letter, "history").last();
        table.row([
            field(letter, "place"),
            field(letter, "id"),
            field(letter, "tenant"),
            field(letter, "action"),
            field(letter, "attempts"),
            format!(
                "{} {}{}",
                field(letter, "method"),
                field(letter, "api"),
                field(letter, "path")
            ),
            last.map_or_else(dash, |error| field(error, "words")),
        ]);
    }
    let mut text = table.text();
    if let Some(all) = part(page, "all").as_u64() {
        let next = field(page, "next");
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "there are {all} in all: `--after {next}` lists the next ones, `--limit` up to a thousand at once"
        );
    }
    text
}

fn paused(owner: &Value, key: &str) -> String {
    let name = field(owner, key);
    if part(owner, "paused") == true {
        format!("{name} (paused)")
    } else {
        name
    }
}

/// Formats the name of an action, and the pause that holds it.
fn action_name(action: &Value) -> String {
    let name = paused(action, "id");
    match usize::try_from(number(action, "held")) {
        Ok(0) | Err(_) => name,
        Ok(many) => format!("{name} ({} paused)", count(many, "tenant", "tenants")),
    }
}

/// Formats the remaining time of an action.
pub(super) fn remaining(action: &Value) -> String {
    format_millis(action, "eta_ms")
}

fn format_millis(owner: &Value, key: &str) -> String {
    let left = part(owner, key).as_u64();
    left.map_or_else(dash, |millis| format_span(Duration::from_millis(millis)))
}

fn number(value: &Value, key: &str) -> u64 {
    part(value, key).as_u64().unwrap_or(0)
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

    #[test]
    fn a_board_says_what_binds_in_place_of_limits() {
        let bound = "shop: 4 of 4 calls in flight: concurrency binds, not the limit 500/min; raise `concurrency`";
        let report = json!({ "bottlenecks": [bound] });
        assert!(status(&report).ends_with(&format!("\n{bound}\n")));
        assert!(line(&report).ends_with(&format!("- left; {bound}")));
    }

    #[test]
    fn an_action_shows_what_it_waits_for_its_timeout_and_its_failures() {
        let wait = "shop: the API is in Sleep, for another 9 min 58 s";
        let open = json!({ "id": "nightly", "waits": [wait], "times_out": 7, "timeout_ms": 3_600_000 });
        assert!(line(&open).ends_with(&format!("- left; {wait}")));
        let alone = action(&open);
        assert!(
            alone.ends_with(&format!("\n{wait}\nnightly fails if no job of it ends for 1 h 0 min\n")),
            "{alone}"
        );
        let board = status(&json!({ "waits": [wait], "actions": [open] }));
        assert!(board.contains(&format!("\n{wait}\n")), "{board}");
        assert!(
            board.contains("nightly fails if no job of it ends for 1 h 0 min\n"),
            "{board}"
        );
        let over = json!({ "failures": [{ "reason": "500", "jobs": 8 }, { "reason": "timeout", "jobs": 4 }] });
        assert!(action(&over).ends_with("not done: 8 × 500, 4 × timeout\n"));
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
