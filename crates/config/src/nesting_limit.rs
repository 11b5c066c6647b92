//! Whether a text can be parsed without using up the stack.
//!
//! The parser bounds how deep lists and tables are nested, and not how many parts a dotted key has; each
//! part is a table in a table, and what reads or drops them goes down part by part. So the parts are
//! counted in the written text, before the parser sees it.

/// The place of the first key that has more parts than any key of ours, if there is one.
pub(super) fn too_deep(text: &str) -> Option<usize> {
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
        if parts > MOST_PARTS {
            return Some(at);
        }
    }
    None
}

/// Goes behind the quote that ends a text, or to the end of the line if none does.
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

/// Our deepest key has six parts. With the 80 levels that the parser allows to each of them, this is still
/// little beside a thread's stack.
pub(super) const MOST_PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_in_keys_and_nowhere_else() {
        let deep = "a.".repeat(MOST_PARTS + 1);
        for text in [
            format!("{deep}a = 1"),
            format!("[{deep}a]"),
            format!("x = {{ {deep}a = 1 }}"),
            deep.replace('a', "\"a b\""),
            deep.replace('a', "ü "),
            format!("x = \"open\n{deep}a = 1"),
        ] {
            assert!(too_deep(&text).is_some(), "{text}");
        }
        for text in [
            format!("{}a = 1", "a.".repeat(MOST_PARTS)),
            format!("a = \"{deep}\""),
            format!("a = \"\\\"{deep}\""),
            format!("a = '{deep}'"),
            format!("# {deep}\na = 1"),
            "a.b = 1\n".repeat(MOST_PARTS + 1),
        ] {
            assert_eq!(too_deep(&text), None, "{text}");
        }
    }
}
