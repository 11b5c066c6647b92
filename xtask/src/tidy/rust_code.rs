//! Declarations of Rust code, with their attributes and conditions.
//!
//! A pattern finds them in code without comments and literals. A parser would be exact, and would add
//! dependencies and miss the laws of this project, which are declared inside a macro.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::lexer::pattern;
use super::tree::SourceTree;

/// One module, function, type or linked crate.
pub(super) struct RustItem {
    pub(super) keyword: String,
    pub(super) name: String,
    /// Offset of the name.
    pub(super) offset: usize,
    pub(super) attributes: String,
    is_in_own_file: bool,
    /// Conditions of the item and of the items around it.
    conditions: Vec<String>,
}

impl RustItem {
    /// Returns true for a test that a run of the workspace executes.
    pub(super) fn is_active_test(&self) -> bool {
        let is_test = ["#[test]", "#[tokio::test"]
            .iter()
            .any(|mark| self.attributes.contains(mark));
        is_test && !self.is_ignored() && self.is_enabled()
    }

    pub(super) fn is_ignored(&self) -> bool {
        IGNORE.is_match(&self.attributes)
    }

    /// Returns true if `cargo xtask test` meets all conditions.
    pub(super) fn is_enabled(&self) -> bool {
        self.conditions
            .iter()
            .all(|condition| TRUE_CONDITIONS.contains(&&**condition))
    }

    /// Returns true if only tests compile the item.
    pub(super) fn is_for_tests(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition == "test" || condition.starts_with("all(test"))
    }

    /// Returns the two possible files of a module that the file at `path` declares.
    pub(super) fn module_files(&self, path: &str) -> Vec<String> {
        if self.keyword != "mod" || !self.is_in_own_file {
            return Vec::new();
        }
        let (parent, file) = path.rsplit_once('/').unwrap_or(("", path));
        let is_root = matches!(file, "lib.rs" | "main.rs" | "mod.rs") || is_test_folder(parent);
        let folder = if is_root { parent } else { path.trim_end_matches(".rs") };
        let name = &self.name;
        vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
    }
}

fn is_test_folder(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>()[..], ["crates", _, "tests"])
}

/// Finds the declarations of a code, at any depth.
pub(super) fn find_items(code: &str) -> Vec<RustItem> {
    let ranges = conditions(code);
    let found = ITEM.captures_iter(code).map(|found| {
        let (_, [attributes, keyword, name, end]) = found.extract();
        let offset = name.as_ptr().addr() - code.as_ptr().addr();
        let around = ranges.iter().filter(|(_, range)| range.contains(&offset));
        RustItem {
            keyword: keyword.to_owned(),
            name: name.to_owned(),
            offset,
            attributes: attributes.trim_end().to_owned(),
            is_in_own_file: end == ";",
            conditions: around.map(|(condition, _)| (*condition).to_owned()).collect(),
        }
    });
    found.collect()
}

/// Lists the files that only tests compile: by name, by folder, or as a `#[cfg(test)]` module.
pub(super) fn test_files(tree: &SourceTree) -> HashSet<String> {
    let mut found = HashSet::new();
    for file in tree.with_suffix(".rs") {
        let is_test = file.has_suffix("/tests.rs") || file.has_suffix("/test.rs");
        if is_test || file.path.contains("/tests/") {
            found.insert(file.path.clone());
        }
        let modules = file.items().iter().filter(|item| item.is_for_tests());
        found.extend(modules.flat_map(|module| module.module_files(&file.path)));
    }
    found
}

/// Finds each condition with the range of its item; `#![cfg(…)]` covers the rest of the file.
fn conditions(code: &str) -> Vec<(&str, Range<usize>)> {
    let found = CONDITION.captures_iter(code).map(|found| {
        let (attribute, [inner, condition]) = found.extract();
        let start = attribute.as_ptr().addr() - code.as_ptr().addr();
        let end = match inner {
            "!" => code.len(),
            _ => item_end(code, start + attribute.len()),
        };
        (condition, start..end)
    });
    found.collect()
}

