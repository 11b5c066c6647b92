//! Results as they come, a line each, none of them twice.
//!
//! To a file that is exact: what a crash left behind the last note is cut off first, and a file that
//! somebody else wrote to meanwhile is not touched any more. To the standard output, a pipe or a device it
//! is as exact as those can be: what was written in the instant before a crash may come again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::ledger::Ledger;
use crate::command_line::Misuse;
use crate::terminal::answer;

/// Where results go, and how far they are.
#[derive(Debug)]
pub(super) struct Results {
    ledger: Ledger,
    to: To,
}

/// Where results go.
#[derive(Debug)]
enum To {
    /// To the standard output.
    Answer,
    /// To what takes them and keeps nothing: a pipe, a device.
    Stream(File),
    /// To a file.
    Kept(File),
}

impl Results {
    /// Goes on where the ledger says.
    pub(super) fn open(out: Option<&Path>, mut ledger: Ledger) -> anyhow::Result<Self> {
        let out = out.map(whole);
        let to = match &out {
            None => To::Answer,
            Some(path) => opened(path, &mut ledger)?,
        };
        ledger.note.out = out;
        ledger.keep()?;
        Ok(Self { ledger, to })
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
        let note = &mut self.ledger.note;
        let named = || note.out.as_deref().unwrap_or(Path::new("-")).display();
        let written = match &mut self.to {
            To::Answer => return answer(lines).and_then(|()| self.noted(upto)),
            To::Stream(file) => file.write_all(lines.as_bytes()),
            To::Kept(file) => {
                if file
                    .metadata()
                    .is_ok_and(|known| known.len() != note.length)
                {
                    bail!(
                        "somebody else wrote to `{}`, and nothing is added to it: let it be, and run the \
                         same again with another `--out`",
                        named()
                    );
                }
                let written = file.write_all(lines.as_bytes());
                written.and_then(|()| file.sync_data())
            }
        };
        written.with_context(|| {
            format!(
                "`{}` cannot be written: make room, and run the same again",
                named()
            )
        })?;
        note.length += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.noted(upto)
    }

    fn noted(&mut self, upto: u64) -> anyhow::Result<()> {
        self.ledger.note.written = upto;
        self.ledger.keep()
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

/// The file, as long as it was at the last note. Another file than the last time gets all of it.
fn opened(path: &Path, ledger: &mut Ledger) -> anyhow::Result<To> {
    let unwritable = || format!("`{}` cannot be written", path.display());
    let known = std::fs::metadata(path);
    if known.as_ref().is_ok_and(|known| !known.is_file()) {
        let stream = OpenOptions::new().write(true).open(path);
        return stream.map(To::Stream).with_context(unwritable);
    }
    let note = &mut ledger.note;
    let length = known.map_or(0, |known| known.len());
    let same = note.out.as_deref() == Some(path) && length >= note.length;
    if !same {
        if length > 0 {
            return Err(Misuse(format!(
                "`{}` is there already and holds something else: remove it, or name another with `--out`",
                path.display()
            ))
            .into());
        }
        (note.written, note.length) = (0, 0);
    }
    let file = cut(path, note.length);
    file.map(To::Kept).with_context(unwritable)
}

/// The file up to this length, to be written on from there.
fn cut(path: &Path, length: u64) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(dir: &Path, out: &Path) -> anyhow::Result<Results> {
        let ledger = Ledger::open(dir, "jobs", "mark")?;
        Results::open(Some(out), ledger)
    }

    // Two lines were noted, and a third was written before the crash and not noted.
    #[test]
    fn what_was_not_noted_is_written_again_and_nothing_twice() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        let mut first = results(dir.path(), &out).expect("open");
        first.write("1\n2\n", 2).expect("written");
        drop(first);
        std::fs::write(&out, "1\n2\n3 and a half").expect("written");
        let named_otherwise = dir.path().join(".").join("out");
        let mut again = results(dir.path(), &named_otherwise).expect("the same file");
        assert_eq!(again.written(), 2);
        again.write("3\n", 3).expect("written");
        assert_eq!(std::fs::read_to_string(&out).expect("there"), "1\n2\n3\n");
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
