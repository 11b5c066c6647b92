//! The paths of ARCHITECTURE.md exist, and it mentions every crate.
//!
//! Its two walks are ordered lists, in which each item is a file: ``1. `crates/core/src/lib.rs`: text``. The
//! walk of a request has a limit, so that the way of a request stays short enough to read. Elsewhere, a
//! word in backticks that looks like a path must be one; `file_references` checks names without folder.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports paths that do not exist, walks in another format, and missing crates.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(page) = tree.file(PAGE) else {
        return vec![TidyFinding::error(PAGE, "is missing")];
    };
    let mut findings: Vec<_> = WALKS.iter().flat_map(|walk| check_walk(tree, page, walk)).collect();
    findings.extend(missing_paths(tree, page));
    findings.extend(missing_crates(tree, page));
    findings
}

/// A section of the page that lists files in order.
struct FileWalk {
    heading: &'static str,
    max_files: Option<usize>,
}

fn check_walk(tree: &SourceTree, page: &SourceFile, walk: &FileWalk) -> Vec<TidyFinding> {
    let heading = walk.heading;
    let is_heading = |line: &str| line.starts_with('#') && line.trim_matches(['#', ' ']) == heading;
    let Some((start, _)) = page.lines().find(|(_, line)| is_heading(line)) else {
        return vec![TidyFinding::error(PAGE, format!("needs a section {heading:?}"))];
    };
    let section = page.lines().skip(start).take_while(|(_, line)| !line.starts_with('#'));
    let mut findings = Vec::new();
    let mut files = 0;
    for (number, item) in section.filter_map(|(number, line)| Some((number, list_item(line)?))) {
        files += 1;
        if let Some(message) = item_error(tree, item) {
            findings.push(TidyFinding::error(PAGE, message).at(number));
        }
    }
    let max = walk.max_files.unwrap_or(usize::MAX);
    if files == 0 || files > max {
        let message = format!("section {heading:?} lists {files} files, not 1 to {max}");
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
    let path = item
        .strip_prefix('`')
        .and_then(|rest| rest.split_once("`: "))
        .map(|(path, _)| path);
    match path {
        None => Some("an item is a path in backticks, a colon and a text".to_owned()),
        Some(path) if tree.file(path).is_none() => Some(missing_path(path)),
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
    tree.files()
        .any(|file| file.path == word || format!("/{}", file.path).contains(&folder))
}

fn missing_crates(tree: &SourceTree, page: &SourceFile) -> Vec<TidyFinding> {
    let manifests = tree.with_suffix("/Cargo.toml");
    let folders = manifests.filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let is_mentioned = |folder: &str| {
        page.text.match_indices(folder).any(|(at, _)| {
            let after = page.text.get(at + folder.len()..).unwrap_or_default();
            !after.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))
        })
    };
    folders
        .filter(|folder| folder.starts_with("crates/") && !is_mentioned(folder))
        .map(|folder| TidyFinding::error(PAGE, format!("does not mention {folder}")))
        .collect()
}

const PAGE: &str = "ARCHITECTURE.md";

const WALKS: [FileWalk; 2] = [
    FileWalk {
        heading: "One request, file by file",
        max_files: Some(45),
    },
    FileWalk {
        heading: "One bulk job, file by file",
        max_files: None,
    },
];

/// Folders of the root in which a quoted path must exist.
const ROOT_FOLDERS: [&str; 6] = ["crates", "xtask", "docs", "benches", "fuzz", "deploy"];

#[cfg(test)]
mod tests;
