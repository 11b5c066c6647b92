//! The documentation explains every metric, label and log key, and no others.
//!
//! One file defines the names: `Metric::counter("name", &[label::API],` and constants of the types
//! `Label` and `Key`. The rule reads them as text, and reports a metric name in any other source.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::{SourceFile, SourceTree};

/// Reports names without a row, rows without a name, and rows with another type or other labels.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let (Some(source), Some(page)) = (tree.file(NAMES), tree.file(PAGE)) else {
        let message = format!("and {NAMES} belong together: one is missing");
        return vec![TidyFinding::error(PAGE, message)];
    };
    let labels = constants(source, "Label");
    let keys = constants(source, "Key");
    let metrics = parse_metrics(&source.text, &labels);
    let mut findings = compare("metric", &metrics, &rows(page, "metric"));
    findings.extend(compare("label", &plain_names(&labels), &rows(page, "label")));
    findings.extend(compare("key", &plain_names(&keys), &rows(page, "key")));
    findings.extend(names_elsewhere(tree, &metrics));
    findings
}

/// Names, each with the cells that the page must have after it.
type DocumentedNames = BTreeMap<String, Option<String>>;

fn plain_names(constants: &BTreeMap<String, String>) -> DocumentedNames {
    constants.values().map(|name| (name.clone(), None)).collect()
}

/// Finds the constants of a type, by their names: `pub(crate) const API: Label = "api";`.
fn constants(source: &SourceFile, type_name: &str) -> BTreeMap<String, String> {
    let constant = pattern(&format!(r#"(\w+): {type_name} = "([^"]*)""#));
    let found = constant.captures_iter(&source.text).map(|found| {
        let (_, [name, value]) = found.extract();
        (name.to_owned(), value.to_owned())
    });
    found.collect()
}

/// Finds each metric, with type and labels in the notation of the page.
fn parse_metrics(source: &str, labels: &BTreeMap<String, String>) -> DocumentedNames {
    let metric = pattern(r#"Metric::(counter|gauge|histogram)\(\s*"([^"]*)",\s*&\[([^\]]*)\]"#);
    let mut found = DocumentedNames::new();
    for metric in metric.captures_iter(source) {
        let (_, [kind, name, listed]) = metric.extract();
        let used: Vec<_> = listed
            .split("label::")
            .filter_map(|label| labels.get(label.trim_matches([',', ' ', '\n'])))
            .map(|label| format!("`{label}`"))
            .collect();
        let used = if used.is_empty() {
            "–".to_owned()
        } else {
            used.join(", ")
        };
        found.insert(name.to_owned(), Some(format!("{kind} | {used}")));
    }
    found
}

/// One row of a table of the page.
struct PageRow<'a> {
    line: usize,
    name: &'a str,
    /// Cells after the name.
    rest: &'a str,
}

/// Reads the table whose first column has this title.
fn rows<'a>(page: &'a SourceFile, column: &str) -> Vec<PageRow<'a>> {
    let head = format!("| {column} |");
    page.lines()
        .skip_while(|(_, line)| !line.starts_with(&head))
        .take_while(|(_, line)| line.starts_with('|'))
        .filter_map(|(line, text)| {
            let (name, rest) = text.strip_prefix("| `")?.split_once("` | ")?;
            Some(PageRow { line, name, rest })
        })
        .collect()
}

fn compare(sort: &str, names: &DocumentedNames, rows: &[PageRow<'_>]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut documented = BTreeSet::new();
    for row in rows {
        let name = row.name;
        let error = |message: String| TidyFinding::error(PAGE, message).at(row.line);
        if !documented.insert(name) {
            findings.push(error(format!("{sort} `{name}` has two rows")));
        }
        match names.get(name) {
            None => findings.push(error(format!("{NAMES} has no {sort} `{name}`"))),
            Some(Some(cells)) if !row.rest.starts_with(&format!("{cells} |")) => {
                findings.push(error(format!("{sort} `{name}` is `{cells}` in {NAMES}")));
            }
            Some(_) => {}
        }
        if last_cell(row.rest).is_empty() {
            findings.push(error(format!("{sort} `{name}` has no meaning")));
        }
    }
    let missing = names.keys().filter(|name| !documented.contains(name.as_str()));
    findings.extend(missing.map(|name| {
        let message = format!("{sort} `{name}` has no row in {PAGE}: explain it");
        TidyFinding::error(NAMES, message)
    }));
    findings
}

fn last_cell(cells: &str) -> &str {
    let cells = cells.trim_end().trim_end_matches('|');
    cells.rsplit('|').next().unwrap_or_default().trim()
}

/// Reports metric names in other sources. A name without a prefix may be an ordinary word.
fn names_elsewhere(tree: &SourceTree, metrics: &DocumentedNames) -> Vec<TidyFinding> {
    let sources = tree
        .with_suffix(".rs")
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| file.path != NAMES);
    let prefixed: Vec<_> = metrics
        .keys()
        .filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .map(String::as_str)
        .collect();
    let names = pattern(&format!("\"(?:{})\"", prefixed.join("|")));
    let report = |name: &str| format!("names the metric {name}: use the constant of {NAMES}");
    sources.flat_map(|file| file.report_matches(&names, report)).collect()
}

const NAMES: &str = "crates/client/src/metrics/names.rs";
const PAGE: &str = "docs/metrics.md";
const PREFIXES: [&str; 3] = ["external_", "outflow_", "bulk_action_"];

#[cfg(test)]
mod tests;
