//! A configuration text and positions in it.
//!
//! A source is a file, a preset, a variable of the environment or the runtime overrides. Excerpts come
//! from a redacted copy of the text, which has the same length so that every position stays valid.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use super::collector::DiagnosticCollector;
use super::diagnostic::Diagnostics;
use super::reader::ValueError;
use super::redact::{cover, is_short_quantity, mask, redact_text, redact_variable};
use super::tree::SourceSpan;

/// A text with the name under which its errors are reported.
///
/// ```
/// use outflow_config::Source;
///
/// let source = Source::new("outflow.toml", "[apis.stock]\nbase_url = \"https://stock.example\"");
/// assert_eq!(source.name(), "outflow.toml");
/// ```
#[derive(Clone)]
pub struct Source {
    name: String,
    text: String,
    redacted: String,
    /// Offset of each line: a large text has thousands of positions to look up.
    line_starts: Vec<usize>,
    kind: SourceKind,
}

/// Kind of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SourceKind {
    Text,
    Preset,
    Variable,
    Runtime,
}

impl Source {
    /// Creates a source from a text and its name, usually a file's.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            name: name.into(),
            redacted: redact_text(&text),
            line_starts: line_starts(&text),
            text,
            kind: SourceKind::Text,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Returns one diagnostic if the file cannot be read or is not UTF-8.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let name = path.as_ref().display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|error| unreadable(&name, &format!("the file cannot be read: {}", error.kind())))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            unreadable(&name, &format!("the file is not text: byte {offset} is not UTF-8"))
        })?;
        Ok(Self::new(name, text))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the source of the runtime overrides. It is the topmost layer, above the environment: an
    /// operator set it last.
    pub(crate) fn runtime(text: String) -> Self {
        Self {
            kind: SourceKind::Runtime,
            ..Self::new("runtime", text)
        }
    }

    /// Creates the source of a preset.
    pub fn preset(name: &str, text: &str) -> Self {
        Self {
            kind: SourceKind::Preset,
            ..Self::new(name, text)
        }
    }

    /// Creates the source of a variable's value, redacted as the value of the key that it sets.
    pub(crate) fn variable(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: value.to_owned(),
            line_starts: line_starts(value),
            redacted: redact_variable(name, value),
            kind: SourceKind::Variable,
        }
    }

    /// Returns true if this is the text of the runtime overrides.
    pub fn is_runtime(&self) -> bool {
        self.kind == SourceKind::Runtime
    }

    pub(crate) fn into_name(self) -> String {
        self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) const fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Returns the line of an offset, beginning at 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).max(1)
    }

    /// Returns the position of an offset.
    pub(crate) fn position(&self, offset: usize) -> TextPosition {
        let offset = self.bounded(offset);
        let line = self.line(offset);
        let start = self.line_starts.get(line - 1).copied().unwrap_or_default();
        let before = self.redacted.get(start..offset).unwrap_or_default();
        TextPosition {
            line,
            column: before.chars().count() + 1,
            start,
        }
    }

    /// Returns the line that begins at `start`, and the part of `span` in it.
    pub(crate) fn excerpt(&self, start: usize, span: Range<usize>) -> SourceExcerpt {
        let rest = self.redacted.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let within = |offset: usize| {
            let bounded = self.bounded(offset).saturating_sub(start);
            line.floor_char_boundary(bounded.min(line.len()))
        };
        // A comment left blanks: their number is not shown either.
        let shown = mask(line).trim_end().to_owned();
        let place = |offset| {
            mask(line.get(..within(offset)).unwrap_or_default())
                .len()
                .min(shown.len())
        };
        let (from, to) = (place(span.start), place(span.end));
        SourceExcerpt {
            span: from..to.max(from),
            line: shown,
        }
    }

    /// Returns the redacted text of a span on one line, shortened to [`MAX_WRITTEN`] bytes.
    pub(crate) fn written(&self, span: Range<usize>) -> Cow<'_, str> {
        let (from, to) = (self.bounded(span.start), self.bounded(span.end));
        let covered = self.redacted.get(from..to).unwrap_or_default();
        let shown = mask(covered);
        if shown == covered && shown.len() <= MAX_WRITTEN && !shown.contains(char::is_whitespace) {
            return Cow::Borrowed(covered);
        }
        let words: Vec<_> = shown.split_whitespace().take(MAX_WRITTEN).collect();
        let mut line = words.join(" ");
        if line.len() > MAX_WRITTEN {
            line.truncate(line.floor_char_boundary(MAX_WRITTEN));
            line.push('…');
        }
        line.into()
    }

    /// Returns true if no part of the span is covered.
    pub(crate) fn shows(&self, span: Range<usize>) -> bool {
        let written = self.redacted.get(span).unwrap_or_default();
        mask(written) == written
    }

    /// Covers the value of an unknown key, unless it is a short quantity.
    pub(crate) fn hide_unknown(&mut self, span: Range<usize>) {
        let Some(written) = self.redacted.get(span.clone()) else {
            return;
        };
        if !is_short_quantity(written.trim_matches(['"', '\''])) {
            let covered = cover(written);
            self.redacted.replace_range(span, &covered);
        }
    }

    fn bounded(&self, offset: usize) -> usize {
        self.redacted.floor_char_boundary(offset.min(self.redacted.len()))
    }
}

