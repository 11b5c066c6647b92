//! One line, field by field.
//!
//! What comes in may be hostile: a path, or a header that a library quotes. Line ends, quotes,
//! terminal escapes and signs that turn the direction of text are written as escapes, in both forms
//! alike. A value is cut at two kilobytes and a line takes no more fields at sixteen, so that a line
//! has a longest, and files can be capped.

use std::fmt::{Display, Write};

use super::LineFormat;

/// A line that is being written.
pub(super) struct LogLine {
    format: LineFormat,
    text: String,
}

impl LogLine {
    pub(super) fn new(format: LineFormat) -> Self {
        let mut text = String::with_capacity(USUAL_LINE);
        if format == LineFormat::Json {
            text.push('{');
        }
        Self { format, text }
    }

    /// Adds a value that needs no quotes in any form: a number, true or false.
    pub(super) fn raw(&mut self, key: &str, value: impl Display) {
        if self.text.len() < LONGEST_LINE {
            self.last(key, value);
        }
    }

    /// Adds a text.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        if self.text.len() >= LONGEST_LINE {
            return;
        }
        self.begin(key);
        let fits = value.floor_char_boundary(LONGEST_VALUE.min(value.len()));
        let shown = value.get(..fits).unwrap_or_default();
        let cut = if fits < value.len() { "…" } else { "" };
        if self.format == LineFormat::Logfmt && !needs_quotes(value) {
            self.text.push_str(shown);
            self.text.push_str(cut);
            return;
        }
        self.text.push('"');
        escape(shown, &mut self.text);
        self.text.push_str(cut);
        self.text.push('"');
    }

    /// Adds a number that every line has, however long it is.
    pub(super) fn last(&mut self, key: &str, value: impl Display) {
        self.begin(key);
        // Writing to a string cannot fail.
        _ = write!(self.text, "{value}");
    }

    /// The line, with its end.
    pub(super) fn finish(mut self) -> String {
        if self.format == LineFormat::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.text
    }

    fn begin(&mut self, key: &str) {
        let is_first = self.text.len() <= 1;
        let (between, quote, is) = match self.format {
            LineFormat::Logfmt => (" ", "", "="),
            LineFormat::Json => (",", "\"", ":"),
        };
        if !is_first {
            self.text.push_str(between);
        }
        self.text.push_str(quote);
        if key.chars().all(is_harmless) {
            self.text.push_str(key);
        } else {
            self.text.extend(key.chars().map(harmless));
        }
        self.text.push_str(quote);
        self.text.push_str(is);
    }
}

/// Keys are ours or were written in a program; whatever else they hold is no part of a key.
fn harmless(c: char) -> char {
    if is_harmless(c) { c } else { '_' }
}

const fn is_harmless(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '-')
}

fn needs_quotes(value: &str) -> bool {
    // Most values are words of ASCII, which is seen without asking what each character is.
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    if value.bytes().all(plain) {
        return value.is_empty();
    }
    let bare = |c: char| !c.is_whitespace() && !matches!(c, '"' | '=' | '\\') && !is_hostile(c);
    value.is_empty() || !value.chars().all(bare)
}

fn escape(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            c if is_hostile(c) => _ = write!(into, "\\u{:04x}", u32::from(c)),
            c => into.push(c),
        }
    }
}

/// Whether a character does something to whoever shows it: control characters of both sets, line and
/// paragraph ends, marks that turn the direction of text or are not seen.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Most lines of ours are shorter.
const USUAL_LINE: usize = 256;
/// Longer than any value that a person reads in a log.
const LONGEST_VALUE: usize = 2_048;
/// Eight of the longest values; a line grows beyond it by at most one value, every character of it
/// escaped.
const LONGEST_LINE: usize = 16 * 1_024;
