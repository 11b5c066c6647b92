//! Results as they come, a line each, none of them twice.
//!
//! To a file that is exact: what a crash left behind the last note is what comes next and is not written
//! again, and a file that somebody else wrote to meanwhile is not touched any more. To the standard output, a
//! pipe or a device it is as exact as those can be: what was written in the instant before a crash may come
//! again, and so does all of a sitting whose reader went away, since nobody knows how much of it was read.

mod file;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use self::file::ResultFile;
use super::checkpoint::{Checkpoint, LastWrite};
use crate::command_line::UsageError;
use crate::terminal::{deliver, is_unread};

/// Where results go, and how far they are.
#[derive(Debug)]
pub(super) struct ResultWriter {
    ledger: Checkpoint,
    to: ResultTarget,
    /// What was written before.
    before: u64,
}

/// Where results go.
#[derive(Debug)]
enum ResultTarget {
    /// To the standard output.
    Answer,
    /// To what takes them and keeps nothing: a pipe, a device.
    Stream(File),
    /// To a file.
    Kept(ResultFile),
}

impl ResultWriter {
    /// Goes on where the ledger says.
    pub(super) fn open(out: Option<&Path>, mut ledger: Checkpoint) -> anyhow::Result<Self> {
        let out = out.map(whole);
        let to = match &out {
            None => ResultTarget::Answer,
            Some(path) => opened(path, &mut ledger)?,
        };
        // What somewhere else has is not here: it gets all of them.
        if !matches!(to, ResultTarget::Kept(_)) && ledger.note.out != out {
            let note = &mut ledger.note;
            (note.written, note.length, note.last) = (0, 0, None);
        }
        ledger.note.out = out;
        ledger.keep()?;
        let before = ledger.note.written;
        Ok(Self { ledger, to, before })
    }

    /// The last outcome that was written.
    pub(super) const fn written(&self) -> u64 {
        self.ledger.note.written
    }

    /// Where they go, if not to the standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.ledger.note.out.as_deref()
    }

    /// Writes the lines of all outcomes up to this one.
    pub(super) fn write(&mut self, lines: &str, upto: u64) -> anyhow::Result<()> {
        let bytes = lines.as_bytes();
        let note = &mut self.ledger.note;
        let written = match &mut self.to {
            ResultTarget::Answer => deliver(bytes),
            ResultTarget::Stream(file) => file.write_all(bytes),
            ResultTarget::Kept(kept) => match kept.write(bytes, note.length) {
                Ok(true) => Ok(()),
                Ok(false) => return Err(self.foreign()),
                Err(why) => Err(why),
            },
        };
        match written {
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => return Err(self.unread()),
            written => written.with_context(|| {
                let named = note.out.as_deref().unwrap_or(Path::new("-")).display();
                format!("`{named}` cannot be written: make room, and run the same again")
            })?,
        }
        note.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        note.last = Some(LastWrite::from_bytes(bytes));
        note.written = upto;
        self.ledger.keep()
    }

    /// Now that all outcomes were written that there are: whether nothing lies behind them in the file
    /// that somebody else wrote.
    pub(super) fn is_ours(&self) -> anyhow::Result<()> {
        match &self.to {
            ResultTarget::Kept(kept) if kept.end() > self.ledger.note.length => Err(self.foreign()),
            ResultTarget::Kept(_) | ResultTarget::Answer | ResultTarget::Stream(_) => Ok(()),
        }
    }

    /// Now that no more come: whether there is still somebody who reads those that were written.
    pub(super) async fn are_read(&mut self) -> anyhow::Result<()> {
        let unread = match &self.to {
            ResultTarget::Answer => is_unread(&io::stdout()).await,
            ResultTarget::Stream(file) => is_unread(file).await,
            ResultTarget::Kept(_) => false,
        };
        if unread && self.written() > self.before {
            return Err(self.unread());
        }
        Ok(())
    }

    /// The reader is gone, and with him whatever he had not read: all of it comes again.
    fn unread(&mut self) -> anyhow::Error {
        self.ledger.note.written = self.before;
        let why = anyhow!(
            "whoever read the results went away before the end: run the same again, and all of this time \
             come again"
        );
        match self.ledger.keep() {
            Ok(()) => why,
            Err(lost) => lost,
        }
    }

    fn foreign(&self) -> anyhow::Error {
        let out = self.path().unwrap_or(Path::new("-"));
        foreign(out).into()
    }
}

/// The same path from wherever it is named: `k.out` and `./k.out` are one file.
fn whole(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = whole.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, whole.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => whole,
    }
}

