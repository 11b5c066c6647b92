//! No unfinished code and no disabled tests.
//!
//! `docs/spec-map.md` counts open work; a remark in the code is forgotten. An ignored test proves
//! nothing, so only the long `stress_` runs are ignored.

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::SourceTree;

/// Reports marks of unfinished code, and ignored tests.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let marks = pattern(&MARKS.join("|"));
    let mut findings = Vec::new();
    for file in tree.with_suffix(".rs") {
        findings.extend(file.report_matches(&marks, |mark| {
            format!("has `{mark}`: finish it, or add a row to docs/spec-map.md")
        }));
        let ignored = file.items().iter().filter(|item| item.is_ignored());
        findings.extend(ignored.filter(|item| !is_stress_test(&item.name)).map(|item| {
            let message = format!("{} is ignored: only stress_ tests may be", item.name);
            file.error_at(item.offset, message)
        }));
    }
    findings
}

/// Returns true for a name with the prefix, and for the macro argument that gets such a name.
fn is_stress_test(name: &str) -> bool {
    name.starts_with("stress_") || name == "$stress"
}

/// Two halves each, so that this file contains no mark. Clippy rejects the macros of unfinished code.
const MARKS: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn count(text: &str) -> usize {
        findings(check, [("crates/x/src/lib.rs", text)]).len()
    }

    #[test]
    fn every_mark_of_unfinished_code_is_an_error() {
        for mark in MARKS {
            let text = format!("fn f() {{\n    // {mark}\n}}\n");
            assert_eq!(count(&text), 1, "{mark}");
        }
        assert_eq!(count("/// A debt, unfinished, to do.\nfn f() {}\n"), 0);
    }

    #[test]
    fn only_stress_tests_are_ignored() {
        for (attribute, name, expected) in [
            ("#[ignore]", "flaky", 1),
            ("#[ignore = \"slow\"]", "flaky", 1),
            ("#[cfg_attr(miri, ignore)]", "flaky", 1),
            ("#[ignore = \"long run\"]", "stress_law", 0),
            ("#[ignore = \"long run\"]", "$stress", 0),
            ("#[ignore]", "$name", 1),
            ("", "law", 0),
        ] {
            let text = format!("#[test]\n{attribute}\nfn {name}() {{}}\n");
            assert_eq!(count(&text), expected, "{text}");
        }
    }
}
