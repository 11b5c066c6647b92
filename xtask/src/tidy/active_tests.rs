//! Names of the tests that a run of the workspace executes.
//!
//! A test function proves nothing if no build includes its file, if it is ignored, or if its condition
//! never holds. The runner's own list would be exact and needs a full build; following `mod` from the
//! roots of cargo takes no time. The scan reads formatted code and expands no macro.

use std::collections::HashSet;

use super::tree::SourceTree;

/// Names of active tests, by their owner.
#[derive(Default)]
pub(super) struct ActiveTests<'a> {
    product: HashSet<&'a str>,
    xtask: HashSet<&'a str>,
}

impl<'a> ActiveTests<'a> {
    /// Collects the tests of every crate of the workspace.
    pub(super) fn collect(tree: &'a SourceTree) -> Self {
        let mut tests = Self::default();
        let roots = tree.with_suffix(".rs").filter(|file| is_test_root(tree, &file.path));
        let mut pending: Vec<_> = roots.map(|file| file.path.clone()).collect();
        let mut seen = HashSet::new();
        while let Some(path) = pending.pop() {
            let Some(file) = tree.file(&path).filter(|file| seen.insert(&file.path)) else {
                continue;
            };
            let enabled = file.items().iter().filter(|item| item.is_enabled());
            pending.extend(enabled.flat_map(|item| item.module_files(&path)));
            let run = file.items().iter().filter(|item| item.is_active_test());
            let names = run.map(|test| test.name.as_str());
            if path.starts_with("xtask/") {
                tests.xtask.extend(names);
            } else {
                tests.product.extend(names);
            }
        }
        tests
    }

    /// Returns true if the test runs and proves something about one of the modules. A test of xtask
    /// proves nothing about the product.
    pub(super) fn proves(&self, name: &str, modules: &[&str]) -> bool {
        let is_about_xtask = modules.iter().any(|module| module.starts_with("xtask"));
        self.product.contains(name) || is_about_xtask && self.xtask.contains(name)
    }
}

/// Returns true for the root of a build target with tests.
fn is_test_root(tree: &SourceTree, path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    let (package, rest) = match parts[..] {
        ["xtask", ref rest @ ..] => ("xtask".to_owned(), rest),
        ["crates", name, ref rest @ ..] => (format!("crates/{name}"), rest),
        _ => return false,
    };
    let manifest = tree.file(&format!("{package}/Cargo.toml"));
    let is_disabled = manifest.is_some_and(|file| {
        let mut lines = file.text.lines();
        lines.any(|line| DISABLING_LINES.contains(&line.trim()))
    });
    let is_root = matches!(
        rest,
        ["src", "lib.rs" | "main.rs"] | ["tests", _] | ["tests", _, "main.rs"]
    );
    is_root && !is_disabled
}

/// Lines of a manifest that stop cargo from running tests.
const DISABLING_LINES: [&str; 3] = ["autotests = false", "test = false", "harness = false"];

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "#[test]\nfn law() {}\n";

    fn runs(files: [(&str, &str); 3]) -> bool {
        let tree = SourceTree::from_files(files);
        ActiveTests::collect(&tree).proves("law", &["core/meter"])
    }

    const ROOT: (&str, &str) = ("crates/core/src/lib.rs", "mod meter;\n");
    const OTHER: (&str, &str) = ("README.md", "");

    #[test]
    fn a_test_counts_only_in_a_compiled_file() {
        let main = ("crates/core/tests/meter/main.rs", "mod laws;\n");
        for (path, root) in [
            ("crates/core/src/meter.rs", ROOT),
            ("crates/core/src/meter/mod.rs", ROOT),
            ("crates/core/tests/meter.rs", OTHER),
            ("crates/core/tests/meter/main.rs", OTHER),
            ("crates/core/tests/meter/laws.rs", main),
        ] {
            assert!(runs([root, (path, TEST), OTHER]), "{path}");
        }
        for (path, root) in [
            ("crates/core/src/log.rs", ROOT),
            ("crates/core/src/meter/log.rs", ROOT),
            ("crates/core/tests/meter/laws.rs", OTHER),
            ("crates/core/notes/meter.rs", OTHER),
            ("benches/src/main.rs", OTHER),
            ("docs/law.rs", OTHER),
        ] {
            assert!(!runs([root, (path, TEST), OTHER]), "{path}");
        }
    }

    #[test]
    fn nested_modules_are_followed_and_comments_are_not() {
        let log = ("crates/core/src/meter/log.rs", TEST);
        let meter = |text| ("crates/core/src/meter.rs", text);
        assert!(runs([ROOT, meter("pub(crate) mod log;\n"), log]));
        for text in ["// mod log;\n", "/*\nmod log;\n*/\n", "#[cfg(any())]\nmod log;\n"] {
            assert!(!runs([ROOT, meter(text), log]), "{text}");
        }
    }

    #[test]
    fn a_crate_with_disabled_tests_has_none() {
        let manifest = |text| ("crates/core/Cargo.toml", text);
        let meter = ("crates/core/src/meter.rs", TEST);
        assert!(runs([ROOT, meter, manifest("[package]\n")]));
        for line in DISABLING_LINES {
            assert!(!runs([ROOT, meter, manifest(line)]), "{line}");
        }
    }

    #[test]
    fn tests_of_xtask_prove_only_its_own_modules() {
        let tree = SourceTree::from_files([("xtask/src/main.rs", TEST)]);
        let tests = ActiveTests::collect(&tree);
        assert!(tests.proves("law", &["xtask/ci"]));
        assert!(!tests.proves("law", &["core/meter"]));
    }
}
