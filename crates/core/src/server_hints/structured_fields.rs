//! Structured fields (RFC 9651), limited to the parts that rate limits need.
//!
//! A field is a list or a dictionary of members, each a bare value with parameters. The drafts of
//! `RateLimit` changed from one to the other, so this reads both. It stores nothing: members are
//! returned one after the other, straight from the bytes. Inner lists, dates and display strings
//! are rejected, because no draft uses them.

use crate::byte_cursor::{ByteCursor, parse_whole};

/// Bare value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BareItem<'a> {
    /// A whole, non-negative number.
    Whole(u64),
    /// A string or a token.
    Name(&'a [u8]),
    /// Anything else: a fraction, a negative number, bytes, a boolean.
    Other,
}

/// Member of a list or dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldMember<'a> {
    /// Its key in a dictionary.
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: BareItem<'a>,
    params: ByteCursor<'a>,
}

impl<'a> FieldMember<'a> {
    /// Returns the last parameter of that name, as the standard requires.
    pub(super) fn param(&self, name: &[u8]) -> Option<BareItem<'a>> {
        let mut cursor = self.params;
        let mut found = None;
        while let Some((key, value)) = param(&mut cursor) {
            if key == name {
                found = Some(value);
            }
        }
        found
    }
}

/// Returns the members of a field, or `None` if any part is malformed: half a field is not trusted.
pub(super) fn members(value: &[u8]) -> Option<impl Iterator<Item = FieldMember<'_>>> {
    let members = MemberIter {
        cursor: ByteCursor::new(crate::byte_cursor::trim_blanks(value)),
        state: ParseState::Start,
    };
    let mut check = members.clone();
    let wellformed = check.by_ref().count() > 0 && check.state == ParseState::Done;
    wellformed.then_some(members)
}

#[derive(Clone, Copy, PartialEq)]
enum ParseState {
    Start,
    Between,
    Done,
    Broken,
}

#[derive(Clone)]
struct MemberIter<'a> {
    cursor: ByteCursor<'a>,
    state: ParseState,
}

impl<'a> Iterator for MemberIter<'a> {
    type Item = FieldMember<'a>;

    fn next(&mut self) -> Option<FieldMember<'a>> {
        match self.state {
            ParseState::Done | ParseState::Broken => return None,
            ParseState::Between if self.cursor.is_done() => {
                self.state = ParseState::Done;
                return None;
            }
            ParseState::Start | ParseState::Between => {}
        }
        let read = self.member();
        self.state = if read.is_some() {
            ParseState::Between
        } else {
            ParseState::Broken
        };
        read
    }
}

impl<'a> MemberIter<'a> {
    fn member(&mut self) -> Option<FieldMember<'a>> {
        if self.state == ParseState::Between {
            self.cursor.blanks();
            self.cursor.text(b",")?;
            self.cursor.blanks();
        }
        let key = dictionary_key(&mut self.cursor);
        let value = bare(&mut self.cursor)?;
        let params = self.cursor;
        while self.cursor.peek() == Some(b';') {
            param(&mut self.cursor)?;
        }
        Some(FieldMember { key, value, params })
    }
}

/// Parses `limit=`, only if the `=` is there.
fn dictionary_key<'a>(cursor: &mut ByteCursor<'a>) -> Option<&'a [u8]> {
    let mut ahead = *cursor;
    let key = key(&mut ahead)?;
    ahead.text(b"=")?;
    *cursor = ahead;
    Some(key)
}

/// Parses `;w=60`, or `;flag`, which means true.
fn param<'a>(cursor: &mut ByteCursor<'a>) -> Option<(&'a [u8], BareItem<'a>)> {
    cursor.text(b";")?;
    cursor.blanks();
    let key = key(cursor)?;
    match cursor.text(b"=") {
        Some(()) => Some((key, bare(cursor)?)),
        None => Some((key, BareItem::Other)),
    }
}

fn key<'a>(cursor: &mut ByteCursor<'a>) -> Option<&'a [u8]> {
    let key = cursor.run(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
    let first = key.first()?;
    (first.is_ascii_lowercase() || *first == b'*').then_some(key)
}

