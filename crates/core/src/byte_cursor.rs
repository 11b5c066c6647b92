//! A byte reader for the small grammars of response headers.
//!
//! Header values are untrusted bytes, not text. Each step either takes exactly the named bytes or
//! returns `None` and leaves the rest untouched. Numbers are plain ASCII digits: the standard
//! parser would accept a sign, and other parsers a space, an exponent or other digits.

/// The unread rest of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteCursor<'a> {
    rest: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    pub(crate) const fn new(value: &'a [u8]) -> Self {
        Self { rest: value }
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes one byte that `wanted` accepts.
    pub(crate) fn byte(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        if !wanted(first) {
            return None;
        }
        self.rest = rest;
        Some(first)
    }

    /// Takes this text, case-insensitively.
    pub(crate) fn text(&mut self, wanted: &[u8]) -> Option<()> {
        let (head, rest) = self.rest.split_at_checked(wanted.len())?;
        if !head.eq_ignore_ascii_case(wanted) {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    /// Takes the longest run of bytes that `wanted` accepts, perhaps none.
    pub(crate) fn run(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|b| !wanted(*b));
        let (head, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        head
    }

    /// Takes exactly `count` digits, at most nine of them.
    pub(crate) fn digits(&mut self, count: usize) -> Option<u32> {
        let (head, rest) = self.rest.split_at_checked(count.min(9))?;
        let number = parse_whole(head).and_then(|n| u32::try_from(n).ok())?;
        self.rest = rest;
        Some(number)
    }

    /// Takes one of `names`, case-insensitively, and returns its index.
    pub(crate) fn name(&mut self, names: &[&str]) -> Option<u32> {
        let found = (0..).zip(names).find(|(_, name)| self.text(name.as_bytes()).is_some());
        found.map(|(place, _)| place)
    }

    /// Takes exactly `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    /// Skips spaces and tabs.
    pub(crate) fn blanks(&mut self) {
        self.run(is_blank);
    }
}

/// Parses a whole number of ASCII digits only; `None` also if it does not fit.
pub(crate) fn parse_whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter()
        .try_fold(0_u64, |total, byte| total.checked_mul(10)?.checked_add(digit(*byte)?))
}

/// Parses a whole number of any count of ASCII digits, saturating.
pub(crate) fn parse_whole_saturating(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |total, byte| {
        let tens = total.saturating_mul(10);
        Some(tens.saturating_add(digit(*byte)?))
    })
}

/// Parses the digits after a decimal point as nanoseconds, rounded up: a wait is never shorter than
/// the server asked.
pub(crate) fn parse_fraction_nanos(digits: &[u8]) -> Option<u32> {
    let (precise, beyond) = digits.split_at(digits.len().min(9));
    if digits.is_empty() || !beyond.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scale = (precise.len()..9).fold(1, |scale: u64, _| scale.saturating_mul(10));
    let up = u64::from(beyond.iter().any(|b| *b != b'0'));
    let nanos = parse_whole(precise)?.saturating_mul(scale).saturating_add(up);
    u32::try_from(nanos).ok()
}

/// Returns the value without surrounding blanks.
pub(crate) fn trim_blanks(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|b| !is_blank(*b));
    let end = value.iter().rposition(|b| !is_blank(*b));
    match (start, end) {
        (Some(start), Some(end)) => value.get(start..=end).unwrap_or_default(),
        _ => &[],
    }
}

pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte & 0x0f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ascii_digits_only() {
        assert_eq!(parse_whole(b"00120"), Some(120));
        assert_eq!(parse_whole(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "+5", "-5", " 5", "5 ", "1e3", "٣", "²", "0x1"] {
            assert_eq!(parse_whole(bad.as_bytes()), None, "{bad:?}");
            assert_eq!(parse_whole_saturating(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse_whole(b"18446744073709551616"), None);
        assert_eq!(parse_whole_saturating(b"18446744073709551616"), Some(u64::MAX));
    }

    // The last row has a tenth digit, which must not vanish.
    #[test]
    fn fractions_round_up() {
        assert_eq!(parse_fraction_nanos(b"5"), Some(500_000_000));
        assert_eq!(parse_fraction_nanos(b"000000001"), Some(1));
        assert_eq!(parse_fraction_nanos(b"0000000010"), Some(1));
        assert_eq!(parse_fraction_nanos(b"0000000001"), Some(1));
        assert_eq!(parse_fraction_nanos(b""), None);
        assert_eq!(parse_fraction_nanos(b"5x"), None);
        assert_eq!(parse_fraction_nanos(b"000000000x"), None);
    }

    #[test]
    fn a_failed_step_takes_nothing() {
        let mut cursor = ByteCursor::new(b"12x");
        assert_eq!(cursor.digits(3), None);
        assert_eq!(cursor.digits(2), Some(12));
        assert_eq!(cursor.text(b"y"), None);
        assert_eq!(cursor.text(b"X"), Some(()));
        assert!(cursor.is_done());
    }
}
