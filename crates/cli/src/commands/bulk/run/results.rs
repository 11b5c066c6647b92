//! Writer of results, one line each, none of them twice.
//!
//! With a file this is exact: after a crash, results after the last checkpoint are completed and not
//! repeated, and a file that another program changed stays untouched. With the standard output, a pipe or a
//! device, the last write before a crash may come again. If the reader goes away, all results of this run
//! come again, since it is unknown how many were read.

mod file;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use self::file::ResultFile;
use super::checkpoint::{Checkpoint, LastWrite};
use crate::command_line::UsageError;
use crate::terminal::{deliver, is_unread};

/// Target of results, and its checkpoint.
#[derive(Debug)]
pub(super) struct ResultWriter {
    checkpoint: Checkpoint,
    target: ResultTarget,
    /// Last outcome that an earlier run wrote.
    before: u64,
}

/// Target of results.
#[derive(Debug)]
enum ResultTarget {
    /// The standard output.
    Stdout,
    /// A pipe or a device, which stores nothing.
    Stream(File),
    /// A file.
    File(ResultFile),
}

impl ResultWriter {
    /// Opens a target and continues after the checkpoint.
    pub(super) fn open(out: Option<&Path>, mut checkpoint: Checkpoint) -> anyhow::Result<Self> {
        let out = out.map(absolute);
        let target = match &out {
            None => ResultTarget::Stdout,
            Some(path) => open_target(path, &mut checkpoint)?,
        };
        // A new target gets all results.
        if !matches!(target, ResultTarget::File(_)) && checkpoint.note.out != out {
            let note = &mut checkpoint.note;
            (note.written, note.length, note.last) = (0, 0, None);
        }
        checkpoint.note.out = out;
        checkpoint.save()?;
        let before = checkpoint.note.written;
        Ok(Self {
            checkpoint,
            target,
            before,
        })
    }

    /// Returns the position of the last written outcome.
    pub(super) const fn written(&self) -> u64 {
        self.checkpoint.note.written
    }

    /// Returns the path of the target, if it is not the standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.checkpoint.note.out.as_deref()
    }

    /// Writes the lines of all outcomes up to this position.
    pub(super) fn write(&mut self, lines: &str, upto: u64) -> anyhow::Result<()> {
        let bytes = lines.as_bytes();
        let note = &mut self.checkpoint.note;
        let written = match &mut self.target {
            ResultTarget::Stdout => deliver(bytes),
            ResultTarget::Stream(file) => file.write_all(bytes),
            ResultTarget::File(file) => match file.write(bytes, note.length) {
                Ok(true) => Ok(()),
                Ok(false) => return Err(self.foreign_error()),
                Err(why) => Err(why),
            },
        };
        match written {
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => return Err(self.reader_gone()),
            written => written.with_context(|| {
                let out = note.out.as_deref().unwrap_or(Path::new("-")).display();
                format!("cannot write `{out}`: free some space, and repeat the command")
            })?,
        }
        note.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        note.last = Some(LastWrite::from_bytes(bytes));
        note.written = upto;
        self.checkpoint.save()
    }

    /// Fails if another program wrote to the file after the last result. Call it after all known outcomes are
    /// written.
    pub(super) fn check_end(&self) -> anyhow::Result<()> {
        match &self.target {
            ResultTarget::File(file) if file.end > self.checkpoint.note.length => Err(self.foreign_error()),
            ResultTarget::File(_) | ResultTarget::Stdout | ResultTarget::Stream(_) => Ok(()),
        }
    }

    /// Fails if the reader of the results is gone. Call it after the last result.
    pub(super) async fn check_reader(&mut self) -> anyhow::Result<()> {
        let unread = match &self.target {
            ResultTarget::Stdout => is_unread(&io::stdout()).await,
            ResultTarget::Stream(file) => is_unread(file).await,
            ResultTarget::File(_) => false,
        };
        if unread && self.written() > self.before {
            return Err(self.reader_gone());
        }
        Ok(())
    }

    /// Returns the error for a closed reader. All results of this run come again next time.
    fn reader_gone(&mut self) -> anyhow::Error {
        self.checkpoint.note.written = self.before;
        let why = anyhow!(
            "the reader of the results closed the output before the end: repeat the command, and all \
             results of this run come again"
        );
        match self.checkpoint.save() {
            Ok(()) => why,
            Err(lost) => lost,
        }
    }

    fn foreign_error(&self) -> anyhow::Error {
        let out = self.path().unwrap_or(Path::new("-"));
        foreign_error(out).into()
    }
}

