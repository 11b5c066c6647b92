//! The core stays pure: no standard library, no `unsafe`, the workspace's lints in every crate.
//!
//! The compiler enforces each of these as long as one line is there; this sees that the line is.

use super::Finding;
use super::tree::Tree;

/// Finds a missing line.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = no_std(tree);
    findings.extend(no_unsafe(tree));
    findings.extend(lints_inherited(tree));
    findings
}

fn no_std(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(CORE).unwrap_or_default();
    let mut findings = Vec::new();
    if !text.lines().any(|line| line == "#![no_std]") {
        findings.push(Finding::fault(CORE, "needs the line `#![no_std]`"));
    }
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim() == "extern crate std;" && !is_for_tests(before) {
            let message = "std is for tests only: put `#[cfg(test)]` above it";
            findings.push(Finding::fault(CORE, message).at(number));
        }
        before = line.trim();
    }
    findings
}

fn is_for_tests(attribute: &str) -> bool {
    TEST_ONLY.contains(&attribute)
}

fn no_unsafe(tree: &Tree) -> Option<Finding> {
    let forbidden = tree
        .text(ROOT)
        .unwrap_or_default()
        .lines()
        .any(|line| line == "unsafe_code = \"forbid\"");
    let message = "needs `unsafe_code = \"forbid\"` among the workspace's lints";
    (!forbidden).then(|| Finding::fault(ROOT, message))
}

fn lints_inherited(tree: &Tree) -> impl Iterator<Item = Finding> {
    tree.ending("/Cargo.toml")
        .filter(|file| file.path.starts_with("crates/") || file.path.starts_with("xtask/"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true\n"))
        .map(|file| Finding::fault(&file.path, "needs `[lints]` with `workspace = true`"))
}

const CORE: &str = "crates/core/src/lib.rs";
const ROOT: &str = "Cargo.toml";
const TEST_ONLY: [&str; 3] = ["#[cfg(test)]", "#[cfg(loom)]", "#[cfg(any(test, loom))]"];

#[cfg(test)]
mod tests {
    use super::*;

    const FORBIDS: (&str, &str) = (ROOT, "unsafe_code = \"forbid\"\n");

    #[test]
    fn a_core_without_no_std_is_found() {
        let tree = Tree::of([FORBIDS, (CORE, "//! Decides.\n")]);
        assert_eq!(check(&tree).len(), 1);
        let tree = Tree::of([FORBIDS, (CORE, "//! Decides.\n#![no_std]\n")]);
        assert!(check(&tree).is_empty());
    }

    #[test]
    fn std_outside_the_tests_is_found() {
        let tests_only = "#![no_std]\n#[cfg(any(test, loom))]\nextern crate std;\n";
        assert!(check(&Tree::of([FORBIDS, (CORE, tests_only)])).is_empty());
        for always in ["", "#[cfg(not(test))]\n", "#[cfg(feature = \"test\")]\n"] {
            let text = format!("#![no_std]\n{always}extern crate std;\n");
            assert_eq!(
                check(&Tree::of([FORBIDS, (CORE, &text)])).len(),
                1,
                "{always}"
            );
        }
    }

    #[test]
    fn a_workspace_that_permits_unsafe_is_found() {
        let tree = Tree::of([(ROOT, "unsafe_code = \"warn\"\n"), (CORE, "#![no_std]\n")]);
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let core = (CORE, "#![no_std]\n");
        let tree = Tree::of([FORBIDS, core, ("crates/store/Cargo.toml", "[package]\n")]);
        assert_eq!(check(&tree)[0].path, "crates/store/Cargo.toml");
    }
}
