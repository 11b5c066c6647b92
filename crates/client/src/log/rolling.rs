//! A log file that never fills the disk.
//!
//! `outflow.log` is written to; when it is full it becomes `outflow.log.1`, what that was becomes
//! `.2`, and the last is removed. Numbers rather than dates: a clock that steps back would write over
//! a file of the same date, and a number says at once which is newer. One process writes a file: two
//! would rename it under each other.
//!
//! A write fails or is whole, as far as the system allows; after one that failed the next begins on a
//! line of its own. A file or directory that was removed or renamed meanwhile is made anew, for its
//! owner alone. A link is never followed: whoever can lay one into the directory would choose which
//! file of ours grows.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is capped in size and in number.
///
/// ```no_run
/// use outflow::log::RollingFile;
///
/// // At most 50 MB: the file itself and four older ones of 10 MB each.
/// let file = RollingFile::new("/var/log/outflow/outflow.log", 10_000_000, 5)?;
/// # Ok::<(), outflow::log::InvalidRolling>(())
/// ```
#[derive(Debug)]
pub struct RollingFile {
    path: PathBuf,
    most_bytes: u64,
    files: u32,
    open: Option<OpenFile>,
    /// Whether the last write may have left part of a line.
    torn: bool,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    length: u64,
}

impl RollingFile {
    /// A file at this path, of at most so many bytes, and at most so many files of this name with it.
    /// It is made when the first line is written.
    ///
    /// # Errors
    ///
    /// If the path names no file or a link, a file could not hold what is written at once (128 KiB),
    /// or there is not even one file.
    pub fn new(
        path: impl Into<PathBuf>,
        most_bytes: u64,
        files: u32,
    ) -> Result<Self, InvalidRolling> {
        let path = path.into();
        if path.file_name().is_none() {
            return Err(InvalidRolling::NoName);
        }
        if path.is_symlink() {
            return Err(InvalidRolling::Link);
        }
        if most_bytes < LEAST_BYTES {
            return Err(InvalidRolling::TooSmall);
        }
        if files == 0 {
            return Err(InvalidRolling::NoFile);
        }
        Ok(Self {
            path,
            most_bytes,
            files,
            open: None,
            torn: false,
        })
    }

    /// Writes whole lines: all of them into one file.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if length >= self.most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut open = self.current()?;
        if open.length > 0 && open.length.saturating_add(length).saturating_add(1) > self.most_bytes
        {
            drop(open);
            self.roll()?;
            open = self.current()?;
        }
        if self.torn {
            open.write(b"\n")?;
            self.torn = false;
        }
        if let Err(error) = open.write(lines) {
            self.torn = true;
            return Err(error);
        }
        self.open = Some(open);
        Ok(())
    }

    /// The file that is written to, opened again if it is not the one at its path any more.
    fn current(&mut self) -> io::Result<OpenFile> {
        match self.open.take() {
            Some(open) if is_at(&open.file, &self.path) => Ok(open),
            _ => open(&self.path),
        }
    }

    /// Gives every file the next number and removes the last, with those behind it from a time when
    /// there were more.
    fn roll(&self) -> io::Result<()> {
        gone_is_fine(fs::remove_file(self.numbered(self.files - 1)))?;
        for number in self.files..=u32::MAX {
            if fs::remove_file(self.numbered(number)).is_err() {
                break;
            }
        }
        for number in (1..self.files).rev() {
            let renamed = fs::rename(self.numbered(number - 1), self.numbered(number));
            gone_is_fine(renamed)?;
        }
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Write for RollingFile {
    /// Takes whole lines, all or none.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.append(lines)?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Logs tell of what a program does: only its user reads them. A directory that was there before is
/// left as its owner made it.
fn open(path: &Path) -> io::Result<OpenFile> {
    let (mut folders, mut options) = (DirBuilder::new(), OpenOptions::new());
    folders.recursive(true);
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        folders.mode(0o700);
        options.mode(0o600).custom_flags(flags);
    }
    if let Some(folder) = path.parent() {
        folders.create(folder)?;
    }
    let file = options.open(path)?;
    let length = file.metadata()?.len();
    Ok(OpenFile { file, length })
}

/// Whether this is the file at the path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (ours, there) = (
        file.metadata().map(place),
        fs::symlink_metadata(path).map(place),
    );
    ours.ok().is_some_and(|ours| Some(ours) == there.ok())
}

/// An open file can be neither removed nor renamed here.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Why there can be no such file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidRolling {
    /// The path ends in no name.
    NoName,
    /// A link is at the path.
    Link,
    /// A file could not hold what is written at once.
    TooSmall,
    /// There is not even one file.
    NoFile,
}

impl fmt::Display for InvalidRolling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "a log needs the path of a file: add a name to the directory",
            Self::Link => "a log is not written through a link: name the file that it leads to",
            Self::TooSmall => "a log file must hold at least 128 KiB: raise its size",
            Self::NoFile => "a log needs at least one file",
        })
    }
}

impl std::error::Error for InvalidRolling {}

/// What is written at once is at most one good write and one line more.
const LEAST_BYTES: u64 = 128 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    // What a full disk leaves: the beginning of a line that was never finished.
    #[test]
    fn a_line_after_half_a_line_begins_on_its_own() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("o.log");
        let mut file = RollingFile::new(&path, LEAST_BYTES, 2).expect("valid");
        file.append(b"half a li").expect("written");
        file.torn = true;
        file.append(b"whole\n").expect("written");
        file.append(b"next\n").expect("written");
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(text, "half a li\nwhole\nnext\n");
    }
}
