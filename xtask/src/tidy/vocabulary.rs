//! Words that must not come back: the glossary has a better one for each.
//!
//! The rule reads whole files, so it covers identifiers, comments, messages and prose, and it reads
//! file names. It reports a word once per file, with the number of its uses.

mod word_list;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};
use word_list::{ALLOWED_USES, AllowedUse, BANNED_WORDS, WordRule};
use words::split_words;

/// Reports every banned word, with its replacement, and exceptions without a use.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    check_with(tree, ALLOWED_USES)
}

fn check_with(tree: &SourceTree, allowed: &[AllowedUse]) -> Vec<TidyFinding> {
    let index = WordIndex::new();
    let mut used = HashSet::new();
    let mut findings = Vec::new();
    let files = tree
        .files
        .iter()
        .filter(|file| EXTENSIONS.iter().any(|end| file.has_suffix(end)))
        .filter(|file| !file.path.starts_with(OWN_FILES));
    for file in files {
        for found in index.find_in(file) {
            let mut exceptions = allowed.iter();
            match exceptions.find_map(|exception| exception.covering_path(&file.path, found.word)) {
                Some(path) => drop(used.insert((path, found.word))),
                None => findings.push(found.report(file)),
            }
        }
    }
    findings.extend(allowed.iter().flat_map(|exception| exception.report_unused(&used)));
    findings
}

/// Uses of a banned word or phrase in one file.
#[derive(Clone, Copy)]
struct FoundWord {
    word: &'static str,
    rule: &'static WordRule,
    /// Offset of the first use.
    offset: usize,
    /// Uses in the text; 0 if only the file name has the word.
    count: usize,
}

impl FoundWord {
    fn report(&self, file: &SourceFile) -> TidyFinding {
        let times = match self.count {
            0 | 1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let message = format!("`{}`{times}: {}", self.word, self.rule.advice);
        let finding = TidyFinding::error(&file.path, message);
        if self.count == 0 {
            return finding;
        }
        finding.at(file.line_at(self.offset))
    }
}

impl AllowedUse {
    fn covering_path(&self, path: &str, word: &str) -> Option<&'static str> {
        let mut paths = self.paths.iter().filter(|_| self.words.contains(&word));
        paths.find(|start| path.starts_with(**start)).copied()
    }

    /// Reports exceptions that no file needs any more.
    fn report_unused(&self, used: &HashSet<(&str, &str)>) -> Vec<TidyFinding> {
        let mut findings = Vec::new();
        for path in self.paths {
            for word in self.words.iter().filter(|word| !used.contains(&(path, word))) {
                let reason = self.reason;
                let message = format!("`{word}` ({reason}) is unused: remove its exception");
                findings.push(TidyFinding::error(path, message));
            }
        }
        findings
    }
}

/// Banned words and phrases, for lookups.
struct WordIndex {
    rules: HashMap<&'static str, (&'static str, &'static WordRule)>,
    /// First words of phrases.
    phrase_starts: HashSet<&'static str>,
}

impl WordIndex {
    fn new() -> Self {
        let entries = || {
            let rules = BANNED_WORDS.iter();
            rules.flat_map(|rule| rule.words.iter().map(move |word| (*word, rule)))
        };
        let starts = entries().filter_map(|(word, _)| word.split_once(' '));
        Self {
            rules: entries().map(|(word, rule)| (word, (word, rule))).collect(),
            phrase_starts: starts.map(|(first, _)| first).collect(),
        }
    }

    /// Finds banned words in the name and the text of a file, each once.
    fn find_in(&self, file: &SourceFile) -> Vec<FoundWord> {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let mut found: BTreeMap<&str, FoundWord> = BTreeMap::new();
        self.scan(name, |word| {
            found.insert(word.word, word);
        });
        self.scan(&file.text, |word| {
            let known = found.entry(word.word).or_insert(word);
            if known.count == 0 {
                known.offset = word.offset;
            }
            known.count += 1;
        });
        found.into_values().collect()
    }

    fn scan(&self, text: &str, mut report: impl FnMut(FoundWord)) {
        let mut phrase_start: Option<(String, usize)> = None;
        for word in split_words(text) {
            let previous = phrase_start.take().filter(|_| word.continues);
            // Half of all words are too short, and lookups dominate the time of this rule.
            if previous.is_none() && !WORD_LENGTHS.contains(&word.text.len()) {
                continue;
            }
            let lower = word.text.to_ascii_lowercase();
            self.lookup(&lower, word.offset).map(&mut report);
            if let Some((first, offset)) = previous {
                let phrase = format!("{first} {lower}");
                self.lookup(&phrase, offset).map(&mut report);
            }
            let starts_phrase = self.phrase_starts.contains(lower.as_str());
            phrase_start = starts_phrase.then_some((lower, word.offset));
        }
    }

    fn lookup(&self, text: &str, offset: usize) -> Option<FoundWord> {
        let (word, rule) = *self.rules.get(text)?;
        Some(FoundWord {
            word,
            rule,
            offset,
            count: 0,
        })
    }
}

/// Files with names and sentences; lock files and data have none.
const EXTENSIONS: [&str; 12] = [
    ".rs", ".md", ".lua", ".toml", ".html", ".js", ".mjs", ".py", ".sh", ".sql", ".svg", ".yml",
];

/// Lengths of banned words and of first words of phrases.
const WORD_LENGTHS: RangeInclusive<usize> = 4..=10;

/// The list and its tests contain every banned word.
const OWN_FILES: &str = "xtask/src/tidy/vocabulary";

#[cfg(test)]
mod tests;
