//! The text files of the project: tracked by git, or new and not ignored.
//!
//! `tidy` reads them once and passes them to every rule, so that a test can pass a small tree instead.

use std::cell::OnceCell;

use anyhow::{Context, Result};

use super::lexer::{self, SourceLanguage, TextSpan};
use crate::command::{CommandLine, repository_root};

/// Every text file of the project.
pub(super) struct SourceTree {
    files: Vec<SourceFile>,
}

/// One text file.
pub(super) struct SourceFile {
    /// Path from the root, with forward slashes.
    pub(super) path: String,
    /// Content.
    pub(super) text: String,
    spans: OnceCell<Vec<TextSpan>>,
}

impl SourceTree {
    /// Reads the repository that this program was built from.
    pub(super) fn load() -> Result<Self> {
        let listed = CommandLine::parse("git ls-files --cached --others --exclude-standard")
            .output()
            .context("git lists the files of the project: run tidy in a clone")?;
        let mut files = Vec::new();
        for path in listed.lines() {
            // Git lists a removed file until the removal is committed.
            let Ok(bytes) = std::fs::read(repository_root().join(path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(SourceFile::new(path, text));
            }
        }
        Ok(Self { files })
    }

    /// Iterates over all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    /// Iterates over the files whose path ends with `suffix`.
    pub(super) fn with_suffix(&self, suffix: &str) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.has_suffix(suffix))
    }

    /// Returns one file.
    pub(super) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.file(path).map(|file| file.text.as_str())
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
            spans: OnceCell::new(),
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

    /// Returns code, comments and literals of the file, which together cover it; none if its language
    /// is unknown.
    pub(super) fn spans(&self) -> &[TextSpan] {
        self.spans.get_or_init(|| {
            let language = SourceLanguage::from_path(&self.path);
            language.map_or_else(Vec::new, |language| lexer::split(&self.text, language))
        })
    }

    /// Returns the text of a span.
    pub(super) fn span_text(&self, span: &TextSpan) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }
}

/// Returns the name of the function that a line of Rust declares.
pub(super) fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for qualifier in ["pub ", "pub(crate) ", "pub(super) ", "const ", "async "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(name.split_at(end.unwrap_or(name.len())).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_names_its_function() {
        assert_eq!(function_name("    fn waits(now: Nanos) {"), Some("waits"));
        assert_eq!(function_name("pub const fn zero() -> Self {"), Some("zero"));
        assert_eq!(function_name("async fn sends()"), Some("sends"));
        assert_eq!(function_name("// fn is a word"), None);
        assert_eq!(function_name("let f: fn(u64) = g;"), None);
    }

    #[test]
    fn an_offset_has_a_line() {
        let file = SourceFile::new("a.rs", "a\nb\n".to_owned());
        assert_eq!((file.line_at(0), file.line_at(2)), (1, 2));
    }
}
