//! The bans on clocks and threads are in place, and only the files that own them lift them.
//!
//! Clippy refuses a banned call; it does not notice when the ban itself is taken out, overridden by
//! a file nearer to the crate, or lifted where it should hold, alone or with the whole group of
//! lints that it belongs to.

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
    findings.extend(tree.ending(".rs").flat_map(lifting_a_group));
    findings.extend(tree.ending(".toml").flat_map(switching_off));
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

/// Attributes that lift a group of lints, and with it the bans, at whatever depth they stand.
fn lifting_a_group(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for keyword in ["allow", "expect"] {
        for (at, _) in file.text.match_indices(keyword) {
            let (before, rest) = file.text.split_at(at);
            let list = rest.trim_start_matches(keyword).trim_start();
            let list = list
                .strip_prefix('(')
                .and_then(|list| list.split(')').next());
            let tight: String = list.into_iter().flat_map(str::split_whitespace).collect();
            if let Some(group) = GROUPS.iter().find(|group| names(&tight, group)) {
                let message = format!("lifts all of {group}: lift the one lint, where it is");
                let number = before.matches('\n').count() + 1;
                findings.push(Finding::fault(&file.path, message).at(number));
            }
        }
    }
    findings
}

/// True if `word` stands in `list` as a whole, and not inside a longer name or a string.
fn names(list: &str, word: &str) -> bool {
    let list = list.split('"').next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    list.match_indices(word).any(|(at, _)| {
        let (before, rest) = list.split_at(at);
        let after = rest.trim_start_matches(word);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Manifests and cargo's own configuration that switch a group off, or lints as such.
fn switching_off(file: &File) -> Vec<Finding> {
    let allows = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let group = GROUPS
            .iter()
            .any(|group| group.trim_start_matches("clippy::") == key.trim().trim_matches('"'));
        group && value.contains("\"allow\"")
    };
    let flags = |line: &str| SILENCERS.iter().any(|flag| line.contains(flag));
    file.lines()
        .filter(|(_, line)| allows(line) || flags(line))
        .map(|(number, _)| {
            let message = "switches lints off by the group: name the one lint, with its reason";
            Finding::fault(&file.path, message).at(number)
        })
        .collect()
}

fn may_lift(path: &str) -> bool {
    OWNERS.contains(&path) || FREE.iter().any(|part| path.starts_with(part))
}

const BANS: &str = "clippy.toml";

/// In two halves, so that this file does not find itself, and without its last letter: the lint was
/// once called so, and still answers to it.
const LINT: &str = concat!("disallowed", "_method");

/// Groups that hold the bans, or that nobody has a reason to lift whole.
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

/// Flags for the compiler that silence more than one lint.
const SILENCERS: [&str; 3] = ["cap-lints", "-Aclippy", "-A clippy"];

/// Scoped threads are not among them: they end before whoever started them goes on, so there is
/// nothing to name, supervise or drain, and tests of races need them.
const BANNED: [&str; 18] = [
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

/// The two clocks, the one that spawns, and the stopwatch of this program.
const OWNERS: [&str; 6] = [
    "crates/client/src/clock.rs",
    "crates/client/src/tasks.rs",
    "crates/store/src/boot_clock.rs",
    "crates/mock/src/clock.rs",
    "crates/mock/src/tasks.rs",
    "xtask/src/stopwatch.rs",
];

/// Benchmarks measure time with threads; that is all they do. What stands around a test starts
/// servers and reads clocks, and no product is built with it.
const FREE: [&str; 2] = ["benches/", "crates/testkit/src/"];

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
        let lifts = format!("#[expect(clippy::{LINT}s, reason = \"…\")]\n");
        assert_eq!(found("crates/client/src/clock.rs", &lifts), 0);
        assert_eq!(found("benches/src/main.rs", &lifts), 0);
        assert_eq!(found("crates/client/src/send.rs", &lifts), 1);
        assert_eq!(
            found(
                "crates/client/Cargo.toml",
                &format!("{LINT}s = \"allow\"\n")
            ),
            1
        );
        let by_its_old_name = format!("#[allow(clippy::{LINT}, reason = \"…\")]\n");
        assert_eq!(found("crates/client/src/send.rs", &by_its_old_name), 1);
    }

    // However it is written, and even by an owner, who may lift one lint and not the rest.
    #[test]
    fn a_group_that_holds_the_bans_is_never_lifted() {
        for group in GROUPS {
            for lifts in [
                format!("#![{}({group})]\n", "allow"),
                format!("#[{}(dead_code, {group}, reason = \"…\")]\n", "expect"),
                format!("#[cfg_attr(all(), {} (\n    {group}\n))]\n", "allow"),
            ] {
                assert_eq!(found("crates/client/src/clock.rs", &lifts), 1, "{lifts}");
            }
        }
        for fine in [
            "#[expect(clippy::allow_attributes, clippy::style_x, reason = \"no warnings\")]\n",
            "let one = some.expect(\"warnings\");\n",
            "#![deny(clippy::all, warnings)]\n",
        ] {
            assert_eq!(found("crates/client/src/send.rs", fine), 0, "{fine}");
        }
    }

    #[test]
    fn a_group_that_is_switched_off_in_a_manifest_is_found() {
        for off in [
            "style = \"allow\"\n",
            "all = { level = \"allow\", priority = -1 }\n",
            "warnings = \"allow\"\n",
            "rustflags = [\"-Aclippy::style\"]\n",
            "rustflags = \"-A clippy::all\"\n",
            "rustflags = [\"--cap-lints=allow\"]\n",
        ] {
            assert_eq!(found("Cargo.toml", off), 1, "{off}");
        }
        assert_eq!(found("Cargo.toml", "pedantic = { level = \"warn\" }\n"), 0);
    }

    #[test]
    fn a_nearer_configuration_is_found() {
        assert_eq!(found("crates/bulk/clippy.toml", ""), 1);
        assert_eq!(found("crates/bulk/.clippy.toml", ""), 1);
    }
}
