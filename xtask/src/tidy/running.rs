//! The tests that a run of the workspace calls.
//!
//! A function marked as a test proves nothing if its file is part of no build, if it is ignored, or
//! if it is compiled for nobody. Asking the runner for its list would be exact and would have to
//! build everything first; following `mod` from the roots that cargo knows takes no time. It reads
//! formatted code and evaluates no macro: what it cannot follow does not count.

use std::collections::HashSet;

use super::tree::Tree;
use scan::{Module, Scan};

mod scan;

/// The names of tests, by whose they are.
#[derive(Default)]
pub(super) struct RunningTests<'a> {
    product: HashSet<&'a str>,
    xtask: HashSet<&'a str>,
}

impl<'a> RunningTests<'a> {
    /// Those of every crate of the workspace.
    pub(super) fn of(tree: &'a Tree) -> Self {
        let mut tests = Self::default();
        let mut open: Vec<_> = tree
            .ending(".rs")
            .filter_map(|file| Source::root(tree, &file.path))
            .collect();
        let mut seen = HashSet::new();
        while let Some(source) = open.pop() {
            let Some(text) = tree.text(&source.path) else {
                continue;
            };
            if !seen.insert((source.path.clone(), source.folder.clone())) {
                continue;
            }
            let Scan { names, modules } = Scan::of(text);
            match source.room {
                Room::Product => tests.product.extend(names),
                Room::Xtask => tests.xtask.extend(names),
            }
            let below = modules.iter().flat_map(|module| source.below(module));
            open.extend(below);
        }
        tests
    }

    /// Whether this one runs and may speak for these modules: a test of the task runner says nothing
    /// about the product.
    pub(super) fn speak_for(&self, modules: &[&str], name: &str) -> bool {
        let for_xtask = modules.iter().any(|module| module.starts_with("xtask"));
        self.product.contains(name) || for_xtask && self.xtask.contains(name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Product,
    Xtask,
}

/// A file that a build reads, and the folder in which its modules are.
struct Source {
    path: String,
    folder: String,
    room: Room,
}

impl Source {
    /// A file at which cargo begins to build something with tests.
    fn root(tree: &Tree, path: &str) -> Option<Self> {
        let (room, home, rest) = match path.split('/').collect::<Vec<_>>()[..] {
            ["xtask", ref rest @ ..] => (Room::Xtask, "xtask".to_owned(), rest.to_vec()),
            ["crates", name, ref rest @ ..] => {
                (Room::Product, format!("crates/{name}"), rest.to_vec())
            }
            _ => return None,
        };
        let built = matches!(
            rest[..],
            ["src", "lib.rs" | "main.rs"]
                | ["src", "bin", _]
                | ["src", "bin", _, "main.rs"]
                | ["tests", _]
                | ["tests", _, "main.rs"]
        );
        let manifest = tree.text(&format!("{home}/Cargo.toml")).unwrap_or_default();
        let tested = !manifest.lines().any(|line| UNTESTED.contains(&line.trim()));
        (built && tested).then(|| Self {
            path: path.to_owned(),
            folder: parent(path).to_owned(),
            room,
        })
    }

    /// Where a module of it can be.
    fn below(&self, module: &Module<'_>) -> Vec<Self> {
        let source = |path: String, folder: String| Self {
            path,
            folder,
            room: self.room,
        };
        if let Some(written) = module.path {
            let path = joined(parent(&self.path), written);
            let folder = parent(&path).to_owned();
            return vec![source(path, folder)];
        }
        let folder = format!("{}/{}", self.folder, module.name);
        vec![
            source(format!("{folder}.rs"), folder.clone()),
            source(format!("{folder}/mod.rs"), folder),
        ]
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path written in a file of `folder`, from the root of the tree.
fn joined(folder: &str, written: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').collect();
    for part in written.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Lines of a manifest after which cargo does not run what it would run by default.
const UNTESTED: [&str; 3] = ["autotests = false", "test = false", "harness = false"];

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "#[test]\nfn law() {}\n";

    fn runs(files: [(&str, &str); 3]) -> bool {
        RunningTests::of(&Tree::of(files)).speak_for(&["core/meter"], "law")
    }

    const ROOT: (&str, &str) = ("crates/core/src/lib.rs", "mod meter;\n");
    const NONE: (&str, &str) = ("README.md", "");

    #[test]
    fn a_test_counts_only_where_a_build_reaches_it() {
        for (reached, from) in [
            ("crates/core/src/meter.rs", ROOT),
            ("crates/core/src/meter/mod.rs", ROOT),
            ("crates/core/tests/meter.rs", NONE),
            ("crates/core/tests/meter/main.rs", NONE),
            (
                "crates/core/tests/meter/laws.rs",
                ("crates/core/tests/meter/main.rs", "mod laws;\n"),
            ),
            (
                "fuzz/laws.rs",
                (
                    "crates/core/tests/parsers.rs",
                    "#[path = \"../../../fuzz/laws.rs\"]\nmod laws;\n",
                ),
            ),
        ] {
            assert!(runs([from, (reached, TEST), NONE]), "{reached}");
        }
        for (lost, from) in [
            ("crates/core/src/log.rs", ROOT),
            ("crates/core/src/meter/log.rs", ROOT),
            ("crates/core/tests/meter/laws.rs", NONE),
            ("crates/core/notes/meter.rs", NONE),
            ("benches/src/main.rs", NONE),
            ("docs/law.rs", NONE),
        ] {
            assert!(!runs([from, (lost, TEST), NONE]), "{lost}");
        }
    }

    #[test]
    fn a_module_of_a_module_is_reached_and_one_in_a_comment_is_not() {
        let log = ("crates/core/src/meter/log.rs", TEST);
        let meter = |text| ("crates/core/src/meter.rs", text);
        assert!(runs([ROOT, meter("pub(crate) mod log;\n"), log]));
        for text in [
            "// mod log;\n",
            "/*\nmod log;\n*/\n",
            "#[cfg(any())]\nmod log;\n",
        ] {
            assert!(!runs([ROOT, meter(text), log]), "{text}");
        }
    }

    #[test]
    fn a_crate_that_runs_no_tests_has_none() {
        let manifest = |text| ("crates/core/Cargo.toml", text);
        let meter = ("crates/core/src/meter.rs", TEST);
        assert!(runs([ROOT, meter, manifest("[package]\n")]));
        for line in UNTESTED {
            assert!(!runs([ROOT, meter, manifest(line)]), "{line}");
        }
    }

    #[test]
    fn the_task_runner_speaks_for_itself_alone() {
        let tree = Tree::of([("xtask/src/main.rs", TEST)]);
        let tests = RunningTests::of(&tree);
        assert!(tests.speak_for(&["xtask/ci"], "law"));
        assert!(!tests.speak_for(&["core/meter"], "law"));
    }
}
