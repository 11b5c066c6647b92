//! The files of the project as text: what git tracks, and what it would track if it were added.
//!
//! Read once and handed to every rule, so that a test can hand in a tree of three lines instead.

use anyhow::{Context, Result};

use crate::command::{Program, root};

/// Every text file, by its path from the root.
pub(super) struct Tree {
    files: Vec<File>,
}

/// One file.
pub(super) struct File {
    /// From the root, with forward slashes.
    pub(super) path: String,
    /// All of it.
    pub(super) text: String,
}

impl Tree {
    /// Reads the tree that this program was built from.
    pub(super) fn load() -> Result<Self> {
        let listed = Program::new(
            "git",
            ["ls-files", "--cached", "--others", "--exclude-standard"],
        )
        .output()
        .context("tidy asks git which files belong to the project: run it in a clone")?;
        let mut files = Vec::new();
        for path in listed.lines() {
            // A file that was removed and not yet committed is listed and cannot be read.
            let Ok(bytes) = std::fs::read(root().join(path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                let path = path.to_owned();
                files.push(File { path, text });
            }
        }
        Ok(Self { files })
    }

    /// All files.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The files whose name ends so.
    pub(super) fn ending(&self, end: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.ends_with(end))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files
            .map(|(path, text)| File {
                path: path.to_owned(),
                text: text.to_owned(),
            })
            .into();
        Self { files }
    }
}

impl File {
    /// True if its name ends so.
    pub(super) fn ends_with(&self, end: &str) -> bool {
        self.path.ends_with(end)
    }

    /// The lines, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// The name of the function that a line of Rust begins, if it begins one.
pub(super) fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    for qualifier in ["pub ", "pub(crate) ", "pub(super) ", "const ", "async "] {
        words = words.strip_prefix(qualifier).unwrap_or(words);
    }
    let name = words.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(name.split_at(end.unwrap_or(name.len())).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_its_first_line() {
        assert_eq!(function_name("    fn waits(now: Nanos) {"), Some("waits"));
        assert_eq!(function_name("pub const fn zero() -> Self {"), Some("zero"));
        assert_eq!(function_name("async fn sends()"), Some("sends"));
        assert_eq!(function_name("// fn is a word"), None);
        assert_eq!(function_name("let f: fn(u64) = g;"), None);
    }
}
