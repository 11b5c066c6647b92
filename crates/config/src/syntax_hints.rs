//! What a text that does not parse was probably meant to be.
//!
//! The parser goes on after a mistake, so that all of them are found. What it makes of a broken line is a
//! guess, and so is everything under a broken heading; neither is complained about a second time.

use std::ops::{Range, RangeInclusive};

use super::reader::{ValueError, printable};

/// What the parser says, in our words where it says little.
pub(super) fn explain_syntax(text: &str, span: Range<usize>, message: &str) -> ValueError {
    let written = text.get(span.clone()).unwrap_or_default();
    if message == "duplicate key" {
        let wrong = ValueError::new(format!("`{}` is written twice", printable(written)));
        return wrong.help("keep one of them");
    }
    if message.starts_with("string values must be quoted") && written.trim().is_empty() {
        let wrong = ValueError::new("a value is missing");
        return wrong.help("write one behind the `=`, or take the line out");
    }
    if message.starts_with("string values must be quoted") {
        // What was written is not repeated: it may be a key.
        let wrong = ValueError::new("this needs quotes");
        return wrong.help("texts, times and rates stand in quotes, as in \"10s\" and \"10/s\"");
    }
    ValueError::new(message)
}

/// The lines of which nothing is known for sure: the broken one, and after a broken heading all up to the
/// next.
pub(super) fn doubtful_lines(text: &str, offset: usize) -> RangeInclusive<usize> {
    let first = before(text, offset).matches('\n').count() + 1;
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
    let start = before(text, offset).rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default();
    line.lines().next().unwrap_or_default()
}

fn before(text: &str, offset: usize) -> &str {
    let end = text.floor_char_boundary(offset.min(text.len()));
    text.get(..end).unwrap_or_default()
}
