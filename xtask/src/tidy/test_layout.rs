//! At most two integration-test binaries per crate, and no file that two crates compile.
//!
//! Each binary links the whole crate again, so a binary per topic multiplies the time of a build. A
//! `#[path]` attribute compiles a file under a second name, which hides its place in the module tree.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::SourceTree;

/// Reports crates with too many test binaries, and `#[path]` attributes.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let path_attribute = pattern(r"(?m)^\s*(#\[path)");
    let mut binaries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in tree.with_suffix(".rs").filter(|file| file.path.starts_with("crates/")) {
        if let Some(crate_name) = test_binary_crate(&file.path) {
            binaries.entry(crate_name).or_default().push(&file.path);
        }
        findings.extend(file.report_matches(&path_attribute, |attribute| {
            format!("has a `{attribute}]` attribute: move the file to its place in the module tree")
        }));
    }
    binaries.retain(|_, paths| paths.len() > MAX_BINARIES);
    findings.extend(binaries.iter().map(|(name, paths)| too_many_binaries(name, paths)));
    findings
}

fn test_binary_crate(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, "tests", _] | ["crates", name, "tests", _, "main.rs"] => Some(name),
        _ => None,
    }
}

fn too_many_binaries(crate_name: &str, paths: &[&str]) -> TidyFinding {
    let message = format!(
        "has {} integration-test binaries, at most {MAX_BINARIES} are allowed: make modules of {}",
        paths.len(),
        paths.join(", ")
    );
    TidyFinding::error(&format!("crates/{crate_name}/tests"), message)
}

const MAX_BINARIES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const LAWS: (&str, &str) = ("crates/core/tests/laws/main.rs", "mod meter;\n");
    const METER: (&str, &str) = ("crates/core/tests/laws/meter.rs", "");
    const LOOM: (&str, &str) = ("crates/core/tests/loom.rs", "");

    #[test]
    fn a_third_test_binary_is_an_error() {
        let elsewhere = ("crates/store/tests/store/main.rs", "");
        assert!(findings(check, [LAWS, METER, LOOM, elsewhere]).is_empty());
        let found = findings(check, [LAWS, METER, LOOM, ("crates/core/tests/more.rs", "")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/core/tests: has 3 "), "{found:?}");
    }

    #[test]
    fn a_path_attribute_is_an_error() {
        let found = findings(check, [("crates/core/src/lib.rs", "\n#[path = \"x.rs\"]\nmod y;\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/core/src/lib.rs:2: "), "{found:?}");
        for (path, text) in [
            ("crates/core/src/lib.rs", "// #[path = \"x.rs\"]\nlet a = \"#[path\";\n"),
            ("benches/src/main.rs", "#[path = \"x.rs\"]\nmod y;\n"),
        ] {
            assert!(findings(check, [(path, text)]).is_empty(), "{path}");
        }
    }
}
