//! `tidy`: checks the project rules that no compiler checks.
//!
//! Each rule is a small file that reads the tree as text and returns findings; no rule writes. A rule
//! belongs here only if a violation would go unnoticed otherwise. Every rule has a test that plants a
//! violation.

mod active_tests;
mod architecture;
mod clock_bans;
mod core_purity;
mod dependencies;
mod dependency_reasons;
mod file_length;
mod file_references;
mod lexer;
mod metric_docs;
mod private_paths;
mod rust_code;
mod scenario_settings;
mod spec_map;
mod test_layout;
mod tree;
mod type_names;
mod unfinished;
mod vocabulary;

use std::fmt;

use anyhow::{Result, bail};

use tree::SourceTree;

/// Checks the tree, prints the findings and returns an error if one of them is an error.
pub(crate) fn run() -> Result<()> {
    let findings = check_repository()?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.iter().filter(|finding| finding.is_error).count() {
        0 => Ok(()),
        errors => {
            bail!("tidy found {errors} error(s): each line above names the place and the fix")
        }
    }
}

fn check_repository() -> Result<Vec<TidyFinding>> {
    let tree = SourceTree::load()?;
    let mut findings = dependencies::check(&dependencies::load()?);
    findings.extend(RULES.iter().flat_map(|rule| rule(&tree)));
    Ok(findings)
}

type TidyRule = fn(&SourceTree) -> Vec<TidyFinding>;

const RULES: [TidyRule; 14] = [
    core_purity::check,
    spec_map::check,
    dependency_reasons::check,
    file_length::check,
    clock_bans::check,
    unfinished::check,
    private_paths::check,
    metric_docs::check,
    architecture::check,
    file_references::check,
    test_layout::check,
    type_names::check,
    scenario_settings::check,
    vocabulary::check,
];

/// Result of a rule for one place in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TidyFinding {
    is_error: bool,
    path: String,
    line: Option<usize>,
    message: String,
}

impl TidyFinding {
    /// Reports a violation in a file.
    fn error(path: &str, message: impl Into<String>) -> Self {
        Self {
            is_error: true,
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    /// Reports a place that is allowed and worth a look.
    fn note(path: &str, message: impl Into<String>) -> Self {
        Self {
            is_error: false,
            ..Self::error(path, message)
        }
    }

    /// Sets the line, counted from 1.
    fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let prefix = if self.is_error { "" } else { "note: " };
        write!(f, ": {prefix}{}", self.message)
    }
}

/// Shows the findings of a rule in a small tree.
#[cfg(test)]
fn findings<const N: usize>(rule: TidyRule, files: [(&str, &str); N]) -> Vec<String> {
    let findings = rule(&SourceTree::from_files(files));
    findings.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let findings = check_repository().expect("readable tree");
        let errors: Vec<_> = findings
            .iter()
            .filter(|finding| finding.is_error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    #[test]
    fn a_finding_names_its_place() {
        let error = TidyFinding::error("a.rs", "fix it").at(3);
        assert_eq!(error.to_string(), "a.rs:3: fix it");
        let note = TidyFinding::note("a.rs", "look at it");
        assert_eq!(note.to_string(), "a.rs: note: look at it");
    }
}
