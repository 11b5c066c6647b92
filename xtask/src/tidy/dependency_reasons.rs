//! Each dependency has its reason beside it, where whoever wonders will look.
//!
//! A comment above the line or behind it. Our own crates and lines that inherit from the workspace
//! are exempt: the reason stands once, in the workspace's table.

use super::Finding;
use super::tree::{File, Tree};

/// Finds dependencies that give no reason.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
        .flat_map(unexplained)
        .collect()
}

fn unexplained(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut reader = Reader::default();
    for (number, line) in file.lines() {
        if let Some(name) = reader.read(line) {
            let message = format!("{name} gives no reason: say in a comment why it is needed");
            findings.push(Finding::fault(&file.path, message).at(number));
        }
    }
    findings
}

/// Where in a manifest the reader is.
#[derive(Default)]
struct Reader {
    in_dependencies: bool,
    after_comment: bool,
    open_brackets: usize,
}

impl Reader {
    /// Reads one more line and answers the dependency on it that gives no reason.
    fn read<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        let explained = std::mem::replace(&mut self.after_comment, line.starts_with('#'));
        if self.open_brackets > 0 {
            self.count_brackets(line);
            return None;
        }
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        if line.starts_with('[') {
            let single = single_dependency(line);
            self.in_dependencies = line.ends_with("dependencies]");
            return single.filter(|_| !explained);
        }
        if !self.in_dependencies {
            return None;
        }
        self.count_brackets(line);
        let (name, value) = line.split_once('=')?;
        let exempt = is_inherited(line) || value.contains("path =");
        let explained = explained || value.contains(" # ");
        (!exempt && !explained).then_some(name.trim())
    }

    fn count_brackets(&mut self, line: &str) {
        let opened = line.matches(['[', '{']).count();
        let closed = line.matches([']', '}']).count();
        self.open_brackets = (self.open_brackets + opened).saturating_sub(closed);
    }
}

/// The name in a heading like `[dependencies.redis]`.
fn single_dependency(heading: &str) -> Option<&str> {
    let (_, name) = heading.split_once("dependencies.")?;
    name.strip_suffix(']')
}

fn is_inherited(line: &str) -> bool {
    line.contains("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check(&Tree::of([("crates/x/Cargo.toml", text)])).len()
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        assert_eq!(found("[dependencies]\nredis = \"1\"\n"), 1);
        assert_eq!(
            found("[target.'cfg(unix)'.dev-dependencies]\nlibc = \"1\"\n"),
            1
        );
        assert_eq!(
            found("[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n"),
            1
        );
        assert_eq!(found("[dependencies.redis]\nversion = \"1\"\n"), 1);
        assert_eq!(
            found("[dependencies]\n# Why.\n\nredis = \"1\"\n"),
            1,
            "the comment is of another"
        );
    }

    #[test]
    fn the_manifest_of_the_root_is_read_too() {
        let text = "[workspace.dependencies]\nredis = \"1\"\n";
        assert_eq!(check(&Tree::of([("Cargo.toml", text)])).len(), 1);
        assert!(check(&Tree::of([("docs/manifest.md", text)])).is_empty());
    }

    #[test]
    fn a_comment_is_no_dependency() {
        assert_eq!(found("[dependencies]\n# redis = \"1\"\n"), 0);
    }

    #[test]
    fn a_reason_above_or_behind_is_seen() {
        assert_eq!(
            found("[dependencies]\n# Speaks to the ledger.\nredis = \"1\"\n"),
            0
        );
        assert_eq!(
            found("[dependencies]\nredis = \"1\" # Speaks to the ledger.\n"),
            0
        );
        assert_eq!(
            found("# Speaks to the ledger.\n[dependencies.redis]\nversion = \"1\"\n"),
            0
        );
    }

    #[test]
    fn a_value_over_several_lines_is_one_dependency() {
        let text = "[dependencies]\n# Why.\na = { version = \"1\", features = [\n  \"x=y\",\n] }\nb = \"1\"\n";
        assert_eq!(found(text), 1);
    }

    #[test]
    fn our_own_and_inherited_ones_are_explained_elsewhere() {
        assert_eq!(found("[dependencies]\noutflow-core.workspace = true\n"), 0);
        assert_eq!(
            found("[dependencies]\noutflow-core = { path = \"../core\" }\n"),
            0
        );
        assert_eq!(found("[package]\nname = \"x\"\n"), 0);
    }
}
