//! What is gathered while a configuration is read: its sources, mistakes and origins.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::provenance::ValueOrigins;
use super::reader::ValueError;
use super::source::{Source, SourceKind};
use super::tree::SourceSpan;
use super::value_notes::{KeyNotes, NotePlace, NotedKey};

/// Everything that reading leaves behind besides its values.
#[derive(Debug, Default)]
pub(super) struct DiagnosticCollector {
    sources: RefCell<Vec<Source>>,
    mistakes: RefCell<Vec<Diagnostic>>,
    notes: RefCell<KeyNotes>,
    doubtful: RefCell<Vec<(usize, RangeInclusive<usize>)>>,
    files: RefCell<Vec<PathBuf>>,
}

impl DiagnosticCollector {
    /// Takes a source in and answers its number.
    pub(super) fn add(&self, source: Source) -> usize {
        let mut sources = self.sources.borrow_mut();
        sources.push(source);
        sources.len() - 1
    }

    /// Notes what is wrong at a place.
    pub(super) fn report(&self, at: SourceSpan, key: &str, wrong: ValueError) {
        let ValueError::Said {
            severity,
            message,
            help,
        } = wrong
        else {
            return;
        };
        let sources = self.sources.borrow();
        let Some(source) = sources.get(at.source) else {
            return;
        };
        let position = source.position(at.start);
        self.mistakes.borrow_mut().push(Diagnostic {
            severity,
            source: shown_name(source),
            line: position.line,
            column: position.column,
            key: key.to_owned(),
            message,
            help,
            excerpt: source.excerpt(position.start, at.start..at.end),
            order: (at.source, at.start),
        });
    }

    /// Notes where the value of a key came from, and how it was written there.
    pub(super) fn note(&self, key: &str, at: Option<SourceSpan>) {
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

    /// True if the value at a place was written by the user and not by a preset.
    pub(super) fn is_own(&self, at: SourceSpan) -> bool {
        let sources = self.sources.borrow();
        sources
            .get(at.source)
            .is_some_and(|source| source.kind() != SourceKind::Preset)
    }

    /// Lines of a source that did not parse. What is said of values in them is said of what the parser
    /// made of them and not of what was written, so it is not told.
    pub(super) fn doubt(&self, source: usize, lines: RangeInclusive<usize>) {
        self.doubtful.borrow_mut().push((source, lines));
    }

    /// Notes a file that holds a part of the configuration.
    pub(super) fn read_file(&self, path: &str) {
        self.files.borrow_mut().push(PathBuf::from(path));
    }

    /// Every such file.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.take()
    }

    /// What was gathered, in two parts.
    pub(super) fn close(self) -> (Diagnostics, ValueOrigins) {
        let doubtful = self.doubtful.into_inner();
        let mut mistakes = self.mistakes.into_inner();
        // What is about no key was said by the parser itself.
        mistakes.retain(|mistake| {
            let is_echo = |(source, lines): &(usize, RangeInclusive<usize>)| {
                *source == mistake.order.0 && lines.contains(&mistake.line)
            };
            mistake.key.is_empty() || !doubtful.iter().any(is_echo)
        });
        let sources = self.sources.into_inner().into_iter();
        let sources = sources.map(|source| (source.kind(), source.into_name()));
        let origins = ValueOrigins::new(self.notes.into_inner(), sources.collect());
        (Diagnostics::new(mistakes), origins)
    }

    pub(super) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }
}

fn shown_name(source: &Source) -> String {
    match source.kind() {
        SourceKind::Text | SourceKind::Runtime => source.name().to_owned(),
        SourceKind::Preset => format!("preset {}", source.name()),
        SourceKind::Variable => format!("environment {}", source.name()),
    }
}
