//! Sources, diagnostics, origins and secrets that one reading gathers.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use secrecy::SecretString;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::ReadSummary;
use super::provenance::ValueOrigins;
use super::reader::ValueError;
use super::redact::show_key;
use super::source::{Source, SourceExcerpt, SourceKind};
use super::tree::{SourceSpan, TreeNode, TreeValue};
use super::value_notes::{KeyNotes, NotePlace, NotedKey};

/// Everything that a reading yields apart from the values.
#[derive(Debug, Default)]
pub struct DiagnosticCollector {
    sources: RefCell<Vec<Source>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
    notes: RefCell<KeyNotes>,
    /// Values of unknown keys, which no excerpt shows.
    hidden: RefCell<Vec<SourceSpan>>,
    unreliable: RefCell<Vec<(usize, RangeInclusive<usize>)>>,
    files: RefCell<Vec<PathBuf>>,
    secrets: RefCell<Vec<SecretString>>,
}

impl DiagnosticCollector {
    /// Adds a source and returns its number.
    pub(crate) fn add_source(&self, source: Source) -> usize {
        let mut sources = self.sources.borrow_mut();
        sources.push(source);
        sources.len() - 1
    }

    /// Adds a diagnostic at a position, about this key.
    pub fn report(&self, at: SourceSpan, key: &str, error: ValueError) {
        let ValueError::Message {
            severity,
            message,
            help,
        } = error
        else {
            return;
        };
        let sources = self.sources.borrow();
        let Some(source) = sources.get(at.source) else {
            return;
        };
        let position = source.position(at.start);
        self.diagnostics.borrow_mut().push(Diagnostic {
            severity,
            source: display_name(source),
            line: position.line,
            column: position.column,
            key: show_key(key),
            message,
            help,
            excerpt: SourceExcerpt::default(),
            at,
        });
    }

    /// Returns true if the excerpt shows the name at this position. A variable's text has no names.
    pub(crate) fn shows_name(&self, at: SourceSpan) -> bool {
        let sources = self.sources.borrow();
        let shows = |source: &Source| source.kind() == SourceKind::Variable || source.shows(at.start..at.end);
        sources.get(at.source).is_none_or(shows)
    }

    /// Hides the value of an unknown key, and every value in it. Its name may be known in another table.
    pub(crate) fn hide_value(&self, node: &TreeNode) {
        match &node.value {
            TreeValue::Table(table) => table.iter().for_each(|entry| self.hide_value(&entry.node)),
            TreeValue::List(nodes) => nodes.iter().for_each(|node| self.hide_value(node)),
            _ => self.hidden.borrow_mut().push(node.at),
        }
    }

    /// Records where the value of a key is written, or that its default holds.
    pub fn record_origin(&self, key: &str, at: Option<SourceSpan>) {
        let sources = self.sources.borrow();
        let found = at.and_then(|at| {
            let source = sources.get(at.source)?;
            let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let place = NotePlace::Line {
                source: small(at.source),
                line: small(source.line(at.start)),
            };
            Some((place, source.written(at.start..at.end)))
        });
        let (place, written) = found.unwrap_or((NotePlace::Nowhere, Cow::Borrowed("")));
        self.notes.borrow_mut().add(NotedKey {
            key,
            place,
            written: &written,
        });
    }

    /// Returns true if the user, and not a preset, wrote the value at this position.
    pub(crate) fn is_from_user(&self, at: SourceSpan) -> bool {
        let sources = self.sources.borrow();
        sources
            .get(at.source)
            .is_some_and(|source| source.kind() != SourceKind::Preset)
    }

    /// Marks lines of a source that did not parse. Diagnostics about values in them would concern the
    /// parser's guess and not the written text, so they are dropped.
    pub(crate) fn mark_unreliable(&self, source: usize, lines: RangeInclusive<usize>) {
        self.unreliable.borrow_mut().push((source, lines));
    }

    /// Records a file that holds a part of the configuration.
    pub(crate) fn add_file(&self, path: &str) {
        self.files.borrow_mut().push(PathBuf::from(path));
    }

    /// Records a secret that was read.
    pub(crate) fn add_secret(&self, secret: &SecretString) {
        self.secrets.borrow_mut().push(secret.clone());
    }

    /// Returns the number of diagnostics so far.
    pub(crate) fn count(&self) -> usize {
        self.diagnostics.borrow().len()
    }

    /// Ends the reading. Errors are still among the warnings.
    pub(crate) fn close(self) -> ReadSummary {
        let unreliable = self.unreliable.into_inner();
        let mut diagnostics = self.diagnostics.into_inner();
        // A diagnostic without a key comes from the parser itself.
        diagnostics.retain(|diagnostic| {
            let is_echo = |(source, lines): &(usize, RangeInclusive<usize>)| {
                *source == diagnostic.at.source && lines.contains(&diagnostic.line)
            };
            diagnostic.key.is_empty() || !unreliable.iter().any(is_echo)
        });
        let mut sources = self.sources.into_inner();
        for hidden in self.hidden.into_inner() {
            if let Some(source) = sources.get_mut(hidden.source) {
                source.hide_unknown(hidden.start..hidden.end);
            }
        }
        for Diagnostic { at, excerpt, .. } in &mut diagnostics {
            if let Some(source) = sources.get(at.source) {
                *excerpt = source.excerpt(source.position(at.start).start, at.start..at.end);
            }
        }
        let sources = sources.into_iter().map(|source| (source.kind(), source.into_name()));
        ReadSummary {
            files: self.files.into_inner(),
            secrets: self.secrets.into_inner(),
            warnings: Diagnostics::new(diagnostics),
            origins: ValueOrigins::new(self.notes.into_inner(), sources.collect()),
        }
    }
}

fn display_name(source: &Source) -> String {
    match source.kind() {
        SourceKind::Text | SourceKind::Runtime => source.name().to_owned(),
        SourceKind::Preset => format!("preset {}", source.name()),
        SourceKind::Variable => format!("environment {}", source.name()),
    }
}
