//! Configurations that change while the program runs: by its file, and by the admin API.
//!
//! Each differs from the previous one in the limits of the groups and in an API that exists for one turn, as
//! the remains of a removed API are a typical leak.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use super::admin;
use super::call_counts::CallCounts;
use super::program::GROUPS;

/// Changes of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    file: PathBuf,
    fixed: String,
}

impl Changes {
    pub(super) fn new(file: PathBuf, fixed: String) -> Self {
        Self { file, fixed }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Replaces the file by that of this turn, as deployments do.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self, turn: u32) -> io::Result<()> {
        let mut text = self.fixed.clone();
        for group in 0..GROUPS {
            let rate = 500 + (group + turn) % 100;
            // Writing to a string cannot fail.
            let _written = writeln!(text, "groups.g{group}.limits = [\"{rate}/s\"]");
        }
        let spare = turn % SPARES;
        let _written = writeln!(
            text,
            "[apis.spare-{spare}]\nbase_url = \"http://127.0.0.1:9\"\ngroups.a.limits = [\"9/s\"]"
        );
        let new = self.file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.file)
    }
}

/// Changes the configuration repeatedly. Every other time it also calls the admin API, which may find that the
/// file was already read.
pub(super) async fn make(changes: &Changes, admin: &str, seen: &CallCounts) {
    for turn in 1.. {
        sleep(EVERY).await;
        if let Err(error) = changes.write(turn) {
            seen.surprise(|| format!("the configuration cannot be written: {error}"));
        }
        if turn % 2 == 0 {
            admin::post(admin, "/v1/reload", seen).await;
        }
    }
}

/// Number of names that alternate.
const SPARES: u32 = 3;

const EVERY: Duration = Duration::from_secs(100);
