//! Size-limited log file.
//!
//! A full `outflow.log` becomes `outflow.log.1`, that one `.2`, and the last is removed. Numbers
//! rather than dates: a clock that steps back would overwrite a file of that date, and a number
//! shows the order. Only one process may write a file: two would rename it under each other.
//!
//! A write fails or is complete, as far as the system allows; after a failed write the next one
//! starts a new line. A file or directory that was removed or renamed is created again, for its
//! owner only. Links are never followed: a user who can place one in the directory would choose the
//! file that grows.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// File limited in size and number.
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
    max_bytes: u64,
    files: u32,
    open: Option<OpenFile>,
    /// True if the last write may have left part of a line.
    is_torn: bool,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    length: u64,
}

impl RollingFile {
    /// Returns a file with a maximum size and a maximum number of files. It is created with the
    /// first line.
    ///
    /// # Errors
    ///
    /// If the path names no file or a link, the size is below one write (128 KiB), or the number of
    /// files is zero.
    pub fn new(path: impl Into<PathBuf>, max_bytes: u64, files: u32) -> Result<Self, InvalidRolling> {
        let path = path.into();
        if path.file_name().is_none() {
            return Err(InvalidRolling::NoName);
        }
        if path.is_symlink() {
            return Err(InvalidRolling::Link);
        }
        if max_bytes < MIN_BYTES {
            return Err(InvalidRolling::TooSmall);
        }
        if files == 0 {
            return Err(InvalidRolling::NoFile);
        }
        Ok(Self {
            path,
            max_bytes,
            files,
            open: None,
            is_torn: false,
        })
    }

    /// Writes complete lines, all into one file.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if length >= self.max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut open = self.current()?;
        if open.length > 0 && open.length.saturating_add(length).saturating_add(1) > self.max_bytes {
            drop(open);
            self.roll()?;
            open = self.current()?;
        }
        if self.is_torn {
            open.write(b"\n")?;
            self.is_torn = false;
        }
        if let Err(error) = open.write(lines) {
            self.is_torn = true;
            return Err(error);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Returns the open file; reopens it if the path no longer leads to it.
    fn current(&mut self) -> io::Result<OpenFile> {
        match self.open.take() {
            Some(open) if is_at(&open.file, &self.path) => Ok(open),
            _ => open(&self.path),
        }
    }

    /// Renumbers all files and removes the last one, with leftovers of a larger maximum.
    fn roll(&self) -> io::Result<()> {
        ignore_missing(fs::remove_file(self.numbered_path(self.files - 1)))?;
        for number in self.files..=u32::MAX {
            if fs::remove_file(self.numbered_path(number)).is_err() {
                break;
            }
        }
        for number in (1..self.files).rev() {
            let renamed = fs::rename(self.numbered_path(number - 1), self.numbered_path(number));
            ignore_missing(renamed)?;
        }
        Ok(())
    }

    fn numbered_path(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Write for RollingFile {
    /// Writes complete lines, all or none.
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

/// Opens the file for its user only, because logs show what a program does. An existing directory
/// keeps its rights.
fn open(path: &Path) -> io::Result<OpenFile> {
    let (mut dirs, mut options) = (DirBuilder::new(), OpenOptions::new());
    dirs.recursive(true);
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        dirs.mode(0o700);
        options.mode(0o600).custom_flags(flags);
    }
    if let Some(folder) = path.parent() {
        dirs.create(folder)?;
    }
    let file = options.open(path)?;
    let length = file.metadata()?.len();
    Ok(OpenFile { file, length })
}

/// Returns true if this is the file at the path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    let (ours, at_path) = (file.metadata().map(inode), fs::symlink_metadata(path).map(inode));
    ours.ok().is_some_and(|ours| Some(ours) == at_path.ok())
}

/// Here an open file can be neither removed nor renamed.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

outflow_core::error_enum! {
    /// Error of the settings of a rolling file.
    pub enum InvalidRolling {
        /// The path has no file name.
        NoName = "the log path is a directory: add a file name",
        /// The path is a link.
        Link = "the log path is a link: set the path of the file itself",
        /// The size is below one write.
        TooSmall = "the log file size is too small: set 128 KiB or more",
        /// The number of files is zero.
        NoFile = "the number of log files is zero: set 1 or more",
    }
}

/// One write is at most a batch and one line.
const MIN_BYTES: u64 = 128 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    // A full disk leaves the start of an unfinished line.
    #[test]
    fn a_line_after_a_torn_line_starts_a_new_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("o.log");
        let mut file = RollingFile::new(&path, MIN_BYTES, 2).expect("valid");
        file.append(b"half a li").expect("written");
        file.is_torn = true;
        file.append(b"whole\n").expect("written");
        file.append(b"next\n").expect("written");
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(text, "half a li\nwhole\nnext\n");
    }
}
