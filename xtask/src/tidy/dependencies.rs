//! Each crate depends only on the crates of its row: arrows between own crates point one way, and a
//! foreign crate with an owner is used by its owner alone.
//!
//! The table is an allow-list, because a new dependency is a decision and the compiler accepts all of
//! them. A row without a crate is allowed. Transitive dependencies are the subject of cargo-deny.

mod table;

use anyhow::{Context, Result};
use serde_json::Value;

use super::TidyFinding;
use crate::metadata::load_metadata;
use table::{CRATES, CrateRow, OWNED_CRATES};

/// One dependency of a workspace member.
#[derive(Debug)]
pub(super) struct DependencyEdge {
    from: String,
    to: String,
    kind: DependencyKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DependencyKind {
    Product,
    Test,
    Build,
}

/// Loads the dependencies of every workspace member from cargo.
pub(super) fn load() -> Result<Vec<DependencyEdge>> {
    parse_metadata(&load_metadata()?).context("cargo metadata has an unknown format")
}

fn parse_metadata(metadata: &Value) -> Option<Vec<DependencyEdge>> {
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array()? {
        let from = package["name"].as_str()?;
        for dependency in package["dependencies"].as_array()? {
            edges.push(DependencyEdge {
                from: from.to_owned(),
                to: dependency["name"].as_str()?.to_owned(),
                kind: parse_kind(dependency),
            });
        }
    }
    Some(edges)
}

fn parse_kind(dependency: &Value) -> DependencyKind {
    let is_model_check = dependency["target"].as_str() == Some("cfg(loom)");
    match dependency["kind"].as_str() {
        Some("dev") => DependencyKind::Test,
        Some("build") => DependencyKind::Build,
        // Loom replaces the atomics of the core, so it cannot be a dev-dependency.
        _ if is_model_check => DependencyKind::Test,
        _ => DependencyKind::Product,
    }
}

/// Reports every dependency that the table does not allow.
pub(super) fn check(edges: &[DependencyEdge]) -> Vec<TidyFinding> {
    let mut findings: Vec<_> = edges
        .iter()
        .filter_map(|edge| Some(TidyFinding::error(&edge.from, violation(edge)?)))
        .collect();
    // A crate without a row has the same error for each of its edges.
    findings.dedup();
    findings
}

fn violation(edge: &DependencyEdge) -> Option<String> {
    let Some(row) = CRATES.iter().find(|row| row.name == edge.from) else {
        return Some(format!("has no row in {TABLE}: add one"));
    };
    if row.allows(edge) {
        return None;
    }
    let owner = OWNED_CRATES
        .iter()
        .find(|(owned, owner)| *owned == edge.to && *owner != edge.from);
    let reason = owner.map_or("its row does not list it".to_owned(), |(_, owner)| {
        format!("only {owner} may use it")
    });
    let to = &edge.to;
    Some(format!(
        "must not depend on {to}: {reason}; remove it, or change {TABLE}"
    ))
}

impl CrateRow {
    fn allows(&self, edge: &DependencyEdge) -> bool {
        let has = |list: &str| list.split_whitespace().any(|name| name == edge.to);
        let in_product = has(self.own) || has(self.foreign);
        match edge.kind {
            DependencyKind::Product => in_product,
            DependencyKind::Test => in_product || has(self.tests),
            DependencyKind::Build => false,
        }
    }
}

const TABLE: &str = "xtask/src/tidy/dependencies/table.rs";

#[cfg(test)]
mod tests;
