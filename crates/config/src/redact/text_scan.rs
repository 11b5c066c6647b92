//! Finds the parts of a written configuration that no message may quote.
//!
//! It works on the text and not on parsed values, because a diagnostic may show a line that does not parse.
//! It is more tolerant than the parser and prefers hiding too much: a user finds the line by its number.
//! Lists and tables keep the kind of their key over any number of lines, a heading keeps it for its section.

use std::mem;
use std::ops::Range;

use super::COVER;
use super::known_name::NameKind;
use super::plain_text::{is_plain_name, is_plain_value, is_short_quantity, is_variable_name};

/// Returns the spans to hide, in order.
pub(super) fn find_hidden(text: &str) -> Vec<HiddenSpan> {
    let mut scan = TextScan::new(text);
    while scan.at < text.len() {
        let before = scan.at;
        match scan.open.last().copied() {
            None => scan.statement(),
            Some(open) => scan.member(open),
        }
        // Each step takes at least one character.
        if scan.at == before {
            scan.skip_char();
        }
    }
    scan.hidden
}

/// Returns true if a message may quote the value of a name of this kind.
pub(super) fn may_show(kind: NameKind, value: &str) -> bool {
    match kind {
        NameKind::Plain | NameKind::Rules => is_plain_value(value),
        NameKind::Table | NameKind::Entries | NameKind::Misspelt => is_short_quantity(value),
        NameKind::Variable => is_variable_name(value),
        NameKind::File => value.contains(['/', '.']) && is_plain_value(value),
        NameKind::Placement => value == "bearer",
        NameKind::Secret => value.is_empty(),
    }
}

/// A part of the text, and what replaces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HiddenSpan {
    pub(super) span: Range<usize>,
    pub(super) cover: char,
}

/// A list or a table whose end is not reached.
#[derive(Clone, Copy, Debug)]
enum OpenValue {
    List(NameKind),
    Table(NameKind),
}

struct TextScan<'t> {
    text: &'t str,
    at: usize,
    heading: NameKind,
    /// A line ended after its equals sign, so the next one may be its value.
    awaits_value: bool,
    open: Vec<OpenValue>,
    hidden: Vec<HiddenSpan>,
}

