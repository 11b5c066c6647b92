//! The text files of the project: tracked by git, or new and not ignored.
//!
//! `tidy` reads them once and passes them to every rule, so that a test can pass a small tree instead.

use std::cell::OnceCell;

use anyhow::{Context, Result};
use regex::Regex;

use super::rust_code::{RustItem, find_items};
use super::{TidyFinding, lexer};
use crate::command::{CommandLine, repository_root};

/// Every text file of the project.
pub(super) struct SourceTree {
    pub(super) files: Vec<SourceFile>,
}

/// One text file.
pub(super) struct SourceFile {
    /// Path from the root, with forward slashes.
    pub(super) path: String,
    /// Content.
    pub(super) text: String,
    items: OnceCell<Vec<RustItem>>,
}

impl SourceTree {
    /// Reads the repository that this program was built from.
    pub(super) fn load() -> Result<Self> {
        let listed = CommandLine::parse("git ls-files --cached --others --exclude-standard")
            .output()
            .context("git lists the files of the project: run tidy in a clone")?;
        let files = listed.lines().filter_map(|path| {
            // Git lists a removed file until the removal is committed; data may be no text.
            let text = std::fs::read_to_string(repository_root().join(path)).ok()?;
            Some(SourceFile::new(path, text))
        });
        Ok(Self { files: files.collect() })
    }

    /// Iterates over the files whose path ends with `suffix`.
    pub(super) fn with_suffix(&self, suffix: &str) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.has_suffix(suffix))
    }

    /// Returns one file.
    pub(super) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns true if a file exists and has this line.
    pub(super) fn has_line(&self, path: &str, line: &str) -> bool {
        let file = self.file(path);
        file.is_some_and(|file| file.text.lines().any(|other| other == line))
    }

    #[cfg(test)]
    pub(super) fn from_files<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files.map(|(path, text)| SourceFile::new(path, text.to_owned()));
        Self { files: files.into() }
    }
}

impl SourceFile {
    fn new(path: &str, text: String) -> Self {
        Self {
            path: path.to_owned(),
            text,
            items: OnceCell::new(),
        }
    }

    /// Returns true if the path ends with `suffix`.
    pub(super) fn has_suffix(&self, suffix: &str) -> bool {
        self.path.ends_with(suffix)
    }

    /// Iterates over the lines, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Returns the line of a byte offset, counted from 1.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    /// Returns the declarations of the Rust code.
    pub(super) fn items(&self) -> &[RustItem] {
        self.items.get_or_init(|| find_items(&lexer::code_only(&self.text)))
    }

    /// Reports a violation at a byte offset.
    pub(super) fn error_at(&self, offset: usize, message: impl Into<String>) -> TidyFinding {
        TidyFinding::error(&self.path, message).at(self.line_at(offset))
    }

    /// Reports each match; the message gets its last group, or all of it.
    pub(super) fn report_matches(&self, pattern: &Regex, message: impl Fn(&str) -> String) -> Vec<TidyFinding> {
        let matches = pattern.captures_iter(&self.text);
        matches
            .filter_map(|found| found.iter().flatten().last())
            .map(|found| self.error_at(found.start(), message(found.as_str())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_line() {
        let file = SourceFile::new("a.rs", "a\nb\n".to_owned());
        assert_eq!((file.line_at(0), file.line_at(2)), (1, 2));
    }
}
