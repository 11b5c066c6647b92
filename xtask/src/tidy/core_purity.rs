//! The core stays pure: no standard library, no `unsafe`, the workspace's lints in every crate.
//!
//! The compiler enforces each of these as long as one line is there and no other undoes it; this
//! sees to both.

use super::Finding;
use super::tree::{File, Tree};

/// Finds a line that is missing, or one too many.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = no_std(tree);
    findings.extend(no_unsafe(tree));
    findings.extend(lints_inherited(tree));
    findings
}

fn no_std(tree: &Tree) -> Vec<Finding> {
    let declared = tree
        .text(CORE)
        .is_some_and(|text| text.lines().any(|line| line == "#![no_std]"));
    let missing = (!declared).then(|| Finding::fault(CORE, "needs the line `#![no_std]`"));
    let sources = tree
        .ending(".rs")
        .filter(|file| file.path.starts_with(CORE_SOURCES));
    missing
        .into_iter()
        .chain(sources.flat_map(outside_crates))
        .collect()
}

/// The crates that a file links by hand, beside `alloc`: a module can do it as well as the root, and
/// would bring `std` back for everybody.
fn outside_crates(file: &File) -> Vec<Finding> {
    let words: Vec<_> = file
        .lines()
        .flat_map(|(number, line)| line.split_whitespace().map(move |word| (number, word)))
        .collect();
    let mut findings = Vec::new();
    for three in words.windows(3) {
        let [(number, first), (_, "crate"), (_, name)] = three else {
            continue;
        };
        let links = first.ends_with("extern") && *name != "alloc;";
        if links && !is_root_for_tests(file, *number) {
            let message = "links a crate beside alloc: std is for tests only, and only the root \
                           asks for it, below `#[cfg(test)]`";
            findings.push(Finding::fault(&file.path, message).at(*number));
        }
    }
    findings
}

fn is_root_for_tests(file: &File, number: usize) -> bool {
    let line = |at: usize| file.text.lines().nth(at).unwrap_or_default().trim();
    let below = number.checked_sub(2).map(line);
    file.path == CORE && line(number - 1) == "extern crate std;" && below.is_some_and(is_for_tests)
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
const CORE_SOURCES: &str = "crates/core/src/";
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

    // A module links a crate as well as the root does, however it is written.
    #[test]
    fn std_in_any_file_of_the_core_is_found() {
        let root = (CORE, "#![no_std]\nextern crate alloc;\n");
        for text in [
            "extern crate std;\n",
            "#[cfg(test)]\nextern crate std;\n",
            "pub extern crate std as kernel;\n",
            "#[cfg(all())]extern\n    crate  std ;\n",
            "macro_rules! link { ($name:ident) => { extern crate $name; } }\n",
        ] {
            let tree = Tree::of([FORBIDS, root, ("crates/core/src/meter/log.rs", text)]);
            assert_eq!(check(&tree).len(), 1, "{text}");
        }
        let elsewhere = ("crates/client/src/lib.rs", "extern crate std;\n");
        assert!(check(&Tree::of([FORBIDS, root, elsewhere])).is_empty());
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
