//! A file name in a comment or a document names a file that exists.
//!
//! Compilers follow no sentence: after a rename, a comment such as "see `send.rs`" points nowhere. The
//! rule reads documents, configuration and comments. A mention with folders, such as `client/clock.rs`,
//! must match the end of a path, in order and with gaps: `crates/client/src/clock.rs`.

use super::TidyFinding;
use super::lexer::SpanKind;
use super::tree::{SourceFile, SourceTree};

/// Reports mentions of files that do not exist.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.files()
        .filter(|file| SOURCES.iter().any(|suffix| file.has_suffix(suffix)))
        .flat_map(|file| stale_mentions(tree, file))
        .collect()
}

/// Returns true if a file of the tree ends with this path; folders of the file may be left out.
pub(super) fn file_exists(tree: &SourceTree, mention: &str) -> bool {
    tree.files().any(|file| ends_with_parts(&file.path, mention))
}

fn stale_mentions(tree: &SourceTree, file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let prose = file.spans().iter().filter(|span| is_prose(file, span.kind));
    for span in prose {
        for (offset, mention) in mentions(file.span_text(span)) {
            if !is_general(mention) && !file_exists(tree, mention) {
                let message = format!("names {mention}, and no such file exists: update the name");
                let line = file.line_at(span.start + offset);
                findings.push(TidyFinding::error(&file.path, message).at(line));
            }
        }
    }
    findings
}

/// Strings of Rust and Lua are data; strings of TOML are messages, such as the reason of a lint.
fn is_prose(file: &SourceFile, kind: SpanKind) -> bool {
    match kind {
        SpanKind::Comment => true,
        SpanKind::Literal => file.has_suffix(".toml"),
        SpanKind::Code => false,
    }
}

/// Finds words with the extension of a source file.
fn mentions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    let words = text.split(move |c: char| !is_part(c));
    words.filter_map(move |word| {
        let name = word.trim_end_matches(['.', ':', '/']);
        let offset = word.as_ptr().addr() - text.as_ptr().addr();
        let stem = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end))?;
        let is_name = stem.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_address = name.contains("://") || name.starts_with("//");
        (is_name && !is_address).then_some((offset, name))
    })
}

fn is_general(mention: &str) -> bool {
    GENERAL_NAMES.contains(&mention)
}

fn ends_with_parts(path: &str, mention: &str) -> bool {
    let mut folders = path.rsplit('/');
    let mut parts = mention.rsplit('/').filter(|part| !matches!(*part, "." | ".."));
    if folders.next() != parts.next() {
        return false;
    }
    parts.all(|part| folders.any(|folder| folder == part))
}

/// Files whose comments and sentences are read.
const SOURCES: [&str; 4] = [".rs", ".lua", ".toml", ".md"];

const EXTENSIONS: [&str; 2] = [".rs", ".lua"];

/// Names that stand for a kind of file, and a web site.
const GENERAL_NAMES: [&str; 5] = ["lib.rs", "main.rs", "mod.rs", "build.rs", "docs.rs"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> usize {
        let clock = ("crates/client/src/clock.rs", "");
        check(&SourceTree::from_files([clock, (path, text)])).len()
    }

    #[test]
    fn a_name_without_a_file_is_an_error() {
        for (path, text) in [
            ("ARCHITECTURE.md", "see `boot_clock.rs`"),
            ("docs/a.md", "see crates/store/src/clock.rs."),
            ("clippy.toml", "{ reason = \"only boot_clock.rs reads it\" }"),
            ("crates/a/src/lib.rs", "/// See `store/clock.rs`."),
            ("crates/a/src/lua/x.lua", "-- see y.lua"),
        ] {
            assert_eq!(check_text(path, text), 1, "{path}: {text}");
        }
    }

    #[test]
    fn a_name_with_a_file_is_fine() {
        for text in [
            "see `clock.rs`, and clock.rs.",
            "see client/clock.rs and `crates/client/src/clock.rs`",
            "see [the clock](../crates/client/src/clock.rs)",
            "every `lib.rs`; all of `tests/*.rs`; {a,b}.rs",
            "https://docs.rs and https://docs.rs/tokio; docs.rs",
        ] {
            assert_eq!(check_text("docs/a.md", text), 0, "{text}");
        }
    }

    #[test]
    fn code_and_strings_of_code_are_not_read() {
        let text = "let path = \"gone.rs\"; gone.rs();";
        assert_eq!(check_text("crates/a/src/lib.rs", text), 0);
    }

    #[test]
    fn a_finding_has_the_line_of_its_mention() {
        let tree = SourceTree::from_files([("a.md", "\n\nsee gone.rs")]);
        assert_eq!(check(&tree)[0].line, Some(3));
    }
}
