//! A type name is understood without its file, so few types share one.
//!
//! Two definitions of a name are allowed: a public type and its stored form, for example. From the
//! third on, a reader has to look up which one is meant.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::rust_code::{identifiers, product_code, test_files};
use super::tree::{SourceFile, SourceTree};

/// Reports names of structs, enums and traits that more than two files define.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let tests = test_files(tree);
    let sources = tree
        .with_suffix(".rs")
        .filter(|file| is_product_source(&file.path) && !tests.contains(&file.path));
    let mut definitions: BTreeMap<String, Vec<TypePlace<'_>>> = BTreeMap::new();
    for file in sources {
        for (name, line) in defined_types(file) {
            let places = definitions.entry(name).or_default();
            if places.iter().all(|place| place.path != file.path) {
                places.push(TypePlace { path: &file.path, line });
            }
        }
    }
    definitions
        .iter()
        .filter(|(_, places)| places.len() > MAX_FILES)
        .filter_map(|(name, places)| report(name, places))
        .collect()
}

/// Position of a definition.
struct TypePlace<'a> {
    path: &'a str,
    line: usize,
}

/// Reports the first place, with a list of the others.
fn report(name: &str, places: &[TypePlace<'_>]) -> Option<TidyFinding> {
    let (first, others) = places.split_first()?;
    let others: Vec<_> = others
        .iter()
        .map(|place| format!("{}:{}", place.path, place.line))
        .collect();
    let message = format!(
        "type name `{name}` is defined in {} files, at most {MAX_FILES} are allowed: rename it \
         after its role; the others are {}",
        places.len(),
        others.join(", ")
    );
    Some(TidyFinding::error(first.path, message).at(first.line))
}

fn defined_types(file: &SourceFile) -> Vec<(String, usize)> {
    let code = product_code(file);
    let mut found = Vec::new();
    let mut keyword_end = None;
    for (offset, word) in identifiers(&code) {
        let follows_keyword = keyword_end
            .and_then(|end| code.get(end..offset))
            .is_some_and(|gap| gap.trim().is_empty());
        if follows_keyword && word.starts_with(char::is_uppercase) {
            found.push((word.to_owned(), file.line_at(offset)));
        }
        keyword_end = KEYWORDS.contains(&word).then_some(offset + word.len());
    }
    found
}

fn is_product_source(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", ..])
}

const KEYWORDS: [&str; 3] = ["struct", "enum", "trait"];

/// Files that may define the same name.
const MAX_FILES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        let findings = check(&SourceTree::from_files(files));
        findings.iter().map(ToString::to_string).collect()
    }

    const A: (&str, &str) = ("crates/a/src/x.rs", "\npub struct Place { at: u8 }\n");
    const B: (&str, &str) = ("crates/a/src/y.rs", "pub(crate) enum Place<'a> { A }\n");

    #[test]
    fn a_third_definition_is_an_error() {
        assert!(check_files([A, B]).is_empty());
        let found = check_files([A, B, ("crates/b/src/z.rs", "trait Place {}\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/x.rs:2: "), "{found:?}");
        assert!(
            found[0].contains("crates/a/src/y.rs:1, crates/b/src/z.rs:1"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_comments_and_uses_define_nothing() {
        for (path, text) in [
            ("crates/b/tests/z.rs", "struct Place;\n"),
            ("crates/b/src/z/tests.rs", "struct Place;\n"),
            ("xtask/src/z.rs", "struct Place;\n"),
            ("crates/b/src/z.rs", "#[cfg(test)]\nmod tests {\n    struct Place;\n}\n"),
            ("crates/b/src/z.rs", "// struct Place;\nlet a = \"struct Place;\";\n"),
            (
                "crates/b/src/z.rs",
                "impl Place {}\nfn f(at: Place) {}\nmacro!(struct, Place);\n",
            ),
        ] {
            assert!(check_files([A, B, (path, text)]).is_empty(), "{path}: {text}");
        }
    }

    // A platform variant of the same type is in the same file.
    #[test]
    fn two_definitions_in_one_file_count_once() {
        let twice = (
            "crates/a/src/x.rs",
            "#[cfg(unix)]\nstruct Place;\n#[cfg(windows)]\nstruct Place;\n",
        );
        assert!(check_files([twice, B]).is_empty());
    }
}
