//! Subcommands of cargo that are not part of the toolchain.

use super::ToolRequirement;

/// Test runner with one process for each test and a summary at the end.
pub(crate) const NEXTEST: ToolRequirement = ToolRequirement::commands(
    "cargo-nextest",
    &["cargo nextest --version"],
    &["cargo install --locked cargo-nextest"],
    "it runs each test in its own process, so that an abort or a leak affects one test",
);

/// Check of licences, bans and sources of all dependencies.
///
/// Neither apt, npm nor pip has a current binary, so cargo builds it. Without optimisation and debug
/// information that takes 70 seconds of CPU time instead of minutes, and a check still takes 2 seconds.
pub(crate) const CARGO_DENY: ToolRequirement = ToolRequirement::commands(
    "cargo-deny",
    &["cargo deny --version"],
    &["cargo install --locked --debug --config profile.dev.debug=false cargo-deny@0.20.2"],
    "it checks licences, bans and sources of all dependencies",
);

/// Mutation tester.
pub(crate) const CARGO_MUTANTS: ToolRequirement = ToolRequirement::commands(
    "cargo-mutants",
    &["cargo mutants --version"],
    &["cargo install --locked cargo-mutants"],
    "it finds code that no test checks",
);

/// Driver of the fuzz targets.
pub(crate) const CARGO_FUZZ: ToolRequirement = ToolRequirement::commands(
    "cargo-fuzz",
    &["cargo fuzz --version"],
    &["cargo install --locked cargo-fuzz"],
    "it searches for inputs by branch coverage, unlike random properties",
);
