//! The file that documents every key, and a parser for its comments.

use outflow::config::{Environment, Source};

use crate::config::ProgramConfig;

/// Text of the file: every key with its default and meaning.
pub(super) const TEXT: &str = include_str!("../../../../client/config.default.toml");

/// Prefix of the keys of the example API in that file.
pub(super) const EXAMPLE: &str = "apis.example.";

/// Reads the file as a configuration; its origins hold each default.
pub(super) fn defaults() -> anyhow::Result<ProgramConfig> {
    let source = Source::new("config.default.toml", TEXT);
    Ok(ProgramConfig::read(&[source], &Environment::empty())?)
}

/// Key and its explanation in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ExplainedKey {
    /// Full key, such as `apis.example.timeout`.
    pub(super) key: String,
    /// Meaning of the key.
    pub(super) meaning: String,
}

/// Returns every key of the file in order, also keys without a default.
pub(super) fn explained_keys() -> Vec<ExplainedKey> {
    let mut reader = DefaultReader::default();
    TEXT.lines().filter_map(|line| reader.read_line(line)).collect()
}

#[derive(Default)]
struct DefaultReader {
    section: String,
    meaning: Vec<&'static str>,
    /// True after a key: the next comment explains other keys.
    finished: bool,
}

impl DefaultReader {
    fn read_line(&mut self, line: &'static str) -> Option<ExplainedKey> {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if let Some(section) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section.clone_into(&mut self.section);
            self.finished = true;
            return None;
        }
        if let Some(words) = line.strip_prefix("# ") {
            if std::mem::take(&mut self.finished) {
                self.meaning.clear();
            }
            self.meaning.push(words.trim());
            return None;
        }
        let (name, _) = bare.split_once(" = ")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(is_name) {
            return None;
        }
        self.finished = true;
        Some(ExplainedKey {
            key: format!("{}.{name}", self.section),
            meaning: self.meaning.join(" "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_explains_each_of_its_keys() {
        let all = explained_keys();
        let timeout = all.iter().find(|one| one.key == "apis.example.timeout");
        let meaning = timeout.map(|one| one.meaning.as_str());
        let text = "One attempt, to the end of a body that is read whole, or to the head of a response whose body is \
                    streamed.";
        assert_eq!(meaning, Some(text));
        assert!(all.len() > 80, "{}", all.len());
        let defaults = defaults().expect("the file is valid");
        for (key, _) in defaults.client.origins.iter() {
            let known = |one: &ExplainedKey| one.key == key;
            let is_short = key.ends_with(".groups") || key.contains(".policy.");
            assert!(is_short || all.iter().any(known), "{key} is not explained_keys");
        }
    }
}
