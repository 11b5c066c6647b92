//! The bans on clocks and threads are in place, and only the files that own them lift them.
//!
//! Clippy refuses a banned call; it does not notice when the ban itself is taken out, overridden by
//! a file nearer to the crate, or lifted where it should hold.

use super::Finding;
use super::tree::{File, Tree};

/// Finds bans that are gone and files that lift one.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = BANNED
        .iter()
        .filter_map(|call| missing(tree, call))
        .collect();
    findings.extend(tree.ending("clippy.toml").filter_map(overriding));
    findings.extend(tree.files().flat_map(lifting));
    findings
}

fn missing(tree: &Tree, call: &str) -> Option<Finding> {
    let entry = format!("path = \"{call}\"");
    let banned = tree
        .text(BANS)
        .unwrap_or_default()
        .lines()
        .any(|line| line.contains(&entry) && line.contains("reason = \""));
    let message = format!("must ban {call}, with a reason");
    (!banned).then(|| Finding::fault(BANS, message))
}

fn overriding(file: &File) -> Option<Finding> {
    let message = "hides the bans of the root from what is below it: move its settings there";
    (file.path != BANS).then(|| Finding::fault(&file.path, message))
}

fn lifting(file: &File) -> Vec<Finding> {
    let code = file.ends_with(".rs") || file.ends_with(".toml");
    if !code || may_lift(&file.path) {
        return Vec::new();
    }
    file.lines()
        .filter(|(_, line)| line.contains(LINT))
        .map(|(number, _)| {
            let message = "lifts the ban on clocks and threads: take the time as an argument";
            Finding::fault(&file.path, message).at(number)
        })
        .collect()
}

fn may_lift(path: &str) -> bool {
    OWNERS.contains(&path) || path.starts_with(MEASURED)
}

const BANS: &str = "clippy.toml";

/// In two halves, so that this file does not find itself.
const LINT: &str = concat!("disallowed", "_methods");

const BANNED: [&str; 7] = [
    "rustix::time::clock_gettime",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "tokio::spawn",
    "tokio::task::spawn_blocking",
];

/// The two clocks, the one that spawns, and the stopwatch of this program.
const OWNERS: [&str; 4] = [
    "crates/client/src/clock.rs",
    "crates/client/src/tasks.rs",
    "crates/store/src/boot_clock.rs",
    "xtask/src/stopwatch.rs",
];

/// Benchmarks measure time with threads; that is all they do.
const MEASURED: &str = "benches/";

#[cfg(test)]
mod tests {
    use super::*;

    fn bans() -> String {
        BANNED
            .map(|call| format!("{{ path = \"{call}\", reason = \"why\" }},\n"))
            .concat()
    }

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of([(BANS, &bans()), (path, text)])).len()
    }

    #[test]
    fn a_ban_that_is_gone_or_gives_no_reason_is_found() {
        assert_eq!(check(&Tree::of([])).len(), BANNED.len());
        let silent = bans().replacen("reason", "note", 1);
        assert_eq!(check(&Tree::of([(BANS, &silent)])).len(), 1);
    }

    #[test]
    fn only_the_owners_lift_a_ban() {
        let lifts = format!("#[expect(clippy::{LINT}, reason = \"…\")]\n");
        assert_eq!(found("crates/client/src/clock.rs", &lifts), 0);
        assert_eq!(found("benches/src/main.rs", &lifts), 0);
        assert_eq!(found("crates/client/src/send.rs", &lifts), 1);
        assert_eq!(
            found("crates/client/Cargo.toml", &format!("{LINT} = \"allow\"\n")),
            1
        );
    }

    #[test]
    fn a_nearer_configuration_is_found() {
        assert_eq!(found("crates/bulk/clippy.toml", ""), 1);
        assert_eq!(found("crates/bulk/.clippy.toml", ""), 1);
    }
}
