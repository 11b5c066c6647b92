//! The table of an earlier system's settings is complete, and the keys that it points to exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::support::{configured, run_in};

/// Sections of the earlier system and their keys.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("redis", &["host", "port", "password", "db", "keyPrefix"]),
    ("fairQueue", &["alpha"]),
    (
        "backpressure",
        &[
            "globalRps",
            "readyQueueMaxSize",
            "rateLimitWindowSec",
            "rateLimitKeyTtlSec",
            "dispatchIntervalMs",
            "dispatchBatchSize",
            "defaultBackoffMs",
            "maxBackoffMs",
        ],
    ),
    (
        "congestion",
        &["enabled", "baseBackoffMs", "maxBackoffMs", "statsRetentionMs"],
    ),
    (
        "workerPool",
        &[
            "workerCount",
            "fetchIntervalMs",
            "fetchBatchSize",
            "workerTimeoutSec",
            "jobTimeoutMs",
            "maxRetryCount",
            "shutdownGracePeriodMs",
        ],
    ),
];

/// Values of every type; one of them has to fit a key.
const VALUES: [&str; 7] = ["1", "\"1s\"", "\"1h\"", "true", "\"redis\"", "\"X\"", "{}"];

fn page() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bulk-seed-settings.md");
    fs::read_to_string(file).expect("readable")
}

/// Returns the cells of each row of a section's table.
fn rows<'p>(page: &'p str, section: &str) -> Vec<Vec<&'p str>> {
    let heading = format!("\n## `{section}`\n");
    let (_, rest) = page.split_once(&heading).expect(section);
    let own = rest.split("\n## ").next().unwrap_or_default();
    let lines = own.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns whether the program accepts a line above an API or inside it.
fn is_taken(line: &str) -> bool {
    let (above, within) = if line.starts_with("bulk.") {
        (line, "")
    } else {
        ("", line)
    };
    let api = "[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n";
    let folder = configured(&format!("{above}\n{api}{within}\n"));
    let checked = run_in(folder.path(), &["check", "outflow.toml"]);
    // An unset variable does not speak against the key that names it.
    checked.code == Some(0) || checked.talk.contains("is not set")
}

#[test]
fn the_table_has_every_setting_of_the_earlier_system() {
    let page = page();
    for (section, keys) in SECTIONS {
        let rows = rows(&page, section);
        let listed: BTreeSet<_> = rows.iter().flat_map(|row| quoted(row[0])).collect();
        assert_eq!(listed, keys.iter().copied().collect(), "{section}");
        for row in &rows {
            let [_, _, ours, fate, why] = row.as_slice() else {
                panic!("{row:?}");
            };
            assert!(["mapped", "accepted", "refused"].contains(fate), "{row:?}");
            assert!(!why.is_empty(), "without a reason: {row:?}");
            assert!(*fate != "mapped" || quoted(ours).count() > 0, "{row:?}");
        }
    }
}

// Keys of the whole configuration begin with `bulk.`; a line with a value is checked as it is written.
#[test]
fn the_table_points_to_existing_keys() {
    let page = page();
    let rows = SECTIONS.iter().flat_map(|(section, _)| rows(&page, section));
    let mut seen = 0;
    for ours in rows.map(|row| row[2]) {
        let lines = quoted(ours).filter(|text| text.starts_with("bulk.") || text.contains(" = "));
        for line in lines {
            seen += 1;
            let with = |value: &str| {
                match line {
                    // This value needs the URL of a server, which the test does not have.
                    "bulk.store = \"redis\"" => "bulk.store = \"embedded\"".to_owned(),
                    line if line.contains(" = ") => line.to_owned(),
                    line => format!("{line} = {value}"),
                }
            };
            let taken = VALUES.iter().any(|value| is_taken(&with(value)));
            assert!(taken, "the program does not know {line}");
        }
    }
    assert!(seen >= 15, "{seen} keys were found");
}
