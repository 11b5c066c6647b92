//! How far a run is: which outcome was written last, where to, and how long the file was then.
//!
//! A small file beside the jobs, replaced whole by whoever holds the lock of the jobs. A crash between a
//! result and this note leaves results behind the length that is noted; they are found to be those that come
//! next when the run goes on. By the checksum of what was written last the file is known as ours.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::command_line::UsageError;

/// The note, and where it lies.
#[derive(Debug)]
pub(super) struct Checkpoint {
    place: PathBuf,
    pub(super) note: RunNote,
}

/// How far a run is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct RunNote {
    /// The file's name, for people.
    file: String,
    /// What only a file of the same bytes has.
    mark: String,
    /// The last outcome that was written.
    pub(super) written: u64,
    /// Where to, if not to the standard output.
    pub(super) out: Option<PathBuf>,
    /// How long that was then.
    pub(super) length: u64,
    /// What was written there last.
    #[serde(default)]
    pub(super) last: Option<LastWrite>,
}

/// What was written last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct LastWrite {
    /// How many bytes.
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
    /// The note of a run of this file in this directory, or a new one.
    pub(super) fn open(dir: &Path, file: &str, mark: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| {
            format!(
                "`{}` cannot be made: name another with `--dir`",
                dir.display()
            )
        })?;
        let place = dir.join(NAME);
        let note = match fs::read(&place) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "`{}` is damaged: remove it to have all results written anew",
                    place.display()
                )
            })?,
            Err(_) => RunNote {
                file: file.to_owned(),
                mark: mark.to_owned(),
                ..RunNote::default()
            },
        };
        let ledger = Self { place, note };
        if ledger.note.mark != mark {
            return Err(ledger.of_another(dir).into());
        }
        ledger.keep()?;
        Ok(ledger)
    }

    /// Whether jobs are there, so many were ever submitted, to which the results can belong that were
    /// written.
    pub(super) fn fits(&self, submitted: u64) -> anyhow::Result<()> {
        if self.note.written > 0 && submitted == 0 {
            let dir = self.place.parent().unwrap_or(Path::new("."));
            bail!(
                "the jobs of this run are gone from `{}`, and results of it were written: restore them \
                 from a copy, or remove that directory to have all of the file sent again",
                dir.display()
            );
        }
        Ok(())
    }

    /// Puts the note on the disk.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        // A name that no other process uses: whatever happens, it replaces nothing of theirs.
        let next = format!("{}.next", std::process::id());
        let next = self.place.with_extension(next);
        let kept = serde_json::to_vec(&self.note)
            .map_err(std::io::Error::from)
            .and_then(|bytes| {
                let mut file = made_for_us(&next)?;
                file.write_all(&bytes)?;
                file.sync_data()?;
                fs::rename(&next, &self.place)
            });
        if kept.is_err() {
            // What is half written on a full disk is in the way of what frees it.
            let _left = fs::remove_file(&next);
        }
        kept.with_context(|| format!("`{}` cannot be written", self.place.display()))
    }

    fn of_another(&self, dir: &Path) -> UsageError {
        UsageError(format!(
            "`{}` holds a run of another file, `{}`, or of one that has changed since: name another \
             directory with `--dir`, or remove this one if that run is over",
            dir.display(),
            self.note.file
        ))
    }
}

/// A file that nobody else reads: what is noted names the file of jobs and where results go.
fn made_for_us(place: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(place)
}

const NAME: &str = "run.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_again_by_its_own_file_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut ledger = Checkpoint::open(dir.path(), "jobs", "one").expect("a note");
        ledger.note.written = 7;
        ledger.keep().expect("written");
        let again = Checkpoint::open(dir.path(), "jobs", "one").expect("the same");
        assert_eq!(again.note, ledger.note);
        #[cfg(unix)]
        {
            let kept = fs::metadata(dir.path().join(NAME)).expect("kept");
            let mode = std::os::unix::fs::PermissionsExt::mode(&kept.permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
        ledger.fits(9).expect("its jobs are there");
        let gone = ledger.fits(0).expect_err("they are gone");
        assert!(gone.to_string().contains("restore"), "{gone}");
        let other = Checkpoint::open(dir.path(), "jobs", "other").expect_err("another's");
        assert!(other.to_string().contains("--dir"), "{other}");
    }
}
