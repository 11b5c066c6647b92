//! The paths of ARCHITECTURE.md exist, and it mentions every crate.
//!
//! Its two walks are ordered lists, in which each item is a file: ``1. `crates/core/src/lib.rs`: text``. The
//! walk of a request has a limit, so that the way of a request stays short enough to read. Elsewhere, a
//! word in backticks that looks like a path must be one; `file_references` checks names without folder.

use std::collections::HashSet;

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::{SourceFile, SourceTree};

/// Reports paths that do not exist, walks in another format, and missing crates.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(page) = tree.file(PAGE) else {
        return vec![TidyFinding::error(PAGE, "is missing")];
    };
    let walks = WALKS.iter();
    let mut findings: Vec<_> = walks
        .flat_map(|(heading, max_files)| check_walk(tree, page, heading, *max_files))
        .collect();
    findings.extend(missing_paths(tree, page));
    findings.extend(missing_crates(tree, page));
    findings
}

/// Checks a section of the page that lists files in order.
fn check_walk(tree: &SourceTree, page: &SourceFile, heading: &str, max_files: usize) -> Vec<TidyFinding> {
    let is_heading = |line: &str| line.starts_with('#') && line.trim_matches(['#', ' ']) == heading;
    let Some((start, _)) = page.lines().find(|(_, line)| is_heading(line)) else {
        return vec![TidyFinding::error(PAGE, format!("needs a section {heading:?}"))];
    };
    let section = page.lines().skip(start).take_while(|(_, line)| !line.starts_with('#'));
    let items: Vec<_> = section
        .filter_map(|(number, line)| Some((number, list_item(line)?)))
        .collect();
    let mut findings: Vec<_> = items
        .iter()
        .filter_map(|(number, item)| Some(TidyFinding::error(PAGE, item_error(tree, item)?).at(*number)))
        .collect();
    let files = items.len();
    if files == 0 || files > max_files {
        let message = format!("section {heading:?} lists {files} files, not 1 to {max_files}");
        findings.push(TidyFinding::error(PAGE, message).at(start));
    }
    findings
}

/// Returns the text of an item such as `12. text`.
fn list_item(line: &str) -> Option<&str> {
    let (number, text) = line.split_once(". ")?;
    number.parse::<u32>().is_ok().then_some(text)
}

fn item_error(tree: &SourceTree, item: &str) -> Option<String> {
    let quoted = item.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
    match quoted {
        None => Some("an item is a path in backticks, a colon and a text".to_owned()),
        Some((path, _)) if tree.file(path).is_none() => Some(missing_path(path)),
        Some(_) => None,
    }
}

fn missing_paths(tree: &SourceTree, page: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let lines = page.lines().filter(|(_, line)| list_item(line).is_none());
    for (number, line) in lines {
        let quoted = line.split('`').skip(1).step_by(2);
        for word in quoted.filter(|word| is_path(word) && !path_exists(tree, word)) {
            findings.push(TidyFinding::error(PAGE, missing_path(word)).at(number));
        }
    }
    findings
}

fn missing_path(path: &str) -> String {
    format!("names {path}, and no such path exists: update the name")
}

/// Returns true for a path from the root, and for a folder.
fn is_path(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let (first, rest) = word.split_once('/').unwrap_or((word, ""));
    let has_root = ROOT_FOLDERS.contains(&first) && !rest.is_empty();
    word.chars().all(is_part) && (has_root || word.len() > 1 && word.ends_with('/'))
}

/// Returns true if the tree has the file, or a file below a folder with this path or this end of it.
fn path_exists(tree: &SourceTree, word: &str) -> bool {
    let folder = format!("/{}/", word.trim_matches('/'));
    tree.files
        .iter()
        .any(|file| file.path == word || format!("/{}", file.path).contains(&folder))
}

fn missing_crates(tree: &SourceTree, page: &SourceFile) -> Vec<TidyFinding> {
    let manifests = tree.with_suffix("/Cargo.toml");
    let folders = manifests.filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let mentioned = pattern(r"crates/[\w-]+");
    let mentioned: HashSet<_> = mentioned.find_iter(&page.text).map(<&str>::from).collect();
    folders
        .filter(|folder| folder.starts_with("crates/") && !mentioned.contains(folder))
        .map(|folder| TidyFinding::error(PAGE, format!("does not mention {folder}")))
        .collect()
}

const PAGE: &str = "ARCHITECTURE.md";

/// Headings, and the greatest number of files.
const WALKS: [(&str, usize); 2] = [
    ("One request, file by file", 45),
    ("One bulk job, file by file", usize::MAX),
];

/// Folders of the root in which a quoted path must exist.
const ROOT_FOLDERS: [&str; 6] = ["crates", "xtask", "docs", "benches", "fuzz", "deploy"];

#[cfg(test)]
mod tests;