impl<'t> TextScan<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            heading: NameKind::Table,
            awaits_value: false,
            open: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Takes a heading, an assignment or a line that is neither.
    fn statement(&mut self) {
        self.skip(char::is_whitespace);
        match self.next_char() {
            None => {}
            Some('#') => self.comment(),
            Some(_) if mem::take(&mut self.awaits_value) && !self.is_at_known_name() => self.hidden_line(),
            Some('[') => self.heading_line(),
            Some(_) => match self.find("=", "\n#") {
                Some(equals) => {
                    let kind = self.assigned_name(equals, self.heading);
                    self.value(kind);
                    if self.open.is_empty() {
                        self.rest_of_line();
                    }
                }
                None => self.line_without_equals(),
            },
        }
    }

    /// Takes one member of a list or a table, its end, or what separates members.
    fn member(&mut self, open: OpenValue) {
        self.skip(|c| c.is_whitespace() || c == ',');
        match (self.next_char(), open) {
            (None, _) => {}
            (Some('#'), _) => self.comment(),
            (Some(']' | '}'), _) => self.close(),
            (Some('['), _) if self.is_at_heading() => self.heading_line(),
            (Some(_), OpenValue::List(kind)) => self.value(kind),
            (Some(_), OpenValue::Table(kind)) => {
                let equals = self.find("=", "\n#,[]{}");
                // A member without a name may be the value of the line before.
                let kind = equals.map_or(NameKind::Secret, |equals| self.assigned_name(equals, kind));
                self.value(kind);
            }
        }
    }

    /// Takes the name before an equals sign, and returns the kind of its value.
    fn assigned_name(&mut self, equals: usize, outer: NameKind) -> NameKind {
        let kind = self.names(equals, outer);
        self.at += 1;
        kind
    }

    /// Takes a dotted name, and returns the kind of its last part.
    fn names(&mut self, end: usize, outer: NameKind) -> NameKind {
        let mut kind = outer;
        for part in name_parts(self.text, self.at..end) {
            let name = unquoted(self.text.get(part.clone()).unwrap_or_default());
            kind = kind.within(name);
            if !is_plain_name(name) {
                self.hide(part);
            }
        }
        self.at = end;
        kind
    }

    /// Takes a value, or the beginning of a list or a table.
    fn value(&mut self, kind: NameKind) {
        self.skip(|c| c == ' ' || c == '\t' || c == '\r');
        let rest = self.rest();
        match self.next_char() {
            Some('[') => {
                self.open.push(OpenValue::List(kind));
                self.at += 1;
            }
            Some('{') => {
                self.open.push(OpenValue::Table(kind));
                self.at += 1;
            }
            Some('"') if rest.starts_with("\"\"\"") => self.long_text("\"\"\""),
            Some('\'') if rest.starts_with("'''") => self.long_text("'''"),
            Some(quote @ ('"' | '\'')) => self.quoted_text(quote, kind),
            Some('\n' | '#') | None => self.awaits_value = self.open.is_empty(),
            Some(_) => self.bare_text(kind),
        }
    }

    /// Hides a text of several lines: no value that needs a message has several.
    fn long_text(&mut self, quotes: &str) {
        let start = self.at;
        let inner = self.rest().get(quotes.len()..).unwrap_or_default();
        let len = inner.find(quotes).map_or(inner.len(), |end| end + quotes.len());
        self.at += quotes.len() + len;
        self.hide(start..self.at);
    }

    /// Takes a text up to its second quote or the end of the line.
    fn quoted_text(&mut self, quote: char, kind: NameKind) {
        let start = self.at;
        let end = quoted_end(self.rest(), quote);
        self.at += end;
        let written = self.text.get(start..self.at).unwrap_or_default();
        let content = written.get(1..).unwrap_or_default();
        let content = content.strip_suffix(quote).unwrap_or(content);
        if !may_show(kind, content) {
            self.hide(start..self.at);
        }
    }

    /// Takes a number, a boolean or a text without quotes.
    fn bare_text(&mut self, kind: NameKind) {
        let ends: &[char] = if self.open.is_empty() {
            &['\n', '#']
        } else {
            &['\n', '#', ',', ']', '}']
        };
        let rest = self.rest();
        let len = rest.find(ends).unwrap_or(rest.len());
        let (start, written) = (self.at, rest.get(..len).unwrap_or_default());
        self.at += len;
        if !may_show(kind, written.trim()) {
            self.hide(start..start + written.trim_end().len());
        }
    }

    /// Takes what follows a value in its line, and shows no word of it: it belongs to no key.
    fn rest_of_line(&mut self) {
        self.skip(|c| c == ' ' || c == '\t' || c == '\r');
        match self.next_char() {
            None | Some('\n') => {}
            Some('#') => self.comment(),
            Some(_) => {
                let start = self.at;
                self.skip(|c| c != '\n');
                let written = self.text.get(start..self.at).unwrap_or_default();
                if written.contains(char::is_alphanumeric) {
                    self.hide(start..self.at);
                }
            }
        }
    }

    fn hidden_line(&mut self) {
        let start = self.at;
        self.skip(|c| c != '\n');
        self.hide(start..self.at);
    }

    /// Takes a line such as `api_key: abc`: the rest of it belongs to its first word. A word alone is shown if
    /// it is a known name.
    fn line_without_equals(&mut self) {
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or_default();
        let named = line.trim_start_matches(['"', '\'']);
        let start = self.at + line.len() - named.len();
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '.';
        let len = named.find(|c| !is_name(c)).unwrap_or(named.len());
        let (name, after) = named.split_at(len);
        let kind = name.split('.').fold(self.heading, NameKind::within);
        let value = after.trim_matches([' ', '\t', ':', '"', '\'', '\r']);
        let end = self.at + line.len();
        // In `"abc"` the second quote ends the name; in `abc "x"` a quote begins a value.
        let unquoted = if named == line {
            after
        } else {
            after.get(1..).unwrap_or_default()
        };
        let has_value = unquoted.trim_start().starts_with([':', '"', '\'']);
        let is_key =
            is_plain_name(name) && name.starts_with(char::is_alphabetic) && (has_value || kind != NameKind::Secret);
        if !is_key {
            self.hide(start..end);
        } else if !value.is_empty() && !may_show(kind, value) {
            self.hide(start + len..end);
        }
        self.at = end;
    }

    /// Takes a heading, which ends what is open.
    fn heading_line(&mut self) {
        self.open.clear();
        self.skip(|c| c == '[');
        let line_end = self.at + self.rest().find('\n').unwrap_or(self.rest().len());
        let end = self.find("]", "\n").unwrap_or(line_end);
        self.heading = self.names(end, NameKind::Table);
        self.skip(|c| c == ']');
        self.rest_of_line();
    }

    fn comment(&mut self) {
        let start = self.at;
        self.skip(|c| c != '\n');
        self.blank(start..self.at);
    }

    fn close(&mut self) {
        self.open.pop();
        self.at += 1;
        if self.open.is_empty() {
            self.rest_of_line();
        }
    }

    /// Returns true at the beginning of a line that is a heading of bare names: no list has such an item.
    fn is_at_heading(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        if !before.trim_end_matches([' ', '\t']).ends_with('\n') {
            return false;
        }
        let line = self.rest().split('\n').next().unwrap_or_default().trim();
        let inner = line.trim_start_matches('[').trim_end_matches(']');
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        line.ends_with(']') && inner.starts_with(|c: char| c.is_ascii_alphabetic()) && inner.chars().all(is_name)
    }

    /// Returns true at a heading or an assignment with a known first name.
    fn is_at_known_name(&self) -> bool {
        let rest = self.rest();
        let (names, outer, end) = match rest.strip_prefix('[') {
            Some(names) => (names, NameKind::Table, self.find("]", "\n")),
            None => (rest, self.heading, self.find("=", "\n#")),
        };
        let names = names.trim_start_matches('[');
        let first = names.split(['.', '=', ']', '\n']).next().unwrap_or_default();
        end.is_some() && !matches!(outer.within(unquoted(first)), NameKind::Secret | NameKind::Misspelt)
    }

    /// Returns the place of a character outside of quotes, before one of these ends.
    fn find(&self, wanted: &str, ends: &str) -> Option<usize> {
        let rest = self.rest();
        let mut at = 0;
        while let Some(c) = rest.get(at..)?.chars().next() {
            match c {
                c if wanted.contains(c) => return Some(self.at + at),
                c if ends.contains(c) => return None,
                '"' | '\'' => at += quoted_end(rest.get(at..)?, c),
                c => at += c.len_utf8(),
            }
        }
        None
    }

    fn hide(&mut self, span: Range<usize>) {
        self.hidden.push(HiddenSpan { span, cover: COVER });
    }

    /// Removes a comment: it helps with no error, and it may hold what was commented out.
    fn blank(&mut self, span: Range<usize>) {
        self.hidden.push(HiddenSpan { span, cover: ' ' });
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !is_skipped(c)).unwrap_or(rest.len());
    }

    fn skip_char(&mut self) {
        self.at += self.next_char().map_or(1, char::len_utf8);
    }
}

/// Returns the length of a quoted text, up to its second quote or the end of the line.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return at,
            '\\' if quote == '"' => is_escaped = !is_escaped,
            c if c == quote && !is_escaped => return at + 1,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Returns the parts of a dotted name.
fn name_parts(text: &str, span: Range<usize>) -> Vec<Range<usize>> {
    let name = text.get(span.clone()).unwrap_or_default();
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = name.get(at..).and_then(|rest| rest.chars().next()) {
        match c {
            '"' | '\'' => at += quoted_end(name.get(at..).unwrap_or_default(), c),
            '.' => {
                parts.push(from..at);
                at += 1;
                from = at;
            }
            c => at += c.len_utf8(),
        }
    }
    parts.push(from..name.len());
    let placed = |part: Range<usize>| {
        let written = name.get(part.clone()).unwrap_or_default();
        let start = span.start + part.start + written.len() - written.trim_start().len();
        start..start + written.trim().len()
    };
    parts.into_iter().map(placed).collect()
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches(['"', '\''])
}
