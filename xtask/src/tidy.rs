//! `tidy`: the rules of the house that no compiler checks.
//!
//! Each rule is one small file that reads the tree as text and answers what breaks it; none of them
//! writes. A rule stands here only if breaking it would go unseen otherwise. Every rule has a test
//! that plants a violation and sees it found.

mod bans;
mod core_purity;
mod dependencies;
mod dependency_reasons;
mod leftovers;
mod length;
mod metrics;
mod paths;
mod running;
mod spec_map;
mod tree;

use std::fmt;

use anyhow::{Result, bail};

use tree::Tree;

/// Checks the tree, prints what is wrong with it and fails if anything is.
pub(crate) fn run() -> Result<()> {
    let findings = findings_of_the_tree()?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.iter().filter(|found| found.is_fault()).count() {
        0 => Ok(()),
        faults => bail!("tidy found {faults} thing(s) to mend: each line above says where and how"),
    }
}

fn findings_of_the_tree() -> Result<Vec<Finding>> {
    let tree = Tree::load()?;
    let mut findings = dependencies::check(&dependencies::load()?);
    for rule in RULES {
        findings.extend(rule(&tree));
    }
    Ok(findings)
}

const RULES: [fn(&Tree) -> Vec<Finding>; 8] = [
    core_purity::check,
    spec_map::check,
    dependency_reasons::check,
    length::check,
    bans::check,
    leftovers::check,
    paths::check,
    metrics::check,
];

/// Something a rule has to say about a place in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    weight: Weight,
    path: String,
    line: Option<usize>,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    /// Worth a look.
    Note,
    /// Must be mended.
    Fault,
}

impl Finding {
    /// A broken rule in a file.
    fn fault(path: &str, message: impl Into<String>) -> Self {
        Self {
            weight: Weight::Fault,
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    /// Something that is allowed and worth knowing.
    fn note(path: &str, message: impl Into<String>) -> Self {
        Self {
            weight: Weight::Note,
            ..Self::fault(path, message)
        }
    }

    /// The same at a line, counted from 1.
    fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    fn is_fault(&self) -> bool {
        self.weight == Weight::Fault
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let weight = match self.weight {
            Weight::Note => "note: ",
            Weight::Fault => "",
        };
        write!(f, ": {weight}{}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_tree_is_tidy() {
        let findings = findings_of_the_tree().expect("the tree can be read");
        let faults: Vec<_> = findings.iter().filter(|found| found.is_fault()).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn a_finding_says_where_it_is() {
        let fault = Finding::fault("a.rs", "mend it").at(3);
        assert_eq!(fault.to_string(), "a.rs:3: mend it");
        let note = Finding::note("a.rs", "look at it");
        assert_eq!(note.to_string(), "a.rs: note: look at it");
    }
}
