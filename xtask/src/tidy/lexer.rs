//! Separates code, comments and literals of a source file.
//!
//! One lexer serves all rules that read words instead of lines. It knows where comments and strings
//! start and end in each language, and nothing else of the grammar.

/// Part of a file, as a range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TextSpan {
    pub(super) kind: SpanKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpanKind {
    Code,
    /// A comment, or prose.
    Comment,
    /// A string or character.
    Literal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SourceLanguage {
    Rust,
    Lua,
    Toml,
    /// Text without code, such as Markdown.
    Prose,
}

impl SourceLanguage {
    /// Selects the language by the file extension.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        match extension {
            "rs" => Some(Self::Rust),
            "lua" => Some(Self::Lua),
            "toml" => Some(Self::Toml),
            "md" | "html" | "js" | "mjs" | "py" | "sh" | "sql" | "svg" | "yml" => Some(Self::Prose),
            _ => None,
        }
    }
}

/// Splits a text into spans that cover it without gaps.
pub(super) fn split(text: &str, language: SourceLanguage) -> Vec<TextSpan> {
    let mut lexer = SpanLexer {
        bytes: text.as_bytes(),
        spans: Vec::new(),
        code_start: 0,
    };
    let mut at = 0;
    while at < text.len() {
        let token = match language {
            SourceLanguage::Rust => lexer.rust_token(at),
            SourceLanguage::Lua => lexer.lua_token(at),
            SourceLanguage::Toml => lexer.toml_token(at),
            SourceLanguage::Prose => Some((SpanKind::Comment, text.len())),
        };
        at = match token {
            Some((kind, end)) => lexer.push(kind, at, end),
            None => at + 1,
        };
    }
    lexer.push_code(text.len());
    lexer.spans
}

struct SpanLexer<'a> {
    bytes: &'a [u8],
    spans: Vec<TextSpan>,
    code_start: usize,
}

type LexedToken = Option<(SpanKind, usize)>;

