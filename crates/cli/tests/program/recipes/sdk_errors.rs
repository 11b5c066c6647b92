//! Refusals of the sidecar as users of `OpenAI`'s libraries see them, against `outflow dev` as it starts.

use serde_json::Value;

use super::support::{RunningProgram, node_program, python_program, run_tool};

const FOLDER: &str = "crates/cli/tests/program/recipes";

/// Runs a program and returns its reports by name.
fn reports(running: &RunningProgram, mut program: std::process::Command) -> Option<Vec<Value>> {
    program
        .env("OUTFLOW_URL", &running.calls)
        .env("OUTFLOW_ADMIN", &running.admin);
    let text = run_tool(program)?;
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    Some(lines.collect())
}

fn report<'r>(reports: &'r [Value], name: &str) -> &'r Value {
    let mut found = reports.iter().filter(|report| report["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {name} in {reports:#?}"))
}

/// Asserts status, type and the header that libraries obey, and that the message has the reason.
fn assert_shown(reports: &[Value], name: &str, expected: (u16, &str, Option<&str>)) {
    let report = report(reports, name);
    let (status, kind, should_retry) = expected;
    assert_eq!(report["status"], status, "{report}");
    assert_eq!(
        (&report["type"], &report["code"]),
        (&kind.into(), &name.into()),
        "{report}"
    );
    assert_eq!(report["shouldRetry"].as_str(), should_retry, "{report}");
    let message = report["message"].as_str().expect("a message");
    assert!(
        message.contains("Outflow: ") && !message.contains("no body"),
        "{message}"
    );
}

#[test]
fn openai_for_node_shows_the_reason_of_every_refusal() {
    let running = RunningProgram::dev();
    let program = node_program(&format!("{FOLDER}/openai_refusals.mjs"));
    let Some(reports) = program.and_then(|program| reports(&running, program)) else {
        return;
    };
    assert_shown(&reports, "busy", (429, "rate_limit_error", Some("true")));
    assert_shown(&reports, "too_late", (429, "rate_limit_error", Some("true")));
    assert_shown(&reports, "cost_too_high", (422, "invalid_request_error", Some("false")));
    assert_shown(&reports, "blocked", (503, "overloaded_error", Some("false")));
    assert_shown(&reports, "unknown_group", (400, "invalid_request_error", Some("false")));
    assert_shown(&reports, "control_header", (400, "invalid_request_error", None));
    assert_shown(&reports, "unknown_api", (404, "not_found_error", None));
    let busy = report(&reports, "busy")["message"].as_str().expect("a message");
    assert!(busy.contains("1000/10s") && busy.contains("retry in"), "{busy}");
    assert_eq!(report(&reports, "blocked")["requests"], 1, "no pointless retry");
    let retried = report(&reports, "retried");
    assert_eq!(
        (&retried["status"], &retried["requests"]),
        (&Value::Null, &2.into()),
        "{retried}"
    );
}

#[test]
fn openai_for_python_shows_the_reason_of_every_refusal() {
    let running = RunningProgram::dev();
    let program = python_program(&format!("{FOLDER}/openai_refusals.py"));
    let Some(reports) = reports(&running, program) else {
        return;
    };
    assert_shown(&reports, "busy", (429, "rate_limit_error", Some("true")));
    assert_shown(&reports, "too_late", (429, "rate_limit_error", Some("true")));
    assert_shown(&reports, "cost_too_high", (422, "invalid_request_error", Some("false")));
    assert_shown(&reports, "unknown_group", (400, "invalid_request_error", Some("false")));
    assert_shown(&reports, "unknown_api", (404, "not_found_error", None));
}
