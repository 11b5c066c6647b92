//! Explanations of syntax errors.
//!
//! The parser continues after an error, so that all errors are found. Its result for a broken line is a
//! guess, and so is everything below a broken heading; neither is reported a second time.

use std::ops::{Range, RangeInclusive};

use super::reader::ValueError;
use super::redact::show_name;

/// Returns the parser's message, or a clearer one for common errors.
pub(crate) fn explain_syntax(text: &str, span: Range<usize>, message: &str) -> ValueError {
    let written = text.get(span.clone()).unwrap_or_default();
    if message == "duplicate key" {
        let error = ValueError::new(format!("`{}` is written twice", show_name(written)));
        return error.help("keep one of them");
    }
    if message.starts_with("string values must be quoted") && written.trim().is_empty() {
        let error = ValueError::new("a value is missing");
        return error.help("write one behind the `=`, or take the line out");
    }
    if message.starts_with("string values must be quoted") {
        // The written text is not repeated: it may be a secret.
        let error = ValueError::new("this needs quotes");
        return error.help("texts, times and rates stand in quotes, as in \"10s\" and \"10/s\"");
    }
    ValueError::new(message)
}

/// Returns the lines with unreliable values: the broken line, and below a broken heading all up to the
/// next heading.
pub(crate) fn unreliable_lines(text: &str, offset: usize) -> RangeInclusive<usize> {
    let first = text_before(text, offset).matches('\n').count() + 1;
    if !is_heading(line_at(text, offset)) {
        return first..=first;
    }
    let under = text.lines().skip(first);
    first..=first + under.take_while(|line| !is_heading(line)).count()
}

fn is_heading(line: &str) -> bool {
    line.trim_start().starts_with('[')
}

fn line_at(text: &str, offset: usize) -> &str {
    let start = text_before(text, offset).rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default();
    line.lines().next().unwrap_or_default()
}

fn text_before(text: &str, offset: usize) -> &str {
    let end = text.floor_char_boundary(offset.min(text.len()));
    text.get(..end).unwrap_or_default()
}
