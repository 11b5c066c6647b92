//! The answer of `cargo metadata`, which knows the packages and the target directory.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::CommandLine;

/// Loads the metadata of the workspace members, without their dependencies.
pub(crate) fn load_metadata() -> Result<Value> {
    let text = CommandLine::cargo("metadata --no-deps --format-version 1").output()?;
    serde_json::from_str(&text).context("cargo metadata printed invalid JSON")
}

/// Returns the directory of build artefacts, with cargo's configuration and environment applied.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = load_metadata()?;
    let path = metadata.get("target_directory").and_then(Value::as_str);
    path.map(PathBuf::from)
        .context("cargo metadata has no target_directory")
}
