use super::*;
use crate::tidy::findings;

const PAGE_TEXT: &str = "\
# Architecture

`crates/core` decides, in `crates/core/src/meter/` and `meter/`.

## One request, file by file

The way of a call.

1. `crates/core/src/lib.rs`: starts.
2. `crates/core/src/meter/log.rs`: counts.

## One bulk job, file by file

1. `crates/core/src/lib.rs`: starts.

## Rules

1. An item elsewhere is text.
";

fn check_page(text: &str) -> Vec<String> {
    findings(check, [CORE[0], CORE[1], CORE[2], (PAGE, text)])
}

const CORE: [(&str, &str); 3] = [
    ("crates/core/Cargo.toml", ""),
    ("crates/core/src/lib.rs", ""),
    ("crates/core/src/meter/log.rs", ""),
];

fn one_error(text: &str, expected: &str) {
    let found = check_page(text);
    assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
}

#[test]
fn a_page_with_valid_paths_passes() {
    assert_eq!(check_page(PAGE_TEXT), Vec::<String>::new());
}

#[test]
fn a_missing_section_is_an_error() {
    let text = PAGE_TEXT.replace("## One bulk job, file by file", "## One job");
    one_error(&text, "needs a section \"One bulk job, file by file\"");
}

#[test]
fn a_file_of_a_walk_must_exist() {
    let text = PAGE_TEXT.replace("meter/log.rs`: counts", "log.rs`: counts");
    one_error(&text, "ARCHITECTURE.md:10: names crates/core/src/log.rs");
}

#[test]
fn an_item_of_a_walk_has_a_path() {
    let text = PAGE_TEXT.replace("2. `crates/core/src/meter/log.rs`: counts.", "2. The log counts.");
    one_error(&text, ":10: an item is a path");
}

#[test]
fn the_walk_of_a_request_is_short_and_not_empty() {
    let item = "2. `crates/core/src/meter/log.rs`: counts.\n";
    let text = PAGE_TEXT.replace(item, &item.repeat(44));
    assert_eq!(check_page(&text), Vec::<String>::new());
    one_error(
        &PAGE_TEXT.replace(item, &item.repeat(45)),
        "lists 46 files, not 1 to 45",
    );
    let empty = PAGE_TEXT.replace("1. `crates/core/src/lib.rs`: starts.\n\n## Rules", "## Rules");
    one_error(&empty, "lists 0 files");
}

#[test]
fn a_quoted_path_must_exist() {
    for path in ["crates/core/src/gone.rs", "crates/gone", "gone/", "docs/gone.md"] {
        let text = format!("{PAGE_TEXT}\nSee `{path}`.\n");
        one_error(&text, &format!("names {path}"));
    }
    for word in ["GET /v1/status", "a/b", "/", "crates/*", "outflow-core"] {
        let text = format!("{PAGE_TEXT}\nSee `{word}`.\n");
        assert_eq!(check_page(&text), Vec::<String>::new(), "{word}");
    }
}

#[test]
fn every_crate_is_mentioned() {
    let other = ("crates/cor/Cargo.toml", "");
    let found = findings(check, [CORE[0], CORE[1], CORE[2], other, (PAGE, PAGE_TEXT)]);
    assert_eq!(found, ["ARCHITECTURE.md: does not mention crates/cor"]);
}
