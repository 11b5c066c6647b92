//! Each dependency has its reason in a comment, above its line or at its end.
//!
//! The project's own crates and lines that inherit from the workspace need none: the workspace's table
//! has the reason once.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports dependencies without a reason.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.files
        .iter()
        .filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
        .flat_map(unexplained_dependencies)
        .collect()
}

fn unexplained_dependencies(file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut reader = ManifestReader::default();
    for (number, line) in file.lines() {
        if let Some(name) = reader.read_line(line) {
            let message = format!("{name} has no reason: add a comment that gives it");
            findings.push(TidyFinding::error(&file.path, message).at(number));
        }
    }
    findings
}

/// State of a manifest, line by line.
#[derive(Default)]
struct ManifestReader {
    in_dependencies: bool,
    after_comment: bool,
    open_brackets: usize,
}

impl ManifestReader {
    /// Reads the next line and returns its dependency if that has no reason.
    fn read_line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        let has_reason = std::mem::replace(&mut self.after_comment, line.starts_with('#'));
        if self.open_brackets > 0 {
            self.count_brackets(line);
            return None;
        }
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        if line.starts_with('[') {
            self.in_dependencies = line.ends_with("dependencies]");
            return heading_dependency(line).filter(|_| !has_reason);
        }
        if !self.in_dependencies {
            return None;
        }
        self.count_brackets(line);
        let (name, value) = line.split_once('=')?;
        let is_exempt = line.contains("workspace = true") || value.contains("path =");
        let has_reason = has_reason || value.contains(" # ");
        (!is_exempt && !has_reason).then_some(name.trim())
    }

    fn count_brackets(&mut self, line: &str) {
        let opened = line.matches(['[', '{']).count();
        let closed = line.matches([']', '}']).count();
        self.open_brackets = (self.open_brackets + opened).saturating_sub(closed);
    }
}

/// Returns the name in a heading such as `[dependencies.redis]`.
fn heading_dependency(heading: &str) -> Option<&str> {
    let (_, name) = heading.split_once("dependencies.")?;
    name.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn count(text: &str) -> usize {
        findings(check, [("crates/x/Cargo.toml", text)]).len()
    }

    // In the last case the comment belongs to another line.
    #[test]
    fn a_dependency_without_a_reason_is_an_error() {
        for text in [
            "[dependencies]\nredis = \"1\"\n",
            "[target.'cfg(unix)'.dev-dependencies]\nlibc = \"1\"\n",
            "[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n",
            "[dependencies.redis]\nversion = \"1\"\n",
            "[dependencies]\n# Why.\n\nredis = \"1\"\n",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
    }

    #[test]
    fn the_manifest_of_the_root_is_read() {
        let text = "[workspace.dependencies]\nredis = \"1\"\n";
        let count = |path| findings(check, [(path, text)]).len();
        assert_eq!(count("Cargo.toml"), 1);
        assert_eq!(count("docs/manifest.md"), 0);
    }

    #[test]
    fn a_reason_above_or_at_the_end_is_accepted() {
        for text in [
            "[dependencies]\n# Stores the ledger.\nredis = \"1\"\n",
            "[dependencies]\nredis = \"1\" # Stores the ledger.\n",
            "# Stores the ledger.\n[dependencies.redis]\nversion = \"1\"\n",
            "[dependencies]\n# redis = \"1\"\n",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }

    #[test]
    fn a_value_of_several_lines_is_one_dependency() {
        let text = "[dependencies]\n# Why.\na = { version = \"1\", features = [\n  \"x=y\",\n] }\nb = \"1\"\n";
        assert_eq!(count(text), 1);
    }

    #[test]
    fn own_and_inherited_dependencies_need_no_reason() {
        for text in [
            "[dependencies]\noutflow-core.workspace = true\n",
            "[dependencies]\noutflow-core = { path = \"../core\" }\n",
            "[package]\nname = \"x\"\n",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
