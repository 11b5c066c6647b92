//! A file name in a comment or a document names a file that exists.
//!
//! Compilers follow no sentence: after a rename, a comment such as "see `send.rs`" points nowhere. The
//! rule reads documents, configuration and comments. A mention with folders, such as `client/clock.rs`,
//! must match the end of a path, in order and with gaps: `crates/client/src/clock.rs`.

use super::TidyFinding;
use super::lexer::{pattern, prose};
use super::tree::SourceTree;

/// Reports mentions of files that do not exist.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mention = pattern(r"([\w./:-]*\w\.(?:rs|lua))[.:/]*(?:[^\w./:-]|\z)");
    let has_file = |mention: &str| tree.files.iter().any(|file| ends_with_parts(&file.path, mention));
    let is_address = |mention: &str| mention.contains("://") || mention.starts_with("//");
    let mut findings = Vec::new();
    let sources = tree.files.iter();
    for file in sources.filter(|file| SOURCES.iter().any(|suffix| file.has_suffix(suffix))) {
        for (start, text) in prose(&file.path, &file.text) {
            let mentions = mention.captures_iter(text).filter_map(|found| found.get(1));
            for (at, name) in mentions.map(|found| (start + found.start(), found.as_str())) {
                if !is_address(name) && !GENERAL_NAMES.contains(&name) && !has_file(name) {
                    let message = format!("names {name}, and no such file exists: update the name");
                    findings.push(file.error_at(at, message));
                }
            }
        }
    }
    findings
}

fn ends_with_parts(path: &str, mention: &str) -> bool {
    let mut folders = path.rsplit('/');
    let mut parts = mention.rsplit('/').filter(|part| !matches!(*part, "." | ".."));
    folders.next() == parts.next() && parts.all(|part| folders.any(|folder| folder == part))
}

/// Files whose comments and sentences are read.
const SOURCES: [&str; 4] = [".rs", ".lua", ".toml", ".md"];

/// Names that stand for a kind of file, and a web site.
const GENERAL_NAMES: [&str; 5] = ["lib.rs", "main.rs", "mod.rs", "build.rs", "docs.rs"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn check_text(path: &str, text: &str) -> usize {
        let clock = ("crates/client/src/clock.rs", "");
        findings(check, [clock, (path, text)]).len()
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
