//! Checkpoint of a run: the last written outcome, its target, and the length of the target.
//!
//! It is a small file next to the jobs, replaced atomically by the process that holds the lock of the jobs.
//! After a crash the target may be longer than the noted length; the run then expects the next results there.
//! The checksum of the last write identifies the target.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::command_line::UsageError;

/// Checkpoint file and its content.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    pub(super) note: RunNote,
}

/// Content of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct RunNote {
    /// Name of the job file, for messages.
    file: String,
    /// Hash of the job file.
    mark: String,
    /// Position of the last written outcome.
    pub(super) written: u64,
    /// Target, if it is not the standard output.
    pub(super) out: Option<PathBuf>,
    /// Length of the target.
    pub(super) length: u64,
    /// Last write to the target.
    #[serde(default)]
    pub(super) last: Option<LastWrite>,
}

/// Length and checksum of a write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct LastWrite {
    /// Length in bytes.
    pub(super) length: u64,
    sum: String,
}

impl LastWrite {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            sum: blake3::hash(bytes).to_hex().to_string(),
        }
    }
}

impl Checkpoint {
    /// Opens the checkpoint of a run of this file in this directory, or creates one.
    pub(super) fn open(dir: &Path, file: &str, mark: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)
            .with_context(|| format!("cannot create `{}`: choose another with `--dir`", dir.display()))?;
        let path = dir.join(NAME);
        let note = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("`{}` is damaged: remove it to write all results again", path.display()))?,
            Err(_) => RunNote {
                file: file.to_owned(),
                mark: mark.to_owned(),
                ..RunNote::default()
            },
        };
        let checkpoint = Self { path, note };
        if checkpoint.note.mark != mark {
            return Err(checkpoint.foreign_error(dir).into());
        }
        checkpoint.save()?;
        Ok(checkpoint)
    }

    /// Fails if results were written and the store has no job that they can belong to.
    pub(super) fn check_jobs(&self, submitted: u64) -> anyhow::Result<()> {
        if self.note.written > 0 && submitted == 0 {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            bail!(
                "the jobs of this run are missing from `{}`, but it has results: restore the jobs from a \
                 backup, or remove that directory to run the whole file again",
                dir.display()
            );
        }
        Ok(())
    }

    /// Writes the checkpoint to the disk.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        // The name contains the process id, so it replaces no file of another process.
        let next = format!("{}.next", std::process::id());
        let next = self.path.with_extension(next);
        let saved = serde_json::to_vec(&self.note)
            .map_err(std::io::Error::from)
            .and_then(|bytes| {
                let mut file = create_private(&next)?;
                file.write_all(&bytes)?;
                file.sync_data()?;
                fs::rename(&next, &self.path)
            });
        if saved.is_err() {
            // A partial file on a full disk would block what frees space.
            let _ignored = fs::remove_file(&next);
        }
        saved.with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    fn foreign_error(&self, dir: &Path) -> UsageError {
        UsageError(format!(
            "`{}` holds a run of another file, `{}`, or of an older version of this one: choose another \
             directory with `--dir`, or remove this one if that run is over",
            dir.display(),
            self.note.file
        ))
    }
}

/// Creates a file that only this user can read: it names the job file and the target of results.
fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

const NAME: &str = "run.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_opens_only_for_its_own_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut checkpoint = Checkpoint::open(dir.path(), "jobs", "one").expect("a checkpoint");
        checkpoint.note.written = 7;
        checkpoint.save().expect("written");
        let again = Checkpoint::open(dir.path(), "jobs", "one").expect("the same");
        assert_eq!(again.note, checkpoint.note);
        #[cfg(unix)]
        {
            let kept = fs::metadata(dir.path().join(NAME)).expect("kept");
            let mode = std::os::unix::fs::PermissionsExt::mode(&kept.permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
        checkpoint.check_jobs(9).expect("its jobs are there");
        let gone = checkpoint.check_jobs(0).expect_err("they are gone");
        assert!(gone.to_string().contains("restore"), "{gone}");
        let other = Checkpoint::open(dir.path(), "jobs", "other").expect_err("another's");
        assert!(other.to_string().contains("--dir"), "{other}");
    }
}
