//! Every metric, label and log key is explained, and whatever is explained exists.
//!
//! Names are read from the one file that may hold them, as text: `Metric::counter("name", &[label::API],`
//! and the constants of sort `Label` and `Key`. A name of a metric in any other source would be one
//! that this rule does not see, so it is a fault too.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::{File, Tree};

/// Finds names without a row, rows without a name, and rows that say something else.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let file = |path: &str| tree.files().find(|file| file.path == path);
    let (Some(source), Some(page)) = (file(NAMES), file(PAGE)) else {
        return vec![Finding::fault(
            PAGE,
            format!("and {NAMES} explain each other: one is missing"),
        )];
    };
    let labels = constants(source, "Label");
    let metrics = metrics(&source.text, &labels);
    let mut findings = compared("metric", &metrics, &rows(page, "metric"));
    findings.extend(compared(
        "label",
        &bare(labels.values()),
        &rows(page, "label"),
    ));
    let keys = constants(source, "Key");
    findings.extend(compared("key", &bare(keys.values()), &rows(page, "key")));
    findings.extend(elsewhere(tree, &metrics));
    findings
}

/// A name and what the page must say beside it.
type Named = BTreeMap<String, Option<String>>;

fn bare<'a>(names: impl IntoIterator<Item = &'a String>) -> Named {
    names.into_iter().map(|name| (name.clone(), None)).collect()
}

/// The constants of this sort, by their names: `pub(crate) const API: Label = "api";`.
fn constants(source: &File, sort: &str) -> BTreeMap<String, String> {
    let marker = format!(": {sort} = \"");
    let mut found = BTreeMap::new();
    for (_, line) in source.lines() {
        let Some((before, after)) = line.split_once(&marker) else {
            continue;
        };
        if let (Some(name), Some((value, _))) = (before.rsplit(' ').next(), after.split_once('"')) {
            found.insert(name.to_owned(), value.to_owned());
        }
    }
    found
}

/// Each metric with its type and labels, as the page writes them.
fn metrics(source: &str, labels: &BTreeMap<String, String>) -> Named {
    let mut found = Named::new();
    for made in source.split("Metric::").skip(1) {
        let Some((kind, rest)) = made.split_once('(').filter(|made| KINDS.contains(&made.0)) else {
            continue;
        };
        let mut quoted = rest.split('"');
        let (Some(name), Some(after)) = (quoted.nth(1), quoted.next()) else {
            continue;
        };
        let listed = after.split(']').next().unwrap_or_default();
        let told: Vec<_> = listed
            .split("label::")
            .skip(1)
            .filter_map(|label| labels.get(label.trim_matches([',', ' ', '\n'])))
            .map(|label| format!("`{label}`"))
            .collect();
        let told = if told.is_empty() {
            "–".to_owned()
        } else {
            told.join(", ")
        };
        found.insert(name.to_owned(), Some(format!("{kind} | {told}")));
    }
    found
}

/// The rows of the table whose first column is called so: line, name, and what stands beside it.
fn rows(page: &File, column: &str) -> Vec<(usize, String, String)> {
    let head = format!("| {column} |");
    page.lines()
        .skip_while(|(_, line)| !line.starts_with(&head))
        .take_while(|(_, line)| line.starts_with('|'))
        .filter_map(|(number, line)| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((number, name.to_owned(), rest.to_owned()))
        })
        .collect()
}

