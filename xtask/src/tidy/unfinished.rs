//! No unfinished code and no disabled tests.
//!
//! `docs/spec-map.md` counts open work; a remark in the code is forgotten. An ignored test proves
//! nothing, so only the long `stress_` runs are ignored.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree, function_name};

/// Reports marks of unfinished code, and ignored tests.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.with_suffix(".rs")
        .flat_map(|file| unfinished_lines(file).into_iter().chain(ignored_tests(file)))
        .collect()
}

fn unfinished_lines(file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for mark in MARKS {
        for (offset, _) in file.text.match_indices(mark) {
            let message = format!("has `{mark}`: finish it, or add a row to docs/spec-map.md");
            findings.push(TidyFinding::error(&file.path, message).at(file.line_at(offset)));
        }
    }
    findings
}

fn ignored_tests(file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut attribute_line = None;
    for (number, line) in file.lines() {
        if is_ignore_attribute(line) {
            attribute_line = Some(number);
        }
        let Some(name) = function_name(line) else {
            continue;
        };
        if let Some(at) = attribute_line.take().filter(|_| !is_stress_test(line, name)) {
            let message = format!("{name} is ignored: only stress_ tests may be");
            findings.push(TidyFinding::error(&file.path, message).at(at));
        }
    }
    findings
}

/// Returns true for a name with the prefix, and for the macro argument that gets such a name.
fn is_stress_test(line: &str, name: &str) -> bool {
    name.starts_with("stress_") || line.trim_start().starts_with("fn $stress(")
}

fn is_ignore_attribute(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr") && line.contains(", ignore"))
}

/// Two halves each, so that this file contains no mark.
const MARKS: [&str; 5] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X:"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&SourceTree::from_files([("crates/x/src/lib.rs", text)])).len()
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
        let test = |attribute: &str, name: &str| format!("#[test]\n{attribute}\nfn {name}() {{}}\n");
        assert_eq!(count(&test("#[ignore]", "flaky")), 1);
        assert_eq!(count(&test("#[ignore = \"slow\"]", "flaky")), 1);
        assert_eq!(count(&test("#[cfg_attr(miri, ignore)]", "flaky")), 1);
        assert_eq!(count(&test("#[ignore = \"long run\"]", "stress_law")), 0);
        assert_eq!(count(&test("#[ignore = \"long run\"]", "$stress")), 0);
        assert_eq!(count(&test("#[ignore]", "$name")), 1);
        assert_eq!(count(&test("", "law")), 0);
    }
}