impl SpanLexer<'_> {
    fn push(&mut self, kind: SpanKind, start: usize, end: usize) -> usize {
        let end = end.min(self.bytes.len());
        self.push_code(start);
        self.spans.push(TextSpan { kind, start, end });
        self.code_start = end;
        end
    }

    fn push_code(&mut self, end: usize) {
        let start = self.code_start;
        if start < end {
            let kind = SpanKind::Code;
            self.spans.push(TextSpan { kind, start, end });
        }
    }

    fn rust_token(&self, at: usize) -> LexedToken {
        match self.byte(at) {
            b'/' if self.has(at, b"//") => Some((SpanKind::Comment, self.line_end(at))),
            b'/' if self.has(at, b"/*") => Some((SpanKind::Comment, self.block_comment_end(at))),
            b'"' => Some((SpanKind::Literal, self.escaped_end(at + 1, b'"'))),
            b'r' => self.raw_string_end(at).map(|end| (SpanKind::Literal, end)),
            b'\'' => self.char_end(at).map(|end| (SpanKind::Literal, end)),
            _ => None,
        }
    }

    fn lua_token(&self, at: usize) -> LexedToken {
        match self.byte(at) {
            b'-' if self.has(at, b"--[[") => Some((SpanKind::Comment, self.find(at + 4, b"]]"))),
            b'-' if self.has(at, b"--") => Some((SpanKind::Comment, self.line_end(at))),
            b'[' if self.has(at, b"[[") => Some((SpanKind::Literal, self.find(at + 2, b"]]"))),
            quote @ (b'"' | b'\'') => Some((SpanKind::Literal, self.escaped_end(at + 1, quote))),
            _ => None,
        }
    }

    fn toml_token(&self, at: usize) -> LexedToken {
        match self.byte(at) {
            b'#' => Some((SpanKind::Comment, self.line_end(at))),
            b'"' if self.has(at, b"\"\"\"") => Some((SpanKind::Literal, self.find(at + 3, b"\"\"\""))),
            b'\'' if self.has(at, b"'''") => Some((SpanKind::Literal, self.find(at + 3, b"'''"))),
            b'"' => Some((SpanKind::Literal, self.escaped_end(at + 1, b'"'))),
            b'\'' => Some((SpanKind::Literal, self.find(at + 1, b"'"))),
            _ => None,
        }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    fn has(&self, at: usize, pattern: &[u8]) -> bool {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.starts_with(pattern)
    }

    fn line_end(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n');
        at + length.unwrap_or(rest.len())
    }

    /// Returns the end of the next `pattern`.
    fn find(&self, mut at: usize, pattern: &[u8]) -> usize {
        while at < self.bytes.len() && !self.has(at, pattern) {
            at += 1;
        }
        at + pattern.len()
    }

    /// Returns the end of a string that a backslash escapes.
    fn escaped_end(&self, mut at: usize, quote: u8) -> usize {
        while at < self.bytes.len() && self.byte(at) != quote {
            at += if self.byte(at) == b'\\' { 2 } else { 1 };
        }
        at + 1
    }

    fn block_comment_end(&self, mut at: usize) -> usize {
        let mut depth = 0_usize;
        while at < self.bytes.len() {
            if self.has(at, b"/*") {
                (depth, at) = (depth + 1, at + 2);
            } else if self.has(at, b"*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        at
    }

    /// Returns the end of `r"…"` or `r#"…"#`; none for a raw identifier or the end of a word.
    fn raw_string_end(&self, at: usize) -> Option<usize> {
        let before = |distance| at.checked_sub(distance).map_or(0, |at| self.byte(at));
        let is_prefixed = matches!(before(1), b'b' | b'c') && !is_word_byte(before(2));
        if is_word_byte(before(1)) && !is_prefixed {
            return None;
        }
        let rest = self.bytes.get(at + 1..).unwrap_or_default();
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        let quote = at + 1 + hashes;
        let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
        (self.byte(quote) == b'"').then(|| self.find(quote + 1, &closing))
    }

    /// Returns the end of a character; none for a lifetime.
    fn char_end(&self, at: usize) -> Option<usize> {
        if self.byte(at + 1) == b'\\' {
            return Some(self.escaped_end(at + 1, b'\''));
        }
        let length = match self.byte(at + 1) {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        (self.byte(at + 1 + length) == b'\'').then_some(at + length + 2)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, language: SourceLanguage, kind: SpanKind) -> Vec<&str> {
        let spans = split(text, language);
        let covered: usize = spans.iter().map(|span| span.end - span.start).sum();
        assert_eq!(covered, text.len(), "{text}");
        spans
            .iter()
            .filter(|span| span.kind == kind)
            .map(|span| &text[span.start..span.end])
            .collect()
    }

    #[test]
    fn rust_comments_and_literals_are_separated() {
        let text = "/// Doc\nlet a = \"x // \\\" y\"; /* b /* c */ d */ let e = r#\"f \" g\"#; // h";
        let comments = texts(text, SourceLanguage::Rust, SpanKind::Comment);
        assert_eq!(comments, ["/// Doc", "/* b /* c */ d */", "// h"]);
        let literals = texts(text, SourceLanguage::Rust, SpanKind::Literal);
        assert_eq!(literals, ["\"x // \\\" y\"", "r#\"f \" g\"#"]);
    }

    // A quote opens a character or a lifetime; a lifetime must not hide the code after it.
    #[test]
    fn characters_and_lifetimes_differ() {
        let text = r#"fn f<'a>(c: &'a str) { ['x', '\'', '"', 'é', '\u{1f600}'] } // 'b'"#;
        let literals = texts(text, SourceLanguage::Rust, SpanKind::Literal);
        assert_eq!(literals, ["'x'", r"'\''", "'\"'", "'é'", r"'\u{1f600}'"]);
    }

    #[test]
    fn raw_identifiers_and_words_with_an_r_are_code() {
        for text in ["r#type", "bar\"x\"", "br\"x\"", "for r in r"] {
            let literals = texts(text, SourceLanguage::Rust, SpanKind::Literal);
            let is_literal = text.contains('"');
            assert_eq!(!literals.is_empty(), is_literal, "{text}");
        }
        let byte_string = texts("br#\"a\"b\"#", SourceLanguage::Rust, SpanKind::Literal);
        assert_eq!(byte_string, ["r#\"a\"b\"#"]);
    }

    #[test]
    fn lua_and_toml_have_their_own_comments() {
        let lua = "local a = '--' -- one\n--[[ two\nthree ]] local b = [[ -- ]]";
        let comments = texts(lua, SourceLanguage::Lua, SpanKind::Comment);
        assert_eq!(comments, ["-- one", "--[[ two\nthree ]]"]);
        let toml = "a = \"#\" # one\nb = '''# ''' # two\nc = '\\' # three";
        let comments = texts(toml, SourceLanguage::Toml, SpanKind::Comment);
        assert_eq!(comments, ["# one", "# two", "# three"]);
    }

    #[test]
    fn an_open_literal_ends_with_the_file() {
        for text in ["\"a", "r#\"a", "/* a", "'\\", "// a", "'"] {
            texts(text, SourceLanguage::Rust, SpanKind::Literal);
        }
    }
}