/// Returns the one diagnostic of a text that could not be read.
fn unreadable(name: &str, message: &str) -> Diagnostics {
    let collector = DiagnosticCollector::default();
    collector.add_source(Source::new(name, ""));
    let error = ValueError::new(message).help("give the name of a TOML file");
    collector.report(SourceSpan::default(), "", error);
    collector.close().warnings
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(breaks).collect()
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may contain a key.
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Twice the routes of the largest preset.
const MAX_WRITTEN: usize = 4_096;

/// A position in a text: line and column begin at 1, and a column is a character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TextPosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) start: usize,
}

/// One line of a text, and the marked part of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SourceExcerpt {
    pub(crate) line: String,
    pub(crate) span: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // `ü` is two bytes and one column; the carriage return belongs to no line.
    #[test]
    fn a_position_counts_lines_and_characters() {
        let source = Source::new("a", "x = 1\r\nü = 2\r\n");
        let position = source.position(9);
        assert_eq!((position.line, position.column), (2, 2));
        let excerpt = source.excerpt(position.start, 7..9);
        assert_eq!((excerpt.line.as_str(), excerpt.span), ("ü = *****", 0..2));
    }

    #[test]
    fn a_position_beyond_the_end_is_the_end() {
        let source = Source::new("a", "dir");
        assert_eq!(source.position(99).column, 4);
        assert_eq!(source.excerpt(0, 50..99).span, 3..3);
    }

    // A list of four lines, and a text of 2,000 bytes.
    #[test]
    fn a_shown_value_has_one_line_and_a_maximum_length() {
        let source = Source::new("a", "max = [\n  1,\n  2,\n]\n");
        assert_eq!(&*source.written(6..20), "[ 1, 2, ]");
        let long = Source::new("a", "ü".repeat(4_000));
        assert!(long.written(0..8_000).len() < 4_200);
    }

    // The span before, over and behind a covered part of any length; the comment leaves no trace.
    #[test]
    fn a_span_moves_with_the_masks_before_it() {
        for key in ["abc", "a-longer-key"] {
            let text = format!("cache = {{ key = \"{key}\", max = 1 }} # {key}");
            let source = Source::new("a", text.clone());
            let spans = [
                0..5,
                10..13,
                16..18 + key.len(),
                text.find("max = 1").expect("there")..text.len(),
            ];
            let excerpts = spans.map(|span| source.excerpt(0, span));
            assert!(
                excerpts
                    .iter()
                    .all(|one| one.line == "cache = { key = *****, max = 1 }"),
                "{excerpts:?}"
            );
            assert_eq!(excerpts.map(|one| one.span), [0..5, 10..13, 16..21, 23..32]);
        }
    }

    #[test]
    fn neither_debug_nor_a_shown_variable_contains_a_key() {
        let source = Source::variable("OUTFLOW_APIS__STOCK__API_KEY", "sk-live-1");
        assert_eq!(source.excerpt(0, 0..9).line, "*****");
        assert!(!format!("{source:?}").contains("sk-live"));
        let harmless = Source::variable("OUTFLOW_APIS__STOCK__TIMEOUT", "5");
        assert_eq!(harmless.excerpt(0, 0..1).line, "5");
    }
}
