//! The core has no standard library and no `unsafe`, and every crate inherits the workspace's lints.
//!
//! The compiler enforces each of these as long as one line exists and no other line undoes it.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports missing lines, and lines that undo them.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = check_no_std(tree);
    findings.extend(check_no_unsafe(tree));
    findings.extend(check_inherited_lints(tree));
    findings
}

fn check_no_std(tree: &SourceTree) -> Vec<TidyFinding> {
    let is_declared = tree
        .text(CORE)
        .is_some_and(|text| text.lines().any(|line| line == "#![no_std]"));
    let missing = (!is_declared).then(|| TidyFinding::error(CORE, "needs the line `#![no_std]`"));
    let sources = tree
        .with_suffix(".rs")
        .filter(|file| file.path.starts_with(CORE_SOURCES));
    missing.into_iter().chain(sources.flat_map(linked_crates)).collect()
}

/// Reports `extern crate` of anything but `alloc`. Any module can link `std` for the whole crate.
fn linked_crates(file: &SourceFile) -> Vec<TidyFinding> {
    let words: Vec<_> = file
        .lines()
        .flat_map(|(number, line)| line.split_whitespace().map(move |word| (number, word)))
        .collect();
    let mut findings = Vec::new();
    for three in words.windows(3) {
        let [(number, first), (_, "crate"), (_, name)] = three else {
            continue;
        };
        let is_foreign = first.ends_with("extern") && *name != "alloc;";
        if is_foreign && !is_std_for_tests(file, *number) {
            let message = "links a crate other than alloc: only lib.rs links std, for tests, below \
                           `#[cfg(test)]`";
            findings.push(TidyFinding::error(&file.path, message).at(*number));
        }
    }
    findings
}

fn is_std_for_tests(file: &SourceFile, number: usize) -> bool {
    let line = |index: usize| file.text.lines().nth(index).unwrap_or_default().trim();
    let attribute = number.checked_sub(2).map(line);
    file.path == CORE
        && line(number - 1) == "extern crate std;"
        && attribute.is_some_and(|attribute| TEST_CONDITIONS.contains(&attribute))
}

fn check_no_unsafe(tree: &SourceTree) -> Option<TidyFinding> {
    let is_forbidden = tree
        .text(WORKSPACE)
        .unwrap_or_default()
        .lines()
        .any(|line| line == "unsafe_code = \"forbid\"");
    let message = "needs `unsafe_code = \"forbid\"` in the workspace's lints";
    (!is_forbidden).then(|| TidyFinding::error(WORKSPACE, message))
}

fn check_inherited_lints(tree: &SourceTree) -> impl Iterator<Item = TidyFinding> {
    tree.with_suffix("/Cargo.toml")
        .filter(|file| file.path.starts_with("crates/") || file.path.starts_with("xtask/"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true\n"))
        .map(|file| TidyFinding::error(&file.path, "needs `[lints]` with `workspace = true`"))
}

const CORE: &str = "crates/core/src/lib.rs";
const CORE_SOURCES: &str = "crates/core/src/";
const WORKSPACE: &str = "Cargo.toml";
const TEST_CONDITIONS: [&str; 3] = ["#[cfg(test)]", "#[cfg(loom)]", "#[cfg(any(test, loom))]"];

#[cfg(test)]
mod tests {
    use super::*;

    const FORBIDS: (&str, &str) = (WORKSPACE, "unsafe_code = \"forbid\"\n");

    fn count<const N: usize>(files: [(&str, &str); N]) -> usize {
        check(&SourceTree::from_files(files)).len()
    }

    #[test]
    fn a_core_without_no_std_is_an_error() {
        assert_eq!(count([FORBIDS, (CORE, "//! Decides.\n")]), 1);
        assert_eq!(count([FORBIDS, (CORE, "//! Decides.\n#![no_std]\n")]), 0);
    }

    #[test]
    fn std_outside_tests_is_an_error() {
        let tests_only = "#![no_std]\n#[cfg(any(test, loom))]\nextern crate std;\n";
        assert_eq!(count([FORBIDS, (CORE, tests_only)]), 0);
        for condition in ["", "#[cfg(not(test))]\n", "#[cfg(feature = \"test\")]\n"] {
            let text = format!("#![no_std]\n{condition}extern crate std;\n");
            assert_eq!(count([FORBIDS, (CORE, &text)]), 1, "{condition}");
        }
    }

    // One case for each notation that the compiler accepts.
    #[test]
    fn std_in_any_file_of_the_core_is_an_error() {
        let root = (CORE, "#![no_std]\nextern crate alloc;\n");
        for text in [
            "extern crate std;\n",
            "#[cfg(test)]\nextern crate std;\n",
            "pub extern crate std as kernel;\n",
            "#[cfg(all())]extern\n    crate  std ;\n",
            "macro_rules! link { ($name:ident) => { extern crate $name; } }\n",
        ] {
            let module = ("crates/core/src/meter/log.rs", text);
            assert_eq!(count([FORBIDS, root, module]), 1, "{text}");
        }
        let elsewhere = ("crates/client/src/lib.rs", "extern crate std;\n");
        assert_eq!(count([FORBIDS, root, elsewhere]), 0);
    }

    #[test]
    fn a_workspace_that_permits_unsafe_is_an_error() {
        let permits = (WORKSPACE, "unsafe_code = \"warn\"\n");
        assert_eq!(count([permits, (CORE, "#![no_std]\n")]), 1);
    }

    #[test]
    fn a_crate_without_the_lints_is_an_error() {
        let core = (CORE, "#![no_std]\n");
        let store = ("crates/store/Cargo.toml", "[package]\n");
        let findings = check(&SourceTree::from_files([FORBIDS, core, store]));
        assert_eq!(findings[0].path, "crates/store/Cargo.toml");
    }
}
