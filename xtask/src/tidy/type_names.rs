//! A type name is understood without its file, so few types share one.
//!
//! Two definitions of a name are allowed: a public type and its stored form, for example. From the
//! third on, a reader has to look up which one is meant.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::rust_code::{RustItem, test_files};
use super::tree::{SourceFile, SourceTree};

/// Reports names of structs, enums and traits that more than two files define.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let tests = test_files(tree);
    let sources = tree
        .with_suffix(".rs")
        .filter(|file| is_product_source(&file.path) && !tests.contains(&file.path));
    // The first offset in each file; a platform variant of the same type is in the same file.
    let mut definitions: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for file in sources {
        for item in file.items().iter().filter(|item| is_product_type(item)) {
            let places = definitions.entry(&item.name).or_default();
            if places.last().is_none_or(|(last, _)| last.path != file.path) {
                places.push((file, item.offset));
            }
        }
    }
    definitions.retain(|_, places| places.len() > MAX_FILES);
    let shared = definitions.iter();
    shared.filter_map(|(name, places)| report(name, places)).collect()
}

/// Reports the first place, with a list of the others.
fn report(name: &str, places: &[(&SourceFile, usize)]) -> Option<TidyFinding> {
    let ((first, offset), others) = places.split_first()?;
    let others: Vec<_> = others
        .iter()
        .map(|(file, offset)| format!("{}:{}", file.path, file.line_at(*offset)))
        .collect();
    let message = format!(
        "type name `{name}` is defined in {} files, at most {MAX_FILES} are allowed: rename it \
         after its role; the others are {}",
        places.len(),
        others.join(", ")
    );
    Some(first.error_at(*offset, message))
}

fn is_product_type(item: &RustItem) -> bool {
    KEYWORDS.contains(&&*item.keyword) && item.name.starts_with(char::is_uppercase) && !item.is_for_tests()
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
    use crate::tidy::findings;

    const A: (&str, &str) = ("crates/a/src/x.rs", "\npub struct Place { at: u8 }\n");
    const B: (&str, &str) = ("crates/a/src/y.rs", "pub(crate) enum Place<'a> { A }\n");

    #[test]
    fn a_third_definition_is_an_error() {
        assert!(findings(check, [A, B]).is_empty());
        let found = findings(check, [A, B, ("crates/b/src/z.rs", "trait Place {}\n")]);
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
            assert!(findings(check, [A, B, (path, text)]).is_empty(), "{path}: {text}");
        }
    }

    // A platform variant of the same type is in the same file.
    #[test]
    fn two_definitions_in_one_file_count_once() {
        let twice = (
            "crates/a/src/x.rs",
            "#[cfg(unix)]\nstruct Place;\n#[cfg(windows)]\nstruct Place;\n",
        );
        assert!(findings(check, [twice, B]).is_empty());
    }
}