fn bare<'a>(cursor: &mut ByteCursor<'a>) -> Option<BareItem<'a>> {
    match cursor.peek()? {
        b'"' => string(cursor),
        b':' => bytes(cursor),
        b'?' => boolean(cursor),
        b'-' | b'0'..=b'9' => number(cursor),
        b'*' | b'a'..=b'z' | b'A'..=b'Z' => Some(BareItem::Name(cursor.run(is_token))),
        _ => None,
    }
}

/// Parses a quoted string and leaves escapes as they are: a name with escapes is rejected later.
fn string<'a>(cursor: &mut ByteCursor<'a>) -> Option<BareItem<'a>> {
    cursor.text(b"\"")?;
    let mut ahead = *cursor;
    let mut length = 0_usize;
    loop {
        length += ahead.run(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\').len();
        match ahead.byte(|b| matches!(b, b'"' | b'\\'))? {
            b'"' => break,
            _ => ahead.byte(|b| matches!(b, b'"' | b'\\'))?,
        };
        length += 2;
    }
    let inside = cursor.take(length)?;
    cursor.text(b"\"")?;
    Some(BareItem::Name(inside))
}

fn bytes<'a>(cursor: &mut ByteCursor<'a>) -> Option<BareItem<'a>> {
    cursor.text(b":")?;
    cursor.run(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    cursor.text(b":")?;
    Some(BareItem::Other)
}

fn boolean<'a>(cursor: &mut ByteCursor<'a>) -> Option<BareItem<'a>> {
    cursor.text(b"?")?;
    cursor.byte(|b| matches!(b, b'0' | b'1'))?;
    Some(BareItem::Other)
}

fn number<'a>(cursor: &mut ByteCursor<'a>) -> Option<BareItem<'a>> {
    let negative = cursor.text(b"-").is_some();
    let digits = parse_whole(cursor.run(|b| b.is_ascii_digit()))?;
    if cursor.text(b".").is_some() {
        let fraction = cursor.run(|b| b.is_ascii_digit());
        return (!fraction.is_empty()).then_some(BareItem::Other);
    }
    Some(if negative {
        BareItem::Other
    } else {
        BareItem::Whole(digits)
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn lists_and_dictionaries_parse_equally() {
        let read: Vec<_> = members(b"\"burst\";q=100;w=60 ,\tdaily;q=5;pk=:YQ==:;x, 7;w=1")
            .expect("well formed")
            .map(|m| (m.value, m.param(b"q"), m.param(b"w")))
            .collect();
        let parse_whole = |n| Some(BareItem::Whole(n));
        assert_eq!(
            read,
            [
                (BareItem::Name(b"burst"), parse_whole(100), parse_whole(60)),
                (BareItem::Name(b"daily"), parse_whole(5), None),
                (BareItem::Whole(7), None, parse_whole(1)),
            ]
        );
        let keys: Vec<_> = members(b"limit=100, remaining=50,reset=5")
            .expect("well formed")
            .map(|m| (m.key, m.value))
            .collect();
        assert_eq!(keys[1], (Some(&b"remaining"[..]), BareItem::Whole(50)));
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn a_partly_malformed_field_is_refused() {
        for bad in [
            "",
            ",",
            "1,",
            "1 2",
            "\"open",
            "\"bad\\x\"",
            "a;",
            "a;=1",
            "a;W=1",
            "(1 2)",
            ":YQ",
            "1;w=",
            "1.",
            "-",
            "@1",
            "a=1 b=2",
            "18446744073709551616",
            "\u{e9}",
            "?2",
        ] {
            assert!(members(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn an_escape_does_not_end_a_string() {
        let mut read = members(br#""a\"b\\";q=1"#).expect("well formed");
        let member = read.next().expect("one member");
        assert_eq!(member.value, BareItem::Name(br#"a\"b\\"#));
        assert_eq!(member.param(b"q"), Some(BareItem::Whole(1)));
    }

    #[test]
    fn the_last_of_equal_parameters_counts() {
        let mut read = members(b"a;q=1;q=2").expect("well formed");
        assert_eq!(read.next().and_then(|m| m.param(b"q")), Some(BareItem::Whole(2)));
    }
}
