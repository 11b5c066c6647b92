//! The `simulate` command as a user runs it.

use std::process::{Command, Output};

fn outflow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outflow"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn stdout(arguments: &[&str]) -> String {
    let output = outflow(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "no terminal, no progress");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn simulate_prints_one_json_document_that_meets_its_goals() {
    let text = stdout(&["--json", "--scenario", "thousand"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("one document");
    let runs = document
        .pointer("/scenarios/0/runs")
        .and_then(|runs| runs.as_array())
        .expect("a list of runs");
    let names: Vec<_> = runs.iter().filter_map(|run| run.get("scheduler")?.as_str()).collect();
    assert_eq!(names, ["fixed", "backoff", "backoff-unclamped", "permit-first"]);
    let last = runs.last().expect("four runs");
    assert_eq!(last.get("refused"), Some(&serde_json::json!(0)));
    assert_eq!(last.get("peak_window"), Some(&serde_json::json!(1.0)));
}

#[test]
fn simulate_repeats_its_output_for_one_seed() {
    let run = || stdout(&["--scenario", "thousand", "--seed", "9", "--jitter", "5"]);
    assert_eq!(run(), run());
}

#[test]
fn simulate_prints_a_row_for_each_named_scheduler() {
    let text = stdout(&["--scenario", "thousand", "--scheduler", "permit-first"]);
    assert!(text.contains("thousand: 1,000 jobs"), "{text}");
    let rows = |name: &str| text.matches(&format!("\n  {name} ")).count();
    assert_eq!((rows("permit-first"), rows("backoff")), (1, 0), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour: {text}");
}

// The tables and the help explain the same columns.
#[test]
fn simulate_explains_its_columns() {
    let tables = stdout(&["--scenario", "thousand", "--scheduler", "permit-first"]);
    let help = stdout(&["--help"]);
    for text in [tables, help] {
        for column in ["ideal:", "makespan:", "throttles/job:", "refused:", "backoff:"] {
            assert!(text.contains(column), "{column} in {text}");
        }
    }
}

#[test]
fn simulate_rejects_an_unknown_scenario() {
    let output = outflow(&["--scenario", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("come_and_go"), "lists what there is: {text}");
}
