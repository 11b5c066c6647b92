//! `dist`: builds the program as it is shipped, with the list of its dependencies (SBOM).
//!
//! The list is written from the metadata that cargo resolved for the build, and checked before it is written: it
//! needs no tool and no network, and the same sources give the same bytes.

mod bill;

use anyhow::{Context, Result};

use crate::command::{CommandLine, repository_root};
use crate::metadata::target_directory;

use bill::BillOfMaterials;

/// Builds the binary and writes the list next to it.
pub(crate) fn run() -> Result<()> {
    let bill = current_bill()?;
    CommandLine::cargo("build --locked --profile dist --package outflow-cli").run()?;
    let folder = target_directory()?.join("dist");
    let file = folder.join("outflow.cdx.json");
    std::fs::write(&file, bill.to_json()).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("{}", folder.join("outflow").display());
    eprintln!("{}: {} components", file.display(), bill.len());
    Ok(())
}

/// Lists what the workspace builds into the program, on this platform.
fn current_bill() -> Result<BillOfMaterials> {
    let host = CommandLine::new("rustc", ["--print", "host-tuple"]).output()?;
    let metadata = CommandLine::cargo("metadata --locked --format-version 1 --filter-platform")
        .args([host.trim()])
        .output()?;
    let lock = std::fs::read_to_string(repository_root().join("Cargo.lock")).context("Cargo.lock is missing")?;
    BillOfMaterials::from_metadata(&serde_json::from_str(&metadata)?, &lock, "outflow-cli")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A crate of the program, one of another workspace, one of tests only, and the licence of one.
    #[test]
    fn the_list_of_this_workspace_is_a_valid_bill_of_materials() {
        let bill = current_bill().expect("a list");
        let text = bill.to_json();
        bill::check(&serde_json::from_str(&text).expect("JSON")).expect("valid");
        for (purl, is_listed) in [
            ("pkg:cargo/tokio@", true),
            ("pkg:cargo/rustls@", true),
            ("pkg:cargo/outflow-core@", true),
            ("pkg:cargo/proptest@", false),
            ("pkg:cargo/libfuzzer-sys@", false),
            ("pkg:cargo/windows-sys@", cfg!(windows)),
        ] {
            assert_eq!(text.contains(purl), is_listed, "{purl}");
        }
        assert!(text.contains("\"SHA-256\"") && text.contains("MIT OR Apache-2.0"));
        assert_eq!(current_bill().expect("a list").to_json(), text, "the same bytes");
    }
}