/// The file as it was left at the last note, or a new one, which gets all of it.
fn opened(path: &Path, ledger: &mut Checkpoint) -> anyhow::Result<ResultTarget> {
    let unwritable = || format!("`{}` cannot be written", path.display());
    let known = std::fs::metadata(path);
    if known.as_ref().is_ok_and(|known| !known.is_file()) {
        let stream = OpenOptions::new().write(true).open(path);
        return stream.map(ResultTarget::Stream).with_context(unwritable);
    }
    let note = &mut ledger.note;
    let kept = ResultFile::open(path).with_context(unwritable)?;
    if kept.end() == 0 {
        (note.written, note.length, note.last) = (0, 0, None);
    } else if note.out.as_deref() != Some(path) {
        return Err(UsageError(format!(
            "`{}` is there already and holds something else: remove it, or name another with `--out`",
            path.display()
        ))
        .into());
    } else if !kept.holds(note).with_context(unwritable)? {
        return Err(foreign(path).into());
    }
    Ok(ResultTarget::Kept(kept))
}

fn foreign(path: &Path) -> UsageError {
    UsageError(format!(
        "somebody else wrote to `{}`, and nothing of it was changed: move it away to have all results written \
         anew, or name another with `--out`",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(dir: &Path, out: &Path) -> anyhow::Result<ResultWriter> {
        let ledger = Checkpoint::open(dir, "jobs", "mark")?;
        ResultWriter::open(Some(out), ledger)
    }

    // Two lines were noted, and a part of what follows was written before the crash and not noted.
    #[test]
    fn what_was_not_noted_is_completed_and_nothing_written_twice() {
        for torn in ["", "3", "3\n", "3\n4", "3\n4\n", "3\n4\n5"] {
            completed(torn);
        }
    }

    fn completed(torn: &str) {
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
        again.is_ours().expect("nothing else is there");
        let all = std::fs::read_to_string(&out).expect("there");
        assert_eq!(all, "1\n2\n3\n4\n5\n", "{torn:?}");
    }

    // Longer than ours, of the same length, shorter; and ours with something behind it that does not come next,
    // or that goes on after all that comes.
    #[test]
    fn what_is_not_ours_is_refused_and_left_as_it_is() {
        for theirs in [
            "theirs, all of it\n",
            "a\nb\n",
            "1\n",
            "1\n2\nb",
            "1\n2\n3\nb",
        ] {
            let dir = tempfile::tempdir().expect("a folder");
            let out = dir.path().join("out");
            let mut first = results(dir.path(), &out).expect("open");
            first.write("1\n", 1).expect("written");
            first.write("2\n", 2).expect("written");
            drop(first);
            std::fs::write(&out, theirs).expect("written");
            let went_on = results(dir.path(), &out).and_then(|mut again| {
                again.write("3\n", 3)?;
                again.is_ours()
            });
            let refused = went_on.expect_err(theirs).to_string();
            assert!(refused.contains("somebody else"), "{theirs}: {refused}");
            let kept = std::fs::read_to_string(&out).expect("there");
            assert_eq!(kept, theirs);
        }
    }

    #[test]
    fn a_file_that_is_gone_gets_all_of_it_and_a_strangers_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        results(dir.path(), &out)
            .and_then(|mut first| first.write("1\n", 1))
            .expect("written");
        std::fs::remove_file(&out).expect("removed");
        assert_eq!(results(dir.path(), &out).expect("open").written(), 0);
        let other = dir.path().join("other");
        std::fs::write(&other, "somebody's").expect("written");
        let refused = results(dir.path(), &other).expect_err("not ours");
        assert!(refused.to_string().contains("--out"), "{refused}");
    }

    #[test]
    fn what_somebody_else_wrote_is_not_written_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        let mut ours = results(dir.path(), &out).expect("open");
        ours.write("1\n", 1).expect("written");
        std::fs::write(&out, "theirs, and longer\n").expect("written");
        let refused = ours.write("2\n", 2).expect_err("not ours any more");
        assert!(refused.to_string().contains("somebody else"), "{refused}");
        let kept = std::fs::read_to_string(&out).expect("there");
        assert_eq!(kept, "theirs, and longer\n");
    }

    // A device has no length: nothing is cut off it, and it takes everything.
    #[test]
    fn a_device_takes_results_as_an_output_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut results = results(dir.path(), Path::new("/dev/null")).expect("open");
        results.write("1\n", 1).expect("written");
        results.write("2\n", 2).expect("written again");
        assert_eq!(results.written(), 2);
    }
}
