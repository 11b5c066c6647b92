//! The core has no standard library and no `unsafe`, and every crate inherits the workspace's lints.
//!
//! The compiler enforces each of these as long as one line exists and no other line undoes it.

use super::TidyFinding;
use super::rust_code::RustItem;
use super::tree::SourceTree;

/// Reports missing lines, and lines that undo them.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (path, line) in REQUIRED_LINES {
        if !tree.has_line(path, line) {
            findings.push(TidyFinding::error(path, format!("needs the line `{line}`")));
        }
    }
    findings.extend(linked_crates(tree));
    let manifests = tree.with_suffix("/Cargo.toml");
    let own = manifests.filter(|file| file.path.starts_with("crates/") || file.path.starts_with("xtask/"));
    findings.extend(
        own.filter(|file| !file.text.contains("[lints]\nworkspace = true\n"))
            .map(|file| TidyFinding::error(&file.path, "needs `[lints]` with `workspace = true`")),
    );
    findings
}

/// Reports `extern crate` of anything but `alloc`. Any module can link `std` for the whole crate.
fn linked_crates(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let sources = tree.with_suffix(".rs");
    for file in sources.filter(|file| file.path.starts_with(CORE_SOURCES)) {
        let linked = file
            .items()
            .iter()
            .filter(|item| item.keyword.ends_with("crate") && item.name != "alloc");
        for item in linked.filter(|item| file.path != CORE || !is_std_for_tests(item)) {
            let message = "links a crate other than alloc: only lib.rs links std, for tests, below \
                           `#[cfg(test)]`";
            findings.push(file.error_at(item.offset, message));
        }
    }
    findings
}

fn is_std_for_tests(item: &RustItem) -> bool {
    item.name == "std" && TEST_CONDITIONS.contains(&&*item.attributes)
}

const CORE: &str = "crates/core/src/lib.rs";
const CORE_SOURCES: &str = "crates/core/src/";
const WORKSPACE: &str = "Cargo.toml";
const REQUIRED_LINES: [(&str, &str); 2] = [(CORE, "#![no_std]"), (WORKSPACE, "unsafe_code = \"forbid\"")];
const TEST_CONDITIONS: [&str; 3] = ["#[cfg(test)]", "#[cfg(loom)]", "#[cfg(any(test, loom))]"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const FORBIDS: (&str, &str) = (WORKSPACE, "unsafe_code = \"forbid\"\n");

    fn count<const N: usize>(files: [(&str, &str); N]) -> usize {
        findings(check, files).len()
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
        let found = findings(check, [FORBIDS, core, store]);
        assert!(found[0].starts_with("crates/store/Cargo.toml: "), "{found:?}");
    }
}
