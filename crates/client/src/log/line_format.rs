//! Format of one line.
//!
//! Values may be hostile: a path, or a header that a library quotes. Line ends, quotes, terminal
//! escapes and characters that change the text direction are escaped in both forms. A value is cut
//! at two kilobytes and a line takes no more fields at sixteen, so that lines are bounded and files
//! can be capped.

use std::fmt::{Display, Write};

use super::LineFormat;

/// Line under construction.
pub(super) struct LogLine {
    format: LineFormat,
    text: String,
}

impl LogLine {
    pub(super) fn new(format: LineFormat) -> Self {
        let mut text = String::with_capacity(TYPICAL_LINE);
        if format == LineFormat::Json {
            text.push('{');
        }
        Self { format, text }
    }

    /// Adds a value that needs no quotes in any form: a number or a boolean.
    pub(super) fn push_raw(&mut self, key: &str, value: impl Display) {
        if self.text.len() < MAX_LINE {
            self.push_last(key, value);
        }
    }

    /// Adds a text.
    pub(super) fn push_text(&mut self, key: &str, value: &str) {
        if self.text.len() >= MAX_LINE {
            return;
        }
        self.begin_field(key);
        let fits = value.floor_char_boundary(MAX_VALUE.min(value.len()));
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

    /// Adds a number that every line has, regardless of length.
    pub(super) fn push_last(&mut self, key: &str, value: impl Display) {
        self.begin_field(key);
        // Writing to a string cannot fail.
        _ = write!(self.text, "{value}");
    }

    /// Returns the line with its end.
    pub(super) fn finish(mut self) -> String {
        if self.format == LineFormat::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.text
    }

    fn begin_field(&mut self, key: &str) {
        let is_first = self.text.len() <= 1;
        let (separator, quote, assign) = match self.format {
            LineFormat::Logfmt => (" ", "", "="),
            LineFormat::Json => (",", "\"", ":"),
        };
        if !is_first {
            self.text.push_str(separator);
        }
        self.text.push_str(quote);
        if key.chars().all(is_key_char) {
            self.text.push_str(key);
        } else {
            self.text.extend(key.chars().map(sanitize));
        }
        self.text.push_str(quote);
        self.text.push_str(assign);
    }
}

/// Replaces characters that are not allowed in keys, which come from us or from a program.
fn sanitize(c: char) -> char {
    if is_key_char(c) { c } else { '_' }
}

const fn is_key_char(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '-')
}

fn needs_quotes(value: &str) -> bool {
    // Most values are ASCII words, which a byte check recognises.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    if value.bytes().all(is_plain) {
        return value.is_empty();
    }
    let is_bare = |c: char| !c.is_whitespace() && !matches!(c, '"' | '=' | '\\') && !is_hostile(c);
    value.is_empty() || !value.chars().all(is_bare)
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

/// Returns true if a character affects its display: control characters, line and paragraph ends,
/// invisible marks, and marks that change the text direction.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Most of our lines are shorter.
const TYPICAL_LINE: usize = 256;
/// Longer than any value that a person reads in a log.
const MAX_VALUE: usize = 2_048;
/// Eight of the longest values; a line exceeds it by at most one value with all characters escaped.
const MAX_LINE: usize = 16 * 1_024;
