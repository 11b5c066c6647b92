//! Splits text into words, also inside identifiers.

/// One word of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TextWord<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    /// Only space, underscores or comment marks separate the word from the previous one.
    pub(super) continues: bool,
}

/// Splits at every byte that is no ASCII letter, and before the capitals of an identifier.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = TextWord<'_>> {
    let bytes = text.as_bytes();
    let mut end = 0;
    std::iter::from_fn(move || {
        let gap_start = end;
        let rest = bytes.get(gap_start..)?;
        let mut start = gap_start + rest.iter().position(u8::is_ascii_alphabetic)?;
        end = word_end(bytes, start);
        // The letter of an escape such as `\n` is no part of a word.
        if start > 0 && bytes.get(start - 1) == Some(&b'\\') && end - start > 1 {
            start += 1;
        }
        let gap = bytes.get(gap_start..start).unwrap_or_default();
        Some(TextWord {
            text: text.get(start..end)?,
            offset: start,
            continues: gap.iter().all(|byte| GAP_BYTES.contains(byte)),
        })
    })
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let mut at = start + 1;
    while byte(at).is_ascii_alphabetic() {
        let ends_lower = byte(at - 1).is_ascii_lowercase();
        let ends_acronym = byte(at + 1).is_ascii_lowercase();
        if byte(at).is_ascii_uppercase() && (ends_lower || ends_acronym) {
            break;
        }
        at += 1;
    }
    at
}

const GAP_BYTES: &[u8] = b" \t\r\n_/!#*-";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        split_words(text).map(|word| word.text).collect()
    }

    #[test]
    fn identifiers_are_split_at_underscores_and_capitals() {
        assert_eq!(
            words("is_told DoorGate HTTPDoor"),
            ["is", "told", "Door", "Gate", "HTTP", "Door"]
        );
        assert_eq!(words("MAX_DOORS2x"), ["MAX", "DOORS", "x"]);
        assert_eq!(words("don't é a"), ["don", "t", "a"]);
    }

    #[test]
    fn the_letter_of_an_escape_is_skipped() {
        assert_eq!(words(r"a\nnobody \d"), ["a", "nobody", "d"]);
    }

    #[test]
    fn punctuation_ends_a_phrase() {
        let continues = |text| split_words(text).map(|word| word.continues).collect::<Vec<_>>();
        assert_eq!(continues("a b_c\n/// d"), [true, true, true, true]);
        assert_eq!(continues("a, b. c"), [true, false, false]);
    }
}
