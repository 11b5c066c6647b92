//! Every requirement has a test that exists, or says honestly which part will bring it.
//!
//! The map is checked against itself and the tree, nothing else, so that the check works in a plain
//! clone: its `Ids:` line lists the requirements there are, its tables have one row for each, and a
//! test named in a row must be one that runs with every change.

use std::collections::BTreeSet;

use super::Finding;
use super::running::RunningTests;
use super::tree::{File, Tree};

/// Finds rows that are missing, doubled or not kept.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.files().find(|file| file.path == MAP) else {
        return vec![Finding::fault(
            MAP,
            "is missing: every requirement needs its row",
        )];
    };
    let rows = match rows(map) {
        Ok(rows) => rows,
        Err(findings) => return findings,
    };
    let tests = RunningTests::of(tree);
    let mut findings = completeness(map, &rows);
    for row in &rows {
        let problems = row.problems(tree, &tests).into_iter();
        findings.extend(problems.map(|problem| Finding::fault(MAP, problem).at(row.line)));
    }
    findings
}

struct Row<'a> {
    line: usize,
    id: &'a str,
    requirement: &'a str,
    status: &'a str,
    modules: Vec<&'a str>,
    tests: Vec<&'a str>,
}

impl Row<'_> {
    fn problems(&self, tree: &Tree, tests: &RunningTests<'_>) -> Vec<String> {
        let id = self.id;
        let mut problems = Vec::new();
        if self.requirement.is_empty() {
            problems.push(format!("{id} does not say what is required"));
        }
        match status(self.status) {
            None => problems.push(format!(
                "{id} has status {:?}: write done, begun: PART or later: PART, where PART is one of {}",
                self.status,
                PARTS.join(", ")
            )),
            Some(Status::Kept) => problems.extend(self.unkept(tree)),
            Some(Status::Planned) => {}
        }
        let absent = self
            .tests
            .iter()
            .filter(|name| !tests.speak_for(&self.modules, name));
        problems.extend(absent.map(|name| format!("{id} names {name}, and no such test runs")));
        problems
    }

    fn unkept(&self, tree: &Tree) -> Vec<String> {
        let id = self.id;
        let mut problems = Vec::new();
        if self.modules.is_empty() {
            problems.push(format!("{id} names no module"));
        }
        if self.tests.is_empty() {
            problems.push(format!("{id} names no test"));
        }
        let absent = self
            .modules
            .iter()
            .filter(|module| !module_exists(tree, module));
        problems
            .extend(absent.map(|module| format!("{id} names {module}, and no such module exists")));
        problems
    }
}

enum Status {
    /// Tested, all of it or what one part decides.
    Kept,
    /// To come.
    Planned,
}

fn status(text: &str) -> Option<Status> {
    if text == "done" {
        return Some(Status::Kept);
    }
    let (word, part) = text.split_once(": ")?;
    match word {
        _ if !PARTS.contains(&part) => None,
        "begun" => Some(Status::Kept),
        "later" => Some(Status::Planned),
        _ => None,
    }
}

/// `core/meter` is `crates/core/src/meter.rs` or the `mod.rs` of that folder; `core` is its
/// `lib.rs`.
fn module_exists(tree: &Tree, module: &str) -> bool {
    let (room, rest) = module.split_once('/').unwrap_or((module, "lib"));
    let folder = match room {
        "xtask" => "xtask/src".to_owned(),
        _ => format!("crates/{room}/src"),
    };
    ["", "/mod"]
        .iter()
        .any(|end| tree.text(&format!("{folder}/{rest}{end}.rs")).is_some())
}

fn rows(map: &File) -> Result<Vec<Row<'_>>, Vec<Finding>> {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (line, text) in map.lines().filter(|(_, text)| text.starts_with('|')) {
        let cells: Vec<_> = text
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let [id, requirement, status, modules, tests] = cells[..] else {
            let message = "a row is: id, requirement, status, module, tests";
            findings.push(Finding::fault(MAP, message).at(line));
            continue;
        };
        if id != "id" && !id.starts_with('-') {
            let (modules, tests) = (names(modules), names(tests));
            rows.push(Row {
                line,
                id,
                requirement,
                status,
                modules,
                tests,
            });
        }
    }
    if findings.is_empty() {
        Ok(rows)
    } else {
        Err(findings)
    }
}

/// The names in a cell, with or without code marks; a dash is none.
fn names(cell: &str) -> Vec<&str> {
    cell.split([',', ' ', '`'])
        .filter(|name| !name.is_empty() && *name != "–")
        .collect()
}

fn completeness(map: &File, rows: &[Row<'_>]) -> Vec<Finding> {
    let Some((line, listed)) = listed_ids(map) else {
        let message = "needs a line `Ids: W1–W14, …` with every requirement there is";
        return vec![Finding::fault(MAP, message)];
    };
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        if !seen.insert(row.id.to_owned()) {
            let message = format!("{} has a row already", row.id);
            findings.push(Finding::fault(MAP, message).at(row.line));
        }
        if !listed.contains(row.id) {
            let message = format!("{} is not among the ids listed above", row.id);
            findings.push(Finding::fault(MAP, message).at(row.line));
        }
    }
    for id in listed.difference(&seen) {
        findings.push(Finding::fault(MAP, format!("{id} has no row")).at(line));
    }
    findings
}

fn listed_ids(map: &File) -> Option<(usize, BTreeSet<String>)> {
    let (line, text) = map.lines().find(|(_, text)| text.starts_with("Ids: "))?;
    let list = text.trim_start_matches("Ids: ").trim_end_matches('.');
    let ids = list.split(", ").map(range).collect::<Option<Vec<_>>>()?;
    Some((line, ids.into_iter().flatten().collect()))
}

/// The ids of `W1–W14`, or of `C4b` alone.
fn range(text: &str) -> Option<Vec<String>> {
    let Some((first, last)) = text.split_once('–') else {
        return Some(vec![text.to_owned()]);
    };
    let letter = first.get(..1)?;
    let number = |id: &str| id.strip_prefix(letter)?.parse::<u32>().ok();
    let ids = (number(first)?..=number(last)?).map(|n| format!("{letter}{n}"));
    Some(ids.collect())
}

const MAP: &str = "docs/spec-map.md";

/// The parts of the product that requirements come with.
const PARTS: [&str; 5] = ["core", "client", "program", "bulk", "shared"];

#[cfg(test)]
mod tests;
