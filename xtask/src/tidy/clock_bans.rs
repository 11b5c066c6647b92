//! Clippy bans clocks and threads, and only their owners lift a ban.
//!
//! Clippy rejects a banned call. It does not notice a missing ban, a nearer configuration that hides
//! it, or a file that lifts it, alone or with its whole lint group.

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::SourceTree;

/// Reports missing bans, and files that lift one.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let missing = BANNED_CALLS.iter().filter(|call| !is_banned(tree, call));
    let mut findings: Vec<_> = missing
        .map(|call| TidyFinding::error(CONFIG, format!("must ban {call}, with a reason")))
        .collect();
    for file in tree.with_suffix("clippy.toml").filter(|file| file.path != CONFIG) {
        let message = "hides the bans of the root for its folder: move its settings to the root";
        findings.push(TidyFinding::error(&file.path, message));
    }
    findings.extend(lifted_bans(tree));
    findings
}

/// Reports the lint, attributes that lift a group at any depth, and manifests and cargo configurations
/// that disable a group or silence the compiler.
fn lifted_bans(tree: &SourceTree) -> Vec<TidyFinding> {
    let lint = pattern(LINT);
    let group = pattern(&format!(
        r#"\b(?:allow|expect)\s*\((?:[^)"]*[\s,])?(clippy::(?:{GROUPS})|warnings)\s*[,)]"#
    ));
    let setting = pattern(&format!(
        r#"(?m)^\s*"?(?:{GROUPS}|warnings)"?\s*=.*"allow"|cap-lints|-A ?clippy"#
    ));
    let mut findings = Vec::new();
    for file in tree.with_suffix(".rs").chain(tree.with_suffix(".toml")) {
        let lifted = file.report_matches(&lint, |_| {
            "lifts the ban on clocks and threads: take the time as an argument".to_owned()
        });
        findings.extend(lifted.into_iter().filter(|_| !may_lift(&file.path)));
        findings.extend(if file.has_suffix(".rs") {
            file.report_matches(&group, |group| {
                format!("lifts all of {group}: lift the one lint at its line")
            })
        } else {
            file.report_matches(&setting, |_| {
                "disables a lint group: name the one lint, with its reason".to_owned()
            })
        });
    }
    findings
}

fn is_banned(tree: &SourceTree, call: &str) -> bool {
    let entry = format!("path = \"{call}\"");
    let config = tree.file(CONFIG);
    config.is_some_and(|file| {
        let mut lines = file.text.lines();
        lines.any(|line| line.contains(&entry) && line.contains("reason = \""))
    })
}

fn may_lift(path: &str) -> bool {
    OWNERS.contains(&path) || EXEMPT_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

const CONFIG: &str = "clippy.toml";

/// Two halves, so that this file contains no match; without the last letter, because clippy also
/// accepts the former name of the lint.
const LINT: &str = concat!("disallowed", "_method");

/// Groups of clippy that contain the bans, and groups that no file has a reason to lift.
const GROUPS: &str = "all|style|pedantic|restriction|correctness|suspicious|complexity|perf|nursery|cargo";

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
const OWNERS: [&str; 7] = [
    "crates/client/src/clock.rs",
    "crates/client/src/tasks.rs",
    "crates/ledger/src/ledger_thread.rs",
    "crates/mock/src/clock.rs",
    "crates/mock/src/tasks.rs",
    "crates/store/src/redis/ledger/ledger_worker.rs",
    "xtask/src/stopwatch.rs",
];

/// Benchmarks measure time with threads, and the testkit starts servers; neither is product code.
const EXEMPT_FOLDERS: [&str; 2] = ["benches/", "crates/testkit/src/"];

#[cfg(test)]
mod tests;
