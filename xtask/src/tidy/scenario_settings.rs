//! Scenarios start from the defaults that a user has.
//!
//! A test that sets a value which users do not set proves nothing about what they get. Scenario tests and
//! benches may change a setting that decides on a bad day only with a reason in a comment near it, or as an
//! argument of `changed`.

use regex::Regex;

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::{SourceFile, SourceTree};

/// Reports changed settings without a reason.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let setting = pattern(SETTING);
    let files = tree.with_suffix(".rs").filter(|file| is_scenario(&file.path));
    files.flat_map(|file| unexplained(file, &setting)).collect()
}

fn is_scenario(path: &str) -> bool {
    SCENARIOS.iter().any(|folder| path.starts_with(folder))
}

fn unexplained(file: &SourceFile, setting: &Regex) -> Vec<TidyFinding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let Some(name) = setting.captures(line).and_then(|found| found.get(1)) else {
            continue;
        };
        let first = number.saturating_sub(REACH + 1);
        let nearby = lines.get(first..number).unwrap_or_default();
        if nearby
            .iter()
            .any(|near| near.contains("//") || near.contains(".changed("))
        {
            continue;
        }
        let message = format!(
            "sets `{}`, which users do not set: use the default, or say why in a comment above",
            name.as_str()
        );
        findings.push(TidyFinding::error(&file.path, message).at(number));
    }
    findings
}

/// Lines above a setting in which its reason may be.
const REACH: usize = 5;

const SCENARIOS: [&str; 6] = [
    "crates/client/tests/client/end_to_end/",
    "crates/client/tests/client/recovery",
    "crates/client/tests/upstream/wrong_limit.rs",
    "crates/bulk/tests/engine/",
    "crates/testkit/src/recovery",
    "benches/src/",
];

/// An assignment, a field or a line of a configuration; no parameter and no comparison.
const SETTING: &str = r"\b(concurrency|max_wait|when_asleep|sleep_(?:min|max|jitter|share)|probe_[a-z]+|n_failures|n_throttle|n_cacheonly|p_throttle|p_recover|p_sleep|min_samples|min_failures|adaptive|confirm_after|cooldown_factor|ramp_[a-z]+|release_jitter|cache_only_after|auto_recover|retry_count)(?:: (?:Some\(|[A-Z0-9]\w*[:\(_;,0-9A-Z])| = )";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn count(path: &str, text: &str) -> usize {
        findings(check, [(path, text)]).len()
    }

    #[test]
    fn a_changed_setting_needs_a_reason() {
        let scenario = "crates/bulk/tests/engine/days.rs";
        for setting in [
            "settings.concurrency = Some(10);",
            "concurrency: Some(10_000),",
            "adaptive: AdaptiveMode::Off,",
            "let text = \"sleep_min = \\\"20s\\\"\";",
        ] {
            assert_eq!(
                count(scenario, &format!("fn day() {{\n    {setting}\n}}\n")),
                1,
                "{setting}"
            );
            let explained = format!("fn day() {{\n    // The slots are the subject.\n    {setting}\n}}\n");
            assert_eq!(count(scenario, &explained), 0, "{setting}");
            assert_eq!(count("crates/bulk/tests/store.rs", &format!("{setting}\n")), 0);
        }
    }

    #[test]
    fn parameters_comparisons_and_stated_changes_pass() {
        let scenario = "benches/src/bulk.rs";
        for text in [
            "fn in_flight(concurrency: u32) {}\n",
            "assert!(report.concurrency == 4);\n",
            "config.changed(\n    r#\"max_wait = \"1m\"\"#,\n    \"the guide shows it\",\n)\n",
        ] {
            assert_eq!(count(scenario, text), 0, "{text}");
        }
    }
}
