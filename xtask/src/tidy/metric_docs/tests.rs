use super::*;
use crate::tidy::findings;

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

const PAGE_TEXT: &str = "\
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

fn check_page(page: &str) -> Vec<String> {
    findings(check, [(NAMES, SOURCE), (PAGE, page)])
}

#[test]
fn a_page_with_every_name_passes() {
    assert_eq!(check_page(PAGE_TEXT), Vec::<String>::new());
}

#[test]
fn a_name_without_a_row_is_an_error() {
    let calls = "| `outflow_calls_total` | counter | `api`, `code` | Calls. |\n";
    for (row, name) in [
        (calls, "metric `outflow_calls_total`"),
        ("| `code` | codes |\n", "label `code`"),
        ("| `ts` | date | When. |\n", "key `ts`"),
    ] {
        let found = check_page(&PAGE_TEXT.replace(row, ""));
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = format!("{NAMES}: {name} has no row");
        assert!(found[0].starts_with(&expected), "{found:?}");
    }
}

// A renamed row is an unknown row and a missing one.
#[test]
fn a_row_without_a_name_is_an_error() {
    for (row, other) in [("`lost`", "`gone`"), ("`code` |", "`kind` |"), ("`ts`", "`time`")] {
        let page = PAGE_TEXT.replacen(&format!("| {row}"), &format!("| {other}"), 1);
        assert_eq!(check_page(&page).len(), 2, "{page}");
    }
    let row = "| `lost` | gauge | – | Lost. |\n";
    let twice = PAGE_TEXT.replace(row, &row.repeat(2));
    assert_eq!(check_page(&twice).len(), 1);
}

#[test]
fn a_row_with_other_cells_is_an_error() {
    for (right, wrong) in [
        ("| counter |", "| gauge |"),
        ("| `api`, `code` |", "| `api` |"),
        ("| `api`, `code` |", "| `code`, `api` |"),
        ("| – |", "| `api` |"),
        ("Lost. |", "|"),
    ] {
        let found = check_page(&PAGE_TEXT.replace(right, wrong));
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
    }
}

#[test]
fn a_metric_name_in_another_source_is_an_error() {
    let count = |path: &'static str| {
        let other = (path, "let name = \"outflow_calls_total\";\n");
        findings(check, [(NAMES, SOURCE), (PAGE, PAGE_TEXT), other]).len()
    };
    assert_eq!(count("crates/client/src/send.rs"), 1);
    assert_eq!(count("crates/cli/src/main.rs"), 1);
    assert_eq!(count("crates/client/tests/metrics.rs"), 0);
}

#[test]
fn a_missing_file_is_an_error() {
    for file in [(NAMES, SOURCE), (PAGE, PAGE_TEXT)] {
        assert_eq!(findings(check, [file]).len(), 1);
    }
}
