//! A text that is read, and how to point into it.
//!
//! A source is a file, a preset or a variable of the environment; all three are pointed into the same
//! way. What is shown of it is not what was read: wherever a text may hold a key, a copy with stars in
//! its place is shown, of the same length so that every position stays true.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use super::diagnostic::Diagnostics;
use super::redact::scrubbed;
use super::unreadable;

/// A text with the name under which its mistakes are reported.
///
/// ```
/// use outflow::config::Source;
///
/// let source = Source::new("outflow.toml", "[apis.stock]\nbase_url = \"https://stock.example\"");
/// assert_eq!(source.name(), "outflow.toml");
/// ```
#[derive(Clone)]
pub struct Source {
    name: String,
    text: String,
    shown: String,
    /// Where each line begins: a large text is asked for thousands of places.
    lines: Vec<usize>,
    kind: SourceKind,
}

/// What a source is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SourceKind {
    Text,
    Preset,
    Variable,
    Runtime,
}

impl Source {
    /// A text of this name, a file's name as a rule.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            name: name.into(),
            shown: scrubbed(&text),
            lines: line_starts(&text),
            text,
            kind: SourceKind::Text,
        }
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If the file cannot be read or is not text.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let name = path.as_ref().display().to_string();
        let bytes = std::fs::read(path).map_err(|error| {
            unreadable(&name, &format!("the file cannot be read: {}", error.kind()))
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            unreadable(
                &name,
                &format!("the file is not text: byte {place} is not UTF-8"),
            )
        })?;
        Ok(Self::new(name, text))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was set while the program runs. It lies over everything, the environment included: who sets
    /// a variable now means it.
    pub(super) fn runtime(text: String) -> Self {
        Self {
            kind: SourceKind::Runtime,
            ..Self::new("runtime", text)
        }
    }

    pub(super) fn preset(name: &str, text: &str) -> Self {
        Self {
            kind: SourceKind::Preset,
            ..Self::new(name, text)
        }
    }

    /// The value of a variable. Its name decides whether the value may be shown.
    pub(super) fn variable(name: &str, value: &str) -> Self {
        let prefix = format!("{} = ", super::redact::last_level(name));
        let line = scrubbed(&format!("{prefix}{value}"));
        Self {
            name: name.to_owned(),
            text: value.to_owned(),
            lines: line_starts(value),
            shown: line.get(prefix.len()..).unwrap_or_default().to_owned(),
            kind: SourceKind::Variable,
        }
    }

    pub(super) fn into_name(self) -> String {
        self.name
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) const fn kind(&self) -> SourceKind {
        self.kind
    }

    /// The line that an offset is in, beginning at 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).max(1)
    }

    /// Where an offset is, with the line it is in.
    pub(super) fn position(&self, offset: usize) -> TextPosition {
        let offset = self.bounded(offset);
        let line = self.line(offset);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = self.shown.get(start..offset).unwrap_or_default();
        TextPosition {
            line,
            column: before.chars().count() + 1,
            start,
        }
    }

    /// The line that begins at `start`, and the part of `span` that is in it.
    pub(super) fn excerpt(&self, start: usize, span: Range<usize>) -> SourceExcerpt {
        let rest = self.shown.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let within = |offset: usize| {
            let bounded = self.bounded(offset).saturating_sub(start);
            line.floor_char_boundary(bounded.min(line.len()))
        };
        let (from, to) = (within(span.start), within(span.end));
        SourceExcerpt {
            line: line.to_owned(),
            span: from..to.max(from),
        }
    }

    /// What was written from here to there, as it may be shown: on one line, and cut where nobody reads
    /// on.
    pub(super) fn written(&self, span: Range<usize>) -> Cow<'_, str> {
        let (from, to) = (self.bounded(span.start), self.bounded(span.end));
        let shown = self.shown.get(from..to).unwrap_or_default();
        if shown.len() <= LONGEST_WRITTEN && !shown.contains(char::is_whitespace) {
            return Cow::Borrowed(shown);
        }
        let words: Vec<_> = shown.split_whitespace().take(LONGEST_WRITTEN).collect();
        let mut line = words.join(" ");
        if line.len() > LONGEST_WRITTEN {
            line.truncate(line.floor_char_boundary(LONGEST_WRITTEN));
            line.push('…');
        }
        line.into()
    }

    fn bounded(&self, offset: usize) -> usize {
        self.shown.floor_char_boundary(offset.min(self.shown.len()))
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(breaks).collect()
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the text: someone may have written a key into it.
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The routes of the largest preset, twice over. Whoever writes more reads it where it is written.
const LONGEST_WRITTEN: usize = 4_096;

/// A place in a text, for people: both numbers begin at 1, and a column is a character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) start: usize,
}

/// One line of a text, and what of it is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SourceExcerpt {
    pub(super) line: String,
    pub(super) span: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // `ü` is two bytes and one column; the carriage return belongs to no line.
    #[test]
    fn a_place_is_told_in_lines_and_characters() {
        let source = Source::new("a", "x = 1\r\nü = 2\r\n");
        let place = source.position(9);
        assert_eq!((place.line, place.column), (2, 2));
        let excerpt = source.excerpt(place.start, 7..9);
        assert_eq!((excerpt.line.as_str(), excerpt.span), ("ü = 2", 0..2));
    }

    #[test]
    fn a_place_beyond_the_end_is_the_end() {
        let source = Source::new("a", "x");
        assert_eq!(source.position(99).column, 2);
        assert_eq!(source.excerpt(0, 50..99).span, 1..1);
    }

    // A list of four lines, and a text of 2,000 bytes.
    #[test]
    fn a_value_is_shown_on_one_line_and_not_without_end() {
        let source = Source::new("a", "x = [\n  1,\n  2,\n]\n");
        assert_eq!(&*source.written(4..18), "[ 1, 2, ]");
        let long = Source::new("a", "ü".repeat(4_000));
        assert!(long.written(0..8_000).len() < 4_200);
    }

    #[test]
    fn neither_debug_nor_a_shown_variable_tells_a_key() {
        let source = Source::variable("OUTFLOW_APIS__STOCK__API_KEY", "sk-live-1");
        assert_eq!(source.excerpt(0, 0..9).line, "*********");
        assert!(!format!("{source:?}").contains("sk-live"));
        let harmless = Source::variable("OUTFLOW_APIS__STOCK__TIMEOUT", "5");
        assert_eq!(harmless.excerpt(0, 0..1).line, "5");
    }
}
