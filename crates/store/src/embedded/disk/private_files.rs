//! Files and directories that only their owner can read, and that survive a power cut.
//!
//! Jobs hold the requests that they send, keys of tenants among them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Creates a directory, and missing parents, for its owner alone.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    let mut parents = missing.iter().filter_map(|dir| dir.parent());
    parents.try_for_each(sync_dir).inspect_err(|_| {
        // The next attempt must create and sync them again. A failure here does no harm: only their
        // names are not safe.
        let _ = missing.iter().try_for_each(fs::remove_dir);
    })
}

/// Opens a file for its owner alone, and creates a missing one. `SQLite` gives the journal of a database
/// the rights of the database.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Syncs the names in a directory, so that they survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let dir = if dir == Path::new("") { here } else { dir };
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Writes a file over itself, and waits until it is on the disk. A missing file stays missing.
pub(crate) fn rewrite_file(path: &Path) -> io::Result<()> {
    let Some(mut source) = if_exists(File::open(path))? else {
        return Ok(());
    };
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut piece = vec![0; REWRITE_BYTES];
    loop {
        let length = source.read(&mut piece)?;
        match piece.get(..length) {
            Some(read) if length > 0 => file.write_all(read)?,
            _ => return file.sync_all(),
        }
    }
}

/// Returns the length of a file, or 0 if it is missing.
pub(crate) fn file_length(path: &Path) -> io::Result<u64> {
    Ok(if_exists(fs::metadata(path))?.map_or(0, |file| file.len()))
}

/// A file as the system knows it, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    number: u64,
}

impl FileIdentity {
    /// Returns the identity of the file with this name, or nothing if it is missing.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        let found = if_exists(fs::metadata(path))?;
        #[cfg(unix)]
        let found = found.map(|file| Self {
            device: std::os::unix::fs::MetadataExt::dev(&file),
            number: std::os::unix::fs::MetadataExt::ino(&file),
        });
        #[cfg(not(unix))]
        let found = found.map(|_| Self {});
        Ok(found)
    }
}

/// Returns nothing if the file of a result is missing.
pub(crate) fn if_exists<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The size of a piece of a rewrite: quickly copied, and little memory.
const REWRITE_BYTES: usize = 256 * 1_024;