/// Returns the end of the item that begins at `at`: its semicolon or its closing brace.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    let attributes = r"((?:#\[(?:[^\[\]]|\[[^\[\]]*\])*\]\s*)*)";
    let qualifiers = r"(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async)\s+)*";
    let declaration = r"\b(mod|fn|struct|enum|trait|extern\s+crate)\s+(\$?\w+)\s*(;?)";
    pattern(&[attributes, qualifiers, declaration].concat())
});

static CONDITION: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)#(!?)\[cfg\((.*?)\)\]"));

static IGNORE: LazyLock<Regex> = LazyLock::new(|| pattern(r"#\[ignore|#\[cfg_attr\([^\]]*\bignore"));

/// Conditions that `cargo xtask test` meets, in the tests or in the model check.
const TRUE_CONDITIONS: [&str; 6] = [
    "test",
    "loom",
    "unix",
    "not(loom)",
    "any(test, loom)",
    "all(test, not(loom))",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn active_tests(text: &str) -> Vec<String> {
        let tree = SourceTree::from_files([("a.rs", text)]);
        let file = tree.file("a.rs").expect("present");
        let tests = file.items().iter().filter(|item| item.is_active_test());
        tests.map(|test| test.name.clone()).collect()
    }

    #[test]
    fn a_declaration_names_its_item() {
        let code = "pub const fn zero() {} async fn sends() struct A; let f: fn(u64) = g; trait $b {}";
        let items = find_items(code);
        let found: Vec<_> = items.iter().map(|item| (&*item.keyword, &*item.name)).collect();
        let expected = [("fn", "zero"), ("fn", "sends"), ("struct", "A"), ("trait", "$b")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_test_function_is_active() {
        for text in [
            "#[test]\nfn law() {\n",
            "#[tokio::test(start_paused = true)]\nasync fn law() {\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn law() {\n",
            "#[cfg(unix)]\n#[test]\nfn law() {\n",
            "#[cfg(any())]\nuse x;\n#[test]\nfn law() {\n",
            "    #[test]\n    fn law / fn stress_law\n        (values()) = |v| v;\n",
            "#[cfg(any())]\nmod old {\n    fn x() {\n    }\n}\n\n#[test]\nfn law() {\n",
        ] {
            assert_eq!(active_tests(text), ["law"], "{text}");
        }
    }

    #[test]
    fn ignored_and_disabled_functions_are_inactive() {
        for text in [
            "fn law() {\n",
            "#[test]\n#[ignore]\nfn law() {\n",
            "#[ignore = \"long run\"]\n#[test]\nfn law() {\n",
            "#[test]\n#[cfg_attr(unix, ignore)]\nfn law() {\n",
            "#[cfg(any())]\n#[test]\nfn law() {\n",
            "#[cfg(feature = \"never\")]\nmod tests {\n    #[test]\n    fn law() {\n    }\n}\n",
            "#![cfg(windows)]\n#[test]\nfn law() {\n",
            "/*\n#[test]\nfn law() {\n*/\n",
            "// #[test]\nfn law() {\n",
        ] {
            assert!(active_tests(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn test_files_are_known_by_name_folder_and_declaration() {
        let tree = SourceTree::from_files([
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod fixture;\nmod other;\n"),
            ("crates/a/src/b.rs", "#[cfg(all(test, unix))]\npub(crate) mod oracle;\n"),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/tests/laws/main.rs", ""),
        ]);
        let files = test_files(&tree);
        for path in [
            "crates/a/src/fixture.rs",
            "crates/a/src/b/oracle.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/tests/laws/main.rs",
        ] {
            assert!(files.contains(path), "{path}");
        }
        assert!(!files.contains("crates/a/src/other.rs"));
    }
}
