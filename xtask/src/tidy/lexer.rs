//! Separates code, comments and literals of a source file.
//!
//! One pattern per language finds comments and literals. It knows where they start and end, and
//! nothing else of the grammar.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Returns Rust code. Spaces replace comments and literals, so that offsets stay valid.
pub(super) fn code_only(text: &str) -> String {
    let blank = |found: &Captures<'_>| -> String {
        let bytes = found[0].bytes();
        bytes.map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
    };
    RUST.replace_all(text, blank).into_owned()
}

/// Returns the sentences of a file, each with its offset: the comments, or a whole text without code.
/// Strings of Rust and Lua are data; strings of TOML are messages, such as the reason of a lint.
pub(super) fn prose<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let pattern = match path.rsplit_once('.') {
        Some((_, "rs")) => &RUST,
        Some((_, "lua")) => &LUA,
        Some((_, "toml")) => &TOML,
        _ => return vec![(0, text)],
    };
    let found = pattern.captures_iter(text).filter_map(|found| found.name("prose"));
    found.map(|prose| (prose.start(), prose.as_str())).collect()
}

/// Compiles one of the patterns of this program.
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// A block comment may contain another one. A quote opens a character or a lifetime; a lifetime must not
/// hide the code after it.
static RUST: LazyLock<Regex> = LazyLock::new(|| {
    alternatives(&[
        r"(?<prose>//[^\n]*|/\*(?:/\*.*?\*/|.)*?(?:\*/|\z))",
        r"\b[bc]?r(?:\x22[^\x22]*\x22|#\x22.*?\x22#|##\x22.*?\x22##)",
        DOUBLE_QUOTED,
        r"'(?:\\.[^']*|[^\\'])'",
    ])
});

static LUA: LazyLock<Regex> = LazyLock::new(|| {
    alternatives(&[
        r"(?<prose>--\[\[.*?\]\]|--[^\n]*)",
        r"\[\[.*?\]\]",
        DOUBLE_QUOTED,
        r"'(?:\\.|[^\\'])*'",
    ])
});

static TOML: LazyLock<Regex> = LazyLock::new(|| {
    let strings = format!(r"\x22\x22\x22.*?\x22\x22\x22|'''.*?'''|{DOUBLE_QUOTED}|'[^'\n]*'");
    alternatives(&[&format!(r"(?<prose>#[^\n]*|{strings})")])
});

/// A string with escapes; an open one ends with the file.
const DOUBLE_QUOTED: &str = r"\x22(?:\\.|[^\\\x22])*(?:\x22|\z)";

fn alternatives(parts: &[&str]) -> Regex {
    pattern(&format!("(?s){}", parts.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rust_comments_and_literals_are_separated() {
        for (text, code) in [
            ("/// Doc\nlet a = \"x // \\\" y\"; // h", "let a = ;"),
            ("/* b /* c */ d */ let e = r#\"f \" g\"#;", "let e = ;"),
            ("let é = 1; // é\nb(\"c\")", "let é = 1; b( )"),
            (
                "r#type bar\"x\" br\"\\\" br#\"a\"b\"# for r in r",
                "r#type bar for r in r",
            ),
            ("a \"b", "a"),
            ("a /* b", "a"),
        ] {
            assert_eq!(words(text), code, "{text}");
        }
    }

    #[test]
    fn characters_and_lifetimes_differ() {
        let text = r#"fn f<'a>(c: &'a str) { ['x', '\'', '"', 'é', '\u{1f600}'] } // 'b'"#;
        assert_eq!(words(text), "fn f<'a>(c: &'a str) { [ , , , , ] }");
    }

    #[test]
    fn each_language_has_its_own_comments() {
        for (path, text, expected) in [
            (
                "a.rs",
                "let a = \"//\"; // one\n'/' /* two */",
                &["// one", "/* two */"][..],
            ),
            (
                "a.lua",
                "local a = '--' -- one\n--[[ two\nthree ]] local b = [[ -- ]]",
                &["-- one", "--[[ two\nthree ]]"],
            ),
            (
                "a.toml",
                "a = \"#\" # one\nb = '\\' # two",
                &["\"#\"", "# one", "'\\'", "# two"],
            ),
            ("a.md", "all", &["all"]),
        ] {
            let found: Vec<_> = prose(path, text).into_iter().map(|(_, text)| text).collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
