//! A file has one subject; a long file has several.
//!
//! More than 600 lines are an error. More than 400 lines without tests are a note, because a table may
//! have a good reason for its length.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports files that are too long, and notes files that come close.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let files = tree.files.iter();
    files
        .filter(|file| EXTENSIONS.iter().any(|end| file.has_suffix(end)))
        .filter_map(check_file)
        .collect()
}

fn check_file(file: &SourceFile) -> Option<TidyFinding> {
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        let message = format!("has {lines} lines, more than {MAX_LINES}: split it by subject");
        return Some(TidyFinding::error(&file.path, message));
    }
    let is_product = file.has_suffix(".rs") && !file.path.contains("/tests/");
    let product = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    (is_product && product > NOTE_LINES).then(|| {
        let message = format!("has {product} lines without its tests, more than {NOTE_LINES}");
        TidyFinding::note(&file.path, message)
    })
}

const MAX_LINES: usize = 600;
const NOTE_LINES: usize = 400;

/// Files that people write; lock files and data are not among them.
const EXTENSIONS: [&str; 6] = [".rs", ".md", ".toml", ".lua", ".sh", ".js"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the findings as `is_error`.
    fn check_text(path: &str, text: &str) -> Vec<bool> {
        let findings = check(&SourceTree::from_files([(path, text)]));
        findings.iter().map(|finding| finding.is_error).collect()
    }

    #[test]
    fn a_long_file_is_an_error() {
        assert_eq!(check_text("a.rs", &"x\n".repeat(MAX_LINES + 1)), [true]);
        assert!(check_text("docs/a.md", &"x\n".repeat(MAX_LINES)).is_empty());
        assert_eq!(check_text("docs/a.md", &"x\n".repeat(MAX_LINES + 1)), [true]);
        assert!(check_text("Cargo.lock", &"x\n".repeat(MAX_LINES + 1)).is_empty());
    }

    #[test]
    fn the_note_ignores_tests() {
        let product = "x\n".repeat(NOTE_LINES + 1);
        assert_eq!(check_text("a.rs", &product), [false]);
        let limit = "x\n".repeat(NOTE_LINES);
        let tested = format!("{limit}#[cfg(test)]\n{}", "y\n".repeat(50));
        assert!(check_text("a.rs", &tested).is_empty());
        assert!(check_text("crates/core/tests/a.rs", &product).is_empty());
    }
}
