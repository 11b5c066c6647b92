//! The file that documents every key, and what can be read from it.

use outflow::config::{Environment, Source};

use crate::config::ProgramConfig;

/// Every key with its default, and what it means.
pub(super) const TEXT: &str = include_str!("../../../../client/config.default.toml");

/// The API that stands for all in that file.
pub(super) const EXAMPLE: &str = "apis.example.";

/// The defaults as a configuration, by whose origins each can be asked for.
pub(super) fn defaults() -> anyhow::Result<ProgramConfig> {
    let source = Source::new("config.default.toml", TEXT);
    Ok(ProgramConfig::read(&[source], &Environment::empty())?)
}

/// A key and what the file says about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ExplainedKey {
    /// The whole key, `apis.example.timeout`.
    pub(super) key: String,
    /// What it means.
    pub(super) meaning: String,
}

/// Every key of the file, those without a default included, in its order.
pub(super) fn explained() -> Vec<ExplainedKey> {
    let mut reader = DefaultReader::default();
    TEXT.lines().filter_map(|line| reader.line(line)).collect()
}

#[derive(Default)]
struct DefaultReader {
    section: String,
    meaning: Vec<&'static str>,
    /// Whether a key was met since the last word of explanation: what comes next explains other keys.
    told: bool,
}

impl DefaultReader {
    fn line(&mut self, line: &'static str) -> Option<ExplainedKey> {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if let Some(section) = bare
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section.clone_into(&mut self.section);
            self.told = true;
            return None;
        }
        if let Some(words) = line.strip_prefix("# ") {
            if std::mem::take(&mut self.told) {
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
        self.told = true;
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
    fn the_file_explains_every_key_it_names() {
        let all = explained();
        let timeout = all.iter().find(|one| one.key == "apis.example.timeout");
        let meaning = timeout.map(|one| one.meaning.as_str());
        assert_eq!(
            meaning,
            Some("One attempt, from its beginning to the end of its body.")
        );
        assert!(all.len() > 80, "{}", all.len());
        let defaults = defaults().expect("it has no mistake");
        for (key, _) in defaults.client.origins.iter() {
            let known = |one: &ExplainedKey| one.key == key;
            let is_short = key.ends_with(".groups") || key.contains(".policy.");
            assert!(is_short || all.iter().any(known), "{key} is not explained");
        }
    }
}
