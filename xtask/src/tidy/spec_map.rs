//! Every requirement has an active test, or a row that names the part that will bring it.
//!
//! The rule compares the map with itself and with the tree, so that it works in a plain clone. The
//! `Ids:` line lists the requirements, and the tables have one row for each.

use std::collections::BTreeSet;

use super::TidyFinding;
use super::active_tests::ActiveTests;
use super::tree::{SourceFile, SourceTree};

/// Reports missing and duplicate rows, and rows without valid modules and tests.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(map) = tree.file(MAP) else {
        let message = "is missing: every requirement needs a row";
        return vec![TidyFinding::error(MAP, message)];
    };
    let rows = match parse_rows(map) {
        Ok(rows) => rows,
        Err(findings) => return findings,
    };
    let tests = ActiveTests::collect(tree);
    let mut findings = check_ids(map, &rows);
    for row in &rows {
        let problems = row.problems(tree, &tests).into_iter();
        findings.extend(problems.map(|problem| TidyFinding::error(MAP, problem).at(row.line)));
    }
    findings
}

/// One requirement.
struct SpecRow<'a> {
    line: usize,
    id: &'a str,
    requirement: &'a str,
    status: &'a str,
    modules: Vec<&'a str>,
    tests: Vec<&'a str>,
}

impl SpecRow<'_> {
    fn problems(&self, tree: &SourceTree, tests: &ActiveTests<'_>) -> Vec<String> {
        let id = self.id;
        let mut problems = Vec::new();
        if self.requirement.is_empty() {
            problems.push(format!("{id} has no requirement"));
        }
        match parse_status(self.status) {
            None => problems.push(format!(
                "{id} has status {:?}: write done, begun: PART or later: PART, where PART is one of {}",
                self.status,
                PARTS.join(", ")
            )),
            Some(RowStatus::Tested) => problems.extend(self.missing_proof(tree)),
            Some(RowStatus::Planned) => {}
        }
        let unknown = self.tests.iter().filter(|name| !tests.proves(name, &self.modules));
        problems.extend(unknown.map(|name| format!("{id} names {name}, and no such test runs")));
        problems
    }

    fn missing_proof(&self, tree: &SourceTree) -> Vec<String> {
        let id = self.id;
        let mut problems = Vec::new();
        if self.modules.is_empty() {
            problems.push(format!("{id} names no module"));
        }
        if self.tests.is_empty() {
            problems.push(format!("{id} names no test"));
        }
        let unknown = self.modules.iter().filter(|module| !module_exists(tree, module));
        problems.extend(unknown.map(|module| format!("{id} names {module}, and no such module exists")));
        problems
    }
}

enum RowStatus {
    /// Tests cover the requirement, or the part of it that exists.
    Tested,
    Planned,
}

fn parse_status(text: &str) -> Option<RowStatus> {
    match text.split_once(": ") {
        None if text == "done" => Some(RowStatus::Tested),
        Some(("begun", part)) if PARTS.contains(&part) => Some(RowStatus::Tested),
        Some(("later", part)) if PARTS.contains(&part) => Some(RowStatus::Planned),
        _ => None,
    }
}

/// Resolves `core/meter` to `crates/core/src/meter.rs` or its `mod.rs`, and `core` to its `lib.rs`.
fn module_exists(tree: &SourceTree, module: &str) -> bool {
    let (package, rest) = module.split_once('/').unwrap_or((module, "lib"));
    let folder = match package {
        "xtask" => "xtask/src".to_owned(),
        _ => format!("crates/{package}/src"),
    };
    ["", "/mod"]
        .iter()
        .any(|suffix| tree.file(&format!("{folder}/{rest}{suffix}.rs")).is_some())
}

fn parse_rows(map: &SourceFile) -> Result<Vec<SpecRow<'_>>, Vec<TidyFinding>> {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (line, text) in map.lines().filter(|(_, text)| text.starts_with('|')) {
        let cells = text.trim().trim_matches('|').split('|').map(str::trim);
        let [id, requirement, status, modules, tests] = cells.collect::<Vec<_>>()[..] else {
            let message = "a row is: id, requirement, status, module, tests";
            findings.push(TidyFinding::error(MAP, message).at(line));
            continue;
        };
        if id != "id" && !id.starts_with('-') {
            rows.push(SpecRow {
                line,
                id,
                requirement,
                status,
                modules: split_names(modules),
                tests: split_names(tests),
            });
        }
    }
    if findings.is_empty() { Ok(rows) } else { Err(findings) }
}

/// Splits the names of a cell, with or without backticks; a dash is no name.
fn split_names(cell: &str) -> Vec<&str> {
    cell.split([',', ' ', '`'])
        .filter(|name| !name.is_empty() && *name != "–")
        .collect()
}

/// Compares the rows with the list of ids.
fn check_ids(map: &SourceFile, rows: &[SpecRow<'_>]) -> Vec<TidyFinding> {
    let Some((line, listed)) = listed_ids(map) else {
        let message = "needs a line `Ids: W1–W14, …` with every requirement";
        return vec![TidyFinding::error(MAP, message)];
    };
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        if !seen.insert(row.id.to_owned()) {
            let message = format!("{} has two rows", row.id);
            findings.push(TidyFinding::error(MAP, message).at(row.line));
        }
        if !listed.contains(row.id) {
            let message = format!("{} is not in the list of ids above", row.id);
            findings.push(TidyFinding::error(MAP, message).at(row.line));
        }
    }
    for id in listed.difference(&seen) {
        findings.push(TidyFinding::error(MAP, format!("{id} has no row")).at(line));
    }
    findings
}

fn listed_ids(map: &SourceFile) -> Option<(usize, BTreeSet<String>)> {
    let (line, text) = map.lines().find(|(_, text)| text.starts_with("Ids: "))?;
    let list = text.trim_start_matches("Ids: ").trim_end_matches('.');
    let ids = list.split(", ").map(expand_range).collect::<Option<Vec<_>>>()?;
    Some((line, ids.into_iter().flatten().collect()))
}

/// Expands `W1–W14`; a single id such as `C4b` stays as it is.
fn expand_range(text: &str) -> Option<Vec<String>> {
    let Some((first, last)) = text.split_once('–') else {
        return Some(vec![text.to_owned()]);
    };
    let letter = first.get(..1)?;
    let number = |id: &str| id.strip_prefix(letter)?.parse::<u32>().ok();
    let ids = (number(first)?..=number(last)?).map(|n| format!("{letter}{n}"));
    Some(ids.collect())
}

const MAP: &str = "docs/spec-map.md";

/// Parts of the product that bring requirements.
const PARTS: [&str; 5] = ["core", "client", "program", "bulk", "shared"];

#[cfg(test)]
mod tests;
