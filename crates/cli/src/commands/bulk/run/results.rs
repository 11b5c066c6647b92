//! Results as they come, a line each, none of them twice.
//!
//! To a file that is exact: what a crash left behind the last note is cut off first. To the standard
//! output it is as exact as a pipe can be: what was written in the instant before a crash may come again.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::ledger::Ledger;
use crate::command_line::Misuse;
use crate::terminal::answer;

/// Where results go, and how far they are.
#[derive(Debug)]
pub(super) struct Results {
    ledger: Ledger,
    file: Option<(PathBuf, File)>,
}

impl Results {
    /// Goes on where the ledger says.
    pub(super) fn open(out: Option<&Path>, mut ledger: Ledger) -> anyhow::Result<Self> {
        let file = match out {
            None => None,
            Some(path) => Some((path.to_owned(), continued(path, &mut ledger)?)),
        };
        ledger.note.out = out.map(Path::to_owned);
        ledger.keep()?;
        Ok(Self { ledger, file })
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
        match &mut self.file {
            None => answer(lines)?,
            Some((path, file)) => {
                let written = file
                    .write_all(lines.as_bytes())
                    .and_then(|()| file.sync_data());
                written.with_context(|| {
                    format!(
                        "`{}` cannot be written: make room, and run the same again",
                        path.display()
                    )
                })?;
                let added = u64::try_from(lines.len()).unwrap_or(u64::MAX);
                self.ledger.note.length += added;
            }
        }
        self.ledger.note.written = upto;
        self.ledger.keep()
    }
}

/// The file, as long as it was at the last note. Another file than the last time gets all of it.
fn continued(path: &Path, ledger: &mut Ledger) -> anyhow::Result<File> {
    let note = &mut ledger.note;
    let length = std::fs::metadata(path).map_or(0, |known| known.len());
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
    let length = note.length;
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .and_then(|mut file| {
            file.set_len(length)?;
            file.seek(SeekFrom::Start(length))?;
            Ok(file)
        });
    opened.with_context(|| format!("`{}` cannot be written", path.display()))
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
        let mut again = results(dir.path(), &out).expect("open");
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
}