/// Returns the absolute path: `k.out` and `./k.out` are one file.
fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.parent();
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Opens a file as the last checkpoint left it, or a new one, which gets all results.
fn open_target(path: &Path, checkpoint: &mut Checkpoint) -> anyhow::Result<ResultTarget> {
    let cannot_write = || format!("cannot write `{}`", path.display());
    let metadata = std::fs::metadata(path);
    if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
        let stream = OpenOptions::new().write(true).open(path);
        return stream.map(ResultTarget::Stream).with_context(cannot_write);
    }
    let note = &mut checkpoint.note;
    let file = ResultFile::open(path).with_context(cannot_write)?;
    if file.end == 0 {
        (note.written, note.length, note.last) = (0, 0, None);
    } else if note.out.as_deref() != Some(path) {
        return Err(UsageError(format!(
            "`{}` exists with other content: remove it, or choose another with `--out`",
            path.display()
        ))
        .into());
    } else if !file.matches(note).with_context(cannot_write)? {
        return Err(foreign_error(path).into());
    }
    Ok(ResultTarget::File(file))
}

fn foreign_error(path: &Path) -> UsageError {
    UsageError(format!(
        "another program wrote to `{}`, which stays unchanged: move it away to write all results \
         again, or choose another with `--out`",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(dir: &Path, out: &Path) -> anyhow::Result<ResultWriter> {
        let checkpoint = Checkpoint::open(dir, "jobs", "mark")?;
        ResultWriter::open(Some(out), checkpoint)
    }

    // Two lines are in the checkpoint, and a part of the next was written before the crash.
    #[test]
    fn a_torn_result_is_completed_and_none_is_written_twice() {
        for torn in ["", "3", "3\n", "3\n4", "3\n4\n", "3\n4\n5"] {
            check_completion(torn);
        }
    }

    fn check_completion(torn: &str) {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        let mut first = results(dir.path(), &out).expect("open");
        first.write("1\n2\n", 2).expect("written");
        drop(first);
        std::fs::write(&out, format!("1\n2\n{torn}")).expect("written");
        let named_otherwise = dir.path().join(".").join("out");
        let mut again = results(dir.path(), &named_otherwise).expect("the same file");
        assert_eq!(again.written(), 2);
        again.write("3\n", 3).expect("written");
        again.write("4\n5\n", 5).expect("written");
        again.check_end().expect("the end is ours");
        let all = std::fs::read_to_string(&out).expect("there");
        assert_eq!(all, "1\n2\n3\n4\n5\n", "{torn:?}");
    }

    // Longer than ours, equally long, shorter; and ours followed by other bytes, directly or after the next
    // result.
    #[test]
    fn a_file_of_another_program_is_refused_and_stays_unchanged() {
        for theirs in ["theirs, all of it\n", "a\nb\n", "1\n", "1\n2\nb", "1\n2\n3\nb"] {
            let dir = tempfile::tempdir().expect("a folder");
            let out = dir.path().join("out");
            let mut first = results(dir.path(), &out).expect("open");
            first.write("1\n", 1).expect("written");
            first.write("2\n", 2).expect("written");
            drop(first);
            std::fs::write(&out, theirs).expect("written");
            let continued = results(dir.path(), &out).and_then(|mut again| {
                again.write("3\n", 3)?;
                again.check_end()
            });
            let refused = continued.expect_err(theirs).to_string();
            assert!(refused.contains("another program"), "{theirs}: {refused}");
            let kept = std::fs::read_to_string(&out).expect("there");
            assert_eq!(kept, theirs);
        }
    }

    #[test]
    fn a_removed_file_gets_all_results_and_an_unknown_file_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        results(dir.path(), &out)
            .and_then(|mut first| first.write("1\n", 1))
            .expect("written");
        std::fs::remove_file(&out).expect("removed");
        assert_eq!(results(dir.path(), &out).expect("open").written(), 0);
        let other = dir.path().join("other");
        std::fs::write(&other, "other content").expect("written");
        let refused = results(dir.path(), &other).expect_err("not ours");
        assert!(refused.to_string().contains("--out"), "{refused}");
    }

    #[test]
    fn bytes_of_another_program_are_not_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        let mut ours = results(dir.path(), &out).expect("open");
        ours.write("1\n", 1).expect("written");
        std::fs::write(&out, "theirs, and longer\n").expect("written");
        let refused = ours.write("2\n", 2).expect_err("not ours any more");
        assert!(refused.to_string().contains("another program"), "{refused}");
        let kept = std::fs::read_to_string(&out).expect("there");
        assert_eq!(kept, "theirs, and longer\n");
    }

    // A device has no length: it is never truncated, and accepts everything.
    #[test]
    fn a_device_accepts_results() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut results = results(dir.path(), Path::new("/dev/null")).expect("open");
        results.write("1\n", 1).expect("written");
        results.write("2\n", 2).expect("written again");
        assert_eq!(results.written(), 2);
    }
}
