//! A short name that a server gave one of its limits.
//!
//! It ends up in logs, metrics and tables and is untrusted. So it is short, printable and stored in
//! place, without an allocation. A name that does not fit is rejected rather than cut, since two
//! cut names might be equal.

use core::fmt;

/// Up to 32 printable ASCII characters without quotes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintLabel {
    bytes: [u8; MAX_BYTES],
    length: u8,
}

impl HintLabel {
    /// Builds a label; `None` if it is empty, too long or not printable.
    pub fn new(name: &[u8]) -> Option<Self> {
        let printable = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
        if name.is_empty() || !name.iter().all(printable) {
            return None;
        }
        let mut bytes = [0; MAX_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let length = u8::try_from(name.len()).ok()?;
        Some(Self { bytes, length })
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.length));
        name.and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

impl fmt::Display for HintLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for HintLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The longest name of a known provider has 21.
const MAX_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_printable() {
        let name = |text: &str| HintLabel::new(text.as_bytes()).map(|label| label.as_str().len());
        assert_eq!(name("default"), Some(7));
        assert_eq!(name(&"x".repeat(32)), Some(32));
        for bad in ["", "a b", "a\nb", "a\"b", "é", &"x".repeat(33)] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }
}
