//! Files and directories that only their owner can use.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for reading and writing, and follows no link.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    owner_only(OpenOptions::new().read(true).write(true)).open(path)
}

/// Opens a file that may not exist yet.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    owner_only(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)
}

/// Creates a file under a name that is not in use.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    owner_only(OpenOptions::new().read(true).write(true).create_new(true)).open(path)
}

/// Creates a directory with its parents.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

#[cfg(unix)]
fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    // Without NONBLOCK a pipe in its place would block for ever.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits().cast_signed())
}

#[cfg(not(unix))]
fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns true if an open file was removed.
#[cfg(unix)]
pub(crate) fn is_removed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.nlink() == 0)
}

/// Here an open file cannot be removed.
#[cfg(not(unix))]
pub(crate) fn is_removed(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Reads bytes at an offset; fewer only at the end of the file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], mut offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match read_part(file, rest, offset) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_part(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_part(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Writes all bytes at an offset.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes all bytes at an offset.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = bytes.get(count..).unwrap_or_default();
        offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(())
}
