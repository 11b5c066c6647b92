//! Limit on the parts of a dotted key, which protects the stack.
//!
//! The parser limits the nesting of lists and tables, but not the parts of a dotted key. Each part is a
//! table in a table, and reading or dropping them recurses. So the parts are counted in the written text,
//! before the parser sees it.

/// Returns the offset of the first key with more than [`MAX_PARTS`] parts.
pub(crate) fn find_deep_key(text: &str) -> Option<usize> {
    let mut parts = 0;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '#' => {
                chars.find(|(_, c)| *c == '\n');
                parts = 0;
            }
            '"' | '\'' => skip_quoted(&mut chars, c),
            '\n' | '=' | ',' | '[' | ']' | '{' | '}' => parts = 0,
            '.' => parts += 1,
            _ => {}
        }
        if parts > MAX_PARTS {
            return Some(at);
        }
    }
    None
}

/// Skips to the quote that ends a text, or to the end of the line.
fn skip_quoted(chars: &mut std::str::CharIndices<'_>, quote: char) {
    let mut escaped = false;
    for (_, c) in chars {
        match c {
            '\n' => return,
            '\\' if quote == '"' => escaped = !escaped,
            c if c == quote && !escaped => return,
            _ => escaped = false,
        }
    }
}

/// Our deepest key has six parts. With the 80 levels that the parser allows each of them, this still needs
/// a small part of a thread's stack.
pub(crate) const MAX_PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_in_keys_only() {
        let deep = "a.".repeat(MAX_PARTS + 1);
        for text in [
            format!("{deep}a = 1"),
            format!("[{deep}a]"),
            format!("x = {{ {deep}a = 1 }}"),
            deep.replace('a', "\"a b\""),
            deep.replace('a', "ü "),
            format!("x = \"open\n{deep}a = 1"),
        ] {
            assert!(find_deep_key(&text).is_some(), "{text}");
        }
        for text in [
            format!("{}a = 1", "a.".repeat(MAX_PARTS)),
            format!("a = \"{deep}\""),
            format!("a = \"\\\"{deep}\""),
            format!("a = '{deep}'"),
            format!("# {deep}\na = 1"),
            "a.b = 1\n".repeat(MAX_PARTS + 1),
        ] {
            assert_eq!(find_deep_key(&text), None, "{text}");
        }
    }
}
