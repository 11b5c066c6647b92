//! Structured fields (RFC 9651), as much of them as rate limits need.
//!
//! A field is a list or a dictionary of members, each a bare value with parameters. This reads both
//! as one thing, since the drafts of `RateLimit` changed from one to the other, and keeps nothing:
//! members are handed out one after the other, straight from the bytes. Inner lists, dates and
//! display strings are refused, for no draft uses them.

use crate::scan::{Scan, whole};

/// A bare value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bare<'a> {
    /// A whole number that is not negative.
    Whole(u64),
    /// A string or a token.
    Name(&'a [u8]),
    /// Anything else: a fraction, a negative number, bytes, a boolean.
    Other,
}

/// One member of a list or dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    /// Its key in a dictionary.
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Bare<'a>,
    params: Scan<'a>,
}

impl<'a> Member<'a> {
    /// The last parameter of that name, as the standard has it.
    pub(super) fn param(&self, name: &[u8]) -> Option<Bare<'a>> {
        let mut scan = self.params;
        let mut found = None;
        while let Some((key, value)) = param(&mut scan) {
            if key == name {
                found = Some(value);
            }
        }
        found
    }
}

/// The members of a field, or `None` if any of it is malformed: half a field is not trusted.
pub(super) fn members(value: &[u8]) -> Option<impl Iterator<Item = Member<'_>>> {
    let members = Members {
        scan: Scan::new(crate::scan::trimmed(value)),
        state: State::Start,
    };
    let mut check = members.clone();
    let wellformed = check.by_ref().count() > 0 && check.state == State::Done;
    wellformed.then_some(members)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Start,
    Between,
    Done,
    Broken,
}

#[derive(Clone)]
struct Members<'a> {
    scan: Scan<'a>,
    state: State,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        match self.state {
            State::Done | State::Broken => return None,
            State::Between if self.scan.is_done() => {
                self.state = State::Done;
                return None;
            }
            State::Start | State::Between => {}
        }
        let read = self.member();
        self.state = if read.is_some() {
            State::Between
        } else {
            State::Broken
        };
        read
    }
}

impl<'a> Members<'a> {
    fn member(&mut self) -> Option<Member<'a>> {
        if self.state == State::Between {
            self.scan.blanks();
            self.scan.text(b",")?;
            self.scan.blanks();
        }
        let key = dictionary_key(&mut self.scan);
        let value = bare(&mut self.scan)?;
        let params = self.scan;
        while self.scan.peek() == Some(b';') {
            param(&mut self.scan)?;
        }
        Some(Member { key, value, params })
    }
}

/// `limit=`, taken only if the `=` is there.
fn dictionary_key<'a>(scan: &mut Scan<'a>) -> Option<&'a [u8]> {
    let mut ahead = *scan;
    let key = key(&mut ahead)?;
    ahead.text(b"=")?;
    *scan = ahead;
    Some(key)
}

/// `;w=60`, or `;flag` which is as good as true.
fn param<'a>(scan: &mut Scan<'a>) -> Option<(&'a [u8], Bare<'a>)> {
    scan.text(b";")?;
    scan.blanks();
    let key = key(scan)?;
    match scan.text(b"=") {
        Some(()) => Some((key, bare(scan)?)),
        None => Some((key, Bare::Other)),
    }
}

fn key<'a>(scan: &mut Scan<'a>) -> Option<&'a [u8]> {
    let key = scan.run(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
    let first = key.first()?;
    (first.is_ascii_lowercase() || *first == b'*').then_some(key)
}

fn bare<'a>(scan: &mut Scan<'a>) -> Option<Bare<'a>> {
    match scan.peek()? {
        b'"' => string(scan),
        b':' => bytes(scan),
        b'?' => boolean(scan),
        b'-' | b'0'..=b'9' => number(scan),
        b'*' | b'a'..=b'z' | b'A'..=b'Z' => Some(Bare::Name(scan.run(is_token))),
        _ => None,
    }
}

/// What is between the quotes, escapes left as they are: a name with escapes is refused later.
fn string<'a>(scan: &mut Scan<'a>) -> Option<Bare<'a>> {
    scan.text(b"\"")?;
    let mut ahead = *scan;
    let mut length = 0_usize;
    loop {
        length += ahead
            .run(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\')
            .len();
        match ahead.byte(|b| matches!(b, b'"' | b'\\'))? {
            b'"' => break,
            _ => ahead.byte(|b| matches!(b, b'"' | b'\\'))?,
        };
        length += 2;
    }
    let inside = scan.take(length)?;
    scan.text(b"\"")?;
    Some(Bare::Name(inside))
}

fn bytes<'a>(scan: &mut Scan<'a>) -> Option<Bare<'a>> {
    scan.text(b":")?;
    scan.run(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    scan.text(b":")?;
    Some(Bare::Other)
}

fn boolean<'a>(scan: &mut Scan<'a>) -> Option<Bare<'a>> {
    scan.text(b"?")?;
    scan.byte(|b| matches!(b, b'0' | b'1'))?;
    Some(Bare::Other)
}

fn number<'a>(scan: &mut Scan<'a>) -> Option<Bare<'a>> {
    let negative = scan.text(b"-").is_some();
    let digits = whole(scan.run(|b| b.is_ascii_digit()))?;
    if scan.text(b".").is_some() {
        let fraction = scan.run(|b| b.is_ascii_digit());
        return (!fraction.is_empty()).then_some(Bare::Other);
    }
    Some(if negative {
        Bare::Other
    } else {
        Bare::Whole(digits)
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
    fn lists_and_dictionaries_are_read_alike() {
        let read: Vec<_> = members(b"\"burst\";q=100;w=60 ,\tdaily;q=5;pk=:YQ==:;x, 7;w=1")
            .expect("well formed")
            .map(|m| (m.value, m.param(b"q"), m.param(b"w")))
            .collect();
        let whole = |n| Some(Bare::Whole(n));
        assert_eq!(
            read,
            [
                (Bare::Name(b"burst"), whole(100), whole(60)),
                (Bare::Name(b"daily"), whole(5), None),
                (Bare::Whole(7), None, whole(1)),
            ]
        );
        let keys: Vec<_> = members(b"limit=100, remaining=50,reset=5")
            .expect("well formed")
            .map(|m| (m.key, m.value))
            .collect();
        assert_eq!(keys[1], (Some(&b"remaining"[..]), Bare::Whole(50)));
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn half_a_field_is_no_field() {
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
        assert_eq!(member.value, Bare::Name(br#"a\"b\\"#));
        assert_eq!(member.param(b"q"), Some(Bare::Whole(1)));
    }

    #[test]
    fn the_last_of_equal_parameters_counts() {
        let mut read = members(b"a;q=1;q=2").expect("well formed");
        assert_eq!(
            read.next().and_then(|m| m.param(b"q")),
            Some(Bare::Whole(2))
        );
    }
}