fn compared(sort: &str, names: &Named, rows: &[(usize, String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut explained = BTreeSet::new();
    for (line, name, beside) in rows {
        let fault = |message: String| Finding::fault(PAGE, message).at(*line);
        if !explained.insert(name) {
            findings.push(fault(format!("{sort} `{name}` is explained twice")));
        }
        match names.get(name) {
            None => findings.push(fault(format!("no {sort} is called `{name}` in {NAMES}"))),
            Some(Some(told)) if !beside.starts_with(&format!("{told} |")) => {
                findings.push(fault(format!("{sort} `{name}` is `{told}` in {NAMES}")));
            }
            Some(_) => {}
        }
        if meaning(beside).is_empty() {
            findings.push(fault(format!("{sort} `{name}` has no meaning")));
        }
    }
    let missing = names.keys().filter(|name| !explained.contains(name));
    findings.extend(missing.map(|name| {
        Finding::fault(
            NAMES,
            format!("{sort} `{name}` has no row in {PAGE}: explain it"),
        )
    }));
    findings
}

/// The last cell of a row.
fn meaning(beside: &str) -> &str {
    let cells = beside.trim_end().trim_end_matches('|');
    cells.rsplit('|').next().unwrap_or_default().trim()
}

/// Sources that name a metric by themselves. Names without a prefix are words that a report of another
/// sort may use.
fn elsewhere(tree: &Tree, metrics: &Named) -> Vec<Finding> {
    let sources = tree
        .ending(".rs")
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| file.path != NAMES);
    let mut findings = Vec::new();
    for file in sources {
        for (number, line) in file.lines() {
            let mut own = metrics.keys().filter(|name| is_prefixed(name));
            let named = own.find(|name| line.contains(&format!("\"{name}\"")));
            if let Some(name) = named {
                let message = format!("names the metric `{name}`: use the constant of {NAMES}");
                findings.push(Finding::fault(&file.path, message).at(number));
            }
        }
    }
    findings
}

fn is_prefixed(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

const NAMES: &str = "crates/client/src/metrics/names.rs";
const PAGE: &str = "docs/metrics.md";
const PREFIXES: [&str; 3] = ["external_", "outflow_", "bulk_action_"];
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
pub(crate) const CALLS: Metric = Metric::counter(
    "outflow_calls_total",
    &[label::API, label::CODE],
    "Calls.",
);
pub(crate) const LOST: Metric = Metric::gauge("lost", &[], "Lost.");
    pub(crate) const API: Label = "api";
    pub(crate) const CODE: Label = "code";
    pub(crate) const TS: Key = "ts";
"#;

    const EXPLAINED: &str = "\
| metric | type | labels | meaning |
|---|---|---|---|
| `outflow_calls_total` | counter | `api`, `code` | Calls. |
| `lost` | gauge | – | Lost. |

| label | values |
|---|---|
| `api` | names |
| `code` | codes |

| key | form | meaning |
|---|---|---|
| `ts` | date | When. |
";

    fn found(source: &str, page: &str) -> Vec<String> {
        let tree = Tree::of([(NAMES, source), (PAGE, page)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_page_that_explains_every_name_is_fine() {
        assert_eq!(found(SOURCE, EXPLAINED), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_not_explained_is_found() {
        for (row, name) in [
            (
                "| `outflow_calls_total` | counter | `api`, `code` | Calls. |\n",
                "metric `outflow_calls_total`",
            ),
            ("| `code` | codes |\n", "label `code`"),
            ("| `ts` | date | When. |\n", "key `ts`"),
        ] {
            let findings = found(SOURCE, &EXPLAINED.replace(row, ""));
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(
                findings[0].starts_with(&format!("{NAMES}: {name} has no row")),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn an_explanation_of_nothing_is_found() {
        for (line, twice) in [
            ("`lost`", "`gone`"),
            ("`code` |", "`kind` |"),
            ("`ts`", "`time`"),
        ] {
            let page = EXPLAINED.replacen(&format!("| {line}"), &format!("| {twice}"), 1);
            assert_eq!(
                found(SOURCE, &page).len(),
                2,
                "one is missing and one too many: {page}"
            );
        }
        let twice = EXPLAINED.replace(
            "| `lost` | gauge",
            "| `lost` | gauge | – | Lost. |\n| `lost` | gauge",
        );
        assert_eq!(found(SOURCE, &twice).len(), 1);
    }

    #[test]
    fn an_explanation_that_says_otherwise_is_found() {
        for (right, wrong) in [
            ("| counter |", "| gauge |"),
            ("| `api`, `code` |", "| `api` |"),
            ("| `api`, `code` |", "| `code`, `api` |"),
            ("| – |", "| `api` |"),
        ] {
            assert_eq!(
                found(SOURCE, &EXPLAINED.replace(right, wrong)).len(),
                1,
                "{wrong}"
            );
        }
        let silent = EXPLAINED.replace("Lost. |", "|");
        assert_eq!(found(SOURCE, &silent).len(), 1);
    }

    #[test]
    fn a_metric_that_is_named_elsewhere_is_found() {
        let other = |path: &'static str| {
            let names = (path, "let name = \"outflow_calls_total\";\n");
            check(&Tree::of([(NAMES, SOURCE), (PAGE, EXPLAINED), names])).len()
        };
        assert_eq!(other("crates/client/src/send.rs"), 1);
        assert_eq!(other("crates/cli/src/main.rs"), 1);
        assert_eq!(other("crates/client/tests/metrics.rs"), 0);
    }

    #[test]
    fn a_missing_page_is_found() {
        assert_eq!(check(&Tree::of([(NAMES, SOURCE)])).len(), 1);
        assert_eq!(check(&Tree::of([(PAGE, EXPLAINED)])).len(), 1);
    }
}
