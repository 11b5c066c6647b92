//! Nothing unfinished and nothing switched off.
//!
//! What is not done is said in `docs/spec-map.md`, where it is counted, not in the code, where it is
//! forgotten. A test that is ignored proves nothing; only the long `stress_` runs may be.

use super::Finding;
use super::tree::{File, Tree, function_name};

/// Finds unfinished code and tests that never run.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .flat_map(|file| unfinished(file).into_iter().chain(ignored(file)))
        .collect()
}

fn unfinished(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        if let Some(mark) = MARKS.iter().find(|mark| line.contains(**mark)) {
            let message = format!("has `{mark}`: finish it, or say so in docs/spec-map.md");
            findings.push(Finding::fault(&file.path, message).at(number));
        }
    }
    findings
}

fn ignored(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut waiting = None;
    for (number, line) in file.lines() {
        if is_ignore(line) {
            waiting = Some(number);
        }
        let Some(name) = function_name(line) else {
            continue;
        };
        if let Some(at) = waiting.take().filter(|_| !is_long_run(line, name)) {
            let message = format!("{name} is ignored: only stress_ tests may be");
            findings.push(Finding::fault(&file.path, message).at(at));
        }
    }
    findings
}

/// By its name, or by that of the macro's argument that will be its name.
fn is_long_run(line: &str, name: &str) -> bool {
    name.starts_with("stress_") || line.trim_start().starts_with("fn $stress(")
}

fn is_ignore(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr") && line.contains(", ignore"))
}

/// Each in two halves, so that this file does not find itself.
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

    fn found(text: &str) -> usize {
        check(&Tree::of([("crates/x/src/lib.rs", text)])).len()
    }

    #[test]
    fn every_mark_of_unfinished_work_is_found() {
        for mark in MARKS {
            assert_eq!(
                found(&format!("fn f() {{\n    // {mark}\n}}\n")),
                1,
                "{mark}"
            );
        }
        assert_eq!(found("/// A debt, unfinished, to do.\nfn f() {}\n"), 0);
    }

    #[test]
    fn only_long_runs_are_ignored() {
        let test =
            |attribute: &str, name: &str| format!("#[test]\n{attribute}\nfn {name}() {{}}\n");
        assert_eq!(found(&test("#[ignore]", "flaky")), 1);
        assert_eq!(found(&test("#[ignore = \"slow\"]", "flaky")), 1);
        assert_eq!(found(&test("#[cfg_attr(miri, ignore)]", "flaky")), 1);
        assert_eq!(found(&test("#[ignore = \"long run\"]", "stress_law")), 0);
        assert_eq!(found(&test("#[ignore = \"long run\"]", "$stress")), 0);
        assert_eq!(found(&test("#[ignore]", "$name")), 1);
        assert_eq!(found(&test("", "law")), 0);
    }
}
