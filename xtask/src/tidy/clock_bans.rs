//! Clippy bans clocks and threads, and only their owners lift a ban.
//!
//! Clippy rejects a banned call. It does not notice a missing ban, a nearer configuration that hides
//! it, or a file that lifts it, alone or with its whole lint group.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports missing bans, and files that lift one.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings: Vec<_> = BANNED_CALLS.iter().filter_map(|call| missing_ban(tree, call)).collect();
    findings.extend(tree.with_suffix("clippy.toml").filter_map(nearer_config));
    findings.extend(tree.files().flat_map(lifted_bans));
    findings.extend(tree.with_suffix(".rs").flat_map(lifted_groups));
    findings.extend(tree.with_suffix(".toml").flat_map(disabled_groups));
    findings
}

fn missing_ban(tree: &SourceTree, call: &str) -> Option<TidyFinding> {
    let entry = format!("path = \"{call}\"");
    let is_banned = tree
        .text(CONFIG)
        .unwrap_or_default()
        .lines()
        .any(|line| line.contains(&entry) && line.contains("reason = \""));
    let message = format!("must ban {call}, with a reason");
    (!is_banned).then(|| TidyFinding::error(CONFIG, message))
}

fn nearer_config(file: &SourceFile) -> Option<TidyFinding> {
    let message = "hides the bans of the root for its folder: move its settings to the root";
    (file.path != CONFIG).then(|| TidyFinding::error(&file.path, message))
}

fn lifted_bans(file: &SourceFile) -> Vec<TidyFinding> {
    let is_code = file.has_suffix(".rs") || file.has_suffix(".toml");
    if !is_code || may_lift(&file.path) {
        return Vec::new();
    }
    file.lines()
        .filter(|(_, line)| line.contains(LINT))
        .map(|(number, _)| {
            let message = "lifts the ban on clocks and threads: take the time as an argument";
            TidyFinding::error(&file.path, message).at(number)
        })
        .collect()
}

/// Reports attributes that lift a lint group, at any depth.
fn lifted_groups(file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for keyword in ["allow", "expect"] {
        for (at, _) in file.text.match_indices(keyword) {
            let rest = file.text.get(at + keyword.len()..).unwrap_or_default();
            let list = rest.trim_start().strip_prefix('(');
            let list = list.and_then(|list| list.split(')').next());
            let tight: String = list.into_iter().flat_map(str::split_whitespace).collect();
            if let Some(group) = GROUPS.iter().find(|group| has_word(&tight, group)) {
                let message = format!("lifts all of {group}: lift the one lint at its line");
                findings.push(TidyFinding::error(&file.path, message).at(file.line_at(at)));
            }
        }
    }
    findings
}

/// Returns true if `list` has `word` as a whole, outside strings and longer names.
fn has_word(list: &str, word: &str) -> bool {
    let list = list.split('"').next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    list.match_indices(word).any(|(at, _)| {
        let (before, rest) = list.split_at(at);
        let after = rest.trim_start_matches(word);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Reports manifests and cargo configurations that disable a lint group, or all lints.
fn disabled_groups(file: &SourceFile) -> Vec<TidyFinding> {
    let allows_group = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let mut names = GROUPS.iter().map(|group| group.trim_start_matches("clippy::"));
        names.any(|name| name == key.trim().trim_matches('"')) && value.contains("\"allow\"")
    };
    let has_flag = |line: &str| SILENCING_FLAGS.iter().any(|flag| line.contains(flag));
    file.lines()
        .filter(|(_, line)| allows_group(line) || has_flag(line))
        .map(|(number, _)| {
            let message = "disables a lint group: name the one lint, with its reason";
            TidyFinding::error(&file.path, message).at(number)
        })
        .collect()
}

fn may_lift(path: &str) -> bool {
    OWNERS.contains(&path) || EXEMPT_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

const CONFIG: &str = "clippy.toml";

/// Two halves, so that this file contains no match; without the last letter, because clippy also
/// accepts the former name of the lint.
const LINT: &str = concat!("disallowed", "_method");

/// Groups that contain the bans, and groups that no file has a reason to lift.
const GROUPS: [&str; 11] = [
    "clippy::all",
    "clippy::style",
    "clippy::pedantic",
    "clippy::restriction",
    "clippy::correctness",
    "clippy::suspicious",
    "clippy::complexity",
    "clippy::perf",
    "clippy::nursery",
    "clippy::cargo",
    "warnings",
];

/// Compiler flags that silence more than one lint.
const SILENCING_FLAGS: [&str; 3] = ["cap-lints", "-Aclippy", "-A clippy"];

/// Scoped threads are allowed: they end before their caller continues, so they need no name, supervision
/// or shutdown, and tests of races use them.
const BANNED_CALLS: [&str; 18] = [
    "rustix::time::clock_gettime",
    "std::time::Instant::now",
    "std::time::Instant::elapsed",
    "std::time::SystemTime::now",
    "std::time::SystemTime::elapsed",
    "std::thread::spawn",
    "std::thread::Builder::spawn",
    "std::thread::sleep",
    "tokio::spawn",
    "tokio::task::spawn_blocking",
    "tokio::task::spawn_local",
    "tokio::task::JoinSet::spawn",
    "tokio::task::JoinSet::spawn_blocking",
    "tokio::task::JoinSet::spawn_local",
    "tokio::runtime::Handle::spawn",
    "tokio::runtime::Handle::spawn_blocking",
    "tokio::runtime::Runtime::spawn",
    "tokio::runtime::Runtime::spawn_blocking",
];

/// The clocks and spawners of product and mock, and the stopwatch of this program.
const OWNERS: [&str; 5] = [
    "crates/client/src/clock.rs",
    "crates/client/src/tasks.rs",
    "crates/mock/src/clock.rs",
    "crates/mock/src/tasks.rs",
    "xtask/src/stopwatch.rs",
];

/// Benchmarks measure time with threads, and the testkit starts servers; neither is product code.
const EXEMPT_FOLDERS: [&str; 2] = ["benches/", "crates/testkit/src/"];

#[cfg(test)]
mod tests;
